r"""Learning the mapping's alpha by gradient, on data held out from the fit.

A loss cannot tell: each alpha defines another one. What is minimised is Brier's score of the
held-out rows, a function of alpha through the mapping and through the weights that the fit to
the other rows gives for that alpha,

.. math:: B(\alpha) = \textstyle\sum_{i} \lVert p_\alpha(W_\alpha x_i) - y_i \rVert^2 .

The derivative has a term for each. The weights solve :math:`\nabla F(W; \alpha) = 0`, so by the
implicit function theorem

.. math:: \frac{dB}{d\alpha} = \frac{\partial B}{\partial \alpha}
          - v^\top \frac{\partial \nabla F}{\partial \alpha}, \qquad
          \nabla^2 F \, v = \frac{\partial B}{\partial W},

with one linear system, solved by conjugate gradients; both derivatives with respect to alpha
are ``return_dalpha`` of the mapping's vjp, on the held-out and on the training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from sparsemap_np.gradients import entmax_vjp
from sparsemap_np.linear_model._blocks import row_slices, rows_per_block, take_rows
from sparsemap_np.linear_model._losses import fenchel_young
from sparsemap_np.linear_model._objective import Layout
from sparsemap_np.linear_model._problem import Problem, Silent, minimise
from sparsemap_np.mappings import entmax

START = 1.5
_FIRST_STEP = 0.25
_CLOSE = 0.01
_FLAT = 1e-7
_MOST_POINTS = 20
_CG_TOL = 1e-6
_CG_MOST = 200


class AlphaPath(NamedTuple):
    """Where the search for alpha has been.

    Attributes
    ----------
    alphas : ndarray of shape (n_points,)
        In the order of the search.
    scores : ndarray of shape (n_points,)
        Brier's score of the held-out rows.
    slopes : ndarray of shape (n_points,)
        Its derivative.
    """

    alphas: np.ndarray
    scores: np.ndarray
    slopes: np.ndarray

    @property
    def best(self) -> float:
        """The alpha with the best score, the first of equals."""
        return float(self.alphas[np.argmin(self.scores)])


def check_alpha_bounds(bounds: Any) -> tuple[float, float]:
    """Read the bounds of alpha.

    Parameters
    ----------
    bounds : array-like
        Anything.

    Returns
    -------
    low, high : float
        The bounds.

    Raises
    ------
    ValueError
        Unless these are two numbers, 0 < low < high < infinity.
    """
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not 0 < low < high < np.inf:
        raise ValueError(
            f"alpha_bounds must be two numbers with 0 < low < high < inf, got {bounds!r}"
        )
    return low, high


def learn_alpha(
    problem: Problem,
    bounds: tuple[float, float],
    fraction: float,
    random_state: Any,
    options: dict[str, Any],
) -> AlphaPath:
    """Search the alpha whose fit predicts the held-out rows best.

    Parameters
    ----------
    problem : Problem
        The data.
    bounds : tuple of two floats
        Least and largest alpha.
    fraction : float
        Share of the rows to hold out.
    random_state : int, RandomState instance or None
        Decides which.
    options : dict
        The keywords of `minimise`.

    Returns
    -------
    AlphaPath
        All points that were looked at: a local minimum within the bounds is among them.
    """
    held_rows, train_rows = hold_out(problem, fraction, random_state)
    held, train = problem.rows(held_rows), problem.rows(train_rows)
    l2 = (1.0 - options["l1_ratio"]) / (options["C"] * train.total_weight)
    w = np.zeros(problem.layout.n_parameters)

    def evaluate(alpha: float) -> tuple[float, float]:
        nonlocal w
        with warnings.catch_warnings():
            # The last fit, of which the user hears, has the same tolerance.
            warnings.simplefilter("ignore", ConvergenceWarning)
            w, _ = minimise(train, fenchel_young("entmax", alpha), w, Silent(), **options)
        return held_out_score(train, held, w, alpha, l2)

    return search(evaluate, bounds)


def search(
    evaluate: Callable[[float], tuple[float, float]], bounds: tuple[float, float]
) -> AlphaPath:
    """Follow the derivative to where it changes sign, or to a bound.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(alpha)`` gives a score and its derivative.
    bounds : tuple of two floats
        Where to stay.

    Returns
    -------
    AlphaPath
        The points.
    """
    low, high = bounds
    points: list[tuple[float, float, float]] = []

    def look(alpha: float) -> float:
        score, slope = evaluate(alpha)
        points.append((alpha, score, slope))
        return slope

    alpha = float(np.clip(START, low, high))
    slope = look(alpha)
    step = -np.sign(slope) * _FIRST_STEP
    rising = falling = None  # ends of a bracket: alpha and slope
    while abs(slope) > _FLAT and len(points) < _MOST_POINTS:
        if slope > 0:
            rising = (alpha, slope)
        else:
            falling = (alpha, slope)
        if rising is None or falling is None:
            ahead = float(np.clip(alpha + step, low, high))
            if ahead == alpha:
                break
            step *= 2
        else:
            width = rising[0] - falling[0]
            if abs(width) <= _CLOSE:
                break
            # Where the chord crosses zero, but well inside.
            share = -falling[1] / (rising[1] - falling[1])
            ahead = falling[0] + width * float(np.clip(share, 0.1, 0.9))
        alpha = ahead
        slope = look(alpha)
    return AlphaPath(*(np.array(column) for column in zip(*points, strict=True)))


def hold_out(problem: Problem, fraction: float, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Choose rows to hold out: some of each class, and equal rows always together.

    That makes weights equal repetition, and keeps copies of a row from being on both sides.

    Parameters
    ----------
    problem : Problem
        The data.
    fraction : float
        Share of the different rows.
    random_state : int, RandomState instance or None
        Decides which.

    Returns
    -------
    held, train : ndarray of bool, shape (n,)
        Masks; rows without weight are in neither.

    Raises
    ------
    ValueError
        If no class has two different rows.
    """
    kept = np.ones(problem.X.shape[0], bool) if problem.weight is None else problem.weight > 0
    encoded = problem.targets.encoded
    labels = encoded if encoded.ndim == 1 else np.zeros(len(kept))
    keys = [labels, _fingerprint(problem.X)]
    if encoded.ndim == 2:
        keys.append(_fingerprint(encoded))
    different, member = np.unique(np.stack(keys, axis=1)[kept], axis=0, return_inverse=True)
    rng = check_random_state(random_state)
    held = np.zeros(len(different), bool)
    sizes = {}
    for label in np.unique(different[:, 0]):
        own = rng.permutation(np.flatnonzero(different[:, 0] == label))
        sizes[label] = own
        held[own[: min(round(fraction * len(own)), len(own) - 1)]] = True
    if not held.any():
        largest = max(sizes.values(), key=len)
        if len(largest) < 2:
            raise ValueError(
                "alpha='learn' needs at least two different samples of one class, one of them to "
                f"be held out; there are {len(different)} samples, all of different classes."
            )
        held[largest[0]] = True
    masks = []
    for chosen in (held, ~held):
        mask = kept.copy()
        mask[kept] = chosen[member.ravel()]
        masks.append(mask)
    return masks[0], masks[1]


