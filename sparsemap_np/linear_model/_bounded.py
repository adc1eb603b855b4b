"""L-BFGS-B from SciPy for bounds, taken down to the gradient that the user asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from sparsemap_np.linear_model._solution import ROUNDING, Solution, largest

_EPS = float(np.finfo(np.float64).eps)
_MAX_LINE_SEARCH = 50


@dataclass(frozen=True)
class _Run:
    """What stays the same during a minimisation."""

    report: Any
    tol: float
    lower: np.ndarray


class _Trace:
    """The objective as SciPy calls it: remembers its last point, counts iterations.

    SciPy reports neither gradient nor value with an iteration; the point that it accepts is
    always the last one that it evaluated.
    """

    def __init__(self, problem: Any, w0: np.ndarray, run: _Run) -> None:
        self._problem = problem
        self.run = run
        self.start = w0
        self.n_iter = 0
        self.w = self.gradient = np.empty(0)
        self.value = np.inf

    def evaluate(self, w: np.ndarray) -> None:
        """Go to a point, unless it is where we are."""
        if np.array_equal(self.w, w):
            return
        self.w = w.copy()
        self.value, self.gradient = self._problem.value_and_gradient(w)

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        self.evaluate(w)
        return self.value, self.gradient

    def slope(self) -> float:
        """Largest entry of the gradient, less what points out of the bounds."""
        inside = np.minimum(self.w - self.run.lower, self.gradient)
        return largest(inside)

    def iteration(self, intermediate_result: OptimizeResult) -> None:
        """SciPy's callback; the argument's name selects the newer of its two protocols."""
        self.n_iter += 1
        slope = self.slope()
        if self.run.report.iteration(self.n_iter, self.w, self.value, slope) or (
            slope <= self.run.tol
        ):
            raise StopIteration

    def solution(self, message: str) -> Solution:
        """Where the last evaluation was."""
        return Solution(self.w, self.value, self.slope(), self.n_iter, message)


class _Differences(_Trace):
    """The objective relative to where it starts, taken from gradients alone.

    Near the minimum the decrease of an iteration drowns in the rounding of the objective,
    and a line search on its values fails long before the gradient is small. The trapezoid

        F(w) - F(v) = (F'(v) + F'(w)) . (w - v) / 2 + O(|w - v|^3)

    from the last iterate v keeps its digits. A sufficient decrease of it is the approximate
    Wolfe condition of Hager and Zhang (SIAM J. Optim. 16, 2005, 170-192).
    """

    def __init__(self, earlier: _Trace) -> None:
        super().__init__(earlier._problem, earlier.w, earlier.run)
        self.n_iter = earlier.n_iter
        self.w = earlier.w
        self.value, self.gradient = earlier.value, earlier.gradient
        self._from = (earlier.w, earlier.gradient, 0.0)
        self._difference = 0.0

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        self.evaluate(w)
        start, slope, before = self._from
        self._difference = before + 0.5 * float((slope + self.gradient) @ (self.w - start))
        return self._difference, self.gradient

    def iteration(self, intermediate_result: OptimizeResult) -> None:
        self._from = (self.w, self.gradient, self._difference)
        super().iteration(intermediate_result)


def minimize_bounded(
    problem: Any, w0: np.ndarray, *, tol: float, max_iter: int, report: Any, lower: np.ndarray
) -> Solution:
    """Minimise by L-BFGS-B.

    Parameters
    ----------
    problem : object
        With ``value_and_gradient(w)``, and the ``dtype`` that it computes in.
    w0 : ndarray
        Where to start.
    tol : float
        Largest entry of the projected gradient at which to stop.
    max_iter : int
        Most iterations.
    report : Report
        Told of each iteration.
    lower : ndarray
        Lower bounds.

    Returns
    -------
    Solution
        Where it stopped, for whatever reason.
    """
    trace = _Trace(problem, w0, _Run(report, tol, lower))
    trace.evaluate(trace.start)
    if max_iter == 0:
        return trace.solution("no iteration allowed")
    if trace.slope() <= tol:
        return trace.solution("the gradient is small enough")
    message = _minimize(trace, ftol=ROUNDING * _EPS, max_iter=max_iter)
    first = trace.solution(message)
    if first.slope <= tol or trace.n_iter >= max_iter or report.stopped:
        return first
    # The values have no digits left, but the gradient is not yet what was asked for.
    finer = _Differences(trace)
    message = _minimize(finer, ftol=0.0, max_iter=max_iter - trace.n_iter)
    second = finer.solution(message)
    rounding = ROUNDING * float(np.finfo(problem.dtype).eps)
    risen = second.value > first.value + rounding * max(1.0, abs(first.value))
    if risen or not second.slope < first.slope:
        return replace(first, n_iter=second.n_iter)
    return second


def _minimize(trace: _Trace, *, ftol: float, max_iter: int) -> str:
    result = minimize(
        trace,
        trace.start,
        method="L-BFGS-B",
        jac=True,
        bounds=Bounds(trace.run.lower, np.inf),
        callback=trace.iteration,
        options={
            "maxiter": max_iter,
            "maxfun": max_iter * (_MAX_LINE_SEARCH + 1),
            "maxls": _MAX_LINE_SEARCH,
            "gtol": 0.0,
            "ftol": ftol,
        },
    )
    # After a failed line search SciPy goes back to an earlier point.
    trace.evaluate(result.x)
    return str(result.message)
