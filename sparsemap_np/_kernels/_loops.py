"""The loops over rows. Each takes a row function and becomes a kernel that is cached by name.

All arrays are C-contiguous: X, P (n, d), ``par`` (n,) or, for one parameter for all rows, (1,).
"""

import numpy as np

from sparsemap_np._kernels._centre import SHORT, WIDTH, room
from sparsemap_np._kernels._compile import kernel, row_function, scalar, sums
from sparsemap_np._kernels._scan import block_count, fill, scan, special_row, work_size
from sparsemap_np._kernels._views import stretch

_EXACT = 8192
"""Ones are counted in the row's own type, to fill the lanes; so many of them exactly."""


@scalar
def everything(par):
    """Whether a solver serves a parameter, for the solver that serves all."""
    return True


def simplex_row(name, solve):
    """A row function for any row from a solver of rows whose maximum is finite."""

    @row_function(f"{name}.row")
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


def forward_loop(name, row, serves):
    """``P[i] = map(X[i])`` for rows start to stop, leaving out rows that another solver serves."""

    @kernel(name)
    def forward(X, par, P, start, stop):
        d = X.shape[1]
        scratch = np.empty(work_size(d), X.dtype)
        step = 1 if par.size > 1 else 0
        for i in range(start, stop):
            if step == 0 or serves(par[i]):
                row(stretch(X, i * d, d), par[i * step], 0, scratch, stretch(P, i * d, d))

    return forward


def normalised(name, bisect_row):
    """A bisection row, divided by its sum, where a loss expects an exact row."""

    @row_function(f"{name}.normalised_row")
    def row(x, par, n_iter, scratch, p):
        return bisect_row(x, par, n_iter, True, scratch, p)

    return row


def bisect_loop(name, row):
    """Like ``forward_loop`` for a row function that takes a number of plain bisection steps."""

    @kernel(name)
    def bisect(X, par, n_iter, normalise, P, start, stop):
        scratch = np.empty(work_size(X.shape[1]), X.dtype)
        step = 1 if par.size > 1 else 0
        for i in range(start, stop):
            row(X[i], par[i * step], n_iter, normalise, scratch, P[i])

    return bisect


def vjp_loop(name, row, rows):
    """``dX[i] = J(P[i]) dP[i]``; short rows that share a parameter are handed over together."""

    @kernel(name)
    def vjp(dP, P, par, dX, start, stop):
        d = P.shape[1]
        work = np.empty(room(d), dX.dtype)
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

    @kernel(name)
    def jacobian(P, par, J, start, stop):
        d = P.shape[1]
        step = 1 if par.size > 1 else 0
        work = np.empty(room(d), P.dtype)
        unit = np.zeros(d, P.dtype)
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


def label_loss_loop(name, row, loss, serves):
    """``losses[i]`` for the class ``labels[i]``; a negative label is an ignored row.

    ``scales`` multiplies the gradient of each row (weight over the reduction's divisor). With one
    row in ``grad`` that row is scratch: no gradient is wanted.
    """

    @kernel(name)
    def label_loss(X, n_iter, labels, par, scales, losses, support, grad, start, stop):
        d = X.shape[1]
        scratch = np.empty(work_size(d), X.dtype)
        wanted = grad.shape[0] == X.shape[0]
        work = np.empty(0 if wanted else d, X.dtype)
        step = 1 if par.size > 1 else 0
        sstep = 1 if scales.size > 1 else 0
        for i in range(start, stop):
            if step == 1 and not serves(par[i]):
                continue
            x = stretch(X, i * d, d)
            p = stretch(grad, i * d, d) if wanted else work
            t = labels[i]
            if t < 0:
                losses[i] = 0
                support[i] = 0
                if wanted:
                    fill(p, 0)
                continue
            ref, lift = row(x, par[i * step], n_iter, scratch, p)
            if not np.isfinite(lift):
                losses[i] = _infinite_loss(p, ref, x[t] == np.inf)
            elif x[t] == -np.inf:
                losses[i] = np.inf
            else:
                losses[i] = loss(x, t, p, par[i * step], ref, lift)
            scale = scales[i * sstep]
            own = p[t] - 1
            support[i] = _scale_and_count(p, scale)
            if wanted:
                p[t] = own * scale
                if scale == 0.0:  # a weight of zero removes the row, NaN and all
                    fill(p, 0)

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


def soft_loss_loop(name, row, loss, serves):
    """Like ``label_loss_loop`` for targets Y (n, d); ``totals[i]`` is the sum that Y[i] stands for.

    A row of Y whose sum is within rounding of its total is taken as it is, so that a prediction
    used as a target has loss 0; others are rescaled to it.
    """

    @kernel(name)
    def soft_loss(X, n_iter, Y, totals, par, scales, losses, support, grad, start, stop):
        d = X.shape[1]
        scratch = np.empty(work_size(d), X.dtype)
        wanted = grad.shape[0] == X.shape[0]
        work = np.empty(0 if wanted else d, X.dtype)
        step = 1 if par.size > 1 else 0
        sstep = 1 if scales.size > 1 else 0
        tstep = 1 if totals.size > 1 else 0
        eps = 2.3e-16 if X.itemsize == 8 else 1.2e-7
        for i in range(start, stop):
            if step == 1 and not serves(par[i]):
                continue
            x = stretch(X, i * d, d)
            y = stretch(Y, i * d, d)
            p = stretch(grad, i * d, d) if wanted else work
            ref, lift = row(x, par[i * step], n_iter, scratch, p)
            mass, missing = _target_mass(x, y)
            total = totals[i * tstep]
            scale = 1.0
            if mass > 0.0 and abs(mass - total) > 4.0 * eps * np.sqrt(d) * total:
                scale = total / mass
            if missing > 0.0 and p[0] == p[0]:
                losses[i] = np.inf
            elif not np.isfinite(lift):
                losses[i] = _infinite_loss(p, ref, _on_target(x, y))
            else:
                losses[i] = loss(x, y, scale, p, par[i * step], ref, lift)
            factor = scales[i * sstep]
            support[i] = _subtract_and_count(p, y, scale, factor)
            if factor == 0.0:
                fill(p, 0)

    return soft_loss


@kernel("support_size")
def support_size(P, out, start, stop):
    """``out[i]``: how many probabilities of the row are not zero."""
    d = P.shape[1]
    for i in range(start, stop):
        out[i] = _count_positive(stretch(P, i * d, d))
