"""The member of the entmax family at alpha = 1."""

import math

import numpy as np

from sparsemap_np._kernels._compile import fast, scalar
from sparsemap_np._kernels._lanes import column, first_state
from sparsemap_np._kernels._powers import exp_of_negative, log1p_and_inverse
from sparsemap_np._kernels._scan import BLOCK, block_at, fill


@scalar
def _exponentials(x, top, p):
    for j in range(x.size):
        p[j] = exp_of_negative(x[j] - top)


@fast
def _mass(e):
    """Sum of the exponentials below 1, and how many are 1."""
    T = type(e[0])
    rest = T(0)
    ones = T(0)
    for j in range(e.size):
        rest += e[j] if e[j] < T(1) else T(0)
        ones += T(0) if e[j] < T(1) else T(1)
    return np.float64(rest), np.float64(ones)


@scalar
def softmax_row(x, top, par, bmax, room, p):
    """Softmax; returns log(p of the largest score), accurate also when that is nearly 0."""
    T = type(x[0])
    rest = -1.0
    for start in range(0, x.size, BLOCK):
        part = block_at(p, start)
        # A sum in the loop that writes would be taken in another order where p is x itself.
        _exponentials(block_at(x, start), T(top), part)
        s, ones = _mass(part)
        rest += s + ones
    scale = T(1.0 / (1.0 + rest))
    for j in range(x.size):
        p[j] *= scale
    return -math.log1p(rest)


@fast
def _lane_exponentials(z, rest, ones):
    T = type(z[0])
    for r in range(z.size):
        e = exp_of_negative(z[r])
        rest[r] += e if e < T(1) else T(0)
        ones[r] += T(0) if e < T(1) else T(1)
        z[r] = e


@scalar
def _lane_scale(z, scale):
    for r in range(z.size):
        z[r] *= scale[r]


@scalar
def softmax_lanes(work, d, n, par, index, mean, count, lifts):
    """Like ``softmax_row`` for the columns of a tile."""
    T = type(work[0])
    own = first_state(d)
    rest = column(work, own, n)
    ones = column(work, own + 1, n)
    fill(rest, T(0))
    fill(ones, T(0))
    for j in range(d):
        _lane_exponentials(column(work, j, n), rest, ones)
    for r in range(n):
        total = np.float64(rest[r]) + (np.float64(ones[r]) - 1.0)
        lifts[r] = -log1p_and_inverse(total, 0.0)[0]
        rest[r] = T(1.0 / (1.0 + total))
    for j in range(d):
        _lane_scale(column(work, j, n), rest)
