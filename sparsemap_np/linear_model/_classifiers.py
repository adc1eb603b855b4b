"""The classifiers: one for any loss, and one for each of the sparse losses by name."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from sparsemap_np.linear_model._alpha import check_alpha_bounds, learn_alpha
from sparsemap_np.linear_model._base import BaseFenchelYoungClassifier
from sparsemap_np.linear_model._losses import LOSS_NAMES, FenchelYoung, fenchel_young
from sparsemap_np.linear_model._problem import Problem


class FenchelYoungClassifier(BaseFenchelYoungClassifier):
    r"""Linear classifier with a Fenchel-Young loss: class probabilities that can be zero.

    It minimises over the weights W (`coef_`) and intercepts b (`intercept_`)

    .. math::

        \frac{\sum_i w_i L(W x_i + b; y_i)}{\sum_i w_i} + \frac{1}{C \sum_i w_i}
        \left(\frac{1 - \rho}{2} \lVert W \rVert_2^2 + \rho \lVert W \rVert_1\right)

    where w are the sample weights times the class weights and rho is `l1_ratio`: scaled
    exactly as in :class:`sklearn.linear_model.LogisticRegression`, whose coefficients
    ``loss="logistic"`` gives. With unit weights it is C times the *sum* of the losses plus the
    penalty. The intercept is not penalised. The loss is that of a mapping from scores to
    probabilities [1]_: sparsemax [2]_, alpha-entmax [3]_, normmax [1]_ or softmax. The first
    three give exact zeros to the classes that a sample is not.

    Parameters
    ----------
    loss : {"sparsemax", "entmax15", "entmax", "normmax", "logistic"}, default="sparsemax"
        The loss, and with it the mapping of `predict_proba`.
    alpha : float, default=1.5
        The mapping's alpha, for "entmax" (alpha > 0; 1 is "logistic", 2 is "sparsemax") and
        "normmax" (alpha >= 1); ignored otherwise. Never the strength of the penalty.
        Losses of different alpha must not be compared with each other.
    C : float, default=1.0
        Inverse strength of the penalty; `np.inf` for none.
    l1_ratio : float, default=0.0
        Share of the L1 penalty, from 0 (L2) to 1 (L1). Weights that an L1 penalty removes are
        exactly zero: see `sparsify`.
    tol : float, default=1e-4
        The fit ends when the largest entry of the (projected) gradient of the objective is at
        most this. It is honoured down to the rounding of the gradient: no other test ends a
        fit without a warning.
    fit_intercept : bool, default=True
        Whether to add an intercept to each score.
    class_weight : dict or "balanced", default=None
        Weights ``{label: weight}``, multiplied into the sample weights. "balanced" gives each
        class the same total. A distribution has the mean weight of its classes.
    solver : {"auto", "lbfgs", "newton"}, default="auto"
        "lbfgs" is L-BFGS in coordinates in which the data are uncorrelated, as far as there are few
        enough features for that (up to 100 a class, 2000 in all, and their square at most the
        number of values): it then takes some twenty or thirty iterations, each of them one pass
        over the data. On sparse data with more features than rows its unknowns are the rows'
        coefficients. An L1 share is handled by SciPy's L-BFGS-B, with bounds on twice as many
        weights, in the given coordinates: scale the features. "newton", a semismooth Newton method
        with conjugate gradients, needs `l1_ratio=0` and a mapping with a derivative (not alpha =
        inf, nor alpha = 1 for "normmax"); it reaches a small `tol` in a handful of iterations.
        "auto" takes "newton" for sparse data with too many features to be whitened, but no more
        than rows, else "lbfgs".
    max_iter : int, default=100
        Most iterations of the solver.
    warm_start : bool, default=False
        Start from the last fit if it had the same classes and features.
    verbose : int, default=0
        1 prints every tenth iteration, 2 each.
    random_state : int, RandomState instance or None, default=None
        For solvers that draw random numbers; none here does.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels. For target distributions the column names of a frame, or
        0 .. n_classes - 1.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, in the data's floating-point type. One row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zeros without `fit_intercept`.
    n_iter_ : ndarray of shape (1,)
        Iterations taken.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when all are strings.

    See Also
    --------
    SparsemaxClassifier : The same with ``loss="sparsemax"``.
    EntmaxClassifier : The same with ``loss="entmax"``.
    NormmaxClassifier : The same with ``loss="normmax"``.
    sklearn.linear_model.LogisticRegression : The same as ``loss="logistic"``.

    References
    ----------
    .. [1] M. Blondel, A. F. T. Martins, V. Niculae, "Learning with Fenchel-Young losses",
       Journal of Machine Learning Research 21 (35), 2020.
    .. [2] A. F. T. Martins, R. F. Astudillo, "From softmax to sparsemax: a sparse model of
       attention and multi-label classification", ICML 2016.
    .. [3] B. Peters, V. Niculae, A. F. T. Martins, "Sparse sequence-to-sequence models",
       ACL 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsemap_np import FenchelYoungClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> clf = FenchelYoungClassifier(loss="sparsemax").fit(X, y)
    >>> clf.predict_proba(X[[0, 60, 70]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 1.  , 0.  ],
           [0.  , 0.47, 0.53]])
    >>> P = clf.predict_proba(X, sparse=True)
    >>> P.shape, P.nnz < 225  # fewer than half of the 450 are above 0
    ((150, 3), True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseFenchelYoungClassifier._parameter_constraints,
        "loss": [StrOptions(set(LOSS_NAMES))],
        "alpha": [Interval(Real, 0, None, closed="right")],
    }

    def __init__(
        self,
        loss: str = "sparsemax",
        *,
        alpha: float = 1.5,
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
        self.loss = loss
        self.alpha = alpha

    def _fenchel_young(self) -> FenchelYoung:
        return fenchel_young(self.loss, self.alpha)


class SparsemaxClassifier(BaseFenchelYoungClassifier):
    """Linear classifier with the sparsemax loss: probabilities with exact zeros.

    The same as ``FenchelYoungClassifier(loss="sparsemax")``.

    Parameters
    ----------
    C, l1_ratio, tol, fit_intercept, class_weight, solver, max_iter, warm_start, verbose, \
random_state
        See `FenchelYoungClassifier`, as for the attributes.

    See Also
    --------
    FenchelYoungClassifier : Any loss.
    sparsemap_np.sparsemax : The mapping.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsemap_np import SparsemaxClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> SparsemaxClassifier().fit(X, y).score(X, y)
    0.98
    """

    def _fenchel_young(self) -> FenchelYoung:
        return fenchel_young("sparsemax", alpha=2.0)


class EntmaxClassifier(BaseFenchelYoungClassifier):
    """Linear classifier with the alpha-entmax loss: from dense to sparse probabilities.

    The same as ``FenchelYoungClassifier(loss="entmax")``.

    Parameters
    ----------
    alpha : float or "learn", default=1.5
        Any alpha > 0: up to 1 (logistic regression) probabilities are dense, above they have
        zeros, and more of them as alpha grows (2 is sparsemax). "learn" finds it, see Notes.
    C, l1_ratio, tol, fit_intercept, class_weight, solver, max_iter, warm_start, verbose, \
random_state
        See `FenchelYoungClassifier`. `random_state` chooses the rows held out to learn alpha.
    alpha_bounds : tuple of two floats, default=(1.0, 2.0)
        Least and largest alpha to learn: from softmax to sparsemax.
    validation_fraction : float, default=0.2
        Share of the rows held out to learn alpha.

    Attributes
    ----------
    alpha_ : float
        The alpha of the model, given or learned.
    alpha_path_ : ndarray of shape (n_points,)
        Only with ``alpha="learn"``: the alphas that were tried, in their order.
    alpha_scores_ : ndarray of shape (n_points,)
        Only with ``alpha="learn"``: Brier's score of the held-out rows for each of them.
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in `FenchelYoungClassifier`.

    See Also
    --------
    FenchelYoungClassifier : Any loss.
    FenchelYoungClassifierCV : Chooses among given alphas by cross-validation.
    sparsemap_np.entmax : The mapping.

    Notes
    -----
    With ``alpha="learn"`` part of the rows is held out. The model is fitted to the others and
    the held-out predictions are scored by Brier's score, in turns with a step of alpha along the
    derivative of that score; the derivative takes into account how the fit changes with alpha.
    The search ends at a local minimum or at a bound, and the best alpha is fitted to all rows.
    Which rows are held out depends on `random_state` and on what the rows contain, not on their
    order or repetition.

    The losses themselves cannot choose alpha: each alpha defines another loss, on another scale.
    Brier's score is proper, means the same for every alpha, and is finite at zeros.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsemap_np import EntmaxClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> EntmaxClassifier(alpha=1.5).fit(X, y).score(X, y)
    0.97
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseFenchelYoungClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="right"), StrOptions({"learn"})],
        "alpha_bounds": ["array-like"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        alpha: Any = 1.5,
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
        alpha_bounds: Any = (1.0, 2.0),
        validation_fraction: float = 0.2,
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
        self.alpha = alpha
        self.alpha_bounds = alpha_bounds
        self.validation_fraction = validation_fraction

    def _fenchel_young(self) -> FenchelYoung:
        return fenchel_young("entmax", getattr(self, "alpha_", self.alpha))

    def _prepare(self, problem: Problem) -> FenchelYoung:
        for name in ("alpha_path_", "alpha_scores_"):
            self.__dict__.pop(name, None)
        if isinstance(self.alpha, str):
            path = learn_alpha(
                problem,
                check_alpha_bounds(self.alpha_bounds),
                self.validation_fraction,
                self.random_state,
                self._solver_options(self.C),
            )
            self.alpha_path_, self.alpha_scores_ = path.alphas, path.scores
            self.alpha_ = path.best
        else:
            self.alpha_ = float(self.alpha)
        return self._fenchel_young()


class NormmaxClassifier(BaseFenchelYoungClassifier):
    """Linear classifier with the alpha-normmax loss: flat probabilities on a few classes.

    The same as ``FenchelYoungClassifier(loss="normmax")``.

    Parameters
    ----------
    alpha : float, default=2.0
        At least 1. Towards infinity the classes that are not zero share the probability
        equally.
    C, l1_ratio, tol, fit_intercept, class_weight, solver, max_iter, warm_start, verbose, \
random_state
        See `FenchelYoungClassifier`, as for the attributes.

    See Also
    --------
    FenchelYoungClassifier : Any loss.
    sparsemap_np.normmax_bisect : The mapping.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsemap_np import NormmaxClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> NormmaxClassifier().fit(X, y).score(X, y)
    0.98
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseFenchelYoungClassifier._parameter_constraints,
        "alpha": [Interval(Real, 1, None, closed="both")],
    }

    def __init__(
        self,
        alpha: float = 2.0,
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
        self.alpha = alpha

    def _fenchel_young(self) -> FenchelYoung:
        return fenchel_young("normmax", self.alpha)
