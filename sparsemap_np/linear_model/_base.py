"""What all the linear classifiers share: fitting, predicting, scoring."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
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
    Targets,
    check_distributions,
    column_classes,
    combined_weights,
    encode_labels,
    is_distribution,
    plain_labels,
)
from sparsemap_np._threads import run_tasks
from sparsemap_np.linear_model._blas import one_blas_thread
from sparsemap_np.linear_model._blocks import (
    nonzeros_to_csr,
    row_slices,
    rows_per_block,
    take_rows,
)
from sparsemap_np.linear_model._callbacks import CallbackSupportMixin, FitReport
from sparsemap_np.linear_model._losses import FenchelYoung
from sparsemap_np.linear_model._objective import Layout
from sparsemap_np.linear_model._problem import Problem, minimise
from sparsemap_np.linear_model._solvers import AUTO, SOLVERS


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
        problem = self._checked(X, y, sample_weight)
        loss = self._prepare(problem)
        layout = problem.layout

        def attributes(w: np.ndarray) -> dict[str, Any]:
            coef, intercept = layout.attributes(w, problem.X.dtype)
            return {"classes_": problem.targets.classes, "coef_": coef, "intercept_": intercept}

        report = FitReport(self, problem.X, problem.y, problem.sample_weight, attributes)
        w, n_iter = minimise(
            problem, loss, self._start(problem), report, **self._solver_options(self.C)
        )
        for name, value in attributes(w).items():
            setattr(self, name, value)
        self.n_iter_ = np.array([n_iter], dtype=np.int32)
        report.end()
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        """Check the data of a fit and bring them to the form that the objective takes."""
        for name, value in (("X", X), ("y", y)):
            self._reject_dask(name, value)
        y = plain_labels(y)
        columns = column_classes(y) if is_distribution(y) else None
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            multi_output=columns is not None,
        )
        targets = self._encode(y, columns, X.dtype)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        weight = self._weights(targets, sample_weight)
        layout = self._layout(X.shape[1], targets)
        return Problem(X, y, sample_weight, targets, weight, layout)

    def _encode(self, y: Any, columns: np.ndarray | None, dtype: np.dtype) -> Targets:
        """Targets from labels or, with the names of its columns, from a table."""
        return encode_labels(y) if columns is None else check_distributions(y, columns, dtype)

    def _weights(self, targets: Targets, sample_weight: np.ndarray | None) -> np.ndarray | None:
        """Weight of each sample in the objective."""
        return combined_weights(targets, sample_weight, self.class_weight)

    def _layout(self, n_features: int, targets: Targets) -> Layout:
        """How many parameters there are."""
        return Layout(n_features, len(targets.classes), bool(self.fit_intercept))

    def _prepare(self, problem: Problem) -> FenchelYoung:
        """Learn from the data what the loss needs, and return the loss."""
        return self._fenchel_young()

    def _solver_options(self, C: float) -> dict[str, Any]:
        """The keywords of `minimise` that stem from parameters."""
        return {
            "C": C,
            "l1_ratio": self.l1_ratio,
            "solver": self.solver,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }

    def _start(self, problem: Problem) -> np.ndarray:
        """Parameters to start from: zero, or with `warm_start` those of the last fit.

        A last fit to other classes or features says nothing about this one: start afresh.
        """
        layout = problem.layout
        if self.warm_start and hasattr(self, "coef_"):
            fits = np.array_equal(self.classes_, problem.targets.classes)
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
        X = self._checked_rows(X)
        if not sparse:
            return self._probabilities(X)
        parts = self._by_blocks(lambda rows: nonzeros_to_csr(self._probabilities(rows)), X)
        return sp.vstack(parts, format="csr")

    def _checked_rows(self, X: Any) -> Any:
        """Data to predict for, once the model is fitted."""
        check_is_fitted(self)
        self._reject_dask("X", X)
        return validate_data(self, X, accept_sparse="csr", reset=False)

    def _by_blocks(self, work: Callable[[Any], Any], X: Any) -> list:
        """What ``work`` makes of each part of checked rows, cut so that its scores are few."""
        slices = list(row_slices(0, X.shape[0], rows_per_block(len(self.classes_))))
        parts = [None] * len(slices)

        def run(i: int) -> None:
            parts[i] = work(take_rows(X, slices[i]))

        # The threads of BLAS and ours would take turns in waiting for each other's cores.
        with one_blas_thread() if len(slices) > 1 else nullcontext():
            run_tasks(run, len(slices))
        return parts

    def _probabilities(self, X: Any) -> np.ndarray:
        """Probabilities for checked rows, dense."""
        scores = self._class_scores(X)
        return self._fenchel_young().mapping(scores, out=scores)

    def _class_scores(self, X: Any) -> np.ndarray:
        """One column of scores a class for checked rows; two classes have the scores (0, f)."""
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        scores += self.intercept_
        if scores.shape[1] > 1:
            return scores
        return np.concatenate([np.zeros_like(scores), scores], axis=1)

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
        scores = self._class_scores(self._checked_rows(X))
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