def _fingerprint(A: Any) -> np.ndarray:
    """A number for each row; equal rows have equal numbers, to the bit."""
    direction = np.random.default_rng(0).normal(size=A.shape[1])
    if sp.issparse(A):
        return A.astype(np.float64) @ direction
    marks = np.empty(A.shape[0])
    for at in row_slices(0, A.shape[0], rows_per_block(A.shape[1])):
        # Not a matrix product, in which the place of a row may decide its rounding.
        marks[at] = (A[at] * direction).sum(axis=1)
    return marks


class _Block(NamedTuple):
    """Some rows with what is known of them."""

    X: Any
    y: Any
    weight: np.ndarray
    P: np.ndarray


def _blocks(problem: Problem, w: np.ndarray, alpha: float) -> Iterator[_Block]:
    """Rows with their probabilities, a block at a time, the weights summing to one."""
    total = problem.total_weight
    n = problem.X.shape[0]
    for at in row_slices(0, n, rows_per_block(problem.layout.n_classes)):
        X = take_rows(problem.X, at)
        weight = np.full(X.shape[0], 1.0) if problem.weight is None else problem.weight[at]
        scores = _scores(X, problem.layout, w)
        yield _Block(X, problem.targets.encoded[at], weight[:, None] / total, entmax(scores, alpha))


