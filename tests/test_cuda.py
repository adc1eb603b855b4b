"""Device arrays without a device: the simulator and the compiler, each in a process of its own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparsemap_np as sm

HERE = Path(__file__).parent


def run(script, *arguments, seconds, **environment):
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses=0"]
        + [str(HERE / script), *arguments],
        cwd=HERE.parent,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert process.returncode == 0, process.stdout[-8000:]


@pytest.mark.skipif(
    not importlib.util.find_spec("numba_cuda"),
    reason="numba-cuda and its compiler come with the test extra on Linux x86-64 only",
)
@pytest.mark.parametrize("dtypes", ["not float64", "float64"])
def test_every_kernel_compiles_to_ptx(dtypes):
    run("compiled_cuda.py", "-k", dtypes, seconds=1200)


def test_every_kernel_in_the_simulator():
    run("simulated_cuda.py", seconds=900, NUMBA_ENABLE_CUDASIM="1")


class DeviceArray:
    """Has the interface by which device arrays are known, and no device behind it."""

    __cuda_array_interface__ = {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (0, False),
        "version": 3,
    }


needs_no_gpu = pytest.mark.skipif(sm.cuda_is_available(), reason="a GPU is here")


@needs_no_gpu
@pytest.mark.parametrize(
    "call",
    [
        lambda X: sm.sparsemax(X),
        lambda X: sm.entmax(X, 1.3, axis=0),
        lambda X: sm.sparsemax_vjp(X, X),
        lambda X: sm.entmax_loss(X, X),
    ],
)
def test_without_a_gpu_the_error_says_what_to_install(call):
    with pytest.raises((ImportError, RuntimeError), match=r"pip install 'sparsemap_np\[cuda13\]'"):
        call(DeviceArray())


def test_cuda_is_available_never_raises_and_imports_nothing_early():
    code = (
        "import sys, numpy as np, sparsemap_np as sm\n"
        "sm.sparsemax(np.zeros(3)); sm.entmax_vjp(np.ones(3), np.ones(3) / 3, 1.3)\n"
        "early = [m for m in sys.modules if m.startswith(('numba.cuda', 'numba_cuda', 'cuda'))\n"
        "         or m == 'sparsemap_np._cuda']\n"
        "assert not early, early\n"
        "assert sm.cuda_is_available() in (True, False)\n"
    )
    for path in ("", os.environ.get("PATH", "")):
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PATH": path})


def test_numpy_arrays_stay_on_the_processor():
    with sm.cuda_stream(0):
        assert type(sm.sparsemax(np.zeros(3))) is np.ndarray
