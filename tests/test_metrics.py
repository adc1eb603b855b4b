"""The metrics: values worked by hand, containers, errors, and the scorers in a search."""

import math
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.metrics
from linear_models import full_scores
from scipy.spatial.distance import jensenshannon
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsemap_np import (
    EntmaxClassifier,
    SparsemaxClassifier,
    entmax_loss,
    metrics,
    sparsemax,
    sparsemax_loss,
)

# Three samples of three classes: sure and right, torn, sure and wrong.
P = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0, 1.0]])
LABELS = np.array([0, 1, 0])
CLASSES = [0, 1, 2]
Y = np.array([[1.0, 0, 0], [0, 1, 0], [0.25, 0.75, 0]])
WEIGHT = np.array([1.0, 2.0, 1.0])

# metric: {arguments: value by hand}; the classes of P are 0, 1, 2.
BY_HAND = {
    metrics.brier_score_loss: (
        (0 + 0.5 + 2) / 3,
        (0 + 2 * 0.5 + 2) / 4,
        (0 + 0.5 + (0.0625 + 0.5625 + 1)) / 3,
    ),
    metrics.sparsemax_score: (
        (1 + (0.5 + 0.25) + 0) / 3,
        (1 + 2 * 0.75 + 0) / 4,
        (1 + 0.75 + 1 - 0.8125) / 3,
    ),
    metrics.smoothed_perplexity: (
        (1.03 / 1.01 * 1.03 / 0.51 * 1.03 / 0.01) ** (1 / 3),
        (1.03 / 1.01 * (1.03 / 0.51) ** 2 * 1.03 / 0.01) ** (1 / 4),
        (1.03 / 1.01 * 1.03 / 0.51 * 1.03 / 0.01) ** (1 / 3),
    ),
    metrics.jensen_shannon_divergence: (
        # The torn one: y = (1, 0) and p = (1/2, 1/2) have the mean (3/4, 1/4).
        (0 + 0.5 * (math.log(4 / 3) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2)) + math.log(2)) / 3,
        (math.log(4 / 3) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2) + math.log(2)) / 4,
        (0 + 0.5 * (math.log(4 / 3) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2)) + math.log(2)) / 3,
    ),
    metrics.support_coverage: (2 / 3, 3 / 4, 2 / 3),
}
# The JS of soft sample three and the coverage of it are by disjoint supports: log 2 and 0.

CONTAINERS = {
    "array": np.asarray,
    "list": np.ndarray.tolist,
    "float32": lambda A: A.astype(np.float32),
    "fortran": np.asfortranarray,
    "frame": pd.DataFrame,
    "csr": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "entries of zero": lambda A: with_explicit_zeros(A),
    "halves": lambda A: halves(A),
}


def with_explicit_zeros(A):
    stored = sp.csr_array(A + 1)
    stored.data -= 1
    return stored


def halves(A):
    """Each entry in two halves, in reverse order: a matrix in no canonical form."""
    n, k = A.shape
    columns = np.tile(np.r_[np.arange(k)[::-1], np.arange(k)], n)
    values = np.concatenate([0.5 * A[:, ::-1], 0.5 * A], axis=1).ravel()
    return sp.csr_array((values, columns, np.arange(n + 1) * 2 * k), shape=(n, k))


@pytest.mark.parametrize("metric", BY_HAND, ids=lambda m: m.__name__)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_values_by_hand(metric, kind):
    plain, weighted, soft = BY_HAND[metric]
    predicted = CONTAINERS[kind](P)
    assert metric(LABELS, predicted, labels=CLASSES) == pytest.approx(plain, rel=1e-6)
    value = metric(LABELS, predicted, labels=CLASSES, sample_weight=WEIGHT)
    assert value == pytest.approx(weighted, rel=1e-6)
    assert isinstance(value, float)
    assert metric(CONTAINERS[kind](Y), predicted) == pytest.approx(soft, rel=1e-6)
    assert metric(sp.csr_array(Y), predicted) == pytest.approx(soft, rel=1e-6)
    assert metric(Y, predicted) == pytest.approx(soft, rel=1e-6)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_support_size_by_hand(kind):
    assert metrics.mean_support_size(CONTAINERS[kind](P)) == pytest.approx(4 / 3)
    assert metrics.mean_support_size(CONTAINERS[kind](P), sample_weight=WEIGHT) == 1.5
    marginals = [[1, 1, 0.5], [0, 0, 0]]
    assert metrics.mean_support_size(CONTAINERS[kind](np.array(marginals))) == 1.5


