"""What scikit-learn's users expect: labels, containers, types, probabilities, composition."""

import io
import pickle
import tracemalloc
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from linear_models import MODELS, X6, Y6, full_scores, model
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsemap_np import EntmaxClassifier, FenchelYoungClassifier, SparsemaxClassifier
from sparsemap_np.linear_model import _blocks

every_model = pytest.mark.parametrize("name", MODELS)


# Labels


@every_model
@pytest.mark.parametrize(
    "y",
    [
        ["foo", "foo", "bar", "bar", "baz", "baz"],
        [7, 7, 3, 3, 40, 40],
        [1, 1, 5, 5, 9, 9],
        [-1, -1, 0, 0, 1, 1],
        [True, True, False, False, True, False],
        [0.0, 0.0, 1.0, 1.0, 2.0, 2.0],
        ["b", "b", "a", "a", "b", "a"],
    ],
    ids=lambda y: str(y[::2]),
)
def test_labels_of_any_kind(name, y):
    clf = model(name).fit(X6, y)
    np.testing.assert_array_equal(clf.classes_, sorted(set(y)))
    P = clf.predict_proba(X6)
    assert P.shape == (6, len(clf.classes_))
    predicted = clf.predict(X6)
    assert predicted.shape == (6,)
    assert set(predicted) <= set(y)
    # The columns are in the order of classes_: every class wins where its samples are.
    assert np.mean(predicted == np.array(y)) > 0.6
    np.testing.assert_array_equal(clf.classes_[P.argmax(axis=1)], predicted)
    n_columns = 1 if len(clf.classes_) == 2 else len(clf.classes_)
    assert clf.decision_function(X6).reshape(6, -1).shape == (6, n_columns)
    assert clf.coef_.shape == (n_columns, 2)


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_pandas_nullable_labels(dtype):
    y = pd.array([0, 0, 1, 1, 1, 0], dtype=dtype)
    clf = SparsemaxClassifier().fit(X6, y)
    assert clf.classes_.dtype.kind in "iub"
    np.testing.assert_array_equal(clf.classes_, [0, 1])
    missing = y.copy()
    missing[2] = pd.NA
    with pytest.raises(ValueError, match="(?i)missing|NaN|NA"):
        SparsemaxClassifier().fit(X6, missing)


@pytest.mark.parametrize("dtype", ["category", "string", "str"])
def test_pandas_series_of_strings(dtype):
    y = pd.Series(["foo", "foo", "bar", "bar", "baz", "baz"], dtype=dtype)
    clf = SparsemaxClassifier().fit(X6, y)
    assert clf.classes_.tolist() == ["bar", "baz", "foo"]
    assert set(clf.predict(X6)) <= {"bar", "baz", "foo"}


def test_polars_labels():
    clf = SparsemaxClassifier().fit(X6, pl.Series(["foo", "foo", "bar", "bar", "baz", "baz"]))
    assert clf.classes_.tolist() == ["bar", "baz", "foo"]


def test_object_array_of_integers_names_the_label_type():
    with pytest.raises(ValueError, match="Unknown label type"):
        SparsemaxClassifier().fit(X6, np.array([0, 0, 1, 1, 2, 2], dtype=object))


def test_continuous_labels():
    with pytest.raises(ValueError, match="Unknown label type"):
        SparsemaxClassifier().fit(X6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


@pytest.mark.parametrize("y", ["xxxxxx", [4] * 6, [[1.0]] * 6], ids=str)
def test_a_single_class(y):
    with (
        warnings.catch_warnings(),
        pytest.raises(ValueError, match="at least 2 classes .* only one class"),
    ):
        warnings.simplefilter("ignore", DataConversionWarning)
        SparsemaxClassifier().fit(X6, list(y))


def test_list_is_array():
    expected = SparsemaxClassifier().fit(X6, Y6)
    listed = SparsemaxClassifier().fit(X6.tolist(), Y6.tolist())
    np.testing.assert_array_equal(listed.coef_, expected.coef_)


def test_column_of_labels_warns():
    expected = SparsemaxClassifier().fit(X6, Y6)
    with pytest.warns(DataConversionWarning):
        column = SparsemaxClassifier().fit(X6, Y6[:, None])
    np.testing.assert_array_equal(column.coef_, expected.coef_)


# Target distributions

PROPORTIONS = np.array(
    [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.75, 0.25], [0, 0, 1], [0.25, 0.25, 0.5]]
)


