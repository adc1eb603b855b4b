"""Arguments: dtypes, axes, per-row parameters, ``out``, and how arrays reach the kernels.

Kernels take C-contiguous rows of float32 or float64. Arrays that are so already are handed over as
they are; any other layout, axis or dtype goes through `_across`.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, NDArray

from sparsemap_np._across import map_blocks
from sparsemap_np._device import launcher, on_device
from sparsemap_np._kernels._loops import ByLength
from sparsemap_np._threads import SERIAL_NS, run_tasks, thread_count
from sparsemap_np._writable import for_kernel

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


def result_dtype(dtype: np.dtype, name: str = "X") -> np.dtype:
    """Dtype of the result for scores of ``dtype``."""
    if dtype is _FLOAT64 or dtype is _FLOAT32:
        return dtype
    if dtype.kind == "f":
        return np.dtype(dtype.newbyteorder("=")) if dtype.itemsize <= 8 else _FLOAT64
    if dtype.kind in "iub":
        return _FLOAT64
    raise TypeError(
        f"{name} has dtype {dtype}: it must hold real numbers (floats, integers or booleans)"
    )


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype that kernels work in for results of ``dtype``: there is no float16 in Numba."""
    return _FLOAT32 if dtype.itemsize < 8 else _FLOAT64


def as_scores(X: ArrayLike, name: str = "X") -> tuple[NDArray, np.dtype]:
    """``X`` as an array of at least one dimension, and the dtype of results.

    A device array stays what it is: `map_rows` and `reduce_rows` know where to send it.
    """
    if type(X) is np.ndarray:
        dtype = X.dtype
        if dtype is not _FLOAT64 and dtype is not _FLOAT32:
            dtype = result_dtype(dtype, name)
    elif on_device(X):
        dtype = result_dtype(launcher().dtype_of(X, name), name)
    else:
        X = np.asarray(X)
        dtype = result_dtype(X.dtype, name)
    if X.ndim == 0:
        raise ValueError(f"{name} is 0-dimensional: it must have at least one dimension")
    return X, dtype


def matching(array: ArrayLike, shape: tuple[int, ...], name: str, other: str) -> NDArray:
    """An array of real numbers that must have the shape of another argument."""
    if type(array) is not np.ndarray and on_device(array):
        result_dtype(launcher().dtype_of(array, name), name)
    else:
        array = np.asarray(array)
        result_dtype(array.dtype, name)
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape}: it must have the shape of {other}, {shape}"
        )
    return array


def as_rows(array: NDArray, axis: int, work: np.dtype) -> tuple[NDArray, tuple[int, ...]]:
    """A contiguous copy or view of the rows along ``axis``, (n, d), and the other dimensions."""
    moved = np.moveaxis(array, axis, -1)
    *lead, d = moved.shape
    n = int(np.prod(lead, dtype=np.int64))
    rows = np.ascontiguousarray(moved, dtype=work).reshape(n, d)
    return for_kernel(rows), tuple(lead)


def as_axis(axis: int, ndim: int) -> int:
    """``axis`` as a non-negative index."""
    if type(axis) is int and -ndim <= axis < ndim:
        return axis if axis >= 0 else axis + ndim
    try:
        axis = operator.index(axis)
    except TypeError:
        raise TypeError(f"axis must be an integer, got {axis!r}") from None
    return normalize_axis_index(axis, ndim, "axis")


def as_count(value: int | None, name: str) -> int | None:
    """``None`` or an integer >= 1 (``k``, ``n_iter``)."""
    if value is None:
        return None
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1 or isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be None or an integer >= 1, got {value!r}")
    return count


def as_parameter(
    value: ArrayLike,
    name: str,
    valid: Callable[[Any], Any],
    allowed: str,
    shape: tuple[int, ...],
    axis: int,
) -> NDArray:
    """A per-row parameter as float64: (1,) for a scalar, else one value a row, in row order."""
    if type(value) in (float, int) and valid(value):
        return np.array([value], np.float64)
    if type(value) is not np.ndarray and on_device(value):
        return launcher().parameter(value, name, shape, axis)
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "fiub" and raw.dtype != object:
            raise TypeError
        par = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    good = valid(par)
    if not good.all():
        raise ValueError(f"{name} must be {allowed}, got {par[~good].flat[0]}")
    if par.ndim == 0 or par.size == 1 and par.ndim <= len(shape):
        return par.reshape(1)
    wanted = shape[:axis] + (1,) + shape[axis + 1 :]
    try:
        rows = np.broadcast_to(par, wanted)
    except ValueError:
        raise ValueError(
            f"{name} has shape {par.shape}: it must be a scalar or broadcast to {wanted}, "
            f"one value a row of X (length 1 along axis {axis})"
        ) from None
    return np.ascontiguousarray(np.moveaxis(rows, axis, -1)).reshape(-1)


def _plain_rows(array: NDArray, dtype: np.dtype, axis: int) -> NDArray | None:
    """The array itself as the (n, d) that kernels take, None where it has to be copied for that."""
    # Dtypes of different byte orders are not equal.
    if axis != array.ndim - 1 or not (array.dtype is dtype or array.dtype == dtype):
        return None
    flags = array.flags
    if not flags.carray:  # contiguous, aligned and writeable at once
        if not (flags.c_contiguous and flags.aligned):
            return None
        array = for_kernel(array)
    return _as_matrix(array)


