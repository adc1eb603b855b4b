"""alpha-entmax for 1 < alpha < 2: p_i = y (1 + b z_i / w)+^(1/b), b = alpha - 1, z = x - max.

The unknown is t = ln_b(y) = (y^b - 1) / b, the deformed logarithm of the largest probability, and
w = y^b = 1 + b t: near alpha = 1, where a threshold would lie at -1/b, t is the softmax's log y.
With r_i = p_i / y, R0 = sum r_i and R1 = sum r_i / (1 + b z_i / w), Newton's step on the norm
``(sum p)^b``, which is convex in w and descends from above without overshooting, is

    t <- t + (R0 / R1) (ln_b(1 / R0) - t).

Whatever the row's dtype, the steps before the last run in float32, eight scores at a time.
``beta`` scales the scores inside the base: beta = b for entmax. normmax uses the same solver.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, fast, referring, row_function, scalar
from sparsemap_np._kernels._powers import power_of, quick_power
from sparsemap_np._kernels._scan import (
    BLOCK,
    LINE,
    ROOM,
    below,
    block_at,
    block_count,
    block_of,
    fill,
    mean_below,
)
from sparsemap_np._kernels._views import stretch

ROUGHLY = 0.1
"""A step so short, beside the largest base, leaves little above the bound that will not stay."""

CLOSELY = 3e-4
"""The next step in float32 could only round."""

_ANY = 1 << 62


@element
def _relative(x, top, rate, exponent):
    return power_of(type(rate)(x - top) * rate, type(rate)(0), exponent)


@fast
def _mass(x, top, rate, exponent):
    """R0 and R1 of some scores in the precision of ``rate``."""
    T = type(rate)
    r0 = T(0)
    r1 = T(0)
    for j in range(x.size):
        r, below = _relative(x[j], top, rate, exponent)
        r0 += r
        r1 += below
    return np.float64(r0), np.float64(r1)


@fast
def _quick_mass(x, top, rate, exponent):
    """``_mass`` in float32, to four or five digits."""
    r0 = np.float32(0)
    r1 = np.float32(0)
    for j in range(x.size):
        r, below = quick_power(np.float32(x[j] - top) * rate, np.float32(0), exponent)
        r0 += r
        r1 += below
    return np.float64(r0), np.float64(r1)


def over_blocks(name, mass):
    """``mass`` over the blocks that reach above the threshold, summed in float64."""

    @row_function(name)
    def row_mass(x, top, rate, exponent, bmax):
        T = type(rate)
        r0 = 0.0
        r1 = 0.0
        for k in range(bmax.size):
            if T(bmax[k] - top) * rate > T(-1):
                s0, s1 = mass(block_of(x, k), top, rate, exponent)
                r0 += s0
                r1 += s1
        return r0, r1

    return row_mass


row_mass = over_blocks("row_mass", _mass)
_quick_row_mass = over_blocks("quick_row_mass", _quick_mass)


@scalar
def newton_step(t, r0, r1, b):
    """Newton's change of t."""
    return (r0 / r1) * (math.expm1(-b * math.log(r0)) / b - t)


@scalar
def upper_bound(x, top, b, beta, exponent, bmax):
    """Where to start: no smaller than the root, but for rounding."""
    # The mean base is at most the flat row's, d^-b.
    mean, count = mean_below(x, np.float64(top))
    t = min(0.0, math.expm1(-b * math.log(count)) / b - (beta / b) * mean)
    if bmax.size > 1:
        # A subset of the scores needs a larger y: its root is no smaller than the row's.
        for _ in range(6):
            r0, r1 = _quick_mass(bmax, top, np.float32(beta / (1.0 + b * t)), exponent)
            change = newton_step(t, r0, r1, b)
            if not change < -1e-2 * (1.0 + b * t):  # the mean's bound is the better one already
                break
            t += change
        t = min(0.0, t + 1e-5 * (1.0 + b * t))
    return t


@scalar
def descend(x, top, b, beta, exponent, t, bmax, near):
    """Newton steps in float32, until one is short, beside the largest base."""
    for k in range(60):
        r0, r1 = _quick_row_mass(x, top, np.float32(beta / (1.0 + b * t)), exponent, bmax)
        change = newton_step(t, r0, r1, b)
        t = min(t + change, 0.0)
        # A rounded bound may lie past the root: the first step comes back, the rest descend.
        if abs(change) < near * (1.0 + b * t) or (k > 0 and change > 0.0):
            break
    return t


@fast
def _count_above(x, top, bound):
    T = type(bound)
    count = T(0)
    for j in range(x.size):
        count += T(1) if x[j] - top > bound else T(0)
    return count


@element
def bound_of(x, top, t, b, beta):
    """A score below which nothing can be in the support, t being no smaller than the root."""
    return below(x, top, (1.0 + b * t) * (1.0 + 1e-4) / beta)


@scalar
def is_short(x, shift, top, b, beta, t, bmax):
    """Whether there is room for a ``shortlist``."""
    bound = bound_of(x, top, t, b, beta)
    count = 0
    for k in range(bmax.size):
        if bmax[k] - shift > bound:
            count += np.int64(_count_above(block_of(x, k), shift, bound))
            if count > ROOM:
                return False
    return True


