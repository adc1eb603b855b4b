"""alpha-entmax for 0 < alpha < 1: p_i = y (1 + b z_i / y^b)^(1/b), b = alpha - 1 < 0, z = x - max.

Every finite score has a positive probability. The unknown is L = log y, the logarithm of the
largest; Newton steps on the norm ``(sum p)^b``, concave in y^b, from L = 0.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, scalar


@element
def _power_of_dense(v, b):
    """``(1 + v)^(1/b)`` for b < 0 and v in [0, inf]."""
    return math.exp(math.log1p(v) / b)


@element
def any_power_of(v, b):
    """``(1 + v)+^(1/b)`` for either sign of b."""
    if b > 0.0 and v <= -1.0:
        return 0.0
    return _power_of_dense(v, b)


@scalar
def _mass(x, top, rate, b):
    """Sums of r_i = p_i / y and of r_i / (1 + v_i)."""
    r0 = 0.0
    r1 = 0.0
    for j in range(x.size):
        v = (np.float64(x[j]) - top) * rate
        r = _power_of_dense(v, b)
        r0 += r
        r1 += r / (1.0 + v)
    return r0, r1


@scalar
def _log_largest(x, top, b):
    """L = log of the largest probability."""
    level = 0.0
    tol = 4e-16 if x.itemsize == 8 else 1e-11
    for k in range(200):
        r0, r1 = _mass(x, top, b * math.exp(-b * level), b)
        log_f = level + math.log(r0)
        change = math.log1p((r0 / r1) * math.expm1(-b * log_f)) / b
        moved = min(level + change, 0.0)
        if k > 0 and not moved < level:
            break
        level = moved
        if log_f <= tol:
            break
    return level


@scalar
def dense_row(x, top, alpha, bmax, room, p):
    """Probabilities of one finite-maximum row; returns ln_b(p of the largest score)."""
    T = type(p[0])
    b = alpha - 1.0
    level = _log_largest(x, top, b)
    y = math.exp(level)
    rate = b * math.exp(-b * level)
    for j in range(x.size):
        p[j] = T(y * _power_of_dense((np.float64(x[j]) - top) * rate, b))
    return math.expm1(b * level) / b
