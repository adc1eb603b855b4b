r"""A semismooth Newton method for smooth penalties, with conjugate gradients.

The gradient of a sparse loss is piecewise smooth in the scores: that of sparsemax piecewise
linear, so that Newton's method ends after finitely many steps once the supports are right
(Keerthi and DeCoste, "A modified finite Newton method for fast solution of large scale linear
SVMs", JMLR 6, 2005, did it for the squared hinge loss).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemap_np._kernels import _conjugate
from sparsemap_np.linear_model._layout import Layout
from sparsemap_np.linear_model._line import Line
from sparsemap_np.linear_model._objective import LinearObjective, Point
from sparsemap_np.linear_model._solution import ROUNDING, Solution, largest

# The system is solved until its residual is this share of the gradient, or less near the end.
_LOOSE = 0.1
_TIGHT = 1e-2
_MAX_PRODUCTS = 250
# Entries of residuals kept to be orthogonal to: 32 MB.
_RESIDUALS = 2**22
_FEWEST_RESIDUALS = 20
# Least curvature that the preconditioner believes in, relative to the largest.
_FLAT = 1e-10
# A step is long enough where the derivative along it has shrunk to this share.
_CURVED = 0.5
_MAX_LENGTHENINGS = 20
_MAX_PROBES = 20
_EPS = float(np.finfo(np.float64).eps)
# Entries of float32 data of which a copy in float64 is worked with: 8 MB, as for L-BFGS. Where a
# probability leaves zero as a root (normmax and entmax with alpha > 2), it takes the root of the
# scores' rounding: that of float32 hides slopes of 1e-3.
_DOUBLED = 2**20


def minimize_newton(
    problem: LinearObjective, w0: np.ndarray, *, tol: float, max_iter: int, report: Any
) -> Solution:
    """Minimise by Newton steps.

    Parameters
    ----------
    problem : LinearObjective
        With a loss that knows its Jacobian.
    w0 : ndarray of shape (n_parameters,)
        Where to start.
    tol : float
        Largest entry of the gradient at which to stop.
    max_iter : int
        Most steps.
    report : Report
        Told of each step.

    Returns
    -------
    Solution
        Where it stopped, for whatever reason.

    Raises
    ------
    ValueError
        If the loss has no Jacobian to work with.
    """
    if problem.loss.jacobian is None:
        raise ValueError(
            "solver='newton' needs the Jacobian of the mapping, which this loss does not have "
            "(alpha=inf, and alpha=1 for normmax, give piecewise constant probabilities). "
            "Choose solver='lbfgs'."
        )
    steep = problem.loss.jacobian.alpha > 2.0
    if steep and problem.dtype == np.float32 and problem.n_values <= _DOUBLED:
        problem = problem.in_double()
    at = problem.point(_centred(problem.layout, w0))
    steepest = largest(at.gradient)
    message = "no iteration allowed"
    n_iter = 0
    while n_iter < max_iter:
        slope = largest(at.gradient)
        if slope <= tol:
            message = "the gradient is small enough"
            break
        share = min(_LOOSE, max(_TIGHT, np.sqrt(slope / steepest)))
        ahead = _search(problem, at, _direction(problem.layout, at, share))
        if ahead is None:
            message = "rounding errors hide every descent"
            break
        at = ahead
        n_iter += 1
        message = "the iterations are used up"
        if report.iteration(n_iter, at.w, at.value, largest(at.gradient)):
            message = "stopped by a callback"
            break
    return Solution(at.w, at.value, largest(at.gradient), n_iter, message)


def _centred(layout: Layout, w: np.ndarray) -> np.ndarray:
    """Remove what all classes have in common: no loss depends on it, and the penalty is less."""
    w = w.astype(np.float64)
    if layout.n_outputs > 1:
        W, _ = layout.split(w)
        W -= W.mean(axis=1, keepdims=True)
    return w


def _direction(layout: Layout, at: Point, share: float) -> np.ndarray:
    """Newton's direction, by preconditioned conjugate gradients.

    A number added to the weights of all classes changes no probability: the Hessian has next to
    no curvature there, which would spoil conjugate gradients, and nothing is to be gained. The
    preconditioner, the inverse of the Hessian's diagonal, keeps to the other directions.
    """
    k = layout.n_outputs
    inverse = at.curvature.diagonal()
    steepest = float(inverse.max(initial=0.0)) or 1.0
    np.maximum(inverse, _FLAT * steepest, out=inverse)
    np.reciprocal(inverse, out=inverse)
    x = np.zeros_like(at.gradient)
    r = -at.gradient
    z = np.empty_like(r)
    product = _conjugate.precondition(r, inverse, k, z)
    p = z.copy()
    earlier = _Earlier(r.size)
    enough = share * share * product
    for _ in range(_MAX_PRODUCTS):
        Hp = at.curvature.product(p)
        curvature = float(p @ Hp)
        if not curvature > _EPS * float(p @ p) * steepest:
            # The objective is straight in this direction: go as far as the others say.
            if not x.any():
                x = p
            break
        earlier.keep(r, product)
        _conjugate.advance(product / curvature, p, Hp, x, r)
        last, product = product, _conjugate.precondition(r, inverse, k, z)
        if earlier.held:
            earlier.remove(r, z)
            product = _conjugate.precondition(r, inverse, k, z)
        if product <= enough:
            break
        _conjugate.turn(z, product / last, p)
    return x


class _Earlier:
    """Residuals that later ones must be orthogonal to.

    In exact arithmetic they are. Rounding brings the directions of the largest curvature back
    again and again, and makes the result of many steps a matter of the last bits. Where there is
    no room for the residuals of many steps, none is kept.
    """

    def __init__(self, size: int) -> None:
        n = min(_MAX_PRODUCTS, _RESIDUALS // max(1, size))
        self._rows = np.empty((n if n >= _FEWEST_RESIDUALS else 0, size))
        self.held = 0

    def keep(self, r: np.ndarray, product: float) -> None:
        """Keep a residual whose preconditioned square is `product`; the first ones matter."""
        if self.held < len(self._rows):
            np.multiply(r, product**-0.5, out=self._rows[self.held])
            self.held += 1

    def remove(self, r: np.ndarray, z: np.ndarray) -> None:
        """Take from residual r, of which z is the preconditioned form, what it should not hold."""
        rows = self._rows[: self.held]
        r -= (rows @ z) @ rows


def _search(problem: LinearObjective, at: Point, v: np.ndarray) -> Point | None:
    """The next point along v; None if there is none that is better."""
    start = float(at.gradient @ v)
    if not start < 0.0:
        return None
    length = 1.0
    for _ in range(_MAX_LENGTHENINGS):
        end = problem.point(at.w + length * v)
        slope = float(end.gradient @ v)
        if not np.isfinite(end.value):
            length *= 0.1
        elif slope < _CURVED * start:
            length *= 2.0
        elif slope <= -_CURVED * start and _is_better(problem, at, end):
            return end
        elif slope <= 0.0:
            return None
        else:
            return _between(problem, at, end, start * length, slope * length)
    return None


def _between(
    problem: LinearObjective, at: Point, end: Point, start: float, slope: float
) -> Point | None:
    """A point on the way to one that is too far, found by false position on the derivative."""
    line = Line(problem, at, end)
    low, high, below, above = 0.0, 1.0, start, slope
    t = 0.0
    for _ in range(_MAX_PROBES):
        t = (low * above - high * below) / (above - below)
        here = line.slope(t)
        if abs(here) <= -0.1 * start:
            break
        # Halving the end that stays moves it too (the Illinois rule).
        if here < 0.0:
            low, below, above = t, here, above * 0.5
        else:
            high, above, below = t, here, below * 0.5
    for length in (t, low):
        found = line.point(length)
        if _is_better(problem, at, found):
            return found
    return None


def _is_better(problem: LinearObjective, at: Point, found: Point) -> bool:
    """Near the minimum the objective's decrease drowns in rounding, while gradients still tell."""
    rounding = ROUNDING * float(np.finfo(problem.dtype).eps) * abs(at.value)
    if found.value > at.value + rounding:
        return False
    return found.value < at.value or largest(found.gradient) < largest(at.gradient)
