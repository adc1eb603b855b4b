"""The Newton solver: the Hessian products it works with, and that it ends where L-BFGS does."""

import numpy as np
import pytest
import scipy.sparse as sp
from linear_models import X6, Y6
from sklearn.exceptions import ConvergenceWarning

from sparsemap_np import FenchelYoungClassifier, NormmaxClassifier
from sparsemap_np.linear_model import _objective
from sparsemap_np.linear_model._line import Line
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._objective import Layout, LinearObjective

LOSSES = [
    ("sparsemax", 2.0),
    ("entmax15", 1.5),
    ("entmax", 1.3),
    ("entmax", 2.5),
    ("normmax", 2.0),
    ("normmax", 3.0),
    ("logistic", 1.0),
]
every_loss = pytest.mark.parametrize("loss, alpha", LOSSES)
containers = pytest.mark.parametrize("container", [np.asarray, sp.csr_array])


def problem(loss, alpha, k=5, soft=False, container=np.asarray, n=80, l2=0.01, dtype=float):
    """An objective at a point where some supports are a single class and some are not."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(n, 4))
    X[np.abs(X) < 0.4] = 0
    y = rng.integers(0, k, n)
    if soft:
        y = rng.dirichlet(np.full(k, 0.3), n)
        y[y < 0.1] = 0
        y /= y.sum(axis=1, keepdims=True)
    weight = rng.uniform(0, 2, n)
    weight[:5] = 0
    layout = Layout(4, k, True)
    w = rng.normal(size=layout.n_parameters) * (3 if k > 5 else 0.6)
    X = container(X.astype(dtype))
    fy = fenchel_young(loss, alpha)
    return LinearObjective(fy, X, y, layout, sample_weight=weight, l2=l2), w


@every_loss
@containers
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_hessian_products_are_differences_of_gradients(loss, alpha, container, soft, k):
    objective, w = problem(loss, alpha, k, soft, container)
    curvature = objective.point(w).curvature
    v = np.random.default_rng(0).normal(size=w.size)
    step = 1e-6
    ends = [objective.value_and_gradient(w + s * step * v)[1] for s in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    product = curvature.product(v)
    np.testing.assert_allclose(product, expected, atol=1e-6 * np.abs(expected).max())
    units = np.eye(w.size)
    diagonal = [curvature.product(unit) @ unit for unit in units]
    np.testing.assert_allclose(curvature.diagonal(), diagonal, atol=1e-14)


@containers
@pytest.mark.parametrize("loss, alpha", [("sparsemax", 2.0), ("normmax", 2.0)])
def test_hessian_products_in_float32(loss, alpha, container):
    double, w = problem(loss, alpha, 30, container=container)
    single, _ = problem(loss, alpha, 30, container=container, dtype=np.float32)
    v = np.random.default_rng(0).normal(size=w.size)
    products = [objective.point(w).curvature.product(v) for objective in (double, single)]
    np.testing.assert_allclose(*products, atol=1e-4 * np.abs(products[0]).max())


@every_loss
@pytest.mark.parametrize("k", [2, 30])
def test_what_has_no_room_is_found_again(loss, alpha, k, monkeypatch):
    objective, w = problem(loss, alpha, k)
    v = np.random.default_rng(0).normal(size=w.size)
    kept, far = objective.point(w), objective.point(w + v)
    expected = kept.curvature.product(v)
    slope = Line(objective, kept, far).slope(0.3)
    middle = Line(objective, kept, far).point(0.3)
    monkeypatch.setattr(_objective, "_KEPT_BYTES", 0)
    monkeypatch.setattr(objective, "_data_bytes", 0)
    bare, bare_far = objective.point(w), objective.point(w + v)
    assert bare.scores == [[None]]
    np.testing.assert_array_equal(bare.curvature.product(v), expected)
    assert Line(objective, bare, bare_far).slope(0.3) == pytest.approx(slope, rel=1e-12)
    again = Line(objective, bare, bare_far).point(0.3)
    assert again.value == pytest.approx(middle.value, rel=1e-12)


@every_loss
@pytest.mark.parametrize("soft", [False, True])
def test_line_is_the_objective(loss, alpha, soft):
    objective, w = problem(loss, alpha, 30, soft)
    v = np.random.default_rng(0).normal(size=w.size)
    line = Line(objective, objective.point(w), objective.point(w + v))
    for t in (0.0, 0.4, 1.0):
        value, gradient = objective.value_and_gradient(w + t * v)
        assert line.slope(t) == pytest.approx(gradient @ v, rel=1e-10)
        point = line.point(t)
        assert point.value == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(point.gradient, gradient, atol=1e-13)


@every_loss
@pytest.mark.parametrize(
    "options",
    [{"C": 0.1}, {"C": 100.0, "fit_intercept": False}, {"class_weight": "balanced"}],
    ids=str,
)
@pytest.mark.parametrize("k", [2, 4])
def test_newton_ends_where_lbfgs_does(loss, alpha, options, k):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 6))
    y = np.argmax(X[:, :k] + rng.normal(size=(150, k)), axis=1)
    fits = [
        FenchelYoungClassifier(loss, alpha=alpha, solver=s, tol=1e-8, max_iter=5000, **options)
        for s in ("lbfgs", "newton")
    ]
    for clf in fits:
        clf.fit(X, y)
    scale = np.abs(fits[0].coef_).max()
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, atol=1e-5 * scale)
    np.testing.assert_allclose(fits[1].intercept_, fits[0].intercept_, atol=1e-5 * scale)
    assert fits[1].n_iter_ < fits[0].n_iter_


def test_newton_repeats_to_the_last_bit():
    objective, _ = problem("sparsemax", 2.0, 30, n=400)
    X, y = objective.lanes[0].blocks[0].X, objective.lanes[0].blocks[0].y
    fits = [FenchelYoungClassifier(solver="newton", tol=1e-8).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


@containers
def test_newton_in_float32(container):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = np.argmax(X[:, :3] + rng.normal(size=(200, 3)), axis=1)
    double = FenchelYoungClassifier(solver="newton", tol=1e-8).fit(X, y)
    single = FenchelYoungClassifier(solver="newton", tol=1e-5)
    single.fit(container(X.astype(np.float32)), y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=2e-3)


@containers
@pytest.mark.parametrize("C", [1e4, np.inf])
@pytest.mark.parametrize("loss, alpha", [("normmax", 5.0), ("entmax", 3.0)])
@pytest.mark.parametrize("seed", range(3))
def test_newton_on_separable_data_in_float32(container, C, loss, alpha, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 10))
    y = np.argmax(X @ rng.normal(size=(10, 5)), axis=1)
    clf = FenchelYoungClassifier(loss, alpha=alpha, solver="newton", C=C, max_iter=500)
    clf.fit(container(X.astype(np.float32)), y)  # a fit that stalls warns: an error
    assert clf.coef_.dtype == np.float32


def test_newton_without_a_penalty_on_separable_data():
    clf = FenchelYoungClassifier(solver="newton", C=np.inf, tol=1e-10).fit(X6, Y6)
    np.testing.assert_allclose(clf.predict_proba(X6), np.eye(3)[Y6], atol=1e-7)


def test_newton_starts_from_any_weights():
    clf = FenchelYoungClassifier(solver="newton", tol=1e-9, warm_start=True).fit(X6, Y6)
    expected = clf.coef_.copy()
    clf.coef_ = clf.coef_ + [[3.0, -2.0]]
    clf.fit(X6, Y6)
    np.testing.assert_allclose(clf.coef_, expected, atol=1e-7)


def test_newton_leaves_l1_to_bounds():
    with pytest.raises(ValueError, match=r"solver='newton' supports only l1_ratio=0.*\['lbfgs'\]"):
        FenchelYoungClassifier(solver="newton", l1_ratio=0.5).fit(X6, Y6)


@pytest.mark.parametrize(
    "estimator",
    [
        FenchelYoungClassifier("entmax", alpha=np.inf),
        NormmaxClassifier(alpha=np.inf),
        NormmaxClassifier(alpha=1.0),
    ],
    ids=str,
)
def test_newton_needs_a_derivative(estimator):
    with pytest.raises(ValueError, match="solver='newton' needs the Jacobian.*solver='lbfgs'"):
        estimator.set_params(solver="newton").fit(X6, Y6)


def test_newton_says_when_it_gives_up():
    with pytest.warns(ConvergenceWarning, match="newton stopped after .* above tol=0"):
        FenchelYoungClassifier(solver="newton", tol=0.0).fit(X6 + 0.1, Y6)
