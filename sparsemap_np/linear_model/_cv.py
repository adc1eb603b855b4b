"""Choosing alpha and the penalty by cross-validation."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import _fit_context
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from sparsemap_np.linear_model._base import BaseFenchelYoungClassifier
from sparsemap_np.linear_model._callbacks import FitReport
from sparsemap_np.linear_model._classifiers import FenchelYoungClassifier
from sparsemap_np.linear_model._losses import FenchelYoung, fenchel_young
from sparsemap_np.linear_model._path import path, penalties, positive_numbers
from sparsemap_np.linear_model._problem import Problem, minimise
from sparsemap_np.metrics import neg_brier_scorer


class FenchelYoungClassifierCV(BaseFenchelYoungClassifier):
    r"""Linear classifier whose sparsity and penalty are chosen by cross-validation.

    For each fold and each alpha the model is fitted along a path of penalties, each fit started
    from the one before, and scored on the rows left out. The alpha and the C with the best mean
    score are then fitted to all the data.

    The losses of different alpha are different functions on different scales: comparing their
    values would say nothing about the models. What is compared is a score of the *probabilities*,
    by default Brier's (the squared distance to the outcome): it is proper, means the same for
    every alpha, and is finite where a probability is zero, which the log-loss is not. Accuracy
    (``scoring="accuracy"``, the default of
    :class:`sklearn.linear_model.LogisticRegressionCV`) does not see the probabilities, and so
    tells the alphas hardly apart.

    Parameters
    ----------
    Cs : int or array-like of shape (n_Cs,), default=10
        Inverse strengths of the penalty; an int stands for so many between 1e-4 and 1e4 on a
        logarithmic scale.
    alphas : array-like of shape (n_alphas,), default=(1.0, 1.5, 2.0)
        The alphas to try: from logistic regression to sparsemax.
    loss : {"entmax", "normmax"}, default="entmax"
        The family of losses that alpha belongs to.
    cv : int, cross-validation generator or iterable, default=None
        As in scikit-learn: an int stands for so many folds, stratified for labels, plain for
        target distributions. None stands for five, or fewer if no class has five samples.
    scoring : str, callable or None, default=None
        None is `sparsemap_np.metrics.neg_brier_scorer`. Strings are scikit-learn's; a callable
        is called as ``scorer(estimator, X, y)``, and larger is better. Target distributions
        need a scorer that takes them, like those of `sparsemap_np.metrics`.
    n_jobs : int or None, default=None
        Paths that run at the same time, in threads. The result does not depend on it.
    refit : bool, default=True
        Whether to fit the best alpha and C to all data, as `FenchelYoungClassifier` does. False
        averages the coefficients of the folds instead.
    l1_ratio, tol, fit_intercept, class_weight, solver, max_iter, verbose, random_state
        See `FenchelYoungClassifier`; `max_iter` counts for each fit. Class weights are computed
        from all data. ``verbose=1`` prints a line for each path.

    Attributes
    ----------
    C_ : float
        The best inverse strength.
    alpha_ : float
        The best alpha; of equal scores the first alpha, and of its Cs the first.
    Cs_ : ndarray of shape (n_Cs,)
        Inverse strengths tried.
    alphas_ : ndarray of shape (n_alphas,)
        Alphas tried.
    scores_ : ndarray of shape (n_folds, n_alphas, n_Cs)
        Score of each fold's rows.
    coefs_paths_ : ndarray of shape (n_folds, n_alphas, n_Cs, n_outputs, n_features (+ 1))
        Coefficients of each fold, the intercept last.
    n_iter_ : ndarray of shape (n_folds, n_alphas, n_Cs)
        Iterations of each fit.
    classes_, coef_, intercept_, n_features_in_, feature_names_in_
        As in `FenchelYoungClassifier`.

    See Also
    --------
    FenchelYoungClassifier : One alpha, one penalty.
    EntmaxClassifier : With ``alpha="learn"`` alpha is found by its gradient.
    fenchel_young_path : The paths alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsemap_np import FenchelYoungClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> clf = FenchelYoungClassifierCV(Cs=[0.01, 0.1, 1.0], max_iter=1000).fit(X, y)
    >>> clf.alpha_, clf.C_
    (2.0, 1.0)
    >>> clf.scores_.mean(axis=0).round(2)  # minus Brier's score, one row an alpha
    array([[-0.38, -0.19, -0.07],
           [-0.33, -0.16, -0.06],
           [-0.31, -0.14, -0.06]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseFenchelYoungClassifier._parameter_constraints,
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "alphas": ["array-like"],
        "loss": [StrOptions({"entmax", "normmax"})],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "n_jobs": [Integral, None],
        "refit": ["boolean"],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }
    for _name in ("C", "warm_start"):
        del _parameter_constraints[_name]
    del _name

    def __init__(
        self,
        Cs: Any = 10,
        alphas: Any = (1.0, 1.5, 2.0),
        *,
        loss: str = "entmax",
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        l1_ratio: float = 0.0,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        max_iter: int = 100,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.alphas = alphas
        self.loss = loss
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state

    def _fenchel_young(self) -> FenchelYoung:
        return fenchel_young(self.loss, self.alpha_)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        """Choose alpha and C, and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels, or target distributions.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, of the fits and of the scores.
        **params : dict
            With metadata routing: what the splitter and the scorer asked for.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            As `FenchelYoungClassifier.fit`; also if the rows of a fold have no weight, or no
            candidate has a score.
        TypeError
            If `X` or `y` is a Dask collection.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` iterations do not reach `tol` for one of the fits.
        """
        _raise_for_params(params, self, "fit")
        Cs, alphas = penalties(self.Cs), positive_numbers(self.alphas)
        if alphas is None:
            raise ValueError(f"alphas must be a list of numbers > 0, got {self.alphas!r}")
        losses = [fenchel_young(self.loss, float(alpha)) for alpha in alphas]
        problem = self._checked(X, y, sample_weight)
        routed = self._routed(sample_weight, params)
        soft = problem.targets.encoded.ndim == 2
        cv = check_cv(self._cv(problem), None if soft else problem.y, classifier=not soft)
        folds = list(cv.split(problem.X, problem.y, **routed.splitter.split))

        scorer, score_params = self._scorer(), routed.scorer.score
        jobs = (
            delayed(self._scored_path)(
                problem, fold, alpha, loss, Cs, scorer, score_params, f"fold {i}/{len(folds)}"
            )
            for i, fold in enumerate(folds, start=1)
            for alpha, loss in zip(alphas, losses, strict=True)
        )
        # The solvers leave the interpreter to others most of the time.
        done = Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs)
        shape = (len(folds), len(alphas), len(Cs))
        W = np.reshape([part.W for part in done], (*shape, -1))
        self.scores_ = np.reshape([part.scores for part in done], shape)
        # A fit that starts at its end has still looked there once.
        self.n_iter_ = np.maximum(np.reshape([part.n_iter for part in done], shape), 1)
        self.Cs_, self.alphas_ = Cs, alphas
        self.coefs_paths_ = _coefficients(problem, W, bool(self.fit_intercept))

        best = self._best()
        self.alpha_, self.C_ = float(alphas[best[0]]), float(Cs[best[1]])
        self._finish(problem, losses[best[0]], W[:, *best])
        return self

    def _cv(self, problem: Problem) -> Any:
        """The parameter `cv`; five folds by default, or as many as the classes allow."""
        if self.cv is not None:
            return self.cv
        encoded = problem.targets.encoded
        most = encoded.shape[0] if encoded.ndim == 2 else int(np.bincount(encoded).max())
        return min(5, max(2, most))

    def _scored_path(
        self,
        problem: Problem,
        fold: tuple[np.ndarray, np.ndarray],
        alpha: float,
        loss: FenchelYoung,
        Cs: np.ndarray,
        scorer: Any,
        score_params: dict[str, Any],
        name: str,
    ) -> _ScoredPath:
        """Fit a path to the rows of a fold, score it on the others."""
        train, test = (problem.rows(rows) for rows in fold)
        for rows, part in (("training", train), ("test", test)):
            if part.total_weight == 0:
                raise ValueError(f"The {rows} rows of {name} have no weight: choose other folds.")
        W, n_iter = path(train, loss, Cs, self._solver_options(None))
        held_out = _check_method_params(problem.X, score_params, indices=fold[1])
        scores = [
            scorer(self._model(problem, w, alpha, C), test.X, test.y, **held_out)
            for w, C in zip(W, Cs, strict=True)
        ]
        if self.verbose:
            i = int(np.argmax(scores))
            print(
                f"[{type(self).__name__}] {name}, alpha={alpha:g}: "
                f"best score {scores[i]:.6g} at C={Cs[i]:g}, {n_iter.sum()} iterations"
            )
        return _ScoredPath(W, scores, n_iter)

    def _model(self, problem: Problem, w: np.ndarray, alpha: float, C: float) -> Any:
        """A fitted classifier of these parameters."""
        model = FenchelYoungClassifier(self.loss, alpha=alpha, C=C)
        model.classes_ = problem.targets.classes
        model.coef_, model.intercept_ = problem.layout.attributes(w, problem.X.dtype)
        model.n_features_in_ = problem.X.shape[1]
        return model

    def _best(self) -> tuple[int, int]:
        """Place of the best mean score; a candidate that a fold could not score comes last."""
        means = self.scores_.mean(axis=0)
        if np.all(np.isnan(means)):
            raise ValueError(f"scoring={self.scoring!r} gave NaN for every candidate")
        best = np.nanargmax(means)
        i, j = np.unravel_index(best, means.shape)
        return int(i), int(j)

    def _finish(self, problem: Problem, loss: FenchelYoung, W: np.ndarray) -> None:
        """Fit the chosen model to all data, or average the folds' parameters W.

        The fit starts from zero, so that it is the fit of a `FenchelYoungClassifier` to the bit.
        """

        def attributes(w: np.ndarray) -> dict[str, Any]:
            coef, intercept = problem.layout.attributes(w, problem.X.dtype)
            return {"classes_": problem.targets.classes, "coef_": coef, "intercept_": intercept}

        report = FitReport(self, problem.X, problem.y, problem.sample_weight, attributes)
        if self.refit:
            start = np.zeros(problem.layout.n_parameters)
            w, _ = minimise(problem, loss, start, report, **self._solver_options(self.C_))
        else:
            w = W.mean(axis=0)
        for name, value in attributes(w).items():
            setattr(self, name, value)
        report.end()

    def score(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> float:
        """Score by `scoring`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels or distributions.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        **params : dict
            With metadata routing: what the scorer asked for.

        Returns
        -------
        float
            By default minus Brier's score.
        """
        _raise_for_params(params, self, "score")
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if _routing_enabled():
            params = process_routing(self, "score", **params).scorer.score
        return self._scorer()(self, X, y, **params)

    def _scorer(self) -> Any:
        return neg_brier_scorer if self.scoring is None else get_scorer(self.scoring)

    def _routed(self, sample_weight: Any, params: dict[str, Any]) -> Bunch:
        """What of the metadata goes to the splitter and what to the scorer."""
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=weights))

    def get_metadata_routing(self) -> MetadataRouter:
        """Tell scikit-learn where metadata go.

        Returns
        -------
        MetadataRouter
            The router.
        """
        to_split = MethodMapping().add(caller="fit", callee="split")
        to_score = MethodMapping().add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=self.cv, method_mapping=to_split)
            .add(scorer=self._scorer(), method_mapping=to_score.add(caller="score", callee="score"))
        )


class _ScoredPath(NamedTuple):
    """What one fold and one alpha give."""

    W: np.ndarray
    scores: list[float]
    n_iter: np.ndarray


def _coefficients(problem: Problem, W: np.ndarray, with_intercept: bool) -> np.ndarray:
    """Flat parameters, last axis, as coefficients with the intercept in the last column."""
    rows = []
    for w in W.reshape(-1, W.shape[-1]):
        coef, intercept = problem.layout.attributes(w, problem.X.dtype)
        rows.append(np.c_[coef, intercept] if with_intercept else coef)
    return np.reshape(rows, (*W.shape[:-1], *rows[0].shape))
