"""alpha-entmax for alpha > 2, where the power 1/b, b = alpha - 1 > 1, has an infinite slope at 0.

No resolution in the threshold is a resolution in p: at alpha = 100 a probability of 0.01 sits
1e-198 above it. So the support is found first, exactly: a score s is in it where the normaliser
``F(s) = sum (b (x_i - s))+^(1/b)`` is below 1. Then the unknown is y, the smallest probability in
the support: p_i = (b (x_i - x_low) + y^b)^(1/b) is a norm of (its gap, y), hence convex in y, and
Newton descends to the root without overshooting. F is the sum of the p_i at y = 0, so that one
loop serves both. Gaps are taken between scores, never between their rounded distances from the
maximum.

An error of F is an error of p of the same size: powers good to five digits decide wherever F is
not nearly 1, and lead y close to the root. The last step and the result are in the row's
precision. The threshold of the maxima of 16 parts of the row, as good as powers read off the bits
can tell, is a bound below which nothing is looked at again; few scores lie above it.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, fast, referring, row_function, scalar
from sparsemap_np._kernels._powers import quick_root, root_of, rough_root
from sparsemap_np._kernels._scan import BLOCK, ROOM, STRIP, below, block_count, block_of, fill
from sparsemap_np._kernels._views import stretch

_EXACT_INDEX = 1 << 24
"""Positions are kept in the row's own type, which holds whole numbers up to here."""

_MANY = 2048
"""From this length on, 16 parts of the block maxima tell as much as 16 parts of the scores."""


@scalar
def _fold(x, y, w):
    for j in range(y.size):
        w[j] = x[j] if x[j] > y[j] else y[j]


@scalar
def _parts(x, w):
    """Leave in w[:16] the maxima of the scores whose places are equal modulo 16."""
    n = np.int64(x.size)
    y = x
    while True:
        half = (n + 2 * STRIP - 1) // (2 * STRIP) * STRIP
        if n > half:
            _fold(y, stretch(y, half, n - half), w)
        for j in range(max(n - half, 0), min(n, half)):
            w[j] = y[j]
        for j in range(n, half):
            w[j] = -np.inf
        n = half
        y = w
        if n == STRIP:
            break


@fast
def _rough_normaliser(m, s, b, exponent):
    """F(s) over a strip, read off the bits: at most 7% above the truth.

    Bases that float32 does not hold in full count nothing: their bits are no logarithm.
    """
    f = np.float32(0)
    for j in range(m.size):
        q = np.float32(b * (m[j] - s))
        known = q > np.float32(1.2e-38)
        r = rough_root(q if known else np.float32(1), exponent)
        f += r if known else np.float32(0)
    return f


@scalar
def _bound(x, top, b, w):
    """A score, or less, that is surely not in the support. Leaves the parts' maxima in w."""
    T = type(x[0])
    _parts(x, w)
    bound = below(x, top, 1.001 / b)
    m = stretch(w, 0, STRIP)
    for j in range(STRIP):
        if m[j] > bound and _rough_normaliser(m, m[j], T(b), np.float32(1.0 / b)) > 1.08:
            bound = m[j]
    return bound


@scalar
def _take(x, start, stop, step, bound, z, place, count):
    """Append the scores above the bound, and where they stood; return the new number of them."""
    T = type(x[0])
    n = np.uint64(count)  # an unsigned index needs no test for a negative one
    for j in range(start, stop, step):
        z[n] = x[j]
        place[n] = T(j)
        n += np.uint64(x[j] > bound)
    return np.int64(n)


@scalar
def _gather(x, bound, m, bmax, z, place):
    """Copy the scores above the bound; return their number, or -1 if there may be no room."""
    count = np.int64(0)
    d = np.int64(x.size)
    if d < _MANY:
        for c in range(STRIP):
            if m[c] > bound:
                count = _take(x, np.int64(c), d, np.int64(STRIP), bound, z, place, count)
        return count
    open_blocks = 0
    for k in range(bmax.size):
        open_blocks += bmax[k] > bound
    if open_blocks * BLOCK > min(d, ROOM) or d > _EXACT_INDEX:
        return np.int64(-1)
    for k in range(bmax.size):
        if bmax[k] > bound:
            start = np.int64(k * BLOCK)
            stop = min(start + BLOCK, d)
            count = _take(x, start, stop, np.int64(1), bound, z, place, count)
    return count


