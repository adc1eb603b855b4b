r"""The objective of a linear model under a Fenchel-Young loss, over row blocks.

.. math::

    F(W, b) = \frac{\sum_i w_i L(W x_i + b; y_i)}{\sum_i w_i}
              + \frac{\lambda}{2} \lVert W \rVert^2

Two classes share one row of weights: their scores are (0, f), because the loss does not
change when a number is added to all the scores of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsemap_np._arrays import for_kernel
from sparsemap_np._threads import run_tasks, thread_count
from sparsemap_np.linear_model._blocks import row_slices, rows_per_block, take_rows
from sparsemap_np.linear_model._curvature import Curvature
from sparsemap_np.linear_model._lanes import Block, Lane, Trail
from sparsemap_np.linear_model._layout import Layout
from sparsemap_np.linear_model._losses import FenchelYoung
from sparsemap_np.linear_model._products import for_kernels

__all__ = ["Layout", "LinearObjective", "Point"]

# A thread's share of the work must exceed the cost of handing it over, some 0.1 ms.
_PRODUCTS_PER_LANE = 2**20
# Entries of all the threads' gradients together: 128 MB.
_GRADIENTS = 2**24
# What a point keeps of slopes, for the products with its Hessian, and of scores, for a line search:
# at most half as much as the data take, or so many bytes if that is more. What does not fit is
# computed anew each time it is needed. A sparse loss has few slopes once a fit is on its way.
_KEPT_BYTES = 2**19

Watch = Callable[[int, int, np.ndarray], None]


@dataclass(frozen=True)
class Point:
    """The objective at one point, up to second order.

    Attributes
    ----------
    w : ndarray of shape (n_parameters,)
        Flat parameters.
    value : float
        Objective.
    gradient : ndarray of shape (n_parameters,)
        Its gradient.
    curvature : Curvature
        Its generalised Hessian.
    scores : list of list of (ndarray or None)
        For each lane and block the scores, where they were kept.
    """

    w: np.ndarray
    value: float
    gradient: np.ndarray
    curvature: Curvature
    scores: list[list[np.ndarray | None]]


class LinearObjective:
    """Value, gradient and curvature of the objective; never holds more than a block of scores.

    Parameters
    ----------
    loss : FenchelYoung
        The loss.
    X : ndarray or CSR array of shape (n, n_features)
        Data, float32 or float64: the products are computed in its type, sums in float64.
    y : ndarray or CSR array
        Indices of classes, or distributions. They are not checked for a loss with kernels.
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
        self.is_sparse = sp.issparse(X)
        values = X.data if self.is_sparse else X
        self.n_values = values.size
        self._data_bytes = values.nbytes
        n_samples = X.shape[0]
        self.total_weight = float(n_samples)
        if sample_weight is not None:
            self.total_weight = float(np.sum(sample_weight, dtype=np.float64))
            sample_weight = for_kernel(np.asarray(sample_weight, dtype=np.float64))
        if y.ndim == 1:
            y = for_kernel(y.astype(np.int64, copy=False))
        elif not sp.issparse(y):
            y = for_kernel(np.ascontiguousarray(y, dtype=X.dtype))
        self.X, self.y, self.sample_weight = X, y, sample_weight
        self.n_samples = n_samples
        rows = rows_per_block(layout.n_classes)
        n_lanes = _lane_count(X, layout)
        bounds = [n_samples * i // n_lanes for i in range(n_lanes + 1)]
        self.lanes = [
            Lane(
                loss,
                layout,
                [
                    Block(for_kernels(take_rows(X, at)), take_rows(y, at), _take(sample_weight, at))
                    for at in row_slices(start, stop, rows)
                ],
                X.dtype,
            )
            for start, stop in pairwise(bounds)
        ]
        self._feature_major = self.is_sparse
        self._kept_rooms: dict[np.dtype, list[tuple[np.ndarray, np.ndarray]]] = {}

    def in_double(self) -> LinearObjective:
        """Copy the objective to float64.

        Returns
        -------
        LinearObjective
            The same function of the parameters, with rounding errors of float64.
        """
        return LinearObjective(
            self.loss,
            self.X.astype(np.float64),
            self.y,
            self.layout,
            sample_weight=self.sample_weight,
            l2=self.l2,
        )

    @property
    def leaves_threads_to_blas(self) -> bool:
        """Whether the products are too large to have more than one of them at a time."""
        return not self._feature_major and len(self.lanes) == 1 and len(self.lanes[0].blocks) > 1

    def oriented(self, W: np.ndarray) -> np.ndarray:
        """Turn weights as the products want them.

        Parameters
        ----------
        W : ndarray of shape (n_features, n_outputs)
            Weights.

        Returns
        -------
        ndarray
            C-contiguous; of shape (n_outputs, n_features) for dense data, as it is for sparse data.
        """
        return W if self._feature_major else np.ascontiguousarray(W.T)

    def sum_over_lanes(
        self, add: Callable[[int, np.ndarray, np.ndarray], None], dtype: Any
    ) -> np.ndarray:
        """Let each thread sum a vector of the parameters' shape, and add the sums.

        Parameters
        ----------
        add : callable
            ``add(i, G, g)`` adds the part of lane i to G, oriented like the weights, and to g,
            for the intercepts.
        dtype : dtype
            Type of G.

        Returns
        -------
        ndarray of shape (n_parameters,)
            The flat sum, divided by the samples' weight. The lanes are always added in the same
            order: a fit repeats to the last bit.
        """
        flat = np.empty(self.layout.n_parameters)
        W, b = self.layout.split(flat)
        sums = self._rooms(np.dtype(dtype))
        if self._feature_major and W.dtype == dtype:
            sums[0] = W, sums[0][1]

        def run(i: int) -> None:
            for part in sums[i]:
                part.fill(0.0)
            add(i, *sums[i])

        run_tasks(run, len(sums))
        G, g = sums[0]
        for more_G, more_g in sums[1:]:
            G += more_G
            g += more_g
        self._take_means(G, g, W, b)
        return flat

    def _take_means(
        self, G: np.ndarray, g: np.ndarray, W: np.ndarray, b: np.ndarray | None
    ) -> None:
        np.multiply(G if self._feature_major else G.T, 1.0 / self.total_weight, out=W)
        if b is not None:
            np.multiply(g, 1.0 / self.total_weight, out=b)

    def _rooms(self, dtype: np.dtype) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each lane's room for a sum, kept from one sum to the next."""
        if dtype not in self._kept_rooms:
            n, k = self.layout.n_features, self.layout.n_outputs
            shape = (n, k) if self._feature_major else (k, n)
            self._kept_rooms[dtype] = [(np.empty(shape, dtype), np.empty(k)) for _ in self.lanes]
        return list(self._kept_rooms[dtype])

    def value_and_gradient(
        self, w: np.ndarray, watch: Watch | None = None
    ) -> tuple[float, np.ndarray]:
        """Evaluate the objective.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        watch : callable or None
            ``watch(i, number, scores)`` is shown the scores of each block of lane i, on the
            thread that computes them.

        Returns
        -------
        value : float
            F at `w`.
        gradient : ndarray of shape (n_parameters,)
            Its gradient, float64.
        """
        return self._evaluate(w, [None] * len(self.lanes), [None] * len(self.lanes), watch)

    def penalised(
        self, w: np.ndarray, total: float, G: np.ndarray, g: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Finish an evaluation of losses that were computed elsewhere.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        total : float
            Sum of the losses.
        G : ndarray
            Sum of their gradients with respect to the weights, oriented like them.
        g : ndarray of shape (n_outputs,)
            The same for the intercepts.

        Returns
        -------
        value, gradient
            As from `value_and_gradient`.
        """
        gradient = np.empty(self.layout.n_parameters)
        self._take_means(G, g, *self.layout.split(gradient))
        return self._penalise(w, total / self.total_weight, gradient)

    def point(self, w: np.ndarray, known: list[Any] | None = None) -> Point:
        """Evaluate the objective and its generalised Hessian; the loss must know its Jacobian.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        known : list of list of (ndarray or None), or None
            Scores at `w` where they are known; see `Point`.

        Returns
        -------
        Point
            With as much of slopes and scores as there is room for.
        """
        n = len(self.lanes)
        room = max(_KEPT_BYTES, self._data_bytes // 2) // n
        trails = [Trail(room, room) for _ in self.lanes]
        value, gradient = self._evaluate(w, trails, known or [None] * n)
        curvature = Curvature(self, [trail.slopes for trail in trails])
        return Point(w, value, gradient, curvature, [trail.scores for trail in trails])

    def _evaluate(
        self, w: np.ndarray, trails: list[Any], known: list[Any], watch: Watch | None = None
    ) -> tuple[float, np.ndarray]:
        W, b = self.layout.split(w.astype(self.dtype, copy=False))
        values = [0.0] * len(self.lanes)

        def add(i: int, G: np.ndarray, g: np.ndarray) -> None:
            shown = None if watch is None else partial(watch, i)
            values[i] = self.lanes[i].add(W, b, G, g, trails[i], known[i], shown)

        gradient = self.sum_over_lanes(add, np.float64)
        return self._penalise(w, sum(values) / self.total_weight, gradient)

    def _penalise(
        self, w: np.ndarray, value: float, gradient: np.ndarray
    ) -> tuple[float, np.ndarray]:
        if self.l2:
            weights = w[: self.layout.n_weights]
            value += 0.5 * self.l2 * float(weights @ weights)
            gradient[: self.layout.n_weights] += self.l2 * weights
        return value, gradient


def _take(weight: np.ndarray | None, rows: slice) -> np.ndarray | None:
    return None if weight is None else weight[rows]


def _lane_count(X: Any, layout: Layout) -> int:
    """How many threads pay: each needs work for its start, and a gradient of its own."""
    products = (X.nnz if sp.issparse(X) else X.size) * layout.n_outputs
    by_work = products // _PRODUCTS_PER_LANE
    by_memory = _GRADIENTS // max(1, layout.n_parameters)
    return int(max(1, min(thread_count(), X.shape[0], by_work, by_memory)))
