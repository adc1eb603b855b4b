"""The solver of ``_tsallis.py`` for short rows side by side: the same steps, a row to a lane."""

import numpy as np

from sparsemap_np._kernels._compile import fast, polynomial, referring, row_function, scalar
from sparsemap_np._kernels._lanes import LANES, column, first_state, narrow_column
from sparsemap_np._kernels._powers import expm1_of_negative, log_of_positive, power_of, quick_power
from sparsemap_np._kernels._views import stretch


@polynomial
def _lane_step(t, r0, r1, b):
    """``newton_step`` without libm."""
    return (r0 / r1) * (expm1_of_negative(-b * log_of_positive(r0)) / b - t)


@fast
def _lane_quick_mass(z, rate, exponent, r0, r1):
    for r in range(z.size):
        s, below = quick_power(z[r] * rate[r], np.float32(0), exponent[r])
        r0[r] += s
        r1[r] += below


@fast
def _lane_descend(t, b, beta, rate, r0, r1, going, first):
    """A step of ``descend`` in every lane that is not done; how many go on. Clears the sums."""
    T = type(t[0])
    left = T(0)
    for r in range(t.size):
        on = going[r] > T(0)
        change = _lane_step(t[r], r0[r], r1[r], b[r])
        moved = t[r] + change
        moved = moved if moved < T(0) else T(0)
        t[r] = moved if on else t[r]
        w = T(1) + b[r] * t[r]
        rate[r] = beta[r] / w
        on = on & (abs(change) >= T(3e-4) * w) & (first | (change <= T(0)))
        going[r] = T(1) if on else T(0)
        left += going[r]
        r0[r] = T(0)
        r1[r] = T(0)
    return left


@fast
def _lane_mass(z, rate, exponent, r0, r1):
    T = type(z[0])
    for r in range(z.size):
        s, below = power_of(z[r] * rate[r], T(0), exponent[r])
        r0[r] += s
        r1[r] += below


@fast
def _lane_finish(t, b, beta, rate, r0, r1, y, going, tol):
    """A Newton step in every lane that is not done; how many go on. Clears the sums.

    What the last step leaves is of second order in it, and y comes from the sums.
    """
    T = type(t[0])
    left = T(0)
    for r in range(t.size):
        on = going[r] > T(0)
        w = T(1) + b[r] * t[r]
        change = _lane_step(t[r], r0[r], r1[r], b[r])
        k = change / w
        y[r] = (T(1) + k + T(0.5) * (T(1) - b[r]) * k * k) / (r0[r] + k * r1[r]) if on else y[r]
        moved = t[r] + change
        moved = moved if moved < T(0) else T(0)
        t[r] = moved if on else t[r]
        rate[r] = beta[r] / (w + b[r] * change) if on else rate[r]
        on = on & (abs(k) >= tol)
        going[r] = T(1) if on else T(0)
        left += going[r]
        r0[r] = T(0)
        r1[r] = T(0)
    return left


@scalar
def _lane_write(z, rate, exponent, y):
    T = type(z[0])
    for r in range(z.size):
        z[r] = y[r] * power_of(z[r] * rate[r], T(0), exponent[r])[0]


@scalar
def _lane_start(t, b, beta, rate, r0, r1, going):
    T = type(t[0])
    for r in range(t.size):
        rate[r] = beta[r] / (T(1) + b[r] * t[r])
        r0[r] = T(0)
        r1[r] = T(0)
        going[r] = T(1)


@scalar
def descend_lanes(z, d, n, t, b, beta, rate, exponent, r0, r1, going):
    """``descend`` in the lanes of a float32 tile: the first d columns of ``z`` are its scores."""
    _lane_start(t, b, beta, rate, r0, r1, going)
    for k in range(60):
        for j in range(d):
            _lane_quick_mass(column(z, j, n), rate, exponent, r0, r1)
        if _lane_descend(t, b, beta, rate, r0, r1, going, k == 0) == 0:
            break


@referring
def _real_exponents(column, b):
    T = type(b[0])
    for r in range(b.size):
        column[r] = T(1) / b[r]
    return column


@referring
def _whole_exponents(column, b):
    whole = column.view(np.int32)[: b.size]
    for r in range(b.size):
        whole[r] = np.int32(np.float64(1) / b[r] + 0.5)
    return whole


def _solver(name, exponents):
    """Like the solvers of rows for the columns of a tile."""

    @row_function(name)
    def lanes(work, d, n, par, index, mean, count, lifts):
        T = type(work[0])
        own = first_state(d)
        t = column(work, own, n)
        b = column(work, own + 1, n)
        rate = column(work, own + 2, n)
        r0 = column(work, own + 4, n)
        r1 = column(work, own + 5, n)
        going = column(work, own + 6, n)
        y = column(work, own + 7, n)
        # Steps in float32, in the same scratch.
        narrow = work.view(np.float32)
        wide = LANES * (work.itemsize // 4)
        t32 = narrow_column(narrow, d, own + 8, n)
        b32 = narrow_column(narrow, d, own + 9, n)
        rate32 = narrow_column(narrow, d, own + 10, n)
        s0 = narrow_column(narrow, d, own + 12, n)
        s1 = narrow_column(narrow, d, own + 13, n)
        going32 = narrow_column(narrow, d, own + 14, n)
        for r in range(n):
            b[r] = par[index[r] if par.size > 1 else 0] - 1.0
            b32[r] = b[r]
            flat = expm1_of_negative(-b[r] * log_of_positive(count[r])) / b[r]
            t32[r] = min(T(0), flat - mean[r])
        exponent = exponents(column(work, own + 3, n), b)
        exponent32 = exponents(narrow_column(narrow, d, own + 11, n), b32)
        first = 0 if work.itemsize == 4 else d * wide
        z32 = stretch(narrow, first, d * LANES)
        if first > 0:
            for j in range(d):
                z = column(work, j, n)
                copy = column(z32, j, n)
                for r in range(n):
                    copy[r] = z[r]
        descend_lanes(z32, d, n, t32, b32, b32, rate32, exponent32, s0, s1, going32)
        for r in range(n):
            t[r] = t32[r]
            y[r] = T(1)
        _lane_start(t, b, b, rate, r0, r1, going)
        tol = T(1e-4) if work.itemsize == 4 else T(1e-9)
        for _ in range(40):
            for j in range(d):
                _lane_mass(column(work, j, n), rate, exponent, r0, r1)
            if _lane_finish(t, b, b, rate, r0, r1, y, going, tol) == T(0):
                break
        for r in range(n):
            lifts[r] = t[r]
        for j in range(d):
            _lane_write(column(work, j, n), rate, exponent, y)

    return lanes


tsallis_lanes = _solver("tsallis_lanes", _real_exponents)
power_lanes = _solver("power_lanes", _whole_exponents)
"""Where 1 / b is 3 or 4."""
