"""Short rows side by side, one row to a lane of the vectors.

A row of ten fills one vector and a quarter, and costs ten times its arithmetic in calls and
remainders. Here up to ``LANES`` rows are laid out as columns, scores of one class next to each
other, and a solver steps all of them at once; a row that is done keeps its state while the others
go on, so that what it gets does not depend on its company.
"""

import numpy as np

from sparsemap_np._kernels._compile import element, referring, row_function, scalar, sums
from sparsemap_np._kernels._scan import special_row
from sparsemap_np._kernels._views import stretch

LANES = 128
SHORT = 32
"""Longest row that is solved in a lane."""
_TAKEN = 3
_STATES = _TAKEN + 21


@scalar
def lanes_size(d):
    """Length of the scratch of a tile: scores, room for as many, and the state of a lane.

    Of the columns after the first 2 d, three are taken: maximum, mean and count.
    """
    return (2 * d + _STATES) * LANES


@referring
def column(work, j, n):
    """Number j of each row, lane by lane: its scores first, then room for as many others."""
    return stretch(work, j * LANES, n)


@scalar
def first_state(d):
    """The first of the 21 columns that a solver may use for what it knows of a lane.

    Count on from here: a number written out as the column would be a type of its own to Numba,
    and ``column`` compiled anew for each.
    """
    return 2 * d + _TAKEN


@referring
def narrow_column(narrow, d, j, n):
    """Like ``column``, as float32: ``narrow`` is a view of the scratch, however wide."""
    wide = narrow.size // lanes_size(d)
    return stretch(narrow, j * LANES * wide, n)


@sums
def _fold(z, top, total):
    for r in range(z.size):
        v = z[r]
        top[r] = v if v > top[r] else top[r]
        total[r] += v


@sums
def _subtract(z, top):
    for r in range(z.size):
        z[r] -= top[r]


@scalar
def _load(X, index, n, work, top, mean, count):
    """Lay out the rows minus their maximum; return which have no solution of the usual kind."""
    d = X.shape[1]
    T = type(work[0])
    for r in range(n):
        x = stretch(X, index[r] * d, d)
        for j in range(d):
            work[j * LANES + r] = x[j]
    first = stretch(work, 0, n)
    for r in range(n):
        top[r] = first[r]
        mean[r] = first[r]
    for j in range(1, d):
        _fold(column(work, j, n), top, mean)
    strange = 0
    for r in range(n):
        count[r] = d
        # A finite sum vouches for the row; one that is not may have overflowed, or met -inf.
        if not np.isfinite(mean[r]):
            there = 0
            missing = 0
            total = 0.0
            for j in range(d):
                v = work[j * LANES + r]
                missing += v != v
                if v > -np.inf:
                    there += 1
                    total += np.float64(v)
            if missing > 0:
                top[r] = np.nan
            strange += not np.isfinite(top[r])
            count[r] = max(there, 1)
            mean[r] = total
        mean[r] = min(mean[r] / count[r] - top[r], T(0))
    return strange


def lanes_rows(name, solve, raw=False):
    """Solve up to ``LANES`` rows together: what ``rows_in_turn`` is for long rows.

    The solver is handed the scores minus the row's maximum or, ``raw``, as they are.
    """

    @row_function(f"{name}.lanes")
    def rows(X, index, n, par, n_iter, work, P, place, refs, lifts):
        d = X.shape[1]
        top = column(work, 2 * d, n)
        mean = column(work, 2 * d + 1, n)
        count = column(work, 2 * d + 2, n)
        strange = _load(X, index, n, work, top, mean, count)
        for r in range(n):
            refs[r] = np.float64(top[r])
        if strange > 0:
            for r in range(n):
                if not np.isfinite(top[r]):  # any finite row will do in its place
                    for j in range(d):
                        work[j * LANES + r] = 0
                    top[r] = 0
                    mean[r] = 0
        if not raw:
            for j in range(d):
                _subtract(column(work, j, n), top)
        solve(work, d, n, par, index, mean, count, lifts)
        for r in range(n):
            p = stretch(P, place[r] * d, d)
            if np.isfinite(refs[r]):
                for j in range(d):
                    p[j] = work[j * LANES + r]
            else:  # P may be X itself: this row must not have been written to
                lifts[r] = np.nan
                special_row(stretch(X, index[r] * d, d), refs[r], p)

    return rows


def rows_in_turn(name, row):
    """Solve rows one after another with a row function: what ``lanes_rows`` is for short rows."""

    @row_function(f"{name}.in_turn", element)
    def rows(X, index, n, par, n_iter, work, P, place, refs, lifts):
        d = X.shape[1]
        for r in range(n):
            i = index[r]
            x = stretch(X, i * d, d)
            p = stretch(P, place[r] * d, d)
            refs[r], lifts[r] = row(x, par[i if par.size > 1 else 0], n_iter, work, p)

    return rows
