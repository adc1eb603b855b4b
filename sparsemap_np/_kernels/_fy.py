"""One row of a Fenchel-Young loss, L = Omega*(x) + Omega(y) - <x, y>, as a sum of terms >= 0.

Rewritten as the Bregman divergence of y from p plus what the classes outside the support owe:
nothing large is ever subtracted, so a common offset of the scores does not matter, the loss is
never negative and is exactly 0 when p equals y. ``ref`` and ``lift`` come from the row solver.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import scalar


@scalar
def _power(p, alpha):
    if alpha == 1.5:
        return p * math.sqrt(p)
    if alpha == 2.0:
        return p * p
    if alpha == 1.0:
        return p
    return p**alpha


@scalar
def _deformed_log_of_exp(log_p, b):
    """``(p^b - 1) / b``, log p at b = 0."""
    return log_p if b == 0.0 else math.expm1(b * log_p) / b


@scalar
def entmax_label_loss(x, t, p, alpha, ref, lift):
    """Target: the class t. ``lift`` is ln_b of the largest probability."""
    z = np.float64(x[t]) - ref
    if alpha == np.inf:
        return -z
    b = alpha - 1.0
    if b == 0.0:
        return max(-(z + lift), 0.0)
    others = 0.0
    powers = 0.0
    for j in range(p.size):
        if p[j] > 0 and j != t:
            q = np.float64(p[j])
            others += q
            powers += _power(q, alpha)
    pt = np.float64(p[t])
    if pt > 0.0:
        log_p = math.log1p(-others) if others < 0.5 else math.log(pt)
        own = math.expm1(alpha * log_p) / alpha - math.expm1(b * log_p) / b
    else:
        own = -1.0 / alpha - (z + lift)
    return max(powers / alpha + own, 0.0)


@scalar
def entmax_soft_loss(x, y, scale, p, alpha, ref, lift):
    """Target: the distribution scale * y."""
    total = 0.0
    b = alpha - 1.0
    for j in range(p.size):
        q = np.float64(p[j])
        w = scale * np.float64(y[j])
        if w == q:
            continue
        z = np.float64(x[j]) - ref
        if alpha == np.inf:
            if w > 0.0:
                total -= w * z
        elif w == 0.0:
            total += _power(q, alpha) / alpha
        elif alpha == 2.0 and q > 0.0:
            total += 0.5 * (q - w) * (q - w)
        else:
            own = w * _deformed_log_of_exp(math.log(w), b) - w
            gain = own + (_power(q, alpha) if q > 0.0 else 0.0)
            total += max(gain / alpha - w * (z + lift), 0.0)
    return max(total, 0.0)


@scalar
def normmax_label_loss(x, t, p, alpha, ref, lift):
    """``||y|| - <y, x - tau>``: 1 minus the target's distance above the threshold."""
    if p[t] == 1:
        return 0.0
    return max(1.0 - ((np.float64(x[t]) - ref) + lift), 0.0)


@scalar
def normmax_soft_loss(x, y, scale, p, alpha, ref, lift):
    equal = True
    top = 0.0
    for j in range(p.size):
        w = scale * np.float64(y[j])
        equal = equal and w == np.float64(p[j])
        top = max(top, w)
    if equal:
        return 0.0
    norm = 0.0
    dot = 0.0
    for j in range(p.size):
        w = scale * np.float64(y[j])
        if w > 0.0:
            if alpha < np.inf:
                norm += (w / top) ** alpha
            dot += w * ((np.float64(x[j]) - ref) + lift)
    norm = top * norm ** (1.0 / alpha) if alpha < np.inf else top
    return max(norm - dot, 0.0)


@scalar
def budget_soft_loss(x, y, scale, p, budget, ref, lift):
    """Target: y in [0, 1] with sum y = budget."""
    total = 0.0
    for j in range(p.size):
        q = np.float64(p[j])
        w = np.float64(y[j])
        if w != q:
            if ref == np.inf:  # an infinite score holds the whole budget, the target does not
                return np.inf
            total += 0.5 * (q - w) * (q - w)
            if q <= 0.0 or q >= 1.0:
                total += max((q - w) * (((np.float64(x[j]) - ref) + lift) - q), 0.0)
    return total
