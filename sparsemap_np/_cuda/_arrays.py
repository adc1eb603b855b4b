"""The libraries that device arrays come from: their memory, their streams, nothing copied.

One class for each library. What the launcher needs from a library is to see its memory as rows, to
make arrays of its kind, and to name the stream that the caller works on.
"""

import contextlib
import importlib
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda

from sparsemap_np._cuda._compile import SIMULATED
from sparsemap_np._device import chosen_stream


class Torch:
    """CUDA tensors."""

    @staticmethod
    def owns(array: Any) -> bool:
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(array, torch.Tensor)

    @staticmethod
    def dtype(array: Any) -> np.dtype:
        name = str(array.dtype).removeprefix("torch.")
        try:
            return np.dtype(name)
        except TypeError:
            raise TypeError(
                f"a tensor has dtype {name}: it must be float16, float32, float64, an integer "
                "type or bool"
            ) from None

    @staticmethod
    def ready(array: Any, name: str) -> Any:
        if array.requires_grad:
            raise TypeError(
                f"{name} requires grad: wrap the mapping and its vjp in a torch.autograd.Function "
                f"(docs/gpu.md has one to copy), or pass {name}.detach()"
            )
        return array

    @staticmethod
    def empty(shape: Sequence[int], dtype: np.dtype, like: Any) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype.name), device=like.device)

    @staticmethod
    def upload(host: np.ndarray, like: Any) -> Any:
        torch = sys.modules["torch"]
        return torch.from_numpy(host).to(like.device, non_blocking=True)

    @staticmethod
    def broadcast(array: Any, shape: Sequence[int]) -> Any:
        """One value a row, in row order: the axis of the rows has length 1 in ``shape``."""
        return array.expand(tuple(shape)).contiguous()

    @staticmethod
    def last(array: Any, axis: int) -> Any:
        """The axis taken to the end, C-contiguous: the array itself if it is so."""
        return array.movedim(axis, -1).contiguous()

    @staticmethod
    def assign(target: Any, axis: int, rows: Any) -> None:
        """Write what ``last`` laid out back to where it belongs."""
        target.movedim(axis, -1).copy_(rows)

    @staticmethod
    def is_plain(array: Any) -> bool:
        return array.is_contiguous()

    @staticmethod
    def stream(array: Any) -> int:
        return sys.modules["torch"].cuda.current_stream(array.device).cuda_stream

    @staticmethod
    def device(array: Any) -> int:
        return array.device.index


class CuPy:
    """CuPy arrays."""

    @staticmethod
    def owns(array: Any) -> bool:
        cupy = sys.modules.get("cupy")
        return cupy is not None and isinstance(array, cupy.ndarray)

    @staticmethod
    def dtype(array: Any) -> np.dtype:
        return np.dtype(array.dtype)

    @staticmethod
    def ready(array: Any, name: str) -> Any:
        return array

    @staticmethod
    def empty(shape: Sequence[int], dtype: np.dtype, like: Any) -> Any:
        return sys.modules["cupy"].empty(tuple(shape), dtype)

    @staticmethod
    def upload(host: np.ndarray, like: Any) -> Any:
        return sys.modules["cupy"].asarray(host)

    @staticmethod
    def broadcast(array: Any, shape: Sequence[int]) -> Any:
        cupy = sys.modules["cupy"]
        return cupy.ascontiguousarray(cupy.broadcast_to(array, tuple(shape)))

    @staticmethod
    def last(array: Any, axis: int) -> Any:
        cupy = sys.modules["cupy"]
        return cupy.ascontiguousarray(cupy.moveaxis(array, axis, -1))

    @staticmethod
    def assign(target: Any, axis: int, rows: Any) -> None:
        sys.modules["cupy"].moveaxis(target, axis, -1)[...] = rows

    @staticmethod
    def is_plain(array: Any) -> bool:
        return array.flags.c_contiguous

    @staticmethod
    def stream(array: Any) -> int:
        return sys.modules["cupy"].cuda.get_current_stream().ptr

    @staticmethod
    def device(array: Any) -> int:
        return array.device.id


@cuda.jit
def _take(flat, shape, steps, rows):
    """``rows.ravel()[i]`` from the place of entry i in an array of any strides (in entries)."""
    for i in range(cuda.grid(1), rows.shape[0], cuda.gridsize(1)):
        rest = i
        place = 0
        for k in range(shape.shape[0] - 1, -1, -1):
            place += (rest % shape[k]) * steps[k]
            rest //= shape[k]
        rows[i] = flat[place]


@cuda.jit
def _put(flat, shape, steps, rows):
    """The inverse of ``_take``."""
    for i in range(cuda.grid(1), rows.shape[0], cuda.gridsize(1)):
        rest = i
        place = 0
        for k in range(shape.shape[0] - 1, -1, -1):
            place += (rest % shape[k]) * steps[k]
            rest //= shape[k]
        flat[place] = rows[i]


