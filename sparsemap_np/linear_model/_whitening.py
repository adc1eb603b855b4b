r"""Coordinates in which all weights matter about equally: what L-BFGS needs few iterations in.

Correlated features make the objective a narrow valley. With c the mean curvature of a loss in one
score, its Hessian is near

.. math:: A \otimes I, \quad A = c \, X^\top \mathrm{diag}(w) X / \textstyle\sum_i w_i + \lambda I,

so in coordinates Z with W = T Z and :math:`T T^\top = A^{-1}` it is near the identity. A is one
small matrix for all classes, and made once; which rows and classes a sparse loss curves at is left
to L-BFGS. (Made anew from the support half-way, it took more iterations, not fewer.) With too many
features for a matrix its diagonal serves: on texts, whose features are small beside the intercept's
constant one, it halves the iterations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sparsemap_np._threads import run_tasks
from sparsemap_np.linear_model._lanes import Block
from sparsemap_np.linear_model._layout import Layout
from sparsemap_np.linear_model._objective import LinearObjective

# Making and using A must cost less than the iterations that it saves.
_FEATURES_PER_OUTPUT = 100
_MOST_FEATURES = 2000


class Whitening:
    """A change of variables for the weights and intercepts of a linear model.

    Parameters
    ----------
    factor : ndarray of shape (m, m) or (m,)
        T, or its diagonal, for the features and, if there are intercepts, a last feature of ones.
    """

    def __init__(self, factor: np.ndarray) -> None:
        self._factor = factor

    def weights(self, z: np.ndarray) -> np.ndarray:
        """Parameters of the model.

        Parameters
        ----------
        z : ndarray of shape (n_parameters,)
            New coordinates.

        Returns
        -------
        ndarray of shape (n_parameters,)
            The parameters that they stand for.
        """
        return _times(self._factor, z)

    def gradient(self, g: np.ndarray) -> np.ndarray:
        """Gradient with respect to the new coordinates.

        Parameters
        ----------
        g : ndarray of shape (n_parameters,)
            Gradient with respect to the parameters.

        Returns
        -------
        ndarray of shape (n_parameters,)
            The same slope in other words.
        """
        return _times(self._factor.T, g)

    def lengths(self, X: np.ndarray, constant: bool) -> np.ndarray:
        """Lengths of rows in the new coordinates: a score is the product of row and column there.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Dense data.
        constant : bool
            Whether a feature of ones follows the others.

        Returns
        -------
        ndarray of shape (n,)
            Euclidean lengths, float64.
        """
        T, d = self._factor, X.shape[1]
        images = X @ T[:d] if T.ndim == 2 else X * T[:d]
        if constant and T.ndim == 2:
            images += T[d]
        squares = np.einsum("ij,ij->i", images, images)
        if constant and T.ndim == 1:
            squares += T[d] ** 2
        return np.sqrt(squares)


def _times(factor: np.ndarray, w: np.ndarray) -> np.ndarray:
    w = w.reshape(len(factor), -1)
    return (factor @ w if factor.ndim == 2 else factor[:, None] * w).ravel()


def few_enough(d: int, layout: Layout) -> bool:
    """Tell whether making and using a matrix of d directions costs less than it saves.

    Parameters
    ----------
    d : int
        Features, or directions among them.
    layout : Layout
        Size of the problem.

    Returns
    -------
    bool
        True where they are few beside the classes, and there are any.
    """
    return 0 < d <= min(_FEATURES_PER_OUTPUT * layout.n_outputs, _MOST_FEATURES)


def mean_curvature(layout: Layout) -> float:
    """Curvature of a loss in one score that the coordinates count on.

    Parameters
    ----------
    layout : Layout
        Size of the problem.

    Returns
    -------
    float
        That of the logistic loss where all classes are equal.
    """
    return (1.0 - 1.0 / layout.n_classes) / layout.n_classes


def can_whiten(objective: LinearObjective) -> bool:
    """Tell whether a full matrix T pays.

    Parameters
    ----------
    objective : LinearObjective
        The objective.

    Returns
    -------
    bool
        True where features are few beside the rows and the classes.
    """
    d = objective.layout.n_features
    return few_enough(d, objective.layout) and d * d <= objective.n_values


def whitening(objective: LinearObjective) -> Whitening | None:
    """Find the coordinates for an objective.

    Parameters
    ----------
    objective : LinearObjective
        The objective.

    Returns
    -------
    Whitening or None
        None where the data are too large to be squared.
    """
    full = can_whiten(objective)
    with np.errstate(over="ignore", invalid="ignore"):
        A = _moments(objective, full)
        A *= mean_curvature(objective.layout)
    diagonal = np.einsum("ii->i", A) if full else A
    diagonal[: objective.layout.n_features] += objective.l2
    if not np.isfinite(A).all():
        return None
    diagonal[diagonal <= 0.0] = 1.0  # a feature that is zero, without a penalty
    scale = 1.0 / np.sqrt(diagonal)
    if not full:
        return Whitening(scale)
    try:
        return Whitening(inverse_root(A, scale, np.sqrt(np.finfo(objective.dtype).eps))[0])
    except LinAlgError:
        return Whitening(scale)


def inverse_root(A: np.ndarray, scale: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Find T with T T' the inverse of A.

    Parameters
    ----------
    A : ndarray of shape (m, m)
        Second moments; overwritten.
    scale : ndarray of shape (m,)
        What makes its diagonal one.
    ridge : float
        Added to that diagonal. Directions along which the data hardly vary are taken for as flat as
        this: what is found there is the rounding of the products.

    Returns
    -------
    T : ndarray of shape (m, m)
        Upper triangular.
    lower : ndarray of shape (m, m)
        The inverse of T, transposed, of the scaled A: that of A is ``lower.T / scale``.

    Raises
    ------
    LinAlgError
        If A is not positive definite, even so.
    """
    A *= scale
    A *= scale[:, None]
    np.einsum("ii->i", A)[...] += ridge
    lower = cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    return solve_triangular(lower, np.diag(scale), lower=True, check_finite=False).T, lower


