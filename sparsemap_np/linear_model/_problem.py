"""A fit's checked data, and its minimisation at one strength of the penalty."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsemap_np._targets import Targets
from sparsemap_np.linear_model._blas import one_blas_thread
from sparsemap_np.linear_model._losses import FenchelYoung
from sparsemap_np.linear_model._objective import Layout, LinearObjective
from sparsemap_np.linear_model._solvers import solve


@dataclass(frozen=True)
class Problem:
    """What a model is fitted to.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Data, float32 or float64.
    y : ndarray or sparse array
        Targets as they were validated: for callbacks, splitters and scorers.
    sample_weight : ndarray of shape (n,) or None
        Weights given to `fit`.
    targets : Targets
        The targets encoded.
    weight : ndarray of shape (n,) or None
        Weights in the objective: those of the samples times those of the classes.
    layout : Layout
        Size of the problem.
    """

    X: Any
    y: Any
    sample_weight: np.ndarray | None
    targets: Targets
    weight: np.ndarray | None
    layout: Layout

    @property
    def total_weight(self) -> float:
        """Sum of the weights in the objective."""
        return float(self.X.shape[0] if self.weight is None else self.weight.sum())

    def rows(self, index: np.ndarray) -> Problem:
        """The same problem on some of its rows.

        Parameters
        ----------
        index : ndarray of int or bool
            Which rows.

        Returns
        -------
        Problem
            With copies of the rows.
        """
        return Problem(
            self.X[index],
            self.y[index],
            None if self.sample_weight is None else self.sample_weight[index],
            Targets(self.targets.classes, self.targets.encoded[index]),
            None if self.weight is None else self.weight[index],
            self.layout,
        )


class Silent:
    """A report to nobody, for the fits within a fit."""

    stopped = False
    listens = False

    def begin(self, w: np.ndarray) -> None:
        """Say nothing.

        Parameters
        ----------
        w : ndarray
            Where the solver starts.
        """

    def iteration(self, n_iter: int, w: np.ndarray, value: float, slope: float) -> bool:
        """Say nothing, and let the solver go on.

        Parameters
        ----------
        n_iter, w, value, slope
            As in `FitReport`.

        Returns
        -------
        bool
            False.
        """
        return False


def minimise(
    problem: Problem,
    loss: FenchelYoung,
    w0: np.ndarray,
    report: Any,
    *,
    C: float,
    l1_ratio: float,
    solver: str,
    tol: float,
    max_iter: int,
) -> tuple[np.ndarray, int]:
    """Fit the parameters to a problem.

    Parameters
    ----------
    problem : Problem
        The data.
    loss : FenchelYoung
        The loss.
    w0 : ndarray of shape (n_parameters,)
        Where to start.
    report : Report
        Told of each iteration.
    C, l1_ratio, solver, tol, max_iter
        As in `FenchelYoungClassifier`.

    Returns
    -------
    w : ndarray of shape (n_parameters,)
        Flat parameters.
    n_iter : int
        Iterations taken.
    """
    penalty = 1.0 / (C * problem.total_weight)
    objective = LinearObjective(
        loss,
        problem.X,
        problem.targets.encoded,
        problem.layout,
        sample_weight=problem.weight,
        l2=(1.0 - l1_ratio) * penalty,
    )
    with nullcontext() if objective.leaves_threads_to_blas else one_blas_thread():
        return solve(
            solver, objective, w0, l1=l1_ratio * penalty, tol=tol, max_iter=max_iter, report=report
        )