@every_model
@pytest.mark.parametrize(
    "container",
    [sp.csr_array, sp.coo_array, sp.csc_matrix, np.ndarray.tolist, np.asfortranarray],
    ids=["csr", "coo", "csc_matrix", "list", "fortran"],
)
def test_distributions_in_any_container(name, container):
    expected = model(name).fit(X6, PROPORTIONS)
    Y = container(PROPORTIONS)
    clf = model(name).fit(X6, Y)
    np.testing.assert_allclose(clf.coef_, expected.coef_, atol=1e-10)
    assert clf.score(X6, Y) == pytest.approx(expected.score(X6, PROPORTIONS))
    assert clf.predict(X6).shape == (6,)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_are_the_classes(frame):
    Y = frame(dict(zip(["red", "green", "blue"], PROPORTIONS.T, strict=True)))
    clf = SparsemaxClassifier().fit(X6, Y)
    assert clf.classes_.tolist() == ["red", "green", "blue"]
    assert clf.predict(X6)[0] == "red"
    plain = SparsemaxClassifier().fit(X6, PROPORTIONS)
    assert clf.score(X6, Y) == plain.score(X6, PROPORTIONS)
    np.testing.assert_array_equal(plain.classes_, [0, 1, 2])


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ([0.5, 0.6, 0.0], r"Row 2 sums to 1\.1"),
        ([1.5, -0.5, 0.0], r"smallest entry is -0\.5"),
        ([1.0, 1.0, 0.0], "multi-label"),
        ([0.0, 0.0, 0.0], "Row 2 sums to 0"),
        ([np.nan, 0.5, 0.5], "NaN"),
    ],
)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_rows_that_are_no_distributions(row, match, container):
    Y = PROPORTIONS.copy()
    Y[2] = row
    with pytest.raises(ValueError, match=match):
        SparsemaxClassifier().fit(X6, container(Y))


def test_weights_of_distributions_are_repetition():
    repeats = np.array([2, 1, 1, 3, 1, 1])
    options = {"tol": 1e-8, "max_iter": 1000, "class_weight": "balanced"}
    weighted = SparsemaxClassifier(**options).fit(X6, PROPORTIONS, sample_weight=repeats)
    repeated = SparsemaxClassifier(**options).fit(
        np.repeat(X6, repeats, 0), np.repeat(PROPORTIONS, repeats, 0)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_grid_search_over_distributions():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.dirichlet(np.ones(3), 60)
    search = GridSearchCV(SparsemaxClassifier(), {"C": [0.01, 1.0]}, cv=3).fit(X, Y)
    assert search.best_score_ < 0


# Containers and types of the data


def frozen(array):
    """A read-only array, as joblib hands to its workers."""
    array = array.copy()
    for part in (array.data, array.indices, array.indptr) if sp.issparse(array) else (array,):
        part.flags.writeable = False
    return array


def with_long_indices(X):
    array = sp.csr_array(X)
    array.indices = array.indices.astype(np.int64)
    array.indptr = array.indptr.astype(np.int64)
    return array


CONTAINERS = {
    "fortran": np.asfortranarray,
    "read-only": frozen,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda X: X[:, ::-1].copy()[:, ::-1],
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "csr": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "read-only csr": lambda X: frozen(sp.csr_array(X)),
    "64-bit indices": with_long_indices,
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_container_of_the_data(kind, dtype):
    plain = X6.astype(dtype)
    X = CONTAINERS[kind](plain)
    expected = SparsemaxClassifier().fit(plain, Y6)
    clf = SparsemaxClassifier().fit(X, Y6)
    native = np.dtype(X.dtype).isnative
    exact = native and not sp.issparse(X)
    tolerance = 0 if exact else 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(clf.coef_, expected.coef_, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(clf.predict(X), expected.predict(plain))
    P = clf.predict_proba(X)
    np.testing.assert_allclose(P, expected.predict_proba(plain), atol=max(tolerance, 1e-6))
    np.testing.assert_allclose(clf.predict_proba(X, sparse=True).toarray(), P, atol=1e-6)
    if native:
        assert clf.coef_.dtype == P.dtype == dtype


@every_model
def test_float32_stays_float32(name):
    X = X6.astype(np.float32)
    # A tol that only gradients can reach: float32 losses have no digits left by then.
    single, double = model(name, tol=1e-6).fit(X, Y6), model(name, tol=1e-6).fit(X6, Y6)
    for array in (single.coef_, single.intercept_, single.decision_function(X)):
        assert array.dtype == np.float32
    P = single.predict_proba(X)
    assert P.dtype == np.float32
    assert single.predict_proba(X, sparse=True).dtype == np.float32
    np.testing.assert_allclose(P, double.predict_proba(X6), atol=1e-4)
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-4)
    assert np.isfinite(log_loss(Y6, P))
    assert np.all((P >= 0) & (P <= 1))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, bool, np.float16])