def _as_matrix(array: NDArray) -> NDArray:
    """A C-contiguous array as (n, d), its last axis along the rows."""
    if array.ndim == 2:
        return array
    return array[None] if array.ndim == 1 else array.reshape(-1, array.shape[-1])


def check_out(out: NDArray | None, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise unless ``out`` can hold a result of this shape and dtype."""
    if out is None:
        return
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array or None, got {type(out).__name__}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}: it must have the shape of X, {shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"out has dtype {out.dtype}: a result of {dtype} cannot be cast to it")
    if not out.flags.writeable:
        raise ValueError("out is read-only: it must be writeable")


def _same_place(a: NDArray, b: NDArray) -> bool:
    return (
        a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and a.strides == b.strides
        and a.dtype == b.dtype
    )


def map_rows(
    mapping: Any,
    operation: str,
    inputs: Sequence[NDArray],
    parameters: Sequence[Any],
    dtype: np.dtype,
    axis: int,
    out: NDArray | None = None,
    cost: float = 1.0,
) -> NDArray:
    """An operation of a mapping on all rows along ``axis``.

    On the processor that is the kernel ``mapping.operation(*inputs, *parameters, result, start,
    stop)``; device arrays go to the kernel of the same name there. ``inputs`` have one common
    shape, which the result takes; a parameter that is an array longer than one holds a value for
    each row. ``cost`` is a guess of the nanoseconds per score.
    """
    X = inputs[0]
    if type(X) is not np.ndarray:
        return launcher().map_rows(mapping.name, operation, inputs, parameters, dtype, axis, out)
    kernel = getattr(mapping, operation)
    shape = X.shape
    d = shape[axis]
    if type(kernel) is ByLength:
        kernel = kernel.of(d)
    work = dtype if dtype is _FLOAT64 or dtype is _FLOAT32 else compute_dtype(dtype)
    # One row of ten scores takes 3 to 4 us, most of it on the way to the kernel: so a short way.
    if len(shape) == 1 and out is None and len(inputs) == 1 and 0 < d * cost < SERIAL_NS:
        if X.dtype is work is dtype and X.flags.carray:
            result = np.empty(shape, dtype)
            kernel(X[None], *parameters, result[None], 0, 1)
            return result
    if out is None:
        result = np.empty(shape, dtype)
    else:
        check_out(out, shape, dtype)
        result = out
        if any(np.may_share_memory(out, a) and not _same_place(out, a) for a in inputs):
            result[...] = map_rows(mapping, operation, inputs, parameters, dtype, axis, cost=cost)
            return result
    size = result.size
    if size == 0:
        return result
    fresh = out is None and work is dtype and axis == len(shape) - 1
    target = _as_matrix(result) if fresh else _plain_rows(result, work, axis)
    arguments = []
    for a in inputs:
        rows = _plain_rows(a, work, axis)
        if target is None or rows is None:
            columns = mapping.columns(operation, d)
            map_blocks(kernel, inputs, parameters, work, axis, result, cost, False, columns)
            return result
        arguments.append(rows)
    if size * cost < SERIAL_NS:
        kernel(*arguments, *parameters, target, 0, size // d)
    else:
        run_ranges(kernel, (*arguments, *parameters, target), size // d, d * cost)
    return result


def reduce_rows(
    mapping: Any,
    operation: str,
    inputs: Sequence[NDArray],
    parameters: Sequence[Any],
    work: np.dtype,
    axis: int,
    dtype: np.dtype,
    cost: float = 1.0,
) -> NDArray:
    """Like ``map_rows`` for a kernel whose result is one number a row (length 1 along axis).

    Kernels count in int64 and sum in float64.
    """
    if type(inputs[0]) is not np.ndarray:
        return launcher().reduce_rows(mapping, operation, inputs, parameters, dtype, axis)
    kernel = getattr(mapping, operation)
    shape = inputs[0].shape
    lead = shape[:axis] + shape[axis + 1 :]
    wide = np.int64 if dtype.kind == "i" else np.float64
    result = np.zeros(int(np.prod(lead, dtype=np.int64)), wide)
    d = shape[axis]
    if d and result.size:
        rows = [_plain_rows(a, work, axis) for a in inputs]
        if any(r is None for r in rows):
            map_blocks(kernel, inputs, parameters, work, axis, result, cost, True)
        else:
            run_ranges(kernel, (*rows, *parameters, result), result.size, d * cost)
    with np.errstate(all="ignore"):
        return np.expand_dims(result.reshape(lead), axis).astype(dtype, copy=False)


def run_ranges(kernel: Callable, arguments: tuple, n: int, row_ns: float) -> None:
    """``kernel(*arguments, start, stop)`` over n rows, split among threads when that pays."""
    if n * row_ns < SERIAL_NS or n == 1 or (threads := thread_count()) == 1:
        kernel(*arguments, 0, n)
        return
    # A few pieces a thread, so that uneven rows even out.
    pieces = min(n, 4 * threads)
    bounds = [n * i // pieces for i in range(pieces + 1)]
    run_tasks(lambda i: kernel(*arguments, bounds[i], bounds[i + 1]), pieces)
