"""Fits along a path of penalties, each started from the one before."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sparsemap_np.linear_model._classifiers import FenchelYoungClassifier
from sparsemap_np.linear_model._losses import FenchelYoung
from sparsemap_np.linear_model._problem import Problem, Silent, minimise


class Path(NamedTuple):
    """What `fenchel_young_path` returns.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
        Inverse strengths of the penalty, in the order they were given.
    coefs : ndarray of shape (n_Cs, n_outputs, n_features)
        `coef_` for each: one row for two classes.
    intercepts : ndarray of shape (n_Cs, n_outputs)
        `intercept_` for each.
    n_iter : ndarray of shape (n_Cs,)
        Iterations taken for each.
    classes : ndarray of shape (n_classes,)
        `classes_`.
    """

    Cs: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    n_iter: np.ndarray
    classes: np.ndarray


def fenchel_young_path(
    X: Any,
    y: Any,
    *,
    loss: str = "sparsemax",
    alpha: float = 1.5,
    Cs: Any = 10,
    l1_ratio: float = 0.0,
    tol: float = 1e-4,
    fit_intercept: bool = True,
    class_weight: Any = None,
    solver: str = "auto",
    max_iter: int = 100,
    sample_weight: Any = None,
) -> Path:
    """Fit a linear model for each of several penalties, from the strongest to the weakest.

    Each fit starts where the last one ended, which costs far less than as many fits from zero.
    The results agree with those of `FenchelYoungClassifier` to the tolerance.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_classes)
        Labels, or target distributions.
    loss, alpha
        The loss and the mapping's alpha, as in `FenchelYoungClassifier`.
    Cs : int or array-like of shape (n_Cs,), default=10
        Inverse strengths of the penalty; an int stands for so many between 1e-4 and 1e4 on a
        logarithmic scale.
    l1_ratio, tol, fit_intercept, class_weight, solver, max_iter
        As in `FenchelYoungClassifier`; `max_iter` counts for each fit.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights.

    Returns
    -------
    Path
        A named tuple ``(Cs, coefs, intercepts, n_iter, classes)``.

    Raises
    ------
    ValueError
        If `Cs` holds anything but positive numbers, and as `FenchelYoungClassifier.fit`.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations do not reach `tol` for one of them.

    See Also
    --------
    FenchelYoungClassifierCV : Chooses a point of such paths by cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsemap_np import fenchel_young_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = fenchel_young_path(StandardScaler().fit_transform(X), y, Cs=[0.01, 0.1, 1.0])
    >>> path.coefs.shape
    (3, 3, 4)
    >>> abs(path.coefs).max(axis=(1, 2)).round(2)
    array([0.15, 0.58, 1.13])
    """
    model = FenchelYoungClassifier(
        loss,
        alpha=alpha,
        l1_ratio=l1_ratio,
        tol=tol,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
        solver=solver,
        max_iter=max_iter,
    )
    model._validate_params()
    Cs = penalties(Cs)
    problem = model._checked(X, y, sample_weight)
    W, n_iter = path(problem, model._fenchel_young(), Cs, options=model._solver_options(None))
    layout, dtype = problem.layout, problem.X.dtype
    coefs, intercepts = zip(*(layout.attributes(w, dtype) for w in W), strict=True)
    return Path(Cs, np.stack(coefs), np.stack(intercepts), n_iter, problem.targets.classes)


def penalties(Cs: Any) -> np.ndarray:
    """Read a grid of inverse strengths.

    Parameters
    ----------
    Cs : int or array-like
        How many, or which.

    Returns
    -------
    ndarray of shape (n_Cs,)
        The grid.

    Raises
    ------
    ValueError
        If these are no positive numbers.
    """
    if isinstance(Cs, Integral) and not isinstance(Cs, bool) and Cs >= 1:
        return np.logspace(-4, 4, int(Cs))
    grid = positive_numbers(Cs)
    if grid is None:
        raise ValueError(f"Cs must be an int >= 1 or a list of numbers > 0, got {Cs!r}")
    return grid


def positive_numbers(values: Any) -> np.ndarray | None:
    """Read a list of numbers above zero, infinity included.

    Parameters
    ----------
    values : array-like
        Anything.

    Returns
    -------
    ndarray of shape (n,) or None
        None if it is anything else.
    """
    try:
        grid = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return grid if grid.ndim == 1 and grid.size and np.all(grid > 0) else None


def path(
    problem: Problem, loss: FenchelYoung, Cs: np.ndarray, options: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a checked problem for each penalty.

    Parameters
    ----------
    problem : Problem
        The data.
    loss : FenchelYoung
        The loss.
    Cs : ndarray of shape (n_Cs,)
        Inverse strengths, in any order.
    options : dict
        The other keywords of `minimise`.

    Returns
    -------
    W : ndarray of shape (n_Cs, n_parameters)
        Flat parameters.
    n_iter : ndarray of shape (n_Cs,)
        Iterations taken.
    """
    w = np.zeros(problem.layout.n_parameters)
    W = np.empty((len(Cs), w.size))
    n_iter = np.empty(len(Cs), dtype=np.int32)
    for i in np.argsort(Cs, kind="stable"):
        w, n_iter[i] = minimise(problem, loss, w, Silent(), **{**options, "C": float(Cs[i])})
        W[i] = w
    return W, n_iter
