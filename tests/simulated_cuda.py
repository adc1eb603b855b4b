"""The device kernels in Numba's simulator: run by test_cuda.py in a process of its own.

    NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/simulated_cuda.py

Blocks are small there (a barrier costs milliseconds), so rows of a few hundred scores already go
through every strategy: a thread, a warp, a block for each row, filtering and overflowing columns.
"""

import functools
import json
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
import reference
from mappings_list import BUDGET_LOSSES, INF, LOSSES, MAPPINGS, assert_close
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
    kernel = forward_loop(BY_NAME[name].make, team)
    with np.errstate(all="ignore"):
        kernel[blocks, team.block](
            X, T(par), T(par - 1), np.zeros((2, 0), T), P, np.zeros((2, 0), T)
        )
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


LARGEST = np.finfo("float32").max
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
        [LARGEST, -LARGEST, -LARGEST, LARGEST],
        [1e30, -1e30, 2e30, 1e30],
        [2**26, 2**26 + 8, 2**26 + 16, 2**26 + 24],
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


DIFFERENTIABLE = [m for m in MAPPINGS if m.has_vjp]


def spread(P, times):
    """Rows in which each entry is followed by zeros: nothing changes, but the strategy."""
    wide = np.zeros((*P.shape, times), P.dtype)
    wide[..., 0] = P
    return wide.reshape(len(P), -1)


