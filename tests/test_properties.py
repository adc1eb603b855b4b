"""What holds for every mapping, every alpha and every dtype: one list, one test a property."""

import functools
import math
import warnings

import naive
import numpy as np
import pytest
import reference
from mappings_list import DTYPES, INF, MAPPINGS, assert_close

import sparsemap_np as sm

every = pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
NAMES = tuple({m.name: m for m in MAPPINGS}.values())
# the shared kernels differ by name, not by alpha: layouts and the like need one alpha a name
each_name = pytest.mark.parametrize("mapping", NAMES, ids=lambda m: m.name)
# 1, 2 and inf have code of their own, and so may any integer 1 / (alpha - 1)
PLAIN = [m for m in MAPPINGS if m.param in (1.25, 1.5, 1.7, 2, 3, 3.5, INF) or m.param == 1]
plain = pytest.mark.parametrize("mapping", PLAIN, ids=str)


def scores(dtype, scale=1.0, shape=(6, 7), seed=0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(dtype)


# --------------------------------------------------------------------------- accuracy
@functools.cache
def accuracy_rows(dtype):
    """Every scale, offsets, near ties, and rows whose runner-up is at the edge of the support."""
    rng = np.random.default_rng(7)
    rows = [s * rng.normal(size=7) for s in (1e-6, 1e-3, 0.1, 0.5, 1, 3, 10, 1e3, 1e8, 1e30)]
    rows += [0.3 * rng.normal(size=7) + offset for offset in (-1e4, 1e6)]
    rows += [rng.integers(0, 3, size=7) / 4, np.full(7, -0.7), np.full(7, 1e30)]
    rows += [np.array([1e12, 0, 0.5, 0.25, 0.125, -1e12, 0.3])]
    base = rng.normal(size=7)
    base[:2] = base.max() + 1
    base[1] -= 1e-6
    rows.append(base)
    for gap in (0.005, 0.05, 0.111, 0.3, 0.66, 0.9, 1.3, 1.9):
        row = rng.normal(size=7) - 12
        row[3], row[5] = 1.0, 1.0 - gap
        rows.append(row)
    return np.array(rows).astype(dtype)


@functools.cache
def judged(kind, param, dtype):
    """Expected coordinates and thresholds (above the row's maximum) of accuracy_rows."""
    found = [reference.MAPS[kind](row, param, with_tau=True) for row in accuracy_rows(dtype)]
    return np.array([[float(v) for v in p] for p, _ in found]), np.array(
        [float(t) for _, t in found]
    )


@every
@each_dtype
def test_accuracy_and_support(mapping, dtype):
    X = accuracy_rows(dtype)
    P = mapping(X)
    assert P.dtype == dtype
    expected, tau = judged(mapping.kind, mapping.param, dtype)
    assert_close(P, expected, dtype)
    # a score within 2 eps of the threshold may fall on either side of it, and so may a
    # probability that the dtype cannot hold
    Z = X.astype("float64") - X.max(axis=1, keepdims=True).astype("float64")
    info = np.finfo(dtype)
    unsure = np.abs(Z - tau[:, None]) <= 2 * info.eps * np.maximum(1, np.abs(Z))
    unsure |= (expected > 0) & (expected < info.tiny)
    np.testing.assert_array_equal((P > 0) | unsure, (expected > 0) | unsure)


@every
@each_dtype
@pytest.mark.parametrize("scale", [1e-6, 0.1, 1, 5, 1e3, 1e30])
def test_rows_sum_to_one(mapping, dtype, scale):
    P = mapping(scores(dtype, scale, (8, 37)))
    assert P.min() >= 0
    assert P.max() <= 1
    for row in P:
        total = math.fsum(row.astype("float64"))
        bound = 4 * np.finfo(dtype).eps * math.sqrt(np.count_nonzero(row))
        assert abs(total - mapping.total(37)) <= bound


SIZES = (1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1025)


@plain
@each_dtype
@pytest.mark.parametrize("scale", [0.01, 1, 20])
def test_every_row_length(mapping, dtype, scale):
    """Lengths about the width of a vector and the size of a block, for flat and sparse rows."""
    for d in SIZES:
        X = scores(dtype, scale, (2, d), seed=d)
        # the last entry leads: a forgotten remainder would show
        X[1, -1] = X[1].max() + np.array(0.93, dtype=dtype)
        expected = naive.rows(mapping.kind, X, mapping.value(d))
        assert_close(mapping(X), expected, dtype)


@plain
@each_dtype
@pytest.mark.parametrize("d", [8192, 8193, 20_000])
def test_long_rows_of_which_little_much_or_all_is_supported(mapping, d, dtype):
    """Solved on copies of what may be in the support if that is little, and in place if not."""
    X = np.concatenate([scores(dtype, scale, (1, d), seed=d) for scale in (1, 0.05, 1e-5)])
    X[:, ::7] -= 1e3
    expected = naive.rows(mapping.kind, X, mapping.value(d))
    P = mapping(X)
    assert_close(P, expected, dtype)
    np.testing.assert_array_equal(mapping(X, out=X), P)


@plain
def test_many_short_rows(mapping):
    """Every order of events that a solver may meet on a few scores, not only the usual one."""
    for d, scale in ((2, 1), (3, 0.5), (4, 2), (5, 3), (6, 10)):
        X = scores("float64", scale, (150, d), seed=d)
        assert_close(mapping(X), naive.rows(mapping.kind, X, mapping.value(d)), "float64")


@pytest.mark.parametrize("scale", [1e-3, 1, 5])
@pytest.mark.parametrize("mapping", [m for m in PLAIN if m.param in (1, 1.5, 1.7, 2, 3)], ids=str)
def test_long_rows(mapping, scale):
    d = 100_000
    X = scores("float32", scale, (1, d), seed=3)
    expected = naive.rows(mapping.kind, X, mapping.value(d))
    assert_close(mapping(X), expected, "float32")
    P = mapping(X.astype("float64"))
    assert_close(P, expected, "float64", times=2)
    bound = 4 * np.finfo("float64").eps * math.sqrt(np.count_nonzero(P))
    assert abs(math.fsum(P[0]) - mapping.total(d)) <= bound


def test_a_row_in_which_every_score_is_a_candidate():
    # no pruning helps: all scores lie within the support
    X = np.linspace(0, 1e-7, 5000)[None]
    for mapping in PLAIN:
        assert_close(mapping(X), naive.rows(mapping.kind, X, mapping.value(5000)), "float64")


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2, 3, 10])
def test_two_scores_reach_one_hot_exactly(alpha):
    edge = 1 / (alpha - 1)
    below, beyond = sm.entmax([[edge * (1 - 1e-6), 0], [edge * (1 + 1e-12), 0]], alpha)
    assert below[1] > 0
    np.testing.assert_array_equal(beyond, [1, 0])


