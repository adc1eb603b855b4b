"""One row of a vector-Jacobian product: dx = J v from the output p of the mapping.

Every Jacobian is symmetric: ``diag(s) - s s' / sum(s)`` with the slope s_i = p_i^(2 - alpha) on the
support for entmax, two more rank-one terms for normmax, the interior's centring for budget. Off the
support the row is exactly zero, whatever the cotangent holds there.
"""

import math

import numpy as np

from sparsemap_np._kernels._centre import centred
from sparsemap_np._kernels._compile import element, scalar
from sparsemap_np._kernels._scan import fill
from sparsemap_np._kernels._views import stretch


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
def _power(p, alpha):
    """``p^(2 - alpha)`` on the support, for alpha <= 2."""
    if alpha == 2.0:
        return _one(p, alpha)
    if alpha == 1.5:
        return _square_root(p, alpha)
    return type(p)(np.float64(p) ** (2.0 - alpha))


sparsemax_vjp = centred("sparsemax", _one)
entmax15_vjp = centred("entmax15", _square_root)
budget_vjp = centred("budget", _inside)
_flat_row, _flat_rows = centred("entmax_flat", _power)


@scalar
def _zero_unless_nan(p, dx):
    T = type(dx[0])
    for j in range(p.size):
        if p[j] != p[j]:
            fill(dx, np.nan)
            return
    fill(dx, T(0))


@scalar
def _entmax_row(p, v, alpha, work, dx):
    """Any alpha > 0."""
    if alpha == np.inf:
        _zero_unless_nan(p, dx)
    elif alpha <= 2.0:
        _flat_row(p, v, alpha, work, dx)
    else:
        _steep_row(p, v, alpha, dx)


@scalar
def _entmax_rows(p, v, alpha, d, work, dx):
    """Several short rows."""
    if alpha <= 2.0:
        _flat_rows(p, v, alpha, d, work, dx)
    else:
        for i in range(0, p.size, d):
            _entmax_row(stretch(p, i, d), stretch(v, i, d), alpha, work, stretch(dx, i, d))


entmax_vjp = (_entmax_row, _entmax_rows)


@scalar
def _steep_row(p, v, alpha, dx):
    """Alpha > 2: the slope of the smallest probability dwarfs the rest and may overflow.

    Cotangents are taken relative to that coordinate's, and its own entry is minus the sum of the
    others (columns of J sum to zero), so its slope is never used.
    """
    T = type(dx[0])
    least = -1
    for j in range(p.size):
        if p[j] != p[j]:
            fill(dx, np.nan)
            return
        if p[j] > 0 and (least < 0 or p[j] < p[least]):
            least = j
    p0 = np.float64(p[least])
    v0 = np.float64(v[least])
    total = 0.0
    dot = 0.0
    for j in range(p.size):
        if p[j] > 0:
            r = (p0 / np.float64(p[j])) ** (alpha - 2.0)
            total += r
            if j != least:
                dot += r * (np.float64(v[j]) - v0)
    mean = dot / total
    rest = 0.0
    for j in range(p.size):
        dx[j] = T(0)
        if p[j] > 0 and j != least:
            gap = (np.float64(v[j]) - v0) - mean
            if gap != 0.0:
                g = np.float64(p[j]) ** (2.0 - alpha) * gap
                rest += g
                dx[j] = T(g)
    dx[least] = T(-rest)


@scalar
def _second_order(u):
    """``(exp(u) - 1 - u) / u^2``, the remainder of the exponential; 1/2 at 0."""
    if abs(u) < 0.5:
        term = 0.5
        total = 0.5
        for k in range(3, 18):
            term *= u / k
            total += term
        return total
    return (math.expm1(u) - u) / (u * u)


@scalar
def entmax_dalpha(p, v, alpha):
    """``sum_i v_i dp_i / dalpha``.

    With b = alpha - 1, l = log p, w = s / sum(s) the textbook form is
    ``(p - w) / b^2 - (p l - w sum(p l)) / b``, which cancels to nothing as b -> 0. Writing
    exp(-b l) = 1 - b l + b^2 phi and carrying the terms out leaves the exact
    ``p (Phi (1 - b l) - phi (1 - b H)) / Z``, H = sum p l, Phi = sum p phi, Z = sum p exp(-b l).
    """
    b = alpha - 1.0
    if alpha == np.inf:
        return 0.0 if p[0] == p[0] else np.nan
    longest = 0.0
    h = 0.0
    mean = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        if q != q:
            return np.nan
        if q > 0.0:
            log_q = math.log(q)
            longest = max(longest, -log_q)
            h += q * log_q
            mean += q * np.float64(v[j])
    if b * longest > 600.0:
        return _entmax_dalpha_far(p, v, b, h)
    phi_mean = 0.0
    z = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        if q > 0.0:
            log_q = math.log(q)
            phi_mean += q * log_q * log_q * _second_order(-b * log_q)
            z += q * math.exp(-b * log_q)
    out = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        if q > 0.0:
            log_q = math.log(q)
            phi = log_q * log_q * _second_order(-b * log_q)
            d = q * (phi_mean * (1.0 - b * log_q) - phi * (1.0 - b * h)) / z
            if d != 0.0:
                out += (np.float64(v[j]) - mean) * d
    return out