def random_predictions(n=300, k=7, seed=0):
    rng = np.random.default_rng(seed)
    predicted = sparsemax(rng.normal(size=(n, k)))
    targets = rng.dirichlet(np.full(k, 0.3), n)
    targets[targets < 0.1] = 0
    return predicted, targets / targets.sum(axis=1, keepdims=True), rng.integers(0, k, n)


@pytest.mark.parametrize("metric", BY_HAND, ids=lambda m: m.__name__)
def test_dense_and_sparse_agree_in_any_blocks(metric, monkeypatch):
    predicted, targets, labels = random_predictions()
    for truth in (targets, labels):
        expected = metric(truth, predicted)
        for rows in (1, 7, 1000):
            monkeypatch.setattr(metrics, "_BLOCK", rows * 7)
            for A in (predicted, sp.csr_array(predicted)):
                for B in (truth,) if truth.ndim == 1 else (truth, sp.csr_array(truth)):
                    assert metric(B, A) == pytest.approx(expected, rel=1e-13)


def test_metrics_against_other_definitions():
    predicted, targets, labels = random_predictions()
    js = [jensenshannon(p, y) ** 2 for p, y in zip(predicted, targets, strict=True)]
    assert metrics.jensen_shannon_divergence(targets, predicted) == pytest.approx(np.mean(js))
    # One minus the sparsemax loss of scores that give p: p itself is such a score.
    loss = sparsemax_loss(predicted, targets, reduction="mean")
    assert metrics.sparsemax_score(targets, predicted) == pytest.approx(1 - loss)
    brier = metrics.brier_score_loss(labels, predicted)
    assert metrics.sparsemax_score(labels, predicted) == pytest.approx(1 - brier / 2)
    assert brier == pytest.approx(sklearn.metrics.brier_score_loss(labels, predicted))
    two = sparsemax(np.random.default_rng(1).normal(size=(50, 2)))
    truth = np.random.default_rng(2).choice(["a", "b"], 50)
    for half in (True, False, "auto"):
        expected = sklearn.metrics.brier_score_loss(
            truth, two[:, 1], scale_by_half=half, pos_label="b"
        )
        assert metrics.brier_score_loss(truth, two, scale_by_half=half) == pytest.approx(expected)
    dense = np.full((2, 2), 0.5) + [[0.1, -0.1]]
    expected = np.exp(sklearn.metrics.log_loss([0, 1], dense))
    assert metrics.smoothed_perplexity([0, 1], dense, epsilon=0) == pytest.approx(expected)


def test_perfect_predictions():
    predicted, _, _ = random_predictions()
    assert metrics.jensen_shannon_divergence(predicted, predicted) == 0
    assert metrics.brier_score_loss(predicted, sp.csr_array(predicted)) == 0
    assert metrics.sparsemax_score(predicted, predicted) == 1
    assert metrics.support_coverage(predicted, predicted) == pytest.approx(1)


def test_a_zero_for_the_truth_without_smoothing():
    assert metrics.smoothed_perplexity([0, 1], [[0, 1], [0, 1.0]], epsilon=0) == np.inf
    # A sample without weight does not count, whatever its loss.
    value = metrics.smoothed_perplexity([0, 1], [[0, 1], [0, 1.0]], epsilon=0, sample_weight=[0, 1])
    assert value == 1


def test_weights_are_repetition():
    predicted, targets, _ = random_predictions()
    repeats = np.random.default_rng(3).integers(0, 3, len(predicted))
    for metric in BY_HAND:
        weighted = metric(targets, predicted, sample_weight=repeats)
        repeated = metric(np.repeat(targets, repeats, 0), np.repeat(predicted, repeats, 0))
        assert weighted == pytest.approx(repeated, rel=1e-12)


def test_labels_of_any_kind_and_order():
    for names in (["b", "c", "a"], [7, 9, 3], [True, False]):
        k = len(names)
        predicted = P[:, :k] if k == 3 else np.array([[1.0, 0], [0.5, 0.5], [0, 1]])
        truth = np.array(names)[[0, 1, 0]]
        expected = metrics.brier_score_loss(
            [0, 1, 0], predicted, labels=range(k), scale_by_half=False
        )
        value = metrics.brier_score_loss(truth, predicted, labels=names, scale_by_half=False)
        assert value == expected
    series = pd.Series(["b", "c", "b"], dtype="category")
    assert metrics.support_coverage(series, P, labels=["b", "c", "a"]) == pytest.approx(2 / 3)


