"""Paths of penalties, and the choice of alpha and penalty by cross-validation."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from sparsemap_np import (
    FenchelYoungClassifier,
    FenchelYoungClassifierCV,
    entmax,
    fenchel_young_path,
    metrics,
    sparsemax,
)

OPTIONS = {"max_iter": 2000, "tol": 1e-7}


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def soft_targets(X, k=3, seed=0):
    return sparsemax(X @ np.random.default_rng(seed).normal(size=(X.shape[1], k)))


# Paths


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("options", [{}, {"l1_ratio": 0.5}, {"fit_intercept": False}], ids=str)
def test_path_is_single_fits(k, options):
    X, y = iris()
    X, y = X[y < k], y[y < k]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    Cs = [1.0, 0.01, 0.1]  # in any order
    path = fenchel_young_path(
        X, y, loss="entmax", alpha=1.5, Cs=Cs, sample_weight=weight, **OPTIONS, **options
    )
    np.testing.assert_array_equal(path.Cs, Cs)
    np.testing.assert_array_equal(path.classes, range(k))
    n_outputs = 1 if k == 2 else k
    assert path.coefs.shape == (3, n_outputs, 4)
    assert path.intercepts.shape == (3, n_outputs)
    for i, C in enumerate(Cs):
        clf = FenchelYoungClassifier("entmax", alpha=1.5, C=C, **OPTIONS, **options)
        clf.fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(path.coefs[i], clf.coef_, atol=1e-3)
        np.testing.assert_allclose(path.intercepts[i], clf.intercept_, atol=1e-3)


def test_path_starts_each_fit_from_the_last():
    X, y = load_digits(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[:600]), y[:600]
    Cs = np.logspace(-3, -1, 9)
    path = fenchel_young_path(X, y, Cs=Cs, max_iter=1000, solver="lbfgs")
    alone = [FenchelYoungClassifier(C=C, max_iter=1000, solver="lbfgs").fit(X, y) for C in Cs]
    assert path.n_iter.sum() < sum(int(clf.n_iter_[0]) for clf in alone)


def test_path_takes_distributions_and_sparse_data():
    X, _ = iris()
    Y = soft_targets(X)
    dense = fenchel_young_path(X, Y, Cs=2, **OPTIONS)
    np.testing.assert_allclose(dense.Cs, [1e-4, 1e4])
    sparse = fenchel_young_path(sp.csr_array(X), sp.csr_array(Y), Cs=[1e-4], **OPTIONS)
    np.testing.assert_allclose(sparse.coefs, dense.coefs[:1], atol=1e-5)


@pytest.mark.parametrize("Cs", [0, -1, [], [0.0, 1.0], [1.0, np.nan], [[1.0]], "many", True, None])
def test_bad_grids_of_penalties(Cs):
    X, y = iris()
    with pytest.raises(ValueError, match="'?Cs'? .*must be"):
        fenchel_young_path(X, y, Cs=Cs)
    with pytest.raises(ValueError, match="'?Cs'? .*must be"):
        FenchelYoungClassifierCV(Cs=Cs).fit(X, y)


# Cross-validation

SMALL = {"Cs": [0.1, 1.0], "alphas": [1.0, 2.0], "cv": 3}


def by_hand(X, y, *, scorer, folds, Cs, alphas, weight=None, soft=False):
    """The scores as a loop over single fits."""
    scores = np.empty((len(folds), len(alphas), len(Cs)))
    for i, (train, test) in enumerate(folds):
        for j, alpha in enumerate(alphas):
            for k, C in enumerate(Cs):
                clf = FenchelYoungClassifier("entmax", alpha=alpha, C=C, **OPTIONS)
                w = {} if weight is None else {"sample_weight": weight[train]}
                clf.fit(X[train], y[train], **w)
                v = {} if weight is None else {"sample_weight": weight[test]}
                scores[i, j, k] = scorer(clf, X[test], y[test], **v)
    return scores


@pytest.mark.parametrize("target", ["three labels", "two labels", "distributions"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_single_fits(target, weighted):
    X, y = iris()
    if target == "two labels":
        X, y = X[y > 0], y[y > 0]
    folds = list(StratifiedKFold(3).split(X, y))
    if target == "distributions":
        y = soft_targets(X)
        folds = list(KFold(3).split(X))
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    clf = FenchelYoungClassifierCV(**SMALL, **OPTIONS).fit(X, y, sample_weight=weight)
    expected = by_hand(
        X,
        y,
        scorer=metrics.neg_brier_scorer,
        folds=folds,
        Cs=[0.1, 1.0],
        alphas=[1.0, 2.0],
        weight=weight,
    )
    np.testing.assert_allclose(clf.scores_, expected, atol=1e-5)
    j, k = np.unravel_index(expected.mean(axis=0).argmax(), (2, 2))
    assert (clf.alpha_, clf.C_) == ([1.0, 2.0][j], [0.1, 1.0][k])
    # The last fit is one of the plain classifier, to the bit.
    plain = FenchelYoungClassifier("entmax", alpha=clf.alpha_, C=clf.C_, **OPTIONS)
    plain.fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    np.testing.assert_array_equal(clf.intercept_, plain.intercept_)
    np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X))
    assert clf.score(X, y) == metrics.neg_brier_scorer(plain, X, y)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_attributes(k, fit_intercept):
    X, y = iris()
    X, y = X[y < k], y[y < k]
    clf = FenchelYoungClassifierCV(Cs=4, alphas=[1.0, 1.5, 2.0], cv=3, fit_intercept=fit_intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    np.testing.assert_allclose(clf.Cs_, np.logspace(-4, 4, 4))
    np.testing.assert_array_equal(clf.alphas_, [1.0, 1.5, 2.0])
    assert clf.scores_.shape == clf.n_iter_.shape == (3, 3, 4)
    n_outputs = 1 if k == 2 else k
    assert clf.coefs_paths_.shape == (3, 3, 4, n_outputs, 4 + fit_intercept)
    assert clf.coef_.shape == (n_outputs, 4)
    assert clf.C_ in clf.Cs_ and clf.alpha_ in clf.alphas_
    assert isinstance(clf.C_, float) and isinstance(clf.alpha_, float)
    assert clf.n_iter_.min() >= 1


def test_without_a_last_fit_the_folds_are_averaged():
    X, y = iris()
    clf = FenchelYoungClassifierCV(**SMALL, **OPTIONS, refit=False).fit(X, y)
    j, k = np.unravel_index(clf.scores_.mean(axis=0).argmax(), (2, 2))
    mean = clf.coefs_paths_[:, j, k].mean(axis=0)
    np.testing.assert_allclose(clf.coef_, mean[:, :-1], rtol=1e-12)
    np.testing.assert_allclose(clf.intercept_, mean[:, -1], rtol=1e-12)


def test_threads_change_nothing():
    X, y = iris()
    fits = [
        FenchelYoungClassifierCV(**SMALL, **OPTIONS, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (None, 2, 2)
    ]
    for clf in fits[1:]:
        for name in ("coef_", "intercept_", "scores_", "coefs_paths_", "n_iter_"):
            np.testing.assert_array_equal(getattr(clf, name), getattr(fits[0], name))


def test_scoring():
    X, y = iris()
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    accuracy = FenchelYoungClassifierCV(**SMALL, scoring="accuracy").fit(X, names)
    assert np.all((accuracy.scores_ > 0.8) & (accuracy.scores_ <= 1))
    assert accuracy.score(X, names) == accuracy_score(names, accuracy.predict(X))
    js = FenchelYoungClassifierCV(**SMALL, scoring=metrics.neg_jensen_shannon_scorer)
    assert np.all(js.fit(X, soft_targets(X)).scores_ <= 0)
    blind = FenchelYoungClassifierCV(**SMALL, scoring=lambda estimator, X, y: np.nan)
    with pytest.raises(ValueError, match="NaN for every candidate"):
        blind.fit(X, y)


def test_a_candidate_without_a_score_is_not_chosen():
    X, y = iris()

    def scorer(estimator, X, y):
        return np.nan if estimator.C == 0.1 else estimator.alpha

    clf = FenchelYoungClassifierCV(**SMALL, scoring=scorer).fit(X, y)
    assert (clf.alpha_, clf.C_) == (2.0, 1.0)


def test_a_class_may_miss_from_a_fold():
    X, y = iris()
    clf = FenchelYoungClassifierCV([0.1], [1.5], cv=KFold(3)).fit(X, y)
    assert clf.coefs_paths_.shape == (3, 1, 1, 3, 5)
    assert np.all(np.isfinite(clf.scores_))


def test_few_samples_a_class():
    X, y = np.random.default_rng(0).normal(size=(9, 2)), np.repeat([0, 1, 2], 3)
    assert FenchelYoungClassifierCV([0.1], [1.5]).fit(X, y).scores_.shape == (3, 1, 1)
    assert FenchelYoungClassifierCV([0.1], [1.5]).fit(X, np.eye(3)[y]).scores_.shape == (5, 1, 1)


def test_folds_without_weight():
    X, y = iris()
    weight = np.ones(150)
    weight[100:] = 0
    clf = FenchelYoungClassifierCV([0.1], [1.5], cv=KFold(3))
    with pytest.raises(ValueError, match="The test rows of fold 3/3 have no weight"):
        clf.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("alphas", [[], [0.0], [-1.0], [np.nan], [[1.0]], ["x"]], ids=str)
def test_bad_alphas(alphas):
    X, y = iris()
    with pytest.raises(ValueError, match="alphas must be a list of numbers > 0"):
        FenchelYoungClassifierCV(alphas=alphas).fit(X, y)


def test_normmax():
    X, y = iris()
    clf = FenchelYoungClassifierCV([0.1], [1.5, 2.0], loss="normmax", cv=3).fit(X, y)
    plain = FenchelYoungClassifier("normmax", alpha=clf.alpha_, C=0.1).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match="at least 1 for loss='normmax'"):
        FenchelYoungClassifierCV([0.1], [0.5], loss="normmax").fit(X, y)


def test_weights_are_repetition_when_the_folds_agree():
    X, y = iris()
    repeats = np.random.default_rng(0).integers(1, 4, len(y))
    group = np.arange(len(y)) % 3
    folds = [(np.flatnonzero(group != g), np.flatnonzero(group == g)) for g in range(3)]
    index = np.repeat(np.arange(len(y)), repeats)
    repeated_folds = [
        (np.flatnonzero(group[index] != g), np.flatnonzero(group[index] == g)) for g in range(3)
    ]
    options = {**SMALL, **OPTIONS, "class_weight": "balanced"}
    weighted = FenchelYoungClassifierCV(**{**options, "cv": folds})
    weighted.fit(X, y, sample_weight=repeats)
    repeated = FenchelYoungClassifierCV(**{**options, "cv": repeated_folds})
    repeated.fit(X[index], y[index])
    np.testing.assert_allclose(weighted.scores_, repeated.scores_, atol=1e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)


def test_metadata_routing():
    X, y = iris()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    groups = np.arange(len(y)) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = clone_of_brier().set_score_request(sample_weight=True)
        clf = FenchelYoungClassifierCV([0.1, 1.0], [1.0, 2.0], cv=GroupKFold(3), scoring=scorer)
        clf.set_fit_request(sample_weight=True)
        clf.fit(X, y, sample_weight=weight, groups=groups)
        scored = clf.score(X, y, sample_weight=weight)
    expected = FenchelYoungClassifierCV(
        [0.1, 1.0], [1.0, 2.0], cv=list(GroupKFold(3).split(X, y, groups))
    ).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(clf.scores_, expected.scores_)
    assert scored == expected.score(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="groups"):
        FenchelYoungClassifierCV().fit(X, y, groups=groups)


def clone_of_brier():
    return metrics.make_scorer(metrics.brier_score_loss, greater_is_better=False)


def test_verbose_names_each_path(capsys):
    X, y = iris()
    FenchelYoungClassifierCV(**SMALL, verbose=1).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if "fold" in line]
    assert len(lines) == 6
    assert lines[0].startswith("[FenchelYoungClassifierCV] fold 1/3, alpha=1: best score -0.")


def test_frames_and_nesting():
    X, y = iris()
    frame = pd.DataFrame(X, columns=list("abcd"))
    Y = pd.DataFrame(soft_targets(X), columns=["red", "green", "blue"])
    clf = FenchelYoungClassifierCV(**SMALL).fit(frame, Y)
    assert clf.feature_names_in_.tolist() == list("abcd")
    assert clf.classes_.tolist() == ["red", "green", "blue"]
    scores = cross_val_score(clone(clf), X, y, cv=2, n_jobs=2)
    assert scores.shape == (2,) and np.all(scores > -0.5)


def test_alpha_is_chosen_by_what_made_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    W = rng.normal(size=(4, 5))
    chosen = []
    for alpha in (1.0, 2.0):
        P = entmax(2 * X @ W, alpha=alpha)
        y = (P.cumsum(axis=1) < rng.uniform(size=(len(X), 1))).sum(axis=1).clip(max=4)
        clf = FenchelYoungClassifierCV([1.0, 100.0], cv=3, max_iter=1000, tol=1e-3).fit(X, y)
        chosen.append(clf.alpha_)
    assert chosen == [1.0, 2.0]
