"""k-subsets budget: p = clip(x - tau, 0, 1) with sum p = budget.

G(tau) = sum clip(x - tau, 0, 1) is piecewise linear and decreasing. Bracketed Newton steps on it
end when a step changes neither the saturated nor the interior set: the solution is then exact.
Scores are taken relative to tau itself, not to the row maximum: one huge score, which saturates,
must not cost the others their digits.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import element, fast, scalar
from sparsemap_np._kernels._scan import fill
from sparsemap_np._kernels._twosum import split_sum


@element
def _excess(x, ref, u):
    return (np.float64(x) - ref) - u


@fast
def _counts(x, ref, u):
    """Number saturated, number inside (0, 1), and the sum of those inside, at tau = ref + u."""
    full = 0.0
    inside = 0.0
    s = 0.0
    for j in range(x.size):
        w = _excess(x[j], ref, u)
        over = 1.0 if w >= 1.0 else 0.0
        above = 1.0 if w > 0.0 else 0.0
        full += over
        inside += above - over
        s += w if above > over else 0.0
    return full, inside, s


@scalar
def _middle(lo, hi):
    """Midpoint, on a logarithmic scale while the bracket spans magnitudes."""
    if hi - lo > 0.5 * max(abs(lo), abs(hi)):
        return math.sinh(0.5 * math.asinh(lo) + 0.5 * math.asinh(hi))
    return lo + 0.5 * (hi - lo)


@scalar
def _near(x, budget, lo, hi):
    """Narrow G(lo) >= budget >= G(hi) to a few units, or to neighbouring numbers."""
    while hi - lo > 4.0:
        tau = _middle(lo, hi)
        if not lo < tau < hi:
            # Scores this large are whole units apart: those equal to hi share what is left.
            return hi - 1.0 if hi - 1.0 < hi else hi, hi
        full, inside, s = _counts(x, tau, 0.0)
        if full + s >= budget:
            lo = tau
        else:
            hi = tau
    return lo, hi


@scalar
def _offset(x, budget, ref, lo):
    """Tau - ref in [lo, 0] as (hi, lo)."""
    hi = 0.0
    u = 0.5 * lo
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
def budget_row(x, budget, n_iter, work, p):
    """Probabilities of any row; returns (ref, lift): p = clip((x - ref) + lift, 0, 1)."""
    d = x.size
    smallest = np.inf
    largest = -np.inf
    infinite = 0
    usable = 0
    for j in range(d):
        v = np.float64(x[j])
        if v != v:
            fill(p, np.nan)
            return np.nan, np.nan
        infinite += v == np.inf
        if np.isfinite(v):
            usable += 1
            smallest = min(smallest, v)
            largest = max(largest, v)
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
        return (smallest, 1.0) if keep else (largest, 0.0)
    if d == 1:
        p[0] = budget
        return np.float64(x[0]), budget
    # Infinite scores saturate at any tau: they are counted, and so is their part of the budget.
    lo, ref = _near(x, budget, smallest - 1.0, largest)
    offset, remainder = _offset(x, budget, ref, lo - ref if lo < ref else -1.0)
    for j in range(d):
        w = ((np.float64(x[j]) - ref) - offset) - remainder
        p[j] = min(max(w, 0.0), 1.0)
    return ref, -(offset + remainder)