# --------------------------------------------------------------------------- symmetries
@every
@each_dtype
def test_permutation(mapping, dtype):
    X = scores(dtype, shape=(6, 33))
    order = np.random.default_rng(1).permutation(33)
    assert_close(mapping(X[:, order]), mapping(X)[:, order], dtype, times=2)


@every
@each_dtype
@pytest.mark.parametrize("offset", [3, -4096])
def test_shift(mapping, dtype, offset):
    # multiples of 1/64: adding the offset is exact in both dtypes
    X = np.round(64 * scores(dtype, shape=(6, 33))) / np.array(64, dtype=dtype)
    assert_close(mapping(X + np.array(offset, dtype=dtype)), mapping(X), dtype, times=2)


@every
@each_dtype
@pytest.mark.parametrize("d", [5, 150])
def test_monotone(mapping, dtype, d):
    for scale in (1e-3, 0.3, 2):
        P = mapping(np.sort(scores(dtype, scale, (4, d)), axis=1))
        assert np.diff(P, axis=1).min() >= 0


@every
@each_dtype
def test_neighbouring_floats_keep_their_order(mapping, dtype):
    X = np.empty((1, 40), dtype=dtype)
    X[0, 0] = 0.3
    for i in range(1, 40):
        X[0, i] = np.nextafter(X[0, i - 1], np.array(1, dtype=dtype))
    assert np.diff(mapping(X)).min() >= 0


@every
@each_dtype
@pytest.mark.parametrize("d", [6, 67, 300])
def test_ties_are_bit_equal(mapping, dtype, d):
    rng = np.random.default_rng(d)
    X = rng.choice([0.1, 0.2, 0.45, -3, 0.7], size=(5, d)).astype(dtype)
    X[0] = 0.1
    X[1] = 1e30
    for x, p in zip(X, mapping(X), strict=True):
        for value in np.unique(x):
            assert np.unique(p[x == value]).size == 1


