"""k-subsets budget: p = clip(x - tau, 0, 1) with sum p = budget; ``alpha`` stands for the budget.

G(tau) = sum clip(x - tau, 0, 1) is piecewise linear and decreasing. Bracketed Newton steps on it
end when a step changes neither the saturated nor the interior set: the solution is then exact.
Scores are taken relative to tau itself, not to the row maximum: one huge score, which saturates,
must not cost the others their digits.
"""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing
from sparsemap_np._cuda._sparsemax import split_sum


def _census(team):
    """``sums``: how many finite scores, and minus their extremes; ``infinite`` counts +inf."""
    T = team.T
    zero = T(0)
    one = T(1)
    infinity = T(math.inf)

    @device
    def finite(v, m, p0, p1, p2):
        inside = -infinity < v < infinity
        return (
            (one if inside else zero),
            (v if inside else -infinity),
            (-v if inside else -infinity),
        )

    @device
    def infinite(v, m, p0, p1, p2):
        return (one if v == infinity else zero), zero, zero

    return summing(team, finite, team.sum_and_maxima), summing(team, infinite)


def _counting(team):
    """``sums``: saturated, inside (0, 1), and the sum of those inside, at tau = ref + u."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def element(v, ref, u, p1, p2):
        w = (v - ref) - u
        if w >= one:
            return one, zero, zero
        if w > zero:
            return zero, one, w
        return zero, zero, zero

    return summing(team, element)


def _middles(team):
    T = team.T
    half = T(0.5)

    @device
    def magnitude(v):
        return -v if v < T(0) else v

    @device
    def middle(lo, hi):
        """Midpoint, on a logarithmic scale while the bracket spans magnitudes."""
        a = magnitude(lo)
        b = magnitude(hi)
        if hi - lo > half * (a if a > b else b):
            return T(math.sinh(half * T(math.asinh(lo)) + half * T(math.asinh(hi))))
        return lo + half * (hi - lo)

    return middle


def make(team):
    T = team.T
    zero = T(0)
    one = T(1)
    half = T(0.5)
    four = T(4)
    nan = T(math.nan)
    infinity = T(math.inf)
    finite, infinite = _census(team)
    counts = _counting(team)
    middle = _middles(team)

    @device
    def near(row, budget, lowest, hi):
        """(ref, below) with tau in [ref + below, ref], a few units or two numbers wide."""
        lo = lowest - one
        if lowest - lo != one:  # it was rounded, and may be no bound below tau
            full, inside, s = counts(row, lowest, zero, zero, zero)
            if full + s < budget:
                return lowest, -one
            lo = lowest
        for _k in range(400):
            if not hi - lo > four:
                break
            tau = middle(lo, hi)
            if not lo < tau < hi:
                # Scores this large are whole units apart: those equal to hi share what is left.
                return hi, -one
            full, inside, s = counts(row, tau, zero, zero, zero)
            if full + s >= budget:
                lo = tau
            else:
                hi = tau
        return hi, lo - hi

    @device
    def offset(row, budget, ref, lo):
        """Tau - ref in [lo, 0] as (hi, lo)."""
        hi = zero
        u = half * lo
        full0 = -one
        inside0 = -one
        for _k in range(200):
            full, inside, s = counts(row, ref, u, zero, zero)
            excess = (full - budget) + s
            step = excess / inside if inside > zero else zero
            # A Newton step that changed neither set was exact; this is its last correction.
            if inside > zero and full == full0 and inside == inside0:
                return split_sum(u, step)
            if excess == zero or (inside > zero and u + step == u):
                break
            if excess > zero:
                lo = u
            else:
                hi = u
            full0 = full
            inside0 = inside
            u = u + step
            if inside == zero or not lo < u < hi:
                u = lo + half * (hi - lo)
                full0 = -one  # no Newton step: equal sets would say nothing
                if u == lo or u == hi:
                    break
        return u, zero

    @device
    def solve(row, top, budget, b):
        usable, largest, smallest = finite(row, top, zero, zero, zero)
        smallest = -smallest
        hot, unused, unused2 = infinite(row, top, zero, zero, zero)
        cap = one
        rest = budget - hot
        if top != top or budget > usable + hot or (hot > one and zero < budget < hot):
            return nan, nan, (nan, nan, nan, zero)
        if rest < zero:  # the whole budget, if any, goes to the one infinite score
            return infinity, zero, (zero, zero, budget, -one)
        if rest == zero:  # any threshold beyond the scores will do
            ref = largest if usable > zero else zero
            return ref, zero, (ref, zero, cap, zero)
        if rest == usable:
            return smallest, one, (smallest, -one, cap, zero)
        if row[0].shape[0] == 1:
            return largest, budget, (largest, -budget, cap, zero)
        ref, below = near(row, budget, smallest, largest)
        off, low = offset(row, budget, ref, below)
        # From the threshold itself, rounded, interior scores are less than one away.
        tau, more = split_sum(ref, off)
        more += low
        return tau, -more, (tau, more, cap, zero)

    @device
    def prob(v, m, budget, b, s):
        if s[3] < zero:
            return s[2] if v == infinity else zero
        w = (v - s[0]) - s[1]
        w = w if w > zero or w != w else zero
        return w if w < s[2] or w != w else s[2]

    return Solver(solve, prob, None, True)
