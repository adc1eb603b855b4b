"""The loops over rows. Each takes row functions and becomes a kernel that is cached by name.

Solvers come as a ``Plan``: one row after another, or many short ones side by side. All arrays are
C-contiguous: X, P (n, d), ``par`` (n,) or, for one parameter for all rows, (1,). A kernel makes
the scratch and hands it to its loop, where references to it are not counted.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsemap_np._kernels._centre import SHORT, WIDTH, room
from sparsemap_np._kernels._compile import element, kernel, referring, row_function, scalar, sums
from sparsemap_np._kernels._lanes import LANES, lanes_size, rows_in_turn
from sparsemap_np._kernels._lanes import SHORT as SHORT_SCORES
from sparsemap_np._kernels._lockstep import TOGETHER, lockstep_size
from sparsemap_np._kernels._scan import BLOCK, block_count, fill, scan, special_row, work_size
from sparsemap_np._kernels._views import stretch

_EXACT = 8192
"""Ones are counted in the row's own type, to fill the lanes; so many of them exactly."""

_PEEKED = 256
"""Scores that are looked at before it is asked whether two are too many already."""


@scalar
def everything(par):
    """Whether a solver serves a parameter, for the solver that serves all."""
    return True


def simplex_row(name, solve):
    """A row function for any row from a solver of rows whose maximum is finite."""

    @row_function(f"{name}.row", element)
    def row(x, par, n_iter, work, p):
        blocks = block_count(x.size)
        bmax = stretch(work, 0, blocks)
        top = scan(x, bmax)
        if np.isfinite(top):
            room = stretch(work, blocks, work.size - blocks)
            return top, solve(x, top, par, bmax, room, p)
        special_row(x, top, p)
        return top, np.nan

    return row


class Plan(NamedTuple):
    """How rows are solved: ``rows(X, index, n, par, n_iter, work, P, place, refs, lifts)``.

    The rows ``index[:n]`` of X, at most ``capacity``, go to the rows ``place[:n]`` of P; ``work``
    holds ``size(d)`` numbers.
    """

    rows: Callable
    capacity: int
    size: Callable


def long_plan(name, row):
    """One row after another, by a function for one row."""
    return Plan(rows_in_turn(name, row), 1, work_size)


def short_plan(rows):
    """Short rows side by side."""
    return Plan(rows, LANES, lanes_size)


def block_plan(rows):
    """Rows of one block in lockstep."""
    return Plan(rows, TOGETHER, lockstep_size)


class ByLength:
    """Kernels for short rows, for rows of one block and for the others, made when needed."""

    def __init__(
        self,
        short: Callable[[], Callable] | None,
        block: Callable[[], Callable] | None,
        long: Callable[[], Callable],
    ) -> None:
        self._make_short = short
        self._make_block = block
        self._make_long = long

    @cached_property
    def short(self) -> Callable:
        return self.long if self._make_short is None else self._make_short()

    @cached_property
    def block(self) -> Callable:
        return self.long if self._make_block is None else self._make_block()

    @cached_property
    def long(self) -> Callable:
        return self._make_long()

    def of(self, d: int) -> Callable:
        """The kernel for rows of d scores."""
        if d <= SHORT_SCORES:
            return self.short
        return self.block if d <= BLOCK else self.long

    def __call__(self, X: NDArray, *arguments: Any) -> None:
        self.of(X.shape[1])(X, *arguments)


def _scratch(name, plan):
    """What a loop that solves rows by ``plan`` needs: room to work and to note the rows."""
    _, capacity, size = plan

    @row_function(f"{name}.scratch", referring)
    def scratch(X):
        work = np.empty(size(X.shape[1]), X.dtype)
        index = np.empty(capacity, np.int64)
        refs = np.empty(capacity)
        lifts = np.empty(capacity)
        return work, index, refs, lifts

    return scratch