def test_sparse_probabilities_are_never_dense():
    n, k = 20_000, 50_000
    predicted = sp.csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, k))
    labels = np.arange(n)
    tracemalloc.start()
    try:
        for metric in BY_HAND:
            metric(labels, predicted, labels=np.arange(k))
        metrics.mean_support_size(predicted)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * n + 64 * k + 2**22


@pytest.mark.parametrize("metric", BY_HAND, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([0, 1], P), ValueError, "2 labels but there are predictions for 3"),
        ((LABELS, P), ValueError, "holds 2 different labels but y_proba has 3 columns"),
        ((Y[:2], P), ValueError, r"shape \(2, 3\)"),
        ((Y[:, :2] / Y[:, :2].sum(1, keepdims=True), P), ValueError, r"shape \(3, 2\)"),
        ((Y, P * 2), ValueError, "y_proba row 0 sums to 2"),
        ((Y, sp.csr_array(P * 2)), ValueError, "y_proba row 0 sums to 2"),
        ((Y * 1.5, P), ValueError, "y_true row 0 sums to 1.5"),
        ((Y, P + [[0, -0.5, 0.5]]), ValueError, "y_proba holds -0.5"),
        ((Y, np.where(P == 1, np.nan, P)), ValueError, "y_proba holds nan"),
        ((Y, P[0]), ValueError, "1 dimensions"),
        ((Y[:0], P[:0]), ValueError, "no rows"),
        ((Y, P.astype(object)), TypeError, "dtype object"),
        ((Y, P.astype(complex)), TypeError, "complex"),
    ],
)
def test_errors(metric, arguments, error, match):
    with pytest.raises(error, match=match):
        metric(*arguments)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"labels": [0, 1]}, "3 columns"),
        ({"labels": [0, 1, 1]}, "each once"),
        ({"labels": [1, 2, 3]}, "holds .*0.*not among"),
        ({"labels": ["a", "b", "c"]}, "not among"),
        ({"labels": CLASSES, "sample_weight": [1, 1]}, r"shape \(2,\)"),
        ({"labels": CLASSES, "sample_weight": [1, -1, 1]}, "got -1"),
        ({"labels": CLASSES, "sample_weight": [1, np.nan, 1]}, "got nan"),
        ({"labels": CLASSES, "sample_weight": [0, 0, 0]}, "zero for every sample"),
    ],
)
def test_errors_of_options(options, match):
    with pytest.raises(ValueError, match=match):
        metrics.sparsemax_score(LABELS, P, **options)


def test_errors_of_one_metric():
    for epsilon in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be finite and >= 0"):
            metrics.smoothed_perplexity(Y, P, epsilon=epsilon)
    with pytest.raises(ValueError, match="scale_by_half"):
        metrics.brier_score_loss(Y, P, scale_by_half="yes")
    with pytest.raises(ValueError, match="loss must be one of .*got 'softmax'"):
        metrics.fenchel_young_loss(Y, P, loss="softmax")
    with pytest.raises(ValueError, match="alpha must be > 0"):
        metrics.fenchel_young_loss(Y, P, loss="entmax", alpha=-1)
    with pytest.raises(TypeError, match="y_score is sparse"):
        metrics.fenchel_young_loss(Y, sp.csr_array(P))
    with pytest.raises(ValueError, match="3 dimensions"):
        metrics.fenchel_young_loss(Y, P[None])


def test_fenchel_young_loss():
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(20, 4)), rng.integers(0, 4, 20)
    names = np.array(["d", "b", "a", "c"])
    value = metrics.fenchel_young_loss(names[truth], scores, labels=names, loss="entmax", alpha=1.3)
    assert value == pytest.approx(entmax_loss(scores, truth, alpha=1.3, reduction="mean"))
    pairs = np.c_[np.zeros(20), scores[:, 0]]
    expected = sparsemax_loss(pairs, truth % 2, reduction="mean")
    for f in (scores[:, 0], scores[:, :1], pairs):
        assert metrics.fenchel_young_loss(truth % 2, f) == pytest.approx(expected)
    logistic = metrics.fenchel_young_loss(truth, scores, loss="logistic")
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert logistic == pytest.approx(sklearn.metrics.log_loss(truth, softmax))


# Scorers

SCORERS = {name: getattr(metrics, name) for name in metrics.__all__ if name.endswith("_scorer")}
del SCORERS["make_scorer"]


