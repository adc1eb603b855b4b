"""A bad argument raises, and the message names the argument, the value and what is allowed."""

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse

import sparsemap_np as sm

X = np.array([[0.1, 0.5, -0.3], [1.0, 0.0, 0.2]])
P = sm.sparsemax(X)
Y = np.array([0, 2])
NAN, INF = float("nan"), float("inf")

MAPS = (
    *("sparsemax", "entmax15", "sparsemax_bisect", "entmax_bisect", "entmax"),
    *("normmax_bisect", "budget_bisect"),
)
BISECT = [m for m in MAPS if "bisect" in m]
VJPS = [m for m in MAPS if m != "sparsemax_bisect"]
LOSSES = [f"{m}_loss" for m in MAPS if m != "budget_bisect"]


@dataclass
class Bad:
    """A call, the error it must raise, and what its message must say."""

    name: str
    args: tuple
    says: tuple  # regular expressions: argument, value, what is allowed
    error: type = ValueError
    kwargs: dict = field(default_factory=dict)

    def __str__(self):
        shown = [f"{a.dtype}{a.shape}" if hasattr(a, "shape") else repr(a) for a in self.args]
        shown += [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return re.sub(r"\s+", " ", f"{self.name}({', '.join(shown)})")[:90]


def table():
    yield from bad_parameters()
    yield from bad_options()
    yield from bad_arrays()
    yield from bad_targets()


def bad_parameters():
    positive = r"> 0|positive|greater than 0"
    for name in ("entmax_bisect", "entmax"):
        for a in (0, -0.4, NAN, -INF, 0.0):
            says = ("alpha", re.escape(str(a)), positive)
            yield Bad(name, (X, a), says)
            yield Bad(name, (X,), says, kwargs={"alpha": [[1.5], [a]]})
            yield Bad(f"{name}_vjp", (P, P), says, kwargs={"alpha": a})
            yield Bad(f"{name}_jvp", (P, P), says, kwargs={"alpha": a})
            yield Bad(f"{name}_jacobian", (P,), says, kwargs={"alpha": a})
            yield Bad(f"{name}_loss", (X, Y), says, kwargs={"alpha": a})
    for a in (0.99, 0, -1, NAN, -INF):
        says = ("alpha", re.escape(str(a)), r">= 1|at least 1")
        yield Bad("normmax_bisect", (X, a), says)
        yield Bad("normmax_bisect", (X, [[2], [a]]), says)
        yield Bad("normmax_bisect_vjp", (P, P), says, kwargs={"alpha": a})
        yield Bad("normmax_bisect_jacobian", (P,), says, kwargs={"alpha": a})
        yield Bad("normmax_bisect_loss", (X, Y), says, kwargs={"alpha": a})
    for b in (-1, -1e-9, 3.001, 4, NAN, INF):
        says = ("budget", re.escape(str(b)), r"\b0\b", r"\b3\b")
        yield Bad("budget_bisect", (X, b), says)
        yield Bad("budget_bisect", (X, [[2], [b]]), says)
    for name in ("entmax_bisect", "entmax", "normmax_bisect"):
        for shape in ((3,), (1, 3), (2, 3), (3, 1), (2, 1, 1), (4,)):
            says = ("alpha", "shape|broadcast", re.escape(str(shape)))
            yield Bad(name, (X, np.full(shape, 1.5)), says)
            yield Bad(f"{name}_vjp", (P, P, np.full(shape, 1.5)), says)
        for a in ("two", None, 1j, [[1.5], [None]]):
            yield Bad(name, (X, a), ("alpha",), (TypeError, ValueError))
    yield Bad("budget_bisect", (X, np.ones((1, 3))), ("budget", "shape|broadcast"))
    yield Bad("budget_bisect", (X, "two"), ("budget",), (TypeError, ValueError))
    # along another axis the same array is the other way round
    yield Bad("entmax", (X, [[1.5], [2]]), ("alpha", "shape|broadcast"), kwargs={"axis": 0})
    yield Bad("budget_bisect", (X, 2.5), ("budget", r"2\.5", r"\b2\b"), kwargs={"axis": 0})


def bad_options():
    for name in ("sparsemax", "entmax15"):
        for k in (0, -1):
            yield Bad(name, (X,), (r"\bk\b", str(k), r">= 1|at least 1|positive"), kwargs={"k": k})
            yield Bad(f"{name}_loss", (X, Y), (r"\bk\b", str(k)), kwargs={"k": k})
        for k in (2.5, "3", [1]):
            yield Bad(name, (X,), (r"\bk\b",), (TypeError, ValueError), {"k": k})
    for name in BISECT:
        for n in (0, -3):
            says = ("n_iter", str(n), r">= 1|at least 1|positive")
            yield Bad(name, (X,), says, kwargs={"n_iter": n})
        for n in (2.5, "3"):
            yield Bad(name, (X,), ("n_iter",), (TypeError, ValueError), {"n_iter": n})
    for name in MAPS:
        for axis in (2, -3, 100):
            says = ("axis", str(axis))
            yield Bad(name, (X,), says, np.exceptions.AxisError, {"axis": axis})
        yield Bad(name, (X,), (), TypeError, {"axis": 0.5})
        yield Bad(name, (X,), (), TypeError, {"axis": "last"})
    for name in VJPS:
        for axis in (2, -3):
            for which in ("vjp", "jvp"):
                yield Bad(
                    f"{name}_{which}", (P, P), ("axis",), np.exceptions.AxisError, {"axis": axis}
                )
            yield Bad(f"{name}_jacobian", (P,), ("axis",), np.exceptions.AxisError, {"axis": axis})
    for name in LOSSES:
        for r in ("average", "", None, 3, "MEAN"):
            says = ("reduction", re.escape(repr(r)), "none", "mean", "sum")
            yield Bad(name, (X, Y), says, (ValueError, TypeError), {"reduction": r})
        for w in (np.ones(3), np.ones((2, 2)), np.ones((1, 2))):
            yield Bad(name, (X, Y), ("sample_weight", "shape"), kwargs={"sample_weight": w})
        for w in ([1, -1], [1, NAN], [INF, 1]):
            says = ("sample_weight", str(float(w[0] if w[0] != 1 else w[1])))
            yield Bad(name, (X, Y), says, kwargs={"sample_weight": w})


def bad_arrays():
    for name in MAPS:
        yield Bad(name, (1.5,), ("0-d|dimension|scalar",))
        yield Bad(name, (np.array(2),), ("0-d|dimension|scalar",))
        for value in (X.astype(complex), X.astype(object), np.array([["a", "b"]])):
            yield Bad(name, (value,), ("dtype|complex|object|str|<U",), TypeError)
        yield Bad(name, (np.array(["2020-01-01"], dtype="M8[D]"),), ("dtype|datetime",), TypeError)
        yield Bad(name, ([[1.0, 2.0], [3.0]],), (), (TypeError, ValueError))
        yield Bad(name, (None,), (), (TypeError, ValueError))
        yield Bad(name, (scipy.sparse.csr_array(X),), (), (TypeError, ValueError))
    for name in VJPS:
        for which in ("vjp", "jvp"):
            first = r"d[PX]|\bV\b"
            for shape in ((3,), (2, 2), (1, 3), (3, 2), (2, 3, 1)):
                yield Bad(
                    f"{name}_{which}",
                    (np.ones(shape), P),
                    (first, "shape", re.escape(str(shape)), re.escape("(2, 3)")),
                )
            yield Bad(f"{name}_{which}", (P.astype(complex), P), (), TypeError)
            yield Bad(f"{name}_{which}", (P, P.astype(object)), (), TypeError)
            yield Bad(f"{name}_{which}", (1.0, 1.0), ("0-d|dimension|scalar",))
        yield Bad(f"{name}_jacobian", (P.astype(complex),), (), TypeError)
        yield Bad(f"{name}_jacobian", (1.0,), ("0-d|dimension|scalar",))


def bad_targets():
    for name in LOSSES:
        for shape in ((3,), (2, 3, 1), ()):
            yield Bad(name, (np.zeros(shape), Y), ("X", "dimension|2-d|shape"))
        yield Bad(name, (X.astype(complex), Y), (), TypeError)
        yield Bad(name, (X.astype(object), Y), (), TypeError)
        for y in ([0, 3], [5, 3], [-1, 0], [0, -7]):
            first = next(v for v in y if not 0 <= v < 3)
            yield Bad(name, (X, y), ("y", rf"(?<!\d){first}(?!\d)", r"\b3\b|\b2\b"))
        yield Bad(name, (X, [0, 3]), ("y", r"\b3\b"), kwargs={"ignore_index": -1})
        yield Bad(name, (X, np.array([0.0, 1.0])), ("y", "float|integer"))
        yield Bad(name, (X, np.array([0.5, 0.5])), ("y", "float|integer"))
        yield Bad(name, (X, [0]), ("y", r"\b1\b", r"\b2\b"))
        yield Bad(name, (X, [0, 1, 2]), ("y", r"\b3\b", r"\b2\b"))
        yield Bad(name, (X, np.eye(3)), ("y", r"\b3\b", r"\b2\b"))
        yield Bad(name, (X, np.eye(2)), ("y", "shape|class|column"))
        yield Bad(name, (X, np.zeros((2, 3, 1), dtype=int)), ("y", "dimension|shape"))
        yield Bad(name, (X, 0), ("y", "dimension|shape"))
        yield Bad(name, (X, ["a", "b"]), (), (TypeError, ValueError))
        yield Bad(name, (X, np.array([0, 1j])), (), (TypeError, ValueError))
        for bad, value in (
            ([0.9, 0.9, 0], r"1\.8"),
            ([0.3, 0.3, 0.3], r"0\.9|0\.89"),
            ([1.2, -0.2, 0], r"-0\.2"),
            ([NAN, 0.5, 0.5], "nan"),
            ([INF, 0, 0], "inf"),
            ([0, 0, 0], r"\b0"),
            ([0.5, 0.5, 2e-4], r"1\.0002"),
        ):
            rows = np.array([[0.2, 0.3, 0.5], bad])
            says = ("y", value, "sum|>= 0|negative|distribution|finite")
            yield Bad(name, (X, rows), says)
            yield Bad(name, (X, scipy.sparse.csr_array(rows)), says)
        yield Bad(name, (X, scipy.sparse.csr_array(np.eye(3))), ("y", r"\b3\b", r"\b2\b"))
    box = np.array([[1, 0, 0], [1, 1, 0.0]])
    for rows, value in (
        ([[1, 0, 0], [1.5, 0.5, 0]], r"1\.5"),
        ([[1, 0, 0], [1, -0.5, 0.5]], r"-0\.5"),
        ([[1, 0, 0], [1, NAN, 0.5]], "nan"),
    ):
        for kind in (np.array, scipy.sparse.csr_array):
            yield Bad("budget_loss", (X, kind(np.array(rows))), ("Y", value, r"\b0\b", r"\b1\b"))
    for b in (-1, 4, NAN):
        yield Bad("budget_loss", (X, box, b), ("budget", re.escape(str(b))))
    yield Bad("budget_loss", (X, box, 2), ("budget|[Yy]", r"\b2\b", "sum"))
    yield Bad("budget_loss", (X, box, [[1], [1]]), ("budget|[Yy]", "sum"))
    yield Bad("budget_loss", (X, box[:1]), ("Y", r"\b1\b", r"\b2\b"))
    yield Bad("budget_loss", (X, box[:, :2]), ("Y", "shape|class|column"))
    yield Bad("budget_loss", (X, [0, 1]), ("Y",))
    yield Bad("budget_loss", (X, box), ("reduction", "average"), kwargs={"reduction": "average"})


@pytest.mark.parametrize("bad", list(table()), ids=str)
def test_bad_argument(bad):
    with pytest.raises(bad.error) as caught:
        getattr(sm, bad.name)(*bad.args, **bad.kwargs)
    message = str(caught.value)
    for pattern in bad.says:
        assert re.search(pattern, message), f"{pattern!r} is not in {message!r}"


def test_unknown_keywords_are_not_ignored():
    for name in (*MAPS, *(f"{m}_vjp" for m in VJPS)):
        args = (P, P) if name.endswith("vjp") else (X,)
        with pytest.raises(TypeError):
            getattr(sm, name)(*args, nonsense=1)
    for name in LOSSES:
        with pytest.raises(TypeError):
            getattr(sm, name)(X, Y, nonsense=1)


def test_a_bad_parameter_counts_without_data_too():
    # the domain does not depend on there being a row to apply it to
    for shape in ((0, 3), (3, 0)):
        with pytest.raises(ValueError):
            sm.entmax_bisect(np.empty(shape), -1)
        with pytest.raises(ValueError):
            sm.normmax_bisect(np.empty(shape), 0.5)
    with pytest.raises(ValueError):
        sm.budget_bisect(np.empty((0, 3)), 4)
    with pytest.raises(ValueError):
        sm.sparsemax(np.empty((0, 3)), k=0)


def test_targets_within_a_millionth_are_accepted():
    rows = np.array([[0.2, 0.3, 0.5 + 9e-7], [0.2, 0.3, 0.5 - 9e-7]])
    exact = rows / rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sm.sparsemax_loss(X, rows), sm.sparsemax_loss(X, exact), atol=1e-15)


def test_large_k_and_integer_kinds_are_accepted():
    for k in (None, 1, 3, 10**9, np.int8(2), np.uint64(2)):
        np.testing.assert_array_equal(sm.sparsemax(X, k=k), P)
    np.testing.assert_array_equal(sm.sparsemax(X, axis=np.int64(-1)), P)
