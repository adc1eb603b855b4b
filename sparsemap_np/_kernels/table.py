"""The record of every mapping: the one place to add one.

A mapping is a handful of row functions. Everything else (functions, gradients, losses, tests) goes
from the records here, and the loops over rows are made from them on first use.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparsemap_np._kernels import _bisect, _fy, _loops, _slopes
from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._budget import budget_row
from sparsemap_np._kernels._entmax import entmax_row
from sparsemap_np._kernels._entmax15 import entmax15_row
from sparsemap_np._kernels._loops import simplex_row
from sparsemap_np._kernels._normmax import normmax_row
from sparsemap_np._kernels._sparsemax import sparsemax_row
from sparsemap_np._kernels._tsallis import softmax_row


@dataclass(frozen=True)
class Mapping:
    """Row functions of one mapping, and the kernels made from them.

    ``row(x, par, n_iter, bmax, p) -> (ref, lift)``, where the reduced score ``(x - ref) + lift``
    is what the mapping's scalar formula takes and the losses need,
    ``bisect_row(x, par, n_iter, normalise, bmax, p) -> (ref, lift)``,
    ``vjp_pair``: ``vjp_row(p, v, par, work, dx)``, ``vjp_rows(p, v, par, d, work, dx)``, the
    second for several short rows laid end to end, ``dpar_row(p, v, par) -> float``,
    ``label_loss_row(x, t, p, par, ref, lift) -> float``,
    ``soft_loss_row(x, y, scale, p, par, ref, lift) -> float``. ``alpha`` is the parameter of a
    mapping that has only one, NaN otherwise.
    """

    name: str
    alpha: float
    row: Callable
    vjp_pair: tuple[Callable, Callable]
    soft_loss_row: Callable
    label_loss_row: Callable | None = None
    dpar_row: Callable | None = None
    bisect_row: Callable | None = None

    @cached_property
    def parameter(self) -> NDArray:
        """The one parameter of the mapping, as the kernels take it."""
        return np.array([self.alpha])

    @cached_property
    def forward(self) -> Callable:
        return _loops.forward_loop(f"{self.name}.forward", self.row)

    @cached_property
    def bisect(self) -> Callable:
        return _loops.bisect_loop(f"{self.name}.bisect", self.bisect_row)

    @cached_property
    def vjp(self) -> Callable:
        return _loops.vjp_loop(f"{self.name}.vjp", *self.vjp_pair)

    @cached_property
    def dpar(self) -> Callable:
        return _loops.dpar_loop(f"{self.name}.dpar", self.dpar_row)

    @cached_property
    def jacobian(self) -> Callable:
        return _loops.jacobian_loop(f"{self.name}.jacobian", self.vjp_pair[0])

    @cached_property
    def label_loss(self) -> Callable:
        return _loops.label_loss_loop(f"{self.name}.label_loss", self.row, self.label_loss_row)

    @cached_property
    def bisect_label_loss(self) -> Callable:
        row = _loops.normalised(self.name, self.bisect_row)
        name = f"{self.name}.bisect_label_loss"
        return _loops.label_loss_loop(name, row, self.label_loss_row)

    @cached_property
    def bisect_soft_loss(self) -> Callable:
        row = _loops.normalised(self.name, self.bisect_row)
        return _loops.soft_loss_loop(f"{self.name}.bisect_soft_loss", row, self.soft_loss_row)

    @cached_property
    def soft_loss(self) -> Callable:
        return _loops.soft_loss_loop(f"{self.name}.soft_loss", self.row, self.soft_loss_row)


def _of_entmax(name: str, alpha: float, solve: Callable, vjp_pair: tuple) -> Mapping:
    """A member of the entmax family, whose loss has one form for every alpha."""
    return Mapping(
        name=name,
        alpha=alpha,
        row=simplex_row(name, solve),
        vjp_pair=vjp_pair,
        dpar_row=_slopes.entmax_dalpha,
        bisect_row=_bisect.entmax_bisect_row,
        label_loss_row=_fy.entmax_label_loss,
        soft_loss_row=_fy.entmax_soft_loss,
    )


SPARSEMAX = _of_entmax("sparsemax", 2.0, sparsemax_row, _slopes.sparsemax_vjp)
ENTMAX15 = _of_entmax("entmax15", 1.5, entmax15_row, _slopes.entmax15_vjp)
SOFTMAX = _of_entmax("softmax", 1.0, softmax_row, _slopes.entmax_vjp)
ARGMAX = _of_entmax("argmax", math.inf, argmax_row, _slopes.entmax_vjp)
ENTMAX = _of_entmax("entmax", math.nan, entmax_row, _slopes.entmax_vjp)
NORMMAX = Mapping(
    name="normmax",
    alpha=math.nan,
    row=simplex_row("normmax", normmax_row),
    vjp_pair=_slopes.normmax_vjp,
    dpar_row=_slopes.normmax_dalpha,
    bisect_row=_bisect.normmax_bisect_row,
    label_loss_row=_fy.normmax_label_loss,
    soft_loss_row=_fy.normmax_soft_loss,
)
BUDGET = Mapping(
    name="budget",
    alpha=math.nan,
    row=budget_row,
    vjp_pair=_slopes.budget_vjp,
    dpar_row=_slopes.budget_dbudget,
    bisect_row=_bisect.budget_bisect_row,
    soft_loss_row=_fy.budget_soft_loss,
)

MAPPINGS = (SPARSEMAX, ENTMAX15, SOFTMAX, ARGMAX, ENTMAX, NORMMAX, BUDGET)

BY_ALPHA = {mapping.alpha: mapping for mapping in (SOFTMAX, ENTMAX15, SPARSEMAX, ARGMAX)}
"""Values of alpha whose kernel is smaller than ``ENTMAX`` and gives the same bits."""