# --------------------------------------------------------------------------- awkward rows
def awkward(d, dtype):
    """Rows that each need a rule, with good rows about them."""
    good = scores(dtype, 0.5, (1, d), seed=5)[0]

    def row(**entries):
        r = good.copy()
        for place, value in entries.items():
            r[int(place[1:])] = value
        return r

    last = f"_{d - 1}"
    rows = [
        good,
        row(_1=np.nan),
        good[::-1],
        row(**{last: np.nan}),
        row(_0=-INF),
        row(**{last: -INF}),
        np.full(d, -INF),
        good,
        row(_2=INF),
        row(**{last: INF, "_0": -INF}),
        row(_0=INF, _1=INF),
        row(**{"_0": INF, last: INF}),
        row(_0=INF, _2=np.nan),
        np.full(d, INF),
        np.full(d, np.nan),
        row(_0=np.finfo(dtype).max, _1=np.finfo(dtype).min),
        np.where(np.arange(d) == 1, good, -INF),
        np.where(np.arange(d) == d - 1, good, -INF),
        np.full(d, good[0]),
        np.full(d, np.finfo(dtype).max),
        np.full(d, -np.finfo(dtype).max),
        np.full(d, np.finfo(dtype).smallest_subnormal),
        good,
    ]
    return np.array(rows, dtype=dtype)


@functools.cache
def judged_awkward(kind, param, dtype):
    X = awkward(5, dtype)
    return reference.rows(reference.MAPS[kind], X, param=param)


@every
@pytest.mark.parametrize("dtype", ["float16", *DTYPES])
def test_awkward_rows(mapping, dtype):
    """Bad data become NaN in their own row, without a warning; masks leave the rest exact."""
    X = awkward(5, dtype)
    before = X.copy()
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        P = mapping(X)
        in_place = mapping(before, out=before)
    np.testing.assert_array_equal(in_place, P)
    np.testing.assert_array_equal(X, awkward(5, dtype))
    assert P.dtype == dtype
    expected = judged_awkward(mapping.kind, mapping.param, dtype)
    assert_close(P, expected, dtype)
    if dtype != "float16":
        # exact zeros and ones stay exact (tiny probabilities may underflow)
        np.testing.assert_array_equal(P[expected == 0], 0)
        one_hot = (expected == 1).any(axis=1) & ((expected == 0) | (expected == 1)).all(axis=1)
        np.testing.assert_array_equal(P[one_hot], expected[one_hot])


@every
@each_dtype
@pytest.mark.parametrize("d", [64, 300])
def test_awkward_long_rows(mapping, dtype, d):
    """The same rows where blocks and vectors are in play: the rules, not the numbers."""
    X = awkward(d, dtype)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        P = mapping(X)
        own = X.copy()
        mapping(own, out=own)
    np.testing.assert_array_equal(own, P)
    B = mapping.total(d)
    tops = (X == INF).sum(axis=1)
    usable = (X > -INF).sum(axis=1)
    bad = np.isnan(X).any(axis=1) | (usable == 0)
    if mapping.kind == "budget":
        bad |= (usable < B) | (tops > 1) & (0 < B) & (B < tops)
        if B == 0:
            bad = np.isnan(X).any(axis=1)
    else:
        bad |= tops > 1
    np.testing.assert_array_equal(np.isnan(P), np.broadcast_to(bad[:, None], P.shape))
    assert not P[~bad][X[~bad] == -INF].any()
    won = P[~bad][X[~bad] == INF]
    np.testing.assert_array_equal(won, np.full_like(won, min(B, 1)))
    bound = 4 * np.finfo(dtype).eps * math.sqrt(d)
    assert np.abs(P[~bad].astype("float64").sum(axis=1) - B).max() <= bound
    # the rest of a masked row is as if the masked entries were absent
    short = mapping(X[5:6, :-1])
    assert_close(P[5:6, :-1], short, dtype, times=2)


@every
@each_dtype
def test_neighbours_do_not_matter(mapping, dtype):
    X = awkward(9, dtype)
    P = mapping(X)
    for i in range(len(X)):
        np.testing.assert_array_equal(mapping(X[i]), P[i])


@every
@each_dtype
def test_short_and_empty_rows(mapping, dtype):
    one = mapping(np.array([[3.0], [-1e30], [0.0]], dtype=dtype))
    np.testing.assert_array_equal(one, np.full((3, 1), mapping.total(1), dtype=dtype))
    for shape in ((0, 3), (3, 0), (0, 0), (0,), (2, 0, 4)):
        for axis in range(-len(shape), len(shape)):
            empty = mapping(np.empty(shape, dtype=dtype), axis=axis)
            assert empty.shape == shape
            assert empty.dtype == dtype


