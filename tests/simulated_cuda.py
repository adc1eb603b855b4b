"""The device kernels in Numba's simulator: run by test_cuda.py in a process of its own.

    NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/simulated_cuda.py

Blocks are small there (a barrier costs milliseconds), so rows of a few hundred scores already go
through every strategy: a thread, a warp, a block for each row, filtering and overflowing columns.
"""

import functools
import sys
import threading

import numpy as np
import pytest
import reference
from mappings_list import INF, MAPPINGS, assert_close
from numba import config, cuda

import sparsemap_np as sm

if not config.ENABLE_CUDASIM:
    pytest.skip("needs NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

from numba.cuda.simulator.kernelapi import FakeCUDAShared

from sparsemap_np._cuda import launch
from sparsemap_np._cuda._loops import Team, forward_loop
from sparsemap_np._cuda.table import BY_NAME
from sparsemap_np._cuda.table import MAPPINGS as DEVICE_MAPPINGS
from sparsemap_np._kernels import table as cpu_table

# What is NumPy's arithmetic here, and warns, is a GPU's there.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

sys.setswitchinterval(1e-5)


class Allocations(dict):
    """Shared arrays by place: two threads of a block must not both find a place empty."""

    def __init__(self):
        self.lock = threading.Lock()

    def get(self, key, default=None):
        self.lock.acquire()
        found = super().get(key, default)
        if found is not None:
            self.lock.release()
        return found

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.lock.release()


@pytest.fixture(autouse=True)
def shared_memory_without_race(monkeypatch):
    start = FakeCUDAShared.__init__

    def init(self, size):
        start(self, size)
        self._allocations = Allocations()

    monkeypatch.setattr(FakeCUDAShared, "__init__", init)


def small_teams(T):
    return {
        "thread": Team(T, 1, 4, 64, True),
        "warp": Team(T, 4, 4, 16, True),
        "block": Team(T, 8, 8, 16, False),
    }


CASES = (
    *(("softmax", "entmax", 1.0), ("argmax", "entmax", INF)),
    *(("sparsemax", "entmax", 2.0), ("entmax15", "entmax", 1.5)),
    *(("entmax", "entmax", a) for a in (0.3, 0.999, 1 + 1e-12, 1 + 1e-6, 1.25, 4 / 3, 1.99)),
    *(("steep", "entmax", a) for a in (2.01, 3.0, 10.0, 100.0)),
    *(("family", "entmax", a) for a in (0.5, 1.0, 1.2, 1.5, 2.0, 3.0, INF)),
    *(("normmax", "normmax", a) for a in (1.0, 1 + 1e-12, 1.01, 1.5, 2.0, 3.0, 5.0, INF)),
    *(("budget", "budget", b) for b in (0.0, 1.0, 2.0, 3.5)),
)
each_case = pytest.mark.parametrize(("name", "kind", "par"), CASES)


@functools.cache
def truth(kind, par, dtype, shape, scale):
    """Scores, and their probabilities by the reference."""
    X = (np.random.default_rng(7).normal(size=shape) * scale).astype(dtype)
    return X, reference.rows(reference.MAPS[kind], X, param=par)


def run(name, team, X, par, blocks=2):
    """The forward kernel alone, on poisoned memory."""
    T = team.T
    P = np.full(X.shape, 777.0, X.dtype)
    kernel = forward_loop(BY_NAME[name], team)
    with np.errstate(all="ignore"):
        kernel[blocks, team.block](X, T(par), T(par - 1), np.zeros((2, 0), T), P)
    return P


def check(P, expected, dtype, total=1.0):
    assert_close(P, expected, dtype)
    eps = np.finfo(dtype).eps
    size = np.maximum((expected > 0).sum(-1), 1)
    np.testing.assert_array_less(
        np.abs(P.sum(-1, dtype="f8") - total), 4 * eps * np.sqrt(size) * max(total, 1) + 1e-300
    )


@each_case
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strategy", ["thread", "warp", "block"])
def test_every_solver_on_every_strategy(name, kind, par, dtype, strategy):
    team = small_teams(np.dtype(dtype).type)[strategy]
    for shape, scale in (((3, 4), 1.0), ((3, 30), 3.0)):
        X, expected = truth(kind, par, dtype, shape, scale)
        check(run(name, team, X, par), expected, dtype, par if kind == "budget" else 1.0)


@pytest.mark.parametrize(
    ("name", "kind", "par"),
    [c for c in CASES if c[2] in (0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 3.5, 5.0)],
)
@pytest.mark.parametrize("scale", [3.0, 0.1], ids=["filtered", "overflowing"])
def test_rows_longer_than_the_store(name, kind, par, scale):
    """With 8 columns of 16: wide rows are filtered on the way, flat ones are read again."""
    X, expected = truth(kind, par, "float32", (1, 300), scale)
    P = run(name, small_teams(np.float32)["block"], X, par)
    check(P, expected, "float32", par if kind == "budget" else 1.0)


def test_every_mapping_has_a_device_record():
    here = {m.name for m in DEVICE_MAPPINGS}
    assert {m.name for m in cpu_table.MAPPINGS} <= set(BY_NAME)
    assert {name for name, _, _ in CASES} == here


def device(X):
    return cuda.to_device(np.ascontiguousarray(X))


AWKWARD = np.array(
    [
        [np.nan, 1, 2, 3],
        [-np.inf, 1, 0.5, -np.inf],
        [-np.inf] * 4,
        [np.inf, 1, 2, 3],
        [np.inf, 1, np.inf, 3],
        [1, 1, 1, 1],
        [1e9, -1e9, 1e9, 0],
        [3e38, -3e38, 1, 0],
        [1e9 + 64, 1e9, 1e9 - 64, 5],
        [0.5, 0.5, 0.25, 0.25],
    ],
    dtype="float32",
)
each_mapping = pytest.mark.parametrize("m", MAPPINGS, ids=str)


def on_device(m, X):
    return getattr(sm, m.name)(device(X), **m.kwargs(X.shape[-1])).copy_to_host()


@functools.cache
def awkward_truth(m):
    return m.reference(AWKWARD)


@each_mapping
@pytest.mark.parametrize("repeat", [1, 4, 40], ids=["thread", "warp", "block"])
def test_awkward_rows(m, repeat):
    # Longer rows are made of masked entries, which change nothing.
    more = np.full((len(AWKWARD), 4 * (repeat - 1)), -np.inf, "float32")
    expected = awkward_truth(m)
    zeros = np.where(np.isnan(expected[:, :1]), np.nan, np.zeros(more.shape))
    X = np.concatenate([AWKWARD, more], axis=1)
    got = getattr(sm, m.name)(device(X), **m.kwargs(4)).copy_to_host()
    assert_close(got, np.concatenate([expected, zeros], axis=1), "float32")


@each_mapping
@pytest.mark.parametrize("dtype", ["float16", "int32", "bool"])
def test_dtypes(m, dtype):
    X = (np.random.default_rng(3).normal(size=(3, 5)) * 2).astype(dtype)
    got = on_device(m, X)
    expected = m(X)
    assert got.dtype == expected.dtype
    assert_close(got, expected, got.dtype, times=2)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_any_axis_layout_and_parameter(axis):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3, 4, 5)).astype("float32")
    shape = [3, 4, 5]
    shape[axis] = 1
    alpha = rng.choice([0.7, 1.0, 1.3, 1.5, 2.0, 4.0], size=shape)
    expected = sm.entmax(X, alpha, axis=axis)
    for given in (alpha, device(alpha)):
        got = sm.entmax(device(X), given, axis=axis).copy_to_host()
        assert_close(got, expected, "float32", times=2)
    turned = device(np.ascontiguousarray(X.transpose(2, 0, 1)))[:, ::2]
    expected = sm.sparsemax(X.transpose(2, 0, 1)[:, ::2], axis=axis)
    assert_close(sm.sparsemax(turned, axis=axis).copy_to_host(), expected, "float32", times=2)


