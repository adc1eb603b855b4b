"""Domains of the mappings' own parameters, in one place: values, and the words for them."""

from numpy.typing import ArrayLike, NDArray

from sparsemap_np._arrays import as_parameter


def entmax_alpha(value: ArrayLike, shape: tuple[int, ...], axis: int) -> NDArray:
    """Alpha of the entmax family, checked, one value or one a row."""
    return as_parameter(value, "alpha", lambda a: a > 0, "> 0 (inf included)", shape, axis)


def normmax_alpha(value: ArrayLike, shape: tuple[int, ...], axis: int) -> NDArray:
    """Alpha of normmax, checked, one value or one a row."""
    return as_parameter(value, "alpha", lambda a: a >= 1, ">= 1 (inf included)", shape, axis)


def budget(value: ArrayLike, shape: tuple[int, ...], axis: int) -> NDArray:
    """The sum of a budget row, checked, one value or one a row."""
    d = shape[axis]
    allowed = f"in [0, {d}], the length of the normalised axis"
    return as_parameter(value, "budget", lambda b: (b >= 0) & (b <= d), allowed, shape, axis)
