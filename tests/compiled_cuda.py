"""The device kernels as PTX, without a device: run by test_cuda.py in a process of its own.

    python -m pytest tests/compiled_cuda.py

Needs numba-cuda, nvidia-nvvm and nvidia-cuda-nvrtc. With ptxas (nvidia-cuda-nvcc) on the path or
beside them it also counts registers and spills; `-s` shows the table.
"""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings")

import numba.cuda.dispatcher
from numba import config, types
from numba.cuda.compiler import _compile_pyfunc_with_fixup

if config.ENABLE_CUDASIM:
    pytest.skip("needs the compiler, not the simulator", allow_module_level=True)

from sparsemap_np._cuda import _arrays, _loops, launch
from sparsemap_np._cuda.table import MAPPINGS

ARCHITECTURES = ((7, 5), (8, 0), (9, 0))


class NoDevice:
    """All that compilation asks of a device."""

    compute_capability = ARCHITECTURES[0]


@pytest.fixture(autouse=True)
def no_device(monkeypatch):
    monkeypatch.setattr(numba.cuda.dispatcher, "get_current_device", NoDevice)


def rows_of(dtype, ndim=2):
    return types.Array(dtype, ndim, "C")


def signature(operation, dtype, T):
    """Argument types of a kernel, as the launcher passes them."""
    P, row, pair = rows_of(dtype), rows_of(T, 1), rows_of(T)
    parameter = (T, T, pair)
    integer, integers = types.int64, rows_of(types.int64, 1)
    work = rows_of(T)  # losses keep P in the precision of the arithmetic
    loss = (*parameter, pair, row, T, row, row, integers, P)
    return {
        "forward": (P, *parameter, P, pair),
        "support_size": (P, *parameter, integers),
        "row_total": (P, *parameter, row),
        "vjp": (P, P, *parameter, P),
        "jacobian": (P, pair, *parameter, P),
        "dpar": (P, P, *parameter, rows_of(dtype, 1)),
        "label_loss": (P, work, integers, integer, integer, *loss),
        "soft_loss": (P, work, P, integer, T, T, *loss),
        "kept_weight": (integers, integer, integer, row, integer, row),
        "total_loss": (row, T, row, row),
    }[operation]


def ptx_of(kernel, arguments):
    """One compilation to NVVM's language, three to PTX."""
    library, _ = _compile_pyfunc_with_fixup(
        kernel.py_func,
        arguments,
        debug=None,
        lineinfo=False,
        device=False,
        fastmath=False,
        cc=ARCHITECTURES[0],
        opt=None,
        abi="numba",
        abi_info=None,
        forceinline=False,
        launch_bounds=None,
        lto=False,
    )
    return {cc: "\n".join(library.get_asm_strs(cc=cc)) for cc in ARCHITECTURES}


def assembler():
    beside = Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*/bin/ptxas")
    return shutil.which("ptxas") or next((str(p) for p in beside), None)


def assemble(ptx, cc, tmp_path):
    """Registers and spilt bytes that ptxas reports; None without ptxas."""
    ptxas = assembler()
    if ptxas is None:
        return None
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    command = [ptxas, "-v", f"-arch=sm_{cc[0]}{cc[1]}", str(source), "-o", str(tmp_path / "out")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = max(int(n) for n in re.findall(r"Used (\d+) registers", report))
    return registers, sum(int(n) for n in re.findall(r"(\d+) bytes spill", report))


def parts(operation, attribute):
    """Every way to make the kernel of an operation, named after the first mapping that has it."""
    made = {}
    for mapping in MAPPINGS:
        make = getattr(mapping, attribute)
        if make is not None and make not in made.values():
            made[mapping.name] = make
    return [(operation, name, make) for name, make in made.items()]


OPERATIONS = [
    *parts("forward", "make"),
    *parts("vjp", "vjp"),
    *parts("dpar", "dpar"),
    *parts("label_loss", "label"),
    *parts("soft_loss", "soft"),
    ("jacobian", "sparsemax", MAPPINGS[0].vjp),
    *((o, "any", None) for o in ("support_size", "row_total", "kept_weight", "total_loss")),
]
DTYPES = {"float16": (types.float16, np.float32), "float32": (types.float32, np.float32)}
DTYPES["float64"] = (types.float64, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("operation", "name", "make"), OPERATIONS, ids=[f"{o}-{name}" for o, name, _ in OPERATIONS]
)
def test_compiles_without_a_device(operation, name, make, dtype, tmp_path):
    stored, T = DTYPES[dtype]
    compute = types.float32 if T is np.float32 else types.float64
    if dtype == "float16" and name not in ("sparsemax", "any"):
        pytest.skip("float16 differs from float32 in loads and stores only: one mapping shows it")
    teams = launch.teams(T)
    # Reductions over all rows are the work of one block.
    for team in teams[-1:] if operation in ("kept_weight", "total_loss") else teams:
        kernel = getattr(_loops, f"{operation}_loop")(make, team)
        for cc, ptx in ptx_of(kernel, signature(operation, stored, compute)).items():
            assert f".target sm_{cc[0]}{cc[1]}" in ptx
            assert ".local" not in ptx, "local memory"
            assert T is not np.float32 or ".f64" not in ptx, "double precision in a float32 kernel"
        used = assemble(ptx, cc, tmp_path)
        if used is not None:
            registers, spilt = used
            print(f"\n{operation} {name} {dtype} width {team.width}: {registers} registers")
            assert spilt == 0
            assert registers * team.block <= 65536


def test_helpers_of_the_launcher_compile():
    one = rows_of(types.float64, 1)
    for values in (types.float32, types.float64, types.int64):
        arguments = (rows_of(values, 1), types.float64, types.float64, rows_of(types.float32))
        ptx_of(_loops.parameter_pairs, arguments)
    steps = rows_of(types.int64, 1)
    for kernel in (_arrays._take, _arrays._put):
        ptx_of(kernel, (one, steps, steps, one))
