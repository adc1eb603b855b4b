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

from sparsemap_np._kernels import _bisect, _columns, _dalpha, _fy, _loops, _normmax_slopes, _slopes
from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._budget import budget_row
from sparsemap_np._kernels._budget_lanes import budget_rows
from sparsemap_np._kernels._compile import scalar
from sparsemap_np._kernels._dense import dense_row
from sparsemap_np._kernels._entmax15 import (
    entmax15_descent,
    entmax15_lanes,
    entmax15_lockstep,
    entmax15_row,
)
from sparsemap_np._kernels._lanes import lanes_rows
from sparsemap_np._kernels._loops import everything, simplex_row
from sparsemap_np._kernels._normmax import normmax_row
from sparsemap_np._kernels._normmax_lanes import normmax_lanes
from sparsemap_np._kernels._softmax import softmax_lanes, softmax_row
from sparsemap_np._kernels._sparsemax import (
    sparsemax_descent,
    sparsemax_lanes,
    sparsemax_lockstep,
    sparsemax_row,
)
from sparsemap_np._kernels._steep import steep_row
from sparsemap_np._kernels._steep_lanes import steep_lanes
from sparsemap_np._kernels._tsallis import power_row, tsallis_row
from sparsemap_np._kernels._tsallis_lanes import power_lanes, tsallis_lanes


@dataclass(frozen=True)
class Mapping:
    """Row functions of one mapping, and the kernels made from them.

    ``row(x, par, n_iter, bmax, p) -> (ref, lift)``, where the reduced score ``(x - ref) + lift``
    is what the mapping's scalar formula takes and the losses need,
    ``bisect_row(x, par, n_iter, normalise, bmax, p) -> (ref, lift)``,
    ``vjp_pair``: ``vjp_row(p, v, par, work, dx)``, and ``vjp_rows(p, v, par, d, work, dx)`` for
    one or several short rows laid end to end, ``dpar_row(p, v, par) -> float``,
    ``label_loss_row(x, t, p, par, ref, lift) -> float``,
    ``soft_loss_row(x, y, scale, p, par, ref, lift) -> float``. ``one_hot_lead(par)`` is the lead
    over the second beyond which the first score holds all probability. ``alpha`` is the parameter
    of a mapping that has only one, NaN otherwise. ``short_rows`` solves short rows side by side,
    as a ``Plan`` does, and ``block_rows`` rows of one block in lockstep, where a mapping has them.
    ``serves(par)`` tells which parameters the solvers take; kernels leave the rows with others to
    the record that does. ``descent`` solves rows that lie across the memory where they are.
    """

    name: str
    alpha: float
    row: Callable
    vjp_pair: tuple[Callable, Callable]
    soft_loss_row: Callable
    serves: Callable = everything
    short_rows: Callable | None = None
    block_rows: Callable | None = None
    label_loss_row: Callable | None = None
    one_hot_lead: Callable | None = None
    dpar_row: Callable | None = None
    bisect_row: Callable | None = None
    descent: _columns.Descent | None = None

    @cached_property
    def parameter(self) -> NDArray:
        """The one parameter of the mapping, as the kernels take it."""
        return np.array([self.alpha])

    def _by_length(self, loop: Callable, name: str, *functions: Callable) -> _loops.ByLength:
        """The kernels of a loop that solves rows, one for each way that rows are solved."""

        def make(prefix: str, plan: _loops.Plan) -> Callable:
            return loop(f"{self.name}.{prefix}{name}", plan, *functions, self.serves)

        return _loops.ByLength(
            None if self.short_rows is None else lambda: make("short_", self._short_plan),
            None if self.block_rows is None else lambda: make("block_", self._block_plan),
            lambda: make("", self._long_plan),
        )

    @cached_property
    def _short_plan(self) -> _loops.Plan:
        return _loops.short_plan(self.short_rows)

    @cached_property
    def _block_plan(self) -> _loops.Plan:
        return _loops.block_plan(self.block_rows)

    @cached_property
    def _long_plan(self) -> _loops.Plan:
        return _loops.long_plan(self.name, self.row)

    @cached_property
    def _bisect_plan(self) -> _loops.Plan:
        name = f"{self.name}.bisect"
        return _loops.long_plan(name, _loops.normalised(name, self.bisect_row))

    @cached_property
    def forward(self) -> Callable:
        return self._by_length(_loops.forward_loop, "forward")

    @cached_property
    def bisect(self) -> Callable:
        return _loops.bisect_loop(f"{self.name}.bisect", self.bisect_row)

    @cached_property
    def vjp(self) -> Callable:
        return _loops.vjp_loop(f"{self.name}.vjp", *self.vjp_pair)

    def columns(self, operation: str, d: int) -> Callable | None:
        """The kernel for rows of d that lie side by side across the memory, if there is one."""
        if not _columns.LONG <= d < _columns.LONGEST:
            return None
        if operation == "vjp":
            return self._vjp_columns
        return self._forward_columns if operation == "forward" else None

    @cached_property
    def _forward_columns(self) -> Callable | None:
        return self.descent and _columns.forward_columns(self.name, self.descent)

    @cached_property
    def _vjp_columns(self) -> Callable:
        return _columns.vjp_columns(f"{self.name}.vjp", self.vjp_pair[0])

    @cached_property
    def dpar(self) -> Callable:
        return _loops.dpar_loop(f"{self.name}.dpar", self.dpar_row)

    @cached_property
    def jacobian(self) -> Callable:
        return _loops.jacobian_loop(f"{self.name}.jacobian", *self.vjp_pair)

    @cached_property
    def label_loss(self) -> Callable:
        functions = self.label_loss_row, self.one_hot_lead
        return self._by_length(_loops.label_loss_loop, "label_loss", *functions)

    @cached_property
    def soft_loss(self) -> Callable:
        return self._by_length(_loops.soft_loss_loop, "soft_loss", self.soft_loss_row)

    @cached_property
    def bisect_label_loss(self) -> Callable:
        name = f"{self.name}.bisect_label_loss"
        functions = self.label_loss_row, self.one_hot_lead
        return _loops.label_loss_loop(name, self._bisect_plan, *functions, everything)

    @cached_property
    def bisect_soft_loss(self) -> Callable:
        name = f"{self.name}.bisect_soft_loss"
        return _loops.soft_loss_loop(name, self._bisect_plan, self.soft_loss_row, everything)


