"""Logarithm and exponential held in two doubles, beside 60 digits."""

import mpmath
import numpy as np

from sparsemap_np._kernels import _double
from sparsemap_np._kernels._compile import kernel


@kernel("test_log_double")
def log_all(high, low, out):
    for i in range(high.size):
        out[i, 0], out[i, 1] = _double.log_double(high[i], low[i])


@kernel("test_exp_double")
def exp_all(high, low, out):
    for i in range(high.size):
        out[i, 0], out[i, 1] = _double.exp_double(high[i], low[i])


def worst(function, exact, high):
    """The largest relative error where the second doubles are half a unit of the first, or less."""
    low = 1.1e-16 * high * np.random.default_rng(1).uniform(-1, 1, high.size)
    out = np.empty((high.size, 2))
    function(high, low, out)
    with mpmath.workdps(60):
        errors = [
            abs((mpmath.mpf(p) + mpmath.mpf(q)) / exact(mpmath.mpf(x) + mpmath.mpf(y)) - 1)
            for (p, q), x, y in zip(out, high, low, strict=True)
        ]
    return float(max(errors))


def test_logarithm():
    rng = np.random.default_rng(0)
    near = 1.0 + rng.normal(size=200) * 10.0 ** rng.uniform(-12, -1, 200)
    wide = 10.0 ** rng.uniform(-290, 2, 300)
    assert worst(log_all, mpmath.log, np.r_[wide, near, rng.random(200)]) < 1e-30


def test_exponential():
    rng = np.random.default_rng(0)
    assert worst(exp_all, mpmath.exp, -(10.0 ** rng.uniform(-12, 2.8, 500))) < 1e-30
