"""1.5-entmax: p = ((z - tau) / 2)+^2 with sum p = 1.

Newton on the norm ``sqrt(sum w^2)``, w = (z - tau)+ / 2, which is convex in tau: from the left it
never overshoots. The quadratic of the active scores (exact, once no score is dropped) ends it.
"""

import math

from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._scan import block_of, mean_below
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


@scalar
def _coarse(bmax, m, tau, scale):
    """A lower bound of tau: the threshold of a subset of the scores."""
    T = type(bmax[0])
    for _ in range(8):
        s1, s2, c = _mass(bmax, m, tau, scale)
        step = (s2 - math.sqrt(s2)) / (scale * s1)
        if not step > T(1e-3):
            break
        tau = tau + step
    return tau


@scalar
def root_of_squares(x, top, scale, bmax):
    """Tau of x - max with ``sum (scale (z - tau)+)^2 = 1``, as (hi, lo).

    hi is in the row's dtype, lo the exact remainder.
    """
    T = type(x[0])
    m = T(top)
    span = 1.0 / scale
    # The mean of the w is at most the root of the mean of their squares, 1 / sqrt(d).
    mean, count = mean_below(x, top)
    reach = span / math.sqrt(count)
    tau = T(max(-span, min(mean - reach, -reach)))
    if bmax.size > 1:
        # Bounds are rounded: step back by more than their error.
        tau = max(T(-span), max(tau, _coarse(bmax, m, T(-span), scale)) - T(1e-5))
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
        # The quadratic overshoots when scores drop out on its way; the norm's step never does.
        solved = c == before and k < 20
        if not solved:
            lo = span * (s2 - math.sqrt(s2)) / s1
        before = c
        moved = T(tau + lo)
        if moved == tau:
            break
        tau = moved
    return split_sum(tau, lo, T(0))


@scalar
def _write(x, m, hi, lo, p):
    T = type(hi)
    for j in range(x.size):
        w = T(0.5) * (((x[j] - m) - hi) - lo)
        w = w if w > 0 else T(0)
        p[j] = w * w


@scalar
def entmax15_row(x, top, par, bmax, room, p):
    """Probabilities of one finite-maximum row; returns ln_{1/2}(p of the largest score)."""
    T = type(x[0])
    m = T(top)
    hi, lo = root_of_squares(x, top, T(0.5), bmax)
    for b in range(bmax.size):
        block = block_of(p, b)
        if scaled_excess(bmax[b], m, hi, T(0.5)) > 0:
            _write(block_of(x, b), m, hi, T(lo), block)
        else:
            for j in range(block.size):
                block[j] = 0
    return -(hi + lo) - 2.0
