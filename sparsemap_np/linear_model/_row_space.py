r"""L-BFGS in the span of the rows, for sparse data with more features than rows.

Gradients of the objective are ``X' U`` for a table U of rows by classes, plus the penalty's part,
which is a multiple of the weights. So all that L-BFGS meets is combinations of the rows and of the
weights W0 that it started from,

.. math:: W = X^\top A + c W_0,

and A, with n rows, takes the place of W, with as many rows as there are features. Of each vector
are kept its coordinates (A, c and those of the intercepts) and its image: the scores that it adds.
The inner product of two vectors is the dot product of one's coordinates with the other's image.
Hence an iteration is one product, the image of its gradient; the line search moves on known
scores, and directions are combinations found from a small matrix of inner products.

The intercepts are scaled: b = s^2 (u + 1'A) for a coordinate u beside those of the rows, with s^2
the curvature of a weight over that of an intercept. The coordinate of a gradient is then what the
penalty takes from 1'A, and one of a vector W without intercepts is -1'A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsemap_np._arrays import for_kernel
from sparsemap_np._kernels import _gram
from sparsemap_np._threads import run_tasks
from sparsemap_np.linear_model._objective import LinearObjective
from sparsemap_np.linear_model._products import csc_parts
from sparsemap_np.linear_model._solution import ROUNDING, Solution, largest
from sparsemap_np.linear_model._whitening import mean_curvature

_MEMORY = 10
# Entries of a vector that a thread takes at a time; the sums do not depend on who takes what.
_CHUNK = 2**16
# With fewer columns than this a product of eight of them is mostly wasted.
_FEW_COLUMNS = 3
# The derivative along a line must shrink to this share of what it was.
_FLAT_ENOUGH = 0.5
_MOST_PROBES = 30


def has_row_space(objective: LinearObjective) -> bool:
    """Tell whether rows are the shorter description of weights.

    Parameters
    ----------
    objective : LinearObjective
        The objective.

    Returns
    -------
    bool
        True for sparse data with more features than rows.
    """
    return objective.is_sparse and objective.X.shape[0] < objective.layout.n_features


def minimize_in_row_space(
    objective: LinearObjective, w0: np.ndarray, *, tol: float, max_iter: int, report: Any
) -> Solution:
    """Minimise by L-BFGS on the rows' coefficients.

    Parameters
    ----------
    objective : LinearObjective
        On sparse data.
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
    X = objective.X.tocsc()
    w, n_iter, before = w0, 0, np.inf
    while True:
        run = _Run(_Space(objective, X, w), report, n_iter)
        message = run.minimise(tol, max_iter)
        n_iter, w = run.n_iter, run.weights()
        # Scores that were added up for many iterations are those of the weights but for rounding.
        value, gradient = objective.value_and_gradient(w)
        slope = largest(gradient)
        done = slope <= tol or n_iter >= max_iter or report.stopped
        if done or not slope < 0.5 * before:
            return Solution(w, value, slope, n_iter, message)
        before = slope


@dataclass(frozen=True)
class _Vector:
    """Coordinates and image, each with the rows' part first, then intercepts, then W0's."""

    x: np.ndarray
    image: np.ndarray


