"""The objective on the way from one point to another, without a product of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsemap_np._kernels import _hessian
from sparsemap_np._threads import run_tasks
from sparsemap_np.linear_model._lanes import Block, Lane
from sparsemap_np.linear_model._objective import LinearObjective, Point


@dataclass(frozen=True)
class _Moving:
    """Rows of a block whose residuals may change on the way."""

    block: Block
    target: np.ndarray
    start: np.ndarray
    change: np.ndarray


class Line:
    """The objective at ``start.w + t * (end.w - start.w)`` for 0 <= t <= 1.

    Scores are linear in t, and those at both ends are known. A row that puts all probability on
    one class at both ends does so in between, so only the others are looked at.

    Parameters
    ----------
    objective : LinearObjective
        The objective.
    start, end : Point
        Its two ends.
    """

    def __init__(self, objective: LinearObjective, start: Point, end: Point) -> None:
        self._objective = objective
        self._start = start
        self._end = end
        self._step = end.w - start.w
        n = objective.layout.n_weights
        V = self._step[:n]
        self._penalty = (
            objective.l2 * float(start.w[:n] @ V),
            objective.l2 * float(V @ V),
        )
        self._moving = [[None] * len(lane.blocks) for lane in objective.lanes]
        self._rest = 0.0
        self._rest = float(start.gradient @ self._step) - self.slope(0.0)

    def slope(self, t: float) -> float:
        """Derivative along the line.

        Parameters
        ----------
        t : float
            Where, from 0 to 1.

        Returns
        -------
        float
            Derivative of the objective with respect to t.
        """
        objective = self._objective
        sums = [0.0] * len(objective.lanes)

        def run(i: int) -> None:
            lane = objective.lanes[i]
            for number in range(len(lane.blocks)):
                moving = self._moving_rows(i, number)
                S = moving.start + t * moving.change
                D = lane.residuals(moving.block, moving.target, S).D
                sums[i] += float(np.vdot(D, moving.change))

        run_tasks(run, len(sums))
        first, second = self._penalty
        return sum(sums) / objective.total_weight + first + t * second + self._rest

    def point(self, t: float) -> Point:
        """Evaluate everything.

        Parameters
        ----------
        t : float
            Where, from 0 to 1.

        Returns
        -------
        Point
            The objective there.
        """
        known = [
            [
                None if a is None or b is None else a + t * (b - a)
                for a, b in zip(*pair, strict=True)
            ]
            for pair in zip(self._start.scores, self._end.scores, strict=True)
        ]
        return self._objective.point(self._start.w + t * self._step, known)

    def _moving_rows(self, i: int, number: int) -> _Moving:
        moving: Any = self._moving[i][number]
        if moving is not None:
            return moving
        lane = self._objective.lanes[i]
        block = lane.blocks[number]
        scores = [p.scores[i][number] for p in (self._start, self._end)]
        kept = all(S is not None for S in scores)
        if not kept:
            scores = [self._scores(lane, block, p) for p in (self._start, self._end)]
        start, end = scores
        moves = np.empty(len(start), np.bool_)
        _hessian.moving_rows(start, end, self._objective.loss.one_hot_gap, moves)
        target = block.target
        weight = None if block.weight is None else block.weight[moves]
        start = start[moves]
        part = Block(None, None, weight)
        moving = _Moving(part, target[moves], start, end[moves] - start)
        if kept:
            self._moving[i][number] = moving
        return moving

    def _scores(self, lane: Lane, block: Block, point: Point) -> np.ndarray:
        W, b = self._objective.layout.split(point.w.astype(self._objective.dtype, copy=False))
        return lane.scores(block, W, b).copy()


def _mixed(start: np.ndarray | None, end: np.ndarray | None, t: float) -> np.ndarray | None:
    return None if start is None or end is None else start + t * (end - start)