def toy(k=3, n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    scores = X @ rng.normal(size=(4, k)) + rng.gumbel(size=(n, k)) / 2
    return X, np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)], sparsemax(scores)


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("soft", [False, True])
def test_scorer_is_its_metric(name, k, soft):
    X, labels, targets = toy(k)
    y = targets if soft else labels
    weight = np.random.default_rng(1).uniform(size=len(X))
    clf = SparsemaxClassifier().fit(X, y)
    predicted, scores = clf.predict_proba(X), full_scores(clf, X)
    options = {"labels": clf.classes_, "sample_weight": weight}
    expected = {
        "neg_brier_scorer": lambda: -metrics.brier_score_loss(y, predicted, **options),
        "sparsemax_scorer": lambda: metrics.sparsemax_score(y, predicted, **options),
        "neg_perplexity_scorer": lambda: -metrics.smoothed_perplexity(y, predicted, **options),
        "neg_jensen_shannon_scorer": lambda: (
            -metrics.jensen_shannon_divergence(y, predicted, **options)
        ),
        "neg_support_size_scorer": lambda: (
            -metrics.mean_support_size(predicted, sample_weight=weight)
        ),
        "support_coverage_scorer": lambda: metrics.support_coverage(y, predicted, **options),
        "neg_fenchel_young_scorer": lambda: -metrics.fenchel_young_loss(y, scores, **options),
    }[name]()
    scorer = SCORERS[name]
    assert scorer(clf, X, y, sample_weight=weight) == pytest.approx(expected)
    again = pickle.loads(pickle.dumps(scorer))
    assert again(clf, X, y, sample_weight=weight) == pytest.approx(expected)
    # In a pipeline predict_proba knows of no sparse probabilities.
    pipe = make_pipeline("passthrough", SparsemaxClassifier()).fit(X, y)
    assert scorer(pipe, X, y, sample_weight=weight) == pytest.approx(expected)


def test_scorers_in_a_parallel_search():
    X, y, _ = toy()
    pipe = make_pipeline(StandardScaler(), EntmaxClassifier())
    grid = {"entmaxclassifier__alpha": [1.0, 2.0], "entmaxclassifier__C": [0.1, 10.0]}
    search = GridSearchCV(pipe, grid, scoring=SCORERS, refit="neg_brier_scorer", cv=3, n_jobs=2)
    search.fit(X, y)
    results = search.cv_results_
    for name in SCORERS:
        assert np.all(np.isfinite(results[f"mean_test_{name}"]))
    dense = results["param_entmaxclassifier__alpha"] == 1.0
    assert np.all(results["mean_test_neg_support_size_scorer"][dense.astype(bool)] == -3)
    best = results["mean_test_neg_brier_scorer"].max()
    assert search.best_score_ == best
    np.testing.assert_allclose(
        results["mean_test_sparsemax_scorer"], 1 + results["mean_test_neg_brier_scorer"] / 2
    )


def test_search_with_a_scorer_of_ones_own_and_distributions():
    X, _, Y = toy()
    scorer = metrics.make_scorer(metrics.smoothed_perplexity, greater_is_better=False, epsilon=0.1)
    assert "epsilon=0.1" in repr(scorer)
    search = GridSearchCV(SparsemaxClassifier(), {"C": [0.01, 1.0]}, scoring=scorer, cv=3)
    search.fit(X, Y)
    assert search.best_score_ < -1


def test_scorer_with_any_classifier_and_a_fold_without_a_class():
    X, y, _ = toy()
    clf = DummyClassifier(strategy="prior").fit(X, y)
    seen = y != "c"
    assert -2 <= metrics.neg_brier_scorer(clf, X[seen], y[seen]) <= 0
    with pytest.raises(AttributeError, match="predict_proba"):
        metrics.neg_brier_scorer(BaseEstimator(), X, y)


def test_weights_reach_a_scorer_by_metadata_routing():
    X, y, _ = toy()
    weight = np.random.default_rng(0).uniform(size=len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = metrics.make_scorer(metrics.brier_score_loss, greater_is_better=False)
        scorer.set_score_request(sample_weight=True)
        clf = SparsemaxClassifier().set_fit_request(sample_weight=True)
        result = cross_validate(
            clf,
            X,
            y,
            cv=3,
            scoring={"brier": scorer},
            params={"sample_weight": weight},
            return_estimator=True,
            return_indices=True,
        )
    fitted, test = result["estimator"][0], result["indices"]["test"][0]
    expected = -metrics.brier_score_loss(
        y[test], fitted.predict_proba(X[test]), sample_weight=weight[test]
    )
    assert result["test_brier"][0] == pytest.approx(expected)
