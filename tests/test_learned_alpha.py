"""Alpha learned from held-out rows: the derivative, the search, the split, the estimator."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from sparsemap_np import EntmaxClassifier, entmax, metrics
from sparsemap_np.linear_model import _alpha, _blocks
from sparsemap_np.linear_model._alpha import held_out_score, hold_out, search
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._problem import Silent, minimise

TIGHT = {"tol": 1e-9, "max_iter": 5000}


def iris(k=3):
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X)[y < k], y[y < k]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("target", ["labels", "distributions", "sparse distributions"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_derivative_of_the_held_out_score(k, target, container, monkeypatch):
    X, y = iris(k)
    if target != "labels":
        y = 0.7 * np.eye(k)[y] + 0.3 / k
    if target.startswith("sparse"):
        y = sp.csr_array(y)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    model = EntmaxClassifier(fit_intercept=k == 3, **TIGHT)
    problem = model._checked(container(X), y, weight)
    held_rows, train_rows = hold_out(problem, 0.3, 0)
    held, train = problem.rows(held_rows), problem.rows(train_rows)
    monkeypatch.setattr(_blocks, "SCORES_PER_BLOCK", 20 * k)

    def fitted(alpha):
        w = np.zeros(problem.layout.n_parameters)
        options = model._solver_options(1.0)
        w, _ = minimise(train, fenchel_young("entmax", alpha), w, Silent(), **options)
        return held_out_score(train, held, w, alpha, 1 / train.total_weight)

    for alpha in (1.0, 1.3, 1.7):
        score, slope = fitted(alpha)
        step = 1e-4
        difference = (fitted(alpha + step)[0] - fitted(alpha - step)[0]) / (2 * step)
        assert slope == pytest.approx(difference, rel=0.02, abs=2e-5)
        assert 0 < score < 1


@pytest.mark.parametrize(
    ("minimum", "expected"), [(1.2, 1.2), (1.83, 1.83), (0.5, 1.0), (3.0, 2.0), (1.5, 1.5)]
)
def test_search(minimum, expected):
    path = search(lambda a: ((a - minimum) ** 2, 2 * (a - minimum)), (1.0, 2.0))
    assert path.best == pytest.approx(expected, abs=0.01)
    assert len(path.alphas) == len(path.scores) <= 20
    assert path.alphas.min() >= 1 and path.alphas.max() <= 2


def test_search_of_a_flat_or_rough_score():
    assert search(lambda a: (1.0, 0.0), (1.0, 2.0)).alphas.tolist() == [1.5]
    # A slope that lies: the best point seen is taken.
    path = search(lambda a: (abs(a - 1.5), 1.0), (1.0, 2.0))
    assert path.best == 1.5 and path.alphas[-1] == 1.0


def split(X, y, weight=None, **options):
    problem = EntmaxClassifier()._checked(X, y, weight)
    return hold_out(problem, options.get("fraction", 0.3), options.get("seed", 0))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_equal_rows_are_held_out_together(container):
    X, y = iris()
    held, train = split(container(X), y)
    assert not np.any(held & train)
    assert 0.25 < held.mean() < 0.35
    for label in range(3):
        assert np.any(held & (y == label)) and np.any(train & (y == label))
    again, _ = split(container(X), y)
    np.testing.assert_array_equal(again, held)
    other, _ = split(container(X), y, seed=1)
    assert np.any(other != held)
    # Neither order, repetition nor rows without weight change which rows are held out.
    index = np.random.default_rng(0).integers(0, len(y), 300)
    index = np.r_[np.arange(len(y)), index]
    shuffled = np.random.default_rng(1).permutation(index)
    np.testing.assert_array_equal(split(container(X[shuffled]), y[shuffled])[0], held[shuffled])
    weight = np.r_[np.ones(len(y)), np.zeros(20)]
    more, _ = split(container(np.r_[X, -5 * X[:20]]), np.r_[y, y[:20]], weight)
    np.testing.assert_array_equal(more, np.r_[held, np.zeros(20, bool)])


def test_distributions_are_held_out():
    X, y = iris()
    held, train = split(X, 0.5 * np.eye(3)[y] + 0.5 / 3)
    assert 0.25 < held.mean() < 0.35
    np.testing.assert_array_equal(held, ~train)


def test_few_samples():
    X = np.arange(8.0).reshape(4, 2)
    held, train = split(X, [0, 0, 1, 2], fraction=0.1)
    assert held.sum() == 1 and train.sum() == 3
    with pytest.raises(ValueError, match="at least two different samples of one class"):
        EntmaxClassifier("learn").fit(X[:3], [0, 1, 2])


def drawn(alpha, n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    P = entmax(2 * X @ rng.normal(size=(4, 5)), alpha=alpha)
    return X, (P.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(max=4), P


def test_alpha_is_that_of_the_data():
    # The targets are the distributions themselves, which the model can reach exactly.
    for alpha in (1.2, 1.7):
        X, _, P = drawn(alpha)
        clf = EntmaxClassifier("learn", C=1e4, tol=1e-7, max_iter=2000, random_state=0).fit(X, P)
        assert clf.alpha_ == pytest.approx(alpha, abs=0.02)
    X, y, _ = drawn(1.1)
    clf = EntmaxClassifier("learn", C=100.0, max_iter=1000, random_state=0).fit(X, y)
    assert 1 < clf.alpha_ < 1.5


def test_the_model_is_that_of_the_alpha_learned():
    X, y = iris()
    clf = EntmaxClassifier("learn", random_state=0).fit(X, y)
    assert 1 <= clf.alpha_ <= 2
    assert clf.alpha_ == clf.alpha_path_[clf.alpha_scores_.argmin()]
    assert clf.alpha_path_[0] == 1.5
    plain = EntmaxClassifier(clf.alpha_).fit(X, y)
    assert plain.alpha_ == clf.alpha_ and not hasattr(plain, "alpha_path_")
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X))
    again = clone(clf).fit(X, y)
    np.testing.assert_array_equal(again.alpha_path_, clf.alpha_path_)
    np.testing.assert_array_equal(again.coef_, clf.coef_)
    again.set_params(alpha=1.3).fit(X, y)
    assert again.alpha_ == 1.3 and not hasattr(again, "alpha_path_")
    scores = cross_val_predict(clf, X, y, cv=3, method="predict_proba", n_jobs=2)
    assert metrics.brier_score_loss(y, scores) < 0.2


def test_bounds():
    X, _, P = drawn(1.7, n=300)
    options = {"C": 1e3, "max_iter": 1000, "random_state": 0}
    clf = EntmaxClassifier("learn", alpha_bounds=(1.1, 1.4), **options).fit(X, P)
    assert clf.alpha_ == 1.4
    assert np.all((clf.alpha_path_ >= 1.1) & (clf.alpha_path_ <= 1.4))
    for bounds in ((2.0, 1.0), (0.0, 2.0), (1.0, np.inf), (1.0,), "ab", (1.0, np.nan)):
        with pytest.raises(ValueError, match="alpha_bounds"):
            EntmaxClassifier("learn", alpha_bounds=bounds).fit(X, P)
    with pytest.raises(ValueError, match="alpha"):
        EntmaxClassifier("learned").fit(X, P)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_weights_are_repetition(container):
    X, y = iris()
    repeats = np.random.default_rng(0).integers(0, 3, len(y))
    options = {"random_state": 0, "tol": 1e-7, "max_iter": 2000, "l1_ratio": 0.0}
    weighted = EntmaxClassifier("learn", **options).fit(container(X), y, sample_weight=repeats)
    index = np.repeat(np.arange(len(y)), repeats)
    repeated = EntmaxClassifier("learn", **options).fit(container(X[index]), y[index])
    np.testing.assert_allclose(weighted.alpha_path_, repeated.alpha_path_, atol=1e-3)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-2)


def test_an_l1_penalty_and_float32():
    X, y = iris()
    clf = EntmaxClassifier("learn", l1_ratio=0.5, C=0.1, random_state=0, max_iter=1000)
    single = clf.fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    double = clone(clf).fit(X, y)
    assert single.alpha_ == pytest.approx(double.alpha_, abs=0.05)
    assert _alpha.START == 1.5
