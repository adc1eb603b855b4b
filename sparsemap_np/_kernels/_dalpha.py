"""One row of a gradient with respect to the mapping's own parameter: ``sum_i v_i dp_i / dpar``.

Sums run in float64, branch-free, over blocks that hold any support.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, scalar, sums
from sparsemap_np._kernels._powers import exp_of_negative
from sparsemap_np._kernels._scan import block_count, block_of, vacant
from sparsemap_np._kernels._slopes import any_log


@element
def _second_order(u):
    """``(exp(u) - 1 - u) / u^2``, the remainder of the exponential; 1/2 at 0. |u| < 700."""
    near = abs(u) < 0.5
    r = u if near else 0.0
    series = 1.0 / 355687428096000.0
    series = series * r + 1.0 / 20922789888000.0
    series = series * r + 1.0 / 1307674368000.0
    series = series * r + 1.0 / 87178291200.0
    series = series * r + 1.0 / 6227020800.0
    series = series * r + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 1.0 / 2.0
    e = exp_of_negative(-abs(u))
    e = e if u < 0.0 else 1.0 / e
    v = 1.0 if near else u
    return series if near else (e - 1.0 - v) / (v * v)


@element
def _entropy_terms(p, v):
    """``p log p`` and ``p v`` on the support."""
    inside = p > 0.0
    q = p if inside else 1.0
    return (p * any_log(q) if inside else 0.0), (p * v if inside else 0.0)


@sums
def _entropy_and_mean(p, v):
    """``sum p``, only to see a NaN, ``sum p log p`` and ``sum p v``."""
    total = 0.0
    h = 0.0
    mean = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        total += q
        a, b = _entropy_terms(q, np.float64(v[j]))
        h += a
        mean += b
    return total, h, mean


@element
def _expansion(p, v, mean, b):
    """Parts of ``entmax_dalpha`` for one probability; the last tells where exp(-b l) overflows."""
    inside = p > 0.0
    log_p = any_log(p if inside else 1.0)
    t = -b * log_p
    far = t > 600.0
    t = 0.0 if far else t
    phi = log_p * log_p * _second_order(t)
    e = exp_of_negative(-abs(t))
    e = e if t < 0.0 else 1.0 / e
    gap = v - mean if inside else 0.0
    return (
        p * phi,
        p * e,
        p * gap * (1.0 + t),
        p * gap * phi,
        1.0 if far else 0.0,
    )


@sums
def _expansions(p, v, mean, b):
    phi = 0.0
    z = 0.0
    first = 0.0
    second = 0.0
    far = 0.0
    for j in range(p.size):
        a0, a1, a2, a3, a4 = _expansion(np.float64(p[j]), np.float64(v[j]), mean, b)
        phi += a0
        z += a1
        first += a2
        second += a3
        far += a4
    return phi, z, first, second, far


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
    total = 0.0
    h = 0.0
    mean = 0.0
    for k in range(block_count(p.size)):
        q = block_of(p, k)
        if not vacant(q):
            a0, a1, a2 = _entropy_and_mean(q, block_of(v, k))
            total += a0
            h += a1
            mean += a2
    if total != total:
        return np.nan
    phi = 0.0
    z = 0.0
    first = 0.0
    second = 0.0
    far = 0.0
    for k in range(block_count(p.size)):
        q = block_of(p, k)
        if not vacant(q):
            a0, a1, a2, a3, a4 = _expansions(q, block_of(v, k), mean, b)
            phi += a0
            z += a1
            first += a2
            second += a3
            far += a4
    if far > 0.0:
        return _entmax_dalpha_far(p, v, b, h)
    return (phi * first - second * (1.0 - b * h)) / z


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


@sums
def _interior(p, v):
    """``sum p``, only to see a NaN, how many lie inside (0, 1) and the sum of v there."""
    total = 0.0
    count = 0.0
    moved = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        inside = q > 0.0 and q < 1.0
        total += q
        count += 1.0 if inside else 0.0
        moved += np.float64(v[j]) if inside else 0.0
    return total, count, moved


@scalar
def budget_dbudget(p, v, par):
    """``sum_i v_i dp_i / dbudget``: the budget is shared by the interior coordinates."""
    total, count, moved = _interior(p, v)
    if total != total:
        return np.nan
    return moved / count if count > 0.0 else 0.0
