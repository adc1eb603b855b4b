"""alpha-entmax for alpha in (0, 2): p_i = y (1 + b z_i / y^b)+^(1/b), b = alpha - 1, z = x - max.

The unknown is L = log y, the logarithm of the largest probability: Newton steps on the norm of the
powers, from L = 0, without overshooting (see the CPU's kernel of this name). The sum of the powers
r_i then gives y = 1 / sum r, so that the row sums to one whatever rounding did to L.

``beta`` scales the scores inside the base: beta = b for entmax. normmax uses the same solver.
"""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver
from sparsemap_np._cuda._rows import summing
from sparsemap_np._kernels import _formulas

deformed_power = device(_formulas.deformed_power)
deformed_log = device(_formulas.deformed_log)
level_step = device(_formulas.level_step)


def masses(team):
    """``sums``: r_i = p_i / y and r_i / (1 + v_i), with v = rate z."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def element(v, m, rate, b, p2):
        u = (v - m) * rate
        r = deformed_power(u, b)
        return r, (r / (one + u) if r > zero else zero), zero

    return summing(team, element)


def levels(team):
    """``(row, m, b, beta, steps) -> (level, r0)``: L, and the sum of the r_i there."""
    T = team.T
    zero = T(0)
    one = T(1)
    tolerance = T(2) * T(team.eps)
    sums = masses(team)

    @device
    def solve(row, m, b, beta, steps):
        level = zero
        r0 = one
        for _k in range(steps):
            r0, r1, unused = sums(row, m, beta * T(math.exp(-b * level)), b, zero)
            change, log_f = level_step(level, r0, r1, b)
            # The first step may come back from a rounded start, the rest descend.
            if not change < zero or level + change == level or log_f <= tolerance:
                break
            level += change
        return level, r0

    return solve


def bound(team):
    """The threshold of the scores in the store after some steps."""
    T = team.T
    zero = T(0)
    infinity = T(math.inf)
    solve = levels(team)

    @device
    def below(row, top, alpha, b, low):
        if not b > zero:
            return -infinity
        level, unused = solve(row, top, b, b, 4)
        tau = -T(math.exp(b * level)) / b
        return tau if tau > low else low

    return below


def make(team):
    T = team.T
    zero = T(0)
    one = T(1)
    find = levels(team)

    @device
    def solve(row, top, alpha, b):
        level, r0 = find(row, top, b, b, 200)
        rate = b * T(math.exp(-b * level))
        return top, deformed_log(-T(math.log(r0)), b), (rate, one / r0, zero, zero)

    @device
    def prob(v, m, alpha, b, s):
        return s[1] * deformed_power((v - m) * s[0], b)

    return Solver(solve, prob, bound(team))
