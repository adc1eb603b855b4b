"""Sparsemax: p = (z - tau)+ with sum p = 1, by Newton steps from the left (Michelot)."""

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing
from sparsemap_np._kernels import _formulas

excess = device(_formulas.excess)


@device
def split_sum(a, b):
    """``a + b`` as (hi, lo), exactly."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def masses(team):
    """``sums``: sum and number of the positive excesses above tau."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def element(v, m, tau, p1, p2):
        w = excess(v, m, tau)
        return w, (one if w > zero else zero), zero

    return summing(team, element)


def threshold(team):
    """``(row, m) -> (hi, lo)``: the threshold below m, and what rounding it lost."""
    T = team.T
    zero = T(0)
    one = T(1)
    two = T(2)
    sums = masses(team)

    @device
    def solve(row, m):
        tau = -one
        lo = zero
        before = -one
        for _ in range(row[0].shape[0] + 4):
            s, count, unused = sums(row, m, tau, zero, zero)
            lo = (s - one) / count
            # The same scores twice: the step is exact. But a sum far above 1 carries its rounding.
            if (count == before and s < two) or tau + lo == tau:
                break
            before = count
            tau += lo
        return split_sum(tau, lo)

    return solve


def bound(team):
    """Two steps towards the threshold of the scores in the store."""
    T = team.T
    zero = T(0)
    one = T(1)
    sums = masses(team)

    @device
    def below(row, top, alpha, b, low):
        tau = low if low > -one else -one
        for _ in range(3):
            s, count, unused = sums(row, top, tau, zero, zero)
            tau += (s - one) / count if s > one else zero
        return tau

    return below


def make(team):
    T = team.T
    zero = T(0)
    one = T(1)
    solve_threshold = threshold(team)

    @device
    def solve(row, top, alpha, b):
        hi, lo = solve_threshold(row, top)
        return top, -(hi + lo) - one, (hi, lo, zero, zero)

    @device
    def prob(v, m, alpha, b, s):
        w = ((v - m) - s[0]) - s[1]
        return w if w > zero else zero

    return Solver(solve, prob, bound(team))