@element
def quick_base_root(q, exponent):
    """``quick_root``; a number that nobody believes where float32 cannot hold the base."""
    R = np.float32
    return quick_root(q, exponent) if q > R(1e-36) else R(1e20)


@element
def doubtful(f):
    """Whether F from quick powers cannot tell if it is below 1."""
    T = type(f)
    return (abs(f - T(1)) <= T(2e-5) * (f + T(1))) | (f >= T(1e19))


@element
def base_and_place(x, low, b, yb):
    """``b (x - low) + y^b`` in the type of y^b where x > low, else 1; and whether it is so."""
    gap = x - low
    inside = gap > type(low)(0)
    R = type(yb)
    return (R(b * gap) + yb if inside else R(1)), inside, gap == type(low)(0)


def _strip(name, root):
    """Sums of p and dp/dy over a strip of scores, in the precision of ``exponent``."""

    @row_function(name, fast)
    def strip(z, low, b, y, yb, w, exponent):
        R = type(exponent)
        total = R(0)
        slope = R(0)
        for j in range(STRIP):
            q, inside, tie = base_and_place(z[j], low, b, yb)
            p = root(q, exponent)
            # y^b may have underflowed: the lowest score has p = y as it is.
            total += p if inside else (y if tie else R(0))
            slope += w * p / q if inside else (R(1) if tie else R(0))
        return total, slope

    return strip


@referring
def strip_at(x, start, tail):
    """16 numbers of x from ``start`` on; what the row lacks of them is -inf, in ``tail``."""
    if start + STRIP <= x.size:
        return stretch(x, start, STRIP)
    fill(tail, type(x[0])(-np.inf))
    for j in range(start, x.size):
        tail[j - start] = x[j]
    return stretch(tail, 0, STRIP)


@scalar
def _power(y, e):
    """``y^e``; what differs from ``y**e`` in the last place does not matter to p."""
    return y if e == 1.0 else (math.exp(e * math.log(y)) if y > 0.0 else 0.0)


def _over_row(name, strip):
    """``strip`` over the blocks that reach up to ``low``, summed in float64."""

    @row_function(name)
    def over_row(x, bmax, low, b, y, exponent, tail):
        T = type(low)
        R = type(exponent)
        w = _power(y, b - 1.0)
        total = 0.0
        slope = 0.0
        for k in range(bmax.size):
            if bmax[k] >= low:
                block = block_of(x, k)
                for start in range(0, block.size, STRIP):
                    z = strip_at(block, start, tail)
                    s0, s1 = strip(z, low, T(b), R(y), R(w * y), R(w), exponent)
                    total += s0
                    slope += s1
        return total, slope

    return over_row


_quick_sums = _over_row("quick_sums", _strip("quick_strip", quick_base_root))
_exact_sums = _over_row("exact_sums", _strip("exact_strip", root_of))


@scalar
def _nearest(x, bmax, lo, hi, guess):
    """The score strictly between lo and hi that is nearest to the guess, or hi."""
    below = lo
    above = hi
    for k in range(bmax.size):
        if bmax[k] > lo:
            block = block_of(x, k)
            for j in range(block.size):
                v = block[j]
                below = v if (v > below) & (v <= guess) & (v < hi) else below
                above = v if (v < above) & (v > guess) & (v > lo) else above
    if below == lo:
        return above
    return above if above < hi and above - guess < guess - below else below