def test_other_types_are_computed_in_float64(dtype):
    X = (X6 > 0.5).astype(dtype)
    clf = SparsemaxClassifier().fit(X, Y6)
    assert clf.coef_.dtype == np.float64
    assert clf.predict_proba(X).dtype == np.float64


@every_model
@pytest.mark.parametrize("y", [Y6, PROPORTIONS], ids=["labels", "distributions"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_inputs_are_not_changed(name, y, container):
    X, y, weight = container(X6), y.copy(), np.array([2.0, 1, 1, 3, 1, 1])
    before = pickle.dumps((X, y, weight))
    clf = model(name, class_weight="balanced").fit(X, y, sample_weight=weight)
    coef = clf.coef_.copy()
    clf.predict(X)
    clf.predict_proba(X)
    clf.predict_proba(X, sparse=True)
    clf.score(X, y, sample_weight=weight)
    assert pickle.dumps((X, y, weight)) == before
    np.testing.assert_array_equal(clf.coef_, coef)


def test_feature_names():
    frame = pd.DataFrame(X6, columns=["a", "b"])
    clf = SparsemaxClassifier().fit(frame, Y6)
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    clf.predict(frame)
    with pytest.warns(UserWarning, match="valid feature names") as caught:
        clf.predict(X6)
    assert len(caught) == 1
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a"]])


def test_polars_frame():
    frame = pl.DataFrame({"a": X6[:, 0], "b": X6[:, 1]})
    clf = SparsemaxClassifier().fit(frame, Y6)
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    expected = SparsemaxClassifier().fit(X6, Y6)
    np.testing.assert_array_equal(clf.predict_proba(frame), expected.predict_proba(X6))


class Lazy:
    """Looks like a Dask collection without Dask."""

    shape = (6, 2)

    def __dask_graph__(self):
        raise AssertionError("computed")


@pytest.mark.parametrize("method", ["fit", "predict", "predict_proba", "decision_function"])
def test_dask_collections_are_refused_by_name(method):
    clf = SparsemaxClassifier().fit(X6, Y6)
    arguments = (Lazy(), Y6) if method == "fit" else (Lazy(),)
    with pytest.raises(TypeError, match="sparsemap_np.dask.DaskFenchelYoungClassifier"):
        getattr(clf, method)(*arguments)


# Probabilities


@every_model
@pytest.mark.parametrize("k", [2, 4])
def test_probabilities_are_the_mapping_of_the_scores(name, k):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, k, 80)
    y[X[:, 0] > 0.5] = 0
    clf = model(name, C=10.0).fit(X, y)
    P = clf.predict_proba(X)
    np.testing.assert_allclose(P, MODELS[name][1](full_scores(clf, X)), atol=1e-15)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-14)
    assert np.all(P >= 0)
    decision = clf.decision_function(X)
    best = (decision > 0).astype(int) if k == 2 else decision.argmax(axis=1)
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[best])
    unique = np.sum(P == P.max(axis=1, keepdims=True), axis=1) == 1
    np.testing.assert_array_equal(P.argmax(axis=1)[unique], best[unique])


@every_model
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_sparse_probabilities(name, container, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 4, 50)
    clf = model(name).fit(X, y)
    monkeypatch.setattr(_blocks, "SCORES_PER_BLOCK", 28)
    P = clf.predict_proba(container(X))
    sparse = clf.predict_proba(container(X), sparse=True)
    assert isinstance(sparse, sp.csr_array)
    assert sparse.has_sorted_indices
    assert sparse.nnz == np.count_nonzero(P)
    np.testing.assert_allclose(sparse.toarray(), P, atol=1e-14)


