"""normmax: p = q / sum q with q_i = (z_i - tau)+^(1/(a-1)), sum q^a = 1.

q^a is an entmax of the scaled scores, with exponent b = (a - 1) / a in (0, 1), so the same solver
serves; at a = inf it is the sparsemax.
"""

import math

import numpy as np

from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._compile import fast, scalar
from sparsemap_np._kernels._sparsemax import threshold
from sparsemap_np._kernels._tsallis import base_of, log_largest, power_of


@fast
def _write_relative(x, top, rate, b, p):
    """Write q_i / q_max; return their sum."""
    T = type(p[0])
    total = 0.0
    for j in range(x.size):
        r = power_of(base_of(np.float64(x[j]) - top, rate), b)
        total += r
        p[j] = T(r)
    return total


@scalar
def normmax_row(x, top, alpha, bmax, p):
    """Probabilities of one finite-maximum row; returns max - tau."""
    T = type(x[0])
    if alpha == 1.0:
        argmax_row(x, top, alpha, bmax, p)
        return 1.0
    if alpha == np.inf:
        return _uniform_on_sparsemax_support(x, top, bmax, p)
    b = (alpha - 1.0) / alpha
    level = log_largest(x, top, b, 1.0, bmax)
    rate = math.exp(-b * level)
    total = _write_relative(x, top, rate, alpha - 1.0, p)
    scale = 1.0 / total
    for j in range(x.size):
        p[j] = T(p[j] * scale)
    return math.exp(b * level)


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
