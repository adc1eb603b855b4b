"""Rows of one block in lockstep.

One reading of 128 scores takes less time than the horizontal sums and the division that follow it
and on which the next reading waits. Here up to ``TOGETHER`` rows are read in turn, each where it
lies, and then one vector steps them all; a row that is done is not read again, so that what it
gets does not depend on its company.
"""

import numpy as np

from sparsemap_np._kernels._compile import referring, row_function, scalar
from sparsemap_np._kernels._scan import mean_below, scan, special_row
from sparsemap_np._kernels._twosum import split_sum
from sparsemap_np._kernels._views import stretch

TOGETHER = 16
_STATES = 9


@scalar
def lockstep_size(d):
    """Length of the scratch."""
    return _STATES * TOGETHER


@referring
def _state(work, j, n):
    return stretch(work, j * TOGETHER, n)


def lockstep_rows(name, span, start, read, steps, write):
    """What ``rows_in_turn`` is, for rows of at most a block.

    ``start(mean, count, span)`` is where a row begins, ``read(x, m, tau, r, s1, s2, c)`` notes a
    row's sums at tau (``s2``, if it leaves that alone, is below any tau at first), ``steps`` is
    that of the lanes, ``write(x, m, hi, lo, p)`` the answer.
    """

    @row_function(f"{name}.lockstep")
    def rows(X, index, n, par, n_iter, work, P, place, refs, lifts):
        d = X.shape[1]
        T = type(work[0])
        top = _state(work, 0, n)
        tau = _state(work, 1, n)
        lo = _state(work, 2, n)
        s1 = _state(work, 3, n)
        s2 = _state(work, 4, n)
        c = _state(work, 5, n)
        before = _state(work, 6, n)
        going = _state(work, 7, n)
        for r in range(n):
            x = stretch(X, index[r] * d, d)
            refs[r] = scan(x, stretch(work, 8 * TOGETHER + r, 1))
            usual = np.isfinite(refs[r])
            top[r] = T(refs[r]) if usual else T(0)
            tau[r] = T(-span)
            lo[r] = T(0)
            s1[r] = T(1)
            s2[r] = T(-2 * span)
            c[r] = T(1)
            before[r] = T(-1)
            going[r] = T(1) if usual else T(0)
            if usual:
                mean, count = mean_below(x, refs[r])
                tau[r] = max(tau[r], T(start(mean, count, span)))
        for k in range(200):
            for r in range(n):
                if going[r] > T(0):
                    read(stretch(X, index[r] * d, d), top[r], tau[r], r, s1, s2, c)
                else:  # no NaN where a step is thrown away
                    s1[r] = T(1)
                    s2[r] = T(1)
                    c[r] = T(1)
            if steps(tau, lo, s1, s2, c, before, going, k) == T(0):
                break
        for r in range(n):
            x = stretch(X, index[r] * d, d)
            p = stretch(P, place[r] * d, d)
            if np.isfinite(refs[r]):
                hi, rest = split_sum(np.float64(tau[r]), np.float64(lo[r]), T(0))
                lifts[r] = -(np.float64(hi) + rest) - span
                write(x, top[r], hi, T(rest), p)
            else:
                lifts[r] = np.nan
                special_row(x, refs[r], p)

    return rows