def _of_entmax(
    name: str,
    alpha: float,
    solve: Callable,
    serves: Callable,
    vjp_pair: tuple = _slopes.entmax_vjp,
    lanes: Callable | None = None,
    raw_lanes: bool = False,
    lockstep: Callable | None = None,
    descent: _columns.Descent | None = None,
) -> Mapping:
    """A member of the entmax family, whose loss has one form for every alpha."""
    return Mapping(
        name=name,
        alpha=alpha,
        row=simplex_row(name, solve),
        vjp_pair=vjp_pair,
        serves=serves,
        short_rows=None if lanes is None else lanes_rows(name, lanes, raw_lanes),
        block_rows=lockstep,
        dpar_row=_dalpha.entmax_dalpha,
        bisect_row=_bisect.entmax_bisect_row,
        label_loss_row=_fy.entmax_label_loss,
        one_hot_lead=_fy.entmax_lead,
        soft_loss_row=_fy.entmax_soft_loss,
        descent=descent,
    )


# Which solver is exact where. `&` and `|` serve numbers in a kernel and arrays outside alike.


@scalar
def _is_2(alpha):
    return alpha == 2.0


@scalar
def _is_15(alpha):
    return alpha == 1.5


@scalar
def _is_1(alpha):
    return alpha == 1.0


@scalar
def _is_inf(alpha):
    return alpha == np.inf


@scalar
def _below_1(alpha):
    return alpha < 1.0


@scalar
def _between_1_and_2(alpha):
    return (alpha > 1.0) & (alpha < 2.0) & (alpha != 1.5) & (alpha != 1.25) & (alpha != 4.0 / 3.0)


@scalar
def _is_1_and_a_third_or_quarter(alpha):
    return (alpha == 1.25) | (alpha == 4.0 / 3.0)


@scalar
def _above_2(alpha):
    return (alpha > 2.0) & (alpha < np.inf)


