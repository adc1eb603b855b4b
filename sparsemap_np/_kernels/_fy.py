"""One row of a Fenchel-Young loss, L = Omega*(x) + Omega(y) - <x, y>, as a sum of terms >= 0.

Rewritten as the Bregman divergence of y from p plus what the classes outside the support owe:
nothing large is ever subtracted, so a common offset of the scores does not matter, the loss is
never negative and is exactly 0 when p equals y. ``ref`` and ``lift`` come from the row solver.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, scalar, sums
from sparsemap_np._kernels._formulas import FULL_PRECISION, own_loss_of_score
from sparsemap_np._kernels._powers import (
    exp_of_negative,
    expm1_of_negative,
    log_of_positive,
)
from sparsemap_np._kernels._scan import BLOCK, block_count, block_of, largest, vacant

_own_of_score = scalar(own_loss_of_score)


@element
def _power(p, alpha):
    """``p^alpha`` for p in [0, 1], any finite alpha > 0."""
    inside = p > 0.0
    r = exp_of_negative(alpha * log_of_positive(p if inside else 1.0))
    return r if inside else 0.0


@sums
def _mass_and_powers(p, alpha):
    mass = 0.0
    powers = 0.0
    if alpha == 2.0:
        for j in range(p.size):
            q = np.float64(p[j])
            mass += q
            powers += q * q
    elif alpha == 1.5:
        for j in range(p.size):
            q = np.float64(p[j])
            mass += q
            powers += q * math.sqrt(q)
    else:
        for j in range(p.size):
            q = np.float64(p[j])
            mass += q
            powers += _power(q, alpha)
    return mass, powers


@element
def _deformed_log(w, b):
    """``(w^b - 1) / b`` for w in (0, 1], log w at b = 0."""
    log_w = log_of_positive(w)
    t = b * log_w
    e = expm1_of_negative(-abs(t))
    e = e if t <= 0.0 else -e / (1.0 + e)
    return e / b if b != 0.0 else log_w


@scalar
def _own(p, rest, alpha):
    """``(p^alpha - 1) / alpha - (p^b - 1) / b`` of the target's probability p = 1 - rest > 0."""
    b = alpha - 1.0
    rest = rest if rest < 0.5 else 1.0 - p
    if alpha == 2.0:
        return 0.5 * rest * rest
    if alpha == 1.5:
        root = math.sqrt(p)
        gap = rest / (1.0 + root)
        return gap * gap * (2.0 + root) * (2.0 / 3.0)
    log_p = math.log1p(-rest) if rest < 0.5 else math.log(p)
    return math.expm1(alpha * log_p) / alpha - math.expm1(b * log_p) / b


@scalar
def entmax_lead(alpha):
    """The margin of the loss: there is none for dense mappings."""
    return 1.0 / (alpha - 1.0) if alpha > 1.0 else np.inf


@scalar
def entmax_label_loss(x, t, p, alpha, ref, lift):
    """Target: the class t. ``lift`` is ln_b of the largest probability."""
    z = np.float64(x[t]) - ref
    if alpha == np.inf:
        return -z
    if alpha == 1.0:
        return max(-(z + lift), 0.0)
    own = p[t]
    p[t] = 0  # for the sums over the others
    others = 0.0
    powers = 0.0
    for k in range(block_count(p.size)):
        block = block_of(p, k)
        if p.size <= BLOCK or not vacant(block):
            block_mass, block_powers = _mass_and_powers(block, alpha)
            others += block_mass
            powers += block_powers
    p[t] = own
    own = np.float64(own)
    if own > FULL_PRECISION:
        gain = _own(own, others, alpha)
    else:
        gain = _own_of_score(z + lift, alpha, alpha - 1.0)
    return max(powers / alpha + gain, 0.0)


@element
def _reduced(x, ref, lift):
    """The score that the mapping's formula takes, in the order that cancels an offset exactly."""
    return (np.float64(x) - ref) + lift


@element
def _sparsemax_term(q, w, u):
    """``(q - w)^2 / 2`` and, off the support, what the score u owes below the threshold -1."""
    owed = w * max(-1.0 - u, 0.0) if q == 0.0 and w > 0.0 else 0.0
    return 0.5 * (q - w) * (q - w) + owed


@element
def _entmax15_term(q, w, u):
    """``2/3 (a - c)^2 (2 a + c)``, a^2 = w, c^2 = q: the general term without its cancellation."""
    a = math.sqrt(w)
    c = math.sqrt(q)
    owed = w * max(-2.0 - u, 0.0) if q == 0.0 and w > 0.0 else 0.0
    return (a - c) * (a - c) * (2.0 * a + c) * (2.0 / 3.0) + owed


