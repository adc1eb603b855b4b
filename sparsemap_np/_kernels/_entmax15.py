"""1.5-entmax: p = ((z - tau) / 2)+^2 with sum p = 1.

The norm ``sqrt(sum w^2)``, w = (z - tau)+ / 2, is convex in tau: Newton's step on it leads to the
left of the threshold, from either side. From the left Halley's step, which knows how scores drop
out, goes further. The quadratic of the active scores (exact, once no score is dropped) ends it.
"""

import math

import numpy as np

from sparsemap_np._kernels._columns import Descent
from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._lanes import column, first_state
from sparsemap_np._kernels._lockstep import lockstep_rows
from sparsemap_np._kernels._scan import block_of, mean_below
from sparsemap_np._kernels._sparsemax import excess_above
from sparsemap_np._kernels._twosum import split_sum


@element
def scaled_excess(x, m, tau, c):
    """``c`` times the distance above the threshold, or zero: what is squared and sums to one."""
    w = c * ((x - m) - tau)
    return w if w > 0 else type(w)(0)


@fast
def _mass(x, m, tau, scale):
    """Sum, sum of squares and number of the positive excesses."""
    T = type(x[0])
    zero = T(0)
    one = T(1)
    s1 = zero
    s2 = zero
    c = zero
    for j in range(x.size):
        w = scaled_excess(x[j], m, tau, scale)
        s1 += w
        s2 += w * w
        c += one if w > zero else zero
    return s1, s2, c


@scalar
def _row_mass(x, m, tau, scale, bmax):
    """``_mass`` over the blocks that reach above tau, summed in float64."""
    s1 = 0.0
    s2 = 0.0
    c = 0.0
    for b in range(bmax.size):
        if scaled_excess(bmax[b], m, tau, scale) > 0:
            b1, b2, bc = _mass(block_of(x, b), m, tau, scale)
            s1 += b1
            s2 += b2
            c += bc
    return s1, s2, c


@element
def _safe_step(s1, s2, span):
    """Newton's step on the norm: it ends left of the threshold, or on it."""
    return span * (s2 - math.sqrt(s2)) / s1


@element
def _long_step(s1, s2, c, tau, span):
    """Halley's step on the norm, from the left; it may lead a little past the threshold."""
    T = type(s2)
    root = math.sqrt(s2)
    square = s1 * s1
    bent = T(2) * root * square - (root - T(1)) * (s2 * c - square)
    least = T(0.5) * root * square  # no more than four of Newton's steps
    step = T(2) * span * s2 * (root - T(1)) * s1 / (bent if bent > least else least)
    most = T(-0.9) * tau  # the largest score stays above
    return step if step < most else most


@element
def _near(s2):
    """Whether few scores may still drop out, so that the quadratic leads closest."""
    T = type(s2)
    return abs(s2 - T(1)) < T(0.3)


@scalar
def _coarse(bmax, m, tau, scale):
    """A lower bound of tau, the threshold of a subset of the scores, and how many lie above."""
    T = type(bmax[0])
    span = T(1) / scale
    for _ in range(8):
        s1, s2, c = _mass(bmax, m, tau, scale)
        step = _safe_step(s1, s2, span)
        bound = tau + step
        if abs(step) < T(1e-3):
            break
        tau = tau + _long_step(s1, s2, c, tau, span) if s2 > T(1) else bound
    return bound, c


@scalar
def _mean_bound(mean, count, span):
    """A lower bound of tau: the mean of the w is at most the root of the mean of their squares."""
    reach = span / math.sqrt(count)
    return min(mean - reach, -reach)


# Bounds by blocks are rounded: step back by more than their error.


@scalar
def _block_start(bmax, m, scale):
    """A lower bound of tau by the block maxima, and which share of them lies above it."""
    T = type(m)
    tau = T(-1.0 / scale)
    if bmax.size == 1:
        return tau, 1.0
    bound, above = _coarse(bmax, m, tau, scale)
    return max(tau, bound - T(1e-5)), above / bmax.size


@scalar
def _mean_start(mean, count, bmax, span):
    """A lower bound of tau by the mean, for a row of one block or more."""
    T = type(bmax[0])
    return T(_mean_bound(mean, count, span)) - (T(1e-5) if bmax.size > 1 else T(0))


@scalar
def root_of_squares(x, top, scale, bmax):
    """Tau of x - max with ``sum (scale (z - tau)+)^2 = 1``, as (hi, lo).

    hi is in the row's dtype, lo the exact remainder.
    """
    m = type(x[0])(top)
    tau, share = _block_start(bmax, m, scale)
    # Where most blocks lie below the bound, another reading of the row brings nothing.
    if share > 0.5:
        mean, count = mean_below(x, top)
        tau = max(tau, _mean_start(mean, count, bmax, 1.0 / scale))
    return _descend(x, m, tau, scale, bmax)


@scalar
def _descend(x, m, tau, scale, bmax):
    """`root_of_squares` from a lower bound of it."""
    T = type(x[0])
    span = 1.0 / scale
    lo = 0.0
    before = -1.0
    solved = False
    for k in range(200):
        s1, s2, c = _row_mass(x, m, tau, scale, bmax)
        discriminant = max(s1 * s1 - c * (s2 - 1.0), 0.0)
        lo = span * (s2 - 1.0) / (s1 + math.sqrt(discriminant))
        # The quadratic of these very scores led here: what it says now is the last correction.
        # But a sum far above 1 carries its rounding.
        if (solved and c == before and s2 < 2.0) or T(tau + lo) == tau:
            break
        # The quadratic overshoots when scores drop out on its way; Newton's step never does.
        solved = (c == before or _near(s2)) and k < 20
        if not solved:
            far = s2 > 1.0 and k < 20
            lo = _long_step(s1, s2, c, tau, span) if far else _safe_step(s1, s2, span)
        before = c
        moved = T(tau + lo)
        if moved == tau:
            break
        tau = moved
    return split_sum(tau, lo, T(0))


