"""L-BFGS ends at the same weights in whatever coordinates it works."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsemap_np import FenchelYoungClassifier
from sparsemap_np.linear_model import _coordinates, _lbfgs
from sparsemap_np.linear_model._coordinates import Place
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


class Slide:
    """Falls in a straight line as far as a bend, and rises as a parabola from there."""

    eps = 2.2e-16

    def __init__(self, bend):
        self.bend = bend

    def place(self, z):
        past = max(0.0, float(z[0]) - self.bend)
        return Place(z, -float(z[0]) + past * past, np.array([2 * past - 1.0]), None)


@pytest.mark.parametrize("bend", [0.1, 1.0, 40.0, 1000.0])
def test_the_line_search_runs_where_the_objective_is_linear(bend):
    """Its derivative is to the bit that of the start there: no curvature to divide by."""
    slide = Slide(bend)
    here = slide.place(np.zeros(1))
    ahead = _lbfgs._ahead(slide, here, np.ones(1), -1.0)
    assert bend / 8 < ahead.z[0] < 2 * bend + 1
    assert ahead.value < here.value


def test_no_search_without_end():
    """A line that only falls, as far as numbers go."""
    slide = Slide(np.inf)
    here = slide.place(np.zeros(1))
    assert _lbfgs._ahead(slide, here, np.ones(1), -1.0) is None


@pytest.mark.parametrize("loss", ["sparsemax", "entmax15", "logistic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1e-2, 1.0, 1e6])
def test_few_separable_rows_without_a_penalty(loss, dtype, size):
    X = (size * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])).astype(dtype)
    clf = FenchelYoungClassifier(loss, C=np.inf, solver="lbfgs", max_iter=1000).fit(X, [0, 1, 2])
    np.testing.assert_array_equal(clf.predict(X), [0, 1, 2])
