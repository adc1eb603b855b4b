"""alpha-entmax for alpha > 2, where the power 1/b, b = alpha - 1 > 1, has an infinite slope at 0.

No resolution in the threshold is a resolution in p, so the support is found first, from the
normaliser at and between scores. Then the unknown is y, the smallest probability in the support:
p_i = (b (x_i - x_low) + y^b)^(1/b) is a norm of (its gap, y), hence convex in y, and Newton
descends to the root without overshooting.
"""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing
from sparsemap_np._kernels import _formulas

coordinate = device(_formulas.coordinate)


def searches(team):
    """``(row, m, beta, power, lo, steps) -> (lo, hi)``: the threshold from both sides.

    F(tau) = sum (beta (z - tau))+^power is at least 1 at lo, which rises from where it is. ``hi``
    is a score of the support relative to m; after enough steps it is the lowest.
    """
    T = team.T
    zero = T(0)
    one = T(1)
    half = T(0.5)
    infinity = T(math.inf)

    @device
    def element(v, m, tau, beta, power):
        z = v - m
        mass = T(math.exp(T(math.log(beta * (z - tau))) * power)) if z > tau else zero
        # The largest score below tau, and minus the smallest that is not.
        return mass, (z if z < tau else -infinity), (-infinity if z < tau else -z)

    sums = summing(team, element, team.sum_and_maxima)

    @device
    def search(row, m, beta, power, lo, steps):
        hi = zero
        tau = half * (lo + hi)
        for _k in range(steps):
            mass, below, above = sums(row, m, tau, beta, power)
            above = -above
            if mass < one:
                # All scores from tau on are in; next to try are those between lo and tau.
                hi = above
                if not below > lo:
                    break
                tau = lo + half * (below - lo)
                tau = tau if lo < tau else below
            else:
                # All scores up to tau are out; next to try are those between tau and hi.
                lo = tau
                if above > tau and not above < hi:
                    break
                tau = lo + half * (hi - lo)
                tau = above if above > tau else tau
                if not lo < tau < hi:
                    break
        return lo, hi

    return search


def bound(team):
    """The lower end around the threshold of the scores in the store."""
    T = team.T
    one = T(1)
    search = searches(team)

    @device
    def below(row, top, alpha, b, low):
        reach = -one / b
        lo, hi = search(row, top, b, one / b, (low if low > reach else reach), 6)
        return lo

    return below


def lowest_scores(team):
    """``sums(row, m, hi, _, _)``: how many scores are at least m + hi, and minus the smallest."""
    T = team.T
    zero = T(0)
    one = T(1)
    infinity = T(math.inf)

    @device
    def element(v, m, hi, p1, p2):
        return (one, -v, -infinity) if v - m >= hi else (zero, -infinity, -infinity)

    return summing(team, element, team.sum_and_maxima)


def make(team):
    T = team.T
    zero = T(0)
    one = T(1)
    search = searches(team)
    lowest_score = lowest_scores(team)

    @device
    def element(v, lowest, y, yb, b):
        if v < lowest:
            return zero, zero, zero
        p = coordinate(b * (v - lowest), y, yb, b)
        return p, T(math.pow(y / p, b - one)), zero

    sums = summing(team, element)

    @device
    def solve(row, top, alpha, b):
        lo, hi = search(row, top, b, one / b, -one / b, 300)
        count, lowest, unused = lowest_score(row, top, hi, zero, zero)
        lowest = -lowest
        y = one / count
        for _k in range(200):
            total, slope, unused2 = sums(row, lowest, y, T(math.pow(y, b)), b)
            moved = y - (total - one) / slope
            if not moved < y:
                break
            if not moved > zero:
                y = zero
                break
            y = moved
        yb = T(math.pow(y, b))
        return top, (yb - b * (lowest - top) - one) / b, (lowest, y, yb, zero)

    @device
    def prob(v, m, alpha, b, s):
        return coordinate(b * (v - s[0]), s[1], s[2], b) if v >= s[0] else zero

    return Solver(solve, prob, bound(team))
