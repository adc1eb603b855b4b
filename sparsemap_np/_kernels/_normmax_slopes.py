"""normmax: one row of its vector-Jacobian product, and of the gradient of alpha.

J = diag(w) plus rank-one terms of p and w, with w a power of q = p / ||p||_alpha. Sums run in
float64, branch-free, over blocks that hold any support.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, scalar, sums
from sparsemap_np._kernels._powers import exp_of_negative
from sparsemap_np._kernels._scan import block_count, block_of, fill, largest, vacant
from sparsemap_np._kernels._slopes import any_log, zero_unless_nan
from sparsemap_np._kernels._views import stretch


@element
def _relative_power(p, top, exponent):
    """``(p / top)^exponent`` on the support, for p <= top; any exponent."""
    inside = p > 0.0
    t = exponent * any_log(p / top if inside else 1.0)
    r = exp_of_negative(-abs(t))
    r = r if t <= 0.0 else 1.0 / r
    return r if inside else 0.0


@sums
def _sum_of_relative_powers(p, top, exponent):
    total = 0.0
    for j in range(p.size):
        total += _relative_power(np.float64(p[j]), top, exponent)
    return total


@scalar
def _norm(p, alpha):
    """``||p||_alpha`` relative to the largest entry, and that entry."""
    top = np.float64(largest(p))
    total = 0.0
    for k in range(block_count(p.size)):
        q = block_of(p, k)
        if not vacant(q):
            total += _sum_of_relative_powers(q, top, alpha)
    return total ** (1.0 / alpha), top


@sums
def _count_and_mean(p, v):
    """``sum p``, only to see a NaN, the size of the support and ``sum p v``."""
    total = 0.0
    count = 0.0
    mean = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        total += q
        count += 1.0 if q > 0.0 else 0.0
        mean += q * np.float64(v[j]) if q > 0.0 else 0.0
    return total, count, mean


@element
def _normmax_moment(w, v, mean):
    return w * (v - mean) if w > 0.0 else 0.0


@sums
def _normmax_weights(p, v, mean, norm, scale, alpha, dx):
    """Write the weights; return ``sum w (v - mean)``.

    Of the weights as they are written: J is symmetric for any weights, but the same on both sides.
    """
    T = type(dx[0])
    dot = 0.0
    if alpha == 2.0:
        for j in range(p.size):
            w = T(scale) if p[j] > T(0) else T(0)
            dx[j] = w
            dot += _normmax_moment(np.float64(w), np.float64(v[j]), mean)
    else:
        for j in range(p.size):
            w = T(scale * _relative_power(np.float64(p[j]), norm, 2.0 - alpha))
            dx[j] = w
            dot += _normmax_moment(np.float64(w), np.float64(v[j]), mean)
    return dot


@element
def _normmax_entry(w, p, v, mean, dot):
    return w * (v - mean) - p * dot if p > 0.0 else 0.0


@scalar
def _normmax_write(p, v, mean, dot, dx):
    T = type(dx[0])
    for j in range(p.size):
        w = np.float64(dx[j])
        dx[j] = T(_normmax_entry(w, np.float64(p[j]), np.float64(v[j]), mean, dot))


@scalar
def _normmax_row(p, v, alpha, work, dx):
    """``w (v - p.v) - p sum(w (v - p.v))`` with w = q^(2-a) / ((a-1) sum q), q = p / ||p||_a."""
    T = type(dx[0])
    if alpha == 1.0 or alpha == np.inf:
        zero_unless_nan(p, dx)
        return
    total = 0.0
    support = 0.0
    mean = 0.0
    for k in range(block_count(p.size)):
        q = block_of(p, k)
        if not vacant(q):
            a0, a1, a2 = _count_and_mean(q, block_of(v, k))
            total += a0
            support += a1
            mean += a2
    if total != total:
        fill(dx, np.nan)
        return
    if support == 1.0:
        fill(dx, T(0))
        return
    relative, top = _norm(p, alpha)
    norm = relative * top
    scale = norm / (alpha - 1.0)  # 1 / sum(q) = ||p||, because p sums to one
    dot = 0.0
    for k in range(block_count(p.size)):
        q = block_of(p, k)
        if vacant(q):
            fill(block_of(dx, k), T(0))
        else:
            s = block_of(dx, k)
            dot += _normmax_weights(q, block_of(v, k), mean, norm, scale, alpha, s)
    for k in range(block_count(p.size)):
        q = block_of(p, k)
        if not vacant(q):
            _normmax_write(q, block_of(v, k), mean, dot, block_of(dx, k))


@scalar
def _normmax_rows(p, v, alpha, d, work, dx):
    """Several short rows."""
    for i in range(0, p.size, d):
        _normmax_row(stretch(p, i, d), stretch(v, i, d), alpha, work, stretch(dx, i, d))


normmax_vjp = (_normmax_row, _normmax_rows)


@element
def _normmax_logs(p, log_norm, alpha):
    """``q^a log q`` on the support, q = p / ||p||."""
    inside = p > 0.0
    log_q = any_log(p) - log_norm if inside else 0.0
    return exp_of_negative(alpha * min(log_q, 0.0)) * log_q


@element
def _normmax_move(p, gap, log_norm, lead, b):
    """How far the log of one coordinate moves, times p and the cotangent."""
    inside = p > 0.0
    log_q = any_log(p) - log_norm if inside else 0.0
    t = b * log_q
    r = exp_of_negative(-abs(t))
    r = r if t > 0.0 else 1.0 / r
    return p * gap * (lead * r - log_q) / b if inside else 0.0


@sums
def _normmax_log_sum(p, log_norm, alpha):
    total = 0.0
    for j in range(p.size):
        total += _normmax_logs(np.float64(p[j]), log_norm, alpha)
    return total


@sums
def _normmax_moves(p, v, mean, log_norm, lead, b):
    total = 0.0
    for j in range(p.size):
        gap = np.float64(v[j]) - mean
        total += _normmax_move(np.float64(p[j]), gap, log_norm, lead, b)
    return total


@scalar
def normmax_dalpha(p, v, alpha):
    """``sum_i v_i dp_i / dalpha``.

    log q_i = log(z_i - tau) / b moves by ``r_i = (H / (a S q_i^b) - log q_i) / b`` with b = a - 1,
    S = sum q, H = sum q^a log q (from sum q^a = 1), and p = q / S by ``p_i (r_i - sum p r)``.
    """
    total, support, mean = _count_and_mean(p, v)
    if total != total:
        return np.nan
    if alpha == 1.0 or alpha == np.inf or support == 1.0:
        return 0.0
    relative, top = _norm(p, alpha)
    log_norm = math.log(relative) + math.log(top)
    lead = _normmax_log_sum(p, log_norm, alpha) * math.exp(log_norm) / alpha
    return _normmax_moves(p, v, mean, log_norm, lead, alpha - 1.0)
