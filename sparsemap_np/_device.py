"""Whether an array lives on a GPU, and the way to the code for it: nothing CUDA is imported before.

A NumPy array never leaves the processor, and a device array never comes to it.
"""

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import Any

_HELP = (
    "it needs an NVIDIA GPU with its driver, and numba-cuda: pip install 'sparsemap_np[cuda13]' "
    "(or [cuda12], to match the driver; [cuda] where a CUDA toolkit is installed)"
)

_stream: ContextVar[Any] = ContextVar("sparsemap_np_stream", default=None)


def on_device(array: Any) -> bool:
    """Whether an argument holds its numbers in the memory of a GPU."""
    return (
        hasattr(array, "__cuda_array_interface__")
        or hasattr(array, "__cuda_ndarray__")
        or getattr(array, "is_cuda", False) is True
    )


def _cuda() -> ModuleType:
    """``numba.cuda`` with a device that answers, or an error with advice."""
    config = importlib.import_module("numba").config
    # Built-in numba.cuda is a deprecated stand-in that lacks options; its simulator serves.
    if not config.ENABLE_CUDASIM and importlib.util.find_spec("numba_cuda") is None:
        raise ImportError(f"numba-cuda is not installed; to work on device arrays {_HELP}")
    try:
        cuda = importlib.import_module("numba.cuda")
        available = cuda.is_available()
    except Exception as error:
        raise ImportError(f"numba-cuda cannot be used ({error}); {_HELP}") from error
    if not available:
        raise RuntimeError(f"no CUDA device is available; to work on device arrays {_HELP}")
    return cuda


def cuda_is_available() -> bool:
    """Whether the functions of this package can work on device arrays here. Never raises.

    Returns
    -------
    bool
        True when numba-cuda, a driver and a GPU are there.

    Examples
    --------
    >>> from sparsemap_np import cuda_is_available
    >>> cuda_is_available() in (True, False)
    True
    """
    try:
        _cuda()
    except Exception:
        return False
    return True


def launcher() -> ModuleType:
    """The functions that run kernels on device arrays."""
    _cuda()
    return importlib.import_module("sparsemap_np._cuda.interface")


@contextlib.contextmanager
def cuda_stream(stream: Any) -> Iterator[None]:
    """Run the kernels of device arrays on a given stream instead of the caller's current one.

    Without it they run on the current stream of the array's own library (torch, CuPy), or on the
    stream that a Numba device array is bound to.

    Parameters
    ----------
    stream : int or object
        The address of a CUDA stream, or an object that has it as ``ptr`` (CuPy), ``cuda_stream``
        (torch) or ``handle`` (Numba).

    Examples
    --------
    >>> from sparsemap_np import cuda_stream, sparsemax
    >>> with cuda_stream(0):  # NumPy arrays know no streams
    ...     sparsemax([0.0, 0.5])
    array([0.25, 0.75])
    """
    token = _stream.set(stream)
    try:
        yield
    finally:
        _stream.reset(token)


def chosen_stream() -> Any:
    """The stream of the innermost `cuda_stream`, None outside."""
    return _stream.get()