@scalar
def _write(x, m, hi, lo, p):
    """The probabilities of a stretch of scores."""
    T = type(hi)
    for j in range(x.size):
        w = T(0.5) * excess_above(x[j], m, hi, lo)
        p[j] = w * w


@scalar
def entmax15_row(x, top, par, bmax, room, p):
    """Probabilities of one finite-maximum row; returns ln_{1/2}(p of the largest score)."""
    T = type(x[0])
    m = T(top)
    hi, lo = root_of_squares(x, top, T(0.5), bmax)
    for b in range(bmax.size):
        block = block_of(p, b)
        if excess_above(bmax[b], m, hi, T(lo)) > 0:
            _write(block_of(x, b), m, hi, T(lo), block)
        else:
            for j in range(block.size):
                block[j] = 0
    return -(hi + lo) - 2.0


@scalar
def _half_start(bmax, m):
    return _block_start(bmax, m, type(m)(0.5))


@scalar
def _half_mean_start(mean, count, bmax):
    return _mean_start(mean, count, bmax, 2.0)


@scalar
def _half_descend(x, m, tau, bmax):
    return _descend(x, m, tau, type(m)(0.5), bmax)


entmax15_descent = Descent(2.0, _half_start, _half_mean_start, _half_descend, _write)


@fast
def _lane_mass(z, tau, scale, s1, s2, c):
    T = type(z[0])
    for r in range(z.size):
        w = scaled_excess(z[r], T(0), tau[r], scale)
        s1[r] += w
        s2[r] += w * w
        c[r] += T(1) if w > T(0) else T(0)


@fast
def _lane_steps(tau, lo, s1, s2, c, before, going, span, safe):
    """One step in every lane that is not done; how many go on. Clears the sums.

    ``going`` is 2 where the quadratic of the very scores led to tau, 1 elsewhere, 0 when done.
    """
    T = type(tau[0])
    left = T(0)
    for r in range(tau.size):
        on = going[r] > T(0)
        root = math.sqrt(max(s1[r] * s1[r] - c[r] * (s2[r] - T(1)), T(0)))
        exact = span * (s2[r] - T(1)) / (s1[r] + root)
        same = c[r] == before[r]
        done = ((going[r] > T(1)) & same & (s2[r] < T(2))) | (tau[r] + exact == tau[r])
        # The quadratic overshoots when scores drop out on its way; Newton's step never does.
        solved = (same | _near(s2[r])) & safe
        far = _long_step(s1[r], s2[r], c[r], tau[r], span)
        step = far if safe & (s2[r] > T(1)) else _safe_step(s1[r], s2[r], span)
        step = exact if done | solved else step
        moved = tau[r] + step
        done = done | (moved == tau[r])
        lo[r] = step if on else lo[r]
        on = on & (not done)
        tau[r] = moved if on else tau[r]
        before[r] = c[r]
        going[r] = (T(2) if solved else T(1)) if on else T(0)
        left += going[r]
        s1[r] = T(0)
        s2[r] = T(0)
        c[r] = T(0)
    return left


@scalar
def _lane_write(z, hi, lo):
    T = type(z[0])
    for r in range(z.size):
        w = T(0.5) * excess_above(z[r], T(0), hi[r], lo[r])
        z[r] = w * w


@scalar
def lane_roots_of_squares(work, d, n, scale, mean, count, tau, lo):
    """Like ``root_of_squares`` for the columns of a tile: thresholds tau + lo."""
    T = type(work[0])
    span = T(1) / scale
    own = first_state(d)
    s1 = column(work, own, n)
    s2 = column(work, own + 1, n)
    c = column(work, own + 2, n)
    before = column(work, own + 3, n)
    going = column(work, own + 4, n)
    for r in range(n):
        tau[r] = max(-span, min(mean[r], T(0)) - span / math.sqrt(count[r]))
        s1[r] = T(0)
        s2[r] = T(0)
        c[r] = T(0)
        lo[r] = T(0)
        before[r] = T(-1)
        going[r] = T(1)
    for k in range(200):
        for j in range(d):
            _lane_mass(column(work, j, n), tau, scale, s1, s2, c)
        if _lane_steps(tau, lo, s1, s2, c, before, going, span, k < 20) == T(0):
            break
    for r in range(n):
        tau[r], rest = split_sum(np.float64(tau[r]), np.float64(lo[r]), tau[r])
        lo[r] = rest


@scalar
def entmax15_lanes(work, d, n, par, index, mean, count, lifts):
    """Like ``entmax15_row`` for the columns of a tile."""
    own = first_state(d)
    tau = column(work, own + 5, n)
    lo = column(work, own + 6, n)
    lane_roots_of_squares(work, d, n, type(work[0])(0.5), mean, count, tau, lo)
    for r in range(n):
        lifts[r] = -(np.float64(tau[r]) + np.float64(lo[r])) - 2.0
    for j in range(d):
        _lane_write(column(work, j, n), tau, lo)


@scalar
def _lockstep_read(x, m, tau, r, s1, s2, c):
    s1[r], s2[r], c[r] = _mass(x, m, tau, type(tau)(0.5))


@scalar
def _lockstep_steps(tau, lo, s1, s2, c, before, going, k):
    return _lane_steps(tau, lo, s1, s2, c, before, going, type(tau[0])(2), k < 20)


entmax15_lockstep = lockstep_rows(
    "entmax15", 2.0, _mean_bound, _lockstep_read, _lockstep_steps, _write
)
