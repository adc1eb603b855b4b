"""How a function becomes device code, with or without a device.

Functions of the device are inlined by NVVM, which keeps pairs of results in registers. Inlining
them in Numba (``inline="always"``) needs no driver to compile, but takes ten times as long.
"""

from collections.abc import Callable

from numba import config, cuda

SIMULATED = bool(config.ENABLE_CUDASIM)
"""Whether kernels run in Numba's simulator, which has no warps."""


def device(function: Callable) -> Callable:
    """A function of the device. The simulator calls it as it is."""
    return function if SIMULATED else cuda.jit(device=True, forceinline=True)(function)
