"""Losses of dense data in one block of rows, with as little Python as can be."""

from __future__ import annotations

import numpy as np

from sparsemap_np.linear_model._lanes import Block, where_few
from sparsemap_np.linear_model._objective import LinearObjective


class OneBlock:
    """Losses of data without intercepts and penalty.

    Parameters
    ----------
    losses : LinearObjective
        What is evaluated.

    Attributes
    ----------
    block : Block
        Its rows.
    shape : tuple of int
        Features and outputs.
    scores : ndarray of shape (n, n_classes)
        Those of the last evaluation of all rows, until the next.
    """

    def __init__(self, losses: LinearObjective) -> None:
        self._lane = losses.lanes[0]
        self.block = self._lane.blocks[0]
        self.shape = losses.layout.n_features, losses.layout.n_outputs
        self._first = losses.layout.n_classes - losses.layout.n_outputs
        self._share = 1.0 / losses.total_weight

    @staticmethod
    def suits(losses: LinearObjective) -> bool:
        """Tell whether the rows are one block.

        Parameters
        ----------
        losses : LinearObjective
            What is to be evaluated.

        Returns
        -------
        bool
            True for one lane with one block.
        """
        return len(losses.lanes) == 1 == len(losses.lanes[0].blocks)

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate; see `LinearObjective.value_and_gradient`."""
        return self.over(self.block, z)

    def over(self, block: Block, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate some rows only, divided by the weight of all.

        Parameters
        ----------
        block : Block
            Not more rows than there are in all.
        z : ndarray of shape (n_parameters,)
            Flat weights.

        Returns
        -------
        value : float
            Their losses.
        gradient : ndarray of shape (n_parameters,)
            The gradient.
        """
        S = self.scores = self._lane.scores(block, z.reshape(self.shape), None)
        result = self._lane.residuals(block, block.y, S)
        X, D = block.X, result.D[:, self._first :]
        if block.y.ndim == 1:
            X, D = where_few(result.live_rows(), X, D)
        g = X.T @ D
        g *= self._share
        return float(result.losses.sum()) * self._share, g.ravel()
