r"""The objective in coordinates that suit L-BFGS; see `_whitening`.

On small data, dense or sparse, an iteration costs as much in changes of variables and Python as in
products with the data. There the data themselves are brought to the new coordinates, once: an
evaluation is a product each way with :math:`\tilde X = (X - 1 m^\top) T`, whose features are
uncorrelated, and the penalty a small quadratic form. Fewer rows than features span fewer
directions, outside of which the penalty leaves nothing: T then begins with the rotation to the row
space.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, qr

from sparsemap_np.linear_model._near import NearClasses
from sparsemap_np.linear_model._objective import LinearObjective
from sparsemap_np.linear_model._one_block import OneBlock
from sparsemap_np.linear_model._resting import RestingRows
from sparsemap_np.linear_model._solution import largest
from sparsemap_np.linear_model._whitening import (
    Whitening,
    few_enough,
    inverse_root,
    mean_curvature,
    whitening,
)

# Entries of a copy of the data: 8 MB. With more of them the products take so long that changes of
# variables do not count, and the copy would be what a fit uses most memory for.
_COPIED = 2**20


@dataclass(frozen=True)
class Place:
    """The objective at one point.

    Attributes
    ----------
    z : ndarray of shape (n,)
        The point in the new coordinates.
    value : float
        Objective.
    gradient : ndarray of shape (n,)
        Its gradient with respect to `z`.
    slopes : ndarray of shape (n_parameters,) or None
        Its gradient with respect to the model's parameters, where it is known already.
    """

    z: np.ndarray
    value: float
    gradient: np.ndarray
    slopes: np.ndarray | None


class Coordinates(metaclass=ABCMeta):
    """An objective as a function of other coordinates.

    Attributes
    ----------
    start : ndarray of shape (n,)
        Where to start.
    scale : float
        About the inverse of the curvature there.
    eps : float
        Rounding of the type that the objective is computed in.
    """

    start: np.ndarray
    scale: float
    eps: float

    @abstractmethod
    def place(self, z: np.ndarray) -> Place:
        """Evaluate the objective.

        Parameters
        ----------
        z : ndarray of shape (n,)
            Point.

        Returns
        -------
        Place
            The objective there.
        """

    @abstractmethod
    def weights(self, z: np.ndarray) -> np.ndarray:
        """Parameters of the model.

        Parameters
        ----------
        z : ndarray of shape (n,)
            Point.

        Returns
        -------
        ndarray of shape (n_parameters,)
            What it stands for.
        """

    @abstractmethod
    def slope(self, place: Place) -> float:
        """Largest entry of the gradient with respect to the model's parameters.

        Parameters
        ----------
        place : Place
            Where.

        Returns
        -------
        float
            Never negative.
        """

    def is_flat(self, place: Place, tol: float) -> bool:
        """Tell whether the slope is at most `tol`.

        Parameters
        ----------
        place : Place
            Where.
        tol : float
            Bound.

        Returns
        -------
        bool
            The answer.
        """
        return self.slope(place) <= tol


class ChangedVariables(Coordinates):
    """The data as they are; parameters and gradients change variables at each evaluation.

    Parameters
    ----------
    objective : LinearObjective
        The objective.
    w0 : ndarray of shape (n_parameters,)
        Where to start: the origin.
    change : Whitening or None
        The change of variables.
    """

    def __init__(
        self, objective: LinearObjective, w0: np.ndarray, change: Whitening | None
    ) -> None:
        self._objective = objective
        self._w0 = w0.astype(np.float64)
        self._change = change
        self.start = np.zeros(w0.size)
        self.scale = _first_scale(objective) if change is not None else 1.0
        self.eps = float(np.finfo(objective.dtype).eps)
        self._near = NearClasses(objective, change) if NearClasses.suits(objective) else None

    def place(self, z: np.ndarray) -> Place:
        """Evaluate; see `Coordinates.place`."""
        w = self.weights(z)
        if self._near is None:
            value, g = self._objective.value_and_gradient(w)
        else:
            value, g = self._near.value_and_gradient(z, w)
        return Place(z, value, g if self._change is None else self._change.gradient(g), g)

    def weights(self, z: np.ndarray) -> np.ndarray:
        """Change variables; see `Coordinates.weights`."""
        return self._w0 + (z if self._change is None else self._change.weights(z))

    def slope(self, place: Place) -> float:
        """Look at the known gradient; see `Coordinates.slope`."""
        return largest(place.slopes)


class WhitenedData(Coordinates):
    """The data in the new coordinates.

    Parameters
    ----------
    objective : LinearObjective
        The objective.
    w0 : ndarray of shape (n_parameters,)
        Where to start.

    Raises
    ------
    LinAlgError
        If the data are too large to be squared.
    """

    def __init__(self, objective: LinearObjective, w0: np.ndarray) -> None:
        layout = objective.layout
        k = layout.n_outputs
        X = objective.X.toarray() if objective.is_sparse else objective.X
        X = X.astype(np.float64)
        weight, total = objective.sample_weight, objective.total_weight
        if layout.fit_intercept:
            mean = X.mean(axis=0) if weight is None else (weight @ X) / total
            X -= mean
        else:
            mean = np.zeros(X.shape[1])
        rotation = None
        if X.shape[0] < X.shape[1]:
            rotation, R = qr(X.T, mode="economic", overwrite_a=True, check_finite=False)
            X = np.ascontiguousarray(R.T)
        T, inverse = _root(X, weight, total, mean_curvature(layout), objective.l2)
        r = len(T)
        one = 1.0 / np.sqrt(mean_curvature(layout))
        whitened = np.empty((len(X), r + layout.fit_intercept))
        np.matmul(X, T, out=whitened[:, :r])
        whitened[:, r:] = one
        self._penalty = objective.l2 * (T.T @ T)
        self._n_penalised = r * k
        # Parameters of the model and their gradient from those here, for each output. Those of
        # rotated data stay rotated: to multiply the matrices would cost more than it saves.
        self._out = np.zeros((r + layout.fit_intercept, r + layout.fit_intercept))
        self._back = np.zeros_like(self._out)
        self._out[:r, :r] = T
        self._back[:r, :r] = inverse.T
        if layout.fit_intercept:
            middle = mean if rotation is None else mean @ rotation
            self._out[-1, :r] = -(middle @ T)
            self._out[-1, r] = one
            self._back[:-1, r] = middle / one
            self._back[-1, r] = 1.0 / one
        self._reach = float(np.linalg.norm(self._out)) * np.sqrt(layout.n_parameters)
        self._rotation, self._outside = rotation, None
        if rotation is not None and layout.fit_intercept:
            # The mean of the rows need not be among the directions of the centred ones.
            self._outside = (mean - rotation @ middle)[:, None]
        inner = replace(layout, n_features=whitened.shape[1], fit_intercept=False)
        y = objective.y.toarray() if sp.issparse(objective.y) else objective.y
        losses = LinearObjective(objective.loss, whitened, y, inner, sample_weight=weight)
        self._losses = _evaluator(losses)
        self.start = np.zeros(inner.n_parameters)
        if w0.any():
            Z = self.start.reshape(-1, k)
            W, b = layout.split(w0.astype(np.float64))
            Z[:r] = inverse @ (W if rotation is None else rotation.T @ W)
            if b is not None:
                Z[r] = (b + mean @ W) / one
        self.scale = _first_scale(objective)
        self.eps = float(np.finfo(np.float64).eps)

    def place(self, z: np.ndarray) -> Place:
        """Evaluate; see `Coordinates.place`."""
        value, g = self._losses.value_and_gradient(z)
        n = self._n_penalised
        part = z[:n]
        pull = (self._penalty @ part.reshape(len(self._penalty), -1)).ravel()
        g[:n] += pull
        return Place(z, value + 0.5 * float(part @ pull), g, None)

    def weights(self, z: np.ndarray) -> np.ndarray:
        """Change variables; see `Coordinates.weights`."""
        w = self._out @ z.reshape(len(self._out), -1)
        if self._rotation is not None:
            r = self._rotation.shape[1]
            w = np.concatenate([self._rotation @ w[:r], w[r:]])
        return w.ravel()

    def slope(self, place: Place) -> float:
        """Change variables back; see `Coordinates.slope`."""
        g = self._back @ place.gradient.reshape(len(self._back), -1)
        if self._rotation is None:
            return largest(g)
        r = self._rotation.shape[1]
        slopes = self._rotation @ g[:r]
        if self._outside is not None:
            slopes += self._outside * g[r]
        return max(largest(slopes), largest(g[r:]))

    def is_flat(self, place: Place, tol: float) -> bool:
        """Answer without a product where the gradient is large; see `Coordinates.is_flat`."""
        # |gradient| = |M' slopes| <= |M| * sqrt(n_parameters) * max|slopes|, where M makes the
        # model's parameters from those here.
        length = float(np.sqrt(place.gradient @ place.gradient))
        return length <= self._reach * tol and self.slope(place) <= tol


def _evaluator(losses: LinearObjective) -> LinearObjective | OneBlock | RestingRows:
    """What evaluates the losses of data like these the fastest."""
    if not OneBlock.suits(losses):
        return losses
    gap = losses.loss.one_hot_gap
    labels = losses.y.ndim == 1
    return RestingRows(OneBlock(losses), gap) if labels and np.isfinite(gap) else OneBlock(losses)


def _root(
    X: np.ndarray, weight: np.ndarray | None, total: float, c: float, l2: float
) -> tuple[np.ndarray, np.ndarray]:
    """T with T T' the inverse of c X' diag(weight) X / total + l2, and the inverse of T."""
    with np.errstate(over="ignore", invalid="ignore"):
        A = (X if weight is None else X * weight[:, None]).T @ X
        A *= c / total
    diagonal = np.einsum("ii->i", A)
    diagonal += l2
    if not np.isfinite(A).all():
        raise LinAlgError("the squares of the data overflow")
    diagonal[diagonal <= 0.0] = 1.0  # a feature without variance or penalty
    scale = 1.0 / np.sqrt(diagonal)
    # The penalty may make all directions steep enough. (A ridge where there need be none would set
    # fits of weighted and of repeated rows apart.)
    steep = l2 * float(np.min(scale)) ** 2
    T, lower = inverse_root(A, scale, max(0.0, np.sqrt(np.finfo(np.float64).eps) - steep))
    return T, lower.T / scale


def _first_scale(objective: LinearObjective) -> float:
    """Curvature of the logistic loss where all classes are equal, over that of this loss.

    Slopes are p^(2 - alpha), and p = 1 / k. (Afterwards the supports shrink, and L-BFGS sees it.)
    """
    form = objective.loss.jacobian
    if form is None or form.norm or not np.isfinite(form.alpha):
        return 1.0
    return float(objective.layout.n_classes ** min(0.0, 1.0 - form.alpha))


def is_small(objective: LinearObjective) -> bool:
    """Tell whether the data are to be brought to the new coordinates.

    Parameters
    ----------
    objective : LinearObjective
        The objective.

    Returns
    -------
    bool
        True where a dense copy is small and spans few directions.
    """
    n, d = objective.n_samples, objective.layout.n_features
    return n * d <= _COPIED and few_enough(min(n, d), objective.layout)


def coordinates(objective: LinearObjective, w0: np.ndarray) -> Coordinates:
    """Find the coordinates that suit an objective.

    Parameters
    ----------
    objective : LinearObjective
        The objective.
    w0 : ndarray of shape (n_parameters,)
        Where to start.

    Returns
    -------
    Coordinates
        With its start there, or where the penalty is less and the scores are the same.
    """
    if is_small(objective):
        try:
            return WhitenedData(objective, w0)
        except LinAlgError:
            pass
    return ChangedVariables(objective, w0, whitening(objective))