@pytest.mark.parametrize("m", DIFFERENTIABLE, ids=str)
@pytest.mark.parametrize("times", [1, 4, 20], ids=["thread", "warp", "block"])
def test_vjp_and_parameter_gradient(m, times):
    """Against the reference at the very floats of P, within what test_gradients.py allows."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(4, 6)) * 0.6).astype("float32")
    P = np.concatenate([m(X), np.full((1, 6), np.nan, "float32"), np.eye(1, 6, dtype="float32")])
    dP = rng.normal(size=P.shape).astype("float32")
    expected = m.vjp(dP.astype("f8"), P.astype("f8"))
    kw = {"alpha": m.param} if m.argument == "alpha" else {}
    flag = {"alpha": "return_dalpha", "budget": "return_dbudget"}.get(m.argument)
    vjp = getattr(sm, f"{m.name}_vjp")
    D = device(spread(dP, times)), device(spread(P, times))
    got = vjp(*D, **kw)
    eps = np.finfo("f4").eps
    room = np.abs(m.jacobian(P.astype("f8"))) @ np.abs(dP)[..., None]
    # A power 2 - alpha in float32 multiplies the rounding of its base.
    bound = 64 * eps * (m.param if 10 < m.param < INF else 1) * room[..., 0] + 1e-30
    close = np.abs(got.copy_to_host()[:, ::times] - expected) <= bound
    # A probability may be too small for its own derivative in float32.
    large = (np.abs(expected) > np.finfo("f4").max).any(1, keepdims=True)
    assert (close | np.isnan(expected) | large).all()
    nan = np.isnan(expected).all(1)
    np.testing.assert_array_equal(np.isnan(got.copy_to_host()).all(1) & ~large[:, 0], nan)
    if flag is not None:
        dX, dpar = vjp(*D, **kw, **{flag: True})
        np.testing.assert_array_equal(dX.copy_to_host(), got.copy_to_host())
        _, exact = m.vjp(dP.astype("f8"), P.astype("f8"), **{flag: True})
        assert dpar.shape == (6, 1)
        np.testing.assert_allclose(dpar.copy_to_host(), exact, rtol=2e-3, atol=2e-5)


def test_jacobian_and_axis():
    P = sm.entmax(np.random.default_rng(0).normal(size=(2, 5, 3)), 1.3, axis=1)
    J = sm.entmax_jacobian(device(P), 1.3, axis=1).copy_to_host()
    np.testing.assert_allclose(J, sm.entmax_jacobian(P, 1.3, axis=1), rtol=1e-12)
    dP = np.random.default_rng(1).normal(size=P.shape)
    dX, dalpha = sm.entmax_vjp(device(dP), device(P), 1.3, axis=1, return_dalpha=True)
    exact, exact_alpha = sm.entmax_vjp(dP, P, 1.3, axis=1, return_dalpha=True)
    np.testing.assert_allclose(dX.copy_to_host(), exact, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(dalpha.copy_to_host(), exact_alpha, rtol=1e-10)


SIMPLEX = [loss for loss in LOSSES if loss.name != "sparsemax_bisect_loss"]
each_loss = pytest.mark.parametrize("loss", SIMPLEX, ids=str)


def host(results):
    return [r.copy_to_host() for r in results]


def loss_scores(dtype="float32"):
    X = np.random.default_rng(11).normal(size=(7, 5)) * 1.5
    X[1, 2] = X[2, 0] = -np.inf
    X[3, 1] = np.inf
    X[4, 3] = np.nan
    return X.astype(dtype)


@each_loss
@pytest.mark.parametrize("soft", [False, True], ids=["labels", "distributions"])
def test_losses(loss, soft):
    X = loss_scores()
    y = np.array([0, 2, 1, 1, 0, 4, 2])
    if soft:
        y = np.eye(5, dtype="float32")[y]
        y[5] = y[6] = 0.2
        y[0, :2] = 0.5
    keys = {"return_grad": True, "return_support_size": True}
    got = host(loss(device(X), device(y), **keys))
    expected = loss(X, y, **keys)
    assert_close(got[0], expected[0], "float32", times=8)
    np.testing.assert_array_equal(got[1], expected[1])
    assert_close(got[2], expected[2], "float32", times=2)
    assert got[0].dtype == got[2].dtype == "float32"


@pytest.mark.parametrize("name", ["entmax15_loss", "normmax_bisect_loss"])
def test_a_gradient_in_the_place_of_p_leaves_the_loss_as_it_is(name):
    """The lane that reports the loss needs p[t], over which another lane writes."""
    X = np.random.default_rng(6).normal(size=(40, 40)).astype("float32")
    y = device(np.arange(40))
    loss, _ = getattr(sm, name)(device(X), y, return_grad=True)
    alone = getattr(sm, name)(device(X), y)
    np.testing.assert_array_equal(loss.copy_to_host(), alone.copy_to_host())


@pytest.mark.parametrize("loss", BUDGET_LOSSES, ids=str)
@pytest.mark.parametrize("given", [False, True])
def test_budget_loss(loss, given):
    X = np.random.default_rng(2).normal(size=(4, 6)).astype("float32")
    B = loss.param
    Y = sm.budget_bisect(np.random.default_rng(3).normal(size=(4, 6)), B).astype("float32")
    kw = {"budget": B} if given else {}
    got = host(sm.budget_loss(device(X), device(Y), **kw, return_grad=True))
    expected = sm.budget_loss(X, Y, **kw, return_grad=True)
    assert_close(got[0], expected[0], "float32", times=8)
    assert_close(got[1], expected[1], "float32", times=4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_reductions_weights_and_ignored_labels(reduction, dtype):
    X = np.random.default_rng(4).normal(size=(6, 4)).astype(dtype)
    X[2] = -np.inf
    y = np.array([0, 1, 2, 3, -7, 1])
    weight = np.array([1, 2, 0, 0.5, 1, 3])
    for keys in (
        {},
        {"ignore_index": -7},
        {"ignore_index": -7, "sample_weight": weight},
    ):
        labels = y if keys else np.array([0, 1, 3, 3, 0, 1])
        got = host(
            sm.entmax15_loss(
                device(X), device(labels), reduction=reduction, return_grad=True, **keys
            )
        )
        expected = sm.entmax15_loss(X, labels, reduction=reduction, return_grad=True, **keys)
        assert got[0].dtype == dtype and got[0].shape == np.shape(expected[0])
        assert_close(got[0], expected[0], dtype, times=4)
        assert_close(got[1], expected[1], dtype, times=2)


def test_nothing_kept_and_no_rows():
    X = device(np.zeros((2, 3), "float32"))
    loss, grad = sm.sparsemax_loss(
        X, device(np.array([5, 5])), reduction="mean", ignore_index=5, return_grad=True
    )
    assert loss.copy_to_host() == 0
    assert not grad.copy_to_host().any()
    empty = device(np.zeros((0, 3), "float32"))
    assert sm.sparsemax_loss(empty, device(np.zeros(0, int)), reduction="sum").copy_to_host() == 0


def test_bad_targets_on_the_device_make_their_rows_nan():
    X = device(np.zeros((3, 2), "float32"))
    loss, grad = host(sm.entmax15_loss(X, device(np.array([0, 2, -1])), return_grad=True))
    np.testing.assert_array_equal(np.isnan(loss), [False, True, True])
    np.testing.assert_array_equal(np.isnan(grad).all(1), [False, True, True])
    Y = np.array([[0.5, 0.5], [0.5, 0.6], [1.5, -0.5]], "float32")
    loss = sm.entmax15_loss(X, device(Y)).copy_to_host()
    np.testing.assert_array_equal(np.isnan(loss), [False, True, True])


def test_targets_are_checked():
    X = device(np.zeros((3, 2), "float32"))
    with pytest.raises(TypeError, match="y is a ndarray"):
        sm.sparsemax_loss(X, np.zeros(3, int))
    with pytest.raises(ValueError, match="labels must be integers"):
        sm.sparsemax_loss(X, device(np.zeros(3)))
    with pytest.raises(ValueError, match="y has 4 targets"):
        sm.sparsemax_loss(X, device(np.zeros(4, int)))
    with pytest.raises(ValueError, match="y has shape"):
        sm.sparsemax_loss(X, device(np.zeros((3, 3))))
    with pytest.raises(ValueError, match="reduction must be"):
        sm.sparsemax_loss(X, device(np.zeros(3, int)), reduction="all")
    with pytest.raises(ValueError, match="n_iter"):
        sm.sparsemax_bisect_loss(X, device(np.zeros(3, int)), n_iter=3)


class Stand(np.ndarray):
    """An array of a library that is not here, with as much of its interface as is used."""

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__

    def __array_finalize__(self, other):
        self.requires_grad = False


class CuPyStand(Stand):
    device = types.SimpleNamespace(id=0)

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return np.array(self)


class TorchStand(Stand):
    is_cuda = True
    device = types.SimpleNamespace(index=0)

    def movedim(self, a, b):
        return np.moveaxis(self, a, b)

    def contiguous(self):
        return np.ascontiguousarray(self).view(TorchStand)

    def is_contiguous(self):
        return self.flags.c_contiguous

    def copy_(self, other):
        self[...] = other

    def expand(self, shape):
        return np.broadcast_to(self, shape).view(TorchStand)

    def to(self, device, non_blocking):
        return self

    def cuda(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return np.array(self)

    def half(self):
        return self.astype("float16")

    def data_ptr(self):
        return self.ctypes.data


def cupy_module():
    return types.SimpleNamespace(
        ndarray=CuPyStand,
        empty=lambda shape, dtype: np.full(shape, 7, dtype).view(CuPyStand),
        asarray=lambda a: np.array(a).view(CuPyStand),
        moveaxis=np.moveaxis,
        broadcast_to=lambda a, shape: np.broadcast_to(a, shape).view(CuPyStand),
        ascontiguousarray=lambda a: np.ascontiguousarray(a).view(CuPyStand),
    )


def torch_module():
    dtypes = {name: np.dtype(name) for name in ("float16", "float32", "float64", "int64")}
    return types.SimpleNamespace(
        Tensor=TorchStand,
        empty=lambda shape, dtype, device: np.full(shape, 7, dtype).view(TorchStand),
        from_numpy=lambda a: a.view(TorchStand),
        **dtypes,
    )


@pytest.mark.parametrize(
    ("library", "module", "kind"),
    [("cupy", cupy_module, CuPyStand), ("torch", torch_module, TorchStand)],
)
def test_other_libraries_give_their_own_kind(monkeypatch, library, module, kind):
    monkeypatch.setitem(sys.modules, library, module())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 4, 5)).astype("float32")
    alpha = rng.uniform(1.1, 3, size=(3, 1, 5))
    for axis in (1, 2):
        P = sm.sparsemax(X.view(kind), axis=axis)
        assert type(P) is kind and P.dtype == X.dtype
        assert_close(np.asarray(P), sm.sparsemax(X, axis=axis), "float32")
    P = sm.entmax(X.view(kind), alpha.view(kind), axis=1)
    expected = sm.entmax(X, alpha, axis=1)
    assert_close(np.asarray(P), expected, "float32", times=2)
    one = sm.entmax(X.view(kind), np.array(1.3).view(kind), axis=1)
    assert_close(np.asarray(one), sm.entmax(X, 1.3, axis=1), "float32", times=2)
    out = np.zeros_like(X).view(kind)
    assert sm.entmax15(X.view(kind).transpose(0, 2, 1), axis=2, out=out.transpose(0, 2, 1)) is not X
    assert_close(np.asarray(out), sm.entmax15(X, axis=1), "float32", times=2)
    loss, grad = sm.sparsemax_loss(
        X[0].view(kind), np.array([1, 2, 0, 0]).view(kind), reduction="mean", return_grad=True
    )
    exact, slope = sm.sparsemax_loss(X[0], [1, 2, 0, 0], reduction="mean", return_grad=True)
    assert type(loss) is kind and loss.shape == ()
    assert_close(np.asarray(loss), exact, "float32", times=2)
    assert_close(np.asarray(grad), slope, "float32", times=2)
    with pytest.raises(TypeError, match="one library"):
        sm.sparsemax_vjp(device(X), P)


def test_a_tensor_that_requires_grad_is_told_of_the_recipe(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_module())
    X = np.zeros((2, 3)).view(TorchStand)
    X.requires_grad = True
    with pytest.raises(TypeError, match=r"docs/gpu\.md"):
        sm.sparsemax(X)


class Plain:
    """Whatever is asked of it, it is itself: streams and events."""

    ptr = cuda_stream = 0

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def elapsed_time(self, other):
        return 1.0


def bench_torch():
    rng = np.random.default_rng(0)

    def tensor(a):
        return np.asarray(a).view(TorchStand)

    def randn(*shape, device=None, generator=None):
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        return tensor(rng.normal(size=shape).astype("float32"))

    def softmax(X, axis):
        return tensor(sm.entmax(np.array(X), 1.0, axis=axis))

    torch = torch_module()
    torch.__dict__.update(
        from_numpy=tensor,
        randn=randn,
        randn_like=lambda X: randn(X.shape),
        empty_like=lambda X: tensor(np.full_like(X, 7)),
        full_like=lambda X, value: tensor(np.full_like(X, value)),
        ones=lambda n, device: np.ones(n),
        arange=lambda n, device: tensor(np.arange(n)),
        equal=np.array_equal,
        allclose=np.allclose,
        softmax=softmax,
        _softmax_backward_data=lambda dP, P, axis, dtype: dP,
        Generator=Plain,
        cuda=Plain(),
        version=types.SimpleNamespace(cuda="none"),
        __version__="stand-in",
    )
    torch.cuda.__dict__.update(
        get_device_name=lambda: "simulator",
        is_available=lambda: True,
        Event=Plain,
        Stream=Plain,
    )
    return torch


def test_every_line_of_the_benchmark(monkeypatch, tmp_path, capsys):
    """It may get one run on a GPU: here it runs on few short rows, with stand-ins for libraries."""
    path = Path(__file__).parent.parent / "benchmarks" / "gpu.py"
    bench = types.ModuleType("gpu_benchmark")
    exec(compile(path.read_text(), str(path), "exec"), bench.__dict__)
    torch = bench_torch()
    cupy = cupy_module()
    cupy.asarray = lambda a: np.asarray(a).view(CuPyStand)
    cupy.empty_like = lambda a: np.full_like(a, 7)
    cupy.cuda = types.SimpleNamespace(Stream=Plain)
    peer = types.SimpleNamespace(sparsemax=bench.sm.sparsemax, entmax15=None, entmax_bisect=None)
    for name, module in {"torch": torch, "cupy": cupy, "entmax": peer}.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name, value in {
        "LENGTHS": (1, 3, 9),
        "SHAPES": ((2, 40), (3, 6)),
        "TEAMS": (6, 20, 40),
        "REPEATED": ((1, 6), (1, 40)),
        "MAPS": bench.MAPS[:2] + bench.MAPS[-2:],
        "DOUBLE": ("sparsemax",),
    }.items():
        monkeypatch.setattr(bench, name, value) if hasattr(bench, name) else pytest.fail(name)
    bench.milliseconds.__defaults__ = (0.0,)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path / "found.json")])
    with pytest.raises(SystemExit):
        bench.main()
    # The simulator is done with a kernel when a launch returns.
    assert bench.faults == ["torch: a call waits for the device"]
    found = json.loads((tmp_path / "found.json").read_text())
    assert set(found) == {*bench.SECTIONS, "faults"}
    printed = capsys.readouterr().out
    assert "(target 1.3)" in printed and "x torch.softmax (target 1.0)" in printed
