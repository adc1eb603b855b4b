"""Sparsemax: p = (x - tau)+ with sum p = 1, by Michelot's finite algorithm on block maxima.

The excess s(tau) = sum (z - tau)+ is convex and decreasing, so a Newton step from the left never
overshoots, and the step that drops no score is exact. Scores are taken as z = x - max throughout:
far from zero x - 1 may equal x.
"""

import numpy as np

from sparsemap_np._kernels._columns import Descent
from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._lanes import column, first_state
from sparsemap_np._kernels._lockstep import lockstep_rows
from sparsemap_np._kernels._scan import block_of, mean_below
from sparsemap_np._kernels._twosum import split_sum


@element
def _excess(x, m, tau):
    w = (x - m) - tau
    return w if w > 0 else type(w)(0)


@fast
def _mass(x, m, tau):
    """Sum and number of the positive excesses."""
    T = type(x[0])
    zero = T(0)
    one = T(1)
    s = zero
    c = zero
    for j in range(x.size):
        w = _excess(x[j], m, tau)
        s += w
        c += one if w > zero else zero
    return s, c


@scalar
def _row_mass(x, m, tau, bmax):
    """``_mass`` over the blocks that reach above tau, summed in float64."""
    s = 0.0
    c = 0.0
    for b in range(bmax.size):
        if _excess(bmax[b], m, tau) > 0:
            bs, bc = _mass(block_of(x, b), m, tau)
            s += bs
            c += bc
    return s, c


@scalar
def _coarse(bmax, m, tau):
    """A lower bound of tau: the threshold of a subset of the scores."""
    T = type(bmax[0])
    for _ in range(8):
        s, c = _mass(bmax, m, tau)
        step = (s - T(1)) / c
        if not step > T(1e-3):
            break
        tau = tau + step
    return tau


@scalar
def _mean_bound(mean, count, span):
    """A lower bound of tau: all of the mass is at least what the mean of all scores would hold."""
    share = span / count
    return min(mean - share, -share)


# Bounds by blocks are rounded: step back by more than their error.


@scalar
def _block_start(bmax, m):
    """A lower bound of tau by the block maxima, and which share of them lies above it."""
    T = type(m)
    tau = T(-1)
    if bmax.size == 1:
        return tau, 1.0
    tau = max(tau, _coarse(bmax, m, tau) - T(1e-5))
    return tau, _mass(bmax, m, tau)[1] / bmax.size


@scalar
def _mean_start(mean, count, bmax):
    """A lower bound of tau by the mean, for a row of one block or more."""
    T = type(bmax[0])
    return T(_mean_bound(mean, count, 1.0)) - (T(1e-5) if bmax.size > 1 else T(0))


@scalar
def threshold(x, top, bmax):
    """Threshold of x - max as (hi, lo): hi in the row's dtype, lo the exact remainder."""
    m = type(x[0])(top)
    tau, share = _block_start(bmax, m)
    # Where most blocks lie below the bound, another reading of the row brings nothing.
    if share > 0.5:
        mean, count = mean_below(x, top)
        tau = max(tau, _mean_start(mean, count, bmax))
    return _descend(x, m, tau, bmax)


@scalar
def _descend(x, m, tau, bmax):
    """`threshold` from a lower bound of it."""
    T = type(x[0])
    lo = 0.0
    before = -1.0
    last = T(-np.inf)
    step = 0.0
    for _ in range(x.size + 4):
        s, c = _row_mass(x, m, tau, bmax)
        lo = (s - 1.0) / c
        # The same scores twice: the step is exact. But a sum far above 1 carries its rounding.
        if (c == before and s < 2.0) or T(tau + lo) == tau:
            break
        # A right step may be rounded past scores that belong to the support: no more than that.
        if lo < 0.0 and T(tau + lo) <= last:
            return split_sum(last, step, T(0))
        if lo > 0.0 and T(tau + lo) == last:
            break
        before = c
        last = tau
        step = lo
        tau = T(tau + lo)
    return split_sum(tau, lo, T(0))


@element
def excess_above(x, m, hi, lo):
    """Distance of a score above the threshold hi + lo, or zero."""
    w = ((x - m) - hi) - lo
    return w if w > 0 else type(w)(0)


