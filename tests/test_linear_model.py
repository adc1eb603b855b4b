"""The fit itself: the optimum, the weights, the penalties, how it ends."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from linear_models import (
    MODELS,
    X6,
    Y6,
    documented_objective,
    full_scores,
    max_slope,
    model,
    numerical_gradient,
)
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from sparsemap_np import FenchelYoungClassifier, SparsemaxClassifier
from sparsemap_np.linear_model import _blocks, _objective
from sparsemap_np.linear_model._blas import one_blas_thread
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._objective import Layout, LinearObjective

every_model = pytest.mark.parametrize("name", MODELS)
every_solver = pytest.mark.parametrize("solver", ["lbfgs", "newton"])
TIGHT = {"tol": 1e-8, "max_iter": 5000}


def noise(n=60, d=3, k=3, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), np.random.default_rng(seed).integers(0, k, n)


def distributions(n=60, k=4, seed=5):
    rng = np.random.default_rng(seed)
    Y = rng.dirichlet(np.full(k, 0.4), size=n)
    Y[Y < 0.1] = 0
    return Y / Y.sum(axis=1, keepdims=True)


# The optimum


@every_model
@every_solver
@pytest.mark.parametrize("k", [2, 3, 5])
def test_fit_is_stationary(name, solver, k):
    X, y = noise(k=k)
    clf = model(name, solver=solver, tol=1e-7, max_iter=5000).fit(X, y)
    assert max_slope(clf, MODELS[name][2], X, y) < 1e-6


@every_model
@every_solver
@pytest.mark.parametrize("C", [0.1, 10.0, np.inf])
def test_fit_is_stationary_with_weights_and_any_penalty(name, solver, C):
    X, y = noise()
    weight = np.random.default_rng(1).uniform(0, 3, len(y))
    clf = model(name, solver=solver, C=C, tol=1e-7, max_iter=5000)
    clf.fit(X, y, sample_weight=weight)
    assert max_slope(clf, MODELS[name][2], X, y, C=C, sample_weight=weight) < 1e-6


@every_model
@every_solver
def test_fit_to_distributions_is_stationary(name, solver):
    X, _ = noise()
    Y = distributions()
    clf = model(name, solver=solver, tol=1e-7, max_iter=5000).fit(X, Y)
    assert max_slope(clf, MODELS[name][2], X, Y) < 1e-6
    np.testing.assert_array_equal(clf.classes_, np.arange(4))
    mean_loss = MODELS[name][2](full_scores(clf, X), Y, reduction="mean")
    assert clf.score(X, Y) == pytest.approx(-mean_loss, rel=1e-12)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.parametrize("C", [0.05, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_is_logistic_regression(load, C, weighted):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    weight = np.random.default_rng(0).uniform(0.1, 2, len(y)) if weighted else None
    ours = FenchelYoungClassifier("logistic", C=C, **TIGHT).fit(X, y, sample_weight=weight)
    theirs = LogisticRegression(C=C, **TIGHT).fit(X, y, sample_weight=weight)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_logistic_without_penalty_and_balanced_is_logistic_regression():
    X, y = noise(n=200)
    options = {"C": np.inf, "class_weight": "balanced", **TIGHT}
    ours = FenchelYoungClassifier("logistic", **options).fit(X, y)
    theirs = LogisticRegression(**options).fit(X, y)
    # Without a penalty the scores of a row are free up to a constant.
    np.testing.assert_allclose(ours.coef_ - ours.coef_.mean(0), theirs.coef_, atol=1e-4)


def test_one_hot_distributions_are_labels():
    X, y = noise()
    soft = SparsemaxClassifier(**TIGHT).fit(X, np.eye(3)[y])
    hard = SparsemaxClassifier(**TIGHT).fit(X, y)
    np.testing.assert_allclose(soft.coef_, hard.coef_, atol=1e-6)


def test_two_classes_of_distributions_share_one_row():
    X, y = noise(k=2)
    clf = SparsemaxClassifier(**TIGHT).fit(X, np.eye(2)[y])
    assert clf.coef_.shape == (1, 3)
    np.testing.assert_allclose(clf.coef_, SparsemaxClassifier(**TIGHT).fit(X, y).coef_, atol=1e-6)


# The objective


@every_model
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_objective_and_its_gradient(name, k, fit_intercept, container, monkeypatch):
    X, y = noise(k=k)
    X[np.abs(X) < 0.5] = 0
    weight = np.random.default_rng(1).uniform(0, 3, len(y))
    layout = Layout(3, k, fit_intercept)
    estimator = MODELS[name][0]
    fy = estimator._fenchel_young()
    w = np.random.default_rng(2).normal(size=layout.n_parameters)
    coef, intercept = layout.attributes(w, np.float64)
    expected = documented_objective(
        MODELS[name][2], X, y, coef, intercept, C=2.0, sample_weight=weight
    )
    gradients = []
    monkeypatch.setattr(_objective, "thread_count", lambda: 3)
    for scores, products in ((2**18, 2**20), (7 * k, 2**20), (7 * k, 1)):
        monkeypatch.setattr(_blocks, "SCORES_PER_BLOCK", scores)
        monkeypatch.setattr(_objective, "_PRODUCTS_PER_LANE", products)
        objective = LinearObjective(
            fy, container(X), y, layout, sample_weight=weight, l2=0.5 / weight.sum()
        )
        value, gradient = objective.value_and_gradient(w)
        assert value == pytest.approx(expected, rel=1e-12)
        again, gradient_again = objective.value_and_gradient(w)
        assert again == value
        np.testing.assert_array_equal(gradient_again, gradient)
        gradients.append(gradient)
    for gradient in gradients[1:]:
        np.testing.assert_allclose(gradient, gradients[0], atol=1e-14)
    slopes = numerical_gradient(lambda v: objective.value_and_gradient(v)[0], w)
    np.testing.assert_allclose(gradients[0], slopes, atol=1e-7)


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_blas_threads_are_limited_and_restored():
    before = blas_threads()
    with one_blas_thread():
        with one_blas_thread():
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert blas_threads() == before


def test_layout_keeps_parameters():
    layout = Layout(3, 4, True)
    w = np.arange(16.0)
    coef, intercept = layout.attributes(w, np.float64)
    assert coef.shape == (4, 3)
    np.testing.assert_array_equal(layout.flatten(coef, intercept), w)


def test_rows_share_memory():
    X = sp.csr_array(np.maximum(np.random.default_rng(0).normal(size=(50, 8)), 0))
    rows = _blocks.take_rows(X, slice(10, 30))
    np.testing.assert_array_equal(rows.toarray(), X.toarray()[10:30])
    assert np.shares_memory(rows.data, X.data)
    assert np.shares_memory(rows.indices, X.indices)


# The L1 penalty


@every_model
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_l1_optimality(name, l1_ratio):
    X, y = noise(n=80, d=8)
    C = 0.2
    clf = model(name, C=C, l1_ratio=l1_ratio, tol=1e-8, max_iter=5000).fit(X, y)
    l1 = l1_ratio / (C * len(y))

    def smooth(coef, intercept):
        elastic = documented_objective(
            MODELS[name][2], X, y, coef, intercept, C=C, l1_ratio=l1_ratio
        )
        return elastic - l1 * np.abs(coef).sum()

    slopes = numerical_gradient(smooth, clf.coef_, clf.intercept_)
    weights, intercepts = slopes[: clf.coef_.size].reshape(clf.coef_.shape), slopes[-3:]
    np.testing.assert_allclose(intercepts, 0, atol=1e-6)
    held = clf.coef_ != 0
    assert held.any() and not held.all(), "the penalty should remove some weights exactly"
    np.testing.assert_allclose(weights[held], -l1 * np.sign(clf.coef_[held]), atol=1e-6)
    assert np.all(np.abs(weights[~held]) <= l1 + 1e-6)


def test_l1_logistic_is_logistic_regression():
    X, y = noise(n=200, d=6)
    options = {"C": 0.1, "l1_ratio": 0.7, "max_iter": 20000, "tol": 1e-8}
    ours = FenchelYoungClassifier("logistic", **options).fit(X, y)
    with warnings.catch_warnings():
        # scikit-learn below 1.8 wants to be told the penalty by its other name.
        warnings.simplefilter("ignore", FutureWarning)
        theirs = LogisticRegression(solver="saga", **options)
        if theirs.get_params()["penalty"] != "deprecated":
            theirs.set_params(penalty="elasticnet")
        theirs.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


def test_sparsify_keeps_the_predictions():
    X, y = noise(n=80, d=8)
    clf = SparsemaxClassifier(C=0.2, l1_ratio=1.0).fit(X, y)
    dense = clf.coef_.copy()
    expected = clf.predict_proba(X)
    clf.sparsify()
    assert sp.issparse(clf.coef_)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-15)
    np.testing.assert_allclose(clf.predict_proba(X, sparse=True).toarray(), expected, atol=1e-15)
    np.testing.assert_array_equal(clf.densify().coef_, dense)


# Weights


@every_model
@every_solver
def test_zero_weight_is_removal(name, solver):
    clf = model(name, solver=solver, **TIGHT)
    expected = clone(clf).fit(X6, Y6)
    more = clf.fit(np.r_[X6, -X6], np.r_[Y6, Y6], sample_weight=[1] * 6 + [0] * 6)
    np.testing.assert_allclose(more.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(more.intercept_, expected.intercept_, atol=1e-6)


@every_model
@every_solver
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 2: 0.5}])
def test_integer_weights_are_repetition(name, solver, class_weight):
    repeats = np.array([2, 1, 1, 3, 1, 1])
    options = {"class_weight": class_weight, "solver": solver, **TIGHT}
    weighted = model(name, **options).fit(X6, Y6, sample_weight=repeats)
    repeated = model(name, **options).fit(np.repeat(X6, repeats, 0), np.repeat(Y6, repeats))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)


@pytest.mark.parametrize(
    "weight",
    [[0] * 6, [1, 1, 1, 1, 1, np.nan], [1, 1, 1, 1, 1, -1], [1, 1], [[1] * 6]],
    ids=["all zero", "nan", "negative", "short", "two-dimensional"],
)
def test_bad_weights(weight):
    with pytest.raises(ValueError, match=r"(?i)weight"):
        SparsemaxClassifier().fit(X6, Y6, sample_weight=weight)


def test_balanced_is_the_formula():
    y = [0, 0, 0, 0, 1, 1]
    balanced = SparsemaxClassifier(class_weight="balanced", **TIGHT).fit(X6, y)
    formula = {0: 6 / (2 * 4), 1: 6 / (2 * 2)}
    explicit = SparsemaxClassifier(class_weight=formula, **TIGHT).fit(X6, y)
    np.testing.assert_allclose(balanced.coef_, explicit.coef_, atol=1e-7)


def test_class_weight_ignores_an_unseen_class():
    y = ["cat", "cat", "dog", "dog", "cat", "dog"]
    seen = SparsemaxClassifier(class_weight={"cat": 1, "dog": 2}).fit(X6, y)
    more = SparsemaxClassifier(class_weight={"cat": 1, "dog": 2, "emu": 5}).fit(X6, y)
    np.testing.assert_array_equal(seen.coef_, more.coef_)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 1: 0.5}])
def test_class_weight_of_distributions_agrees_with_labels(class_weight):
    X, y = noise()
    options = {"class_weight": class_weight, **TIGHT}
    hard = SparsemaxClassifier(**options).fit(X, y)
    soft = SparsemaxClassifier(**options).fit(X, np.eye(3)[y])
    np.testing.assert_allclose(soft.coef_, hard.coef_, atol=1e-6)


def test_negative_class_weight():
    with pytest.raises(ValueError, match="class_weight must not be negative"):
        SparsemaxClassifier(class_weight={0: -1.0}).fit(X6, Y6)


# How a fit ends


@every_model
@every_solver
def test_one_iteration_warns(name, solver):
    with pytest.warns(ConvergenceWarning, match=r"1 iterations .*increase max_iter"):
        clf = model(name, solver=solver, tol=1e-9, max_iter=1).fit(X6, Y6)
    np.testing.assert_array_equal(clf.n_iter_, [1])
    assert np.all(np.isfinite(clf.coef_))


def test_no_iteration_leaves_the_start():
    with pytest.warns(ConvergenceWarning):
        clf = SparsemaxClassifier(max_iter=0).fit(X6, Y6)
    assert not clf.coef_.any()


@every_model
@every_solver
@pytest.mark.parametrize("seed", [0, 2])
def test_tol_is_honoured(name, solver, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(1000, 40)), rng.integers(0, 2, 1000)
    layout = Layout(40, 2, True)
    fy = MODELS[name][0]._fenchel_young()
    objective = LinearObjective(fy, X, y, layout, l2=1 / len(y))
    start = np.abs(objective.value_and_gradient(np.zeros(layout.n_parameters))[1]).max()
    reached = []
    for relative in (1e-2, 1e-4, 1e-6, 1e-8):
        clf = model(name, solver=solver, tol=relative * start, max_iter=10000).fit(X, y)
        w = layout.flatten(clf.coef_, clf.intercept_)
        reached.append(np.abs(objective.value_and_gradient(w)[1]).max())
        assert reached[-1] <= relative * start
    assert np.all(np.diff(reached) <= 0)


@every_model
@every_solver
def test_awkward_scales_converge_or_warn(name, solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * [1, 1e3, 1e-3, 1e6, 1]
    y = np.argmax(X @ rng.normal(size=(5, 3)) + rng.normal(size=(200, 3)), axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = model(name, solver=solver).fit(X, y)
    loss = MODELS[name][2]
    start = documented_objective(loss, X, y, np.zeros((3, 5)), np.zeros(3))
    assert documented_objective(loss, X, y, clf.coef_, clf.intercept_) <= start
    assert clf.n_iter_[0] <= clf.max_iter
    if not any(issubclass(w.category, ConvergenceWarning) for w in caught):
        objective = LinearObjective(
            MODELS[name][0]._fenchel_young(), X, y, Layout(5, 3, True), l2=1 / len(y)
        )
        w = objective.layout.flatten(clf.coef_, clf.intercept_)
        assert np.abs(objective.value_and_gradient(w)[1]).max() <= clf.tol


@every_solver
def test_verbose_prints_the_iterations(solver, capsys):
    SparsemaxClassifier(solver=solver, verbose=2).fit(X6, Y6)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[SparsemaxClassifier] iteration 1: objective ")
    assert "max|gradient|" in lines[-1]


# Warm starts


@every_model
@every_solver
def test_warm_start_ends_where_it_began(name, solver):
    X, y = noise()
    clf = model(name, solver=solver, warm_start=True, tol=1e-6, max_iter=1000).fit(X, y)
    assert clf.n_iter_[0] > 2
    again = clf.coef_.copy()
    clf.fit(X, y)
    assert clf.n_iter_[0] <= 1
    np.testing.assert_allclose(clf.coef_, again, atol=1e-5)


@pytest.mark.parametrize(
    "second_y", [[0, 0, 1, 1, 1, 0], ["a", "a", "b", "b", "c", "c"]], ids=["fewer", "other"]
)
def test_warm_start_with_other_classes_starts_afresh(second_y):
    fresh = SparsemaxClassifier().fit(X6, second_y)
    warm = SparsemaxClassifier(warm_start=True).fit(X6, Y6).fit(X6, second_y)
    np.testing.assert_array_equal(warm.coef_, fresh.coef_)
    np.testing.assert_array_equal(warm.classes_, np.unique(second_y))


def test_warm_start_from_sparse_coefficients():
    X, y = noise(n=80, d=8)
    clf = SparsemaxClassifier(C=0.2, l1_ratio=1.0, warm_start=True).fit(X, y)
    expected = clf.coef_.copy()
    clf.sparsify()
    clf.fit(X, y)
    np.testing.assert_allclose(clf.coef_, expected, atol=1e-3)


# Parameters


@pytest.mark.parametrize(
    "params",
    [
        {"C": 0},
        {"C": -1.0},
        {"C": "big"},
        {"l1_ratio": 1.5},
        {"tol": -1e-3},
        {"max_iter": 1.5},
        {"solver": "sgd"},
        {"loss": "hinge"},
        {"alpha": 0.0},
        {"alpha": np.nan},
        {"class_weight": "even"},
        {"fit_intercept": "yes"},
    ],
    ids=str,
)
def test_bad_parameters_raise_the_usual_error(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"The '{name}' parameter of FenchelYoungClassifier must"):
        FenchelYoungClassifier(**params).fit(X6, Y6)


def test_alpha_must_suit_the_loss():
    with pytest.raises(ValueError, match="'alpha' parameter must be at least 1 for loss='normmax'"):
        FenchelYoungClassifier("normmax", alpha=0.5).fit(X6, Y6)
    assert fenchel_young("entmax", 0.5)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1 + 1e-9, 1.5, 2.0, 3.0])
def test_any_alpha_fits(alpha):
    clf = FenchelYoungClassifier("entmax", alpha=alpha, max_iter=1000).fit(X6, Y6)
    np.testing.assert_allclose(clf.predict_proba(X6).sum(axis=1), 1)
