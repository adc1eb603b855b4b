"""One look at a row: its block maxima, its maximum, and whether it holds a NaN."""

import numpy as np

from sparsemap_np._kernels._compile import by_type, referring, renamed, scalar, sums
from sparsemap_np._kernels._views import stretch

BLOCK = 128
"""Scores that share one maximum. A block whose maximum lies below the threshold is never read
again, so a long sparse row costs one reading."""

ROOM = 8192
"""Longest row whose scores above a bound are copied side by side; others are read in place."""

STRIP = 16
"""Scores that a loop takes at once whose length the compiler knows: it has no remainder."""

LINE = 32
"""Scores that an unrolled loop over float32 takes at once: what is left over goes one by one, and
costs as much as the rest of a short row. Copies of scores are filled up to whole lines."""


# LLVM vectorises the maximum of integers, but not of floats, where it may not drop a NaN. The bits
# of a float, with all but the sign flipped where it is negative, are ordered as the floats are.


def _extreme(name, flip):
    """Largest element, or smallest, if all bits of the keys are flipped (-1)."""

    def wide(x):
        sign = np.int64(0x7FFFFFFFFFFFFFFF)
        turn = np.int64(flip)
        m = np.int64(-0x8000000000000000)
        for j in range(x.size):
            bits = np.float64(x[j]).view(np.int64)
            key = np.int64(bits ^ np.int64(np.int64(bits >> np.int64(63)) & sign) ^ turn)
            m = key if key > m else m
        m = np.int64(m ^ turn)
        return np.int64(m ^ np.int64(np.int64(m >> np.int64(63)) & sign)).view(np.float64)

    def narrow(x):
        sign = np.int32(0x7FFFFFFF)
        turn = np.int32(flip)
        m = np.int32(-0x80000000)
        for j in range(x.size):
            bits = np.float32(x[j]).view(np.int32)
            key = np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & sign) ^ turn)
            m = key if key > m else m
        m = np.int32(m ^ turn)
        return np.int32(m ^ np.int32(np.int32(m >> np.int32(31)) & sign)).view(np.float32)

    return by_type(renamed(narrow, f"{name}_narrow"), renamed(wide, f"{name}_wide"))


largest = _extreme("largest", 0)
"""Largest element of an array without NaN."""

smallest = _extreme("smallest", -1)
"""Smallest element of an array without NaN."""


@sums
def _sum(x):
    total = type(x[0])(0)
    for j in range(x.size):
        total += x[j]
    return total


@scalar
def _count_nan(x):
    count = 0
    for j in range(x.size):
        count += x[j] != x[j]
    return count


@scalar
def block_count(d):
    """Number of blocks of a row of d scores."""
    return (d + BLOCK - 1) // BLOCK


@referring
def block_at(x, start):
    """The block of x that begins at ``start``."""
    return stretch(x, start, min(BLOCK, x.size - start))


@referring
def block_of(x, b):
    """Block number b of x."""
    return block_at(x, b * BLOCK)


@scalar
def work_size(d):
    """Length of the scratch of a row of d scores: its block maxima, then room for a solver.

    The room is for two arrays of up to ROOM scores, filled up to lines, their blocks and a strip;
    at its end, four lines of doubles.
    """
    size = min(d, ROOM) + LINE
    used = block_count(d) + 2 * size + block_count(size) + STRIP
    return used + used % 2 + 8 * LINE


@scalar
def scan(x, bmax):
    """Write the block maxima; return the row's maximum, NaN if any score is NaN."""
    m = -np.inf
    for b in range(bmax.size):
        block = block_of(x, b)
        # A finite sum vouches for the block; one that is not may have overflowed, or met -inf.
        if not np.isfinite(_sum(block)) and _count_nan(block) > 0:
            return np.nan
        top = largest(block)
        bmax[b] = top
        m = max(m, np.float64(top))
    return m


@scalar
def sum_of_blocks(x):
    """Sum in float64 of the blocks' sums; finite only if all scores are."""
    total = 0.0
    for start in range(0, x.size, BLOCK):
        total += np.float64(_sum(block_at(x, start)))
    return total


@sums
def _sum_unmasked(x):
    """Sum and number of the scores above -inf."""
    T = type(x[0])
    total = T(0)
    count = T(0)
    for j in range(x.size):
        there = x[j] > -np.inf
        total += x[j] if there else T(0)
        count += T(1) if there else T(0)
    return total, count


@scalar
def vacant(p):
    """Whether a stretch of probabilities holds neither support nor NaN."""
    return _sum(p) == 0


@scalar
def mean_below(x, top):
    """Mean score minus the maximum, roughly (a starting point), and how many scores are not masked.

    -inf where the mean is unknown.
    """
    total = sum_of_blocks(x)
    count = np.float64(x.size)
    if not np.isfinite(total):
        total = 0.0
        count = 0.0
        for start in range(0, x.size, BLOCK):
            part, there = _sum_unmasked(block_at(x, start))
            total += np.float64(part)
            count += np.float64(there)
    mean = total / count - top
    return (mean if mean <= 0.0 else -np.inf), count


@scalar
def below(x, top, reach):
    """``top - reach`` in the type of x, or less: rounding takes no score out that lies above it."""
    slack = 5e-7 if x.itemsize < 8 else 1e-15
    return type(x[0])(top - reach - slack * abs(top))


@scalar
def fill(p, value):
    """Set a whole row to one value."""
    for j in range(p.size):
        p[j] = value


@scalar
def special_row(x, m, p):
    """Answer a row whose maximum is not finite: NaN, all -inf, or +inf somewhere."""
    if m == np.inf:
        top = 0
        for j in range(x.size):
            top += x[j] == np.inf
        if top == 1:
            for j in range(x.size):
                p[j] = x[j] == np.inf
            return
    fill(p, np.nan)
