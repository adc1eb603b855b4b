r"""How good, and how short, predicted distributions are: metrics and scorers.

Every metric takes the probabilities as an array or as a sparse matrix of the non-zeros (what
``predict_proba(X, sparse=True)`` returns), which is never made dense, and the truth as labels or
as one target distribution a row. All but `smoothed_perplexity` with ``epsilon=0`` are finite
where a probability is zero.

Which one to compare models with? `brier_score_loss` and `sparsemax_score` are proper, finite at
zeros, and mean the same for every model. A Fenchel-Young loss compares models of *one* loss only:
each alpha defines another loss on another scale, so comparing `fenchel_young_loss` across alpha,
each model under its own, is meaningless.

For :class:`sklearn.model_selection.GridSearchCV` and its like there is a scorer for each metric;
scorers want more to be better, so losses are negated in them, as their names say. They take
target distributions where the metric does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from math import isfinite
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import rel_entr, xlogy
from sklearn.metrics._scorer import _BaseScorer
from sklearn.utils.validation import _check_response_method, column_or_1d

from sparsemap_np import losses
from sparsemap_np._targets import is_distribution, plain_labels

__all__ = [
    "brier_score_loss",
    "fenchel_young_loss",
    "jensen_shannon_divergence",
    "make_scorer",
    "mean_support_size",
    "neg_brier_scorer",
    "neg_fenchel_young_scorer",
    "neg_jensen_shannon_scorer",
    "neg_perplexity_scorer",
    "neg_support_size_scorer",
    "smoothed_perplexity",
    "sparsemax_score",
    "sparsemax_scorer",
    "support_coverage",
    "support_coverage_scorer",
]

_BLOCK = 2**18
"""Probabilities that are looked at together: temporaries stay this small."""

_LOSSES = {
    "sparsemax": losses.sparsemax_loss,
    "entmax15": losses.entmax15_loss,
    "entmax": losses.entmax_loss,
    "normmax": losses.normmax_bisect_loss,
    "logistic": partial(losses.entmax_loss, alpha=1.0),
}
_WITH_ALPHA = {"entmax", "normmax"}


def brier_score_loss(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    labels: Any = None,
    scale_by_half: Any = "auto",
) -> float:
    r"""Brier's score: the mean squared distance between prediction and outcome.

    .. math:: \frac{\sum_i w_i \lVert p_i - y_i \rVert^2}{\sum_i w_i}

    Proper, and finite at zeros. It is :func:`sklearn.metrics.brier_score_loss` for sparse
    probabilities and target distributions too. The score against a distribution y is the expected
    score against a label drawn from y, less the constant :math:`1 - \lVert y \rVert^2`.

    Parameters
    ----------
    y_true : array-like of shape (n,), or array-like or sparse matrix of shape (n, n_classes)
        Labels, or target distributions.
    y_proba : array-like or sparse matrix of shape (n, n_classes)
        Predicted probabilities.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.
    labels : array-like of shape (n_classes,), default=None
        What the columns stand for. None takes the sorted labels of `y_true`; distributions need
        none.
    scale_by_half : bool or "auto", default="auto"
        Whether to halve the score, so that its range is [0, 1] instead of [0, 2]. "auto" halves
        it for two classes, as scikit-learn does.

    Returns
    -------
    float
        Smaller is better.

    Raises
    ------
    ValueError
        If `y_true` or `y_proba` holds no distributions, a label is not among `labels`, the
        numbers of rows differ, or the weights are negative or all zero.

    Examples
    --------
    >>> from sparsemap_np.metrics import brier_score_loss
    >>> brier_score_loss([0, 2], [[1, 0, 0], [0, 0.5, 0.5]])  # (0 + 0.5) / 2
    Traceback (most recent call last):
    ...
    ValueError: y_true holds 2 different labels but y_proba has 3 columns: pass labels=...
    >>> brier_score_loss([0, 2], [[1, 0, 0], [0, 0.5, 0.5]], labels=[0, 1, 2])
    0.25
    """
    if not isinstance(scale_by_half, bool | np.bool_) and scale_by_half != "auto":
        raise ValueError(f"scale_by_half must be True, False or 'auto', got {scale_by_half!r}")
    P = _distributions(y_proba, "y_proba")
    Y = _targets(y_true, P.shape, labels)
    halved = P.shape[1] == 2 if scale_by_half == "auto" else bool(scale_by_half)
    score = _mean(_row_sums(_squared_distance, P, Y), sample_weight)
    return 0.5 * score if halved else score


def sparsemax_score(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    r"""Sparsemax score: one minus the least sparsemax loss that allows the prediction.

    .. math:: 1 - \min \{ L(x; y) : \operatorname{sparsemax}(x) = p \}
              = p_y + \tfrac12 (1 - \lVert p \rVert^2) = 1 - \tfrac12 \lVert p - y \rVert^2

    averaged over the samples [1]_. It ranks models as Brier's score does, on a scale from 0
    (certain and wrong) to 1 (certain and right), whatever mapping the probabilities come from.

    Parameters
    ----------
    y_true : array-like of shape (n,), or array-like or sparse matrix of shape (n, n_classes)
        Labels, or target distributions.
    y_proba : array-like or sparse matrix of shape (n, n_classes)
        Predicted probabilities.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.
    labels : array-like of shape (n_classes,), default=None
        What the columns stand for, as in `brier_score_loss`.

    Returns
    -------
    float
        Larger is better.

    Raises
    ------
    ValueError
        As `brier_score_loss`.

    References
    ----------
    .. [1] P. H. Martins, Z. Marinho, A. F. T. Martins. Sparse Text Generation. EMNLP 2020.

    Examples
    --------
    >>> from sparsemap_np.metrics import sparsemax_score
    >>> sparsemax_score([0, 1, 2], [[1, 0, 0], [0, 0.5, 0.5], [1, 0, 0]])  # (1 + 0.75 + 0) / 3
    0.5833
    """
    P = _distributions(y_proba, "y_proba")
    Y = _targets(y_true, P.shape, labels)
    return _mean(1.0 - 0.5 * _row_sums(_squared_distance, P, Y), sample_weight)


def smoothed_perplexity(
    y_true: Any,
    y_proba: Any,
    *,
    epsilon: float = 0.01,
    sample_weight: Any = None,
    labels: Any = None,
) -> float:
    r"""Perplexity of the truth after epsilon was added to every probability.

    .. math:: \exp\Big(-\frac{1}{\sum_i w_i} \sum_i w_i \sum_j y_{ij}
              \log \frac{p_{ij} + \epsilon}{1 + \epsilon k}\Big)

    with k classes [1]_: finite at zeros, which plain perplexity and the log-loss are not. Values
    of different epsilon cannot be compared. The smoothed score is not proper: what minimises it
    lies a little off the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,), or array-like or sparse matrix of shape (n, n_classes)
        Labels, or target distributions.
    y_proba : array-like or sparse matrix of shape (n, n_classes)
        Predicted probabilities.
    epsilon : float, default=0.01
        Finite and >= 0; with 0 a zero for a class of the target makes the result infinite.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.
    labels : array-like of shape (n_classes,), default=None
        What the columns stand for, as in `brier_score_loss`.

    Returns
    -------
    float
        At least 1 for labels; smaller is better.

    Raises
    ------
    ValueError
        As `brier_score_loss`, and for another `epsilon`.

    References
    ----------
    .. [1] P. H. Martins, Z. Marinho, A. F. T. Martins. Sparse Text Generation. EMNLP 2020.

    Examples
    --------
    >>> from sparsemap_np.metrics import smoothed_perplexity
    >>> smoothed_perplexity([0, 1], [[1, 0], [1, 0]], epsilon=0.5)  # sqrt(2/1.5 * 2/0.5)
    2.3094
    """
    if not (isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon must be finite and >= 0, got {epsilon!r}")
    P = _distributions(y_proba, "y_proba")
    Y = _targets(y_true, P.shape, labels)
    scale = 1.0 + epsilon * P.shape[1]
    nats = _row_sums(lambda p, y: -xlogy(y, (p + epsilon) / scale), P, Y)
    return float(np.exp(_mean(nats, sample_weight)))


def jensen_shannon_divergence(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    r"""Jensen-Shannon divergence between target and predicted distributions, in nats.

    .. math:: \tfrac12 \mathrm{KL}(p \,\|\, m) + \tfrac12 \mathrm{KL}(y \,\|\, m),
              \quad m = \tfrac12 (p + y)

    averaged over the samples: 0 where they agree, log 2 where they have no class in common.

    Parameters
    ----------
    y_true : array-like of shape (n,), or array-like or sparse matrix of shape (n, n_classes)
        Target distributions; labels stand for certainty.
    y_proba : array-like or sparse matrix of shape (n, n_classes)
        Predicted probabilities.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.
    labels : array-like of shape (n_classes,), default=None
        What the columns stand for, as in `brier_score_loss`.

    Returns
    -------
    float
        Between 0 and log 2; smaller is better.

    Raises
    ------
    ValueError
        As `brier_score_loss`.

    Examples
    --------
    >>> from sparsemap_np.metrics import jensen_shannon_divergence
    >>> jensen_shannon_divergence([[0.5, 0.5], [1, 0]], [[0.5, 0.5], [0, 1]])  # log(2) / 2
    0.3466
    """
    P = _distributions(y_proba, "y_proba")
    Y = _targets(y_true, P.shape, labels)
    # Rounding may leave a sum a trifle below zero.
    return _mean(np.maximum(_row_sums(_jensen_shannon, P, Y), 0.0), sample_weight)


def mean_support_size(y_proba: Any, *, sample_weight: Any = None) -> float:
    """Number of classes with a probability above zero, averaged over the samples.

    Parameters
    ----------
    y_proba : array-like or sparse matrix of shape (n, n_classes)
        Predicted probabilities. Marginals, whose rows do not sum to 1, are welcome.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.

    Returns
    -------
    float
        From 1 to n_classes (for marginals from 0).

    Raises
    ------
    ValueError
        If a probability is negative, NaN or infinite, or the weights are negative or all zero.

    Examples
    --------
    >>> from sparsemap_np.metrics import mean_support_size
    >>> mean_support_size([[1, 0, 0], [0, 0.5, 0.5]])
    1.5
    """
    P = _table(y_proba, "y_proba")
    nothing = sp.csr_array(P.shape)
    return _mean(_row_sums(lambda p, y: (p > 0).astype(float), P, nothing), sample_weight)


def support_coverage(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    """How often the truth is among the classes with a probability above zero.

    Parameters
    ----------
    y_true : array-like of shape (n,), or array-like or sparse matrix of shape (n, n_classes)
        Labels, or target distributions, of which the covered mass counts.
    y_proba : array-like or sparse matrix of shape (n, n_classes)
        Predicted probabilities.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.
    labels : array-like of shape (n_classes,), default=None
        What the columns stand for, as in `brier_score_loss`.

    Returns
    -------
    float
        Between 0 and 1; larger is better, but 1 is easy for long lists: read it together with
        `mean_support_size`.

    Raises
    ------
    ValueError
        As `brier_score_loss`.

    Examples
    --------
    >>> from sparsemap_np.metrics import support_coverage
    >>> support_coverage([0, 1], [[1, 0], [1, 0]])
    0.5
    """
    P = _distributions(y_proba, "y_proba")
    Y = _targets(y_true, P.shape, labels)
    return _mean(_row_sums(lambda p, y: y * (p > 0), P, Y), sample_weight)


def fenchel_young_loss(
    y_true: Any,
    y_score: Any,
    *,
    loss: str = "sparsemax",
    alpha: float = 1.5,
    sample_weight: Any = None,
    labels: Any = None,
) -> float:
    """Mean Fenchel-Young loss of scores.

    Compare models under one loss only. Values of different losses, or of one loss with different
    alpha, have different scales.

    Parameters
    ----------
    y_true : array-like of shape (n,), or array-like or sparse matrix of shape (n, n_classes)
        Labels, or target distributions.
    y_score : array-like of shape (n, n_classes) or (n,)
        Scores (not probabilities), as from `decision_function`. One number f a row stands for
        the scores 0 and f of two classes.
    loss : {"sparsemax", "entmax15", "entmax", "normmax", "logistic"}, default="sparsemax"
        The loss, as in `sparsemap_np.FenchelYoungClassifier`.
    alpha : float, default=1.5
        For "entmax" and "normmax" only.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0.
    labels : array-like of shape (n_classes,), default=None
        What the columns stand for, as in `brier_score_loss`.

    Returns
    -------
    float
        At least 0; smaller is better.

    Raises
    ------
    ValueError
        As `brier_score_loss`, and for an unknown loss or an `alpha` outside its domain.
    TypeError
        If the scores are sparse.

    Examples
    --------
    >>> from sparsemap_np.metrics import fenchel_young_loss
    >>> fenchel_young_loss([0, 1, 0], [[3, 1.5], [0.2, 0.7], [0, 0]])  # (0 + 0.0625 + 0.25) / 3
    0.1042
    """
    if loss not in _LOSSES:
        raise ValueError(f"loss must be one of {sorted(_LOSSES)}, got {loss!r}")
    if sp.issparse(y_score):
        raise TypeError("y_score is sparse: scores of zero are not left out, pass an array")
    scores = np.asarray(y_score)
    if scores.ndim == 1 or scores.ndim == 2 and scores.shape[1] == 1:
        scores = np.stack([np.zeros_like(scores.ravel()), scores.ravel()], axis=1)
    if scores.ndim != 2:
        raise ValueError(f"y_score has {scores.ndim} dimensions: it must be (n, n_classes) or (n,)")
    Y = _targets(y_true, scores.shape, labels)
    bound = {"alpha": alpha} if loss in _WITH_ALPHA else {}
    return _mean(_LOSSES[loss](scores, Y, **bound), sample_weight)


class _DistributionScorer(_BaseScorer):
    """Calls a metric of this module with the classes of the estimator it scores.

    scikit-learn's own scorer hands one column to the metric where there are two classes, knows
    no sparse probabilities, and lets the metric guess the classes of the columns.
    """

    def _score(
        self, method_caller: Callable, estimator: Any, X: Any, y_true: Any, **kwargs: Any
    ) -> float:
        self._warn_overlap("A keyword was given to make_scorer and as metadata.", kwargs)
        response = _check_response_method(estimator, self._response_method)
        options = {**self._kwargs, **kwargs}
        if "labels" in signature(self._score_func).parameters:
            options.setdefault("labels", estimator.classes_)
        if "sparse" in signature(response).parameters:
            predicted = response(X, sparse=True)
        else:
            predicted = response(X)
        return self._sign * self._score_func(y_true, predicted, **options)


def make_scorer(
    metric: Callable[..., float], *, greater_is_better: bool = True, **parameters: Any
) -> Any:
    """Make a scorer for scikit-learn from a metric of this module.

    Use it for parameters other than those of the ready-made scorers, for instance
    ``make_scorer(fenchel_young_loss, greater_is_better=False, loss="entmax", alpha=1.3)``.

    Parameters
    ----------
    metric : callable
        One of the metrics here, or a function of ``(y_true, y_proba)`` that may take `labels` and
        `sample_weight`. Estimators that can give sparse probabilities are asked for them.
    greater_is_better : bool, default=True
        False negates the metric.
    **parameters
        Passed on to the metric.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sample_weight=None)``; the estimator needs `predict_proba` (for
        `fenchel_young_loss` `decision_function`) and, for labels, `classes_`.

    Examples
    --------
    >>> from sparsemap_np.metrics import make_scorer, smoothed_perplexity
    >>> scorer = make_scorer(smoothed_perplexity, greater_is_better=False, epsilon=0.1)
    """
    sign = 1 if greater_is_better else -1
    response = "decision_function" if metric is fenchel_young_loss else "predict_proba"
    return _DistributionScorer(metric, sign, parameters, response)


def _support_size_of_prediction(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    """`mean_support_size` with the signature of the other metrics."""
    return mean_support_size(y_proba, sample_weight=sample_weight)


neg_brier_scorer = make_scorer(brier_score_loss, greater_is_better=False)
sparsemax_scorer = make_scorer(sparsemax_score)
neg_perplexity_scorer = make_scorer(smoothed_perplexity, greater_is_better=False)
neg_jensen_shannon_scorer = make_scorer(jensen_shannon_divergence, greater_is_better=False)
neg_support_size_scorer = make_scorer(_support_size_of_prediction, greater_is_better=False)
support_coverage_scorer = make_scorer(support_coverage)
neg_fenchel_young_scorer = make_scorer(fenchel_young_loss, greater_is_better=False)


# Formulas of one pair of a probability p and a target y; each is zero where both are.


def _squared_distance(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.square(p - y)


def _jensen_shannon(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    m = 0.5 * (p + y)
    return 0.5 * (rel_entr(p, m) + rel_entr(y, m))


def _row_sums(element: Callable, P: Any, Y: Any) -> np.ndarray:
    """Sum ``element(p, y)`` over each row, in float64.

    Y may hold the indices of the classes: certainty.
    """
    n, k = P.shape
    if Y.ndim == 1:
        Y = sp.csr_array((np.ones(n), Y, np.arange(n + 1)), shape=(n, k))
    if sp.issparse(P):
        row, p, y = _aligned(P, sp.csr_array(Y))
        return np.bincount(row, weights=element(p, y), minlength=n)
    sums = np.empty(n)
    height = max(1, _BLOCK // k)
    for start in range(0, n, height):
        rows = slice(start, start + height)
        y = Y[rows].toarray() if sp.issparse(Y) else Y[rows]
        p = P[rows].astype(np.float64, copy=False)
        sums[rows] = element(p, y).sum(axis=1, dtype=np.float64)
    return sums


def _aligned(P: sp.csr_array, Y: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where either matrix has an entry: its row, and both values."""
    cells = [_cells(A) for A in (P, Y)]
    union = np.union1d(*cells)
    values = []
    for at, A in zip(cells, (P, Y), strict=True):
        value = np.zeros(len(union))
        value[np.searchsorted(union, at)] = A.data
        values.append(value)
    return union // P.shape[1], *values


