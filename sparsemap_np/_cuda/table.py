"""The device's side of every mapping: the record that belongs to the one of the CPU by name."""

from collections.abc import Callable
from dataclasses import dataclass

from sparsemap_np._cuda import (
    _budget,
    _dense,
    _entmax,
    _entmax15,
    _fy,
    _normmax,
    _slopes,
    _sparsemax,
    _steep,
    _tsallis,
)


@dataclass(frozen=True)
class DeviceMapping:
    """What makes the functions of a row for one kind of team.

    ``make`` the solver, ``vjp`` and ``dpar`` the derivatives, ``label`` and ``soft`` the losses.
    ``also`` names other records of the CPU that it serves.
    """

    name: str
    make: Callable
    vjp: Callable = _slopes.entmax_vjp
    dpar: Callable = _slopes.entmax_dalpha
    label: Callable | None = _fy.entmax_label
    soft: Callable = _fy.entmax_soft
    also: tuple[str, ...] = ()


MAPPINGS = (
    DeviceMapping("sparsemax", _sparsemax.make, _slopes.sparsemax_vjp),
    DeviceMapping("entmax15", _entmax15.make, _slopes.entmax15_vjp),
    DeviceMapping("softmax", _dense.softmax),
    DeviceMapping("argmax", _dense.argmax),
    DeviceMapping("entmax", _tsallis.make, also=("dense", "powers")),
    DeviceMapping("steep", _steep.make),
    DeviceMapping("family", _entmax.make),
    DeviceMapping(
        "normmax",
        _normmax.make,
        _slopes.normmax_vjp,
        _slopes.normmax_dalpha,
        _fy.normmax_label,
        _fy.normmax_soft,
    ),
    DeviceMapping(
        "budget", _budget.make, _slopes.budget_vjp, _slopes.budget_dbudget, None, _fy.budget_soft
    ),
)
BY_NAME = {name: mapping for mapping in MAPPINGS for name in (mapping.name, *mapping.also)}
