"""normmax: p = q / sum q with q_i = (z_i - tau)+^(1/(a-1)), sum q^a = 1.

q^a is an entmax of the scaled scores, with exponent b = (a - 1) / a in (0, 1), so the same solver
serves; at a = inf it is the sparsemax.
"""

import math

import numpy as np

from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._compile import element, fast, polynomial, referring, scalar
from sparsemap_np._kernels._double import add, exp_double, log_double, multiply, reciprocal
from sparsemap_np._kernels._entmax15 import root_of_squares
from sparsemap_np._kernels._powers import power_of
from sparsemap_np._kernels._scan import BLOCK, LINE, ROOM, block_at, block_of, fill
from sparsemap_np._kernels._sparsemax import excess_above, threshold
from sparsemap_np._kernels._tsallis import (
    CLOSELY,
    ROUGHLY,
    blocks_of_copies,
    copies,
    descend,
    is_short,
    scatter,
    shortlist,
    upper_bound,
    whole_lines,
)
from sparsemap_np._kernels._twosum import product_error
from sparsemap_np._kernels._views import stretch

# Newton's steps in double-double: one or two, or more where a base is about an ulp.
_MOST_REFINEMENTS = 10


@element
def relative(z, rate, rest, exponent):
    """``(1 + z (rate + rest))+^exponent`` with the product's rounding made good."""
    v = z * rate
    z = z if v > -1.0 else 0.0
    error = product_error(z, rate, v if v > -1.0 else 0.0) + z * rest
    return power_of(v, error, exponent)


@element
def moments(z, rate, exponent):
    """``u^exponent`` and the four powers below it, where u = 1 + z rate is positive."""
    r, below = relative(z, rate, 0.0, exponent)
    v = z * rate
    inverse = 1.0 / (1.0 + (v if v > -1.0 else 0.0))
    second = below * inverse
    third = second * inverse
    return r, below, second, third, third * inverse


@fast
def _moments(x, top, rate, exponent):
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    s4 = 0.0
    for j in range(x.size):
        r0, r1, r2, r3, r4 = moments(np.float64(x[j]) - top, rate, exponent)
        s0 += r0
        s1 += r1
        s2 += r2
        s3 += r3
        s4 += r4
    return s0, s1, s2, s3, s4


