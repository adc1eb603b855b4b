"""Classes far from the top of a row are passed over, and nothing else changes."""

import numpy as np
import pytest

from sparsemap_np import FenchelYoungClassifier
from sparsemap_np.linear_model import _coordinates, _lbfgs, _near
from sparsemap_np.linear_model._coordinates import ChangedVariables
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._near import NearClasses
from sparsemap_np.linear_model._objective import Layout, LinearObjective
from sparsemap_np.linear_model._whitening import Whitening, whitening

LOSSES = [("sparsemax", 2.0), ("entmax15", 1.5), ("entmax", 3.0), ("entmax", 1.3), ("normmax", 2.0)]
every_loss = pytest.mark.parametrize("loss, alpha", LOSSES)


class Silent:
    """A report that nobody reads."""

    listens = stopped = False


def data(n=700, d=24, k=300, dtype=np.float64):
    """Classes in clusters, a constant feature, equal rows, equal classes and rows of zeros."""
    rng = np.random.default_rng(k)
    centres = 1.5 * rng.normal(size=(k, d))
    centres[-20:] = centres[:20]
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) + centres[y]
    X[:, 3] = 1.0
    X[:5] = 0.0
    X[5:90] = X[90:175]
    return X.astype(dtype), y


def problem(loss, alpha, *, weighted=False, dtype=np.float64, intercept=True, l2=1e-3, **size):
    X, y = data(dtype=dtype, **size)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float) if weighted else None
    layout = Layout(X.shape[1], int(y.max()) + 1, intercept)
    bound = fenchel_young(loss, alpha)
    return LinearObjective(bound, X, y, layout, sample_weight=weight, l2=l2)


@pytest.fixture
def eager(monkeypatch):
    """Lists are made, though with so few classes they save next to nothing."""
    monkeypatch.setattr(_near, "_DISADVANTAGE", 0.2)
    monkeypatch.setattr(_near, "_WORTH", 2.0)
    monkeypatch.setattr(_near, "_MOST_LISTED", 1.0)


@pytest.fixture
def roomy(monkeypatch, eager):
    """Small data have room for long lists."""
    monkeypatch.setattr(_near, "_MOST_BYTES", 4.0)


@pytest.fixture
def passes(monkeypatch):
    """The entries of the lists that were evaluated, one number a pass."""
    found = []
    over = NearClasses._over

    def counted(self, tiles, w):
        found.append(sum(np.count_nonzero(tile.cols >= 0) for tile in tiles))
        return over(self, tiles, w)

    monkeypatch.setattr(NearClasses, "_over", counted)
    return found


def follow(monkeypatch, objective, max_iter=100):
    """Minimise, and compare each evaluation with one of all classes."""
    tight = 1e-11 if objective.dtype == np.float64 else 1e-4
    monkeypatch.setattr(_lbfgs, "coordinates", changed)
    evaluate = NearClasses.value_and_gradient

    def compared(self, z, w):
        value, gradient = evaluate(self, z, w)
        expected, slopes = objective.value_and_gradient(w)
        np.testing.assert_allclose(value, expected, rtol=tight, atol=0.1 * tight)
        np.testing.assert_allclose(gradient, slopes, rtol=tight, atol=0.1 * tight)
        return value, gradient

    monkeypatch.setattr(NearClasses, "value_and_gradient", compared)
    w0 = np.zeros(objective.layout.n_parameters)
    options = {"tol": 0.0, "max_iter": max_iter, "report": Silent()}
    return _lbfgs.minimize_lbfgs(objective, w0, **options)


def changed(objective, w0):
    return ChangedVariables(objective, w0, whitening(objective))


@every_loss
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_fit_meets_the_values_and_gradients_of_all_classes(
    monkeypatch, roomy, passes, loss, alpha, weighted, intercept
):
    objective = problem(loss, alpha, weighted=weighted, intercept=intercept)
    follow(monkeypatch, objective)
    assert len(passes) > 20
    assert max(passes) < 0.7 * objective.n_samples * objective.layout.n_classes


def test_float32(monkeypatch, roomy, passes):
    follow(monkeypatch, problem("sparsemax", 2.0, dtype=np.float32))
    assert len(passes) > 20