SPARSEMAX = _of_entmax(
    "sparsemax",
    2.0,
    sparsemax_row,
    _is_2,
    _slopes.sparsemax_vjp,
    sparsemax_lanes,
    lockstep=sparsemax_lockstep,
    descent=sparsemax_descent,
)
ENTMAX15 = _of_entmax(
    "entmax15",
    1.5,
    entmax15_row,
    _is_15,
    _slopes.entmax15_vjp,
    entmax15_lanes,
    lockstep=entmax15_lockstep,
    descent=entmax15_descent,
)
SOFTMAX = _of_entmax("softmax", 1.0, softmax_row, _is_1, lanes=softmax_lanes)
ARGMAX = _of_entmax("argmax", math.inf, argmax_row, _is_inf)
DENSE = _of_entmax("dense", math.nan, dense_row, _below_1)
ENTMAX = _of_entmax("entmax", math.nan, tsallis_row, _between_1_and_2, lanes=tsallis_lanes)
POWERS = _of_entmax("powers", math.nan, power_row, _is_1_and_a_third_or_quarter, lanes=power_lanes)
STEEP = _of_entmax("steep", math.nan, steep_row, _above_2, lanes=steep_lanes, raw_lanes=True)
_normmax_row = simplex_row("normmax", normmax_row)
NORMMAX = Mapping(
    name="normmax",
    alpha=math.nan,
    row=_normmax_row,
    short_rows=normmax_lanes(_normmax_row),
    vjp_pair=_normmax_slopes.normmax_vjp,
    dpar_row=_normmax_slopes.normmax_dalpha,
    bisect_row=_bisect.normmax_bisect_row,
    label_loss_row=_fy.normmax_label_loss,
    one_hot_lead=_fy.normmax_lead,
    soft_loss_row=_fy.normmax_soft_loss,
)
BUDGET = Mapping(
    name="budget",
    alpha=math.nan,
    row=budget_row,
    short_rows=budget_rows,
    vjp_pair=_slopes.budget_vjp,
    dpar_row=_dalpha.budget_dbudget,
    bisect_row=_bisect.budget_bisect_row,
    soft_loss_row=_fy.budget_soft_loss,
)

ENTMAX_FAMILY = (SOFTMAX, ENTMAX15, SPARSEMAX, ARGMAX, ENTMAX, POWERS, STEEP, DENSE)
"""All alpha > 0, each served by one record; vjp, dalpha and bisection of ``ENTMAX`` take any."""

MAPPINGS = (*ENTMAX_FAMILY, NORMMAX, BUDGET)


def _in_turn(kernels: list[Callable]) -> Callable:
    """Run kernels over the same rows, each of which answers those that it serves."""

    def run(*arguments):
        for kernel in kernels:
            kernel(*arguments)

    return run


@dataclass(frozen=True)
class Family:
    """Several records of the entmax family, for rows with different alphas."""

    members: tuple[Mapping, ...]
    name: str = "family"

    @property
    def forward(self) -> Callable:
        return _in_turn([member.forward for member in self.members])

    @property
    def label_loss(self) -> Callable:
        return _in_turn([member.label_loss for member in self.members])

    @property
    def soft_loss(self) -> Callable:
        return _in_turn([member.soft_loss for member in self.members])

    @property
    def vjp(self) -> Callable:
        return ENTMAX.vjp

    @property
    def jacobian(self) -> Callable:
        return ENTMAX.jacobian

    def columns(self, operation: str, d: int) -> None:
        """Rows whose parameters differ are copied."""


def entmax_kernel(par: NDArray) -> Mapping | Family:
    """The record whose solver serves these alphas, one for all rows or one a row."""
    if not isinstance(par, np.ndarray):  # values on a device, which nobody has looked at
        return Family(ENTMAX_FAMILY)
    if par.size == 1:  # as numbers: NumPy would take ten times as long, more than one row takes
        alpha = par.item()
        return next(m for m in ENTMAX_FAMILY if plainly(m.serves)(alpha))
    members = tuple(m for m in ENTMAX_FAMILY if plainly(m.serves)(par).any())
    return members[0] if len(members) == 1 else Family(members)


def plainly(serves: Callable) -> Callable:
    """A scalar function outside of kernels, for numbers and arrays alike."""
    return getattr(serves, "py_func", serves)
