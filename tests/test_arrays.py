"""How arrays reach the kernels: rows across the memory, and what it costs in room."""

import itertools
import tracemalloc

import numpy as np
import pytest

import sparsemap_np as sm
from sparsemap_np import _across


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