@pytest.mark.parametrize("factor", ["none", "diagonal"])
def test_other_coordinates(monkeypatch, roomy, passes, factor):
    def coordinates(objective, w0):
        scale = np.linspace(0.5, 2.0, objective.layout.n_features + 1)
        return ChangedVariables(objective, w0, None if factor == "none" else Whitening(scale))

    monkeypatch.setitem(globals(), "changed", coordinates)
    follow(monkeypatch, problem("sparsemax", 2.0), max_iter=300)
    assert len(passes) > 20


def test_a_jump_is_noticed(roomy, passes):
    """After it, and where scores overflow, all classes are evaluated."""
    objective = problem("sparsemax", 2.0)
    options = {"tol": 0.0, "max_iter": 60, "report": Silent()}
    w = _lbfgs.minimize_lbfgs(objective, np.zeros(objective.layout.n_parameters), **options).w
    passes.clear()
    at = changed(objective, w)
    rng = np.random.default_rng(0)
    z = at.start
    for _ in range(20):
        z = z - 0.1 * at.scale * at.place(z).gradient
    assert passes
    for jump in (1.0, 30.0, 1e200, 1e308, np.inf, np.nan):
        for j in (0, 299):
            there = z.copy()
            there[j] += jump
            with np.errstate(all="ignore"):
                place = at.place(there)
                expected = objective.value_and_gradient(at.weights(there))
            np.testing.assert_allclose(place.value, expected[0], rtol=1e-11)
            np.testing.assert_array_equal(np.isnan(place.slopes), np.isnan(expected[1]))
        z = z + 0.01 * rng.normal(size=z.size)
        value = objective.value_and_gradient(at.weights(z))[0]
        np.testing.assert_allclose(at.place(z).value, value, rtol=1e-11)


@pytest.mark.parametrize("most", ["_MOST_BYTES", "_MOST_LISTED"])
def test_long_lists_are_given_up(monkeypatch, passes, most):
    """Also where the sample did not foresee their length."""
    monkeypatch.setattr(_near, "_MOST_BYTES", 4.0)
    monkeypatch.setattr(_near, most, 1e-3)
    monkeypatch.setattr(NearClasses, "_worthy_reach", lambda self, w, usual: usual)
    follow(monkeypatch, problem("sparsemax", 2.0), max_iter=30)
    assert not passes


def test_lists_may_hold_a_quarter_of_the_bytes_of_the_data():
    objective = problem("sparsemax", 2.0)
    assert 4 * NearClasses(objective, None)._most <= 0.25 * objective.X.nbytes


def test_passes_do_not_depend_on_threads(monkeypatch, roomy):
    """The same bits, whoever evaluates the lists."""
    objective = problem("entmax15", 1.5, d=100)
    at = changed(objective, np.zeros(objective.layout.n_parameters))
    z = at.start
    near = at._near
    for _ in range(300):
        z = z - 0.3 * at.scale * at.place(z).gradient
        if near._tiles is not None and near._evaluations > 1:
            break
    assert near._tiles is not None
    w = at.weights(z)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(_near, "thread_count", lambda n=threads: n)
        monkeypatch.setattr("sparsemap_np._threads.thread_count", lambda n=threads: n)
        found.append(near._over(near._tiles, w))
    for value, gradient in found[1:]:
        assert value == found[0][0]
        np.testing.assert_array_equal(gradient, found[0][1])


def test_who_is_served():
    assert NearClasses.suits(problem("sparsemax", 2.0))
    assert not NearClasses.suits(problem("sparsemax", 2.0, k=100))
    assert not NearClasses.suits(problem("logistic", 1.0))
    X, y = data()
    soft = np.eye(300)[y]
    layout = Layout(X.shape[1], 300, True)
    assert not NearClasses.suits(LinearObjective(fenchel_young("sparsemax", 2.0), X, soft, layout))


def test_the_optimum_does_not_depend_on_it(monkeypatch, roomy, passes):
    monkeypatch.setattr(_coordinates, "is_small", lambda objective: False)
    X, y = data()
    fits = []
    for suits in (NearClasses.suits, lambda objective: False):
        monkeypatch.setattr(NearClasses, "suits", staticmethod(suits))
        clf = FenchelYoungClassifier("sparsemax", C=0.1, tol=1e-7, max_iter=1000)
        fits.append(clf.fit(X, y))
    assert passes
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=0, atol=1e-5)
