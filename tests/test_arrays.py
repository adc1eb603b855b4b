"""How arrays reach the kernels: rows across the memory, and what it costs in room."""

import itertools
import tracemalloc

import numpy as np
import pytest

import sparsemap_np as sm
from sparsemap_np import _across
from sparsemap_np._kernels import _columns


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rows_that_lie_across_the_memory(dtype):
    """Whole tiles, single tiles and what is left of them, on either side, give the same bits."""
    X = np.random.default_rng(0).normal(size=(70, 75)).astype(dtype)
    for n, d in itertools.product((1, 3, 8, 9, 33, 70), (1, 2, 7, 8, 15, 16, 17, 33, 75)):
        rows = X[:n, :d].copy()
        P = sm.sparsemax(rows)
        dX = sm.sparsemax_vjp(rows, P)
        across = np.ascontiguousarray(rows.T)
        np.testing.assert_array_equal(sm.sparsemax(across, axis=0), P.T)
        np.testing.assert_array_equal(sm.sparsemax(np.asfortranarray(rows)), P)
        np.testing.assert_array_equal(sm.sparsemax_vjp(across, P.T, axis=0), dX.T)
        # out of another layout, and out that is X itself
        out = np.full_like(rows, 7)
        assert sm.sparsemax(across.T, out=out) is out
        np.testing.assert_array_equal(out, P)
        out = np.full_like(across, 7).T
        sm.sparsemax(rows, out=out)
        np.testing.assert_array_equal(out, P)
        across.flags.writeable = False
        np.testing.assert_array_equal(sm.sparsemax(across, axis=0), P.T)
        across = across.copy()
        sm.sparsemax(across, axis=0, out=across)
        np.testing.assert_array_equal(across, P.T)


@pytest.mark.parametrize("room", [1, 1 << 12, 1 << 16])
def test_blocks_of_any_size(monkeypatch, room):
    """Axes in the middle, views with gaps and steps backwards, blocks as small as can be."""
    monkeypatch.setattr(_across, "_SCRATCH_BYTES", room)
    X = np.random.default_rng(1).normal(size=(6, 20, 34, 5)).astype("float32")
    views = (
        X,
        X[:, ::2],
        X[:, :, ::-1],
        X[:, ::-1, :30],
        X.transpose(2, 0, 3, 1),
        np.asfortranarray(X),
    )
    for view in views:
        for axis in range(4):
            expected = sm.entmax15(np.ascontiguousarray(np.moveaxis(view, axis, -1)))
            got = sm.entmax15(view, axis=axis)
            np.testing.assert_array_equal(np.moveaxis(got, axis, -1), expected)
            sizes = sm.entmax15(view, axis=axis, return_support_size=True)[1]
            np.testing.assert_array_equal(sizes, (got > 0).sum(axis=axis, keepdims=True))


LONG = _columns.LONG
ACROSS = ((LONG, 1), (LONG + 3, 3), (1000, 10), (777, 31), (600, 40), (3001, 33), (9000, 150))


def answered(monkeypatch):
    """Whether the rows of each call that follows are answered where they lie, all of them."""
    calls = []

    def watched(*arguments):
        left = original(*arguments)
        calls.append(left == [])
        return left

    original = _across._answer_in_place
    monkeypatch.setattr(_across, "_answer_in_place", watched)
    return calls


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", ACROSS, ids=str)
def test_long_rows_are_answered_where_they_lie(monkeypatch, shape, dtype):
    """To the bit what rows in one piece get, also over the scores, in any company and any room."""
    calls = answered(monkeypatch)
    rng = np.random.default_rng(3)
    for scale, offset in ((1, 0), (5, -300), (0.1, 7)):
        X = (rng.normal(size=shape) * scale + offset).astype(dtype)
        if shape[1] > 2:
            X[::2, 1] = X[0, 1]  # ties
            X[5::7, 2] = -np.inf
        dP = rng.normal(size=shape).astype(dtype)
        for name in ("sparsemax", "entmax15"):
            mapping, vjp = getattr(sm, name), getattr(sm, f"{name}_vjp")
            P = mapping(np.ascontiguousarray(X.T)).T
            dX = vjp(np.ascontiguousarray(dP.T), np.ascontiguousarray(P.T)).T
            P0 = np.ascontiguousarray(P)
            for room in (_across._SCRATCH_BYTES, 1):
                with monkeypatch.context() as patch:
                    patch.setattr(_across, "_SCRATCH_BYTES", room)
                    np.testing.assert_array_equal(mapping(X, axis=0), P)
                    np.testing.assert_array_equal(vjp(dP, P0, axis=0), dX)
            over = X.copy()
            mapping(over, axis=0, out=over)
            np.testing.assert_array_equal(over, P)
            wide = np.full((3, *shape, 2), 7, dtype)
            mapping(X, axis=0, out=wide[1, ..., 1])  # not where lines could be written
            np.testing.assert_array_equal(wide[1, ..., 1], P)
            assert np.all(wide[::2] == 7) and np.all(wide[..., 0] == 7)
    assert any(calls)
    assert not all(calls)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "budget_bisect", "normmax_bisect"])
