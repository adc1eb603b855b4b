"""1.5-entmax: p = ((z - tau) / 2)+^2 with sum p = 1, by Newton on the norm and a quadratic."""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing
from sparsemap_np._cuda._sparsemax import split_sum
from sparsemap_np._kernels import _formulas

half_excess = device(_formulas.half_excess)


def masses(team):
    """``sums``: sum, sum of squares and number of the positive half excesses above tau."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def element(v, m, tau, p1, p2):
        w = half_excess(v, m, tau)
        return w, w * w, (one if w > zero else zero)

    return summing(team, element)


def bound(team):
    """Some steps towards the threshold of the scores in the store, none of which overshoots."""
    T = team.T
    zero = T(0)
    one = T(1)
    two = T(2)
    sums = masses(team)

    @device
    def below(row, top, alpha, b, low):
        tau = low if low > -two else -two
        for _ in range(3):
            s1, s2, count = sums(row, top, tau, zero, zero)
            tau += two * (s2 - T(math.sqrt(s2))) / s1 if s2 > one else zero
        return tau

    return below


def make(team):
    T = team.T
    zero = T(0)
    one = T(1)
    two = T(2)
    half = T(0.5)
    sums = masses(team)

    @device
    def solve(row, top, alpha, b):
        tau = -two
        lo = zero
        before = -one
        solved = False
        for k in range(200):
            s1, s2, count = sums(row, top, tau, zero, zero)
            discriminant = s1 * s1 - count * (s2 - one)
            root = T(math.sqrt(discriminant)) if discriminant > zero else zero
            lo = two * (s2 - one) / (s1 + root)
            # The quadratic of these very scores led here: what it says now is the last correction.
            # But a sum far above 1 carries its rounding.
            if (solved and count == before and s2 < two) or tau + lo == tau:
                break
            # The quadratic overshoots when scores drop out on its way; the norm's step never does.
            solved = count == before and k < 20
            if not solved:
                lo = two * (s2 - T(math.sqrt(s2))) / s1
            before = count
            moved = tau + lo
            if moved == tau:
                break
            tau = moved
        hi, lo = split_sum(tau, lo)
        return top, -(hi + lo) - two, (hi, lo, zero, zero)

    @device
    def prob(v, m, alpha, b, s):
        w = half * (((v - m) - s[0]) - s[1])
        w = w if w > zero else zero
        return w * w

    return Solver(solve, prob, bound(team))
