"""The vector work of conjugate gradients, each step in one reading of its vectors.

Vectors are read as rows of ``k`` numbers, one for each class. With many features they are longer
than the caches, and NumPy would read and write them three times as often.
"""

from sparsemap_np._kernels._compile import fast, kernel
from sparsemap_np._kernels._views import stretch


@fast
def _share(r, inverse):
    """What to take from each r, so that the row of ``inverse * r`` sums to zero."""
    total = 0.0
    weights = 0.0
    for j in range(r.size):
        total += inverse[j] * r[j]
        weights += inverse[j]
    return total / weights


@fast
def _scaled(r, inverse, share, z):
    dot = 0.0
    for j in range(r.size):
        v = inverse[j] * (r[j] - share)
        z[j] = v
        dot += v * r[j]
    return dot


@kernel("conjugate_precondition")
def precondition(r, inverse, k, z):
    """``z = inverse * r`` with rows moved to sum to zero if k > 1; returns ``r . z``."""
    dot = 0.0
    for at in range(0, r.size, k):
        row = stretch(r, at, k)
        weights = stretch(inverse, at, k)
        share = _share(row, weights) if k > 1 else 0.0
        dot += _scaled(row, weights, share, stretch(z, at, k))
    return dot


@fast
def _advance(length, p, Hp, x, r):
    for i in range(p.size):
        x[i] += length * p[i]
        r[i] -= length * Hp[i]


@kernel("conjugate_advance")
def advance(length, p, Hp, x, r):
    """``x += length * p`` and ``r -= length * Hp``."""
    _advance(length, p, Hp, x, r)


@fast
def _turn(z, ratio, p):
    for i in range(p.size):
        p[i] = z[i] + ratio * p[i]


@kernel("conjugate_turn")
def turn(z, ratio, p):
    """``p = z + ratio * p``."""
    _turn(z, ratio, p)
