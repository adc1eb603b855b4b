"""A multi-label classifier that says how many labels it gives out."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from sparsemap_np._targets import Targets, combined_weights, is_distribution
from sparsemap_np.linear_model._base import BaseFenchelYoungClassifier
from sparsemap_np.linear_model._blocks import nonzeros_to_csr
from sparsemap_np.linear_model._classifiers import FenchelYoungClassifier
from sparsemap_np.linear_model._losses import FenchelYoung, fenchel_young
from sparsemap_np.linear_model._objective import Layout
from sparsemap_np.losses import budget_loss
from sparsemap_np.mappings import budget_bisect


class _OneOutputPerLabel(Layout):
    """Two labels are not two classes: each has scores of its own."""

    @property
    def n_outputs(self) -> int:
        """Columns of weights."""
        return self.n_classes


class KSubsetsClassifier(BaseFenchelYoungClassifier):
    r"""Linear multi-label classifier: a budget of labels, spent where the scores are best.

    The marginals of a sample with scores x and budget B are

    .. math:: \operatorname{argmax}_p \langle p, x \rangle - \tfrac12 \lVert p \rVert^2,
              \quad 0 \le p \le 1, \; \sum_j p_j = B:

    labels well ahead get exactly 1, hopeless ones exactly 0, and they sum to the budget [1]_.
    The weights minimise the Fenchel-Young loss of this mapping (`sparsemap_np.budget_loss`),
    penalised as in `FenchelYoungClassifier`, where each training row has the budget that it
    needs: its own number of labels. `budget` decides for new data.

    Parameters
    ----------
    budget : float or {"predict", "mean"}, default="predict"
        Sum of the marginals of a row: a number from 0 to the number of labels, not necessarily
        an integer; "mean", the mean number of labels in the training data; or "predict", the
        number expected by a second model, a logistic regression on the number of labels
        (`cardinality_`), one budget a row.
    C : float, default=0.01
        Inverse strength of the penalty, on the scale of `FenchelYoungClassifier`. The default is
        smaller than there: of 1, 0.1, 0.03 and 0.01 it ranked the labels of the test rows best
        on five of seven standard multi-label sets. Marginals of exactly 0 and 1 grow more frequent
        with C.
    l1_ratio, tol, fit_intercept, class_weight, solver, max_iter, warm_start, verbose, \
