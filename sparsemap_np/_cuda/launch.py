"""Which kernel for which array: the only module here that the rest of the package reads."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparsemap_np._cuda import _loops
from sparsemap_np._cuda._arrays import (
    exported,
    imported,
    launch_stream,
    library_of,
    on_its_device,
    view,
)
from sparsemap_np._cuda._compile import SIMULATED
from sparsemap_np._cuda._loops import Team
from sparsemap_np._cuda.table import BY_NAME

if SIMULATED:  # a barrier costs milliseconds there: small blocks, and short columns to overflow
    _SHAPES = {size: ((1, 8, 8, True), (4, 4, 8, True), (8, 8, 16, False)) for size in (4, 8)}
else:
    # (width, block, slots, resident): a thread a row, a warp a row, a block a row.
    _SHAPES = {
        4: ((1, 64, 32, True), (32, 128, 32, True), (256, 256, 16, False)),
        8: ((1, 64, 32, True), (32, 128, 32, True), (256, 256, 8, False)),
    }

_MOST_BLOCKS = 1 << 20
"""Blocks of a launch; each goes on to further rows."""


def teams(T: Any) -> tuple[Team, ...]:
    """The teams that rows of a type are given to, for the shortest rows first."""
    return tuple(Team(T, *shape) for shape in _SHAPES[np.dtype(T).itemsize])


def team_for(T: Any, d: int) -> Team:
    return next(team for team in teams(T) if d <= team.longest)


@functools.cache
def _made(operation: str, make: Callable | None, team: Team) -> Callable:
    return getattr(_loops, f"{operation}_loop")(make, team)


_PART = {
    "forward": "make",
    "vjp": "vjp",
    "jacobian": "vjp",
    "dpar": "dpar",
    "label_loss": "label",
    "soft_loss": "soft",
}


def kernel_of(operation: str, name: str, team: Team) -> Callable:
    """The kernel of a mapping for one kind of team; Numba compiles it for each dtype."""
    part = _PART.get(operation)
    return _made(operation, None if part is None else getattr(BY_NAME[name], part), team)


def dtype_of(array: Any, name: str = "X") -> np.dtype:
    """NumPy's name for the dtype of a device array."""
    array = imported(array)
    library = library_of(array, name)
    return library.dtype(library.ready(array, name))


class DeviceParameter:
    """An alpha or budget that is on the device: one value, or one a row, in row order."""

    def __init__(self, values: Any) -> None:
        self.values = values


def parameter(value: Any, name: str, shape: tuple[int, ...], axis: int) -> DeviceParameter:
    """Check the shape of a parameter that is on the device; its values are not looked at."""
    value = imported(value)
    library = library_of(value, name)
    library.dtype(library.ready(value, name))
    if math.prod(value.shape) == 1 and len(value.shape) <= len(shape):
        return DeviceParameter(value)
    wanted = (*shape[:axis], 1, *shape[axis + 1 :])
    try:
        np.broadcast_shapes(tuple(value.shape), wanted)
        if len(value.shape) > len(wanted):
            raise ValueError
        values = library.broadcast(value, wanted)
    except ValueError:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}: it must be a scalar or broadcast to {wanted}, "
            f"one value a row of X (length 1 along axis {axis})"
        ) from None
    return DeviceParameter(values)


def _domain(name: str, d: int) -> tuple[float, float]:
    if name == "budget":
        return 0.0, float(d)
    return (1.0 if name == "normmax" else 5e-324), math.inf