# --------------------------------------------------------------------------- arrays
def layouts(X):
    """The same values in every layout that NumPy has."""
    doubled = np.full((2 * X.shape[0], 2 * X.shape[1]), np.nan, dtype=X.dtype)
    doubled[::2, ::2] = X
    locked = X.copy()
    locked.flags.writeable = False
    shifted = np.zeros(X.nbytes + 1, dtype="u1")[1:].view(X.dtype).reshape(X.shape)
    shifted[...] = X
    return {
        "fortran": np.asfortranarray(X),
        "strided": doubled[::2, ::2],
        "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
        "transposed": X.T.copy().T,
        "read-only": locked,
        "swapped": X.astype(X.dtype.newbyteorder("S")),
        "unaligned": shifted,
        "list": X.tolist() if X.dtype == "float64" else X,
    }


@each_name
@each_dtype
def test_layouts(mapping, dtype):
    X = scores(dtype, shape=(5, 12))
    expected = mapping(X)
    for label, other in layouts(X).items():
        before = np.array(other)
        got = mapping(other)
        np.testing.assert_array_equal(got, expected, err_msg=label)
        assert got.dtype == np.dtype(dtype), label
        assert got.flags.c_contiguous, label
        np.testing.assert_array_equal(np.array(other), before, err_msg=label)
    repeated = np.broadcast_to(X[0], (4, 12))
    np.testing.assert_array_equal(mapping(repeated), np.broadcast_to(expected[0], (4, 12)))
    constant = np.broadcast_to(X[:, :1], (5, 12))  # stride zero along the normalised axis
    np.testing.assert_array_equal(mapping(constant), mapping(constant.copy()))


@each_name
def test_dtypes(mapping):
    X = np.round(4 * scores("float64", shape=(4, 6)))
    expected = mapping(X)
    for dtype in ("i1", "i2", "i4", "i8", ">i4"):
        got = mapping(X.astype(dtype))
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, expected)
    flags = X > 0
    got = mapping(flags)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, mapping(flags.astype("float64")))
    unsigned = np.array([[0, 1, 255]], dtype="u1")
    np.testing.assert_array_equal(mapping(unsigned), mapping(unsigned.astype("float64")))
    half = mapping(X.astype("float16"))
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, mapping(X.astype("float32")).astype("float16"))
    swapped = mapping(X.astype(">f4"))
    assert swapped.dtype == np.dtype("float32")
    assert swapped.dtype.isnative


@each_name
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 2)], ids=str)
def test_any_axis(mapping, shape):
    X = scores("float64", shape=shape)
    for axis in range(-X.ndim, X.ndim):
        moved = np.ascontiguousarray(np.moveaxis(X, axis, -1))
        d = moved.shape[-1]
        flat = mapping(moved.reshape(-1, d))
        expected = np.moveaxis(flat.reshape(moved.shape), -1, axis)
        got = mapping(X, axis=axis)
        np.testing.assert_array_equal(got, expected)
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(mapping(np.asfortranarray(X), axis=axis), expected)


@each_name
def test_one_dimension(mapping):
    X = scores("float64")
    np.testing.assert_array_equal(mapping(X[2]), mapping(X)[2])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("name", "argument", "values"),
    [
        ("entmax_bisect", "alpha", [1, 1 + 1e-9, 1.3, 1.5, 2, 3, 0.5, INF]),
        ("entmax", "alpha", [1, 1.25, 1.3, 1.5, 2, 3, 0.5, INF]),
        ("normmax_bisect", "alpha", [1, 1.2, 1.5, 2, 3, 5, 9, INF]),
        ("budget_bisect", "budget", [0, 1, 1.5, 2, 0.5, 1.25, 0.1, 2]),
    ],
)
def test_parameter_by_row(name, argument, values, dtype):
    """One value for each row, on any axis of the array, is the scalar applied to that row."""
    function = getattr(sm, name)
    X = scores(dtype, shape=(2, 4, 3))
    pool = np.array(values)
    for axis in range(-3, 3):
        shape = list(X.shape)
        shape[axis] = 1
        for dropped in (None, 0, 1, 2):
            small = [1 if i == dropped else n for i, n in enumerate(shape)]
            param = np.resize(pool, small)
            got = function(X, param, axis=axis)
            full = np.moveaxis(np.broadcast_to(param, shape), axis, -1)
            rows, out = np.moveaxis(X, axis, -1), np.moveaxis(got, axis, -1)
            for where in np.ndindex(rows.shape[:-1]):
                np.testing.assert_array_equal(out[where], function(rows[where], full[where][0]))
        # fewer dimensions than X broadcast from the right, as everywhere in NumPy
        if axis in (-1, 2):
            param = np.resize(pool, (4, 1))
            np.testing.assert_array_equal(
                function(X, param), function(X, np.broadcast_to(param, (2, 4, 1)))
            )
    for kind in ("f4", "i8", ">f8", "f2"):
        param = np.resize(np.array([1, 2]), (2, 4, 1)).astype(kind)
        np.testing.assert_array_equal(function(X, param), function(X, param.astype("f8")))