random_state
        See `FenchelYoungClassifier`. The class weight of a sample is the mean of its labels'.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        What the columns stand for: column names of a frame, or 0 .. n_labels - 1. For labels,
        their sorted values.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    budget_ : float or None
        The budget of every row; None if each has its own.
    cardinality_ : FenchelYoungClassifier or None
        The model of the number of labels, where `budget` is "predict" and the number varies.
    multilabel_ : bool
        Whether `y` had one column a label.
    n_iter_, n_features_in_, feature_names_in_
        As in `FenchelYoungClassifier`.

    See Also
    --------
    sparsemap_np.budget_bisect : The mapping.
    sparsemap_np.budget_loss : The loss.

    Notes
    -----
    `fit` takes an indicator matrix (dense or sparse) or marginals in [0, 1]. A row without
    labels, or with all, needs no ranking: it teaches the number of labels only. Plain labels are
    taken too, one a sample; the loss is then that of sparsemax, and `predict` returns labels.

    References
    ----------
    .. [1] S. J. R. Santos, V. Niculae, D. McNamee, A. F. T. Martins, "Sparse and structured
       Hopfield networks", ICML 2024.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sparsemap_np import KSubsetsClassifier
    >>> X, Y = make_multilabel_classification(n_samples=300, n_classes=4, random_state=0)
    >>> clf = KSubsetsClassifier(C=1.0, max_iter=1000).fit(X, Y)
    >>> clf.predict(X[2:5])
    array([[1, 0, 1, 0],
           [1, 0, 0, 1],
           [1, 1, 0, 0]])
    >>> clf.predict_proba(X[2:5]).round(1)
    array([[1. , 0. , 1. , 0. ],
           [1. , 0.2, 0. , 1. ],
           [1. , 0.9, 0.5, 0. ]])
    >>> clf.predict_cardinality(X[2:5]).round(2)
    array([2.04, 2.21, 2.39])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseFenchelYoungClassifier._parameter_constraints,
        "budget": [Interval(Real, 0, None, closed="left"), StrOptions({"predict", "mean"})],
    }

    def __init__(
        self,
        budget: Any = "predict",
        *,
        C: float = 0.01,
        l1_ratio: float = 0.0,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        max_iter: int = 100,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            C=C,
            l1_ratio=l1_ratio,
            tol=tol,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            solver=solver,
            max_iter=max_iter,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
        )
        self.budget = budget

    def _fenchel_young(self) -> FenchelYoung:
        if not self.multilabel_:
            return fenchel_young("sparsemax", alpha=2.0)
        return FenchelYoung(mapping=budget_bisect, loss=budget_loss)

    def _encode(self, y: Any, columns: np.ndarray | None, dtype: np.dtype) -> Targets:
        if columns is None:
            return super()._encode(y, columns, dtype)
        return _check_marginals(y, columns, dtype)

    def _weights(self, targets: Targets, sample_weight: np.ndarray | None) -> np.ndarray | None:
        if targets.encoded.ndim == 1:
            return super()._weights(targets, sample_weight)
        # As for distributions over the labels; a row without labels keeps its weight.
        counts = _row_sums(targets.encoded)
        shares = sp.csr_array(targets.encoded.T / np.maximum(counts, 1e-300)).T.tocsr()
        weight = combined_weights(
            replace(targets, encoded=shares), sample_weight, self.class_weight
        )
        if weight is None or self.class_weight is None:
            return weight
        plain = np.ones(len(counts)) if sample_weight is None else sample_weight
        return np.where(counts > 0, weight, plain)

    def _layout(self, n_features: int, targets: Targets) -> Layout:
        if targets.encoded.ndim == 1:
            return super()._layout(n_features, targets)
        return _OneOutputPerLabel(n_features, len(targets.classes), bool(self.fit_intercept))

    def _prepare(self, problem: Any) -> FenchelYoung:
        encoded = problem.targets.encoded
        n_labels = len(problem.targets.classes)
        if isinstance(self.budget, Real) and self.budget > n_labels:
            raise ValueError(
                f"The 'budget' parameter must be at most the number of labels, {n_labels}. "
                f"Got {self.budget!r} instead."
            )
        self.multilabel_ = encoded.ndim == 2
        counts = _row_sums(encoded) if self.multilabel_ else np.ones(encoded.shape[0])
        self._sparse_predictions = self.multilabel_ and sp.issparse(problem.y)
        self.cardinality_ = None
        if isinstance(self.budget, Real):
            self.budget_ = float(self.budget)
            return self._fenchel_young()
        weight = problem.sample_weight
        if weight is not None:
            # A weight of zero equals leaving the row out.
            problem, counts = problem.rows(weight > 0), counts[weight > 0]
        if self.budget == "mean" or np.ptp(counts) == 0:
            self.budget_ = float(np.average(counts, weights=problem.sample_weight))
        else:
            self.budget_ = None
            self.cardinality_ = self._fit_cardinality(problem, counts)
        return self._fenchel_young()

    def _fit_cardinality(self, problem: Any, counts: np.ndarray) -> FenchelYoungClassifier:
        """A logistic regression on the number of labels.

        A number between two integers is a target distribution over both.
        """
        below = np.floor(counts).astype(np.intp)
        share = counts - below
        sizes, column = np.unique(np.concatenate([below, below + (share > 0)]), return_inverse=True)
        low, high = np.split(column, 2)
        Y = np.zeros((len(counts), len(sizes)))
        rows = np.arange(len(counts))
        Y[rows, low] = 1 - share
        Y[rows, high] += share
        model = FenchelYoungClassifier(
            "logistic",
            C=self.C,
            l1_ratio=self.l1_ratio,
            tol=self.tol,
            fit_intercept=self.fit_intercept,
            solver=self.solver,
            max_iter=self.max_iter,
        )
        model.fit(problem.X, Y, sample_weight=problem.sample_weight)
        model.classes_ = sizes
        return model

    def predict_cardinality(self, X: Any) -> np.ndarray:
        """The budget of each row: how many labels it should have.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        ndarray of shape (n_samples,)
            Not necessarily integers.
        """
        return self._budgets(self._checked_rows(X))

    def _budgets(self, X: Any) -> np.ndarray:
        if self.cardinality_ is None:
            return np.full(X.shape[0], self.budget_)
        expected = self.cardinality_.predict_proba(X) @ self.cardinality_.classes_
        return np.clip(expected.astype(np.float64), 0, len(self.classes_))

    def _probabilities(self, X: Any) -> np.ndarray:
        scores = self._class_scores(X)
        return budget_bisect(scores, self._budgets(X)[:, None], out=scores)

    def predict(self, X: Any) -> Any:
        """Labels of each row: the best by score, as many as the rounded budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        ndarray or csr_array of int, shape (n_samples, n_labels), or ndarray (n_samples,)
            An indicator matrix, sparse if that of `fit` was. After a fit to plain labels the
            best label, whatever the budget.
        """
        check_is_fitted(self)
        if not self.multilabel_:
            return super().predict(X)
        X = self._checked_rows(X)
        parts = self._by_blocks(self._best_labels, X)
        if self._sparse_predictions:
            return sp.vstack([nonzeros_to_csr(part) for part in parts], format="csr")
        return np.concatenate(parts)

    def _best_labels(self, X: Any) -> np.ndarray:
        """Indicators of the best labels of checked rows; of equal scores the first."""
        scores = self._class_scores(X)
        size = np.floor(self._budgets(X) + 0.5)
        order = np.argsort(-scores, axis=1, kind="stable")
        chosen = np.zeros(scores.shape, dtype=np.int64)
        np.put_along_axis(chosen, order, np.arange(scores.shape[1]) < size[:, None], axis=1)
        return chosen

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or (n_samples,)
            Indicators, marginals, or labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        float
            Share of rows with all labels right (subset accuracy); for marginals minus the mean
            loss.
        """
        if is_distribution(y):
            check_is_fitted(self)
            marginals = _check_marginals(y, self.classes_, self.coef_.dtype).encoded
            values = marginals.data if sp.issparse(marginals) else marginals
            if np.any((values != 0) & (values != 1)):
                scores = self._class_scores(self._checked_rows(X))
                loss = budget_loss(scores, marginals, reduction="mean", sample_weight=sample_weight)
                return -float(loss)
        return ClassifierMixin.score(self, X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that several labels a sample are welcome."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _row_sums(Y: Any) -> np.ndarray:
    return np.asarray(Y.sum(axis=1, dtype=np.float64)).ravel()


def _check_marginals(y: Any, classes: np.ndarray, dtype: np.dtype) -> Targets:
    """Check a table of indicators or marginals."""
    encoded = y.tocsr() if sp.issparse(y) else np.asarray(y)
    encoded = encoded.astype(dtype, copy=False)
    values = encoded.data if sp.issparse(encoded) else encoded
    bad = values[~((values >= 0) & (values <= 1))]
    if bad.size:
        raise ValueError(
            f"y with {encoded.shape[1]} columns must hold indicators, or marginals between 0 and "
            f"1. It holds {bad[0]:g}."
        )
    return Targets(classes, encoded)