def parameter_arguments(name: str, par: Any, T: Any, d: int, n: int, like: Any) -> tuple:
    """(alpha, alpha - 1, par): the difference is taken in float64, before it is rounded."""
    if isinstance(par, DeviceParameter):
        pairs = library_of(like).empty((2, n), np.dtype(T), like)
        size = math.prod(par.values.shape)
        arguments = (view(par.values, (size,)), *_domain(name, d), view(pairs, (2, n)))
        start(_loops.parameter_pairs, -(-n // 128), 128, like, arguments)
        return T(0), T(0), view(pairs, (2, n))
    with np.errstate(all="ignore"):
        values = np.stack([par, par - 1.0]).astype(T)
    if par.size == 1:
        return values[0, 0], values[1, 0], view(like, (2, 0), T)
    return T(0), T(0), view(library_of(like).upload(values, like), values.shape)


def start(kernel: Callable, blocks: int, block: int, like: Any, arguments: tuple) -> None:
    if SIMULATED:
        with np.errstate(all="ignore"):
            kernel[min(blocks, 3), min(block, 8)](*arguments)
    else:
        kernel[min(blocks, _MOST_BLOCKS), block, launch_stream(like)](*arguments)


class Rows:
    """Inputs of one operation, as rows: checked to belong together, contiguous."""

    def __init__(self, inputs: Sequence[Any], axis: int) -> None:
        self.inputs = [imported(a) for a in inputs]
        first = self.inputs[0]
        self.library = library_of(first)
        for other in self.inputs[1:]:
            if not self.library.owns(other):
                raise TypeError(
                    f"got a {type(other).__name__} beside a {type(first).__name__}: arrays of one "
                    "call must belong to one library and be on one device"
                )
            mine, its = self.library.device(first), self.library.device(other)
            if mine != its:
                raise ValueError(f"arrays are on devices {mine} and {its}: they must be on one")
        self.first = first
        self.shape = tuple(first.shape)
        self.d = self.shape[axis]
        self.n = math.prod(self.shape) // self.d if self.d else 0
        self.axis = axis

    @property
    def is_last(self) -> bool:
        return self.axis == len(self.shape) - 1

    def run(self, operation: str, name: str, par: Any, work: np.dtype, result: Any, width: tuple):
        """Launch the kernel of a mapping on the rows; result (n, *width)."""
        T = work.type
        team = team_for(T, self.d)
        kernel = kernel_of(operation, name, team)
        # Not by name but by reference: what is copied here must live until the launch.
        rows = [self.library.last(a, self.axis) for a in self.inputs]
        arguments = (
            *(view(a, (self.n, self.d)) for a in rows),
            *parameter_arguments(name, par, T, self.d, self.n, result),
            view(result, (self.n, *width)),
        )
        if operation == "forward":
            arguments += (view(result, (2, 0), work),)
        start(kernel, -(-self.n // team.rows), team.block, result, arguments)


def work_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype.itemsize < 8 and dtype.kind == "f" else np.float64)


def map_rows(
    name: str,
    operation: str,
    inputs: Sequence[Any],
    parameters: Sequence[Any],
    dtype: np.dtype,
    axis: int,
    out: Any = None,
) -> Any:
    """`_arrays.map_rows` for device arrays: one result of the inputs' shape."""
    if operation == "bisect":
        raise ValueError(
            "n_iter must be None for device arrays: bisection in steps is for comparison with the "
            "literature, on NumPy arrays"
        )
    rows = Rows(inputs, axis)
    library = rows.library
    target = None if out is None else imported(out)
    _check_out(target, library, rows.shape, dtype)
    with on_its_device(rows.first):
        if target is None:
            target = library.empty(rows.shape, dtype, rows.first)
        if rows.n:
            plain = rows.is_last and library.is_plain(target) and library.dtype(target) == dtype
            lead = (*rows.shape[:axis], *rows.shape[axis + 1 :])
            result = target if plain else library.empty((*lead, rows.d), dtype, rows.first)
            rows.run(operation, name, parameters[0], work_dtype(dtype), result, (rows.d,))
            if not plain:
                library.assign(target, axis, result)
    return out if out is not None else exported(target, inputs[0])


_NO_PARAMETER = np.ones(1)


def reduce_rows(
    mapping: Any,
    operation: str,
    inputs: Sequence[Any],
    parameters: Sequence[Any],
    dtype: np.dtype,
    axis: int,
) -> Any:
    """`_arrays.reduce_rows` for device arrays: one number a row, of length 1 along axis."""
    rows = Rows(inputs, axis)
    with on_its_device(rows.first):
        shape = (*rows.shape[:axis], 1, *rows.shape[axis + 1 :])
        result = rows.library.empty(shape, dtype, rows.first)
        if rows.n:
            par = parameters[0] if parameters else _NO_PARAMETER
            name = getattr(mapping, "name", "any")
            work = work_dtype(dtype_of(rows.inputs[-1]))
            rows.run(operation, name, par, work, result, ())
    return exported(result, inputs[0])


def jacobian(name: str, P: Any, par: Any, dtype: np.dtype, axis: int) -> Any:
    """`gradients._dense` for device arrays: (..., d, d), the normalised axis taken to the end."""
    rows = Rows((P,), axis)
    library, n, d = rows.library, rows.n, rows.d
    with on_its_device(rows.first):
        shape = (*rows.shape[:axis], *rows.shape[axis + 1 :], d, d)
        result = library.empty(shape, dtype, rows.first)
        if n:
            work = work_dtype(dtype)
            T = work.type
            team = team_for(T, d)
            contiguous = library.last(rows.first, axis)
            eye = library.upload(np.eye(d, dtype=work), rows.first)
            arguments = (
                view(contiguous, (n, d)),
                view(eye, (d, d)),
                *parameter_arguments(name, par, T, d, n, result),
                view(result, (n * d, d)),
            )
            kernel = kernel_of("jacobian", name, team)
            start(kernel, -(-n * d // team.rows), team.block, result, arguments)
    return exported(result, P)


def _check_out(out: Any, library: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if out is None:
        return
    if not library.owns(out):
        raise TypeError(f"out must be an array of X's library or None, got {type(out).__name__}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out has shape {tuple(out.shape)}: it must have the shape of X, {shape}")
    if not np.can_cast(dtype, library.dtype(out), "same_kind"):
        raise TypeError(
            f"out has dtype {library.dtype(out)}: a result of {dtype} cannot be cast to it"
        )