@referring
def copies(room, d):
    """Room for a row's scores and for what becomes of them, either filled up to whole lines."""
    size = min(d, ROOM) + LINE
    return stretch(room, 0, size), stretch(room, size, size)


@referring
def blocks_of_copies(room, d, size):
    """Room after ``copies`` for the block maxima of ``size`` scores."""
    return stretch(room, 2 * (min(d, ROOM) + LINE), block_count(size))


@scalar
def shortlist(x, shift, top, b, beta, exponent, t, bmax, room):
    """Copy what may be in the support, minus ``shift``, and descend on it in float32.

    The copies, whose maximum is ``top``, lie where ``copies`` are, the last line filled up with
    -inf. Returns t, the bound above which scores minus the shift were taken, and their number.
    """
    z, _ = copies(room, x.size)
    bound = bound_of(x, top, t, b, beta)
    count = _filled_up(z, _gather(x, shift, bound, bmax, z))
    t = _descend_copies(count, top, b, beta, exponent, t, room, x.size, ROUGHLY)
    closer = bound_of(x, top, t, b, beta)
    left = np.int64(_count_above(stretch(z, 0, count), type(bound)(0), closer))
    if whole_lines(left) < whole_lines(count):
        bound = closer
        count = _filled_up(z, _keep(stretch(z, 0, count), bound))
    t = _descend_copies(count, top, b, beta, exponent, t, room, x.size, CLOSELY)
    return t, bound, count


@scalar
def _filled_up(z, count):
    for j in range(count, whole_lines(count)):
        z[j] = -np.inf
    return count


@scalar
def _keep(z, bound):
    """Move up what is above the bound; return the number."""
    count = np.uint64(0)
    for j in range(z.size):
        v = z[j]
        z[count] = v
        count += np.uint64(v > bound)
    return np.int64(count)


@scalar
def _descend_copies(count, top, b, beta, exponent, t, room, d, near):
    z, r = copies(room, d)
    z = stretch(z, 0, whole_lines(count))
    open_blocks = blocks_of_copies(room, d, z.size)
    fill(open_blocks, type(z[0])(0))
    return descend(narrowed(z, top, r), np.float32(0), b, beta, exponent, t, open_blocks, near)


@scalar
def whole_lines(count):
    """The length of so many scores with the last line filled up."""
    return count + (-count) % LINE


@scalar
def _all_above(x, top, bound):
    return x.size <= ROOM and _count_above(x, top, bound) == x.size


@scalar
def _gather(x, top, bound, bmax, z):
    if _all_above(x, top, bound):
        for j in range(x.size):
            z[j] = x[j] - top
        return x.size
    count = np.uint64(0)  # an unsigned index needs no test for a negative one
    for k in range(bmax.size):
        if bmax[k] - top > bound:
            for v in block_of(x, k):
                gap = v - top
                z[count] = gap
                count += np.uint64(gap > bound)
    return np.int64(count)


@scalar
def scatter(x, top, bound, scale, bmax, r, gathered, p):
    """Write ``scale * r`` back to where ``gather`` found the scores, zeros elsewhere."""
    T = type(p[0])
    if _all_above(x, top, bound):
        for j in range(x.size):
            p[j] = T(scale) * r[j]
        return
    # A place is chosen, not a value: that would be a branch, and be guessed wrong half the time.
    r[gathered] = T(0)
    nowhere = np.uint64(gathered)
    count = np.uint64(0)
    for k in range(bmax.size):
        block = block_of(p, k)
        if bmax[k] - top > bound:
            scores = block_of(x, k)
            for j in range(block.size):
                inside = scores[j] - top > bound
                block[j] = T(scale) * r[count if inside else nowhere]
                count += np.uint64(inside)
        else:
            fill(block, T(0))


@referring
def narrowed(z, top, r):
    """A float32 copy of z - top in the memory of r."""
    out = r.view(np.float32)[: z.size]
    for j in range(z.size):
        out[j] = z[j] - top
    return out


@fast
def _powers(z, rate, exponent, r):
    """Write r_i; return R0 and R1."""
    T = type(rate)
    r0 = T(0)
    r1 = T(0)
    for j in range(z.size):
        s, below = _relative(z[j], T(0), rate, exponent)
        r[j] = s
        r0 += s
        r1 += below
    return np.float64(r0), np.float64(r1)


@element
def _moved(r, z, w, beta, b, change):
    """``r`` after t moved by ``change``, by the Taylor series in k, and ``|k|``."""
    T = type(r)
    q = w + beta * z
    k = change / q
    tail = T(1) + (T(1) - T(2) * b) * k * T(1.0 / 3.0)
    inside = r > T(0)
    return (r * (T(1) + k * (T(1) + (T(1) - b) * k * T(0.5) * tail)) if inside else T(0)), abs(k)


