"""Cases from bug reports against other libraries, by their values (cases.json).

Each stands for a kind of fault; the kinds are tested over the whole list of mappings in
test_properties.py, test_gradients.py and test_losses.py.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import sparsemap_np as sm

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
VALUES = [c for c in CASES if "value" in c["expect"]]
ERRORS = [c for c in CASES if "raises" in c["expect"]]


def number(v):
    """JSON has no infinities and no NaN: they are written as strings."""
    return [number(u) for u in v] if isinstance(v, list) else float(v) if isinstance(v, str) else v


def run(case):
    args = case["args"]
    kw = {k: v if k == "reduction" else number(v) for k, v in case["kwargs"].items()}
    X = np.array(number(args["X"]), dtype=args["dtype"])
    if "shape" in args:
        X = X.reshape(args["shape"])
    name = case["function"]
    if "_loss" in name:
        target = number(args["target"])
        if np.ndim(target) == 2:
            target = np.array(target, dtype=X.dtype)
        loss = getattr(sm, name.removesuffix("_vjp"))
        if not name.endswith("_vjp"):
            return loss(X, target, **kw)
        dL = np.array(args["dL"], dtype=X.dtype)
        return dL[:, None] * loss(X, target, return_grad=True, **kw)[1]
    P = getattr(sm, name.split("_vjp")[0])(X, **kw)
    if "_vjp" not in name:
        return P
    kw.pop("budget", None)
    dP = np.array(args["dP"], dtype=X.dtype)
    if name.endswith("_alpha"):
        vjp = getattr(sm, name.removesuffix("_alpha"))
        return vjp(dP, P, return_dalpha=True, **kw)[1]
    return getattr(sm, name)(dP, P, **kw)


@pytest.mark.parametrize("case", VALUES, ids=lambda c: f"{c['id']} {c['about']}")
def test_value(case):
    expect = case["expect"]
    got = run(case)
    value = np.array(number(expect["value"]), dtype="float64")
    if "shape" in expect:
        value = value.reshape(expect["shape"])
    assert np.shape(got) == value.shape
    assert np.asarray(got).dtype == expect["dtype"]
    np.testing.assert_allclose(got, value, rtol=expect["rtol"], atol=expect["atol"])


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c['id']} {c['about']}")
def test_error(case):
    assert case["expect"]["raises"] == "ValueError"
    with pytest.raises(ValueError):
        run(case)


def test_every_case_is_run():
    # the three left over are the properties below
    assert len(CASES) == len(VALUES) + len(ERRORS) + 3 == 140


def test_c229_single_precision_rows_suit_a_sampler():
    rng = np.random.default_rng(0)
    P = sm.sparsemax(rng.normal(size=(8, 5000)).astype("float32"))
    for row in P.astype("float64"):
        assert row.min() >= 0
        assert abs(row.sum() - 1) <= 5e-6
        rng.choice(5000, p=row / row.sum())


def test_c231_single_precision_rows_sum_to_one():
    P = sm.entmax15(np.random.default_rng(3).normal(size=(64, 1000)).astype("float32"))
    assert P.dtype == np.float32
    assert np.allclose(P.sum(axis=1), 1)


def test_c233_double_rows_meet_the_budget():
    P = sm.budget_bisect(np.random.default_rng(5).normal(size=(16, 200)), 7)
    assert abs(P.sum(axis=1) - 7).max() <= 1e-12 * 200
    assert P.min() >= 0
    assert P.max() <= 1