def forward_loop(name, plan, serves):
    """``P[i] = map(X[i])`` for rows start to stop, leaving out rows that another solver serves."""
    rows, capacity, _ = plan
    scratch = _scratch(name, plan)

    @row_function(f"{name}.loop", element)
    def loop(X, par, P, start, stop, work, index, refs, lifts):
        no_steps = np.int64(0)  # as a literal it would be a type of its own
        i = start
        while i < stop:
            n = 0
            while n < capacity and i < stop:
                if par.size == 1 or serves(par[i]):
                    index[n] = i
                    n += 1
                i += 1
            rows(X, index, n, par, no_steps, work, P, index, refs, lifts)

    @kernel(name)
    def forward(X, par, P, start, stop):
        work, index, refs, lifts = scratch(X)
        loop(X, par, P, start, stop, work, index, refs, lifts)

    return forward


def normalised(name, bisect_row):
    """A bisection row, divided by its sum, where a loss expects an exact row."""

    @row_function(f"{name}.normalised_row")
    def row(x, par, n_iter, scratch, p):
        return bisect_row(x, par, n_iter, True, scratch, p)

    return row


def bisect_loop(name, row):
    """Like ``forward_loop`` for a row function that takes a number of plain bisection steps."""

    @row_function(f"{name}.loop", element)
    def loop(X, par, n_iter, normalise, P, start, stop, work):
        d = X.shape[1]
        step = 1 if par.size > 1 else 0
        for i in range(start, stop):
            x = stretch(X, i * d, d)
            row(x, par[i * step], n_iter, normalise, work, stretch(P, i * d, d))

    @kernel(name)
    def bisect(X, par, n_iter, normalise, P, start, stop):
        work = np.empty(work_size(X.shape[1]), X.dtype)
        loop(X, par, n_iter, normalise, P, start, stop, work)

    return bisect


def vjp_loop(name, row, rows):
    """``dX[i] = J(P[i]) dP[i]``; short rows that share a parameter are handed over together."""

    @row_function(f"{name}.loop", element)
    def loop(dP, P, par, dX, start, stop, work):
        d = P.shape[1]
        step = 1 if par.size > 1 else 0
        height = WIDTH if par.size == 1 and d <= SHORT else 1
        for i in range(start, stop, height):
            size = min(height, stop - i) * d
            p = stretch(P, i * d, size)
            v = stretch(dP, i * d, size)
            dx = stretch(dX, i * d, size)
            if d <= SHORT:
                rows(p, v, par[i * step], d, work, dx)
            else:
                row(p, v, par[i * step], work, dx)

    @kernel(name)
    def vjp(dP, P, par, dX, start, stop):
        work = np.empty(room(P.shape[1]), dX.dtype)
        loop(dP, P, par, dX, start, stop, work)

    return vjp


def dpar_loop(name, row):
    """``out[i] = dP[i] . dP / dpar``, the gradient of the row's parameter."""

    @kernel(name)
    def dpar(dP, P, par, out, start, stop):
        d = P.shape[1]
        step = 1 if par.size > 1 else 0
        for i in range(start, stop):
            out[i] = row(stretch(P, i * d, d), stretch(dP, i * d, d), par[i * step])

    return dpar


def jacobian_loop(name, row, rows):
    """``J[i]`` dense, a column at a time."""

    @row_function(f"{name}.loop", element)
    def loop(P, par, J, start, stop, work, unit):
        d = P.shape[1]
        step = 1 if par.size > 1 else 0
        for i in range(start, stop):
            p = stretch(P, i * d, d)
            for k in range(d):
                unit[k] = 1
                column = stretch(J, (i * d + k) * d, d)
                if d <= SHORT:
                    rows(p, unit, par[i * step], d, work, column)
                else:
                    row(p, unit, par[i * step], work, column)
                unit[k] = 0

    @kernel(name)
    def jacobian(P, par, J, start, stop):
        d = P.shape[1]
        work = np.empty(room(d), P.dtype)
        unit = np.zeros(d, P.dtype)
        loop(P, par, J, start, stop, work, unit)

    return jacobian


@scalar
def _infinite_loss(p, ref, on_target):
    """Loss of a row whose solver gave no threshold: 0 on an infinite target, inf off it, or NaN."""
    if p[0] != p[0]:
        return np.nan
    return 0.0 if ref == np.inf and on_target else np.inf


