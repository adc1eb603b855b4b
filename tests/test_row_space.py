"""L-BFGS on the rows' coefficients: it ends where the other solvers do, from any start."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsemap_np import FenchelYoungClassifier, KSubsetsClassifier
from sparsemap_np.linear_model import _coordinates, _row_space, _solvers

LOSSES = ["sparsemax", "entmax15", "logistic"]


@pytest.fixture(autouse=True)
def on_rows(monkeypatch):
    """Take small data for large, and count the fits in row space."""
    fits = []

    def counted(*args, **options):
        fits.append(args)
        return _row_space.minimize_in_row_space(*args, **options)

    monkeypatch.setattr(_coordinates, "_COPIED", 0)
    monkeypatch.setattr(_solvers, "minimize_in_row_space", counted)
    return fits


def wide(k=5, n=40, d=90, soft=False, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.15, rng=rng, format="csr")
    y = (
        rng.dirichlet(np.full(k, 0.5), n)
        if soft
        else np.r_[np.arange(k), rng.integers(0, k, n - k)]
    )
    return X, y, rng.uniform(0, 2, n)


def compare(clf, other, atol=1e-6):
    np.testing.assert_allclose(clf.coef_, other.coef_, rtol=0, atol=atol)
    np.testing.assert_allclose(clf.intercept_, other.intercept_, rtol=0, atol=atol)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [2, 5, 11])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ends_where_dense_data_do(on_rows, loss, k, fit_intercept):
    X, y, weight = wide(k)
    clf = FenchelYoungClassifier(loss, C=3.0, fit_intercept=fit_intercept, tol=1e-9, max_iter=2000)
    compare(
        clf.fit(X, y, sample_weight=weight),
        FenchelYoungClassifier(**clf.get_params()).fit(X.toarray(), y, sample_weight=weight),
    )
    assert len(on_rows) == 1
    assert clf.n_iter_ < 200


def test_soft_targets_float32_and_labels(on_rows):
    X, Y, _ = wide(soft=True)
    clf = FenchelYoungClassifier("sparsemax", tol=1e-9, max_iter=2000).fit(X, Y)
    other = FenchelYoungClassifier("sparsemax", tol=1e-9, max_iter=2000).fit(X.toarray(), Y)
    compare(clf, other)
    single = FenchelYoungClassifier("sparsemax", tol=1e-4).fit(X.astype(np.float32), Y)
    assert single.coef_.dtype == np.float32
    compare(single, other, atol=2e-2)
    clf = KSubsetsClassifier(budget=2, tol=1e-9, max_iter=2000).fit(X, Y > 0.2)
    compare(clf, KSubsetsClassifier(budget=2, tol=1e-9, max_iter=2000).fit(X.toarray(), Y > 0.2))
    assert len(on_rows) == 3


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_warm_start_from_weights_outside_the_row_space(on_rows, loss, fit_intercept):
    X, y, _ = wide()
    other_X, other_y, _ = wide(seed=1)
    options = {"C": 3.0, "tol": 1e-9, "max_iter": 2000, "fit_intercept": fit_intercept}
    cold = FenchelYoungClassifier(loss, **options).fit(X, y)
    warm = FenchelYoungClassifier(loss, warm_start=True, **options).fit(other_X, other_y)
    compare(warm.fit(X, y), cold)
    again = warm.fit(X, y)
    assert again.n_iter_ <= 2
    assert len(on_rows) == 4


def test_without_a_penalty_the_losses_vanish(on_rows):
    X, y, _ = wide()
    clf = FenchelYoungClassifier("sparsemax", C=np.inf, tol=1e-8, max_iter=2000).fit(X, y)
    assert (clf.predict(X) == y).all()
    assert len(on_rows) == 1


def test_repeats_and_reports(on_rows, capsys):
    X, y, _ = wide()
    clf = FenchelYoungClassifier("entmax15", verbose=1).fit(X, y)
    assert "iteration 10:" in capsys.readouterr().out
    again = FenchelYoungClassifier("entmax15").fit(X, y)
    np.testing.assert_array_equal(clf.coef_, again.coef_)


def test_stops_where_it_is_told(on_rows):
    X, y, _ = wide()
    with pytest.warns(UserWarning, match="max_iter=3"):
        clf = FenchelYoungClassifier("sparsemax", tol=1e-9, max_iter=3).fit(X, y)
    assert clf.n_iter_ == 3
