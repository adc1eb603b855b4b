"""The two ends of the entmax family: softmax (alpha = 1) and argmax (alpha = inf)."""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing


def softmax(team):
    """exp(z) over its sum; ``lift`` is log(p of the largest score)."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def element(v, m, p0, p1, p2):
        e = T(math.exp(v - m))
        below = e < one
        return (e if below else zero), (zero if below else one), zero

    sums = summing(team, element)

    @device
    def solve(row, top, alpha, b):
        rest, ones, unused = sums(row, top, zero, zero, zero)
        rest += ones - one
        return top, -T(math.log1p(rest)), (one / (one + rest), zero, zero, zero)

    @device
    def prob(v, m, alpha, b, s):
        return T(math.exp(v - m)) * s[0]

    return Solver(solve, prob)


def argmax(team):
    """Equal shares of the largest scores."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def element(v, m, p0, p1, p2):
        return (one if v == m else zero), zero, zero

    sums = summing(team, element)

    @device
    def solve(row, top, alpha, b):
        count, unused, unused2 = sums(row, top, zero, zero, zero)
        return top, zero, (one / count, zero, zero, zero)

    @device
    def prob(v, m, alpha, b, s):
        return s[0] if v == m else zero

    return Solver(solve, prob)
