"""What all the linear classifiers share: fitting, predicting, scoring."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from sparsemap_np._targets import (
    check_distributions,
    column_classes,
    combined_weights,
    encode_labels,
    is_distribution,
    plain_labels,
)
from sparsemap_np.linear_model._blas import one_blas_thread
from sparsemap_np.linear_model._blocks import (
    nonzeros_to_csr,
    row_slices,
    rows_per_block,
    take_rows,
)
from sparsemap_np.linear_model._callbacks import CallbackSupportMixin, FitReport
from sparsemap_np.linear_model._losses import FenchelYoung
from sparsemap_np.linear_model._objective import Layout, LinearObjective
from sparsemap_np.linear_model._solvers import AUTO, SOLVERS, solve


class BaseFenchelYoungClassifier(
    CallbackSupportMixin,
    LinearClassifierMixin,
    SparseCoefMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """A linear classifier whose loss the subclass names.

    Parameters
    ----------
    C, l1_ratio, tol, fit_intercept, class_weight, solver, max_iter, warm_start, verbose, \
random_state
        See `FenchelYoungClassifier`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="right")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "solver": [StrOptions({AUTO, *SOLVERS})],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
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
        self.C = C
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @abstractmethod
    def _fenchel_young(self) -> FenchelYoung:
        """Bind the loss and its mapping to the parameters.

        Returns
        -------
        FenchelYoung
            What the model is trained with and predicts with.
        """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. float32 stays float32; everything else is computed in float64.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels of any kind, or with two or more columns one target distribution a row
            (dense or sparse).
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. An integer weight equals repeating the sample, a weight of
            zero equals leaving it out.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer than two classes, a row of distributions does not sum to 1, or
            a weight is negative, NaN, or all are zero.
        TypeError
            If `X` or `y` is a Dask collection.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` iterations do not reach `tol`.
        """
        for name, value in (("X", X), ("y", y)):
            self._reject_dask(name, value)
        loss = self._fenchel_young()
        y = plain_labels(y)
        given_classes = column_classes(y) if is_distribution(y) else None
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            multi_output=given_classes is not None,
        )
        targets = (
            encode_labels(y)
            if given_classes is None
            else check_distributions(y, given_classes, X.dtype)
        )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        weight = combined_weights(targets, sample_weight, self.class_weight)

        layout = Layout(X.shape[1], len(targets.classes), bool(self.fit_intercept))
        total = X.shape[0] if weight is None else float(weight.sum())
        penalty = 1.0 / (self.C * total)
        objective = LinearObjective(
            loss,
            X,
            targets.encoded,
            layout,
            sample_weight=weight,
            l2=(1.0 - self.l1_ratio) * penalty,
        )

        def attributes(w: np.ndarray) -> dict[str, Any]:
            coef, intercept = layout.attributes(w, X.dtype)
            return {"classes_": targets.classes, "coef_": coef, "intercept_": intercept}

        report = FitReport(self, X, y, sample_weight, attributes)
        with nullcontext() if objective.leaves_threads_to_blas else one_blas_thread():
            w, n_iter = solve(
                self.solver,
                objective,
                self._start(layout, targets.classes),
                l1=self.l1_ratio * penalty,
                tol=self.tol,
                max_iter=self.max_iter,
                report=report,
            )
        for name, value in attributes(w).items():
            setattr(self, name, value)
        self.n_iter_ = np.array([n_iter], dtype=np.int32)
        report.end()
        return self

    def _start(self, layout: Layout, classes: np.ndarray) -> np.ndarray:
        """Parameters to start from: zero, or with `warm_start` those of the last fit.

        A last fit to other classes or features says nothing about this one: start afresh.
        """
        if self.warm_start and hasattr(self, "coef_"):
            fits = np.array_equal(self.classes_, classes)
            if fits and self.coef_.shape == (layout.n_outputs, layout.n_features):
                coef = self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_
                return layout.flatten(coef, self.intercept_)
        return np.zeros(layout.n_parameters)

    def predict_proba(self, X: Any, sparse: bool = False) -> Any:
        """Probability of each class: the mapping applied to the scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        sparse : bool, default=False
            Return only the non-zeros. They are computed in blocks of rows, so that the dense
            table never exists.

        Returns
        -------
        P : ndarray or csr_array of shape (n_samples, n_classes)
            Rows sum to 1; columns follow `classes_`.
        """
        check_is_fitted(self)
        mapping = self._fenchel_young().mapping
        if not sparse:
            scores = self._class_scores(self.decision_function(X))
            return mapping(scores, out=scores)
        self._reject_dask("X", X)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        parts = []
        for at in row_slices(0, X.shape[0], rows_per_block(len(self.classes_))):
            scores = safe_sparse_dot(take_rows(X, at), self.coef_.T, dense_output=True)
            scores = self._class_scores(scores + self.intercept_)
            parts.append(nonzeros_to_csr(mapping(scores, out=scores)))
        return sp.vstack(parts, format="csr")

    def _class_scores(self, decision: np.ndarray) -> np.ndarray:
        """One column of scores a class; two classes have the scores (0, f)."""
        if len(self.classes_) > 2:
            return decision
        scores = np.zeros((decision.shape[0], 2), dtype=decision.dtype)
        scores[:, 1] = decision.reshape(-1)
        return scores

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of the probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            -inf where the probability is zero.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels or distributions.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        float
            Mean accuracy for labels, minus the mean loss for distributions.
        """
        if not is_distribution(y):
            return super().score(X, y, sample_weight)
        scores = self._class_scores(self.decision_function(X))
        encoded = y if sp.issparse(y) else np.asarray(y, dtype=scores.dtype)
        check_consistent_length(scores, encoded, sample_weight)
        targets = check_distributions(encoded, self.classes_, scores.dtype)
        loss = self._fenchel_young().loss
        return -float(loss(scores, targets.encoded, reduction="mean", sample_weight=sample_weight))

    def _reject_dask(self, name: str, value: Any) -> None:
        """scikit-learn would silently load a Dask collection into memory."""
        if hasattr(value, "__dask_graph__"):
            raise TypeError(
                f"{name} is a Dask collection ({type(value).__name__}), which "
                f"{type(self).__name__} would have to load into memory. Call .compute() on it, "
                "or use sparsemap_np.dask.DaskFenchelYoungClassifier once your version has it."
            )

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            ``X @ coef_.T + intercept_``. With two classes one number f: their scores are
            0 and f.
        """
        self._reject_dask("X", X)
        return super().decision_function(X)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse data are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
