"""L-BFGS for smooth convex objectives, taken down to the gradient that the user asked for.

SciPy's L-BFGS-B spends, for bounds that these problems do not have, three to ten times as long on
its own vectors: on small data more than the products with the data take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemap_np._kernels import _secant
from sparsemap_np.linear_model._coordinates import Coordinates, Place, coordinates
from sparsemap_np.linear_model._objective import LinearObjective
from sparsemap_np.linear_model._solution import ROUNDING, Solution, largest

# Steps remembered: many where they are short, and as many as SciPy's where they are long.
_MEMORY = 60
_LEAST_MEMORY = 10
_REMEMBERED = 2**15
# A step is long enough where the derivative along it has shrunk to this share, and short enough
# where it has not grown beyond that share uphill.
_CURVED = 0.9
# The least decrease, relative to what the derivative at the start promises.
_DECREASE = 1e-4
_MAX_LINE_SEARCH = 30
_MOST_LONGER = 4.0
# Iterations without a lower value or a smaller gradient before it is taken for rounding.
_PATIENCE = 20
# np.finfo takes as long as a small sum.
_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class _Steps:
    """The last steps and changes of the gradient, and the direction that they tell."""

    def __init__(self, size: int, scale: float) -> None:
        n = int(max(_LEAST_MEMORY, min(_MEMORY, _REMEMBERED // max(1, size))))
        self._steps = np.empty(n * size)
        self._changes = np.empty(n * size)
        self._products = np.empty(n)
        self._shares = np.empty(n)
        self._scale = scale
        self.forget()

    def forget(self) -> None:
        """Forget all steps."""
        self._next = self._held = 0

    @property
    def known(self) -> bool:
        """Whether there is any step to go by."""
        return self._held > 0

    def keep(self, here: Place, ahead: Place) -> None:
        """Keep a step, if it tells a curvature."""
        product, square = _secant.keep(
            *(ahead.z, here.z, ahead.gradient, here.gradient),
            *(self._next, self._steps, self._changes),
        )
        if not product > _EPS * square:
            return
        n = len(self._products)
        self._products[self._next] = product
        self._scale = product / square
        self._next = (self._next + 1) % n
        self._held = min(self._held + 1, n)

    def direction(self, g: np.ndarray) -> tuple[np.ndarray, float]:
        """Minus the inverse Hessian times a gradient, and its product with the gradient."""
        v = np.empty_like(g)
        n = len(self._products)
        slope = _secant.direction(
            *(g, self._steps, self._changes, self._products, (self._next - self._held) % n),
            *(self._held, self._scale, self._shares, v),
        )
        return v, slope


def _ahead(at: Coordinates, here: Place, v: np.ndarray, start: float) -> Place | None:
    """The next iterate along v, by false position on the derivative; None if none is better.

    The objective is convex: the derivative grows along v. Near the minimum the decrease of the
    value drowns in rounding, while the derivatives keep their digits: what they promise is the
    approximate Wolfe condition of Hager and Zhang (SIAM J. Optim. 16, 2005, 170-192).
    """
    if not start < 0.0:
        return None
    doubt = _doubt(at, here.value)
    length = 1.0
    low, below = 0.0, start
    high = above = np.inf
    for _ in range(_MAX_LINE_SEARCH):
        there = at.place(here.z + length * v)
        slope = float(there.gradient @ v)
        change = there.value - here.value
        if not np.isfinite(there.value):
            high, above = length, np.inf
        elif slope < _CURVED * start:
            low, below = length, slope
        elif change <= _DECREASE * length * start or (
            change <= doubt and slope <= -_CURVED * start
        ):
            return there
        else:
            high, above = length, slope
        if high == np.inf:
            # Without a penalty a sparse loss is linear as long as its support does not change.
            rise = slope - start
            length *= min(_MOST_LONGER, max(2.0, -start / rise)) if rise > 0.0 else _MOST_LONGER
        elif not above > 0.0 or above == np.inf:
            length = low + 0.1 * (high - low)
        else:
            share = below / (below - above)
            length = low + min(0.9, max(0.1, share)) * (high - low)
    return None


def _doubt(at: Coordinates, value: float) -> float:
    """How much of a value may be rounding."""
    return ROUNDING * at.eps * max(abs(value), _TINY)


def minimize_lbfgs(
    problem: LinearObjective, w0: np.ndarray, *, tol: float, max_iter: int, report: Any
) -> Solution:
    """Minimise a smooth convex objective.

    Parameters
    ----------
    problem : LinearObjective
        The objective.
    w0 : ndarray of shape (n_parameters,)
        Where to start.
    tol : float
        Largest entry of the gradient at which to stop.
    max_iter : int
        Most iterations.
    report : Report
        Told of each iteration.

    Returns
    -------
    Solution
        Where it stopped, for whatever reason.
    """
    if max_iter == 0:
        value, g = problem.value_and_gradient(w0)
        return Solution(w0, value, largest(g), 0, "no iteration allowed")
    at = coordinates(problem, w0)
    steps = _Steps(at.start.size, at.scale)
    here = best = at.place(at.start)
    least = _square(best)
    message = "the iterations are used up"
    n_iter = idle = 0
    while n_iter < max_iter:
        if at.is_flat(here, tol):
            best, message = here, "the gradient is small enough"
            break
        ahead = _ahead(at, here, *steps.direction(here.gradient))
        if ahead is None:
            if steps.known:
                steps.forget()
                continue
            message = "rounding errors hide every descent"
            break
        steps.keep(here, ahead)
        n_iter += 1
        here = ahead
        doubt = _doubt(at, best.value)
        square = _square(here)
        lower, flatter = here.value < best.value - doubt, square < least
        idle = 0 if lower or flatter else idle + 1
        if lower or (flatter and here.value <= best.value + doubt):
            best, least = here, square
        if report.listens and report.iteration(
            n_iter, at.weights(here.z), here.value, at.slope(here)
        ):
            best, message = here, "stopped by a callback"
            break
        if idle >= _PATIENCE:
            message = "rounding errors hide every descent"
            break
    else:
        if at.is_flat(here, tol):
            best = here
    return Solution(at.weights(best.z), best.value, at.slope(best), n_iter, message)


def _square(place: Place) -> float:
    return float(place.gradient @ place.gradient)
