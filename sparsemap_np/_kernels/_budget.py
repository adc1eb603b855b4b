"""k-subsets budget: p = clip(x - tau, 0, 1) with sum p = budget.

G(tau) = sum clip(x - tau, 0, 1) is piecewise linear and decreasing. Bracketed Newton steps on it
end when a step changes neither the saturated nor the interior set: the solution is then exact.
Scores are taken relative to tau itself, not to the row maximum: one huge score, which saturates,
must not cost the others their digits.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._scan import BLOCK, block_at, fill, largest, smallest, sum_of_blocks
from sparsemap_np._kernels._twosum import split_sum


@element
def _excess(x, ref, u):
    T = type(u)
    return (T(x) - T(ref)) - u


@fast
def _counts(x, ref, u):
    """Number saturated, number inside (0, 1), and the sum of those inside, at tau = ref + u.

    In the precision of u.
    """
    T = type(u)
    full = T(0)
    inside = T(0)
    s = T(0)
    for j in range(x.size):
        w = _excess(x[j], ref, u)
        over = T(1) if w >= T(1) else T(0)
        above = T(1) if w > T(0) else T(0)
        full += over
        inside += above - over
        s += w if above > over else T(0)
    return np.float64(full), np.float64(inside), np.float64(s)


@scalar
def _middle(lo, hi):
    """Midpoint, on a logarithmic scale while the bracket spans magnitudes."""
    if hi - lo > 0.5 * max(abs(lo), abs(hi)):
        return math.sinh(0.5 * math.asinh(lo) + 0.5 * math.asinh(hi))
    return lo + 0.5 * (hi - lo)


@scalar
def _near(x, budget, lo, hi):
    """A threshold's place as (ref, below): in [ref + below, ref], a few units or two numbers wide.

    From the lowest score and the highest on.
    """
    full, inside, s = _counts(x, lo, 0.0)
    if full + s < budget:  # between lo - 1 and lo; the former may round to the latter
        return lo, -1.0
    while hi - lo > 4.0:
        tau = _middle(lo, hi)
        if not lo < tau < hi:
            # Scores this large are whole units apart: those equal to hi share what is left.
            return hi, -1.0
        full, inside, s = _counts(x, tau, 0.0)
        if full + s >= budget:
            lo = tau
        else:
            hi = tau
    return hi, lo - hi


@scalar
def _approach(x, budget, lo, hi, tau):
    """A threshold to start from: bracketed Newton steps in the row's own precision."""
    T = type(x[0])
    for _ in range(40):
        full = 0.0
        inside = 0.0
        s = 0.0
        for start in range(0, x.size, BLOCK):
            f, i, t = _counts(block_at(x, start), T(0), T(tau))
            full += f
            inside += i
            s += t
        excess = (full - budget) + s
        if excess > 0.0:
            lo = tau
        else:
            hi = tau
        before = tau
        if inside > 0:
            tau += excess / inside
        if inside == 0 or not lo <= tau <= hi:
            tau = lo + 0.5 * (hi - lo)
        if abs(tau - before) <= 1e-4:
            break
    return tau


@scalar
def _offset(x, budget, ref, lo, hi):
    """Tau - ref in [lo, hi] as (hi, lo)."""
    u = 0.0
    full0 = -1.0
    inside0 = -1.0
    for _ in range(200):
        full, inside, s = _counts(x, ref, u)
        excess = (full - budget) + s
        step = excess / inside if inside > 0 else 0.0
        # A Newton step that changed neither set was exact; this is its last correction.
        if inside > 0 and full == full0 and inside == inside0:
            return split_sum(u, step, 0.0)
        if excess == 0.0 or (inside > 0 and u + step == u):
            break
        if excess > 0.0:
            lo = u
        else:
            hi = u
        full0 = full
        inside0 = inside
        u = u + step
        if inside == 0 or not lo < u < hi:
            u = lo + 0.5 * (hi - lo)
            full0 = -1.0  # no Newton step: equal sets would say nothing
            if u in (lo, hi):
                break
    return u, 0.0


@scalar
def _slow_range(x):
    """Lowest and highest finite score, how many there are, and the number of +inf.

    NaN for the lowest if there is a NaN.
    """
    lowest = np.inf
    highest = -np.inf
    finite = 0
    infinite = 0
    for j in range(x.size):
        v = np.float64(x[j])
        if v != v:
            return np.nan, np.nan, 0, 0
        infinite += v == np.inf
        if np.isfinite(v):
            finite += 1
            lowest = min(lowest, v)
            highest = max(highest, v)
    return lowest, highest, finite, infinite


@scalar
def finite_range(x):
    """``_slow_range``, quickly where all scores are finite, and their mean (0 where unknown)."""
    total = sum_of_blocks(x)
    if np.isfinite(total):
        return (np.float64(smallest(x)), np.float64(largest(x)), x.size, 0), total / x.size
    return _slow_range(x), 0.0


@scalar
def budget_row(x, budget, n_iter, work, p):
    """Probabilities of any row; returns (ref, lift): p = clip((x - ref) + lift, 0, 1)."""
    T = type(p[0])
    d = x.size
    (lowest, highest, usable, infinite), mean = finite_range(x)
    if lowest != lowest:
        fill(p, np.nan)
        return np.nan, np.nan
    if budget > usable + infinite or (infinite > 1 and 0.0 < budget < infinite):
        fill(p, np.nan)
        return np.nan, np.nan
    rest = budget - infinite
    if rest < 0.0:  # the whole budget, if any, goes to the one infinite score
        for j in range(d):
            p[j] = budget if x[j] == np.inf else 0.0
        return np.inf, 0.0
    if rest == 0.0 or rest == usable:
        keep = rest > 0.0
        for j in range(d):
            p[j] = 1.0 if x[j] == np.inf or (keep and x[j] > -np.inf) else 0.0
        # Any threshold beyond the scores will do: take the nearest one.
        return (lowest, 1.0) if keep else (highest, 0.0)
    if d == 1:
        p[0] = budget
        return np.float64(x[0]), budget
    # Infinite scores saturate at any tau: they are counted, and so is their part of the budget.
    hi = highest
    if highest - lowest < 99.0:
        lo = lowest - 1.0
        ref = _approach(x, budget, lo, hi, min(max(mean - budget / d, lo), hi))
        below = (lowest - ref) - 1.0  # exactly, where lowest - 1 would round
    else:
        ref, below = _near(x, budget, lowest, highest)
        hi = ref
    offset, remainder = _offset(x, budget, ref, below, hi - ref)
    for j in range(d):
        w = ((np.float64(x[j]) - ref) - offset) - remainder
        w = w if w > 0.0 else 0.0
        p[j] = T(w if w < 1.0 else 1.0)
    return ref, -(offset + remainder)