@scalar
def _row_moments(x, top, rate, exponent, bmax):
    """Sums of ``moments`` over the blocks that reach above the threshold."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    s4 = 0.0
    for k in range(bmax.size):
        if (np.float64(bmax[k]) - top) * rate > -1.0:
            r0, r1, r2, r3, r4 = _moments(block_of(x, k), top, rate, exponent)
            s0 += r0
            s1 += r1
            s2 += r2
            s3 += r3
            s4 += r4
    return s0, s1, s2, s3, s4


SHIFT = 4e-6
"""How far above the root the precise steps start, in units of the root over the exponent: then no
score enters the support on the way, and what leaves it shows in the last moment."""


@polynomial
def level_change(f, s0, s1, s2, s3, s4, exponent):
    """The root h of ``sum (u + h)^exponent = s0 / f`` by Taylor's series, and its next term.

    The series diverges where a base u is not larger than h: Newton's step, of a convex sum, is
    safe from there.
    """
    h1 = exponent * s1
    h2 = 0.5 * exponent * (exponent - 1.0) * s2
    h3 = (exponent * (exponent - 1.0) * (exponent - 2.0) / 6.0) * s3
    gap = s0 * ((1.0 - f) / f)
    newton = gap / h1
    h = newton
    for _ in range(3):
        h = (gap - h * h * (h2 + h3 * h)) / h1
    next_term = exponent * (exponent - 1.0) * (exponent - 2.0) * (exponent - 3.0) / 24.0
    error = abs(next_term) * s4 * (h * h) * (h * h) / s0
    converges = abs(newton) * s4 <= 0.25 * s3
    return (h if converges else newton), (error if converges else 1.0)


@polynomial
def changed_rate(rate, h):
    """``rate / (1 + h)`` as (hi, lo)."""
    rest = -rate * (h / (1.0 + h))
    hi = rate + rest
    return hi, (rate - hi) + rest


@element
def far_enough(h, error, exponent, tol):
    """Whether a step leads to the root: one up, unless tiny, may have passed a score."""
    return (exponent * abs(h) <= 1e-9) | ((h < 0.0) & (error <= tol))


@element
def beside_a_score(s3, s4):
    """Whether the last moments tell of a score at the threshold, or within 1e-6 above."""
    return s4 > 1e6 * s3


@scalar
def _precise_rate(x, top, rate, b, bmax):
    """The rate 1 / (max - tau) as (hi, lo), from the residual of sum q^a = 1.

    Unlike entmax, where the largest coordinate makes up for it, every q_i moves with tau: half a
    unit in its last place would show in all of them. Also the sum of the q_i / q_max, nearly, and
    whether tau is ``beside_a_score``.
    """
    close = False
    s1 = 1.0
    tol = 1e-12 if x.itemsize < 8 else 1e-17
    rate /= 1.0 + SHIFT * b
    rest = 0.0
    for _ in range(60):
        s0, s1, s2, s3, s4 = _row_moments(x, top, rate, 1.0 / b, bmax)
        f = s0 * math.exp(-math.log(rate) / b)
        h, error = level_change(f, s0, s1, s2, s3, s4, 1.0 / b)
        rate, rest = changed_rate(rate, h)
        close = beside_a_score(s3, s4)
        if far_enough(h, error, 1.0 / b, tol):
            break
    return rate, rest, s1, close


@scalar
def _write_relative(x, top, rate, rest, exponent, p):
    """Write q_i / q_max in float64 arithmetic; return their sum."""
    T = type(p[0])
    for j in range(x.size):
        r, _ = relative(np.float64(x[j]) - top, rate, rest, exponent)
        p[j] = T(r)
    # A sum in the loop that writes would be taken in another order where p is x itself.
    return _sum(p)


@fast
def _sum(p):
    total = 0.0
    for j in range(p.size):
        total += np.float64(p[j])
    return total


@scalar
def hangs_on_last_bits(base, total, alpha, close, narrow):
    """Whether the smallest coordinate would show an error of one unit in the threshold.

    It is ``base``^(1/(a-1)) of the largest; near tau that slope is unbounded for a > 2. ``close``
    tells whether tau is ``beside_a_score``: then steps in float64 do not serve float32 either.
    """
    if narrow or alpha <= 2.0:
        return close and alpha > 2.0
    return base <= 1e-15 or base ** (1.0 / (alpha - 1.0)) > 2.0 * (alpha - 1.0) * base * total


@scalar
def _lowest_above(x, bound):
    """The lowest score above the bound, in float64. As in ``largest``, integers are compared."""
    sign = np.int64(0x7FFFFFFFFFFFFFFF)
    none = np.int64(0x7FF0000000000000)
    low = none
    for j in range(x.size):
        bits = np.float64(x[j]).view(np.int64)
        key = np.int64(bits ^ np.int64(np.int64(bits >> np.int64(63)) & sign))
        key = key if x[j] > bound else none
        low = key if key < low else low
    return np.int64(low ^ np.int64(np.int64(low >> np.int64(63)) & sign)).view(np.float64)


@element
def base_of(z, rate, rest):
    """``1 + z (rate + rest)``, z finite."""
    return (1.0 + z * rate) + (product_error(z, rate, z * rate) + z * rest)


@scalar
def _least_base(x, top, rate, rest, bmax):
    """(z - tau) / (max - tau) of the lowest score that is not clearly below tau."""
    T = type(x[0])
    bound = T(top - (1.0 + 1e-15) / rate)
    low = np.inf
    for k in range(bmax.size):
        if bmax[k] > bound:
            low = min(low, _lowest_above(block_of(x, k), bound))
    return base_of(low - top, rate, rest)


@element
def _base_double(x, top, high, low):
    """``(x - top) + (high + low)`` with nothing rounded away, for a finite score."""
    zh, zl = add(np.float64(x), 0.0, -top, 0.0)
    return add(zh, zl, high, low)


@element
def _power_double(bh, bl, eh, el):
    """``(bh + bl)^(eh + el)``; 0 where two doubles do not hold it."""
    lh, ll = log_double(bh, bl)
    lh, ll = multiply(lh, ll, eh, el)
    known = lh > -700.0
    qh, ql = exp_double(lh if known else 0.0, ll if known else 0.0)
    return (qh if known else 0.0), (ql if known else 0.0)


TERMS = 4 * LINE
"""Length of the scratch of ``refine``."""

_SIDE_BY_SIDE = 8
"""Doubles of the widest vectors: a remainder would go one by one, each at the price of them all."""


@referring
def _terms_in(room):
    """Room at the end of a row's scratch, which is of whole doubles there."""
    return stretch(room, room.size - 2 * TERMS, 2 * TERMS).view(np.float64)


