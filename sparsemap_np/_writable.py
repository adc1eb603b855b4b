"""Arrays in the one form that kernels are compiled for."""

import numpy as np
from numpy.typing import NDArray


class _Writable:
    """The memory of a read-only array without its flag: kernels would be compiled again for it."""

    def __init__(self, array: NDArray) -> None:
        self._base = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def for_kernel(array: NDArray) -> NDArray:
    """An input (never written to) in the one form that kernels are compiled for."""
    return array if array.flags.writeable else np.asarray(_Writable(array))
