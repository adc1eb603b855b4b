"""The calibrator: its optimum, its zeros, scores and estimators of all kinds."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from test_linear_model_checks import SCRIPT

from sparsemap_np import EntmaxCalibrator, SparsemaxClassifier, entmax, metrics


def drawn(alpha, T, n=3000, k=4, seed=0):
    """Scores, and labels drawn from entmax of them at a temperature."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k))
    P = entmax(scores / T, alpha=alpha)
    return scores, (P.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(max=k - 1), P


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("T", [0.3, 1.0, 20.0])
def test_temperature_is_that_of_the_data(alpha, T):
    scores, y, P = drawn(alpha, T)
    exact = EntmaxCalibrator(alpha=alpha).fit(scores, P)
    assert exact.temperature_ == pytest.approx(T, rel=1e-4)
    np.testing.assert_allclose(exact.predict_proba(scores), P, atol=1e-4)
    if T <= 1:
        sampled = EntmaxCalibrator(alpha=alpha).fit(scores, y)
        assert sampled.temperature_ == pytest.approx(T, rel=0.2)


@pytest.mark.parametrize("alpha", [1.1, 1.6])
def test_alpha_is_learned_with_it(alpha):
    scores, _, P = drawn(alpha, 0.7)
    clf = EntmaxCalibrator(alpha="learn").fit(scores, P)
    assert clf.alpha_ == pytest.approx(alpha, abs=1e-3)
    assert clf.temperature_ == pytest.approx(0.7, rel=1e-2)
    bounded = EntmaxCalibrator(alpha="learn", alpha_bounds=(1.2, 1.5)).fit(scores, P)
    assert 1.2 <= bounded.alpha_ <= 1.5


def test_nothing_nearby_is_better():
    scores, y, _ = drawn(2.0, 0.5, n=300)
    weight = np.random.default_rng(0).uniform(size=300)
    clf = EntmaxCalibrator().fit(scores, y, sample_weight=weight)
    score = metrics.brier_score_loss(y, clf.predict_proba(scores), sample_weight=weight)
    assert clf.brier_score_ == pytest.approx(score)
    for T in clf.temperature_ * np.geomspace(0.02, 50, 200):
        P = entmax(scores / T, alpha=1.5)
        assert metrics.brier_score_loss(y, P, sample_weight=weight) >= score - 1e-9


def test_zeros_and_order_are_kept():
    scores, y, _ = drawn(2.0, 0.5)
    clf = EntmaxCalibrator(alpha=2.0).fit(scores, y)
    P = clf.predict_proba(scores)
    assert 0.2 < np.mean(P == 0) < 0.9
    sparse = clf.predict_proba(scores, sparse=True)
    assert isinstance(sparse, sp.csr_array) and sparse.nnz == np.count_nonzero(P)
    np.testing.assert_array_equal(sparse.toarray(), P)
    np.testing.assert_array_equal(clf.predict(scores), scores.argmax(axis=1))


def test_scores_of_two_classes_and_names():
    rng = np.random.default_rng(0)
    f = rng.normal(size=200)
    y = np.where(rng.uniform(size=200) < entmax(np.c_[f, 0 * f], 1.5)[:, 0], "yes", "no")
    one = EntmaxCalibrator().fit(f[:, None], y)
    assert one.classes_.tolist() == ["no", "yes"]
    two = EntmaxCalibrator().fit(np.c_[0 * f, f], y)
    np.testing.assert_allclose(one.predict_proba(f[:, None]), two.predict_proba(np.c_[0 * f, f]))
    assert one.score(f[:, None], y) > 0.6


def test_impossible_classes_stay_impossible():
    scores, y, _ = drawn(1.0, 1.0, n=200)
    other = (y + 1) % 4
    scores[np.arange(200), other] = -np.inf
    clf = EntmaxCalibrator(alpha="learn").fit(scores, y)
    P = clf.predict_proba(scores)
    assert np.all(P[np.arange(200), other] == 0) and np.all(np.isfinite(P))
    forest = RandomForestClassifier(10, random_state=0)
    X, labels = load_iris(return_X_y=True)
    wrapped = EntmaxCalibrator(forest).fit(X, labels)
    before = wrapped.estimator_.predict_proba(X)
    assert np.all(wrapped.predict_proba(X)[before == 0] == 0)


def test_certain_scores():
    clf = EntmaxCalibrator().fit(np.eye(3), [0, 1, 2])
    assert clf.brier_score_ == 0 and clf.temperature_ > 0.1
    flat = EntmaxCalibrator().fit(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2])
    np.testing.assert_allclose(flat.predict_proba(np.zeros((1, 3))), 1 / 3)


