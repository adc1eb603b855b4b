"""normmax: p = q / sum q with q_i = (z_i - tau)+^(1/(a-1)), sum q^a = 1.

Up to a = 2, q^a is an entmax with exponent b = (a - 1) / a in (0, 1/2], and the solver of those
serves. Above, q is steep at the threshold: the support is found first, then w, the distance of its
lowest score from the threshold, by Newton steps on the convex sum (gap_i + w)^(a/(a-1)).
"""

import math

from sparsemap_np._cuda import _dense, _sparsemax, _steep, _tsallis
from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing
from sparsemap_np._kernels import _formulas

deformed_power = device(_formulas.deformed_power)
coordinate = device(_formulas.coordinate)


def _flat(team):
    """``(row, top, alpha, c) -> (tau, s)`` for 1 < alpha <= 2, c = alpha - 1."""
    T = team.T
    zero = T(0)
    one = T(1)
    find = _tsallis.levels(team)

    @device
    def element(v, m, rate, c, p2):
        return deformed_power((v - m) * rate, c), zero, zero

    sums = summing(team, element)

    @device
    def solve(row, top, alpha, c):
        level, unused = find(row, top, c / alpha, one, 200)
        rate = T(math.exp(-(c / alpha) * level))
        total, unused2, unused3 = sums(row, top, rate, c, zero)
        return one / rate, (rate, one / total, zero, zero)

    return solve


def _steep_solver(team):
    """The same for 2 < alpha < inf."""
    T = team.T
    zero = T(0)
    one = T(1)
    search = _steep.searches(team)
    lowest_score = _steep.lowest_scores(team)

    @device
    def element(v, lowest, w, c, p2):
        if v < lowest:
            return zero, zero, zero
        far = (v - lowest) + w
        u = T(math.exp(T(math.log(far)) / c)) if far > zero else zero
        return u * far, u, zero

    sums = summing(team, element)

    @device
    def solve(row, top, alpha, c):
        power = alpha / c
        lo, hi = search(row, top, one, power, -one, 300)
        count, lowest, unused = lowest_score(row, top, hi, zero, zero)
        lowest = -lowest
        w = T(math.pow(count, -one / power))
        total = one
        for _k in range(200):
            mass, total, unused3 = sums(row, lowest, w, c, zero)
            moved = w - (mass - one) / (power * total)
            if not moved < w:
                break
            if not moved > zero:
                w = zero
                break
            w = moved
        mass, total, unused4 = sums(row, lowest, w, c, zero)
        return w - (lowest - top), (lowest, one / total, w, zero)

    return solve


def bound(team):
    """A lower bound of the threshold of the scores in the store.

    F(tau) = sum (z - tau)+^(a/(a-1)) falls in tau: where it is at least 1, the threshold is above.
    """
    T = team.T
    zero = T(0)
    one = T(1)
    infinity = T(math.inf)
    search = _steep.searches(team)

    @device
    def below(row, top, alpha, c, low):
        low = low if low > -one else -one
        if not c > zero:
            return low
        power = alpha / c if alpha < infinity else one
        lo, hi = search(row, top, one, power, low, 6)
        return lo

    return below


def make(team):
    T = team.T
    zero = T(0)
    one = T(1)
    two = T(2)
    infinity = T(math.inf)
    flat = _flat(team)
    steep = _steep_solver(team)
    ties = _dense.argmax(team).solve
    threshold = _sparsemax.threshold(team)
    masses = _sparsemax.masses(team)

    @device
    def solve(row, top, alpha, c):
        if alpha == infinity:  # equal shares of the sparsemax support
            hi, lo = threshold(row, top)
            unused, count, unused2 = masses(row, top, hi, zero, zero)
            return top, -(hi + lo), (hi, one / count, lo, zero)
        if not c > zero:
            unused3, unused4, s = ties(row, top, alpha, c)
            return top, one, s
        if alpha <= two:
            lift, s = flat(row, top, alpha, c)
            return top, lift, s
        lift, s = steep(row, top, alpha, c)
        return top, lift, s

    @device
    def prob(v, m, alpha, c, s):
        if alpha == infinity:
            return s[1] if ((v - m) - s[0]) - s[2] > zero else zero
        if not c > zero:
            return s[0] if v == m else zero
        if alpha <= two:
            return s[1] * deformed_power((v - m) * s[0], c)
        if v < s[0]:
            return zero
        far = (v - s[0]) + s[2]
        return s[1] * T(math.exp(T(math.log(far)) / c)) if far > zero else zero

    return Solver(solve, prob, bound(team))
