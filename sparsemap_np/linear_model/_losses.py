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
from sparsemap_np._kernels.table import Mapping, plainly

_ONE = np.ones(1)


@dataclass(frozen=True)
class JacobianForm:
    """How to find a mapping's Jacobian from its probabilities; see `_kernels._hessian`.

    Attributes
    ----------
    alpha : float
        Slopes are p^(2 - alpha).
    norm : bool
        Whether the mapping is normmax.
    upper : float
        Probabilities from here on do not move: of a budget, which may fill several classes.
    """

    alpha: float
    norm: bool = False
    upper: float = np.inf


@dataclass(frozen=True)
class Residuals:
    """What a loss says of a block of rows.

    Attributes
    ----------
    losses : ndarray of shape (n,)
        Weighted losses, float64.
    D : ndarray of shape (n, n_classes)
        Their gradients, ``weight * (P - Y)``.
    support : ndarray of shape (n,)
        Classes that are not zero.
    """

    losses: NDArray
    D: NDArray
    support: NDArray

    @classmethod
    def empty(cls, n: int, n_classes: int, dtype: Any) -> Residuals:
        """Make room.

        Parameters
        ----------
        n, n_classes : int
            Shape of the block.
        dtype : dtype
            Type of the scores.

        Returns
        -------
        Residuals
            Not yet filled.
        """
        D = np.empty((n, n_classes), dtype)
        return cls(np.empty(n), D, np.empty(n, np.int64))

    def __getitem__(self, rows: slice) -> Residuals:
        """Room for some of the rows."""
        return Residuals(self.losses[rows], self.D[rows], self.support[rows])

    def live_rows(self) -> NDArray:
        """Rows that have residuals: those of labels that hold all probability have none.

        Returns
        -------
        ndarray of int
            In ascending order.
        """
        return np.flatnonzero((self.support > 1) | (self.losses != 0.0))


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

    @property
    def jacobian(self) -> JacobianForm | None:
        """The mapping's Jacobian; None where it is unknown, or zero wherever it exists."""
        if self.kernels is None or self.parameter is None:
            return None
        alpha = float(self.parameter[0])
        if self.kernels is table.BUDGET:
            return JacobianForm(2.0, upper=1.0 - 1e-6)
        norm = self.kernels is table.NORMMAX
        if alpha == np.inf or (norm and alpha == 1.0):
            return None
        return JacobianForm(alpha, norm=norm)

    @property
    def one_hot_gap(self) -> float:
        """A lead of the first score over the second that leaves no probability to the second."""
        if self.kernels is None or self.parameter is None or self.kernels.one_hot_lead is None:
            return np.inf
        return plainly(self.kernels.one_hot_lead)(float(self.parameter[0]))

    def residuals(
        self, scores: NDArray, y: NDArray, weight: NDArray | None, into: Residuals
    ) -> None:
        """Compute losses and residuals of a block of rows whose targets have been checked.

        Parameters
        ----------
        scores : ndarray of shape (n, n_classes)
            Scores.
        y : ndarray of shape (n,) or (n, n_classes)
            Labels (int64), or distributions in the scores' type.
        weight : ndarray of shape (n,) or None
            Weights, float64.
        into : Residuals
            Where the results go.
        """
        if self.kernels is None:
            losses, D = self.loss(scores, y, sample_weight=weight, return_grad=True)
            into.losses[:] = losses
            into.D[...] = D
            into.support[:] = scores.shape[1]
            return
        n = len(scores)
        scales = _ONE if weight is None else weight
        results = (into.losses, into.support, into.D, 0, n)
        if y.ndim == 1:
            self.kernels.label_loss(scores, 0, y, self.parameter, scales, *results)
        else:
            budget = self.kernels is table.BUDGET
            totals = y.sum(axis=1, dtype=np.float64) if budget else _ONE
            parameter = totals if budget else self.parameter
            self.kernels.soft_loss(scores, 0, y, totals, parameter, scales, *results)
        if weight is not None:
            # A weight of zero removes the row, also one with an infinite loss.
            np.multiply(into.losses, weight, out=into.losses, where=weight > 0)
            into.losses[weight == 0] = 0.0


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
        record = table.entmax_kernel(parameter) if name == "entmax" else entry.kernels
    return FenchelYoung(
        partial(entry.mapping, **bound), partial(entry.loss, **bound), record, parameter
    )