class _Space:
    """Coordinates, images and inner products."""

    def __init__(self, objective: LinearObjective, X: Any, w0: np.ndarray) -> None:
        layout = objective.layout
        self.objective = objective
        self._X = X
        self.n, self.k = X.shape[0], layout.n_outputs
        self.size = self.n * self.k + self.k + 1
        W, b = layout.split(w0)
        self.start = np.array(W) if W.any() else None
        self.intercept = None if b is None else np.array(b)
        curvature = mean_curvature(layout)
        mean_square = float(X.data @ X.data) / (X.shape[0] * X.shape[1])
        self._scale = 0.0
        if b is not None:
            self._scale = (objective.l2 / curvature + mean_square) or 1.0
        self.start_scores = np.zeros((self.n, self.k))
        self.start_square = 0.0
        if self.start is not None:
            self.start_scores[...] = X @ self.start
            self.start_square = float(np.vdot(self.start, self.start))

    def parts(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """View coordinates or image as the rows' table and the rest without W0's number."""
        at = self.n * self.k
        return v[:at].reshape(self.n, self.k), v[at:-1]

    def image(self, x: np.ndarray, image: np.ndarray) -> float:
        """Write the image of coordinates; returns the largest entry of what they stand for."""
        A, u = self.parts(x)
        S, b = self.parts(image)
        most = self._multiply(A, float(x[-1]), S)
        b[...] = 0.0
        if self._scale:
            b[...] = u + A.sum(axis=0)
            most = max(most, largest(b))
            b *= self._scale
            S += b
        image[-1] = 0.0
        if self.start is not None:
            image[-1] = np.vdot(self.start_scores, A) + x[-1] * self.start_square
        return most

    def _multiply(self, A: np.ndarray, c: float, S: np.ndarray) -> float:
        """``S = X (X' A + c W0)``, by columns on several threads."""
        X, start, width = self._X, self.start, _gram.WIDTH
        if self.k <= _FEW_COLUMNS:
            G = X.T @ A
            if start is not None:
                G += c * start
            S[...] = X @ G
            return largest(G)
        starts = range(0, self.k, width)
        most = np.zeros(len(starts))
        data, indices, indptr = (for_kernel(part) for part in csc_parts(X))

        def run(task: int) -> None:
            columns = slice(starts[task], min(starts[task] + width, self.k))
            held = columns.stop - columns.start
            V, out = np.zeros((2, self.n, width))
            V[:, :held] = A[:, columns]
            G = np.zeros((0 if start is None else len(start), width))
            if start is not None:
                np.multiply(start[:, columns], c, out=G[:, :held])
            most[task] = _gram.gram_csc(data, indices, indptr, V, G, out)
            S[:, columns] = out[:, :held]

        run_tasks(run, len(starts))
        return float(most.max())

    def weight_product(self, x: np.ndarray, image: np.ndarray) -> float:
        """Inner product of the weights alone, without the intercepts' part."""
        A, _ = self.parts(x)
        S, b = self.parts(image)
        return float(np.vdot(A, S) - A.sum(axis=0) @ b + x[-1] * image[-1])

    def losses(self, T: np.ndarray, U: np.ndarray, t: float, R: np.ndarray) -> tuple[float, float]:
        """Mean loss at scores ``T + t U`` and its derivative in t; residuals go to R."""
        objective = self.objective
        sums = np.zeros((len(objective.lanes), 2))
        first = objective.layout.n_classes - self.k
        ends = np.cumsum([sum(b.X.shape[0] for b in lane.blocks) for lane in objective.lanes])

        def run(i: int) -> None:
            lane = objective.lanes[i]
            at = 0 if i == 0 else int(ends[i - 1])
            for block in lane.blocks:
                rows = slice(at, at + block.X.shape[0])
                at = rows.stop
                S = np.zeros((rows.stop - rows.start, objective.layout.n_classes), objective.dtype)
                np.add(T[rows], t * U[rows], out=S[:, first:], casting="same_kind")
                result = lane.residuals(block, block.target, S)
                np.divide(result.D[:, first:], objective.total_weight, out=R[rows])
                sums[i, 0] += result.losses.sum()
                sums[i, 1] += np.vdot(R[rows], U[rows])

        run_tasks(run, len(sums))
        value, slope = sums.sum(axis=0)
        return float(value) / objective.total_weight, float(slope)


class _Memory:
    """The last steps and changes of the gradient, and their inner products."""

    def __init__(self, space: _Space) -> None:
        # Four tables a pair here, two vectors of weights a pair elsewhere.
        roomy = 2 * space.n <= space.objective.layout.n_features
        self._pairs = _MEMORY if roomy else _MEMORY // 2
        rows = 2 * self._pairs
        self._x = np.zeros((rows, space.size))
        self._image = np.zeros((rows, space.size))
        # The gradient's inner products come last.
        self._products = np.zeros((rows + 1, rows + 1))
        self._order: list[int] = []

    def clear(self) -> None:
        """Forget all steps."""
        self._order = []

    @property
    def empty(self) -> bool:
        """Whether no step is known."""
        return not self._order

    def look(self, gradient: _Vector) -> None:
        """Take the first gradient."""
        self._products[-1, -1] = float(np.vdot(gradient.x, gradient.image))

    def add(self, step: _Vector, t: float, gradient: _Vector, ahead: _Vector) -> None:
        """Take a step of length t, from one gradient to the next."""
        full = len(self._order) == self._pairs
        s = 2 * (self._order.pop(0) if full else len(self._order))
        for table, move, before, after in (
            (self._x, step.x, gradient.x, ahead.x),
            (self._image, step.image, gradient.image, ahead.image),
        ):
            np.multiply(move, t, out=table[s])
            np.subtract(after, before, out=table[s + 1])
        rows = 2 * len(self._order) + 2 if not full else len(self._x)
        new = np.zeros((len(self._x), 3))
        new[:rows] = _by_chunks_dot(self._image[:rows], (self._x[s], self._x[s + 1], ahead.x))
        for column, at in enumerate((s, s + 1, -1)):
            self._products[:-1, at] = self._products[at, :-1] = new[:, column]
        self._products[-1, -1] = float(np.vdot(ahead.x, ahead.image))
        self._order.append(s // 2)
        if not self._products[s, s + 1] > 0.0:
            self._order.pop()

    def direction(self, gradient: _Vector, into: _Vector) -> float:
        """Write the direction to go; returns the derivative along it."""
        M = self._products
        q = np.zeros(len(M))
        q[-1] = -1.0
        shares = {}
        for pair in reversed(self._order):
            s, y = 2 * pair, 2 * pair + 1
            shares[pair] = (M[s] @ q) / M[s, y]
            q[y] -= shares[pair]
        if self._order:
            s, y = 2 * self._order[-1], 2 * self._order[-1] + 1
            q *= M[s, y] / M[y, y]
        for pair in self._order:
            s, y = 2 * pair, 2 * pair + 1
            q[s] += shares[pair] - (M[y] @ q) / M[s, y]
        rows = 2 * max(self._order, default=-1) + 2
        _by_chunks_sum(self._x[:rows], q[:rows], gradient.x, q[-1], into.x)
        _by_chunks_sum(self._image[:rows], q[:rows], gradient.image, q[-1], into.image)
        return float(M[-1] @ q)


def _chunks(size: int) -> tuple[int, Callable[[int], slice]]:
    return -(-size // _CHUNK), lambda i: slice(i * _CHUNK, min((i + 1) * _CHUNK, size))


def _by_chunks_dot(table: np.ndarray, vectors: tuple[np.ndarray, ...]) -> np.ndarray:
    count, chunk = _chunks(table.shape[1])
    sums = np.zeros((count, len(table), len(vectors)))

    def run(i: int) -> None:
        for column, vector in enumerate(vectors):
            sums[i, :, column] = table[:, chunk(i)] @ vector[chunk(i)]

    run_tasks(run, count)
    return sums.sum(axis=0)


def _by_chunks_sum(
    table: np.ndarray, factors: np.ndarray, vector: np.ndarray, factor: float, out: np.ndarray
) -> None:
    count, chunk = _chunks(table.shape[1])

    def run(i: int) -> None:
        part = out[chunk(i)]
        np.multiply(vector[chunk(i)], factor, out=part)
        if len(table):
            part += factors @ table[:, chunk(i)]

    run_tasks(run, count)


class _Run:
    """One descent: where it is, and how it goes on."""

    def __init__(self, space: _Space, report: Any, n_iter: int) -> None:
        self._space = space
        self._report = report
        self.n_iter = n_iter
        objective = space.objective
        self._w = np.zeros(space.size)
        self._square = 0.0
        if space.start is not None:
            self._w[-1] = 1.0
            self._square = space.start_square
        self._b = space.intercept
        self._T = space.start_scores.copy()
        if self._b is not None:
            self._T += self._b
        self._gradient, self._ahead, self._step = (
            _Vector(np.zeros(space.size), np.zeros(space.size)) for _ in range(3)
        )
        R, _ = space.parts(self._gradient.x)
        loss, _ = space.losses(self._T, self._T, 0.0, R)
        self.value = loss + 0.5 * objective.l2 * self._square
        self._penalise(self._gradient.x)
        self.slope = space.image(self._gradient.x, self._gradient.image)

    def _penalise(self, x: np.ndarray) -> None:
        """Make the gradient's coordinates of its residuals."""
        A, _ = self._space.parts(self._w)
        U, u = self._space.parts(x)
        l2 = self._space.objective.l2
        U += l2 * A
        u[...] = -l2 * A.sum(axis=0)
        x[-1] = l2 * self._w[-1]

    def weights(self) -> np.ndarray:
        """Flat parameters of the model where it is."""
        space = self._space
        flat = np.empty(space.objective.layout.n_parameters)
        W, b = space.objective.layout.split(flat)
        W[...] = space.objective.X.T @ space.parts(self._w)[0]
        if space.start is not None:
            W += self._w[-1] * space.start
        if b is not None:
            b[...] = self._b
        return flat

    def minimise(self, tol: float, max_iter: int) -> str:
        """Go on until it ends; returns why."""
        memory = _Memory(self._space)
        memory.look(self._gradient)
        while True:
            if self.slope <= tol:
                return "the gradient is small enough"
            if self.n_iter >= max_iter:
                return "the iterations are used up" if max_iter else "no iteration allowed"
            along = memory.direction(self._gradient, self._step)
            t = self._line(along, memory.empty) if along < 0.0 else None
            if t is None:
                if memory.empty:
                    return "rounding errors hide every descent"
                memory.clear()
                continue
            self._go(t)
            memory.add(self._step, t, self._gradient, self._ahead)
            self._gradient, self._ahead = self._ahead, self._gradient
            self.n_iter += 1
            if self._report.listens and self._report.iteration(
                self.n_iter, self.weights(), self.value, self.slope
            ):
                return "stopped by a callback"

    def _line(self, along: float, first: bool) -> float | None:
        """The length of the step; leaves value and residuals of its end."""
        space, l2 = self._space, self._space.objective.l2
        U, _ = space.parts(self._step.image)
        R, _ = space.parts(self._ahead.x)
        once = space.weight_product(self._w, self._step.image)
        twice = space.weight_product(self._step.x, self._step.image)
        t = 1.0
        if first:
            bent = mean_curvature(space.objective.layout) * float(np.vdot(U, U)) / space.n
            bent += l2 * twice
            t = -along / bent if bent > 0.0 else 1.0
        low, high = (0.0, along), None
        rounding = ROUNDING * float(np.finfo(space.objective.dtype).eps) * abs(self.value)
        for _ in range(_MOST_PROBES):
            loss, slope = space.losses(self._T, U, t, R)
            square = self._square + 2.0 * t * once + t * t * twice
            value = loss + 0.5 * l2 * square
            slope += l2 * (once + t * twice)
            # A convex function that is flatter at t and not above its start has come down.
            higher = not value <= self.value + rounding
            if abs(slope) <= -_FLAT_ENOUGH * along and not higher:
                self.value, self._square = value, square
                return t
            if slope < 0.0 and not higher:
                low = t, slope
            else:
                high = t, slope if slope > 0.0 else -along
            if high is None:
                ahead = slope / (along - slope) if slope > along else 4.0
                t *= 1.0 + min(9.0, max(0.5, -ahead))
            else:
                share = low[1] / (low[1] - high[1])
                share = min(0.9, max(0.1, share)) if np.isfinite(share) else 0.1
                t = low[0] + share * (high[0] - low[0])
        return None

    def _go(self, t: float) -> None:
        """Take the step; the residuals of its end are known."""
        space = self._space
        self._w += t * self._step.x
        S, b = space.parts(self._step.image)
        self._T += t * S
        if self._b is not None:
            self._b = self._b + t * b
        self._penalise(self._ahead.x)
        self.slope = space.image(self._ahead.x, self._ahead.image)