def test_rows_of_every_kind_where_they_lie(name):
    """What the rows across the memory that a kernel cannot answer get, and those beside them."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2 * LONG, 300))
    X[3, 100] = np.nan
    X[4, 110] = np.inf
    X[4:6, 120] = np.inf
    X[:, 130] = -np.inf
    X[7:, 140] = -np.inf
    X[:, 150] = 3
    X[:, 160] *= 1e-3
    X[:, 170] *= 1e300
    X[9, 180] = -1.7e308
    X[:, 200:] = np.sort(X[:, 200:], axis=0)
    mapping, vjp = getattr(sm, name), getattr(sm, f"{name}_vjp")
    P = mapping(np.ascontiguousarray(X.T)).T
    np.testing.assert_array_equal(mapping(X, axis=0), P)
    np.testing.assert_array_equal(mapping(X[:, :100].copy(), axis=0), P[:, :100])
    dP = rng.normal(size=X.shape)
    dP[::5, ::7] = np.nan
    dX = vjp(np.ascontiguousarray(dP.T), np.ascontiguousarray(P.T)).T
    np.testing.assert_array_equal(vjp(dP, np.ascontiguousarray(P), axis=0), dX)
    stack = np.stack([X[:, :60], X[:, 240:]])
    both = np.stack([P[:, :60], P[:, 240:]])
    np.testing.assert_array_equal(mapping(stack, axis=1), both)
    np.testing.assert_array_equal(mapping(stack.transpose(0, 2, 1), axis=2), both.swapaxes(1, 2))
    Z = np.zeros((2 * LONG, 70))  # no support at all
    np.testing.assert_array_equal(vjp(Z, Z, axis=0), vjp(Z.T.copy(), Z.T.copy()).T)


@pytest.mark.parametrize("alpha", [0.5, 1, 1.2, 1.5, 2, 3.5, np.inf])
def test_gradients_of_any_alpha_where_rows_lie(alpha):
    X = np.random.default_rng(5).normal(size=(1500, 90)) * 4
    P = sm.entmax(X, alpha, axis=0)
    rows = [np.ascontiguousarray(a.T) for a in (X, P)]
    np.testing.assert_array_equal(sm.entmax_vjp(X, P, alpha, axis=0), sm.entmax_vjp(*rows, alpha).T)
    alphas = np.where(np.arange(90) % 2, alpha, 1.7)[None]
    P = sm.entmax(X, alphas, axis=0)
    dX = sm.entmax_vjp(rows[0], np.ascontiguousarray(P.T), alphas.T)
    np.testing.assert_array_equal(sm.entmax_vjp(X, P, alphas, axis=0), dX.T)


@pytest.mark.parametrize("shape", [(40, 40_000), (3000, 500)])
@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "budget_bisect"])
def test_no_room_beyond_the_result(name, axis, shape):
    """With ``out=`` under 1 MB whatever X, threads included."""
    X = np.random.default_rng(2).normal(size=shape)
    out = np.empty_like(X)
    function = getattr(sm, name)
    few = (X[:, :9] if axis == 0 else X[:9]).copy()
    function(few, axis=axis, out=few)  # compiled or loaded now
    tracemalloc.start()
    try:
        function(X, axis=axis, out=out)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    tracemalloc.start()
    try:
        P = function(X, axis=axis)
        assert tracemalloc.get_traced_memory()[1] < P.nbytes + 1e6
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(P, out)
