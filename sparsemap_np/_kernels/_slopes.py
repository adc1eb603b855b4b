"""One row of a vector-Jacobian product: dx = J v from the output p of the mapping.

Every Jacobian is symmetric: ``diag(s) - s s' / sum(s)`` with the slope s_i = p_i^(2 - alpha) on the
support for entmax, the interior's centring for budget (normmax: `_normmax_slopes.py`). Off the
support the row is exactly zero, whatever the cotangent holds there.
"""

import math

import numpy as np

from sparsemap_np._kernels._centre import centred, slope_loop
from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._powers import exp_of_negative, log_of_positive
from sparsemap_np._kernels._scan import BLOCK, block_at, fill, vacant
from sparsemap_np._kernels._views import stretch


@element
def any_log(p):
    """``log p`` of a positive double, subnormal or not."""
    tiny = p < 2.3e-308
    log_p = log_of_positive(p * 18014398509481984.0 if tiny else p)  # 2^54
    return log_p - 37.429947750237048 if tiny else log_p


@element
def _one(p, par):
    return type(p)(1) if p > type(p)(0) else p


@element
def _square_root(p, par):
    return math.sqrt(p)


@element
def _inside(p, par):
    """The budget's box: only coordinates strictly between 0 and 1 move."""
    return type(p)(0) if p >= type(p)(1) else _one(p, par)


@element
def _itself(p, par):
    return p


@element
def _power(p, alpha):
    """``p^(2 - alpha)``, alpha < 2."""
    T = type(p)
    q = np.float64(p) if p > T(0) else 1.0
    r = T(exp_of_negative((2.0 - alpha) * any_log(q)))
    return r if p > T(0) else p


_one_loop = slope_loop("one", _one)
_square_root_loop = slope_loop("square_root", _square_root)
_inside_loop = slope_loop("inside", _inside)
_itself_loop = slope_loop("itself", _itself)
_power_loop = slope_loop("power", _power)


@scalar
def _flat_loop(p, alpha, s):
    """``p^(2 - alpha)`` for any alpha <= 2."""
    if alpha == 2.0:
        _one_loop(p, alpha, s)
    elif alpha == 1.5:
        _square_root_loop(p, alpha, s)
    elif alpha == 1.0:
        _itself_loop(p, alpha, s)
    else:
        _power_loop(p, alpha, s)


sparsemax_vjp = centred("sparsemax", _one_loop)
entmax15_vjp = centred("entmax15", _square_root_loop)
budget_vjp = centred("budget", _inside_loop)
_flat_row, _flat_rows = centred("entmax_flat", _flat_loop)


@scalar
def zero_unless_nan(p, dx):
    T = type(dx[0])
    for j in range(p.size):
        if p[j] != p[j]:
            fill(dx, np.nan)
            return
    fill(dx, T(0))


@scalar
def _entmax_row(p, v, alpha, work, dx):
    """Any alpha > 0, a long row."""
    if alpha == np.inf:
        zero_unless_nan(p, dx)
    elif alpha <= 2.0:
        _flat_row(p, v, alpha, work, dx)
    else:
        _steep_row(p, v, alpha, dx)


@scalar
def _entmax_rows(p, v, alpha, d, work, dx):
    """Any alpha > 0, short rows."""
    if alpha <= 2.0:
        _flat_rows(p, v, alpha, d, work, dx)
        return
    for i in range(0, p.size, d):
        if alpha == np.inf:
            zero_unless_nan(stretch(p, i, d), stretch(dx, i, d))
        else:
            _steep_row(stretch(p, i, d), stretch(v, i, d), alpha, stretch(dx, i, d))


entmax_vjp = (_entmax_row, _entmax_rows)


@element
def _support_log(p):
    """``log p`` on the support, 0 off it; and whether p is on it."""
    inside = p > type(p)(0)
    return any_log(np.float64(p) if inside else 1.0), inside


@fast
def _steep_moments(p, v, v0, log_p0, exponent):
    """Sums of the weights ``(p0 / p)^exponent``, at most 1, alone and times ``v - v0``."""
    total = 0.0
    dot = 0.0
    for j in range(p.size):
        log_p, inside = _support_log(p[j])
        r = exp_of_negative(exponent * (log_p0 - log_p if inside else 0.0))
        gap = np.float64(v[j]) - v0 if inside else 0.0
        total += r if inside else 0.0
        dot += r * gap
    return total, dot


@fast
def _steep_products(p, v, v0, mean, exponent, least, dx):
    """Slopes times centred cotangents, but for number ``least``; their sum."""
    T = type(dx[0])
    rest = 0.0
    for j in range(p.size):
        log_p, inside = _support_log(p[j])
        gap = (np.float64(v[j]) - v0) - mean
        inside = inside & (j != least)
        scale = exp_of_negative(exponent * log_p)
        g = gap / (scale if scale > 5e-324 else 5e-324)  # no 0 / 0
        rest += g if inside else 0.0
        dx[j] = T(g) if inside else T(0)
    return rest


@scalar
def _least(p):
    """Where the smallest positive probability is; -1 if there is a NaN."""
    least = -1
    for start in range(0, p.size, BLOCK):
        if p.size > BLOCK and vacant(block_at(p, start)):
            continue
        for j in range(start, min(start + BLOCK, p.size)):
            if p[j] != p[j]:
                return -1
            if p[j] > 0 and (least < 0 or p[j] < p[least]):
                least = j
    return least


@scalar
def _steep_row(p, v, alpha, dx):
    """Alpha > 2: the slope of the smallest probability dwarfs the rest and may overflow.

    Cotangents are taken relative to that coordinate's, and its own entry is minus the sum of the
    others (columns of J sum to zero), so its slope is never used.
    """
    T = type(dx[0])
    least = _least(p)
    if least < 0:
        fill(dx, np.nan)
        return
    v0 = np.float64(v[least])
    log_p0 = any_log(np.float64(p[least]))
    exponent = alpha - 2.0
    total = 0.0
    dot = 0.0
    for start in range(0, p.size, BLOCK):
        q = block_at(p, start)
        if p.size <= BLOCK or not vacant(q):
            s0, s1 = _steep_moments(q, block_at(v, start), v0, log_p0, exponent)
            total += s0
            dot += s1
    mean = dot / total
    rest = 0.0
    for start in range(0, p.size, BLOCK):
        q = block_at(p, start)
        part = block_at(dx, start)
        if p.size > BLOCK and vacant(q):
            fill(part, T(0))
        else:
            cotangent = block_at(v, start)
            place = np.int64(least - start)
            rest += _steep_products(q, cotangent, v0, mean, exponent, place, part)
    dx[least] = T(-rest)