def _scores(X: Any, layout: Layout, w: np.ndarray) -> np.ndarray:
    """Scores of all classes, for parameters or for a direction in their space."""
    W, b = layout.split(w)
    scores = safe_sparse_dot(X, W, dense_output=True)
    if b is not None:
        scores = scores + b
    if scores.shape[1] == layout.n_classes:
        return scores
    return np.concatenate([np.zeros_like(scores), scores], axis=1)


def _add_to_gradient(gradient: np.ndarray, layout: Layout, X: Any, D: np.ndarray) -> None:
    """Add the derivative that belongs to the derivative D of the scores."""
    G, g = layout.split(gradient)
    D = D[:, layout.n_classes - layout.n_outputs :]
    G += safe_sparse_dot(X.T, D, dense_output=True)
    if g is not None:
        g += D.sum(axis=0)


def difference(P: np.ndarray, y: Any) -> np.ndarray:
    """Prediction minus target.

    Parameters
    ----------
    P : ndarray of shape (n, n_classes)
        Probabilities.
    y : ndarray or CSR array
        Indices of classes, or distributions.

    Returns
    -------
    ndarray of shape (n, n_classes)
        A new array.
    """
    if y.ndim == 2:
        return P - (y.toarray() if sp.issparse(y) else y)
    D = P.copy()
    D[np.arange(len(y)), y] -= 1
    return D


def held_out_score(
    train: Problem, held: Problem, w: np.ndarray, alpha: float, l2: float
) -> tuple[float, float]:
    """Brier's score of the held-out rows and its derivative along the fits.

    Parameters
    ----------
    train, held : Problem
        Rows that were fitted, and the others.
    w : ndarray of shape (n_parameters,)
        The fit, converged.
    alpha : float
        The alpha of the fit.
    l2 : float
        Strength of the squared penalty in the fit.

    Returns
    -------
    score : float
        Mean squared distance.
    slope : float
        Its derivative with respect to alpha, the weights following the fit.
    """
    layout = train.layout
    score = slope = 0.0
    gradient = np.zeros_like(w)
    for block in _blocks(held, w, alpha):
        D = difference(block.P, block.y)
        score += float(np.sum(block.weight * D**2, dtype=np.float64))
        dP = (2 * block.weight * D).astype(block.P.dtype)
        dX, dalpha = entmax_vjp(dP, block.P, alpha, return_dalpha=True)
        slope += float(dalpha.sum(dtype=np.float64))
        _add_to_gradient(gradient, layout, block.X, dX)

    # Weights that an L1 penalty holds at zero stay there for a small change of alpha.
    free = np.ones(w.size, bool)
    free[: layout.n_weights] = w[: layout.n_weights] != 0

    def curvature(v: np.ndarray) -> np.ndarray:
        v = np.where(free, v.ravel(), 0.0)
        product = np.zeros_like(v)
        product[: layout.n_weights] = l2 * v[: layout.n_weights]
        for block in _blocks(train, w, alpha):
            U = (block.weight * _scores(block.X, layout, v)).astype(block.P.dtype)
            _add_to_gradient(product, layout, block.X, entmax_vjp(U, block.P, alpha))
        return np.where(free, product, 0.0)

    H = LinearOperator((w.size, w.size), matvec=curvature, dtype=np.float64)
    v, _ = cg(H, np.where(free, gradient, 0.0), rtol=_CG_TOL, maxiter=_CG_MOST)
    for block in _blocks(train, w, alpha):
        U = (block.weight * _scores(block.X, layout, v)).astype(block.P.dtype)
        _, dalpha = entmax_vjp(U, block.P, alpha, return_dalpha=True)
        slope -= float(dalpha.sum(dtype=np.float64))
    return score, slope