@each_name
@each_dtype
def test_out(mapping, dtype):
    X = scores(dtype, shape=(4, 4, 4))
    for axis in (0, 1, 2, -1):
        expected = mapping(X, axis=axis)
        for out in (
            np.full_like(X, np.nan),
            np.full(X.shape, np.nan, dtype="float32"),
            np.full(X.shape, np.nan, dtype="float64"),
            np.full(X.shape, np.nan, dtype=">f8"),
            np.full((8, 4, 4), np.nan, dtype=dtype)[::-2],
            np.asfortranarray(np.full_like(X, np.nan)),
        ):
            assert mapping(X, axis=axis, out=out) is out
            np.testing.assert_array_equal(out, expected.astype(out.dtype))
        in_place = X.copy()
        assert mapping(in_place, axis=axis, out=in_place) is in_place
        np.testing.assert_array_equal(in_place, expected)
        # as with a ufunc, an output that overlaps the input does not disturb it
        for view in (
            lambda a: a[::-1],
            lambda a: a[..., ::-1],
            lambda a: a.transpose(1, 0, 2),
            lambda a: a.transpose(2, 1, 0),
        ):
            shared = X.copy()
            got = mapping(shared, axis=axis, out=view(shared))
            np.testing.assert_array_equal(got, expected)
    shifted = np.empty(X.size + 1, dtype=dtype)
    source, target = shifted[:-1].reshape(X.shape), shifted[1:].reshape(X.shape)
    source[...] = X
    np.testing.assert_array_equal(mapping(source, out=target), mapping(X))


@each_name
def test_out_of_the_wrong_kind(mapping):
    X = scores("float64")
    with pytest.raises(ValueError, match="out"):
        mapping(X, out=np.empty((6, 8)))
    with pytest.raises(ValueError, match="out"):
        mapping(X, out=np.empty(7))
    with pytest.raises(TypeError, match="out"):
        mapping(X, out=np.empty(X.shape, dtype="int64"))
    with pytest.raises(TypeError, match="out"):
        mapping(X, out=X.tolist())
    locked = np.empty(X.shape)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="out|read-only"):
        mapping(X, out=locked)


@each_name
def test_integers_and_halves_into_out(mapping):
    X = np.array([[1, 2, 3], [0, 0, 5]])
    expected = mapping(X)
    for dtype in ("float32", "float64"):
        out = np.empty(X.shape, dtype=dtype)
        np.testing.assert_array_equal(mapping(X, out=out), expected.astype(dtype))
    out = np.empty(X.shape)
    assert mapping(X.astype("f2"), out=out) is out
    assert_close(out, expected, "float16")


