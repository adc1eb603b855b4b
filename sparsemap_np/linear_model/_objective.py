r"""The objective of a linear model under a Fenchel-Young loss, over row blocks.

.. math::

    F(W, b) = \frac{\sum_i w_i L(W x_i + b; y_i)}{\sum_i w_i}
              + \frac{\lambda}{2} \lVert W \rVert^2

Two classes share one row of weights: their scores are (0, f), because the loss does not
change when a number is added to all the scores of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsemap_np._threads import run_tasks, thread_count
from sparsemap_np.linear_model._blocks import row_slices, rows_per_block, take_rows
from sparsemap_np.linear_model._losses import FenchelYoung

# A thread's share of the work must exceed the cost of handing it over, some 0.1 ms.
_PRODUCTS_PER_LANE = 2**20
# Entries of all the threads' gradients together: 128 MB.
_GRADIENTS = 2**24


@dataclass(frozen=True)
class Layout:
    """How the parameters lie in the flat vector that a solver sees.

    A feature's weights for all classes are adjacent, the intercepts come last: so the
    products ``X @ W`` and ``X.T @ D`` read and write contiguous rows, dense or CSR.

    Attributes
    ----------
    n_features, n_classes : int
        Size of the problem.
    fit_intercept : bool
        Whether a row of intercepts follows the weights.
    """

    n_features: int
    n_classes: int
    fit_intercept: bool

    @property
    def n_outputs(self) -> int:
        """Columns of weights: one for two classes, else one a class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_weights(self) -> int:
        """Penalised parameters: they come first in the flat vector."""
        return self.n_features * self.n_outputs

    @property
    def n_parameters(self) -> int:
        """Length of the flat vector."""
        return self.n_weights + self.fit_intercept * self.n_outputs

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """View the flat vector as weights and intercepts.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters (or a gradient).

        Returns
        -------
        W : ndarray of shape (n_features, n_outputs)
            View of the weights.
        b : ndarray of shape (n_outputs,) or None
            View of the intercepts, None without them.
        """
        W = w[: self.n_weights].reshape(self.n_features, self.n_outputs)
        return W, (w[self.n_weights :] if self.fit_intercept else None)

    def flatten(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Make flat float64 parameters from an estimator's attributes.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features)
            As `coef_`.
        intercept : ndarray of shape (n_outputs,)
            As `intercept_`; left out when no intercept is fitted.

        Returns
        -------
        ndarray of shape (n_parameters,)
            A new vector.
        """
        w = np.empty(self.n_parameters)
        W, b = self.split(w)
        W[...] = coef.T
        if b is not None:
            b[...] = intercept
        return w

    def attributes(self, w: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Make an estimator's attributes from the flat vector.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        dtype : dtype
            Type of the result.

        Returns
        -------
        coef : ndarray of shape (n_outputs, n_features)
            As `coef_`.
        intercept : ndarray of shape (n_outputs,)
            As `intercept_`; zeros when none is fitted.
        """
        W, b = self.split(w)
        coef = np.array(W.T, dtype=dtype, order="C")
        intercept = np.zeros(self.n_outputs) if b is None else b
        return coef, np.array(intercept, dtype=dtype)


class LinearObjective:
    """Value and gradient of the objective; never holds more than a block of scores.

    Parameters
    ----------
    loss : FenchelYoung
        The loss.
    X : ndarray or CSR array of shape (n, n_features)
        Data, float32 or float64: the products are computed in its type, sums in float64.
    y : ndarray or CSR array
        Indices of classes, or distributions.
    layout : Layout
        Size of the problem.
    sample_weight : ndarray of shape (n,) or None
        Non-negative, not all zero.
    l2 : float
        Strength of the squared penalty on the weights.
    """

    def __init__(
        self,
        loss: FenchelYoung,
        X: Any,
        y: Any,
        layout: Layout,
        *,
        sample_weight: np.ndarray | None = None,
        l2: float = 0.0,
    ) -> None:
        self.loss = loss
        self.layout = layout
        self.l2 = l2
        self.dtype = X.dtype
        n_samples = X.shape[0]
        self.total_weight = float(n_samples)
        if sample_weight is not None:
            self.total_weight = float(np.sum(sample_weight, dtype=np.float64))
            sample_weight = np.asarray(sample_weight, dtype=X.dtype)
        rows = rows_per_block(layout.n_classes)
        n_lanes = _lane_count(X, layout)
        bounds = [n_samples * i // n_lanes for i in range(n_lanes + 1)]
        self._lanes = [
            _Lane(
                [
                    (take_rows(X, at), take_rows(y, at), _take(sample_weight, at))
                    for at in row_slices(start, stop, rows)
                ],
                # With two classes the first column of scores stays zero for good.
                np.zeros((min(rows, stop - start), layout.n_classes), dtype=X.dtype),
            )
            for start, stop in pairwise(bounds)
        ]

    @property
    def leaves_threads_to_blas(self) -> bool:
        """Whether the products are too large to have more than one of them at a time."""
        return len(self._lanes) == 1 and len(self._lanes[0].blocks) > 1

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate the objective.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.

        Returns
        -------
        value : float
            F at `w`.
        gradient : ndarray of shape (n_parameters,)
            Its gradient, float64.
        """
        W, b = self.layout.split(w.astype(self.dtype, copy=False))
        sums: list[tuple[float, np.ndarray]] = [(0.0, np.empty(0))] * len(self._lanes)

        def run(i: int) -> None:
            sums[i] = self._sum_over(self._lanes[i], W, b)

        run_tasks(run, len(sums))
        # Always in the same order: a fit repeats to the last bit.
        value, gradient = sums[0]
        for more, G in sums[1:]:
            value += more
            gradient += G
        value /= self.total_weight
        gradient /= self.total_weight
        if self.l2:
            weights = w[: self.layout.n_weights]
            value += 0.5 * self.l2 * float(weights @ weights)
            gradient[: self.layout.n_weights] += self.l2 * weights
        return value, gradient

    def _sum_over(
        self, lane: _Lane, W: np.ndarray, b: np.ndarray | None
    ) -> tuple[float, np.ndarray]:
        """Sum the losses of a lane's rows, and their gradients."""
        value = 0.0
        gradient = np.zeros(self.layout.n_parameters)
        G, g = self.layout.split(gradient)
        first = self.layout.n_classes - self.layout.n_outputs
        for X, y, weight in lane.blocks:
            scores = lane.scores[: X.shape[0]]
            free = scores[:, first:]
            if sp.issparse(X):
                free[...] = X @ W
            else:
                np.matmul(X, W, out=free)
            if b is not None:
                free += b
            # A sum would come in the scores' type; one loss a row loses less in float32.
            losses, D = self.loss.loss(scores, y, sample_weight=weight, return_grad=True)
            D = D[:, first:]
            value += float(np.sum(losses, dtype=np.float64))
            G += X.T @ D
            if g is not None:
                g += D.sum(axis=0, dtype=np.float64)
        return value, gradient


@dataclass(frozen=True)
class _Lane:
    """What one thread works through: blocks of rows, and room for one block's scores."""

    blocks: list[tuple[Any, Any, np.ndarray | None]]
    scores: np.ndarray


def _take(weight: np.ndarray | None, rows: slice) -> np.ndarray | None:
    return None if weight is None else weight[rows]


def _lane_count(X: Any, layout: Layout) -> int:
    """How many threads pay: each needs work for its start, and a gradient of its own."""
    products = (X.nnz if sp.issparse(X) else X.size) * layout.n_outputs
    by_work = products // _PRODUCTS_PER_LANE
    by_memory = _GRADIENTS // max(1, layout.n_parameters)
    return int(max(1, min(thread_count(), X.shape[0], by_work, by_memory)))
