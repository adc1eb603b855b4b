"""Plain bisection in a given number of steps, as the literature has it, for comparison with it."""

import numpy as np

from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._budget import budget_row, finite_range
from sparsemap_np._kernels._compile import scalar
from sparsemap_np._kernels._dense import any_power_of
from sparsemap_np._kernels._scan import block_count, scan, special_row
from sparsemap_np._kernels._softmax import softmax_row


@scalar
def _write(x, top, level, beta, exponent, p):
    """``p_i = (level + beta z_i)+^(1 / exponent)``."""
    T = type(x[0])
    y = level ** (1.0 / exponent)
    for j in range(x.size):
        p[j] = T(y * any_power_of((np.float64(x[j]) - top) * (beta / level), exponent))


@scalar
def _normaliser(x, top, level, b, beta):
    total = 0.0
    for j in range(x.size):
        total += any_power_of((np.float64(x[j]) - top) * (beta / level), b)
    return total * level ** (1.0 / b)


@scalar
def _bisect_level(x, top, b, beta, n_iter):
    """y^b with sum p = 1, between 1 (all mass on one score) and d^-b (the flat row)."""
    level = 1.0
    width = level - np.float64(x.size) ** -b
    for _ in range(n_iter):
        width *= 0.5
        tried = level - width
        if _normaliser(x, top, tried, b, beta) >= 1.0:
            level = tried
    return level - width if n_iter > 0 else level


@scalar
def _rescale(p):
    """Divide by the sum, for rows that were left before they summed to one."""
    s = 0.0
    for j in range(p.size):
        s += np.float64(p[j])
    if s > 0.0:
        for j in range(p.size):
            p[j] = type(p[0])(np.float64(p[j]) / s)


@scalar
def entmax_bisect_row(x, alpha, n_iter, normalise, work, p):
    bmax = work[: block_count(x.size)]
    top = scan(x, bmax)
    if not np.isfinite(top):
        special_row(x, top, p)
        return top, np.nan
    if alpha == 1.0:
        return top, softmax_row(x, top, alpha, bmax, work, p)
    if alpha == np.inf:
        return top, argmax_row(x, top, alpha, bmax, work, p)
    b = alpha - 1.0
    level = _bisect_level(x, top, b, b, n_iter)
    _write(x, top, level, b, b, p)
    if normalise:
        _rescale(p)
    return top, (level - 1.0) / b


@scalar
def normmax_bisect_row(x, alpha, n_iter, normalise, work, p):
    bmax = work[: block_count(x.size)]
    top = scan(x, bmax)
    if not np.isfinite(top):
        special_row(x, top, p)
        return top, np.nan
    if alpha == 1.0:
        argmax_row(x, top, alpha, bmax, work, p)
        return top, 1.0
    b = (alpha - 1.0) / alpha if alpha < np.inf else 1.0
    level = _bisect_level(x, top, b, 1.0, n_iter)
    if alpha < np.inf:
        _write(x, top, level, 1.0, alpha - 1.0, p)
    else:
        for j in range(x.size):
            p[j] = (np.float64(x[j]) - top) / level > -1.0
    _rescale(p)
    return top, level


@scalar
def budget_bisect_row(x, budget, n_iter, normalise, work, p):
    d = x.size
    (lowest, hi, finite, _), _ = finite_range(x)
    if finite < d:  # nothing to bisect between: such rows have closed answers
        return budget_row(x, budget, n_iter, work, p)
    lo = lowest - 1.0
    tau = lo
    for _ in range(n_iter):
        tau = 0.5 * lo + 0.5 * hi
        total = 0.0
        for j in range(d):
            total += min(max(np.float64(x[j]) - tau, 0.0), 1.0)
        if total >= budget:
            lo = tau
        else:
            hi = tau
    for j in range(d):
        p[j] = min(max(np.float64(x[j]) - tau, 0.0), 1.0)
    return tau, 0.0