# --------------------------------------------------------------------------- options
@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
@each_dtype
@pytest.mark.parametrize("d", [1, 2, 9, 65, 500])
def test_k_never_changes_a_bit(name, dtype, d):
    function = getattr(sm, name)
    for scale in (1e-3, 0.3, 3):
        X = scores(dtype, scale, (6, d), seed=d)
        X[0] = 0.25
        X[1, 0] = -INF
        X[2, -1] = INF
        expected = function(X)
        for k in (1, 2, 3, d // 2 + 1, d, d + 1, 10 * d, np.int64(2)):
            np.testing.assert_array_equal(function(X, k=k), expected)
            np.testing.assert_array_equal(function(X.T, axis=0, k=k), expected.T)
            P, size = function(X, k=k, return_support_size=True)
            np.testing.assert_array_equal(P, expected)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_support_size(name, dtype):
    function = getattr(sm, name)
    X = (4 * scores("float64", shape=(3, 5, 6))).astype(dtype)
    for axis in (0, 1, 2, -1, -2):
        P, size = function(X, axis, return_support_size=True)
        np.testing.assert_array_equal(P, function(X, axis=axis))
        assert size.dtype == np.int64
        np.testing.assert_array_equal(size, np.count_nonzero(P, axis=axis, keepdims=True))
    P, size = function(X[0, 0], return_support_size=True)
    assert size.shape == (1,)
    P, size = function(np.empty((0, 3)), return_support_size=True)
    assert size.shape == (0, 1)
    out = np.empty(X.shape, dtype="float64")
    P, size = function(X, return_support_size=True, out=out)
    assert P is out


@pytest.mark.parametrize(
    "mapping",
    [m for m in MAPPINGS if "bisect" in m.name and m.param in (1.25, 1.5, 2, 3, 3.5)]
    + [m for m in MAPPINGS if m.kind == "normmax" and m.param == 5],
    ids=str,
)
@each_dtype
def test_plain_bisection_approaches_the_answer(mapping, dtype):
    X = scores(dtype, shape=(5, 20))
    exact = mapping(X).astype("float64")
    eps = np.finfo(dtype).eps
    errors = []
    for n_iter in (1, 4, 8, 12, 16, 20, 60):
        P = mapping(X, n_iter=n_iter)
        assert P.dtype == dtype
        assert np.isfinite(P).all()
        errors.append(np.abs(P - exact).max())
    assert errors[0] > 1e-3  # one step is one step
    # a bracket no wider than the range of X, halved at each step; for alpha = 3 and normmax 5
    # the slope of p in tau is infinite at the edge, where only its root is gained
    power = 1 / (mapping.param - 1) if mapping.kind != "budget" and mapping.param > 2 else 1
    if mapping.kind != "budget":
        for steps, error in zip((8, 12, 16, 20), errors[2:6], strict=True):
            assert error <= 64 * (2.0**-steps) ** power + 16 * eps
    assert errors[-1] <= 64 * eps**power
    if mapping.kind == "entmax":
        assert np.abs(mapping(X, n_iter=3).astype("f8").sum(axis=1) - 1).max() <= 8 * eps


@pytest.mark.parametrize("name", ["entmax_bisect", "sparsemax_bisect"])
def test_ensure_sum_one(name):
    function = getattr(sm, name)
    X = scores("float64", shape=(5, 20))
    loose = function(X, n_iter=4, ensure_sum_one=False)
    tight = function(X, n_iter=4)
    assert np.abs(loose.sum(axis=1) - 1).max() > 1e-3
    np.testing.assert_allclose(tight, loose / loose.sum(axis=1, keepdims=True), rtol=1e-12)
    # at the last bit there is nothing left to ensure
    assert_close(function(X, ensure_sum_one=False), function(X), "float64", times=2)


def test_the_same_mapping_by_other_names():
    X = scores("float64", shape=(20, 30))
    assert_close(sm.sparsemax_bisect(X), sm.sparsemax(X), "float64")
    assert_close(sm.entmax_bisect(X, 2), sm.sparsemax(X), "float64")
    assert_close(sm.entmax_bisect(X), sm.entmax15(X), "float64")
    assert_close(sm.budget_bisect(X, 1), sm.sparsemax(X), "float64")
    np.testing.assert_array_equal(sm.entmax(X, 2), sm.sparsemax(X))
    np.testing.assert_array_equal(sm.entmax(X), sm.entmax15(X))
    np.testing.assert_array_equal(sm.entmax(X, 1), sm.entmax_bisect(X, 1))
    np.testing.assert_array_equal(sm.entmax(X, INF), sm.entmax_bisect(X, INF))


def test_many_rows_are_as_good_as_few():
    """Enough work for several threads: the values do not depend on the split."""
    X = scores("float32", shape=(20_000, 40))
    for mapping in NAMES:
        P = mapping(X)
        np.testing.assert_array_equal(P[::997], mapping(X[::997]))
        np.testing.assert_array_equal(mapping(X.T, axis=0)[:, ::997], P[::997].T)


def test_defaults_are_those_of_the_interface():
    X = scores("float64")
    np.testing.assert_array_equal(sm.normmax_bisect(X), sm.normmax_bisect(X, 2))
    np.testing.assert_array_equal(sm.budget_bisect(X), sm.budget_bisect(X, 2))
    np.testing.assert_array_equal(sm.entmax_bisect(X), sm.entmax_bisect(X, 1.5))