@sums
def _count_positive(p):
    count = 0
    for start in range(0, p.size, _EXACT):
        part = stretch(p, start, min(_EXACT, p.size - start))
        positive = type(p[0])(0)
        for j in range(part.size):
            positive += type(p[0])(1) if part[j] > 0 else type(p[0])(0)
        count += int(positive)
    return count


@sums
def _scale_and_count(p, scale):
    """Multiply by ``scale``; return how many were positive."""
    T = type(p[0])
    factor = T(scale)
    count = 0
    for start in range(0, p.size, _EXACT):
        part = stretch(p, start, min(_EXACT, p.size - start))
        positive = T(0)
        for j in range(part.size):
            positive += T(1) if part[j] > T(0) else T(0)
            part[j] = part[j] * factor
        count += int(positive)
    return count


@sums
def _not_below(x, level):
    """How many scores are not below a level; two or more may be too few."""
    count = 0
    for start in range(0, x.size, _PEEKED):
        part = stretch(x, start, min(_PEEKED, x.size - start))
        for j in range(part.size):
            count += 0 if np.float64(part[j]) < level else 1
        if count > 1:
            break
    return count


def label_loss_loop(name, plan, loss, lead, serves):
    """``losses[i]`` for the class ``labels[i]``; a negative label is an ignored row.

    ``scales`` multiplies the gradient of each row (weight over the reduction's divisor). A ``grad``
    without rows: no gradient is wanted. Where the label is ahead of all others by more than
    ``lead(par)`` it holds all probability: near the end of a fit most rows need no solver.
    """
    rows, capacity, _ = plan
    scratch = _scratch(name, plan)

    @row_function(f"{name}.loop", element)
    def loop(
        X, n_iter, labels, par, scales, losses, support, grad, start, stop,
        P, work, index, place, refs, lifts,
    ):  # fmt: skip
        d = X.shape[1]
        wanted = grad.shape[0] == X.shape[0]
        step = 1 if par.size > 1 else 0
        sstep = 1 if scales.size > 1 else 0
        i = start
        while i < stop:
            n = 0
            while n < capacity and i < stop:
                if step == 0 or serves(par[i]):
                    t = labels[i]
                    rests = False
                    if t >= 0 and n_iter == 0:
                        level = np.float64(X[i, t]) - lead(par[i * step])
                        x = stretch(X, i * d, d)
                        rests = level > -np.inf and _not_below(x, level) == 1
                    if t >= 0 and not rests:
                        index[n] = i
                        place[n] = i if wanted else n
                        n += 1
                    else:
                        losses[i] = 0
                        support[i] = 1 if rests else 0
                        if wanted:
                            fill(stretch(grad, i * d, d), 0)
                i += 1
            rows(X, index, n, par, n_iter, work, P, place, refs, lifts)
            for r in range(n):
                k = index[r]
                t = labels[k]
                x = stretch(X, k * d, d)
                p = stretch(P, place[r] * d, d)
                if not np.isfinite(lifts[r]):
                    losses[k] = _infinite_loss(p, refs[r], x[t] == np.inf)
                elif x[t] == -np.inf:
                    losses[k] = np.inf
                else:
                    losses[k] = loss(x, t, p, par[k * step], refs[r], lifts[r])
                scale = scales[k * sstep]
                own = p[t] - 1
                support[k] = _scale_and_count(p, scale)
                if wanted:
                    p[t] = own * scale
                    if scale == 0.0:  # a weight of zero removes the row, NaN and all
                        fill(p, 0)

    @kernel(name)
    def label_loss(X, n_iter, labels, par, scales, losses, support, grad, start, stop):
        work, index, refs, lifts = scratch(X)
        place = np.empty(capacity, np.int64)
        wanted = grad.shape[0] == X.shape[0]
        P = grad if wanted else np.empty((capacity, X.shape[1]), X.dtype)
        loop(
            X, n_iter, labels, par, scales, losses, support, grad, start, stop,
            P, work, index, place, refs, lifts,
        )  # fmt: skip

    return label_loss


