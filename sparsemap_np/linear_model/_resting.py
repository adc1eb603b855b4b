r"""Labelled rows at rest, which a sparse loss needs no look at until the weights have moved far.

A label that leads every other class by the loss's gap holds all probability: its row has neither
loss nor gradient. With scores x'Z, a change of Z changes the lead of a row by at most
:math:`\lVert x \rVert \max_{jl} \lVert \delta z_j - \delta z_l \rVert`, so that a row which leads
by more than that is still at rest: leaving it out is no approximation. Near the optimum of
separable data most rows are so (of the digits five in six), and Fenchel-Young losses with sparse
probabilities are the only smooth ones of which that is true. (Shrinking as in LIBLINEAR guesses
which rows will not matter, and must look at them again in the end.)
"""

from __future__ import annotations

import numpy as np

from sparsemap_np._kernels import _hessian
from sparsemap_np.linear_model._lanes import Block
from sparsemap_np.linear_model._one_block import OneBlock

# What it costs to look at all rows and to copy some, in evaluations of them.
_LOOK = 1.3
# The rows in view must be fewer than this share to be worth a copy.
_WORTH = 0.8
# Evaluations before the next look after one that was in vain, at most.
_MOST_PATIENCE = 8


class RestingRows:
    """Losses of labelled rows, where those at rest are passed over.

    Parameters
    ----------
    losses : OneBlock
        The losses of all the rows.
    gap : float
        The lead of a label that leaves no probability to other classes.
    """

    def __init__(self, losses: OneBlock, gap: float) -> None:
        self._losses = losses
        self._gap = gap
        X = losses.block.X
        self._lengths = np.sqrt(np.einsum("ij,ij->i", X, X))
        self._lead = np.empty(len(X))
        # The rows in view, those first that the least step can wake, and that step of each.
        self._view: Block | None = None
        self._steps = self._lead[:0]
        self._origin: np.ndarray | None = None
        self._evaluations = 0
        self._next_look = self._patience = 1

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate; see `LinearObjective.value_and_gradient`."""
        self._evaluations += 1
        if self._view is not None:
            step = self._step(z)
            if step < self._steps[-1]:
                n = int(np.searchsorted(self._steps, step, side="right"))
                return self._losses.over(self._view[:n], z)
        elif self._evaluations < self._next_look:
            return self._losses.value_and_gradient(z)
        return self._look(z)

    def _step(self, z: np.ndarray) -> float:
        """A bound of the longest difference of two classes' changes since the last look."""
        return _hessian.longest_difference(z, self._origin, self._losses.shape[1])

    def _look(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate all rows, and choose those to keep in view."""
        value, gradient = self._losses.value_and_gradient(z)
        usual = np.inf
        if self._origin is not None:
            usual = self._step(z) / self._evaluations
        self._view = None
        self._origin = z.copy()
        self._evaluations = 0
        # The scores of this evaluation are still there.
        _hessian.leads(self._losses.scores, self._losses.block.y, self._lead)
        steps = np.full(len(self._lead), -1.0)  # the awake
        lead = self._lead - self._gap
        np.divide(lead, self._lengths, out=steps, where=lead > 0.0)
        order = np.argsort(steps)
        steps = steps[order]
        # Steps of the usual length take so many evaluations to wake a row and call for a look.
        n = len(steps)
        cost = np.arange(n) + _LOOK * n * np.minimum(1.0, usual / np.maximum(steps, 1e-300))
        number = int(np.argmin(cost))
        if cost[number] < _WORTH * n:
            self._view = self._losses.block[order[: number + 1]]
            self._steps = steps[: number + 1]
            self._patience = 1
        else:
            self._next_look = self._patience
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
        return value, gradient