@scalar
def _lowest_supported(x, top, b, bound, bmax, tail):
    """Smallest score of the support, and F there."""
    T = type(x[0])
    zero = np.float64(0)
    lo = bound
    hi = T(top)
    f_hi = 0.0
    h_lo = 1.0
    h_hi = 0.0
    halve = False
    while True:
        # The norm F^b is nearly linear: its chord predicts the root well.
        share = 0.5 if halve else (h_lo - 1.0) / (h_lo - h_hi)
        share = share if 0.0 <= share <= 1.0 else 0.5
        s = _nearest(x, bmax, lo, hi, T(lo + (hi - lo) * T(share)))
        if s == hi:
            return hi, f_hi
        f, _ = _quick_sums(x, bmax, s, b, zero, np.float32(1.0 / b), tail)
        if doubtful(f):
            f, _ = _exact_sums(x, bmax, s, b, zero, T(1.0 / b), tail)
        if f < 1.0:
            hi = s
            f_hi = f
            h_hi = _power(f, b)
        else:
            lo = s
            h_lo = _power(f, b)
        halve = not halve


@scalar
def _smallest_probability(x, low, f, b, bmax, tail):
    """Solve for y with sum p = 1 over the scores from ``low`` on, where F is f."""
    T = type(x[0])
    narrow = x.itemsize == 4
    y = 1.0 - f  # at least the root, as p grows no slower than y itself there
    for k in range(40):
        total, slope = _quick_sums(x, bmax, low, b, y, np.float32(1.0 / b), tail)
        change = (1.0 - total) / slope
        if not y + change > 0.0:  # or NaN
            break
        y += change
        if b * abs(change) < 1e-3 * y or (k > 0 and change > 0.0):
            break
    near = 3e-4 if narrow else 1e-8
    eps = 3e-8 if narrow else 1e-16
    for _ in range(60):
        total, slope = _exact_sums(x, bmax, low, b, y, T(1.0 / b), tail)
        change = (1.0 - total) / slope
        y = y + change if y + change > 0.0 else 0.125 * y
        if b * abs(change) <= near * y or abs(1.0 - total) <= eps:
            break
    return y


@scalar
def _write_strip(z, low, b, y, yb, exponent, p):
    T = type(low)
    for j in range(STRIP):
        q, inside, tie = base_and_place(z[j], low, b, yb)
        r = root_of(q, exponent)
        p[j] = r if inside else (y if tie else T(0))


@scalar
def _write(x, bmax, low, b, y, yb, tail, p):
    """The probabilities of a row; p may be x."""
    T = type(low)
    for k in range(bmax.size):
        block = block_of(x, k)
        result = block_of(p, k)
        if bmax[k] >= low:
            for start in range(0, block.size, STRIP):
                z = strip_at(block, start, tail)
                size = min(STRIP, block.size - start)
                r = stretch(result, start, size) if size == STRIP else stretch(tail, 0, STRIP)
                _write_strip(z, low, T(b), T(y), T(yb), T(1.0 / b), r)
                if size < STRIP:
                    for j in range(size):
                        result[start + j] = r[j]
        else:
            fill(result, T(0))


@scalar
def _solve(x, top, b, bound, bmax, tail, p):
    low, f = _lowest_supported(x, top, b, bound, bmax, tail)
    y = _smallest_probability(x, low, f, b, bmax, tail)
    yb = _power(y, b)
    _write(x, bmax, low, b, y, yb, tail, p)
    return (b * (top - np.float64(low)) + yb - 1.0) / b


@scalar
def steep_row(x, top, alpha, bmax, room, p):
    """Probabilities of one finite-maximum row; returns ln_b(p of the largest score)."""
    T = type(x[0])
    b = alpha - 1.0
    size = min(x.size, ROOM) + STRIP
    z = stretch(room, 0, size)
    place = stretch(room, size, size)
    tail = stretch(room, 2 * size, STRIP)
    bound = _bound(x if x.size < _MANY else bmax, top, b, z)
    for j in range(STRIP):
        tail[j] = z[j]
    count = _gather(x, bound, tail, bmax, z, place)
    if count < 0:
        return _solve(x, top, b, bound, bmax, tail, p)
    padded = count + (-count) % STRIP
    for j in range(count, padded):
        z[j] = -np.inf
    open_blocks = stretch(room, 2 * size + STRIP, block_count(padded))
    fill(open_blocks, T(top))
    z = stretch(z, 0, padded)
    lift = _solve(z, top, b, bound, open_blocks, tail, z)
    fill(p, T(0))
    for j in range(count):
        p[np.int64(place[j])] = z[j]
    return lift
