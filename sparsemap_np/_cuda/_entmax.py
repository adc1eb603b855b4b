"""alpha-entmax for rows that each have an alpha of their own: every solver in one kernel."""

import math

from sparsemap_np._cuda import _dense, _entmax15, _sparsemax, _steep, _tsallis
from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._loops import Solver


def make(team):
    """The solver that is exact for the row's alpha; 1.5 and 2 get the same one as alone."""
    T = team.T
    zero = T(0)
    one = T(1)
    half = T(0.5)
    infinity = T(math.inf)
    softmax = _dense.softmax(team)
    argmax = _dense.argmax(team)
    entmax15 = _entmax15.make(team)
    sparsemax = _sparsemax.make(team)
    tsallis = _tsallis.make(team)
    steep = _steep.make(team)
    solve_1, prob_1 = softmax.solve, softmax.prob
    solve_inf, prob_inf = argmax.solve, argmax.prob
    solve_15, prob_15 = entmax15.solve, entmax15.prob
    solve_2, prob_2 = sparsemax.solve, sparsemax.prob
    solve_flat, prob_flat, below_flat = tsallis.solve, tsallis.prob, tsallis.bound
    solve_steep, prob_steep, below_steep = steep.solve, steep.prob, steep.bound

    @device
    def solve(row, top, alpha, b):
        if b == zero:
            return solve_1(row, top, alpha, b)
        if alpha == infinity:
            return solve_inf(row, top, alpha, b)
        if b == half:
            return solve_15(row, top, alpha, b)
        if b == one:
            return solve_2(row, top, alpha, b)
        if b > one:
            return solve_steep(row, top, alpha, b)
        return solve_flat(row, top, alpha, b)

    @device
    def prob(v, m, alpha, b, s):
        if b == zero:
            return prob_1(v, m, alpha, b, s)
        if alpha == infinity:
            return prob_inf(v, m, alpha, b, s)
        if b == half:
            return prob_15(v, m, alpha, b, s)
        if b == one:
            return prob_2(v, m, alpha, b, s)
        if b > one:
            return prob_steep(v, m, alpha, b, s)
        return prob_flat(v, m, alpha, b, s)

    @device
    def bound(row, top, alpha, b, low):
        if alpha == infinity:
            return low
        return (
            below_steep(row, top, alpha, b, low) if b > one else below_flat(row, top, alpha, b, low)
        )

    return Solver(solve, prob, bound)