@scalar
def _entmax_dalpha_far(p, v, b, h):
    """The textbook form, for b so large that nothing cancels but exp(-b l) overflows."""
    least = np.inf
    for j in range(p.size):
        if p[j] > 0:
            least = min(least, np.float64(p[j]))
    total = 0.0
    for j in range(p.size):
        if p[j] > 0:
            total += (least / np.float64(p[j])) ** (b - 1.0)
    out = 0.0
    for j in range(p.size):
        if p[j] > 0:
            q = np.float64(p[j])
            w = (least / q) ** (b - 1.0) / total
            d = (q - w) / (b * b) - (q * math.log(q) - w * h) / b
            out += np.float64(v[j]) * d
    return out


@scalar
def _norm(p, alpha):
    """``||p||_alpha`` relative to the largest entry, and that entry."""
    top = 0.0
    for j in range(p.size):
        top = max(top, np.float64(p[j]))
    total = 0.0
    for j in range(p.size):
        if p[j] > 0:
            total += (np.float64(p[j]) / top) ** alpha
    return total ** (1.0 / alpha), top


@scalar
def _normmax_row(p, v, alpha, work, dx):
    """``w (v - p.v) - p sum(w (v - p.v))`` with w = q^(2-a) / ((a-1) sum q), q = p / ||p||_a."""
    T = type(dx[0])
    if alpha == 1.0 or alpha == np.inf:
        _zero_unless_nan(p, dx)
        return
    mean = 0.0
    support = 0
    for j in range(p.size):
        if p[j] != p[j]:
            fill(dx, np.nan)
            return
        if p[j] > 0:
            support += 1
            mean += np.float64(p[j]) * np.float64(v[j])
    if support == 1:
        fill(dx, T(0))
        return
    relative, top = _norm(p, alpha)
    norm = relative * top
    scale = norm / (alpha - 1.0)  # 1 / sum(q) = ||p||, because p sums to one
    dot = 0.0
    for j in range(p.size):
        if p[j] > 0:
            w = scale * (np.float64(p[j]) / norm) ** (2.0 - alpha)
            dot += w * (np.float64(v[j]) - mean)
    for j in range(p.size):
        if p[j] > 0:
            w = scale * (np.float64(p[j]) / norm) ** (2.0 - alpha)
            dx[j] = T(w * (np.float64(v[j]) - mean) - np.float64(p[j]) * dot)
        else:
            dx[j] = T(0)


@scalar
def _normmax_rows(p, v, alpha, d, work, dx):
    """Several short rows."""
    for i in range(0, p.size, d):
        _normmax_row(stretch(p, i, d), stretch(v, i, d), alpha, work, stretch(dx, i, d))


normmax_vjp = (_normmax_row, _normmax_rows)


@scalar
def normmax_dalpha(p, v, alpha):
    """``sum_i v_i dp_i / dalpha``.

    log q_i = log(z_i - tau) / b moves by ``r_i = (H / (a S q_i^b) - log q_i) / b`` with b = a - 1,
    S = sum q, H = sum q^a log q (from sum q^a = 1), and p = q / S by ``p_i (r_i - sum p r)``.
    """
    for j in range(p.size):
        if p[j] != p[j]:
            return np.nan
    if alpha == 1.0 or alpha == np.inf:
        return 0.0
    b = alpha - 1.0
    relative, top = _norm(p, alpha)
    log_norm = math.log(relative) + math.log(top)
    h = 0.0
    mean = 0.0
    support = 0
    for j in range(p.size):
        if p[j] > 0:
            support += 1
            log_q = math.log(np.float64(p[j])) - log_norm
            h += math.exp(alpha * log_q) * log_q
            mean += np.float64(p[j]) * np.float64(v[j])
    if support == 1:
        return 0.0
    lead = h * math.exp(log_norm) / alpha
    out = 0.0
    for j in range(p.size):
        if p[j] > 0:
            q = np.float64(p[j])
            log_q = math.log(q) - log_norm
            out += q * (np.float64(v[j]) - mean) * (lead * math.exp(-b * log_q) - log_q) / b
    return out


@scalar
def budget_dbudget(p, v, par):
    """``sum_i v_i dp_i / dbudget``: the budget is shared by the interior coordinates."""
    count = 0
    total = 0.0
    for j in range(p.size):
        if p[j] != p[j]:
            return np.nan
        if 0 < p[j] < 1:
            count += 1
            total += np.float64(v[j])
    return total / count if count > 0 else 0.0
