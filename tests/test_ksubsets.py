"""The multi-label classifier: its optimum, its budgets, its containers."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from linear_models import X6, Y6, numerical_gradient
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsemap_np import KSubsetsClassifier, budget_bisect, budget_loss, metrics, sparsemax
from sparsemap_np.linear_model import _blocks

TIGHT = {"tol": 1e-8, "max_iter": 5000}
BUDGETS = ["predict", "mean", 2, 1.5]


def toy(n=80, k=4, seed=0):
    X, Y = make_multilabel_classification(
        n, 6, n_classes=k, n_labels=2, allow_unlabeled=True, random_state=seed
    )
    return StandardScaler().fit_transform(X), Y


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_is_stationary(k, weighted):
    X, Y = toy(k=k)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    total = len(X) if weight is None else weight.sum()
    clf = KSubsetsClassifier(C=0.5, **TIGHT).fit(X, Y, sample_weight=weight)
    assert clf.coef_.shape == (k, 6) and clf.intercept_.shape == (k,)

    def objective(coef, intercept):
        scores = X @ coef.T + intercept
        loss = budget_loss(scores, Y, reduction="mean", sample_weight=weight)
        return loss + np.sum(coef**2) / (2 * 0.5 * total)

    slopes = numerical_gradient(objective, clf.coef_, clf.intercept_)
    assert np.abs(slopes).max() < 1e-6


@pytest.mark.parametrize("budget", BUDGETS)
def test_marginals_sum_to_the_budget(budget, monkeypatch):
    X, Y = toy()
    clf = KSubsetsClassifier(budget, C=1.0).fit(X, Y)
    P, B = clf.predict_proba(X), clf.predict_cardinality(X)
    assert np.all((P >= 0) & (P <= 1))
    np.testing.assert_allclose(P.sum(axis=1), B, atol=1e-12)
    scores = clf.decision_function(X)
    np.testing.assert_allclose(P, budget_bisect(scores, B[:, None]), atol=1e-15)
    monkeypatch.setattr(_blocks, "SCORES_PER_BLOCK", 28)
    sparse = clf.predict_proba(X, sparse=True)
    assert isinstance(sparse, sp.csr_array) and sparse.nnz == np.count_nonzero(P) < P.size
    np.testing.assert_allclose(sparse.toarray(), P, atol=1e-14)
    assert metrics.mean_support_size(sparse) == pytest.approx((P > 0).sum(axis=1).mean())
    # As many labels as the rounded budget, and the best ones.
    predicted = clf.predict(X)
    assert predicted.dtype.kind == "i" and set(np.unique(predicted)) <= {0, 1}
    np.testing.assert_array_equal(predicted.sum(axis=1), np.floor(B + 0.5))
    for row, chosen in zip(scores, predicted.astype(bool), strict=True):
        assert not chosen.any() or chosen.all() or row[chosen].min() >= row[~chosen].max()


def test_budgets():
    X, Y = toy()
    counts = Y.sum(axis=1)
    assert KSubsetsClassifier(2).fit(X, Y).budget_ == 2.0
    weight = np.random.default_rng(0).uniform(size=len(X))
    mean = KSubsetsClassifier("mean").fit(X, Y, sample_weight=weight)
    assert mean.budget_ == pytest.approx(np.average(counts, weights=weight))
    assert mean.cardinality_ is None
    learnt = KSubsetsClassifier(C=1.0).fit(X, Y)
    assert learnt.budget_ is None
    np.testing.assert_array_equal(learnt.cardinality_.classes_, np.unique(counts))
    B = learnt.predict_cardinality(X)
    assert B.shape == (len(X),)
    error = np.mean((B - counts) ** 2)
    assert error < np.mean((counts.mean() - counts) ** 2)
    # The same number for every row needs no model.
    one = np.eye(4, dtype=int)[Y.argmax(axis=1)]
    constant = KSubsetsClassifier().fit(X, one)
    assert constant.cardinality_ is None and constant.budget_ == 1
    np.testing.assert_allclose(
        constant.predict_proba(X), sparsemax(constant.decision_function(X)), atol=1e-12
    )


def test_rows_of_weight_zero_do_not_teach_the_number():
    X, Y = toy()
    weight = np.ones(len(X))
    weight[Y.sum(axis=1) > 2] = 0
    kept = weight > 0
    weighted = KSubsetsClassifier(**TIGHT).fit(X, Y, sample_weight=weight)
    removed = KSubsetsClassifier(**TIGHT).fit(X[kept], Y[kept])
    np.testing.assert_allclose(weighted.predict_proba(X), removed.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 1.0, 2: 0.5, 3: 1.0}])
def test_weights_are_repetition(class_weight):
    X, Y = toy()
    repeats = np.random.default_rng(0).integers(0, 3, len(X))
    options = {**TIGHT, "class_weight": class_weight}
    weighted = KSubsetsClassifier(**options).fit(X, Y, sample_weight=repeats)
    repeated = KSubsetsClassifier(**options).fit(np.repeat(X, repeats, 0), np.repeat(Y, repeats, 0))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_class_weights_favour_their_labels():
    X, Y = toy()
    plain = KSubsetsClassifier(1).fit(X, Y)
    heavy = KSubsetsClassifier(1, class_weight={0: 50.0, 1: 1.0, 2: 1.0, 3: 1.0}).fit(X, Y)
    assert heavy.predict_proba(X)[:, 0].sum() > plain.predict_proba(X)[:, 0].sum()


INDICATORS = {
    "csr": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "list": np.ndarray.tolist,
    "bool": lambda Y: Y.astype(bool),
    "float32": lambda Y: Y.astype(np.float32),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("kind", INDICATORS)
def test_indicators_in_any_container(kind):
    X, Y = toy()
    expected = KSubsetsClassifier().fit(X, Y)
    clf = KSubsetsClassifier().fit(X, INDICATORS[kind](Y))
    np.testing.assert_allclose(clf.coef_, expected.coef_, atol=1e-8)
    predicted = clf.predict(X)
    assert sp.issparse(predicted) == sp.issparse(INDICATORS[kind](Y))
    if sp.issparse(predicted):
        assert isinstance(predicted, sp.csr_array)
        predicted = predicted.toarray()
    np.testing.assert_array_equal(predicted, expected.predict(X))
    if kind != "list":
        assert clf.score(X, INDICATORS[kind](Y)) == expected.score(X, Y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_are_the_labels(frame):
    X, Y = toy()
    table = frame(dict(zip("wxyz", Y.T, strict=True)))
    clf = KSubsetsClassifier().fit(X, table)
    assert clf.classes_.tolist() == list("wxyz")


def test_marginals_as_targets():
    X, Y = toy()
    soft = 0.75 * Y + 0.125
    clf = KSubsetsClassifier(**TIGHT).fit(X, soft)
    loss = budget_loss(clf.decision_function(X), soft, reduction="mean")
    assert clf.score(X, soft) == pytest.approx(-loss)
    # Sums between two integers teach a number between them.
    B = clf.predict_cardinality(X)
    assert B.mean() == pytest.approx(soft.sum(axis=1).mean(), abs=0.02)
    assert clf.cardinality_.classes_.dtype.kind == "i"


def test_plain_labels():
    clf = KSubsetsClassifier(C=1.0).fit(X6, np.array(["a", "b", "c"])[Y6])
    assert set(clf.predict(X6)) == {"a", "b", "c"}
    np.testing.assert_allclose(clf.predict_proba(X6).sum(axis=1), 1)
    assert clf.score(X6, np.array(["a", "b", "c"])[Y6]) == 1
    two = KSubsetsClassifier(2, C=1.0).fit(X6, Y6)
    np.testing.assert_allclose(two.predict_proba(X6).sum(axis=1), 2)
    assert two.predict(X6).shape == (6,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)
        assert not KSubsetsClassifier().fit(X6, Y6[:, None]).multilabel_


@pytest.mark.parametrize(
    ("budget", "Y", "match"),
    [
        (5, None, "budget.*number of labels, 4.*Got 5"),
        (-1, None, "budget"),
        ("median", None, "budget"),
        (1, 2, "between 0 and 1. It holds 2"),
        (1, -1, "It holds -1"),
        (1, np.nan, "NaN"),
    ],
)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_errors(budget, Y, match, container):
    X, good = toy()
    bad = good.astype(float)
    if Y is not None:
        bad[3, 1] = Y
    with pytest.raises(ValueError, match=match):
        KSubsetsClassifier(budget).fit(X, container(bad))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array])
def test_sparse_and_float32_data(container):
    X, Y = toy()
    expected = KSubsetsClassifier().fit(X, Y)
    clf = KSubsetsClassifier().fit(container(X.astype(np.float32)), Y)
    assert clf.coef_.dtype == clf.predict_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(clf.coef_, expected.coef_, atol=1e-4)


def test_composition():
    X, Y = toy()
    pipe = make_pipeline(StandardScaler(), KSubsetsClassifier())
    grid = {"ksubsetsclassifier__budget": [1, "predict"], "ksubsetsclassifier__C": [0.01, 0.1]}
    search = GridSearchCV(pipe, grid, scoring="f1_samples", cv=3, n_jobs=2)
    search.fit(X, Y)
    assert f1_score(Y, search.predict(X), average="samples", zero_division=0) > 0.6
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    sparse = GridSearchCV(KSubsetsClassifier(), {"C": [0.01]}, scoring="f1_samples", cv=3)
    assert sparse.fit(X, sp.csr_matrix(Y)).best_score_ > 0.5
    assert OneVsRestClassifier(KSubsetsClassifier(C=1.0)).fit(X, Y).predict(X).shape == Y.shape
    warm = KSubsetsClassifier(warm_start=True).fit(X, Y)
    assert warm.fit(X, Y).n_iter_[0] == 0
    assert clone(warm).get_params() == warm.get_params()


def test_equal_scores_take_the_first_labels():
    X, Y = toy()
    clf = KSubsetsClassifier(2).fit(X, Y)
    clf.coef_[:], clf.intercept_[:] = 0, 0
    np.testing.assert_array_equal(clf.predict(X[:2]), [[1, 1, 0, 0]] * 2)
    np.testing.assert_array_equal(clf.predict_proba(X[:2]), np.full((2, 4), 0.5))
