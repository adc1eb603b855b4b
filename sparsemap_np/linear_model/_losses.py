"""The losses that a linear model can be trained with: one table, one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparsemap_np import losses, mappings


@dataclass(frozen=True)
class FenchelYoung:
    """A loss and the mapping that its minimiser predicts with, alpha filled in.

    Attributes
    ----------
    mapping : callable
        ``mapping(scores, out=None)`` gives a probability row for each row of scores.
    loss : callable
        ``loss(scores, y, **options)``, with the keywords of `sparsemap_np.losses`.
    """

    mapping: Callable[..., Any]
    loss: Callable[..., Any]


@dataclass(frozen=True)
class _Entry:
    """The functions behind a loss's name, and the smallest alpha they take, if any."""

    mapping: Callable[..., Any]
    loss: Callable[..., Any]
    fixed_alpha: float | None = None
    takes_alpha: bool = False
    least_alpha: float = 0.0


_TABLE = {
    "sparsemax": _Entry(mappings.sparsemax, losses.sparsemax_loss),
    "entmax15": _Entry(mappings.entmax15, losses.entmax15_loss),
    "entmax": _Entry(mappings.entmax, losses.entmax_loss, takes_alpha=True),
    "normmax": _Entry(
        mappings.normmax_bisect, losses.normmax_bisect_loss, takes_alpha=True, least_alpha=1.0
    ),
    "logistic": _Entry(mappings.entmax, losses.entmax_loss, fixed_alpha=1.0),
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
    bound = alpha if entry.takes_alpha else entry.fixed_alpha
    if bound is None:
        return FenchelYoung(entry.mapping, entry.loss)
    return FenchelYoung(partial(entry.mapping, alpha=bound), partial(entry.loss, alpha=bound))
