"""One look at a row: its block maxima, its maximum, and whether it holds a NaN."""

import numpy as np

from sparsemap_np._kernels._compile import fast, scalar, sums

BLOCK = 128
"""Scores that share one maximum. A block whose maximum lies below the threshold is never read
again, so a long sparse row costs one reading."""


@fast
def _largest(x):
    m = x[0]
    for j in range(x.size):
        v = x[j]
        m = v if v > m else m
    return m


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


@scalar
def scan(x, bmax):
    """Write the block maxima; return the row's maximum, NaN if any score is NaN."""
    m = -np.inf
    for b in range(bmax.size):
        block = x[b * BLOCK : (b + 1) * BLOCK]
        if _count_nan(block) > 0:
            return np.nan
        top = _largest(block)
        bmax[b] = top
        m = max(m, np.float64(top))
    return m


@sums
def _sum(x):
    total = type(x[0])(0)
    for j in range(x.size):
        total += x[j]
    return total


@scalar
def mean_below(x, top):
    """Mean score minus the maximum, roughly (a starting point); -inf where that is unknown."""
    total = 0.0
    for start in range(0, x.size, BLOCK):
        total += np.float64(_sum(x[start : start + BLOCK]))
    mean = total / x.size - top
    return mean if mean <= 0.0 else -np.inf


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
