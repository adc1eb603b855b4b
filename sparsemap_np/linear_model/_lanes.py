"""The rows that one thread works through, in blocks: losses, gradients and curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsemap_np.linear_model._curvature import FindSlopes, Slopes, find_slopes
from sparsemap_np.linear_model._layout import Layout
from sparsemap_np.linear_model._losses import FenchelYoung, Residuals
from sparsemap_np.linear_model._products import add_outer, add_sparse_outer, is_sparse, scores

# With at most this share of rows it pays to copy them for a product.
_FEW_ROWS = 0.5


def where_few(rows: np.ndarray, X: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out the rows that add nothing to a product, if that pays.

    Parameters
    ----------
    rows : ndarray of int
        The others.
    X, D : ndarray of shape (n, ...)
        The factors.

    Returns
    -------
    tuple of ndarray
        Both, or copies of some of their rows.
    """
    return (X[rows], D[rows]) if len(rows) <= _FEW_ROWS * len(D) else (X, D)


@dataclass(frozen=True)
class Block:
    """Some rows of the data.

    Attributes
    ----------
    X : ndarray or CSC array of shape (n, n_features)
        Data.
    y : ndarray of shape (n,), or ndarray or CSR array of shape (n, n_classes)
        Targets.
    weight : ndarray of shape (n,) or None
        Weights.
    """

    X: Any
    y: Any
    weight: np.ndarray | None

    @property
    def target(self) -> np.ndarray:
        """Labels or distributions as the kernels take them."""
        return self.y.toarray() if sp.issparse(self.y) else self.y

    def __getitem__(self, rows: slice | np.ndarray) -> Block:
        """Some of the rows of dense data, in this order."""
        weight = None if self.weight is None else self.weight[rows]
        return Block(self.X[rows], self.y[rows], weight)


@dataclass
class Trail:
    """What a lane keeps of a point, so that a solver need not compute it twice.

    Attributes
    ----------
    slopes : list of callable
        What finds the slopes of each block.
    scores : list of (ndarray or None)
        Scores of each block, as far as there is room.
    slopes_room, scores_room : int
        Bytes that may yet be kept.
    """

    slopes_room: int
    scores_room: int
    slopes: list[FindSlopes] = field(default_factory=list)
    scores: list[np.ndarray | None] = field(default_factory=list)


class Lane:
    """Blocks of rows, and room for what one block needs.

    Parameters
    ----------
    loss : FenchelYoung
        The loss.
    layout : Layout
        Size of the problem.
    blocks : list of Block
        The rows.
    dtype : dtype
        Type of the scores.
    """

    def __init__(self, loss: FenchelYoung, layout: Layout, blocks: list[Block], dtype: Any) -> None:
        self._loss = loss
        self._first = layout.n_classes - layout.n_outputs
        self.blocks = blocks
        rows = max(block.X.shape[0] for block in blocks)
        # With two classes the first column of scores stays zero for good.
        self._scores = np.zeros((rows, layout.n_classes), dtype)
        self._residuals = Residuals.empty(rows, layout.n_classes, dtype)

    def add(
        self,
        W: np.ndarray,
        b: np.ndarray | None,
        G: np.ndarray,
        g: np.ndarray,
        trail: Trail | None = None,
        known: list[np.ndarray | None] | None = None,
        watch: Callable[[int, np.ndarray], None] | None = None,
    ) -> float:
        """Sum the losses, and add their gradients.

        Parameters
        ----------
        W, b : ndarray
            Weights and intercepts.
        G, g : ndarray
            Where the gradients are added.
        trail : Trail or None
            What keeps slopes and scores.
        known : list of (ndarray or None), or None
            Scores of the blocks where they are known already.
        watch : callable or None
            ``watch(number, scores)`` is shown the scores of each block.

        Returns
        -------
        float
            The sum of the losses.
        """
        value = 0.0
        for number, block in enumerate(self.blocks):
            S = None if known is None else known[number]
            S = self.scores(block, W, b) if S is None else S
            target = block.target
            result = self.residuals(block, target, S)
            # One loss a row, summed in float64, loses less than a sum in the scores' type.
            value += float(np.sum(result.losses))
            self._add_gradient(block, result, G, g)
            if watch is not None:
                watch(number, S)
            if trail is not None:
                self._keep(trail, S, self._slopes(block, target, result), (block, W, b))
        return value

    def _add_gradient(self, block: Block, result: Residuals, G: np.ndarray, g: np.ndarray) -> None:
        X, D, support = block.X, result.D[:, self._first :], result.support
        by_rows = block.y.ndim == 1 and not sp.issparse(X)
        if by_rows:
            rows = result.live_rows()
            support = support[rows]
        # A label outside the support is one more entry of the residual.
        held = int(support.sum()) + len(support)
        if is_sparse(X, held, len(support) * D.shape[1]):
            add_sparse_outer(X, D, G, g)
        else:
            add_outer(*(where_few(rows, X, D) if by_rows else (X, D)), G, g)

    def scores(self, block: Block, W: np.ndarray, b: np.ndarray | None) -> np.ndarray:
        """Compute the scores of a block, where those of the last one were.

        Parameters
        ----------
        block : Block
            The rows.
        W, b : ndarray
            Weights and intercepts.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Scores of all classes.
        """
        S = self._scores[: block.X.shape[0]]
        scores(block.X, W, b, S[:, self._first :])
        return S

    def residuals(self, block: Block, target: np.ndarray, S: np.ndarray) -> Residuals:
        """Compute the losses and residuals of a block, where those of the last one were.

        Parameters
        ----------
        block : Block
            The rows.
        target : ndarray
            Their targets.
        S : ndarray of shape (n, n_classes)
            Their scores.

        Returns
        -------
        Residuals
            Losses and their gradients.
        """
        result = self._residuals[: len(S)]
        self._loss.residuals(S, target, block.weight, result)
        return result

    def _slopes(self, block: Block, target: np.ndarray, result: Residuals) -> Slopes:
        return find_slopes(self._loss.jacobian, block.X, result.D, target, block.weight)

    def _slopes_again(self, block: Block, W: np.ndarray, b: np.ndarray | None) -> Slopes:
        target = block.target
        return self._slopes(block, target, self.residuals(block, target, self.scores(block, W, b)))

    def _keep(self, trail: Trail, S: np.ndarray, slopes: Slopes, again: tuple[Any, ...]) -> None:
        trail.slopes_room -= slopes.nbytes
        fits = trail.slopes_room >= 0
        trail.slopes.append(partial(_same, slopes) if fits else partial(self._slopes_again, *again))
        trail.scores_room -= S.nbytes
        trail.scores.append(S.copy() if trail.scores_room >= 0 else None)


def _same(slopes: Slopes) -> Slopes:
    return slopes