class Numba:
    """Numba device arrays; the library has no operations of its own, so two kernels move axes."""

    @staticmethod
    def owns(array: Any) -> bool:
        return hasattr(array, "__cuda_ndarray__")

    @staticmethod
    def dtype(array: Any) -> np.dtype:
        return np.dtype(array.dtype)

    @staticmethod
    def ready(array: Any, name: str) -> Any:
        return array

    @staticmethod
    def empty(shape: Sequence[int], dtype: np.dtype, like: Any) -> Any:
        return cuda.device_array(tuple(shape), dtype, stream=like.stream)

    @staticmethod
    def upload(host: np.ndarray, like: Any) -> Any:
        return cuda.to_device(host, stream=like.stream)

    @classmethod
    def broadcast(cls, array: Any, shape: Sequence[int]) -> Any:
        if math.prod(array.shape) != math.prod(shape):
            raise ValueError("Numba device arrays do not broadcast")
        return cls.last(array, array.ndim - 1)

    @classmethod
    def last(cls, array: Any, axis: int) -> Any:
        if axis == array.ndim - 1 and cls.is_plain(array):
            return array
        shape = (*array.shape[:axis], *array.shape[axis + 1 :], array.shape[axis])
        rows = cls.empty(shape, cls.dtype(array), array)
        cls._move(_take, array, axis, rows)
        return rows

    @classmethod
    def assign(cls, target: Any, axis: int, rows: Any) -> None:
        cls._move(_put, target, axis, rows)

    @classmethod
    def _move(cls, kernel: Any, array: Any, axis: int, rows: Any) -> None:
        steps = [step // array.dtype.itemsize for step in array.strides]
        if min(steps) < 0:
            raise ValueError("a Numba device array must not have negative strides: copy it first")
        shape = list(array.shape)
        span = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
        shape.append(shape.pop(axis))
        steps.append(steps.pop(axis))
        layout = [cls.upload(np.array(v, np.int64), array) for v in (shape, steps)]
        blocks = min(1 << 16, -(-rows.size // 256))
        stream = launch_stream(array)
        arguments = (view(array, (span,)), *layout, view(rows, (rows.size,)))
        kernel[(min(blocks, 2), 8) if SIMULATED else (blocks, 256, stream)](*arguments)

    @staticmethod
    def is_plain(array: Any) -> bool:
        return array.flags["C_CONTIGUOUS"] if SIMULATED else array.is_c_contiguous()

    @staticmethod
    def stream(array: Any) -> int:
        return getattr(array.stream, "handle", array.stream)

    @staticmethod
    def device(array: Any) -> int | None:
        return None  # always that of the current context


class Jax:
    """JAX arrays, by way of CuPy and DLPack: both see the same memory."""

    @staticmethod
    def owns(array: Any) -> bool:
        return type(array).__module__.split(".")[0] in ("jax", "jaxlib")


LIBRARIES = (Torch, CuPy, Numba)


def library_of(array: Any, name: str = "X") -> Any:
    """The class that knows an array's library."""
    for library in LIBRARIES:
        if library.owns(array):
            return library
    kind = f"{type(array).__module__}.{type(array).__qualname__}"
    raise TypeError(
        f"{name} is a device array of type {kind}: it must be a torch tensor, a CuPy array, a "
        "Numba device array or a JAX array"
    )


def imported(array: Any) -> Any:
    """A JAX array as a CuPy array on the same memory; any other array as it is."""
    if not Jax.owns(array):
        return array
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ImportError(
            "JAX arrays pass through CuPy, which is not installed: pip install cupy-cuda13x"
        ) from error
    return cupy.from_dlpack(array)


def exported(result: Any, like: Any) -> Any:
    """The inverse of ``imported`` for a result."""
    if not Jax.owns(like):
        return result
    if isinstance(result, tuple):
        return tuple(exported(r, like) for r in result)
    return importlib.import_module("jax").dlpack.from_dlpack(result)


def view(array: Any, shape: Sequence[int], dtype: np.dtype | None = None) -> Any:
    """The memory of an array of any library from its start, as a kernel takes it."""
    library = library_of(array)
    dtype = library.dtype(array) if dtype is None else np.dtype(dtype)
    steps = tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    if SIMULATED:
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        host = np.asarray(getattr(array, "_ary", array))
        if math.prod(shape) == 0:
            return FakeCUDAArray(np.empty(shape, dtype))
        return FakeCUDAArray(np.lib.stride_tricks.as_strided(host, tuple(shape), steps))
    pointer = cuda.as_cuda_array(array, sync=False)
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    return DeviceNDArray(tuple(shape), steps, dtype, gpu_data=pointer.gpu_data)


def launch_stream(array: Any) -> Any:
    """The stream to launch on: the one chosen by `cuda_stream`, or the caller's current one."""
    if SIMULATED:
        return 0
    stream = chosen_stream()
    if stream is None:
        stream = library_of(array).stream(array)
    for name in ("ptr", "cuda_stream", "handle"):
        stream = getattr(stream, name, stream)
    address = int(getattr(stream, "value", stream) or 0)
    return cuda.external_stream(address) if address else cuda.default_stream()


def on_its_device(array: Any) -> contextlib.AbstractContextManager:
    """A context in which the device of the array is the current one."""
    number = None if SIMULATED else library_of(array).device(array)
    return contextlib.nullcontext() if number is None else cuda.gpus[number]
