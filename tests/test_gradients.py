"""Derivatives of every mapping: against the reference, finite differences and each other."""

import warnings

import numpy as np
import pytest
import reference
from mappings_list import DTYPES, INF, MAPPINGS
from mpmath import mpf

import sparsemap_np as sm

MAPPINGS = tuple(m for m in MAPPINGS if m.has_vjp)
every = pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
NAMES = tuple({m.name: m for m in MAPPINGS if m.smooth}.values())
each_name = pytest.mark.parametrize("mapping", NAMES, ids=lambda m: m.name)
# away from their kinks: finite differences at 1e-5 mean something
DIFFERENTIABLE = [
    m
    for m in MAPPINGS
    if m.smooth and m.param in (0.3, 0.9, 1, 1.1, 1.25, 1.5, 1.7, 2, 2.5, 3.5, 3)
]


def scores(dtype, scale=1.0, shape=(5, 6), seed=0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def pulled(mapping, dP, P):
    """The exact vjp at the very floats of P, and what rounding each product may add to it.

    In the entmax family every product of the exact map is J_ij (v_i - v_j): an implementation may
    lose a few eps of their absolute sum and no more.
    """
    pull = reference.PULLS[mapping.kind]
    exact, room = np.empty(P.shape), np.empty(P.shape)
    for i, (v, p) in enumerate(zip(dP.astype("f8"), P, strict=True)):
        p = [mpf(float(u)) for u in p]
        exact[i] = [float(u) for u in pull(p, v, mapping.param)]
        J = np.abs([[float(u) for u in pull(p, e, mapping.param)] for e in np.eye(len(p))])
        if mapping.kind == "entmax":
            np.fill_diagonal(J, 0)  # it may be infinite, and (v_i - v_i) does not need it
            room[i] = (J * np.abs(v[:, None] - v)).sum(axis=1)
        else:
            room[i] = J @ np.abs(v) + np.diag(J) * np.abs(v).max()
    return exact, room


@every
@each_dtype
@pytest.mark.parametrize("scale", [0.01, 0.3, 2])
def test_vjp_is_exact_at_the_given_output(mapping, dtype, scale):
    X = scores(dtype, scale, seed=2)
    P, dP = mapping(X), scores(dtype, seed=3)
    got = mapping.vjp(dP, P)
    assert got.dtype == dtype
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got[P == 0], 0)
    exact, room = pulled(mapping, dP, P)
    info = np.finfo(dtype)
    large = np.abs(exact) > info.max  # a probability may be too small for its own derivative
    bound = 64 * info.eps * room + info.tiny
    bad = ~large & ~(np.abs(got - exact) <= bound)
    assert not bad.any(), (got[bad], exact[bad], bound[bad], P[bad.any(axis=1)])
    np.testing.assert_array_equal(mapping.jvp(dP, P), got)


def long_vjp(mapping, v, p):
    """The formulas of the docstrings in extended precision, with the room of ``pulled``."""
    v, p = v.astype(np.longdouble), p.astype(np.longdouble)
    on = p > 0
    if mapping.kind == "normmax":
        a = np.longdouble(mapping.param)
        norm = (p[on] ** a).sum() ** (1 / a)
        w = np.where(on, norm / (a - 1) * np.where(on, p / norm, 1) ** (2 - a), 0)
        u = v - (p * v)[on].sum()
        J = np.abs(w) * np.abs(u) + p * (w * np.abs(u)).sum() + np.abs(v).max() * (w + p * w.sum())
        return w * u - p * (w * u).sum(), J
    on &= (p < 1) | (mapping.kind != "budget")
    power = 0 if mapping.kind == "budget" else 2 - np.longdouble(mapping.param)
    s = np.where(on, np.where(on, p, 1) ** power, 0)
    share = s / max(s.sum(), np.longdouble(1e-300))
    gaps = v[:, None] - v  # summed, because v minus its mean would cancel
    return s * (gaps @ share), s * (np.abs(gaps) @ share)


LENGTHS = (1, 2, 3, 15, 16, 17, 31, 40, 127, 128, 129, 300, 1000)
IN_FORMULAS = [m for m in NAMES if m.kind != "entmax" or m.param <= 2]
IN_FORMULAS += [m for m in MAPPINGS if m.name == "entmax_bisect" and m.param in (0.9, 1.25, 1.7)]