def _cells(A: sp.csr_array) -> np.ndarray:
    """Position of each entry in the flattened matrix."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return rows * A.shape[1] + A.indices


def _table(A: Any, name: str) -> Any:
    """A table of finite numbers >= 0, an array or CSR with one entry a cell."""
    if sp.issparse(A):
        table = sp.csr_array(A)
        if not table.has_canonical_format:
            table = table.copy()
            table.sum_duplicates()
        values = table.data
    else:
        table = values = np.asarray(A)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {values.dtype}: it must hold real numbers")
    if table.ndim != 2:
        raise ValueError(f"{name} has {table.ndim} dimensions: it must have shape (n, n_classes)")
    if table.shape[0] == 0:
        raise ValueError(f"{name} has no rows: there is nothing to average")
    bad = values[~(np.isfinite(values) & (values >= 0))]
    if bad.size:
        raise ValueError(f"{name} holds {bad[0]:g}: it must hold finite numbers >= 0")
    return table


def _distributions(A: Any, name: str) -> Any:
    """A table whose rows sum to one, to the rounding of their type."""
    table = _table(A, name)
    sums = np.asarray(table.sum(axis=1, dtype=np.float64)).ravel()
    eps = np.finfo(table.dtype).eps if table.dtype.kind == "f" else 0.0
    off = np.flatnonzero(np.abs(sums - 1.0) > max(1e-6, np.sqrt(eps)))
    if off.size:
        raise ValueError(
            f"{name} row {off[0]} sums to {sums[off[0]]:g}: "
            "each row must be a distribution, which sums to 1"
        )
    return table


def _targets(y_true: Any, shape: tuple[int, int], labels: Any) -> Any:
    """Targets for n rows and k columns: column indices (n,), or distributions (n, k)."""
    n, k = shape
    if is_distribution(y_true):
        Y = _distributions(y_true, "y_true")
        if Y.shape != shape:
            raise ValueError(f"y_true has shape {Y.shape} but the predictions have shape {shape}")
        return Y
    y = column_or_1d(plain_labels(y_true))
    if len(y) != n:
        raise ValueError(f"y_true has {len(y)} labels but there are predictions for {n} samples")
    if labels is None:
        classes, index = np.unique(y, return_inverse=True)
        if len(classes) != k:
            raise ValueError(
                f"y_true holds {len(classes)} different labels but y_proba has {k} columns: "
                "pass labels=..."
            )
        return index
    classes = column_or_1d(labels)
    if len(classes) != k or len(np.unique(classes)) != k:
        raise ValueError(
            f"labels must name the {k} columns, each once, got {len(classes)} of which "
            f"{len(np.unique(classes))} differ"
        )
    order = np.argsort(classes)
    at = np.minimum(np.searchsorted(classes, y, sorter=order), k - 1)
    index = order[at]
    unknown = classes[index] != y
    if unknown.any():
        raise ValueError(f"y_true holds {y[unknown][0]!r}, which is not among labels")
    return index


def _mean(values: np.ndarray, sample_weight: Any) -> float:
    """Weighted mean of one number a sample, in float64."""
    values = np.asarray(values, dtype=np.float64)
    if sample_weight is None:
        return float(values.mean())
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != values.shape:
        raise ValueError(
            f"sample_weight has shape {weight.shape}: it must have one number a sample, "
            f"{values.shape}"
        )
    bad = weight[~(np.isfinite(weight) & (weight >= 0))]
    if bad.size:
        raise ValueError(f"sample_weight must be finite and >= 0, got {bad[0]:g}")
    total = weight.sum()
    if total == 0:
        raise ValueError("sample_weight is zero for every sample: there is nothing to average")
    # A sample without weight is left out, also one whose value is infinite.
    return float(np.sum(np.where(weight > 0, values, 0.0) * weight) / total)