@sums
def _target_mass(x, y):
    """Sum of a target, and how much of it lies where the score is -inf."""
    mass = 0.0
    missing = 0.0
    for j in range(y.size):
        w = np.float64(y[j])
        mass += w
        missing += w if x[j] == -np.inf else 0.0
    return mass, missing


@scalar
def _on_target(x, y):
    """Whether an infinite score carries the whole target."""
    for j in range(y.size):
        if y[j] == 1 and x[j] == np.inf:
            return True
    return False


@sums
def _subtract_and_count(p, y, scale, factor):
    """``p = factor (p - scale y)``; returns how many of p were positive."""
    T = type(p[0])
    count = 0
    for start in range(0, p.size, _EXACT):
        size = min(_EXACT, p.size - start)
        part = stretch(p, start, size)
        other = stretch(y, start, size)
        positive = 0.0
        for j in range(size):
            q = np.float64(part[j])
            positive += 1.0 if q > 0.0 else 0.0
            part[j] = T(factor * (q - scale * np.float64(other[j])))
        count += int(positive)
    return count


def soft_loss_loop(name, plan, loss, serves):
    """Like ``label_loss_loop`` for targets Y (n, d); ``totals[i]`` is the sum that Y[i] stands for.

    A row of Y whose sum is within rounding of its total is taken as it is, so that a prediction
    used as a target has loss 0; others are rescaled to it.
    """
    rows, capacity, _ = plan
    scratch = _scratch(name, plan)

    @row_function(f"{name}.loop", element)
    def loop(
        X, n_iter, Y, totals, par, scales, losses, support, grad, start, stop,
        P, work, index, place, refs, lifts,
    ):  # fmt: skip
        d = X.shape[1]
        wanted = grad.shape[0] == X.shape[0]
        step = 1 if par.size > 1 else 0
        sstep = 1 if scales.size > 1 else 0
        tstep = 1 if totals.size > 1 else 0
        eps = 2.3e-16 if X.itemsize == 8 else 1.2e-7
        i = start
        while i < stop:
            n = 0
            while n < capacity and i < stop:
                if step == 0 or serves(par[i]):
                    index[n] = i
                    place[n] = i if wanted else n
                    n += 1
                i += 1
            rows(X, index, n, par, n_iter, work, P, place, refs, lifts)
            for r in range(n):
                k = index[r]
                x = stretch(X, k * d, d)
                y = stretch(Y, k * d, d)
                p = stretch(P, place[r] * d, d)
                mass, missing = _target_mass(x, y)
                total = totals[k * tstep]
                scale = 1.0
                if mass > 0.0 and abs(mass - total) > 4.0 * eps * np.sqrt(d) * total:
                    scale = total / mass
                if missing > 0.0 and p[0] == p[0]:
                    losses[k] = np.inf
                elif not np.isfinite(lifts[r]):
                    losses[k] = _infinite_loss(p, refs[r], _on_target(x, y))
                else:
                    losses[k] = loss(x, y, scale, p, par[k * step], refs[r], lifts[r])
                factor = scales[k * sstep]
                support[k] = _subtract_and_count(p, y, scale, factor)
                if factor == 0.0:
                    fill(p, 0)

    @kernel(name)
    def soft_loss(X, n_iter, Y, totals, par, scales, losses, support, grad, start, stop):
        work, index, refs, lifts = scratch(X)
        place = np.empty(capacity, np.int64)
        wanted = grad.shape[0] == X.shape[0]
        P = grad if wanted else np.empty((capacity, X.shape[1]), X.dtype)
        loop(
            X, n_iter, Y, totals, par, scales, losses, support, grad, start, stop,
            P, work, index, place, refs, lifts,
        )  # fmt: skip

    return soft_loss


@kernel("support_size")
def support_size(P, out, start, stop):
    """``out[i]``: how many probabilities of the row are not zero."""
    d = P.shape[1]
    for i in range(start, stop):
        out[i] = _count_positive(stretch(P, i * d, d))
