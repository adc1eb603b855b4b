"""Rows at rest are passed over, and nothing else changes."""

import numpy as np
import pytest

from sparsemap_np import FenchelYoungClassifier
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._objective import Layout, LinearObjective
from sparsemap_np.linear_model._one_block import OneBlock
from sparsemap_np.linear_model._resting import RestingRows

LOSSES = [("sparsemax", 2.0), ("entmax15", 1.5), ("entmax", 3.0), ("normmax", 2.0)]
every_loss = pytest.mark.parametrize("loss, alpha", LOSSES)


def losses(loss, alpha, k, weighted, n=300, d=6):
    """Classes far enough apart that most rows come to rest; some rows are all zeros."""
    rng = np.random.default_rng(k)
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) + 4 * rng.normal(size=(k, d))[y]
    X[:7] = 0
    weight = rng.integers(0, 3, n).astype(float) if weighted else None
    bound = fenchel_young(loss, alpha)
    return OneBlock(LinearObjective(bound, X, y, Layout(d, k, False), sample_weight=weight))


@every_loss
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_and_gradients_are_those_of_all_rows(monkeypatch, loss, alpha, k, weighted):
    """Along a descent whose steps become short, jump and become short again."""
    every = losses(loss, alpha, k, weighted)
    some = RestingRows(losses(loss, alpha, k, weighted), fenchel_young(loss, alpha).one_hot_gap)
    rows = []
    over = OneBlock.over
    monkeypatch.setattr(
        OneBlock, "over", lambda self, block, z: rows.append(len(block.X)) or over(self, block, z)
    )
    rng = np.random.default_rng(0)
    z = np.zeros(np.prod(every.shape))
    for i in range(150):
        value, gradient = over(every, every.block, z)
        found, slope = some.value_and_gradient(z)
        np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(slope, gradient, rtol=1e-11, atol=1e-14)
        z = z - 0.3 * gradient
        if i % 50 == 49:
            z = z + rng.normal(size=z.size)
    n = len(every.block.X)
    assert rows[0] == n
    assert np.count_nonzero(np.array(rows) < 0.5 * n) > 30


def test_scores_that_overflow_are_looked_at():
    some = RestingRows(losses("sparsemax", 2.0, 5, False), 1.0)
    every = losses("sparsemax", 2.0, 5, False)
    z = np.zeros(np.prod(every.shape))
    for _ in range(60):
        _, gradient = some.value_and_gradient(z)
        z = z - 0.3 * gradient
    for bad in (1e200, 1e308, np.inf, np.nan):
        far = z.copy()
        far[0] = bad
        with np.errstate(all="ignore"):
            expected = every.value_and_gradient(far)
            found = some.value_and_gradient(far)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(np.isnan(found[1]), np.isnan(expected[1]))
            again = some.value_and_gradient(z)
            np.testing.assert_allclose(again[0], every.value_and_gradient(z)[0], rtol=1e-12)


def test_the_optimum_does_not_depend_on_it(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 400)
    X = rng.normal(size=(400, 6)) + 2 * rng.normal(size=(4, 6))[y]
    fits = []
    for gap in (np.inf, 1.0):
        monkeypatch.setattr(
            "sparsemap_np.linear_model._losses.FenchelYoung.one_hot_gap",
            property(lambda _, g=gap: g),
        )
        clf = FenchelYoungClassifier("sparsemax", solver="lbfgs", tol=1e-9, max_iter=5000)
        fits.append(clf.fit(X, y).coef_)
    np.testing.assert_allclose(fits[1], fits[0], rtol=0, atol=1e-8)
