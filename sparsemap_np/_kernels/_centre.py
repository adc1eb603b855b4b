"""Centring of weighted rows, ``dx = s (v - (s . v) / sum(s))``: the shape of most gradients.

The slopes s are written where the result goes, once, and every later pass reads them there. The
mean is found twice, the second time from what the first one leaves: a coordinate that outweighs
the others lies near the mean, and its gradient is the small difference.

A long row is taken in blocks: sums run in the row's own type inside a block, so that they fill
the vector lanes, and in float64 over the blocks. A block without support is read once. Several
short rows are turned on their side and share the lanes instead, in the order of the scores, so
that a row has the same bits in any company.
"""

import numpy as np

from sparsemap_np._kernels._compile import element, row_function, scalar, sums
from sparsemap_np._kernels._scan import BLOCK, block_count, block_of, fill, vacant
from sparsemap_np._kernels._views import stretch

SHORT = 16
"""Longest row that shares vector lanes with others."""

WIDTH = 32
"""How many short rows stand side by side."""


@scalar
def room(d):
    """Length of the scratch that rows of d slopes need."""
    return (2 * d + 3) * WIDTH if d <= SHORT else block_count(d)


@element
def _weighed(s, v, mean):
    """A slope of zero gives 0, not 0 times an infinity or a NaN of the cotangent."""
    return s * (v - mean) if s > type(s)(0) else type(s)(0)


@element
def _centred(s, v, mean, rest, off):
    return s * ((v - mean) - rest) if s > type(s)(0) else off


@element
def _clear(rest):
    """A correction that is not finite comes from a cotangent that is not: leave the mean alone."""
    return rest if np.isfinite(rest) else type(rest)(0)


@sums
def _mass_and_moment(s, v):
    zero = type(s[0])(0)
    mass = zero
    moment = zero
    for j in range(s.size):
        mass += s[j]
        moment += _weighed(s[j], v[j], zero)
    return mass, moment


@sums
def _moment(s, v, mean):
    total = type(s[0])(0)
    for j in range(s.size):
        total += _weighed(s[j], v[j], mean)
    return total


@scalar
def _write(s, v, mean, rest):
    zero = type(s[0])(0)
    for j in range(s.size):
        s[j] = _centred(s[j], v[j], mean, rest, zero)


@scalar
def _lay_out(v, d, work, dx):
    """Rows to columns: score j of row r goes to ``j * WIDTH + r``, slopes before cotangents."""
    for r in range(dx.size // d):
        for j in range(d):
            work[j * WIDTH + r] = dx[r * d + j]
            work[(d + j) * WIDTH + r] = v[r * d + j]


@scalar
def _side_by_side(v, d, work, dx):
    """Centre several short rows; their slopes are in dx."""
    T = type(dx[0])
    zero = T(0)
    rows = dx.size // d
    mean = stretch(work, 2 * d * WIDTH, rows)
    rest = stretch(work, (2 * d + 1) * WIDTH, rows)
    mass = stretch(work, (2 * d + 2) * WIDTH, rows)
    _lay_out(v, d, work, dx)
    fill(mass, zero)
    fill(mean, zero)
    fill(rest, zero)
    for j in range(d):
        s = stretch(work, j * WIDTH, rows)
        u = stretch(work, (d + j) * WIDTH, rows)
        for r in range(rows):
            mass[r] += s[r]
            mean[r] += _weighed(s[r], u[r], zero)
    for r in range(rows):
        mean[r] /= mass[r]
    for j in range(d):
        s = stretch(work, j * WIDTH, rows)
        u = stretch(work, (d + j) * WIDTH, rows)
        for r in range(rows):
            rest[r] += _weighed(s[r], u[r], mean[r])
    for r in range(rows):
        rest[r] = _clear(rest[r] / mass[r])
        mass[r] *= zero  # off the support: 0, but NaN in a row that holds one
    for j in range(d):
        s = stretch(work, j * WIDTH, rows)
        u = stretch(work, (d + j) * WIDTH, rows)
        for r in range(rows):
            s[r] = _centred(s[r], u[r], mean[r], rest[r], mass[r])
    for r in range(rows):
        for j in range(d):
            dx[r * d + j] = work[j * WIDTH + r]


def slope_loop(name, slope):
    """``s = slope(p, par)`` over any number of rows.

    ``slope`` is an element for p in [0, 1], 0 at 0 and NaN at NaN.
    """

    @row_function(f"{name}.slopes")
    def slopes(p, par, s):
        zero = type(p[0])(0)
        for j in range(p.size):
            s[j] = slope(zero if p[j] <= zero else p[j], par)

    return slopes


def centred(name, slopes):
    """The function of one long row and that of several short ones for ``slopes(p, par, s)``."""

    @row_function(f"{name}.vjp_rows")
    def rows(p, v, par, d, work, dx):
        slopes(p, par, dx)
        _side_by_side(v, d, work, dx)

    @row_function(f"{name}.vjp_row")
    def row(p, v, par, work, dx):
        T = type(dx[0])
        d = p.size
        mass = 0.0
        moment = 0.0
        for k in range(block_count(d)):
            q = block_of(p, k)
            s = block_of(dx, k)
            work[k] = 0
            if d > BLOCK and vacant(q):
                fill(s, T(0))
                continue
            slopes(q, par, s)
            block_mass, block_moment = _mass_and_moment(s, block_of(v, k))
            work[k] = block_mass
            mass += block_mass
            moment += block_moment
        if mass != mass:
            fill(dx, np.nan)
            return
        mean = T(moment / mass)
        moment = 0.0
        for k in range(block_count(d)):
            if work[k] > T(0):
                moment += _moment(block_of(dx, k), block_of(v, k), mean)
        rest = _clear(T(moment / mass))
        for k in range(block_count(d)):
            if work[k] > T(0):
                _write(block_of(dx, k), block_of(v, k), mean, rest)

    return row, rows
