"""The device's side of every mapping: the record that belongs to the one of the CPU by name."""

from collections.abc import Callable
from dataclasses import dataclass

from sparsemap_np._cuda import (
    _budget,
    _dense,
    _entmax,
    _entmax15,
    _normmax,
    _sparsemax,
    _steep,
    _tsallis,
)


@dataclass(frozen=True)
class DeviceMapping:
    """``make(team)`` gives the solver of a row. ``also`` names other CPU records it serves."""

    name: str
    make: Callable
    also: tuple[str, ...] = ()


MAPPINGS = (
    DeviceMapping("sparsemax", _sparsemax.make),
    DeviceMapping("entmax15", _entmax15.make),
    DeviceMapping("softmax", _dense.softmax),
    DeviceMapping("argmax", _dense.argmax),
    DeviceMapping("entmax", _tsallis.make, also=("dense",)),
    DeviceMapping("steep", _steep.make),
    DeviceMapping("family", _entmax.make),
    DeviceMapping("normmax", _normmax.make),
    DeviceMapping("budget", _budget.make),
)
BY_NAME = {name: mapping for mapping in MAPPINGS for name in (mapping.name, *mapping.also)}