@scalar
def _supported(x, top, high, low, terms):
    """Note which of up to a line of scores are above tau, and their bases in two parts.

    Returns their number and, below 0, the base of the one next below, -inf if there is none.
    """
    scores = stretch(terms, 0, LINE)
    bases = stretch(terms, LINE, LINE)
    rests = stretch(terms, 2 * LINE, LINE)
    count = 0
    outside = -np.inf
    for j in range(x.size):
        if x[j] > -np.inf:
            bh, bl = _base_double(x[j], top, high, low)
            if bh > 1e-300:
                scores[count] = x[j]
                bases[count] = bh
                rests[count] = bl
                count += 1
            elif bh <= 0.0:
                outside = max(outside, bh)
    return count, outside


@scalar
def _powers_double(terms, count, eh, el):
    """Powers of the noted bases; their rests take the place of those of the bases."""
    whole = count + (-count) % _SIDE_BY_SIDE
    bases = stretch(terms, LINE, whole)
    rests = stretch(terms, 2 * LINE, whole)
    powers = stretch(terms, 3 * LINE, whole)
    for j in range(count, whole):
        bases[j] = 1.0
        rests[j] = 0.0
    for j in range(whole):
        qh, ql = _power_double(bases[j], rests[j], eh, el)
        powers[j] = qh
        rests[j] = ql


@scalar
def _residual(x, tau, eh, el, terms):
    """``sum q^a - 1`` at a score tau."""
    fh, fl = -1.0, 0.0
    for start in range(0, x.size, LINE):
        part = stretch(x, start, min(LINE, x.size - start))
        count, _ = _supported(part, tau, 0.0, 0.0, terms)
        _powers_double(terms, count, eh, el)
        for j in range(count):
            fh, fl = add(fh, fl, terms[3 * LINE + j], terms[2 * LINE + j])
    return fh + fl


@scalar
def refine(x, top, level, alpha, p, terms):
    """Solve sum q^a = 1 for max - tau in double-double, and write q; returns their sum.

    The score next to tau is asked last: it is in the support only if the sum is below 1 there.
    """
    high = level
    low = 0.0
    inverse, rest = reciprocal(alpha - 1.0)
    eh, el = add(1.0, 0.0, inverse, rest)
    lowest = top
    for _ in range(_MOST_REFINEMENTS):
        fh, fl = -1.0, 0.0
        slope = 0.0
        curvature = 0.0
        least = np.inf
        outside = -np.inf
        for start in range(0, x.size, LINE):
            part = stretch(x, start, min(LINE, x.size - start))
            count, beside = _supported(part, top, high, low, terms)
            outside = max(outside, beside)
            _powers_double(terms, count, eh, el)
            for j in range(count):
                bh = terms[LINE + j]
                qh = terms[3 * LINE + j]
                if qh > 0.0:
                    fh, fl = add(fh, fl, qh, terms[2 * LINE + j])
                    slope += eh * qh / bh
                    curvature += eh * (eh - 1.0) * qh / (bh * bh)
                    lowest = terms[j] if bh < least else lowest
                    least = min(least, bh)
        step = -fh / slope
        high, low = add(high, low, step, 0.0)
        # What Newton's step leaves, beside the smallest base; and whether a score came in.
        if step * step * curvature < 1e-18 * least * slope and outside + step < 0.0:
            break
    if least < 1e-6 * high and _residual(x, lowest, eh, el, terms) > -1e-28:
        high, low = add(top, 0.0, -lowest, 0.0)
    total = 0.0
    for j in range(x.size):
        bh = 0.0
        if x[j] > -np.inf:
            bh, _ = _base_double(x[j], top, high, low)
        p[j] = math.exp(math.log(bh) * inverse) if bh > 0.0 else 0.0
        total += p[j]
    return total


