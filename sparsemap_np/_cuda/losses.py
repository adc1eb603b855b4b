"""The Fenchel-Young losses on device arrays: forward, loss, reduction, each one launch.

Nothing waits for the device, so nothing is raised about values that are there: a label out of range
or a row of targets that is no distribution makes its own row NaN.
"""

import operator
from typing import Any

import numpy as np

from sparsemap_np._cuda import launch
from sparsemap_np._cuda._arrays import exported, imported, on_its_device, view
from sparsemap_np._cuda.launch import DeviceParameter, Rows, kernel_of, start, team_for


def _beside(array: Any, rows: Rows, name: str) -> Any:
    """An argument that must live where X does."""
    array = imported(array)
    if not rows.library.owns(array):
        raise TypeError(
            f"{name} is a {type(array).__name__}: it must be an array of X's library, on its device"
        )
    return rows.library.ready(array, name)


def _targets(y: Any, rows: Rows, name: str, budget: bool) -> tuple[Any, bool]:
    """Labels (n,) or targets (n, d), contiguous, and whether they are labels."""
    y = _beside(y, rows, name)
    kind = rows.library.dtype(y).kind
    shape = tuple(y.shape)
    n, d = rows.shape
    if len(shape) == 1 and not budget:
        if kind not in "iub":
            raise ValueError(
                f"{name} is one-dimensional with dtype {rows.library.dtype(y)}: labels must be "
                "integers, and target distributions must have shape (n, d)"
            )
        if shape != (n,):
            raise ValueError(f"{name} has {shape[0]} targets: X has {n} rows")
        return rows.library.last(y, 0), True
    if kind not in "fiub":
        raise TypeError(f"{name} has dtype {rows.library.dtype(y)}: it must hold real numbers")
    if shape != (n, d):
        raise ValueError(f"{name} has shape {shape}: targets for X must have shape {(n, d)}")
    return rows.library.last(y, 1), False


def _weights(value: Any, rows: Rows, work: np.dtype) -> Any:
    """One weight a row on the device; None where there are none."""
    if value is None:
        return None
    n = rows.shape[0]
    if not isinstance(value, np.ndarray) and not np.isscalar(value) and hasattr(value, "shape"):
        value = _beside(value, rows, "sample_weight")
        if tuple(value.shape) != (n,):
            raise ValueError(
                f"sample_weight has shape {tuple(value.shape)}: it must be one number a row, ({n},)"
            )
        if rows.library.dtype(value) == work:
            return rows.library.last(value, 0)
        wide = rows.library.empty((n,), work, rows.first)
        rows.library.assign(wide, 0, rows.library.last(value, 0))
        return wide
    host = np.asarray(value, dtype=np.float64)
    if host.ndim > 1 or host.ndim == 1 and len(host) != n:
        raise ValueError(
            f"sample_weight has shape {host.shape}: it must be a scalar or one number a row, ({n},)"
        )
    if not (np.isfinite(host) & (host >= 0)).all():
        raise ValueError("sample_weight must be finite and >= 0")
    spread = np.ascontiguousarray(np.broadcast_to(host, (n,)), dtype=work)
    return rows.library.upload(spread, rows.first)


def fenchel_young(mapping, X, y, par, options, dtype, *, budget=False) -> Any:
    """`_loss_rows.fenchel_young` from checked scores, parameter and options on."""
    rows = Rows((X,), 1)
    library, like = rows.library, rows.first
    n, d = rows.shape
    name = "Y" if budget else "y"
    if not d:
        raise ValueError("X has no columns: a loss needs at least one class")
    ignore = options.ignore_index
    if ignore is not None:
        try:
            ignore = operator.index(ignore)
        except TypeError:
            raise ValueError(
                f"ignore_index must be None or an integer, got {options.ignore_index!r}"
            ) from None
    work = launch.work_dtype(dtype)
    T = work.type
    with on_its_device(like):
        y, hard = _targets(y, rows, name, budget)
        weight = _weights(options.sample_weight, rows, work)
        state = library.empty((2, n), work, like)
        losses = library.empty((n,), dtype if options.reduction == "none" else work, like)
        support = library.empty((n,), np.dtype(np.int64), like)
        grad = library.empty((n, d), dtype, like) if options.return_grad else None
        # P and the gradient share their memory, unless the gradient is of less precision.
        P = grad if grad is not None and dtype == work else library.empty((n, d), work, like)
        divisor = None
        factor = 1.0
        if n:
            team = team_for(T, d)
            blocks = -(-n // team.rows)
            scores = view(library.last(like, 1), (n, d))
            if budget and par is None:
                totals = library.empty((n,), np.dtype(np.float64), like)
                summing = launch.teams(np.float64)[-1]
                one = (np.float64(1), np.float64(0), view(totals, (2, 0)))
                arguments = (view(y, (n, d)), *one, view(totals, (n,)))
                start(kernel_of("row_total", "", summing), n, summing.block, like, arguments)
                par = DeviceParameter(totals)
            parameters = launch.parameter_arguments(mapping.name, par, T, d, n, P)
            states = view(state, (2, n))
            forward = (scores, *parameters, view(P, (n, d)), states)
            start(kernel_of("forward", mapping.name, team), blocks, team.block, like, forward)

            weights = view(state, (0,)) if weight is None else view(weight, (n,))
            skipping = (
                view(y, (n,)) if hard else view(support, (1,)),
                np.int64(hard and ignore is not None),
                np.int64(ignore or 0),
            )
            if options.reduction == "mean":
                factor = 1.0 / n
                if weight is not None or skipping[1]:
                    factor = 1.0
                    divisor = library.empty((1,), work, like)
                    kept = (*skipping, weights, n, view(divisor, (1,)))
                    last = launch.teams(T)[-1]
                    start(kernel_of("kept_weight", "", last), 1, last.block, like, kept)
            scaling = (T(factor), view(state, (0,)) if divisor is None else view(divisor, (1,)))
            results = (
                view(losses, (n,)),
                view(support, (n,)),
                view(P, (0, d)) if grad is None else view(grad, (n, d)),
            )
            middle = (*parameters, states, weights, *scaling, *results)
            if hard:
                operation, own = "label_loss", skipping
            else:
                eps = np.finfo(library.dtype(y)).eps if library.dtype(y).kind == "f" else 0.0
                slack = T(max(1e-6, 4 * max(eps, np.finfo(T).eps) * np.sqrt(d)))
                most = T(1) if budget else T(np.inf)
                operation, own = "soft_loss", (view(y, (n, d)), np.int64(budget), slack, most)
            arguments = (scores, view(P, (n, d)), *own, *middle)
            kernel = kernel_of(operation, mapping.name, team)
            start(kernel, blocks, team.block, like, arguments)
        value = losses
        if options.reduction != "none":
            value = library.empty((), dtype, like)
            last = launch.teams(T)[-1]
            empty = view(state, (0,)) if n == 0 or divisor is None else view(divisor, (1,))
            arguments = (view(losses, (n,)), T(factor), empty, view(value, (1,)))
            start(kernel_of("total_loss", "", last), 1, last.block, like, arguments)
    result = [value]
    if options.return_support_size:
        result.append(support)
    if options.return_grad:
        result.append(grad)
    return exported(result[0] if len(result) == 1 else tuple(result), X)