@scalar
def _write(x, m, hi, lo, p):
    """The probabilities of a stretch of scores."""
    for j in range(x.size):
        p[j] = excess_above(x[j], m, hi, lo)


@scalar
def sparsemax_row(x, top, par, bmax, room, p):
    """Probabilities of one finite-maximum row; returns ln_1(p of the largest score)."""
    T = type(x[0])
    m = T(top)
    hi, lo = threshold(x, top, bmax)
    for b in range(bmax.size):
        block = block_of(p, b)
        if excess_above(bmax[b], m, hi, T(lo)) > 0:
            _write(block_of(x, b), m, hi, T(lo), block)
        else:
            for j in range(block.size):
                block[j] = 0
    return -(hi + lo) - 1.0


sparsemax_descent = Descent(1.0, _block_start, _mean_start, _descend, _write)


@fast
def _lane_mass(z, tau, s, c):
    T = type(z[0])
    for r in range(z.size):
        w = _excess(z[r], T(0), tau[r])
        s[r] += w
        c[r] += T(1) if w > T(0) else T(0)


@fast
def _lane_steps(tau, lo, s, c, before, going, last):
    """One Newton step in every lane that is not done; how many go on. Clears the sums.

    ``last`` is where a lane came from, less than -1 at the start.
    """
    T = type(tau[0])
    left = T(0)
    for r in range(tau.size):
        step = (s[r] - T(1)) / c[r]
        moved = tau[r] + step
        on = going[r] > T(0)
        done = ((c[r] == before[r]) & (s[r] < T(2))) | (moved == tau[r])
        # As in ``threshold``: a right step may be rounded past scores that belong to the support.
        past = on & (not done) & (step < T(0)) & (moved <= last[r])
        lo[r] = step if on & (not past) else lo[r]
        on = on & (not (done | past | ((step > T(0)) & (moved == last[r]))))
        here = tau[r]
        tau[r] = last[r] if past else (moved if on else here)
        last[r] = here if on else last[r]
        before[r] = c[r]
        going[r] = T(1) if on else T(0)
        left += going[r]
        s[r] = T(0)
        c[r] = T(0)
    return left


@scalar
def _lane_write(z, hi, lo):
    T = type(z[0])
    for r in range(z.size):
        z[r] = excess_above(z[r], T(0), hi[r], lo[r])


@scalar
def sparsemax_lanes(work, d, n, par, index, mean, count, lifts):
    """Like ``sparsemax_row`` for the columns of a tile."""
    T = type(work[0])
    own = first_state(d)
    tau = column(work, own, n)
    lo = column(work, own + 1, n)
    s = column(work, own + 2, n)
    c = column(work, own + 3, n)
    before = column(work, own + 4, n)
    going = column(work, own + 5, n)
    last = column(work, own + 6, n)
    for r in range(n):
        last[r] = T(-2)
        tau[r] = max(T(-1), min(mean[r], T(0)) - T(1) / count[r])
        s[r] = T(0)
        c[r] = T(0)
        lo[r] = T(0)
        before[r] = T(-1)
        going[r] = T(1)
    for _ in range(d + 4):
        for j in range(d):
            _lane_mass(column(work, j, n), tau, s, c)
        if _lane_steps(tau, lo, s, c, before, going, last) == T(0):
            break
    for r in range(n):
        tau[r], rest = split_sum(np.float64(tau[r]), np.float64(lo[r]), tau[r])
        lo[r] = rest
        lifts[r] = -(np.float64(tau[r]) + rest) - 1.0
    for j in range(d):
        _lane_write(column(work, j, n), tau, lo)


@scalar
def _lockstep_read(x, m, tau, r, s, last, c):
    s[r], c[r] = _mass(x, m, tau)


@scalar
def _lockstep_steps(tau, lo, s, last, c, before, going, k):
    return _lane_steps(tau, lo, s, c, before, going, last)


sparsemax_lockstep = lockstep_rows(
    "sparsemax", 1.0, _mean_bound, _lockstep_read, _lockstep_steps, _write
)