@every_model
def test_log_probabilities_without_a_warning(name):
    clf = model(name, C=100.0, max_iter=1000).fit(X6, Y6)
    P, log_P = clf.predict_proba(X6), clf.predict_log_proba(X6)
    assert np.all(np.isneginf(log_P) == (P == 0))
    np.testing.assert_allclose(np.exp(log_P), P, atol=1e-15)
    assert name == "logistic" or np.isneginf(log_P).any()


def test_not_fitted():
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(SparsemaxClassifier(), method)(X6)


def test_memory_is_bounded_by_a_block():
    n, d, k = 40_000, 4, 400
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, k, n)
    clf = SparsemaxClassifier(max_iter=2, tol=0)
    table = n * k * X.itemsize
    with pytest.warns(ConvergenceWarning):
        # Loading kernels takes memory too, once and whatever the data: on so few rows nothing of
        # the table's size can be made, and kept, before it is looked for.
        clf.fit(X[:2000], y[:2000])
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            clf.fit(X, y)
        _, peak_fit = tracemalloc.get_traced_memory()
        clf.coef_ *= 1e4
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        P = clf.predict_proba(X, sparse=True)
        _, peak_predict = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_fit < 0.4 * table
    held = P.data.nbytes + P.indices.nbytes + P.indptr.nbytes
    assert peak_predict - before < 0.4 * table + 2 * held


# Composition


def test_clone_keeps_every_parameter():
    C, weight = np.float64(2.0), {0: 1.0}
    clf = FenchelYoungClassifier("entmax", alpha=1.25, C=C, class_weight=weight)
    assert clf.C is C and clf.class_weight is weight
    copied = clone(clf)
    assert copied.get_params() == clf.get_params()
    assert copied.C is not None and repr(copied) == repr(clf)


def test_clone_in_a_worker():
    (fitted,) = joblib.Parallel(n_jobs=2)(
        joblib.delayed(lambda e: clone(e).fit(X6, Y6))(e) for e in [EntmaxClassifier(1.3)]
    )
    np.testing.assert_allclose(fitted.coef_, EntmaxClassifier(1.3).fit(X6, Y6).coef_)


@every_model
def test_pickle(name):
    clf = model(name)
    clf = pickle.loads(pickle.dumps(clf)).fit(X6, Y6)
    fitted = pickle.dumps(clf)
    expected = clf.predict_proba(X6)
    used = pickle.dumps(clf)
    for data in (fitted, used):
        assert b"numba" not in data and b"_kernels" not in data
        np.testing.assert_array_equal(pickle.loads(data).predict_proba(X6), expected)


def test_pickle_through_joblib():
    clf = SparsemaxClassifier().fit(X6, Y6)
    file = io.BytesIO()
    joblib.dump(clf, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).predict(X6), clf.predict(X6))


def test_parallel_cross_validation():
    X = np.random.default_rng(0).normal(size=(400, 20))
    y = np.random.default_rng(0).integers(0, 4, 400)
    serial = cross_val_score(SparsemaxClassifier(), X, y, n_jobs=1)
    with joblib.parallel_config("loky", max_nbytes=1):
        parallel = cross_val_score(SparsemaxClassifier(), X, y, n_jobs=2)
    np.testing.assert_array_equal(parallel, serial)


def test_calibration_with_folds_that_miss_a_class():
    X = np.random.default_rng(0).normal(size=(12, 5))
    y = np.repeat([0, 1, 2], 4)
    with warnings.catch_warnings():
        # scikit-learn says itself that a fold misses a class.
        warnings.filterwarnings("ignore", module="sklearn")
        clf = CalibratedClassifierCV(SparsemaxClassifier(), cv=KFold(3)).fit(X, y)
    assert np.all(np.isfinite(clf.predict_proba(X)))


def test_pipeline_and_grid_search():
    pipe = make_pipeline(StandardScaler(), EntmaxClassifier())
    grid = {"entmaxclassifier__alpha": [1.0, 1.5], "entmaxclassifier__C": [0.1, 1.0]}
    X, y = np.tile(X6, (5, 1)), np.tile(Y6, 5)
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.score(X, y) == 1.0


def test_one_against_the_rest():
    clf = OneVsRestClassifier(SparsemaxClassifier()).fit(X6, Y6)
    assert clf.predict(X6).shape == (6,)


def test_html_repr():
    assert "SparsemaxClassifier" in SparsemaxClassifier(C=3.0)._repr_html_()
