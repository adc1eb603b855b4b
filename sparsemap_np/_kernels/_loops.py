"""The loops over rows. Each takes a row function and becomes a kernel that is cached by name.

All arrays are C-contiguous: X, P (n, d), ``par`` (n,) or, for one parameter for all rows, (1,).
"""

import numpy as np

from sparsemap_np._kernels._centre import SHORT, WIDTH, room
from sparsemap_np._kernels._compile import kernel, row_function, scalar
from sparsemap_np._kernels._scan import block_count, scan, special_row, work_size
from sparsemap_np._kernels._views import stretch


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
        if par.size == 1 and d <= SHORT:
            for i in range(start, stop, WIDTH):
                size = min(WIDTH, stop - i) * d
                p = stretch(P, i * d, size)
                rows(p, stretch(dP, i * d, size), par[0], d, work, stretch(dX, i * d, size))
            return
        step = 1 if par.size > 1 else 0
        for i in range(start, stop):
            v = stretch(dP, i * d, d)
            row(stretch(P, i * d, d), v, par[i * step], work, stretch(dX, i * d, d))

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


def jacobian_loop(name, row):
    """``J[i]`` dense, a column at a time."""

    @kernel(name)
    def jacobian(P, par, J, start, stop):
        d = P.shape[1]
        step = 1 if par.size > 1 else 0
        work = np.empty(room(d), P.dtype)
        unit = np.zeros(d, P.dtype)
        for i in range(start, stop):
            for k in range(d):
                unit[k] = 1
                row(P[i], unit, par[i * step], work, J[i, k])
                unit[k] = 0

    return jacobian


@scalar
def _infinite_loss(p, ref, on_target):
    """Loss of a row whose solver gave no threshold: 0 on an infinite target, inf off it, or NaN."""
    if p[0] != p[0]:
        return np.nan
    return 0.0 if ref == np.inf and on_target else np.inf


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
            p = grad[i] if wanted else work
            t = labels[i]
            if t < 0:
                losses[i] = 0
                support[i] = 0
                if wanted:
                    p[:] = 0
                continue
            ref, lift = row(X[i], par[i * step], n_iter, scratch, p)
            if not np.isfinite(lift):
                losses[i] = _infinite_loss(p, ref, X[i, t] == np.inf)
            elif X[i, t] == -np.inf:
                losses[i] = np.inf
            else:
                losses[i] = loss(X[i], t, p, par[i * step], ref, lift)
            count = 0
            for j in range(d):
                count += p[j] > 0
            support[i] = count
            if wanted:
                scale = scales[i * sstep]
                p[t] -= 1
                if scale == 0.0:  # a weight of zero removes the row, NaN and all
                    p[:] = 0
                elif scale != 1.0:
                    for j in range(d):
                        p[j] *= scale

    return label_loss


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
            p = grad[i] if wanted else work
            ref, lift = row(X[i], par[i * step], n_iter, scratch, p)
            mass = 0.0
            missing = False
            infinite = False
            count = 0
            for j in range(d):
                mass += np.float64(Y[i, j])
                missing = missing or (Y[i, j] > 0 and X[i, j] == -np.inf)
                infinite = infinite or (Y[i, j] == 1 and X[i, j] == np.inf)
                count += p[j] > 0
            support[i] = count
            total = totals[i * tstep]
            scale = 1.0
            if mass > 0.0 and abs(mass - total) > 4.0 * eps * np.sqrt(d) * total:
                scale = total / mass
            if missing and p[0] == p[0]:
                losses[i] = np.inf
            elif not np.isfinite(lift):
                losses[i] = _infinite_loss(p, ref, infinite)
            else:
                losses[i] = loss(X[i], Y[i], scale, p, par[i * step], ref, lift)
            if wanted:
                factor = scales[i * sstep]
                for j in range(d):
                    p[j] = factor * (np.float64(p[j]) - scale * np.float64(Y[i, j]))
                if factor == 0.0:
                    p[:] = 0

    return soft_loss


@kernel("support_size")
def support_size(P, out, start, stop):
    """``out[i]``: how many probabilities of the row are not zero."""
    for i in range(start, stop):
        count = 0
        for j in range(P.shape[1]):
            count += P[i, j] > 0
        out[i] = count