@scalar
def normmax_row(x, top, alpha, bmax, room, p):
    """Probabilities of one finite-maximum row; returns max - tau."""
    T = type(x[0])
    if alpha == 1.0:
        argmax_row(x, top, alpha, bmax, room, p)
        return 1.0
    if alpha == np.inf:
        return _uniform_on_sparsemax_support(x, top, bmax, p)
    if alpha == 2.0:
        return _root_of_squares(x, top, bmax, p)
    b = (alpha - 1.0) / alpha
    m = T(top)
    t = upper_bound(x, m, b, 1.0, 1.0 / b, bmax)
    d = x.size
    if d > ROOM:
        t = descend(x, m, b, 1.0, 1.0 / b, t, bmax, ROUGHLY)
    if d <= ROOM or is_short(x, T(0), m, b, 1.0, t, bmax):
        # Scores as they are: minus the maximum they would be rounded, and for alpha > 2 the slope
        # of a probability is unbounded.
        t, bound, count = shortlist(x, T(0), m, b, 1.0, 1.0 / b, t, bmax, room)
        z, r = copies(room, d)
        size = whole_lines(count)
        z = stretch(z, 0, size)
        open_blocks = blocks_of_copies(room, d, size)
        fill(open_blocks, m)
        lift, total = _solve(z, m, alpha, b, t, open_blocks, room, stretch(r, 0, size))
        scatter(x, T(0), bound, 1.0 / total, bmax, r, count, p)
        return lift
    t = descend(x, m, b, 1.0, 1.0 / b, t, bmax, CLOSELY)
    lift, total = _solve(x, m, alpha, b, t, bmax, room, p)
    scale = T(1.0 / total)
    for j in range(d):
        p[j] *= scale
    return lift


@scalar
def _solve(x, top, alpha, b, t, bmax, room, r):
    """Write q_i / q_max; return max - tau, and their sum."""
    T = type(x[0])
    top = np.float64(top)
    rate, rest, total, close = _precise_rate(x, top, 1.0 / (1.0 + b * t), b, bmax)
    lift = 1.0 / rate - rest / (rate * rate)
    narrow = x.itemsize < 8
    base = 1.0 if narrow or alpha <= 2.0 else _least_base(x, top, rate, rest, bmax)
    if hangs_on_last_bits(base, total, alpha, close, narrow):
        return lift, refine(x, top, lift, alpha, r, _terms_in(room))
    exponent = 1.0 / (alpha - 1.0)
    total = 0.0
    for start in range(0, x.size, BLOCK):
        part = block_at(r, start)
        if (np.float64(bmax[start // BLOCK]) - top) * rate > -1.0:
            total += _write_relative(block_at(x, start), top, rate, rest, exponent, part)
        else:
            fill(part, T(0))
    return lift, total


@scalar
def _root_of_squares(x, top, bmax, p):
    """At alpha = 2 q_i = (z_i - tau)+ with sum q^2 = 1: a 1.5-entmax of twice the scores."""
    T = type(x[0])
    m = T(top)
    hi, lo = root_of_squares(x, top, T(1), bmax)
    total = 0.0
    for b in range(bmax.size):
        block = block_of(p, b)
        if excess_above(bmax[b], m, hi, T(lo)) > 0:
            total += _write_excess(block_of(x, b), m, hi, T(lo), block)
        else:
            fill(block, T(0))
    scale = T(1.0 / total)
    for j in range(x.size):
        p[j] *= scale
    return -(hi + lo)


@scalar
def _write_excess(x, m, hi, lo, p):
    for j in range(x.size):
        p[j] = excess_above(x[j], m, hi, lo)
    return _sum(p)


@scalar
def _uniform_on_sparsemax_support(x, top, bmax, p):
    T = type(x[0])
    m = T(top)
    hi, lo = threshold(x, top, bmax)
    rest = T(lo)
    count = 0
    for j in range(x.size):
        inside = ((x[j] - m) - hi) - rest > 0
        p[j] = T(1) if inside else T(0)
        count += inside
    share = T(1.0 / count)
    for j in range(x.size):
        p[j] *= share
    return -(hi + lo)