@fast
def _move(r, z, w, beta, b, change, limit):
    """Apply ``_moved`` to some coordinates; return their sum and how many moved too far for it."""
    T = type(r[0])
    total = T(0)
    far = T(0)
    for j in range(r.size):
        s, k = _moved(r[j], z[j], w, beta, b, change)
        r[j] = s
        total += s
        far += T(0) if k <= limit else T(1)
    return np.float64(total), far


@fast
def _move_far(r, z, w, beta, change, limit, rate, exponent, moved):
    """Powers for what moved too far, and only for that: equal scores in other blocks may not have.

    Returns the sum of all.
    """
    T = type(r[0])
    total = T(0)
    for j in range(r.size):
        s, _ = _relative(z[j], T(0), rate, exponent)
        s = r[j] if abs(change / (w + beta * z[j])) <= limit else s * moved
        r[j] = s
        total += s
    return np.float64(total)


@scalar
def _polish(z, r, t, b, beta, exponent):
    """Solve for t in the row's precision; leave r_i = p_i / y; return t and y."""
    T = type(z[0])
    narrow = z.itemsize < 8
    near = 1e-3 if narrow else 1e-5
    limit = T(0.03) if narrow else T(1e-4)
    eps = 2e-7 if narrow else 4e-16
    change = 0.0
    for _ in range(40):
        r0 = 0.0
        r1 = 0.0
        w = 1.0 + b * t
        for start in range(0, z.size, BLOCK):
            s0, s1 = _powers(block_at(z, start), T(beta / w), exponent, block_at(r, start))
            r0 += s0
            r1 += s1
        change = newton_step(t, r0, r1, b)
        if abs(change) < near * w:
            break
        t = min(t + change, 0.0)
    y = math.exp(math.log1p(b * t) / b)
    # dp/dt = p / (w u): from here on a step needs no powers.
    slope = y * r1 / w
    for _ in range(4):
        if change == 0.0:
            break
        total = 0.0
        w = 1.0 + b * t
        for start in range(0, z.size, BLOCK):
            part = block_at(r, start)
            s, far = _move(part, block_at(z, start), T(w), T(beta), T(b), T(change), limit)
            if far > 0:
                moved = math.exp(math.log1p(b * (t + change)) / b) / y
                rate = T(beta / (1.0 + b * (t + change)))
                s = _move_far(
                    part, block_at(z, start), T(w), T(beta), T(change), limit, rate, exponent,
                    T(moved),
                )  # fmt: skip
            total += s
        t += change
        residual = y * total - 1.0
        if abs(residual) <= eps:
            break
        change = -residual / slope
    return t, y


@scalar
def _write(x, top, rate, exponent, y, p):
    T = type(p[0])
    for j in range(x.size):
        r, _ = _relative(x[j], top, rate, exponent)
        p[j] = T(y * r)


@scalar
def _real_exponent(b):
    return 1.0 / b


@scalar
def _whole_exponent(b):
    return np.int64(1.0 / b + 0.5)


def _solver(name, exponent_of, longest):
    """Probabilities of one finite-maximum row; returns ln_b(p of the largest score).

    Rows up to ``longest`` are solved on copies of what may be in their supports.
    """

    @row_function(name)
    def row(x, top, alpha, bmax, room, p):
        T = type(x[0])
        b = alpha - 1.0
        exponent = exponent_of(b)
        m = T(top)
        t = upper_bound(x, m, b, b, exponent, bmax)
        d = x.size
        if ROOM < d <= longest:
            t = descend(x, m, b, b, exponent, t, bmax, ROUGHLY)
        if d <= ROOM or (d <= longest and is_short(x, m, T(0), b, b, t, bmax)):
            t, bound, count = shortlist(x, m, T(0), b, b, exponent, t, bmax, room)
            z, r = copies(room, d)
            size = whole_lines(count)
            t, y = _polish(stretch(z, 0, size), stretch(r, 0, size), t, b, b, exponent)
            scatter(x, m, bound, y, bmax, r, count, p)
            return t
        t = descend(x, m, b, b, exponent, t, bmax, CLOSELY)
        tol = 1e-5 if x.itemsize < 8 else 1e-9
        w = 1.0
        y = T(1)
        for _ in range(40):
            w = 1.0 + b * t
            r0, r1 = row_mass(x, m, T(b / w), exponent, bmax)
            change = newton_step(t, r0, r1, b)
            t = min(t + change, 0.0)
            if abs(change) < tol * w:
                # From the sums, not from w: that is 1 - (1 - w), and tiny in a long flat row.
                y = T(math.exp(math.log1p(b * change / w) / b) / (r0 + change * r1 / w))
                w += b * change
                break
        for k in range(bmax.size):
            place = block_of(p, k)
            if T(bmax[k] - m) * T(b / w) >= -1:  # no less than any of its scores, however rounded
                _write(block_of(x, k), m, T(b / w), exponent, y, place)
            else:
                place[:] = T(0)
        return t

    return row


tsallis_row = _solver("tsallis_row", _real_exponent, _ANY)
power_row = _solver("power_row", _whole_exponent, ROOM)
"""Where 1 / b is 3 or 4: multiplications take the place of powers, and cost less than copies."""
