"""Rows at the edge of what a solver can tell: scores beside the threshold, ties, subnormals."""

import math

import numpy as np
import pytest
import reference
from mappings_list import DTYPES, assert_close

import sparsemap_np as sm

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.mark.parametrize("d", [1, 4, 130])
@each_dtype
def test_whole_and_empty_budget_are_exact(d, dtype):
    X = (3 * np.random.default_rng(0).normal(size=(3, d))).astype(dtype)
    np.testing.assert_array_equal(sm.budget_bisect(X, 0), np.zeros_like(X))
    np.testing.assert_array_equal(sm.budget_bisect(X, d), np.ones_like(X))


@pytest.mark.parametrize("d", [5, 50])
@pytest.mark.parametrize("size", [1e3, 1e12, 1e17, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_budget_shared_by_a_score_far_from_the_others(size, dtype, d):
    # The scores of this size may be farther apart than 1: lowest - 1 is then no bound below it.
    X = np.linspace(1, 2, d).astype(dtype) * size
    for place in (0, 1, d // 2, d - 1):
        X = np.roll(X, 1)
        X[place] = -size
        with np.errstate(over="ignore"):
            P = sm.budget_bisect(X, d - 0.25)
        expected = np.ones(d, dtype)
        expected[np.argmin(X)] = 0.75
        np.testing.assert_allclose(P, expected, rtol=1e-6 if dtype == "float32" else 1e-12)
        X[place] = size * 1.5


@pytest.mark.parametrize("d", [5, 50])
def test_budget_shared_by_the_lowest_of_close_scores(d):
    # lowest - 1 rounds to lowest, or to one unit in the last place above lowest - 1.
    for lowest in (2.0**54, 2.0**53 + 6, -(2.0**40) + 3 * 2.0**-13, 1e300):
        step = max(2.0, np.spacing(lowest))
        X = np.arange(d)[::-1] * step + lowest
        for left in (0.25, 1e-5):
            expected = np.ones(d)
            expected[-1] -= left
            np.testing.assert_allclose(sm.budget_bisect(X, d - left), expected, rtol=1e-12)


@pytest.mark.parametrize("d", [2, 5, 150, 9000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normmax_is_one_hot_exactly_where_the_largest_score_leads_by_one(dtype, d):
    # The threshold lies on the next score, where the slope of q is infinite for alpha > 2.
    X = np.append(0, np.linspace(-1, -3, d - 1)) + np.array([[0], [2], [-5]])
    X = X.astype(dtype)
    expected = np.zeros_like(X)
    expected[:, 0] = 1
    for alpha in (1.5, 2.5, 3, 5, 20, 100):
        np.testing.assert_array_equal(sm.normmax_bisect(X, alpha), expected)
    X[:, 1] += X.dtype.type(1e-4)
    assert (sm.normmax_bisect(X, 5.0)[:, 1] > 0.05).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entmax_of_scores_a_few_subnormals_apart(dtype):
    # At alpha = 50 such a gap times the exponent 1/49 is no more than a small number, or a share.
    unit = np.finfo(dtype).smallest_subnormal
    X = (np.random.default_rng(0).integers(-9, 9, size=(2, 40)) * unit).astype(dtype)
    for alpha in (3.0, 50.0, 100.0):
        P = sm.entmax(X, alpha)
        expected = reference.rows(reference.entmax, X, param=alpha)
        # In float32 the power of the smallest probability is a subnormal too.
        assert_close(P, expected, dtype, times=1 if dtype == "float64" else 4)


@pytest.mark.parametrize("alpha", [5.0, 100.0])
def test_normmax_of_long_rows_in_place(alpha):
    # Some of these rows hang on the last bits of their threshold, and are solved twice.
    for scale in (1e-3, 0.1, 1):
        X = np.random.default_rng(1).normal(size=(4, 9192)) * scale
        P = sm.normmax_bisect(X, alpha)
        np.testing.assert_array_equal(sm.normmax_bisect(X, alpha, out=X), P)


@each_dtype
@pytest.mark.parametrize("alpha", [2.2, 5, 20, 100])
@pytest.mark.parametrize("d", [2, 33])
def test_normmax_of_scores_beside_the_threshold(d, alpha, dtype):
    """Where probabilities have an unbounded slope: ties at tau, and units in the last place."""
    eps = np.finfo(dtype).eps
    X = np.random.default_rng(d).normal(size=(9, d)) - 4
    X[:, 0] = 0
    X[:, 1] = -1 + np.array([-64, -2, -1, 0, 1, 2, 8, 64, 1e4]) * eps / 2
    X[3, 1:] = -np.random.default_rng(1).integers(1, 3, d - 1)
    X = X.astype(dtype)
    P = sm.normmax_bisect(X, alpha)
    exact = reference.rows(reference.normmax, X, param=alpha)
    assert_close(P, exact, dtype)
    if dtype == "float64":
        np.testing.assert_array_equal(P[3, 1:], 0)
    for x, p in zip(X, P, strict=True):
        np.testing.assert_array_equal(sm.normmax_bisect(x, alpha), p)
        sm.normmax_bisect(x, alpha, out=x)
        np.testing.assert_array_equal(x, p)


@each_dtype
@pytest.mark.parametrize("alpha", [2.5, 4, 10, 50])
@pytest.mark.parametrize("d", [6, 40, 9000])
def test_normmax_of_several_scores_a_few_units_beside_the_threshold(d, alpha, dtype):
    """The series of the last steps diverges there, and the other coordinates move with them."""
    rng = np.random.default_rng(d)
    T = np.dtype(dtype).type
    X = np.full((12, d), T(-3))
    exact = np.zeros((12, d))
    for x, p in zip(X, exact, strict=True):
        x[:2] = rng.normal(size=2) / 3
        _, tau = reference.normmax(x[:2], alpha, with_tau=True)
        x[2:5] = x[:2].max() + float(tau)
        for j, units in enumerate(rng.integers(-3, 4, 3)):
            for _ in range(abs(units)):
                x[2 + j] = np.nextafter(x[2 + j], T(np.copysign(9, units)))
        p[:5] = reference.normmax(x[:5], alpha)
    assert_close(sm.normmax_bisect(X, alpha), exact, dtype)
    for x, p in zip(X, exact, strict=True):
        assert_close(sm.normmax_bisect(x, alpha), p, dtype)


@each_dtype
@pytest.mark.parametrize("d", [40, 100, 1000, 30000])
def test_sparsemax_of_many_ties_a_unit_inside_the_margin(d, dtype):
    # The threshold lies between -1 and the next number: rounded, a step goes past all the ties.
    for units in (1, 2, 10):
        gap = units * np.finfo(dtype).epsneg
        X = np.full((1, d), -1 + gap, dtype)
        X[0, 0] = 0
        exact = np.full((1, d), gap / d)
        exact[0, 0] = 1 - (d - 1) * (gap / d)
        P = sm.sparsemax(X)
        assert_close(P, exact, dtype)
        assert abs(P.astype("f8").sum() - 1) <= 4 * np.finfo(dtype).eps * math.sqrt(d)


@pytest.mark.parametrize("d", [100, 300, 1000, 9000])
@each_dtype
def test_equal_scores_in_different_blocks(dtype, d):
    """Blocks are passed over, or corrected, one by one: equal scores are answered alike still."""
    rng = np.random.default_rng(6)
    # Most rows have their threshold on a score, or next to one.
    steps = rng.choice([0.25, 0.25 / 3, 0.175, 0.025], size=(300, 1))
    scale = 10 ** rng.uniform(-0.5, 1, size=(300, 1))
    X = np.round(rng.normal(size=(300, d)) * scale * 4) * steps + rng.choice([0, 1, -7.3], (300, 1))
    X = X.astype(dtype)
    order = np.argsort(X, axis=1, kind="stable")
    same = np.diff(np.take_along_axis(X, order, 1), axis=1) == 0
    for name, parameters in (
        ("entmax", (1, 1.1, 1.25, 4 / 3, 1.5, 1.7, 2, 3, 8)),
        ("normmax_bisect", (1.5, 2, 3, 5, np.inf)),
        ("budget_bisect", (1, 2.5, d / 10)),
    ):
        for parameter in parameters:
            P = getattr(sm, name)(X, parameter)
            gaps = np.diff(np.take_along_axis(P, order, 1), axis=1)
            np.testing.assert_array_equal(gaps[same], 0, err_msg=f"{name} {parameter}")
