"""alpha-entmax for alpha in (0, 2): p_i = y (1 + b z_i / y^b)+^(1/b), b = alpha - 1, z = x - max.

The unknown is L = log y, the logarithm of the largest probability, and not a threshold: every
other coordinate moves less than y does, for any b, down to the softmax at b = 0, where a threshold
would lie at -1/b. F(L) = sum p is solved by Newton steps on the norm F^b in y^b (log F in L as
b -> 0), which from L = 0 descends without overshooting: the norm is convex for 0 < b <= 1 and
concave, approached from its other side, for b < 0.

``beta`` scales the scores inside the base: beta = b for entmax. normmax uses the same solver.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._powers import exp_of_negative, log1p_above
from sparsemap_np._kernels._scan import BLOCK, mean_below


@element
def base_of(z, rate):
    """``1 + b z / y^b`` as its distance from 1; -1 is the threshold."""
    v = z * rate
    return v if v > -1.0 else -1.0


@element
def power_of(v, b):
    """``(1 + v)^(1/b)`` for b > 0 and v in [-1, 0], without rounding 1 + v first."""
    inside = v > -1.0
    r = exp_of_negative(log1p_above(v if inside else 0.0, 0.0) / b)
    return r if inside else 0.0


@element
def _power_of_dense(v, b):
    """``(1 + v)^(1/b)`` for b < 0 and v in [0, inf]."""
    return math.exp(math.log1p(v) / b)


@element
def any_power_of(v, b):
    """``(1 + v)+^(1/b)`` for either sign of b."""
    if b < 0.0:
        return _power_of_dense(v, b)
    return power_of(v if v > -1.0 else -1.0, b)


@fast
def _mass_sparse(x, top, rate, b):
    """Sums of r_i = p_i / y and of r_i / (1 + v_i), b > 0."""
    r0 = 0.0
    r1 = 0.0
    for j in range(x.size):
        v = base_of(np.float64(x[j]) - top, rate)
        r = power_of(v, b)
        r0 += r
        r1 += r / (1.0 + v if v > -1.0 else 1.0)
    return r0, r1


@scalar
def _mass_dense(x, top, rate, b):
    """The same for b < 0."""
    r0 = 0.0
    r1 = 0.0
    for j in range(x.size):
        v = (np.float64(x[j]) - top) * rate
        r = _power_of_dense(v, b)
        r0 += r
        r1 += r / (1.0 + v)
    return r0, r1


@scalar
def _mass(x, top, rate, b):
    return _mass_sparse(x, top, rate, b) if b > 0.0 else _mass_dense(x, top, rate, b)


@scalar
def _row_mass(x, top, rate, b, bmax):
    """Sums of r_i = p_i / y and of r_i / (1 + v_i) over the row."""
    r0 = 0.0
    r1 = 0.0
    for k in range(bmax.size):
        # b < 0 has no threshold: every base is above 1.
        if base_of(np.float64(bmax[k]) - top, rate) > -1.0:
            s0, s1 = _mass(x[k * BLOCK : (k + 1) * BLOCK], top, rate, b)
            r0 += s0
            r1 += s1
    return r0, r1


@scalar
def _step(level, r0, r1, b):
    """Newton's change of L = log y, and log F where it started."""
    log_f = level + math.log(r0)
    return math.log1p((r0 / r1) * math.expm1(-b * log_f)) / b, log_f


@scalar
def log_largest(x, top, b, beta, bmax):
    """L = log of the largest probability."""
    level = 0.0
    if b > 0.0:
        # The mean base is at most the flat row's, d^-b.
        flat = math.expm1(-b * math.log(x.size)) - beta * mean_below(x, top)
        level = min(level, math.log1p(flat) / b)
    if bmax.size > 1:
        # A subset of the scores needs a larger y: its root is where to start from.
        for _ in range(6):
            r0, r1 = _mass(bmax, top, beta * math.exp(-b * level), b)
            change, log_f = _step(level, r0, r1, b)
            if not log_f > 1e-2:  # the mean's bound is the better one already
                break
            level += change
    tol = 4e-16 if x.itemsize == 8 else 1e-11
    for k in range(200):
        r0, r1 = _row_mass(x, top, beta * math.exp(-b * level), b, bmax)
        change, log_f = _step(level, r0, r1, b)
        moved = min(level + change, 0.0)
        # A rounded bound may lie past the root: the first step comes back, the rest descend.
        if k > 0 and not moved < level:
            break
        level = moved
        if log_f <= tol:
            break
    return level


@scalar
def deformed_log(level, b):
    """``ln_b(exp(level)) = (exp(b level) - 1) / b``."""
    return math.expm1(b * level) / b


@scalar
def _write_sparse(x, top, rate, b, y, p):
    T = type(p[0])
    for j in range(x.size):
        p[j] = T(y * power_of(base_of(np.float64(x[j]) - top, rate), b))


@scalar
def _write_dense(x, top, rate, b, y, p):
    T = type(p[0])
    for j in range(x.size):
        p[j] = T(y * _power_of_dense((np.float64(x[j]) - top) * rate, b))


@scalar
def tsallis_row(x, top, b, bmax, p):
    """Probabilities of one finite-maximum row; returns ln_b(p of the largest score)."""
    level = log_largest(x, top, b, b, bmax)
    y = math.exp(level)
    rate = b * math.exp(-b * level)
    for k in range(bmax.size):
        block = x[k * BLOCK : (k + 1) * BLOCK]
        place = p[k * BLOCK : (k + 1) * BLOCK]
        if b < 0.0:
            _write_dense(block, top, rate, b, y, place)
        elif base_of(np.float64(bmax[k]) - top, rate) > -1.0:
            _write_sparse(block, top, rate, b, y, place)
        else:
            place[:] = 0
    return deformed_log(level, b)


@fast
def _exponentials(x, top, p):
    """Write exp(x - max); return the sum of those below 1, and how many are 1."""
    T = type(p[0])
    rest = 0.0
    ones = 0.0
    for j in range(x.size):
        e = exp_of_negative(np.float64(x[j]) - top)
        rest += e if e < 1.0 else 0.0
        ones += 0.0 if e < 1.0 else 1.0
        p[j] = T(e)
    return rest, ones


@scalar
def softmax_row(x, top, par, bmax, p):
    """Softmax; returns log(p of the largest score), accurate also when that is nearly 0."""
    T = type(x[0])
    rest, ones = _exponentials(x, top, p)
    rest += ones - 1.0
    scale = 1.0 / (1.0 + rest)
    for j in range(x.size):
        p[j] = T(p[j] * scale)
    return -math.log1p(rest)
