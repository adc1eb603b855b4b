r"""Calibration that keeps zeros: a temperature, and if wished an alpha, for given scores.

:class:`sklearn.calibration.CalibratedClassifierCV` ends in a sigmoid or a softmax: every class
gets some probability back. Here scores x become :math:`\operatorname{entmax}_\alpha(x / T)`.
"""

from __future__ import annotations

from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import (
    _check_response_method,
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
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
from sparsemap_np.gradients import entmax_vjp
from sparsemap_np.linear_model._alpha import check_alpha_bounds, difference
from sparsemap_np.linear_model._blocks import nonzeros_to_csr
from sparsemap_np.mappings import entmax

__all__ = ["EntmaxCalibrator"]

_RESPONSES = ["decision_function", "predict_proba"]


class EntmaxCalibrator(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Calibrate scores by a temperature, so that classes may keep a probability of zero.

    The probabilities of scores x are :math:`\operatorname{entmax}_\alpha(x / T)`. T, and alpha if
    it is to be learned, minimise Brier's score on data that the classifier was not fitted to. It
    is proper, finite at zeros, and means the same for every alpha; the losses do not, see
    `FenchelYoungClassifierCV`. The order of the classes stays as it is, and so does accuracy.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Whose scores to calibrate: its `decision_function`, else the logarithm of its
        `predict_proba` (a class with probability zero keeps it). It is fitted to all data, and
        calibrated by scores that `cv` predicts out of fold; a
        :class:`sklearn.frozen.FrozenEstimator` is calibrated as it is, so that the data must be
        new to it. None takes `X` itself for the scores, one column a class (or for two classes
        one column f, which stands for the scores 0 and f).
    alpha : float or "learn", default=1.5
        The mapping's alpha > 0; "learn" fits it together with the temperature.
    alpha_bounds : tuple of two floats, default=(1.0, 2.0)
        Least and largest alpha to learn.
    cv : int, cross-validation generator or iterable, default=None
        Folds for an estimator that is not frozen, as in scikit-learn; None stands for five, or
        fewer if no class has five samples.
    n_jobs : int or None, default=None
        Folds that are fitted at the same time.

    Attributes
    ----------
    temperature_ : float
        T.
    alpha_ : float
        The alpha, given or learned.
    brier_score_ : float
        The score reached on the calibration data.
    estimator_ : classifier or None
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        What the columns of probabilities stand for.
    n_features_in_, feature_names_in_
        Those of the estimator.

    See Also
    --------
    sklearn.calibration.CalibratedClassifierCV : With probabilities that are never zero.
    sparsemap_np.entmax : The mapping.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import LinearSVC
    >>> from sparsemap_np import EntmaxCalibrator
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = EntmaxCalibrator(LinearSVC(random_state=0), alpha=2.0).fit(X, y)
    >>> clf.predict_proba(X[[0, 77]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.55, 0.45]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [
            HasMethods(["fit", "predict_proba"]),
            HasMethods(["fit", "decision_function"]),
            None,
        ],
        "alpha": [Interval(Real, 0, None, closed="right"), StrOptions({"learn"})],
        "alpha_bounds": ["array-like"],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        alpha: Any = 1.5,
        alpha_bounds: Any = (1.0, 2.0),
        cv: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.alpha_bounds = alpha_bounds
        self.cv = cv
        self.n_jobs = n_jobs

    # The estimator's own parameters are validated when it is fitted.
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Any:
        """Fit the estimator, unless it is frozen, and the temperature.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data as the estimator takes them; without one the scores.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels, or target distributions.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, also for the estimator if it takes them.
        **fit_params : dict
            Passed to the estimator's `fit`.

        Returns
        -------
        self : EntmaxCalibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If the scores do not have one column a class, hold NaN, or the weights are negative or
            all zero.
        """
        bounds = check_alpha_bounds(self.alpha_bounds)
        y = plain_labels(y)
        soft = is_distribution(y)
        if not soft:
            y = column_or_1d(y, warn=True)
        if self.estimator is None:
            if fit_params:
                raise TypeError(f"without an estimator fit takes no {sorted(fit_params)}")
            X, y = validate_data(
                self, X, y, dtype=[np.float64, np.float32], multi_output=soft, **_SCORES
            )
            targets = self._targets(y, None)
            self.estimator_ = None
            self.classes_ = targets.classes
            scores = self._one_column_a_class(X)
        else:
            X, y = indexable(X, y)
            scores = self._scores_of_estimator(X, y, soft, sample_weight, fit_params)
            targets = self._targets(y, self.classes_)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, scores, dtype=np.float64)
        weight = combined_weights(targets, sample_weight, None)
        self._fit_temperature(scores, targets, weight, bounds)
        return self

    def _scores_of_estimator(
        self, X: Any, y: Any, soft: bool, sample_weight: Any, fit_params: dict[str, Any]
    ) -> np.ndarray:
        """Fit the estimator; return scores of the data that it had not been fitted to."""
        routed = self._routed(sample_weight, fit_params)
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_ = self.estimator
            self._take_over()
            return self._scores(X)
        estimator = clone(self.estimator)
        response = _check_response_method(estimator, _RESPONSES).__name__
        self.estimator_ = estimator.fit(X, y, **routed.estimator.fit)
        self._take_over()
        targets = self._targets(y, self.classes_)
        cv = check_cv(self._cv(targets), None if soft else y, classifier=not soft)
        predicted = cross_val_predict(
            clone(estimator),
            X,
            y,
            cv=list(cv.split(X, y, **routed.splitter.split)),
            method=response,
            n_jobs=self.n_jobs,
            params=routed.estimator.fit,
        )
        return self._as_scores(response, predicted)

    def _take_over(self) -> None:
        """Describe the data as the fitted estimator does."""
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _cv(self, targets: Targets) -> Any:
        if self.cv is not None:
            return self.cv
        encoded = targets.encoded
        most = encoded.shape[0] if encoded.ndim == 2 else int(np.bincount(encoded).max())
        return min(5, max(2, most))

    def _targets(self, y: Any, classes: np.ndarray | None) -> Targets:
        """Targets encoded; labels among given classes, or whatever they are."""
        if is_distribution(y):
            names = column_classes(y) if classes is None else classes
            if len(names) != np.shape(y)[1]:
                raise ValueError(
                    f"y has {np.shape(y)[1]} columns but the estimator knows {len(names)} classes"
                )
            return check_distributions(y, names, np.dtype(np.float64))
        if classes is None:
            return encode_labels(np.asarray(y))
        y = np.asarray(y)
        order = np.argsort(classes)
        at = order[np.minimum(np.searchsorted(classes, y, sorter=order), len(classes) - 1)]
        unknown = classes[at] != y
        if unknown.any():
            first = y[unknown][:1].tolist()[0]
            raise ValueError(f"y holds {first!r}, a class that the estimator does not know")
        return Targets(classes, at)

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of rows to predict for."""
        if self.estimator_ is None:
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False, **_SCORES)
            return self._one_column_a_class(X)
        response = _check_response_method(self.estimator_, _RESPONSES)
        return self._as_scores(response.__name__, response(X))

    def _as_scores(self, response: str, predicted: Any) -> np.ndarray:
        scores = np.asarray(predicted)
        if response == "predict_proba":
            with np.errstate(divide="ignore"):
                scores = np.log(scores)
        return self._one_column_a_class(scores)

    def _one_column_a_class(self, scores: np.ndarray) -> np.ndarray:
        k = len(self.classes_)
        scores = scores.reshape(len(scores), -1)
        if k == 2 and scores.shape[1] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        if scores.shape[1] != k:
            raise ValueError(
                f"there are {k} classes but {scores.shape[1]} columns of scores: one is needed for "
                "each class"
            )
        if scores.dtype.kind != "f":
            scores = scores.astype(np.float64)
        if np.isnan(scores).any():
            raise ValueError("the scores hold NaN")
        return scores

    def _fit_temperature(
        self,
        scores: np.ndarray,
        targets: Targets,
        weight: np.ndarray | None,
        bounds: tuple[float, float],
    ) -> None:
        """Search T, and alpha, on a grid, then by the gradient."""
        weight = np.ones(len(scores)) if weight is None else weight
        weight = weight[:, None] / weight.sum()
        learn = isinstance(self.alpha, str)
        alphas = np.linspace(*bounds, 3) if learn else [float(self.alpha)]

        def brier(theta: np.ndarray) -> tuple[float, np.ndarray]:
            alpha = theta[1] if learn else alphas[0]
            scaled = scores / scores.dtype.type(np.exp(theta[0]))
            P = entmax(scaled, alpha)
            D = difference(P, targets.encoded)
            value = float(np.sum(weight * D**2, dtype=np.float64))
            dP = (2 * weight * D).astype(P.dtype)
            dX, dalpha = entmax_vjp(dP, P, alpha, return_dalpha=True)
            # Where the gradient is zero the score may be -inf.
            moved = np.multiply(dX, scaled, out=np.zeros_like(dX), where=dX != 0)
            slopes = [-float(moved.sum(dtype=np.float64)), float(dalpha.sum(dtype=np.float64))]
            return value, np.array(slopes[: 1 + learn])

        log_spread = np.log(_spread(scores))
        # From flat to certain: among equals the least certain wins.
        grid = [
            np.array([log_spread + step * np.log(2.0), alpha][: 1 + learn])
            for step in range(6, -13, -1)
            for alpha in alphas
        ]
        start = min(grid, key=lambda theta: brier(theta)[0])
        within = [(grid[-1][0], grid[0][0]), bounds][: 1 + learn]
        found = minimize(
            brier,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=within,
            options={"gtol": 1e-9, "ftol": 1e-15},
        )
        theta = min((start, found.x), key=lambda theta: brier(theta)[0])
        self.brier_score_ = brier(theta)[0]
        self.temperature_ = float(np.exp(theta[0]))
        self.alpha_ = float(theta[1] if learn else alphas[0])

    def predict_proba(self, X: Any, sparse: bool = False) -> Any:
        """Calibrated probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, or scores.
        sparse : bool, default=False
            Return only the non-zeros.

        Returns
        -------
        P : ndarray or csr_array of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        check_is_fitted(self)
        scores = self._scores(X)
        P = entmax(scores / scores.dtype.type(self.temperature_), self.alpha_)
        return nonzeros_to_csr(P) if sparse else P

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, or scores.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.
        """
        check_is_fitted(self)
        return self.classes_[self._scores(X).argmax(axis=1)]

    def _routed(self, sample_weight: Any, fit_params: dict[str, Any]) -> Bunch:
        """What of the metadata goes to the estimator and what to the splitter."""
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
        passed = dict(fit_params)
        takes_weights = "sample_weight" in signature(self.estimator.fit).parameters
        if sample_weight is not None and takes_weights:
            passed["sample_weight"] = sample_weight
        return Bunch(splitter=Bunch(split={}), estimator=Bunch(fit=passed))

    def get_metadata_routing(self) -> MetadataRouter:
        """Tell scikit-learn where metadata go.

        Returns
        -------
        MetadataRouter
            The router.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split")
        )
        if self.estimator is not None:
            to_fit = MethodMapping().add(caller="fit", callee="fit")
            router.add(estimator=self.estimator, method_mapping=to_fit)
        return router

    def __sklearn_tags__(self) -> Any:
        """Take what the estimator takes."""
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


_SCORES = {"ensure_all_finite": False}
"""Scores may be infinite; NaN is looked for by ourselves."""


def _spread(scores: np.ndarray) -> float:
    """Typical distance of the best score from the others, 1 if there is none."""
    finite = np.isfinite(scores)
    top = np.max(scores, axis=1, where=finite, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        gaps = np.where(finite, top[:, None] - scores, 0.0)
    mean = float(gaps.mean(dtype=np.float64))
    return mean if 0 < mean < np.inf else 1.0
