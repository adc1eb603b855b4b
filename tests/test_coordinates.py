"""L-BFGS ends at the same weights in whatever coordinates it works."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsemap_np import FenchelYoungClassifier
from sparsemap_np.linear_model import _coordinates
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._objective import Layout, LinearObjective

LOSSES = [("sparsemax", 2.0), ("entmax15", 1.5), ("logistic", 1.0)]
every_loss = pytest.mark.parametrize("loss, alpha", LOSSES)


def data(n, d, k=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    X[:, 0] = 2.0  # no variance
    X[:, 1] = X[:, 2]  # no direction of its own
    return X, np.r_[np.arange(k), rng.integers(0, k, n - k)], rng.uniform(0, 2, n)


@every_loss
@pytest.mark.parametrize("shape", [(60, 8), (12, 30)])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_data_brought_to_them_or_variables_changed(monkeypatch, loss, alpha, shape, k, container):
    X, y, weight = data(*shape, k)
    start = data(*shape, k, seed=1)
    fits = []
    for copied in (0, _coordinates._COPIED):
        monkeypatch.setattr(_coordinates, "_COPIED", copied)
        clf = FenchelYoungClassifier(loss, solver="lbfgs", tol=1e-9, max_iter=5000)
        cold = clf.fit(container(X), y, sample_weight=weight)
        fits.append((cold.coef_, cold.intercept_))
        warm = FenchelYoungClassifier(**clf.get_params()).set_params(warm_start=True)
        warm.fit(container(start[0]), start[1])
        warm.fit(container(X), y, sample_weight=weight)
        fits.append((warm.coef_, warm.intercept_))
    for coef, intercept in fits[1:]:
        np.testing.assert_allclose(coef, fits[0][0], rtol=0, atol=1e-6)
        np.testing.assert_allclose(intercept, fits[0][1], rtol=0, atol=1e-6)


@every_loss
@pytest.mark.parametrize("shape", [(60, 8), (12, 30)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_value_gradient_and_slope_are_the_objectives(loss, alpha, shape, fit_intercept, weighted):
    X, y, weight = data(*shape)
    layout = Layout(shape[1], 4, fit_intercept)
    objective = LinearObjective(
        fenchel_young(loss, alpha), X, y, layout, sample_weight=weight if weighted else None, l2=0.1
    )
    w0 = 0.1 * np.random.default_rng(2).normal(size=layout.n_parameters)
    at = _coordinates.coordinates(objective, w0)
    assert isinstance(at, _coordinates.WhitenedData)
    z = at.start + 0.01 * np.random.default_rng(3).normal(size=at.start.size)
    place = at.place(z)
    value, gradient = objective.value_and_gradient(at.weights(z))
    np.testing.assert_allclose(place.value, value, rtol=1e-9)
    np.testing.assert_allclose(at.slope(place), np.abs(gradient).max(), rtol=1e-6)
    assert at.is_flat(place, 1.0001 * at.slope(place))
    assert not at.is_flat(place, 0.9999 * at.slope(place))
    step = 1e-6
    v = np.random.default_rng(4).normal(size=z.size)
    ends = [at.place(z + sign * step * v).value for sign in (1, -1)]
    np.testing.assert_allclose(place.gradient @ v, (ends[0] - ends[1]) / (2 * step), rtol=1e-5)
