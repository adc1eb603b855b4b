"""The Fenchel-Young losses: values, gradients, targets, reductions."""

import warnings

import numpy as np
import pytest
import reference
import scipy.sparse
from mappings_list import BUDGET_LOSSES, DTYPES, INF, LOSSES, assert_close

import sparsemap_np as sm

every = pytest.mark.parametrize("loss", LOSSES, ids=str)
budgets = pytest.mark.parametrize("loss", BUDGET_LOSSES, ids=str)
both = pytest.mark.parametrize("loss", LOSSES + BUDGET_LOSSES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
NAMES = tuple({e.name: e for e in LOSSES}.values())
each_name = pytest.mark.parametrize("loss", NAMES, ids=lambda e: e.name)


def scores(dtype="float64", scale=1.0, shape=(6, 5), seed=0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def labels(n=6, d=5, seed=1):
    return np.random.default_rng(seed).integers(0, d, n)


def soft_targets(dtype="float64", n=6, d=5, seed=2):
    """Distributions with zeros, whose sum the dtype rounds."""
    Y = np.random.default_rng(seed).random((n, d)) ** 3
    Y[::2, 1] = 0
    Y[1, 2:] = 0
    return (Y / Y.sum(axis=1, keepdims=True)).astype(dtype)


def boxes(loss, n=6, d=5, seed=3, whole=False):
    """Rows of [0, 1]^d that sum to the budget of the loss."""
    rng = np.random.default_rng(seed)
    B = loss.mapping.value(d)
    Y = np.array([rng.permutation(np.clip(B - np.arange(d), 0, 1)) for _ in range(n)])
    return Y if whole else (Y + np.roll(Y, 1, axis=1)) / 2


def targets(loss, dtype="float64"):
    """One list of targets for every loss: exact corners, and inner points."""
    if loss.kind == "budget":
        return [boxes(loss).astype(dtype), boxes(loss, whole=True).astype(dtype)]
    return [labels(), soft_targets(dtype)]


def room(X, expected):
    """Rounding of the terms, as the losses are sums of products of scores and probabilities."""
    spread = np.ptp(np.where(np.isfinite(X), X, 0).astype("f8"), axis=1)
    return 32 * np.finfo(X.dtype).eps * (1 + spread + np.abs(expected))


@both
@each_dtype
@pytest.mark.parametrize("scale", [1e-6, 0.3, 2, 100])
def test_value_and_gradient(loss, dtype, scale):
    X = scores(dtype, scale)
    for y in targets(loss, dtype):
        expected = loss.reference(X, y)
        L, dX = loss(X, y, return_grad=True)
        assert L.dtype == dX.dtype == dtype
        assert L.shape == (6,)
        assert dX.shape == X.shape
        assert L.min() >= 0
        assert (np.abs(L - expected) <= room(X, expected)).all(), (L, expected)
        np.testing.assert_array_equal(loss(X, y), L)
        slope = loss.reference_grad(X, y)
        np.testing.assert_allclose(dX, slope, rtol=0, atol=16 * np.finfo(dtype).eps)


@each_dtype
@every
def test_gradient_is_prediction_minus_target(loss, dtype):
    X, y = scores(dtype), labels()
    _, dX = loss(X, y, return_grad=True)
    one_hot = np.eye(5, dtype=dtype)[y]
    P = loss.mapping(X)
    np.testing.assert_allclose(dX, P - one_hot, rtol=0, atol=2 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(dX[(P == 0) & (one_hot == 0)], 0)


@pytest.mark.parametrize(
    "loss",
    [e for e in LOSSES + BUDGET_LOSSES if e.mapping.smooth],
    ids=str,
)
def test_gradient_against_finite_differences(loss):
    X, h = scores(scale=0.6, seed=4), 1e-6
    for y in targets(loss):
        _, dX = loss(X, y, return_grad=True)
        for j in range(5):
            step = h * np.eye(5)[j]
            slope = (loss(X + step, y) - loss(X - step, y)) / (2 * h)
            # near alpha = inf the gradient itself changes within the step
            np.testing.assert_allclose(dX[:, j], slope, atol=1e-4)


@both
@each_dtype
@pytest.mark.parametrize("scale", [1e-3, 0.3, 3])
def test_zero_exactly_where_the_prediction_is_the_target(loss, dtype, scale):
    X = scores(dtype, scale, (40, 5), seed=5)
    P = loss.mapping(X)
    # left alone, budget_loss would take the rounded sum of each row for its budget
    given = {"budget": loss.param} if loss.kind == "budget" else {}
    L = loss(X, P, **given)
    assert L.min() >= 0
    np.testing.assert_array_equal(L, np.zeros(40))
    if loss.kind == "budget":
        np.testing.assert_allclose(loss(X, P), 0, atol=64 * np.finfo(dtype).eps * (1 + scale))
    else:
        settled = np.flatnonzero(np.count_nonzero(P, axis=1) == 1)
        found = loss(X[settled], P[settled].argmax(axis=1))
        np.testing.assert_array_equal(found, np.zeros(len(settled)))


@every
@each_dtype
def test_never_negative_next_to_the_target(loss, dtype):
    """Targets one rounding away from the prediction: the true loss is below any resolution."""
    for scale in (1e-6, 0.1, 2, 1e6):
        X = scores(dtype, scale, (60, 5), seed=6)
        P = loss.mapping(X)
        Y = P * (1 + np.finfo(dtype).eps * np.random.default_rng(0).integers(-2, 3, P.shape))
        L = loss(X, Y.astype(dtype))
        assert L.min() >= 0
        assert np.isfinite(L).all()


@pytest.mark.parametrize(
    "loss", [e for e in LOSSES if e.kind == "entmax" and 1.1 <= e.param < INF], ids=str
)
def test_zero_once_the_margin_is_reached(loss):
    margin = 1 / (loss.param - 1)
    X = np.array(
        [[margin * 1.001, 0, -1], [3 * margin, 0, 0], [1e30, 0, -1e30], [margin / 2, 0, 0]]
    )
    L, dX = loss(X, [0, 0, 0, 0], return_grad=True)
    np.testing.assert_array_equal(L[:3], 0)
    np.testing.assert_array_equal(dX[:3], 0)
    assert L[3] > 0


@every
@each_dtype
@pytest.mark.parametrize("d", [1, 2, 5, 40, 700])
def test_labels_around_the_margin_equal_their_one_hot_rows(loss, dtype, d):
    """Beyond the margin a label's row is answered without its probabilities."""
    margin = 1.0 if loss.kind == "normmax" or loss.param <= 1 else 1 / (loss.param - 1)
    leads = margin * np.array([0, 0.5, 1 - 1e-6, 1, 1 + 1e-6, 1.5, 100])
    rng = np.random.default_rng(d)
    X = 3 - rng.random((2 * len(leads), d))
    y = rng.integers(0, d, len(X))
    X[len(leads) :, :] = 3  # all others tie for the second place
    X[np.arange(len(X)), y] = 3 + np.r_[leads, leads]
    strange = [[INF], [-INF], [np.nan]] if d == 1 else [[INF, 0], [0, INF], [INF, INF], [0, np.nan]]
    X = np.r_[X, np.pad(np.array(strange), [(0, 0), (0, max(0, d - 2))])].astype(dtype)
    y = np.r_[y, np.zeros(len(strange), int)]
    options = {"return_grad": True, "return_support_size": True}
    L, size, dX = loss(X, y, **options)
    L1, size1, dX1 = loss(X, np.eye(d, dtype=dtype)[y], **options)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(L, L1, rtol=64 * eps, atol=64 * eps * (1 + margin))
    np.testing.assert_array_equal(size, size1)
    np.testing.assert_allclose(dX, dX1, rtol=0, atol=8 * eps)


# --------------------------------------------------------------------------- targets
@every
@each_dtype
def test_labels_of_every_kind_equal_their_one_hot_rows(loss, dtype):
    X, y = scores(dtype), labels()
    L, dX = loss(X, y, return_grad=True)
    for kind in ("i1", "u1", "i4", ">i8", "u8"):
        np.testing.assert_array_equal(loss(X, y.astype(kind)), L)
    np.testing.assert_array_equal(loss(X, y.tolist()), L)
    np.testing.assert_array_equal(loss(X, np.repeat(y, 2)[::2]), L)
    eye = np.eye(5, dtype=dtype)[y]
    formats = [eye, eye.astype("i8"), eye.astype(bool), eye.tolist(), np.asfortranarray(eye)]
    formats += [scipy.sparse.csr_array(eye), scipy.sparse.coo_matrix(eye)]
    for Y in formats:
        L2, dX2 = loss(X, Y, return_grad=True)
        tiny = np.finfo(dtype).eps
        np.testing.assert_allclose(L2, L, rtol=64 * tiny, atol=64 * tiny)
        np.testing.assert_allclose(dX2, dX, rtol=0, atol=4 * tiny)


@each_dtype
@pytest.mark.parametrize("alpha", [0.3, 0.999, 1 - 1e-9, 1 + 1e-9, 1.001, 1.01, 1.1, 3])
def test_labels_whose_probability_is_subnormal_or_underflows(alpha, dtype):
    """The loss of a class is read off its score where its probability has lost its digits."""
    gaps = np.r_[np.linspace(60, 115, 30), np.linspace(600, 760, 30)]
    X = np.c_[np.zeros(60), gaps, gaps / 2].astype(dtype)
    y = np.zeros(60, dtype=int)
    exact = [float(reference.loss("entmax", x, 0, alpha)) for x in X]
    assert_close(sm.entmax_loss(X, y, alpha, reduction="none"), exact, dtype)


@every
def test_sparse_targets_equal_dense_ones(loss):
    X, Y = scores(), soft_targets()
    L, dX = loss(X, Y, return_grad=True)
    stored_zero = scipy.sparse.csr_array(Y + 1.0 * (Y == 0))
    stored_zero.data[stored_zero.data == 1] = 0
    stored_zero = stored_zero if (stored_zero.toarray() == Y).all() else scipy.sparse.csr_array(Y)
    unsorted = scipy.sparse.csr_array(Y)
    for a, b in zip(unsorted.indptr[:-1], unsorted.indptr[1:], strict=True):
        unsorted.indices[a:b] = unsorted.indices[a:b][::-1].copy()
        unsorted.data[a:b] = unsorted.data[a:b][::-1].copy()
    unsorted.has_sorted_indices = False
    wide = scipy.sparse.csr_array(Y)
    wide.indices, wide.indptr = wide.indices.astype("i8"), wide.indptr.astype("i8")
    twice = scipy.sparse.coo_array(Y)  # duplicate entries add up
    twice = scipy.sparse.coo_array(
        (np.tile(twice.data / 2, 2), (np.tile(twice.row, 2), np.tile(twice.col, 2))), Y.shape
    )
    kinds = [scipy.sparse.csc_array(Y), scipy.sparse.coo_array(Y), scipy.sparse.csr_matrix(Y)]
    for S in (*kinds, stored_zero, unsorted, wide, twice):
        before = S.toarray()
        L2, dX2 = loss(X, S, return_grad=True)
        np.testing.assert_allclose(L2, L, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(dX2, dX, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(S.toarray(), before)


@each_name
def test_soft_targets_are_normalised_in_double(loss):
    """Single-precision rows sum to one within 1e-7 only; the rest must not enter the loss."""
    d = 50
    X = scores("float32", shape=(20, d))
    Y = soft_targets("float32", 20, d)
    assert (Y.astype("f8").sum(axis=1) != 1).any()
    expected = loss.reference(X, Y)
    L, dX = loss(X, Y, return_grad=True)
    assert (np.abs(L - expected) <= room(X, expected)).all()
    np.testing.assert_allclose(
        dX, loss.reference_grad(X, Y), rtol=0, atol=16 * np.finfo("float32").eps
    )
    # a common offset multiplies what the target's sum is off by
    moved = np.round(X * 64) / 64
    change = loss(moved + np.float32(2**13), Y) - loss(moved, Y)
    assert np.abs(change).max() <= 1e-5


@every
def test_offsets_cancel(loss):
    X = np.round(64 * scores()) / 64
    for y in (labels(), soft_targets()):
        L, dX = loss(X, y, return_grad=True)
        L2, dX2 = loss(X + 2.0**30, y, return_grad=True)
        np.testing.assert_allclose(L2, L, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(dX2, dX, rtol=0, atol=1e-15)


@every
@each_dtype
def test_infinite_and_missing_scores(loss, dtype):
    X = np.array(
        [
            [0.5, -INF, 0.1, -0.4],  # a mask beside the target
            [0.5, -INF, 0.1, -0.4],  # a mask on the target
            [0.5, INF, 0.1, 0.4],  # infinite on the target
            [0.5, INF, 0.1, 0.4],  # infinite elsewhere
            [0.5, np.nan, 0.1, 0.4],
            [-INF, -INF, -INF, -INF],
            [INF, INF, 0, 0],
            [0.2, 0.3, 0.1, 0.4],
            [-INF, -INF, 0.1, -INF],  # only the target is left
        ],
        dtype=dtype,
    )
    y = np.array([2, 1, 1, 0, 0, 0, 0, 1, 2])
    expected = np.array([np.nan, INF, 0, INF, np.nan, np.nan, np.nan, np.nan, 0])
    for target in (y, np.eye(4, dtype=dtype)[y], scipy.sparse.csr_array(np.eye(4)[y])):
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            L, dX = loss(X, target, return_grad=True)
        exact = loss.reference(X, y)
        np.testing.assert_array_equal(np.isnan(L), np.isnan(exact))
        np.testing.assert_array_equal(L[[1, 2, 3, 8]], expected[[1, 2, 3, 8]])
        usual = [0, 7]
        assert (np.abs(L[usual] - exact[usual]) <= room(X, L)[usual]).all()
        slope = loss.reference_grad(X, y)
        np.testing.assert_array_equal(np.isnan(dX), np.isnan(slope))
        keep = [0, 1, 2, 3, 7, 8]
        np.testing.assert_allclose(dX[keep], slope[keep], rtol=0, atol=16 * np.finfo(dtype).eps)
        assert dX[0, 1] == 0
        # as if the masked class were absent
        alone = loss(X[:1, [0, 2, 3]], [1])
        np.testing.assert_allclose(L[0], alone[0], rtol=16 * np.finfo(dtype).eps)


@every
def test_masked_classes_in_soft_targets(loss):
    X = np.array([[0.5, -INF, 0.1], [0.5, -INF, 0.1], [0.2, INF, 0.1], [0.2, INF, 0.1]])
    Y = np.array([[0.5, 0, 0.5], [0.5, 0.25, 0.25], [0, 1, 0], [0.5, 0.5, 0]])
    for target in (Y, scipy.sparse.csr_array(Y)):
        L = loss(X, target)
        np.testing.assert_array_equal(L[1:], [INF, 0, INF])
        np.testing.assert_allclose(L[0], loss(X[:1, ::2], Y[:1, ::2])[0], rtol=1e-13)


# --------------------------------------------------------------------------- keywords
def slopes(loss, X, y):
    return loss(X, y, return_grad=True)


@both
@each_dtype
def test_reductions(loss, dtype):
    X = scores(dtype)
    for y in targets(loss, dtype):
        L, dX = slopes(loss, X, y)
        near = dict(rtol=8 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps)
        for name, divisor in (("sum", 1), ("mean", 6), ("elementwise_mean", 6)):
            total, grad = loss(X, y, reduction=name, return_grad=True)
            assert np.ndim(total) == 0
            assert np.asarray(total).dtype == grad.dtype == dtype
            np.testing.assert_allclose(total, L.astype("f8").sum() / divisor, **near)
            np.testing.assert_allclose(grad, dX / divisor, **near)
            assert loss(X, y, reduction=name) == total
        np.testing.assert_array_equal(loss(X, y, reduction="none"), L)


@both
def test_sample_weight(loss):
    X, w = scores(), np.array([1, 0, 2.5, 1, 0.25, 3])
    for y in targets(loss):
        L, dX = slopes(loss, X, y)
        for kind in (w, w.astype("f4"), w.tolist()):
            total, grad = loss(X, y, sample_weight=kind, reduction="sum", return_grad=True)
            np.testing.assert_allclose(total, w @ L, rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(grad, w[:, None] * dX, rtol=1e-13)
        mean, grad = loss(X, y, sample_weight=w, reduction="mean", return_grad=True)
        np.testing.assert_allclose(mean, w @ L / w.sum(), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(grad, w[:, None] * dX / w.sum(), rtol=1e-13)
        each, grad = loss(X, y, sample_weight=w, return_grad=True)
        np.testing.assert_allclose(each, w * L, rtol=1e-13)
        np.testing.assert_allclose(grad, w[:, None] * dX, rtol=1e-13)
        none, grad = loss(X, y, sample_weight=np.zeros(6), reduction="mean", return_grad=True)
        assert none == 0
        np.testing.assert_array_equal(grad, 0)


@every
@pytest.mark.parametrize("ignored", [-1, -100, 7, 2])
def test_ignored_samples_are_not_looked_up(loss, ignored):
    X, y = scores(), labels()
    skip = np.array([1, 4]) if ignored != 2 else np.flatnonzero(y == 2)
    y[skip] = ignored
    X[skip[:1]] = np.nan
    keep = np.setdiff1d(np.arange(6), skip)
    L, dX = loss(X, y, ignore_index=ignored, return_grad=True)
    np.testing.assert_array_equal(L[skip], 0)
    np.testing.assert_array_equal(dX[skip], 0)
    np.testing.assert_array_equal(L[keep], loss(X[keep], y[keep]))
    mean, grad = loss(X, y, ignore_index=ignored, reduction="mean", return_grad=True)
    np.testing.assert_allclose(mean, L[keep].mean(), rtol=1e-13)
    np.testing.assert_allclose(grad, dX / len(keep), rtol=1e-13)
    w = np.arange(1.0, 7)
    mean = loss(X, y, ignore_index=ignored, reduction="mean", sample_weight=w)
    np.testing.assert_allclose(mean, w[keep] @ L[keep] / w[keep].sum(), rtol=1e-13)
    none, grad = loss(
        X, np.full(6, ignored), ignore_index=ignored, reduction="mean", return_grad=True
    )
    assert none == 0
    np.testing.assert_array_equal(grad, 0)
    with pytest.raises(ValueError):
        loss(X, np.where(np.arange(6) == 0, 5, y), ignore_index=ignored)


@every
def test_no_samples(loss):
    X, y = np.empty((0, 4)), np.empty(0, dtype=int)
    L, dX = loss(X, y, return_grad=True)
    assert L.shape == (0,)
    assert dX.shape == (0, 4)
    assert loss(X, y, reduction="mean") == 0
    assert loss(X, y, reduction="sum") == 0


@both
def test_order_of_the_results(loss):
    X = scores()
    for y in targets(loss):
        P = loss.mapping(X)
        L, size, dX = loss(X, y, return_support_size=True, return_grad=True)
        np.testing.assert_array_equal(L, loss(X, y))
        assert size.dtype == np.int64
        np.testing.assert_array_equal(np.ravel(size), np.count_nonzero(P, axis=1))
        np.testing.assert_array_equal(dX, loss(X, y, return_grad=True)[1])
        L, size2 = loss(X, y, return_support_size=True, reduction="sum")
        assert np.ndim(L) == 0
        np.testing.assert_array_equal(size2, size)


@both
def test_layouts_dtypes_and_inputs_left_alone(loss):
    X = scores()
    for y in targets(loss):
        L, dX = slopes(loss, X, y)
        X0, y0 = X.copy(), y.copy()
        locked, locked_y = X.copy(), y.copy()
        locked.flags.writeable = locked_y.flags.writeable = False
        for other in (
            np.asfortranarray(X),
            np.repeat(X, 2, axis=0)[::2],
            X[::-1, ::-1].copy()[::-1, ::-1],
            X.astype(">f8"),
            X.tolist(),
            locked,
        ):
            L2, dX2 = loss(other, locked_y, return_grad=True)
            np.testing.assert_array_equal(L2, L)
            np.testing.assert_array_equal(dX2, dX)
            assert dX2.flags.c_contiguous
        np.testing.assert_array_equal(X, X0)
        np.testing.assert_array_equal(y, y0)
        half = loss(X.astype("f2"), y)
        assert half.dtype == np.float16
        whole = np.round(3 * X)
        np.testing.assert_array_equal(loss(whole.astype("i8"), y), loss(whole, y))


@pytest.mark.parametrize("name", ["sparsemax_loss", "entmax15_loss"])
def test_k_never_changes_a_bit(name):
    function = getattr(sm, name)
    X, y = scores(shape=(6, 50)), labels(d=50)
    expected = function(X, y, return_grad=True)
    for k in (1, 3, 50, 500):
        got = function(X, y, k=k, return_grad=True)
        np.testing.assert_array_equal(got[0], expected[0])
        np.testing.assert_array_equal(got[1], expected[1])


@pytest.mark.parametrize(
    "loss", [e for e in LOSSES if "bisect" in e.name and e.param in (1.5, 2)], ids=str
)
def test_plain_bisection_approaches_the_answer(loss):
    X = scores()
    y = labels()
    L = loss(X, y)
    errors = [np.abs(loss(X, y, n_iter=n) - L).max() for n in (2, 10, 60)]
    assert errors[0] >= errors[1] >= errors[2]
    assert errors[2] <= 1e-13


@pytest.mark.parametrize("name", ["entmax_loss", "entmax_bisect_loss", "normmax_bisect_loss"])
def test_alpha_by_row(name):
    function = getattr(sm, name)
    X, y = scores(), labels()
    alpha = np.array([1, 1.25, 1.5, 2, 3, INF])[:, None]
    L, dX = function(X, y, alpha=alpha, return_grad=True)
    for i in range(6):
        one, grad = function(X[i : i + 1], y[i : i + 1], alpha=alpha[i, 0], return_grad=True)
        np.testing.assert_array_equal(L[i], one[0])
        np.testing.assert_array_equal(dX[i], grad[0])


def test_the_ends_of_the_family():
    X, y = scores(shape=(30, 7)), labels(30, 7)
    cross_entropy = np.log(np.exp(X).sum(axis=1)) - X[np.arange(30), y]
    np.testing.assert_allclose(sm.entmax_loss(X, y, 1), cross_entropy, rtol=1e-13, atol=1e-14)
    perceptron = X.max(axis=1) - X[np.arange(30), y]
    np.testing.assert_allclose(sm.entmax_loss(X, y, INF), perceptron, rtol=1e-13, atol=1e-14)
    for name, alpha in (
        ("sparsemax_loss", 2),
        ("sparsemax_bisect_loss", 2),
        ("entmax15_loss", 1.5),
    ):
        same = sm.entmax_bisect_loss(X, y, alpha)
        np.testing.assert_allclose(getattr(sm, name)(X, y), same, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(sm.entmax_loss(X, y, alpha), same, rtol=1e-12, atol=1e-14)


# --------------------------------------------------------------------------- budget loss
@budgets
def test_budget_of_the_targets_or_given(loss):
    X, Y = scores(), boxes(loss)
    B = loss.mapping.value(5)
    expected = sm.budget_loss(X, Y)
    np.testing.assert_array_equal(sm.budget_loss(X, Y, B), expected)
    np.testing.assert_array_equal(sm.budget_loss(X, Y, budget=np.full((6, 1), B)), expected)
    L, dX = sm.budget_loss(X, Y, return_grad=True)
    np.testing.assert_allclose(dX, sm.budget_bisect(X, B) - Y, atol=1e-15)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array, np.asfortranarray):
        L2, dX2 = sm.budget_loss(X, kind(Y), return_grad=True)
        np.testing.assert_allclose(L2, L, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(dX2, dX, atol=1e-15)


def test_budget_loss_of_label_sets():
    """Multi-label targets: each row has its own number of labels."""
    X = scores(shape=(6, 5))
    Y = np.array(
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
        + 2 * [[0, 1] * 2 + [1]]
    )
    for kind in (Y, Y.astype(bool), Y.astype("f4"), scipy.sparse.csr_array(Y)):
        L, dX = sm.budget_loss(X, kind, return_grad=True)
        for i, y in enumerate(Y):
            p = sm.budget_bisect(X[i], y.sum())
            value = (p - y) @ X[i] - (p @ p - y @ y) / 2
            np.testing.assert_allclose(L[i], value, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(dX[i], p - y, atol=1e-15)
        assert L[2] == L[3] == 0


def test_budget_loss_with_infinite_scores():
    X = np.array(
        [[0.5, -INF, 0.1, 0.3], [0.5, -INF, 0.1, 0.3], [INF, 0.2, 0.1, 0.3], [INF, 0.2, 0.1, 0.3]]
    )
    Y = np.array([[1.0, 0, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]])
    with np.errstate(all="raise"):
        L, dX = sm.budget_loss(X, Y, return_grad=True)
    np.testing.assert_array_equal(L[[1, 3]], INF)
    np.testing.assert_allclose(L[0], sm.budget_loss(X[:1, [0, 2, 3]], Y[:1, [0, 2, 3]])[0])
    np.testing.assert_allclose(L[2], sm.budget_loss(X[2:3, 1:], Y[2:3, 1:])[0])
    assert np.isfinite(dX).all()
    assert dX[0, 1] == 0
