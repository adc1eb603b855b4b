"""The losses that a linear model can be trained with: one table, one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsemap_np import losses, mappings
from sparsemap_np._kernels import table
from sparsemap_np._kernels.table import Mapping


@dataclass(frozen=True)
class FenchelYoung:
    """A loss and the mapping that its minimiser predicts with, alpha filled in.

    Attributes
    ----------
    mapping : callable
        ``mapping(scores, out=None)`` gives a probability row for each row of scores.
    loss : callable
        ``loss(scores, y, **options)``, with the keywords of `sparsemap_np.losses`.
    kernels : sparsemap_np._kernels.table.Mapping or None
        Record of the mapping's kernels. With it a fit checks its targets once instead of in
        every block, and the Newton solver finds the curvature. None: `loss` serves.
    parameter : ndarray of shape (1,) or None
        The mapping's parameter as the kernels take it.
    """

    mapping: Callable[..., Any]
    loss: Callable[..., Any]
    kernels: Mapping | None = None
    parameter: NDArray | None = None


@dataclass(frozen=True)
class _Entry:
    """The functions behind a loss's name, and the smallest alpha they take, if any."""

    mapping: Callable[..., Any]
    loss: Callable[..., Any]
    kernels: Mapping
    fixed_alpha: float | None = None
    takes_alpha: bool = False
    least_alpha: float = 0.0


_TABLE = {
    "sparsemax": _Entry(mappings.sparsemax, losses.sparsemax_loss, table.SPARSEMAX),
    "entmax15": _Entry(mappings.entmax15, losses.entmax15_loss, table.ENTMAX15),
    "entmax": _Entry(mappings.entmax, losses.entmax_loss, table.ENTMAX, takes_alpha=True),
    "normmax": _Entry(
        mappings.normmax_bisect,
        losses.normmax_bisect_loss,
        table.NORMMAX,
        takes_alpha=True,
        least_alpha=1.0,
    ),
    "logistic": _Entry(mappings.entmax, losses.entmax_loss, table.SOFTMAX, fixed_alpha=1.0),
}

LOSS_NAMES = tuple(_TABLE)


def fenchel_young(name: str, alpha: float) -> FenchelYoung:
    """Look up a loss by name and bind alpha where it has one.

    Parameters
    ----------
    name : str
        One of `LOSS_NAMES`.
    alpha : float
        Ignored by the losses without a free alpha.

    Returns
    -------
    FenchelYoung
        The bound functions.

    Raises
    ------
    ValueError
        If alpha lies outside the domain of the loss.
    """
    entry = _TABLE[name]
    if entry.takes_alpha and alpha < entry.least_alpha:
        raise ValueError(
            f"The 'alpha' parameter must be at least {entry.least_alpha:g} for loss={name!r}. "
            f"Got {alpha!r} instead."
        )
    if not entry.takes_alpha:
        bound = {} if entry.fixed_alpha is None else {"alpha": entry.fixed_alpha}
        record, parameter = entry.kernels, entry.kernels.parameter
    else:
        bound = {"alpha": alpha}
        parameter = np.array([alpha], dtype=np.float64)
        record = mappings.entmax_kernel(parameter) if name == "entmax" else entry.kernels
    return FenchelYoung(
        partial(entry.mapping, **bound), partial(entry.loss, **bound), record, parameter
    )
