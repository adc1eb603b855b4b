r"""Classes near the top of each labelled row: the only ones that a sparse loss sees for a while.

A class whose score is behind the row's largest by the loss's gap has no probability, and adds
neither to the loss nor to its gradient. With scores x'Z, a change of Z changes the difference of
two scores of a row by at most
:math:`\lVert x \rVert \max_{jl} \lVert \delta z_j - \delta z_l \rVert`. So, while that stays below
the reach that a list was made for, a list of the classes within gap and reach of the largest score
holds all that can have probability, and to pass over the others is no approximation. A row whose
label is alone in its list is at rest (see `_resting`). Of a thousand classes some twenty are near.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsemap_np._arrays import for_kernel
from sparsemap_np._kernels import _hessian, _near
from sparsemap_np._threads import run_tasks, thread_count
from sparsemap_np.linear_model._blocks import SCORES_PER_BLOCK
from sparsemap_np.linear_model._losses import Residuals
from sparsemap_np.linear_model._objective import LinearObjective
from sparsemap_np.linear_model._whitening import Whitening

# With fewer classes a list is no shorter than the pass over all of them is fast.
_LEAST_CLASSES = 256
# Evaluations cost, in those of all classes: one that makes lists; one over lists of no class; and
# one over lists of all classes, which takes the products class by class instead of by BLAS.
_LOOK = 1.3
_LEAST_COST = 0.05
_DISADVANTAGE = 4.0
# What an evaluation over lists may cost, share of looks included, and what they may hold.
_WORTH = 0.8
_MOST_LISTED = 0.25
_MOST_BYTES = 0.25
# Evaluations that lists may be made for, and how much longer than that they should last.
_LIVES = 2.0 ** np.arange(0.0, 9.0, 0.5)
_SPARE = 1.2
# Rows by which the lengths of lists are foreseen.
_SAMPLE = 512
# Evaluations before lists are thought of again where they were not worth it, at most.
_MOST_PATIENCE = 8
# Rows of a tile; features of a stripe, at least.
_TILE = 256
_STRIPE = 32


@dataclass(frozen=True)
class _Tile:
    """Rows with lists of about the same length.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        Which of the data.
    cols : ndarray of shape (n, width)
        Their classes in ascending order, filled up with -1.
    places : ndarray of shape (n,)
        Where in its list a row's label is.
    weight : ndarray of shape (n,) or None
        Weights of the rows.
    """

    rows: np.ndarray
    cols: np.ndarray
    places: np.ndarray
    weight: np.ndarray | None


class _Lists:
    """The lists of all rows, block by block as an evaluation shows their scores.

    Parameters
    ----------
    objective : LinearObjective
        What is evaluated.
    margins : ndarray of shape (n_samples,)
        How far behind the largest score a class may be.
    most : int
        Entries beyond which the lists are given up.
    """

    def __init__(self, objective: LinearObjective, margins: np.ndarray, most: int) -> None:
        self._objective = objective
        self._margins = margins
        self._most = most
        sizes = [[len(block.y) for block in lane.blocks] for lane in objective.lanes]
        ends = np.cumsum([size for lane in sizes for size in lane])
        starts = iter([0, *ends.tolist()])
        self._starts = [[next(starts) for _ in lane] for lane in sizes]
        self._parts: dict[int, np.ndarray] = {}
        self._counts = np.zeros(objective.n_samples, np.int64)
        self._places = np.zeros(objective.n_samples, np.int64)
        self._room = [np.empty(0, np.int32) for _ in sizes]

    @property
    def too_long(self) -> bool:
        """Whether there are too many entries already: then there are in the end."""
        return int(self._counts.sum()) > self._most

    def watch(self, i: int, number: int, S: np.ndarray) -> None:
        """Make the lists of a block; see `LinearObjective.value_and_gradient`."""
        if self.too_long:
            return
        if self._room[i].size <= S.size:
            self._room[i] = np.empty(S.size + 1, np.int32)
        start = self._starts[i][number]
        rows = slice(start, start + len(S))
        size = _near.collect(
            *(S, self._objective.lanes[i].blocks[number].y, self._margins[rows]),
            *(self._room[i], self._counts[rows], self._places[rows]),
        )
        self._parts[start] = self._room[i][:size].copy()

    def tiles(self) -> list[_Tile]:
        """Cut the rows that are not at rest into tiles, those with short lists first."""
        cols = np.concatenate([self._parts[start] for start in sorted(self._parts)])
        self._parts.clear()
        ends = np.cumsum(self._counts)
        order = np.lexsort((self._objective.y, self._counts))
        order = order[np.searchsorted(self._counts[order], 2) :]
        tiles = []
        at = 0
        while at < len(order):
            rows = order[at : at + _TILE]
            longest = int(self._counts[rows[-1]])
            rows = rows[: max(1, SCORES_PER_BLOCK // longest)]
            tiles.append(self._tile(rows, cols, ends))
            at += len(rows)
        return tiles

    def _tile(self, rows: np.ndarray, cols: np.ndarray, ends: np.ndarray) -> _Tile:
        counts = self._counts[rows]
        entries = np.arange(counts[-1])
        held = entries < counts[:, None]
        padded = np.full(held.shape, -1, np.int32)
        padded[held] = cols[((ends[rows] - counts)[:, None] + entries)[held]]
        weight = self._objective.sample_weight
        return _Tile(rows, padded, self._places[rows], None if weight is None else weight[rows])


class NearClasses:
    """An objective over dense data with labels, where classes far from the top are passed over.

    Parameters
    ----------
    objective : LinearObjective
        The objective; see `suits`.
    change : Whitening or None
        Coordinates in which the changes of weights are measured.
    """

    def __init__(self, objective: LinearObjective, change: Whitening | None) -> None:
        layout = objective.layout
        self._objective = objective
        self._X = X = for_kernel(objective.X)
        self._gap = objective.loss.one_hot_gap
        if change is None:
            change = Whitening(np.ones(layout.n_features + layout.fit_intercept))
        self._lengths = change.lengths(X, layout.fit_intercept)
        self._most = int(
            min(
                _MOST_LISTED * objective.n_samples * layout.n_classes,
                _MOST_BYTES * X.nbytes / np.dtype(np.int32).itemsize,
            )
        )
        sample = slice(None, None, -(-objective.n_samples // _SAMPLE))
        self._sample = X[sample].copy()
        self._sample_lengths = self._lengths[sample].copy()
        self._tiles: list[_Tile] | None = None
        self._reach = 0.0
        self._origin: np.ndarray | None = None
        self._evaluations = 0
        self._next_look = self._patience = 1

    @staticmethod
    def suits(objective: LinearObjective) -> bool:
        """Tell whether lists of classes can pay.

        Parameters
        ----------
        objective : LinearObjective
            What is to be evaluated.

        Returns
        -------
        bool
            True for a loss with a margin over dense data with many classes and labels.
        """
        return (
            not objective.is_sparse
            and objective.y.ndim == 1
            and objective.layout.n_classes >= _LEAST_CLASSES
            and bool(objective.X.flags.c_contiguous)
            and bool(np.isfinite(objective.loss.one_hot_gap))
        )

    def value_and_gradient(self, z: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate the objective.

        Parameters
        ----------
        z : ndarray of shape (n_parameters,)
            Point in the new coordinates.
        w : ndarray of shape (n_parameters,)
            The same in the model's parameters.

        Returns
        -------
        value : float
            Objective.
        gradient : ndarray of shape (n_parameters,)
            Its gradient with respect to `w`.
        """
        self._evaluations += 1
        if self._tiles is not None:
            if self._step(z) < self._reach:
                return self._over(self._tiles, w)
        elif self._evaluations < self._next_look:
            return self._objective.value_and_gradient(w)
        return self._look(z, w)

    def _step(self, z: np.ndarray) -> float:
        """A bound of the longest difference of two classes' changes since the last look."""
        return _hessian.longest_difference(z, self._origin, self._objective.layout.n_outputs)

    def _look(self, z: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate all classes, and list those near the top if that will pay."""
        reach = 0.0
        if self._origin is not None:
            reach = self._worthy_reach(w, self._step(z) / self._evaluations)
        self._tiles = None
        self._origin = z.copy()
        self._evaluations = 0
        if reach > 0.0:
            lists = _Lists(self._objective, self._gap + self._lengths * reach, self._most)
            value, gradient = self._objective.value_and_gradient(w, lists.watch)
            if np.isfinite(value) and not lists.too_long:
                self._tiles = lists.tiles()
                self._reach = reach
                self._patience = 1
                return value, gradient
        else:
            value, gradient = self._objective.value_and_gradient(w)
        self._next_look = self._patience
        self._patience = min(2 * self._patience, _MOST_PATIENCE)
        return value, gradient

    def _worthy_reach(self, w: np.ndarray, usual: float) -> float:
        """The reach that makes evaluations cheapest, for steps of the usual length; 0 for none."""
        if not 0.0 < usual < np.inf:
            return 0.0
        W, b = self._objective.layout.split(w.astype(self._objective.dtype, copy=False))
        S = self._sample @ W
        if b is not None:
            S += b
        reaches = _SPARE * usual * _LIVES
        counts = np.zeros(len(reaches), np.int64)
        _near.count(S, self._gap, self._sample_lengths, reaches, counts)
        shares = np.cumsum(counts) / S.size
        near = _LEAST_COST + _DISADVANTAGE * shares
        costs = (_LOOK + _LIVES * near) / (1.0 + _LIVES)
        # Twice the foreseen length is a safe distance from having looked in vain.
        costs[2.0 * shares * self._objective.n_samples * S.shape[1] > self._most] = np.inf
        best = int(np.argmin(costs))
        return float(reaches[best]) if costs[best] < _WORTH else 0.0

    def _over(self, tiles: list[_Tile], w: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate the classes in lists.

        Neither the sums nor their order depend on the number of threads.
        """
        objective = self._objective
        W, b = objective.layout.split(w.astype(objective.dtype, copy=False))
        V = objective.oriented(W)
        b = np.zeros(len(V), V.dtype) if b is None else b
        losses: list[np.ndarray] = [np.zeros(0)] * (len(tiles) + 1)
        none = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, V.dtype)
        entries = [none] * (len(tiles) + 1)

        def evaluate(t: int) -> None:
            tile = tiles[t]
            S = np.empty(tile.cols.shape, V.dtype)
            _near.scores(self._X, tile.rows, tile.cols, V, b, S)
            result = Residuals.empty(*S.shape, S.dtype)
            objective.loss.residuals(S, tile.places, tile.weight, result)
            losses[t] = result.losses
            D = result.D.ravel()
            at = np.flatnonzero(D)
            entries[t] = tile.rows[at // S.shape[1]], tile.cols.ravel()[at], D[at]

        run_tasks(evaluate, len(tiles))
        rows, cols, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        G = np.zeros(V.shape)
        d = V.shape[1]
        stripes = max(1, min(thread_count(), d // _STRIPE))

        def add(i: int) -> None:
            _near.outer(self._X, rows, cols, values, d * i // stripes, d * (i + 1) // stripes, G)

        run_tasks(add, stripes)
        g = np.bincount(cols, weights=values, minlength=len(V))
        return objective.penalised(w, float(np.concatenate(losses).sum()), G, g)
