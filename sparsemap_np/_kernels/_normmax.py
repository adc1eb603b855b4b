"""normmax: p = q / sum q with q_i = (z_i - tau)+^(1/(a-1)), sum q^a = 1.

q^a is an entmax of the scaled scores, with exponent b = (a - 1) / a in (0, 1), so the same solver
serves; at a = inf it is the sparsemax.
"""

import math

import numpy as np

from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._double import add, exp_double, log_double, multiply, reciprocal
from sparsemap_np._kernels._powers import exp_of_negative, log1p_above
from sparsemap_np._kernels._sparsemax import threshold
from sparsemap_np._kernels._tsallis import log_largest
from sparsemap_np._kernels._twosum import product_error


@element
def _relative(z, rate, rest, b):
    """``(1 + z (rate + rest))+^(1/b)`` and its base, with the product's rounding made good."""
    v = z * rate
    inside = v > -1.0
    z = z if inside else 0.0
    v = v if inside else 0.0
    error = product_error(z, rate, v) + z * rest
    r = exp_of_negative(log1p_above(v, error) / b)
    return (r if inside else 0.0), 1.0 + v


@fast
def _mass(x, top, rate, b):
    r0 = 0.0
    r1 = 0.0
    for j in range(x.size):
        r, base = _relative(np.float64(x[j]) - top, rate, 0.0, b)
        r0 += r
        r1 += r / base
    return r0, r1


@scalar
def _rate_remainder(x, top, rate, b):
    """What rounding took from the rate 1 / (max - tau), from the residual of sum q^a = 1.

    Unlike entmax, where the largest coordinate makes up for it, every q_i moves with tau: half a
    unit in its last place would show in all of them.
    """
    r0, r1 = _mass(x, top, rate, b)
    f = r0 * math.exp(-math.log(rate) / b)
    return rate * b * (f - 1.0) * r0 / (f * r1)


@fast
def _write_relative(x, top, rate, rest, b, p):
    """Write q_i / q_max; return their sum."""
    T = type(p[0])
    total = 0.0
    for j in range(x.size):
        r, base = _relative(np.float64(x[j]) - top, rate, rest, b)
        total += r
        p[j] = T(r)
    return total


@scalar
def _hangs_on_last_bits(x, top, rate, alpha):
    """Whether the smallest coordinate would show an error of one unit in the threshold.

    q is a power 1/(a-1) of the distance above tau: near tau its slope is unbounded for a > 2.
    """
    if x.itemsize < 8 or alpha <= 2.0:
        return False
    total, _ = _mass(x, top, rate, alpha - 1.0)
    least = 1.0
    for j in range(x.size):
        u = 1.0 + (np.float64(x[j]) - top) * rate
        if u > 0.0:
            least = min(least, u)
    return least ** (1.0 / (alpha - 1.0)) / total > 2.0 * least * (alpha - 1.0)


@scalar
def _base_double(x, top, high, low):
    """``(x - top) + (high + low)`` with nothing rounded away; 0 for a score of -inf."""
    if x == -np.inf:
        return 0.0, 0.0
    zh, zl = add(np.float64(x), 0.0, -top, 0.0)
    return add(zh, zl, high, low)


@scalar
def _refine(x, top, level, alpha, p):
    """Solve sum q^a = 1 for max - tau in double-double, and write q; returns their sum."""
    high = level
    low = 0.0
    inverse, rest = reciprocal(alpha - 1.0)
    eh, el = add(1.0, 0.0, inverse, rest)
    for _ in range(3):
        fh, fl = -1.0, 0.0
        slope = 0.0
        for j in range(x.size):
            bh, bl = _base_double(x[j], top, high, low)
            if bh > 1e-300:
                lh, ll = log_double(bh, bl)
                lh, ll = multiply(lh, ll, eh, el)
                if lh > -700.0:
                    qh, ql = exp_double(lh, ll)
                    fh, fl = add(fh, fl, qh, ql)
                    slope += eh * qh / bh
        step = -fh / slope
        high, low = add(high, low, step, 0.0)
        if abs(step) < 1e-20:
            break
    total = 0.0
    for j in range(x.size):
        bh, bl = _base_double(x[j], top, high, low)
        p[j] = math.exp(math.log(bh) * inverse) if bh > 0.0 else 0.0
        total += p[j]
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
    if _hangs_on_last_bits(x, top, rate, alpha):
        total = _refine(x, top, 1.0 / rate, alpha, p)
    else:
        rest = _rate_remainder(x, top, rate, b)
        total = _write_relative(x, top, rate, rest, alpha - 1.0, p)
    scale = 1.0 / total
    for j in range(x.size):
        p[j] = T(p[j] * scale)
    return 1.0 / rate


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