def _moments(objective: LinearObjective, full: bool) -> np.ndarray:
    """Weighted mean of x x', or of its diagonal, with a one appended to x for the intercepts."""
    d = objective.layout.n_features
    m = d + objective.layout.fit_intercept
    sums = [np.zeros((m, m) if full else m) for _ in objective.lanes]
    add = _add_moments if full else _add_squares

    def run(i: int) -> None:
        for block in objective.lanes[i].blocks:
            add(block, sums[i], d)

    run_tasks(run, len(sums))
    A = sum(sums[1:], start=sums[0])
    A /= objective.total_weight
    if m > d:
        if full:
            A[d, :d] = A[:d, d]
        A[(d, d) if full else d] = 1.0
    return A


def _add_moments(block: Block, A: np.ndarray, d: int) -> None:
    X = block.X
    weighted = _weighted(X, block.weight)
    products = weighted.T @ X
    A[:d, :d] += products.toarray() if sp.issparse(X) else products
    if len(A) > d:
        A[:d, d] += np.asarray(weighted.sum(axis=0)).ravel()


def _add_squares(block: Block, A: np.ndarray, d: int) -> None:
    X = block.X
    weighted = _weighted(X, block.weight)
    if sp.issparse(X):
        A[:d] += np.asarray(weighted.multiply(X).sum(axis=0)).ravel()
    else:
        A[:d] += np.einsum("ij,ij->j", weighted, X)


def _weighted(X: Any, weight: np.ndarray | None) -> Any:
    if weight is None:
        return X
    column = weight[:, None].astype(X.dtype)
    return X.multiply(column).tocsc() if sp.issparse(X) else X * column
