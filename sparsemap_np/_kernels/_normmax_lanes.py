"""The solver of ``_normmax.py`` for short rows side by side: the same steps, a row to a lane.

Rows with alpha 2 share lanes in the way of ``_entmax15.py``; those with 1 and infinity, which have
solvers of their own, go one by one.
"""

import numpy as np

from sparsemap_np._kernels._compile import fast, polynomial, referring, row_function, scalar
from sparsemap_np._kernels._entmax15 import lane_roots_of_squares
from sparsemap_np._kernels._lanes import (
    LANES,
    column,
    first_state,
    lanes_rows,
    narrow_column,
    rows_in_turn,
)
from sparsemap_np._kernels._normmax import (
    SHIFT,
    TERMS,
    base_of,
    beside_a_score,
    changed_rate,
    far_enough,
    hangs_on_last_bits,
    level_change,
    moments,
    refine,
    relative,
)
from sparsemap_np._kernels._powers import exp_of_negative, expm1_of_negative, log_of_positive
from sparsemap_np._kernels._scan import fill
from sparsemap_np._kernels._sparsemax import excess_above
from sparsemap_np._kernels._tsallis_lanes import descend_lanes
from sparsemap_np._kernels._views import stretch


@referring
def _wide_column(work, j, n):
    """Like ``column``, as float64: in the place of columns j and, in a float32 tile, j + 1."""
    return stretch(work.view(np.float64), j * LANES * work.itemsize // 8, n)


@fast
def _lane_moments(x, top, rate, exponent, s0, s1, s2, s3, s4):
    for r in range(x.size):
        z = np.float64(x[r]) - np.float64(top[r])
        r0, r1, r2, r3, r4 = moments(z, rate[r], exponent[r])
        s0[r] += r0
        s1[r] += r1
        s2[r] += r2
        s3[r] += r3
        s4[r] += r4


@polynomial
def _power_of_rate(rate, exponent):
    """``rate^-exponent``, rate >= 1."""
    return exp_of_negative(-exponent * log_of_positive(rate))


@scalar
def _lane_rates(rate, rest, exponent, s0, s1, s2, s3, s4, going, tol):
    """The step of ``_precise_rate`` in every lane that is not done; how many go on.

    A lane that is done has 0 in ``going``, or -1 where the threshold is ``beside_a_score``.
    """
    left = 0
    for r in range(rate.size):
        on = going[r] > 0.0
        f = s0[r] * _power_of_rate(rate[r], exponent[r])
        h, error = level_change(f, s0[r], s1[r], s2[r], s3[r], s4[r], exponent[r])
        hi, lo = changed_rate(rate[r], h)
        rate[r] = hi if on else rate[r]
        rest[r] = lo if on else rest[r]
        state = -1.0 if beside_a_score(s3[r], s4[r]) else 0.0
        state = state if far_enough(h, error, exponent[r], tol) else 1.0
        going[r] = state if on else going[r]
        left += 1 if going[r] > 0.0 else 0
    return left


@scalar
def _lane_relatives(x, top, rate, rest, exponent, total, p):
    """Write q_i / q_max; add them up."""
    T = type(p[0])
    for r in range(x.size):
        z = np.float64(x[r]) - np.float64(top[r])
        q, _ = relative(z, rate[r], rest[r], exponent[r])
        p[r] = T(q)
        total[r] += np.float64(p[r])


@scalar
def _lane_shares(q, total, p):
    T = type(p[0])
    for r in range(q.size):
        p[r] = T(np.float64(q[r]) / total[r])


@scalar
def _lane_least(x, top, rate, rest, least):
    """The least base of the scores that are not clearly below tau, so far."""
    for r in range(x.size):
        base = base_of(max(np.float64(x[r]) - np.float64(top[r]), -1e9), rate[r], rest[r])
        base = base if base > -1e-15 else 1.0
        least[r] = base if base < least[r] else least[r]


@scalar
def _refine_doubtful(work, d, n, par, index, top, total, least, going, lifts):
    """Solve again, one by one, the rows that would show the last bits of their threshold."""
    own = first_state(d)
    x = stretch(work, own * LANES, d)
    q = stretch(work, (own + 1) * LANES, d)
    terms = _wide_column(work, own + 2, TERMS)
    narrow = work.itemsize < 8
    for r in range(n):
        alpha = par[index[r] if par.size > 1 else 0]
        close = going[r] < 0.0
        if alpha <= 2.0 or narrow and not close:
            continue
        if hangs_on_last_bits(least[r], total[r], alpha, close, narrow):
            for j in range(d):
                x[j] = work[j * LANES + r]
            total[r] = refine(x, np.float64(top[r]), lifts[r], alpha, q, terms)
            for j in range(d):
                work[(d + j) * LANES + r] = q[j]


@scalar
def _lanes(work, d, n, par, index, mean, count, lifts):
    """Like ``normmax_row`` for the columns of a tile, which hold the scores as they are."""
    own = first_state(d)
    top = column(work, 2 * d, n)
    narrow = work.view(np.float32)
    wide = LANES * (work.itemsize // 4)
    t32 = narrow_column(narrow, d, own, n)
    b32 = narrow_column(narrow, d, own + 1, n)
    rate32 = narrow_column(narrow, d, own + 2, n)
    exponent32 = narrow_column(narrow, d, own + 3, n)
    r0 = narrow_column(narrow, d, own + 4, n)
    r1 = narrow_column(narrow, d, own + 5, n)
    going32 = narrow_column(narrow, d, own + 6, n)
    beta32 = narrow_column(narrow, d, own + 7, n)
    for r in range(n):
        alpha = par[index[r] if par.size > 1 else 0]
        b = (alpha - 1.0) / alpha
        b32[r] = b
        exponent32[r] = 1.0 / b
        beta32[r] = 1
        flat = expm1_of_negative(-b * log_of_positive(np.float64(count[r]))) / b
        t32[r] = min(0.0, flat - np.float64(mean[r]) / b)
    z32 = stretch(narrow, d * wide, d * LANES)
    for j in range(d):
        x = column(work, j, n)
        z = column(z32, j, n)
        for r in range(n):
            z[r] = x[r] - top[r]
    descend_lanes(z32, d, n, t32, b32, beta32, rate32, exponent32, r0, r1, going32)
    # The columns of the steps so far serve again, as float64: the rates first, while t is there.
    rate = _wide_column(work, own + 7, n)
    going = _wide_column(work, own + 9, n)
    for r in range(n):
        alpha = par[index[r] if par.size > 1 else 0]
        b = (alpha - 1.0) / alpha
        rate[r] = 1.0 / ((1.0 + b * np.float64(t32[r])) * (1.0 + SHIFT * b))
    rest = _wide_column(work, own, n)
    exponent = _wide_column(work, own + 2, n)
    for r in range(n):
        alpha = par[index[r] if par.size > 1 else 0]
        exponent[r] = alpha / (alpha - 1.0)
    s0 = _wide_column(work, own + 11, n)
    s1 = _wide_column(work, own + 13, n)
    s2 = _wide_column(work, own + 15, n)
    s3 = _wide_column(work, own + 17, n)
    s4 = _wide_column(work, own + 19, n)
    fill(going, 1.0)
    tol = 1e-12 if work.itemsize < 8 else 1e-17
    for _ in range(60):
        for s in (s0, s1, s2, s3, s4):
            fill(s, 0.0)
        for j in range(d):
            _lane_moments(column(work, j, n), top, rate, exponent, s0, s1, s2, s3, s4)
        if _lane_rates(rate, rest, exponent, s0, s1, s2, s3, s4, going, tol) == 0:
            break
    for r in range(n):
        exponent[r] = 1.0 / (par[index[r] if par.size > 1 else 0] - 1.0)
        lifts[r] = 1.0 / rate[r] - rest[r] / (rate[r] * rate[r])
    total = s0
    fill(total, 0.0)
    for j in range(d):
        q = column(work, d + j, n)
        _lane_relatives(column(work, j, n), top, rate, rest, exponent, total, q)
    least = s1
    if work.itemsize == 8:
        fill(least, 1.0)
        for j in range(d):
            _lane_least(column(work, j, n), top, rate, rest, least)
    _refine_doubtful(work, d, n, par, index, top, total, least, going, lifts)
    for j in range(d):
        _lane_shares(column(work, d + j, n), total, column(work, j, n))


@scalar
def _lane_excess(z, tau, lo, total):
    T = type(z[0])
    for r in range(z.size):
        z[r] = excess_above(z[r], T(0), tau[r], lo[r])
        total[r] += np.float64(z[r])


@scalar
def _square_lanes(work, d, n, par, index, mean, count, lifts):
    """``_lanes`` for alpha = 2, where the columns hold the scores minus the maximum."""
    own = first_state(d)
    tau = column(work, own + 5, n)
    lo = column(work, own + 6, n)
    total = _wide_column(work, own + 7, n)
    lane_roots_of_squares(work, d, n, type(work[0])(1), mean, count, tau, lo)
    for r in range(n):
        lifts[r] = -(np.float64(tau[r]) + np.float64(lo[r]))
        total[r] = 0.0
    for j in range(d):
        _lane_excess(column(work, j, n), tau, lo, total)
    for j in range(d):
        _lane_shares(column(work, j, n), total, column(work, j, n))


_together = lanes_rows("normmax", _lanes, raw=True)
_squares_together = lanes_rows("normmax_squares", _square_lanes)


@scalar
def _way(alpha):
    """0: one by one, 1: in lanes, 2: in lanes by squares."""
    if alpha == 1.0 or alpha == np.inf:
        return 0
    return 2 if alpha == 2.0 else 1


def normmax_lanes(row):
    """Like ``rows_in_turn`` of ``row``, normmax of one row, for up to ``LANES`` short rows."""
    in_turn = rows_in_turn("normmax.short", row)

    @row_function("normmax_lanes")
    def rows(X, index, n, par, n_iter, work, P, place, refs, lifts):
        step = 1 if par.size > 1 else 0
        start = 0
        while start < n:
            way = _way(par[index[start] * step])
            stop = start + 1
            while stop < n and _way(par[index[stop] * step]) == way:
                stop += 1
            m = stop - start
            i = stretch(index, start, m)
            to = stretch(place, start, m)
            ref = stretch(refs, start, m)
            lift = stretch(lifts, start, m)
            if way == 0:
                in_turn(X, i, m, par, n_iter, work, P, to, ref, lift)
            elif way == 1:
                _together(X, i, m, par, n_iter, work, P, to, ref, lift)
            else:
                _squares_together(X, i, m, par, n_iter, work, P, to, ref, lift)
            start = stop

    return rows