def test_out():
    X = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    expected = sm.sparsemax(X)
    D = device(X)
    assert sm.sparsemax(D, out=D) is D
    assert_close(D.copy_to_host(), expected, "float32")
    for axis in (0, 1):
        wide = device(np.full(X.shape, 9.0))
        assert sm.sparsemax(device(X), axis=axis, out=wide) is wide
        assert_close(wide.copy_to_host(), sm.sparsemax(X, axis=axis), "float32")
    with pytest.raises(ValueError, match="out has shape"):
        sm.sparsemax(device(X), out=device(X[:2]))
    with pytest.raises(TypeError, match="cannot be cast"):
        sm.sparsemax(device(X), out=device(X.astype("int32")))
    with pytest.raises(TypeError, match="library"):
        sm.sparsemax(device(X), out=np.empty_like(X))


def test_in_place_on_long_rows():
    """Filtered and overflowing rows: what is written must not be read again."""
    for scale in (3.0, 0.05):
        X = (np.random.default_rng(0).normal(size=(1, 300)) * scale).astype("float32")
        D = device(X)
        sm.entmax15(D, out=D)
        assert_close(D.copy_to_host(), sm.entmax15(X), "float32", times=2)


def test_support_size():
    X = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    P, size = sm.sparsemax(device(X), return_support_size=True)
    assert size.dtype == np.int64 and size.shape == (4, 1)
    np.testing.assert_array_equal(size.copy_to_host(), (P.copy_to_host() > 0).sum(1, keepdims=True))


def test_empty():
    assert sm.sparsemax(device(np.empty((0, 4)))).shape == (0, 4)
    assert sm.sparsemax(device(np.empty((2, 0)))).shape == (2, 0)


def test_arguments_are_checked():
    D = device(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="alpha must be > 0"):
        sm.entmax(D, -1.0)
    with pytest.raises(ValueError, match="alpha has shape"):
        sm.entmax(D, device(np.ones((5, 1))))
    with pytest.raises(np.exceptions.AxisError):
        sm.sparsemax(D, axis=2)
    with pytest.raises(ValueError, match="n_iter must be None for device arrays"):
        sm.entmax_bisect(D, n_iter=10)
    with pytest.raises(TypeError, match="complex"):
        sm.sparsemax(device(np.zeros((2, 3), complex)))


def test_a_bad_parameter_on_the_device_makes_its_row_nan():
    """It cannot raise: nobody waits for the values."""
    X = device(np.zeros((3, 2)))
    P = sm.entmax(X, device(np.array([[1.5], [-1.0], [np.nan]]))).copy_to_host()
    np.testing.assert_array_equal(np.isnan(P).all(1), [False, True, True])


def test_the_teams_of_the_launcher_cover_every_length():
    for T in (np.float32, np.float64):
        teams = launch.teams(T)
        assert teams[-1].longest == INF
        assert [t.longest for t in teams] == sorted(t.longest for t in teams)


def test_available():
    assert sm.cuda_is_available()
