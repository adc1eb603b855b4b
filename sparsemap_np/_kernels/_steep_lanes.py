"""The solver of ``_steep.py`` for short rows side by side, a row to a lane.

The scores are sorted only as far as the supports reach: the k-th sweep brings up the k-th largest
of every lane, which is in the support where F, a sum over the larger ones, is below 1 there.
"""

import numpy as np

from sparsemap_np._kernels._compile import fast, row_function, scalar, sums
from sparsemap_np._kernels._lanes import column, first_state
from sparsemap_np._kernels._powers import root_of
from sparsemap_np._kernels._scan import fill
from sparsemap_np._kernels._steep import base_and_place, doubtful, quick_base_root


@scalar
def _exchange(upper, lower):
    """The larger ones go up."""
    for r in range(upper.size):
        u = upper[r]
        v = lower[r]
        upper[r] = u if u > v else v
        lower[r] = v if u > v else u


def _terms(name, root, number):
    """Add one score's p and dp/dy in every lane, by powers in the type of ``number``."""

    @row_function(name, fast)
    def terms(z, low, b, y, yb, w, exponent, total, slope):
        T = type(b[0])
        R = type(number(b[0]))
        for r in range(z.size):
            q, inside, tie = base_and_place(z[r], low[r], b[r], R(yb[r]))
            p = root(q, R(exponent[r]))
            total[r] += T(p) if inside else (y[r] if tie else T(0))
            slope[r] += T(R(w[r]) * p / q) if inside else (T(1) if tie else T(0))

    return terms


@scalar
def _single(x):
    return np.float32(x)


@scalar
def _same(x):
    return x


_quick_terms = _terms("quick_terms", quick_base_root, _single)
_exact_terms = _terms("exact_terms", root_of, _same)


@sums
def _doubts(f, going):
    """In how many lanes that go on quick powers cannot tell whether F is below 1."""
    T = type(f[0])
    count = T(0)
    for r in range(f.size):
        count += T(1) if (going[r] > T(0)) & doubtful(f[r]) else T(0)
    return count


@sums
def _decide(s, f, going, low, f_low):
    """Move the lowest score of the support down to s where F is below 1; how many lanes go on."""
    T = type(f[0])
    left = T(0)
    for r in range(s.size):
        on = (going[r] > T(0)) & (f[r] < T(1))
        low[r] = s[r] if on else low[r]
        f_low[r] = f[r] if on else f_low[r]
        going[r] = T(1) if on else T(0)
        left += going[r]
    return left


@scalar
def _settle(f, exact):
    for r in range(f.size):
        f[r] = exact[r] if doubtful(f[r]) else f[r]


@scalar
def _powers_of(y, b, yb, w):
    T = type(y[0])
    for r in range(y.size):
        w[r] = root_of(y[r], b[r] - T(1))
        yb[r] = w[r] * y[r]


@sums
def _step(b, total, slope, y, going, near, eps, last, first):
    """A Newton step in every lane that is not done; how many go on.

    ``last``: the sums are exact, and a step that would leave the domain comes from rounding near
    a root of 0; else such a lane, and one that moves up, is as close as quick sums can tell.
    """
    T = type(y[0])
    left = T(0)
    for r in range(y.size):
        on = going[r] > T(0)
        miss = T(1) - total[r]
        change = miss / slope[r]
        moved = y[r] + change
        valid = moved > T(0)
        moved = moved if valid else (T(0.125) * y[r] if last else y[r])
        y[r] = moved if on else y[r]
        far = b[r] * abs(change) > near * moved
        go_on = (abs(miss) > eps) if last else (valid & (first | (change <= T(0))))
        going[r] = T(1) if on & far & go_on else T(0)
        left += going[r]
    return left


@scalar
def _lane_write(z, low, b, y, yb, exponent):
    T = type(z[0])
    for r in range(z.size):
        q, inside, tie = base_and_place(z[r], low[r], b[r], yb[r])
        p = root_of(q, exponent[r])
        z[r] = p if inside else (y[r] if tie else T(0))


@scalar
def steep_lanes(work, d, n, par, index, mean, count, lifts):
    """Like ``steep_row`` for the columns of a tile, which hold the scores as they are."""
    T = type(work[0])
    zero = T(0)
    one = T(1)
    own = first_state(d)
    b = column(work, own, n)
    exponent = column(work, own + 1, n)
    low = column(work, own + 2, n)
    f_low = column(work, own + 3, n)
    y = column(work, own + 4, n)
    yb = column(work, own + 5, n)
    w = column(work, own + 6, n)
    total = column(work, own + 7, n)
    slope = column(work, own + 8, n)
    going = column(work, own + 9, n)
    exact = column(work, own + 10, n)
    narrow = work.itemsize == 4
    for r in range(n):
        b[r] = par[index[r] if par.size > 1 else 0] - 1.0
        exponent[r] = one / b[r]
    for j in range(d):
        z = column(work, j, n)
        s = column(work, d + j, n)
        for r in range(n):
            s[r] = z[r]
    # At y = 0 the terms are those of F.
    fill(y, zero)
    fill(yb, zero)
    fill(w, zero)
    fill(f_low, zero)
    fill(going, one)
    used = d
    for k in range(d):
        for j in range(d - 1, k, -1):
            _exchange(column(work, d + j - 1, n), column(work, d + j, n))
        s = column(work, d + k, n)
        fill(total, zero)
        for i in range(k):
            _quick_terms(column(work, d + i, n), s, b, y, yb, w, exponent, total, slope)
        if _doubts(total, going) > zero:
            fill(exact, zero)
            for i in range(k):
                _exact_terms(column(work, d + i, n), s, b, y, yb, w, exponent, exact, slope)
            _settle(total, exact)
        if _decide(s, total, going, low, f_low) == zero:
            used = k
            break
    for r in range(n):
        y[r] = one - f_low[r]
    fill(going, one)
    left = one
    k = 0
    last = False
    near = T(1e-3)
    eps = zero
    while True:
        _powers_of(y, b, yb, w)
        if k == (60 if last else 40) or left == zero:
            if last:
                break
            last = True
            k = 0
            near = T(3e-4) if narrow else T(1e-8)
            eps = T(3e-8) if narrow else T(1e-16)
            fill(going, one)
        fill(total, zero)
        fill(slope, zero)
        for i in range(used):
            s = column(work, d + i, n)
            if last:
                _exact_terms(s, low, b, y, yb, w, exponent, total, slope)
            else:
                _quick_terms(s, low, b, y, yb, w, exponent, total, slope)
        left = _step(b, total, slope, y, going, near, eps, last, k == 0)
        k += 1
    top = column(work, d, n)
    for r in range(n):
        height = np.float64(b[r]) * (np.float64(top[r]) - np.float64(low[r])) + np.float64(yb[r])
        lifts[r] = (height - 1.0) / np.float64(b[r])
    for j in range(d):
        _lane_write(column(work, j, n), low, b, y, yb, exponent)