def test_float32_scores():
    scores, y, _ = drawn(1.5, 1.0, n=300)
    clf = EntmaxCalibrator().fit(scores.astype(np.float32), y)
    assert clf.predict_proba(scores.astype(np.float32)).dtype == np.float32
    double = EntmaxCalibrator().fit(scores, y)
    assert clf.temperature_ == pytest.approx(double.temperature_, rel=1e-2)


def test_folds_of_an_estimator():
    X, y = load_iris(return_X_y=True)
    cv = StratifiedKFold(3)
    inner = LogisticRegression(C=0.1, max_iter=1000)
    clf = EntmaxCalibrator(inner, cv=cv).fit(X, y)
    scores = cross_val_predict(inner, X, y, cv=cv, method="decision_function")
    by_scores = EntmaxCalibrator().fit(scores, y)
    assert clf.temperature_ == pytest.approx(by_scores.temperature_)
    np.testing.assert_array_equal(clf.estimator_.coef_, clone(inner).fit(X, y).coef_)
    assert clf.n_features_in_ == 4
    assert clf.score(X, y) > 0.9


def test_frozen_estimator():
    X, y = load_iris(return_X_y=True)
    fitted = SparsemaxClassifier(C=0.1).fit(X[::2], y[::2])
    clf = EntmaxCalibrator(FrozenEstimator(fitted), alpha="learn").fit(X[1::2], y[1::2])
    np.testing.assert_array_equal(clf.predict(X), fitted.predict(X))
    scores = EntmaxCalibrator(alpha="learn").fit(fitted.decision_function(X[1::2]), y[1::2])
    assert clf.temperature_ == scores.temperature_ and clf.alpha_ == scores.alpha_
    # Calibration rows need not show every class; unknown ones are refused.
    seen = y[1::2] > 0
    few = EntmaxCalibrator(FrozenEstimator(fitted)).fit(X[1::2][seen], y[1::2][seen])
    assert few.predict_proba(X).shape == (150, 3)
    with pytest.raises(ValueError, match="holds 5, a class"):
        EntmaxCalibrator(FrozenEstimator(fitted)).fit(X, y + 5)


def test_composition():
    X, y = load_iris(return_X_y=True)
    clf = EntmaxCalibrator(SparsemaxClassifier(max_iter=1000))
    grid = {"alpha": [1.0, 2.0], "estimator__C": [0.01, 0.1]}
    search = GridSearchCV(clf, grid, scoring=metrics.neg_brier_scorer, cv=3, n_jobs=2).fit(X, y)
    assert search.best_score_ > -0.3
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


def test_weights_reach_the_estimator():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    inner = LogisticRegression(C=0.01)
    clf = EntmaxCalibrator(inner, cv=3).fit(X, y, sample_weight=weight)
    expected = clone(inner).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(clf.estimator_.coef_, expected.coef_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = EntmaxCalibrator(clone(inner).set_fit_request(sample_weight=True), cv=3)
        routed.set_fit_request(sample_weight=True)
        routed.fit(X, y, sample_weight=weight)
    assert routed.temperature_ == clf.temperature_


@pytest.mark.parametrize(
    ("scores", "y", "options", "match"),
    [
        (np.zeros((4, 3)), [0, 1, 0, 1], {}, "2 classes but 3 columns"),
        (np.full((4, 2), np.nan), [0, 1, 0, 1], {}, "hold NaN"),
        (np.zeros((4, 2)), [0, 0, 0, 0], {}, "one class"),
        (np.zeros((4, 2)), [0, 1, 0, 1], {"alpha": 0.0}, "alpha"),
        (np.zeros((4, 2)), [0, 1, 0, 1], {"alpha_bounds": (2.0, 1.0)}, "alpha_bounds"),
    ],
)
def test_errors(scores, y, options, match):
    with pytest.raises(ValueError, match=match):
        EntmaxCalibrator(**options).fit(scores, y)


def test_check_estimator():
    code = SCRIPT + "\n"
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from sklearn.linear_model import LogisticRegression\n" + code,
            "EntmaxCalibrator(LogisticRegression(C=0.1), cv=3)",
        ],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "done"