@element
def _softmax_term(q, w, u):
    """``w (log w - u) - w + q``; nothing but q where w = 0, also for a score of -inf."""
    inside = w > 0.0
    log_w = log_of_positive(w if inside else 1.0)
    term = max(w * log_w - w + q - (w * u if inside else 0.0), 0.0)
    return term if w != q else 0.0


@element
def _entmax_term(q, w, u, alpha):
    """Any finite alpha. ``w u`` is nothing where w = 0, also for a score of -inf."""
    inside = w > 0.0
    v = w if inside else 1.0
    gain = w * _deformed_log(v, alpha - 1.0) - w
    term = max((gain + _power(q, alpha)) / alpha - (w * u if inside else 0.0), 0.0)
    return term if w != q else 0.0


@element
def _perceptron_term(q, w, u):
    return -w * u if w > 0.0 else 0.0


@sums
def entmax_soft_loss(x, y, scale, p, alpha, ref, lift):
    """Target: the distribution scale * y."""
    total = 0.0
    if alpha == 2.0:
        for j in range(p.size):
            u = _reduced(x[j], ref, lift)
            total += _sparsemax_term(np.float64(p[j]), scale * np.float64(y[j]), u)
    elif alpha == 1.5:
        for j in range(p.size):
            u = _reduced(x[j], ref, lift)
            total += _entmax15_term(np.float64(p[j]), scale * np.float64(y[j]), u)
    elif alpha == 1.0:
        for j in range(p.size):
            u = _reduced(x[j], ref, lift)
            total += _softmax_term(np.float64(p[j]), scale * np.float64(y[j]), u)
    elif alpha == np.inf:
        for j in range(p.size):
            u = _reduced(x[j], ref, 0.0)
            total += _perceptron_term(np.float64(p[j]), scale * np.float64(y[j]), u)
    else:
        for j in range(p.size):
            u = _reduced(x[j], ref, lift)
            total += _entmax_term(np.float64(p[j]), scale * np.float64(y[j]), u, alpha)
    return max(total, 0.0)


@scalar
def normmax_lead(alpha):
    """The margin of the loss, whatever the norm."""
    return 1.0


@scalar
def normmax_label_loss(x, t, p, alpha, ref, lift):
    """``||y|| - <y, x - tau>``: 1 minus the target's distance above the threshold."""
    if p[t] == 1:
        return 0.0
    return max(1.0 - ((np.float64(x[t]) - ref) + lift), 0.0)


@sums
def _powers_of_target(y, top, alpha):
    """``sum (y / top)^alpha``, top the largest."""
    total = 0.0
    for j in range(y.size):
        total += _power(np.float64(y[j]) / top, alpha)
    return total


@element
def _times_score(w, u):
    return w * u if w > 0.0 else 0.0


@sums
def _mean_score(x, y, scale, ref, lift):
    total = 0.0
    for j in range(y.size):
        total += _times_score(scale * np.float64(y[j]), _reduced(x[j], ref, lift))
    return total


@sums
def _differences(p, y, scale):
    count = 0.0
    for j in range(p.size):
        count += 1.0 if np.float64(p[j]) != scale * np.float64(y[j]) else 0.0
    return count


@scalar
def normmax_soft_loss(x, y, scale, p, alpha, ref, lift):
    """``||y|| - <y, x - tau>``."""
    if _differences(p, y, scale) == 0.0:
        return 0.0
    top = np.float64(largest(y))
    norm = scale * top
    if alpha < np.inf:
        norm *= _powers_of_target(y, top, alpha) ** (1.0 / alpha)
    return max(norm - _mean_score(x, y, scale, ref, lift), 0.0)


@element
def _budget_term(q, w, u):
    """``(q - w)^2 / 2`` and, where q stands at a bound, what the score u owes beyond it."""
    gap = q - w
    owed = max(gap * (u - q), 0.0) if (q <= 0.0 or q >= 1.0) and gap != 0.0 else 0.0
    return 0.5 * gap * gap + owed


@sums
def budget_soft_loss(x, y, scale, p, budget, ref, lift):
    """Target: y in [0, 1] with sum y = budget."""
    if ref == np.inf:  # an infinite score holds the whole budget: does the target agree?
        return np.inf if _differences(p, y, 1.0) > 0.0 else 0.0
    total = 0.0
    for j in range(p.size):
        u = _reduced(x[j], ref, lift)
        total += _budget_term(np.float64(p[j]), np.float64(y[j]), u)
    return total