@pytest.mark.parametrize("mapping", IN_FORMULAS, ids=str)
@each_dtype
@pytest.mark.parametrize("offset", [0, 30])
def test_rows_of_every_length(mapping, dtype, offset):
    """Rows side by side and alone, in one block and in several, some without support."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    for d in LENGTHS:
        n = 35 if d <= 17 else 3
        X = rng.normal(size=(n, d))
        X[1::3] *= 4
        X[:, 130:270] -= 50  # a block between others that holds nothing
        X = X.astype(dtype)
        P = mapping(X)
        dP = (offset + rng.normal(size=(n, d))).astype(dtype)
        dP[(P == 0) & (rng.random((n, d)) < 0.1)] = np.nan  # never looked at
        got = mapping.vjp(dP, P)
        for i in range(n):
            exact, room = long_vjp(mapping, np.where(P[i] == 0, 0, dP[i]), P[i])
            bound = 64 * info.eps * room + info.tiny
            assert (np.abs(got[i] - exact) <= bound)[P[i] > 0].all(), (d, i)
            np.testing.assert_array_equal(got[i][P[i] == 0], 0)
            np.testing.assert_array_equal(mapping.vjp(dP[i], P[i]), got[i])
        for j in {0, d // 2, d - 1}:
            bad = P.copy()
            bad[1 % n, j] = np.nan
            again = mapping.vjp(dP, bad)
            assert np.isnan(again[1 % n]).all()
            keep = np.arange(n) != 1 % n
            np.testing.assert_array_equal(again[keep], got[keep])


@pytest.mark.parametrize("alpha", [2.5, 3, 10, 30])
@each_dtype
def test_tiny_probabilities_at_large_alpha(alpha, dtype):
    """A slope p^(2 - a) can dwarf all others: nothing overflows and the others are not lost."""
    P = np.array([[0.6, 0.4 - 2e-7, 2e-7], [1 - 1e-4, 1e-4, 0], [0.5, 0.3, 0.2]], dtype=dtype)
    dP = np.array([[1, 3, 2], [2, -1, 7], [1, 0, -1]], dtype=dtype)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = sm.entmax_bisect_vjp(dP, P, alpha)
    for v, p, g in zip(dP, P, got, strict=True):
        exact = [float(u) for u in reference.entmax_pull([mpf(float(u)) for u in p], v, alpha)]
        np.testing.assert_allclose(g, exact, rtol=64 * alpha * np.finfo(dtype).eps, atol=1e-30)


@pytest.mark.parametrize("mapping", DIFFERENTIABLE, ids=str)
def test_vjp_against_finite_differences(mapping):
    X, dP = scores("float64", 0.4, seed=4), scores("float64", seed=5)
    h = 1e-6
    got = mapping.vjp(dP, mapping(X))
    for j in range(X.shape[1]):
        step = h * np.eye(X.shape[1])[j]
        up, down = mapping(X + step), mapping(X - step)
        slope = (dP * (up - down)).sum(axis=1) / (2 * h)
        smooth = ((up > 0) == (down > 0)).all(axis=1) & ((up < 1) == (down < 1)).all(axis=1)
        assert smooth.sum() >= 4
        np.testing.assert_allclose(got[smooth, j], slope[smooth], rtol=1e-5, atol=1e-7)


@every
@each_dtype
def test_jacobian(mapping, dtype):
    P, dP = mapping(scores(dtype, 0.5)), scores(dtype, seed=1)
    J = mapping.jacobian(P)
    assert J.shape == (5, 6, 6)
    assert J.dtype == dtype
    np.testing.assert_allclose(J, J.swapaxes(-1, -2), rtol=1e-6, atol=0)
    eps = np.finfo(dtype).eps
    size = np.abs(J).astype("f8") @ np.abs(dP)[:, :, None].astype("f8")
    difference = np.abs(J.astype("f8") @ dP[:, :, None] - mapping.vjp(dP, P)[:, :, None])
    assert (difference <= 64 * eps * size + np.finfo(dtype).tiny).all()
    off = P == 0
    np.testing.assert_array_equal(J[off], 0)
    np.testing.assert_array_equal(J.swapaxes(-1, -2)[off], 0)
    # along another axis the matrix still comes last
    np.testing.assert_array_equal(mapping.jacobian(P.T, axis=0), J)


@every
@each_dtype
def test_one_hot_has_no_slope(mapping, dtype):
    P = np.eye(4, dtype=dtype)
    dP = scores(dtype, shape=(4, 4))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(mapping.vjp(dP, P), np.zeros((4, 4)))
        if mapping.argument is not None:
            which = "return_dbudget" if mapping.kind == "budget" else "return_dalpha"
            dX, dparam = mapping.vjp(dP, P, **{which: True})
            np.testing.assert_array_equal(dX, np.zeros((4, 4)))
            np.testing.assert_array_equal(dparam, np.zeros((4, 1)))


@every
@each_dtype
def test_awkward_rows(mapping, dtype):
    """NaN rows stay NaN and alone; masked entries get zero whatever their cotangent."""
    X = scores(dtype, 0.4, (6, 5), seed=8)
    X[1, 2] = np.nan
    X[2, 0] = X[4, 4] = -INF
    X[3] = -INF
    P, dP = mapping(X), scores(dtype, shape=(6, 5), seed=9)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = mapping.vjp(dP, P)
    nan_rows = np.isnan(P).all(axis=1)
    assert nan_rows[1]
    assert nan_rows.sum() == (1 if mapping.kind == "budget" and mapping.param == 0 else 2)
    assert np.isnan(got[nan_rows]).all()
    assert np.isfinite(got[~nan_rows]).all()
    assert got[2, 0] == got[4, 4] == 0
    for i in np.flatnonzero(~nan_rows):
        np.testing.assert_array_equal(mapping.vjp(dP[i], P[i]), got[i])
    dP[0, 0] = np.nan
    np.testing.assert_array_equal(mapping.vjp(dP, P)[1:], got[1:])


@each_name
@each_dtype
def test_layouts_axes_and_dtypes(mapping, dtype):
    X = scores(dtype, shape=(3, 4, 5))
    for axis in range(-3, 3):
        P, dP = mapping(X, axis=axis), scores(dtype, shape=X.shape, seed=1)
        P0, dP0 = P.copy(), dP.copy()
        d = X.shape[axis]
        flat = [np.moveaxis(a, axis, -1).reshape(-1, d) for a in (dP, P)]
        expected = mapping.vjp(*flat)
        expected = np.moveaxis(expected.reshape(np.moveaxis(X, axis, -1).shape), -1, axis)
        # summation order may differ with the layout of the work, not by more than rounding
        room = dict(rtol=1e-4 if dtype == "float32" else 1e-12, atol=np.finfo(dtype).eps * 8)
        np.testing.assert_allclose(mapping.vjp(dP, P, axis=axis), expected, **room)
        for change in (
            np.asfortranarray,
            lambda a: np.repeat(a, 2, axis=0)[::2],
            lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
            lambda a: a.astype(a.dtype.newbyteorder("S")),
        ):
            got = mapping.vjp(change(dP), change(P), axis=axis)
            np.testing.assert_array_equal(got, mapping.vjp(dP, P, axis=axis))
            assert got.flags.c_contiguous
            assert got.dtype == dtype
        dP.flags.writeable = P.flags.writeable = False
        mapping.vjp(dP, P, axis=axis)
        np.testing.assert_array_equal(P, P0)
        np.testing.assert_array_equal(dP, dP0)
    for shape in ((0, 3), (3, 0), (2, 0, 4)):
        empty = np.empty(shape, dtype=dtype)
        assert mapping.vjp(empty, empty).shape == shape
    one = np.array([[1.0], [1.0]], dtype=dtype)
    np.testing.assert_array_equal(mapping.vjp(3 * one, one), np.zeros((2, 1)))
    # a broadcast cotangent, as a sum's backward pass makes it
    P = mapping(X)
    ones = np.broadcast_to(np.array(1, dtype=dtype), X.shape)
    np.testing.assert_array_equal(mapping.vjp(ones, P), mapping.vjp(ones.copy(), P))
    half = mapping.vjp(dP0.astype("f2"), P.astype("f2"))
    assert half.dtype == np.float16


# --------------------------------------------------------------------------- the parameter
DALPHAS = (0.3, 0.9, 1 - 1e-6, 1, 1 + 1e-12, 1 + 1e-9, 1 + 1e-6, 1 + 1e-4, 1.01, 1.1, 1.33, 1.5, 2)


@pytest.mark.parametrize("alpha", [*DALPHAS, 3, 6])
@pytest.mark.parametrize("name", ["entmax", "entmax_bisect"])
def test_entmax_dalpha(name, alpha):
    check_dparam(name, "entmax", alpha, reference.entmax_dalpha)


@pytest.mark.parametrize("alpha", [1, 1.2, 1.5, 2, 3, 6, 20, INF])
def test_normmax_dalpha(alpha):
    check_dparam("normmax_bisect", "normmax", alpha, reference.normmax_dalpha)


def check_dparam(name, kind, alpha, judge):
    for scale in (1e-3, 0.2, 1, 4):
        X, dP = scores("float64", scale, seed=11), scores("float64", seed=12)
        X[1, 2] = -INF
        exact = reference.rows(judge, X, dP, param=alpha)
        for dtype, room in (("float64", 1e-9), ("float32", 2e-3)):
            P = getattr(sm, name)(X.astype(dtype), alpha)
            # at large alpha a tiny probability decides the slope, and it is known to 4 eps only
            known = np.where(P > 0, P, 1).min(axis=1) > 0.02
            dX, dalpha = getattr(sm, f"{name}_vjp")(dP.astype(dtype), P, alpha, return_dalpha=True)
            assert dalpha.shape == (5, 1)
            assert np.isfinite(dalpha).all()
            keep = known if alpha > 2 or kind == "normmax" else slice(None)
            np.testing.assert_allclose(dalpha[keep], exact[keep], rtol=room, atol=room)
            alone = getattr(sm, f"{name}_vjp")(dP.astype(dtype), P, alpha)
            np.testing.assert_array_equal(dX, alone)


@pytest.mark.parametrize("name", ["entmax", "entmax_bisect"])
def test_dalpha_is_continuous_at_one(name):
    """Neither the limit nor its neighbours cancel: all agree to their distance from one."""
    X, dP = scores("float64", shape=(4, 9)), scores("float64", shape=(4, 9), seed=1)

    def at(alpha):
        P = getattr(sm, name)(X, alpha)
        return getattr(sm, f"{name}_vjp")(dP, P, alpha, return_dalpha=True)[1]

    limit = at(1)
    for h in 10.0 ** -np.arange(3, 16):
        np.testing.assert_allclose(at(1 + h), limit, atol=100 * h + 1e-11)
        np.testing.assert_allclose(at(1 - h), limit, atol=100 * h + 1e-11)


@pytest.mark.parametrize(
    ("name", "argument", "values"),
    [
        ("entmax", "alpha", (1.2, 1.5, 2, 2.5)),
        ("entmax_bisect", "alpha", (0.5, 1.2, 1.5, 2, 2.5)),
        ("normmax_bisect", "alpha", (1.5, 2, 3)),
        ("budget_bisect", "budget", (0.5, 1, 2.5)),
    ],
)
def test_parameter_gradient_against_finite_differences(name, argument, values):
    function, vjp = getattr(sm, name), getattr(sm, f"{name}_vjp")
    X, dP, h = scores("float64", 0.3, seed=6), scores("float64", seed=7), 1e-6
    for value in values:
        kw = {"alpha": value} if argument == "alpha" else {}
        got = vjp(dP, function(X, value), **kw, **{f"return_d{argument}": True})[1]
        up, down = function(X, value + h), function(X, value - h)
        slope = (dP * (up - down)).sum(axis=1, keepdims=True) / (2 * h)
        smooth = ((up > 0) == (down > 0)).all(axis=1) & ((up < 1) == (down < 1)).all(axis=1)
        assert smooth.sum() >= 3
        np.testing.assert_allclose(got[smooth], slope[smooth], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["entmax", "entmax_bisect", "normmax_bisect"])
def test_alpha_by_row(name):
    function, vjp = getattr(sm, name), getattr(sm, f"{name}_vjp")
    X, dP = scores("float64", 0.5, (2, 4, 3)), scores("float64", shape=(2, 4, 3), seed=1)
    pool = np.array([1, 1.3, 1.5, 2, 3, INF, 1 + 1e-9])
    for axis in range(-3, 3):
        shape = list(X.shape)
        shape[axis] = 1
        alpha = np.resize(pool, shape)
        P = function(X, alpha, axis=axis)
        dX, dalpha = vjp(dP, P, alpha, axis=axis, return_dalpha=True)
        assert dalpha.shape == tuple(shape)
        rows = [np.moveaxis(a, axis, -1) for a in (dP, P, alpha, dX, dalpha)]
        for where in np.ndindex(rows[0].shape[:-1]):
            v, p, a, g, da = (r[where] for r in rows)
            one, one_da = vjp(v, p, a[0], return_dalpha=True)
            np.testing.assert_array_equal(g, one)
            np.testing.assert_array_equal(da, one_da)


def test_budget_without_an_inner_entry():
    P = np.array([[1.0, 1, 0], [0, 0, 0], [1, 0.5, 0.5]])
    dP = np.array([[1.0, 2, 3]] * 3)
    dX, dB = sm.budget_bisect_vjp(dP, P, return_dbudget=True)
    np.testing.assert_array_equal(dX, [[0, 0, 0], [0, 0, 0], [0, -0.5, 0.5]])
    np.testing.assert_array_equal(dB, [[0], [0], [2.5]])


def test_alpha_infinity_has_no_slope():
    X = np.array([[1.0, 1.0, 0.0], [3.0, 1.0, 0.0]])
    P = sm.entmax_bisect(X, INF)
    dX, dalpha = sm.entmax_bisect_vjp(np.ones((2, 3)), P, INF, return_dalpha=True)
    assert not dX.any()
    assert not dalpha.any()
