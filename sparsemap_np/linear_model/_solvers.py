"""The solvers, what each can do, and how one is run.

A solver is a function ``(problem, w0, tol, max_iter, report) -> Solution``. It is registered
in `SOLVERS` with what it can do, so that a request it cannot serve fails early and by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsemap_np.linear_model._bounded import minimize_bounded
from sparsemap_np.linear_model._coordinates import is_small
from sparsemap_np.linear_model._lbfgs import minimize_lbfgs
from sparsemap_np.linear_model._newton import minimize_newton
from sparsemap_np.linear_model._objective import LinearObjective
from sparsemap_np.linear_model._row_space import has_row_space, minimize_in_row_space
from sparsemap_np.linear_model._solution import Solution
from sparsemap_np.linear_model._whitening import can_whiten


class Report(Protocol):
    """What a solver calls after each iteration, if it listens; see `FitReport`."""

    stopped: bool
    listens: bool

    def begin(self, w: np.ndarray) -> None:
        """Announce the start."""

    def iteration(self, n_iter: int, w: np.ndarray, value: float, slope: float) -> bool:
        """Announce an iteration; true asks to stop."""


@dataclass(frozen=True)
class Solver:
    """A solver and its abilities.

    Attributes
    ----------
    minimize : callable
        The function.
    minimize_bounded : callable or None
        The same within bounds, which the L1 penalty needs.
    """

    minimize: Callable[..., Solution]
    minimize_bounded: Callable[..., Solution] | None


def _minimize_lbfgs(problem: LinearObjective, w0: np.ndarray, **options: Any) -> Solution:
    """L-BFGS on the weights or, where rows are fewer than features, on their coefficients."""
    on_rows = has_row_space(problem) and not is_small(problem)
    return (minimize_in_row_space if on_rows else minimize_lbfgs)(problem, w0, **options)


SOLVERS = {
    "lbfgs": Solver(_minimize_lbfgs, minimize_bounded),
    "newton": Solver(minimize_newton, None),
}

AUTO = "auto"
"""The solver's name that leaves the choice to `choose`."""


def choose(objective: LinearObjective, l1: float) -> str:
    """Choose the solver that is expected to be the fastest.

    Whitened, L-BFGS takes some twenty iterations, each of them one pass over the data, and nothing
    that was measured is faster (`benchmarks/fit.py`), nor than L-BFGS on the coefficients of rows
    where sparse rows are fewer than features. Other sparse data with too many features to be
    whitened are where Newton's steps, which need a Jacobian and a smooth penalty, take fewer
    passes.

    Parameters
    ----------
    objective : LinearObjective
        The smooth part.
    l1 : float
        Strength of the L1 penalty.

    Returns
    -------
    str
        A key of `SOLVERS`.
    """
    smooth = l1 == 0 and objective.loss.jacobian is not None
    suits = can_whiten(objective) or has_row_space(objective) or not objective.is_sparse
    return "newton" if smooth and not suits else "lbfgs"


class SplitPenalty:
    r"""An L1 penalty made smooth: W = P - Q with P, Q >= 0, penalised by their sum.

    At a minimum no entry of P and Q is positive in both, so the sum is the L1 norm, and a
    weight whose P and Q rest on their bounds is exactly zero.

    Parameters
    ----------
    objective : LinearObjective
        The smooth part.
    l1 : float
        Strength of the penalty.
    """

    def __init__(self, objective: LinearObjective, l1: float) -> None:
        self._objective = objective
        self.dtype = objective.dtype
        self._l1 = l1
        self._n = objective.layout.n_weights
        self.lower = np.full(self._n + objective.layout.n_parameters, -np.inf)
        self.lower[: 2 * self._n] = 0.0

    def split(self, w: np.ndarray) -> np.ndarray:
        """Parameters of this problem from those of the model.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.

        Returns
        -------
        ndarray of shape (n_weights + n_parameters,)
            P, Q and the intercepts.
        """
        n = self._n
        return np.concatenate([np.maximum(w[:n], 0), np.maximum(-w[:n], 0), w[n:]])

    def join(self, z: np.ndarray) -> np.ndarray:
        """Parameters of the model from those of this problem.

        Parameters
        ----------
        z : ndarray of shape (n_weights + n_parameters,)
            P, Q and the intercepts.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Flat parameters.
        """
        n = self._n
        return np.concatenate([z[:n] - z[n : 2 * n], z[2 * n :]])

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate the penalised objective.

        Parameters
        ----------
        z : ndarray of shape (n_weights + n_parameters,)
            P, Q and the intercepts.

        Returns
        -------
        value : float
            Objective.
        gradient : ndarray
            Its gradient.
        """
        n = self._n
        value, g = self._objective.value_and_gradient(self.join(z))
        value += self._l1 * float(z[: 2 * n].sum())
        return value, np.concatenate([g[:n] + self._l1, self._l1 - g[:n], g[n:]])


class _JoinedReport:
    """Passes a split problem's iterations on as parameters of the model."""

    def __init__(self, report: Report, split: SplitPenalty) -> None:
        self._report = report
        self._join = split.join

    @property
    def stopped(self) -> bool:
        return self._report.stopped

    def iteration(self, n_iter: int, w: np.ndarray, value: float, slope: float) -> bool:
        return self._report.iteration(n_iter, self._join(w), value, slope)


def solve(
    name: str,
    objective: LinearObjective,
    w0: np.ndarray,
    *,
    l1: float,
    tol: float,
    max_iter: int,
    report: Any,
) -> tuple[np.ndarray, int]:
    """Minimise the objective plus an L1 penalty on its weights.

    Parameters
    ----------
    name : str
        A key of `SOLVERS`, or `AUTO`.
    objective : LinearObjective
        The smooth part.
    w0 : ndarray of shape (n_parameters,)
        Where to start.
    l1 : float
        Strength of the L1 penalty, zero for none.
    tol : float
        Largest entry of the projected gradient at which to stop.
    max_iter : int
        Most iterations.
    report : Report
        Told of the start and of each iteration.

    Returns
    -------
    w : ndarray of shape (n_parameters,)
        The parameters found.
    n_iter : int
        Iterations taken.

    Raises
    ------
    ValueError
        If the solver cannot handle the penalty.

    Warns
    -----
    ConvergenceWarning
        If the gradient is still above `tol`.
    """
    if name == AUTO:
        name = choose(objective, l1)
    solver = SOLVERS[name]
    report.begin(w0)
    if l1 == 0:
        solution = solver.minimize(objective, w0, tol=tol, max_iter=max_iter, report=report)
        w = solution.w
    elif solver.minimize_bounded is None:
        able = sorted(other for other, entry in SOLVERS.items() if entry.minimize_bounded)
        raise ValueError(f"solver={name!r} supports only l1_ratio=0. Choose one of {able}.")
    else:
        split = SplitPenalty(objective, l1)
        solution = solver.minimize_bounded(
            split,
            split.split(w0),
            tol=tol,
            max_iter=max_iter,
            report=_JoinedReport(report, split),
            lower=split.lower,
        )
        w = split.join(solution.w)
    if not solution.slope <= tol and not report.stopped:
        warnings.warn(
            f"{name} stopped after {solution.n_iter} iterations (max_iter={max_iter}) with "
            f"max|gradient| = {solution.slope:.2g}, above tol={tol:g} ({solution.message}). "
            "Scale the features (sklearn.preprocessing.StandardScaler), increase max_iter, "
            "penalise more (smaller C), or raise tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return w, solution.n_iter
