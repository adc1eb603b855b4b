"""alpha-entmax for alpha > 2, where the power 1/b, b = alpha - 1 > 1, has an infinite slope at 0.

No resolution in the threshold is a resolution in p: at alpha = 100 a probability of 0.01 sits
1e-198 above it. So the support is found first, exactly, by evaluating the normaliser at scores;
then the unknown is y, the smallest probability in the support: p_i = (b (x_i - x_low) + y^b)^(1/b)
is a norm of (its gap, y), hence convex in y, and Newton descends to the root without overshooting.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import scalar
from sparsemap_np._kernels._scan import block_of


@scalar
def _normaliser(x, top, tau, b, bmax):
    """``sum (b (z - tau))+^(1/b)``."""
    f = 0.0
    for k in range(bmax.size):
        if np.float64(bmax[k]) - top > tau:
            for v in block_of(x, k):
                u = (np.float64(v) - top) - tau
                if u > 0.0:
                    f += math.exp(math.log(b * u) / b)
    return f


@scalar
def _between(x, top, lo, hi, bmax):
    """Smallest and largest score strictly between lo and hi; (inf, -inf) if there is none."""
    smallest = np.inf
    largest = -np.inf
    for k in range(bmax.size):
        if np.float64(bmax[k]) - top > lo:
            for v in block_of(x, k):
                z = np.float64(v) - top
                if lo < z < hi:
                    smallest = min(smallest, z)
                    largest = max(largest, z)
    return smallest, largest


@scalar
def _lowest_supported(x, top, b, bmax):
    """Smallest score minus max in the support: where the normaliser is still below 1."""
    lo = -1.0 / b
    hi = 0.0
    h_lo = -1.0
    h_hi = 0.0
    halve = False
    while True:
        smallest, largest = _between(x, top, lo, hi, bmax)
        if smallest == np.inf:
            return hi
        if h_lo < 0.0:
            h_lo = _normaliser(x, top, lo, b, bmax) ** b
        tau = 0.5 * (smallest + largest)
        if not halve:
            # The norm F^b is nearly linear in tau: its chord predicts the root well.
            chord = hi - (1.0 - h_hi) * (hi - lo) / (h_lo - h_hi)
            if np.isfinite(chord):
                tau = chord
        halve = not halve
        tau = min(max(tau, smallest), largest)
        f = _normaliser(x, top, tau, b, bmax)
        if f < 1.0:
            hi = tau
            h_hi = f**b
            # hi must be a score that is in: move it up to the next one from an arbitrary tau.
            if tau != smallest and tau != largest:
                hi = _next_above(x, top, tau, bmax)
        else:
            lo = tau
            h_lo = f**b


@scalar
def _next_above(x, top, tau, bmax):
    """Smallest score minus max that is at least tau."""
    best = 0.0
    for k in range(bmax.size):
        if np.float64(bmax[k]) - top >= tau:
            for v in block_of(x, k):
                z = np.float64(v) - top
                if z >= tau:
                    best = min(best, z)
    return best


@scalar
def _coordinate(gap, y, yb, b):
    """``(gap + y^b)^(1/b)``, exactly y at gap 0, where y^b may have underflowed."""
    return y if gap == 0.0 else math.exp(math.log(gap + yb) / b)


@scalar
def _smallest_probability(x, lowest, b, bmax):
    """Solve for y with sum p = 1 over the scores that are at least lowest."""
    count = 0
    for k in range(bmax.size):
        if bmax[k] >= lowest:
            for v in block_of(x, k):
                count += v >= lowest
    y = 1.0 / count
    for _ in range(200):
        yb = y**b
        f = 0.0
        slope = 0.0
        for k in range(bmax.size):
            if bmax[k] >= lowest:
                for v in block_of(x, k):
                    if v >= lowest:
                        gap = np.float64(v) - np.float64(lowest)
                        p = _coordinate(b * gap, y, yb, b)
                        f += p
                        slope += (y / p) ** (b - 1.0)
        moved = y - (f - 1.0) / slope
        if not moved < y:
            break
        y = max(moved, 0.0)
        if f - 1.0 <= 4e-16:
            break
    return y


@scalar
def steep_row(x, top, alpha, bmax, room, p):
    """Probabilities of one finite-maximum row; returns ln_b(p of the largest score)."""
    T = type(x[0])
    b = alpha - 1.0
    low = _lowest_supported(x, top, b, bmax)
    # Gaps are taken between scores, not between their rounded distances from the maximum.
    lowest = T(top)
    for j in range(x.size):
        if np.float64(x[j]) - top >= low:
            lowest = min(lowest, x[j])
    y = _smallest_probability(x, lowest, b, bmax)
    yb = y**b
    for j in range(x.size):
        if x[j] >= lowest:
            gap = np.float64(x[j]) - np.float64(lowest)
            p[j] = T(_coordinate(b * gap, y, yb, b))
        else:
            p[j] = T(0)
    return (yb - b * low - 1.0) / b
