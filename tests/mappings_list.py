"""The one list of mappings: a new one gets every property by joining it.

A record knows the package's names (`call`, `vjp`, ...) and the mathematics they stand for (`kind`
and `param`, as reference.py spells them).
"""

from dataclasses import dataclass

import numpy as np
import reference

import sparsemap_np as sm

INF = float("inf")
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Mapping:
    """One public function at one value of its parameter."""

    name: str
    kind: str
    param: float
    argument: str | None = None

    def __str__(self):
        return self.name if self.argument is None else f"{self.name}-{self.param!r}"

    def value(self, d):
        """The parameter for rows of d scores: no budget exceeds them."""
        return min(self.param, d) if self.kind == "budget" else self.param

    def kwargs(self, d):
        return {} if self.argument is None else {self.argument: self.value(d)}

    def total(self, d):
        return self.value(d) if self.kind == "budget" else 1.0

    def __call__(self, X, axis=-1, **more):
        return getattr(sm, self.name)(X, axis=axis, **self.kwargs(np.shape(X)[axis]), **more)

    def _derivative(self, which, *arrays, axis, **more):
        # the budget is not an argument of its derivatives: P tells which entries are inside
        kw = {"alpha": self.param} if self.argument == "alpha" else {}
        return getattr(sm, f"{self.name}_{which}")(*arrays, axis=axis, **kw, **more)

    # sparsemax_bisect is sparsemax, so it needs no derivatives of its own
    @property
    def has_vjp(self):
        return self.name != "sparsemax_bisect"

    def vjp(self, dP, P, axis=-1, **more):
        return self._derivative("vjp", dP, P, axis=axis, **more)

    def jvp(self, dX, P, axis=-1, **more):
        return self._derivative("jvp", dX, P, axis=axis, **more)

    def jacobian(self, P, axis=-1):
        return self._derivative("jacobian", P, axis=axis)

    def reference(self, X, axis=-1):
        value = self.value(np.shape(X)[axis])
        return reference.rows(reference.MAPS[self.kind], X, param=value, axis=axis)

    @property
    def smooth(self):
        """Whether it has a derivative other than zero."""
        return (
            self.kind == "budget"
            or self.param != INF
            and (self.kind, self.param)
            != (
                "normmax",
                1,
            )
        )


ENTMAX_ALPHAS = (
    *(0.3, 0.9, 0.999, 1, 1 + 1e-12, 1 + 1e-6, 1.001, 1.1, 1.25, 4 / 3, 1.5, 1.7, 2, 2.5, 3),
    *(10, 100, INF),
)
NORMMAX_ALPHAS = (1, 1 + 1e-12, 1.01, 1.5, 2, 3, 5, 100, INF)
BUDGETS = (0, 1, 2, 3.5)

MAPPINGS = (
    Mapping("sparsemax", "entmax", 2),
    Mapping("sparsemax_bisect", "entmax", 2),
    Mapping("entmax15", "entmax", 1.5),
    *(Mapping("entmax_bisect", "entmax", a, "alpha") for a in ENTMAX_ALPHAS),
    *(Mapping("entmax", "entmax", a, "alpha") for a in (1, 1.25, 1.5, 2, 4, INF)),
    *(Mapping("normmax_bisect", "normmax", a, "alpha") for a in NORMMAX_ALPHAS),
    *(Mapping("budget_bisect", "budget", b, "budget") for b in BUDGETS),
)


@dataclass(frozen=True)
class Loss:
    """One Fenchel-Young loss; budget_loss takes 0/1 rows where the others take labels."""

    name: str
    mapping: Mapping

    def __str__(self):
        return str(self.mapping).replace(self.mapping.name, self.name)

    @property
    def kind(self):
        return self.mapping.kind

    @property
    def param(self):
        return self.mapping.param

    def __call__(self, X, y, **more):
        kw = {"alpha": self.param} if self.mapping.argument == "alpha" else {}
        return getattr(sm, self.name)(X, y, **kw, **more)

    def reference(self, X, y):
        return np.array(
            [float(reference.loss(self.kind, r, t, self.param)) for r, t in zip(X, y, strict=True)]
        )

    def reference_grad(self, X, y):
        return np.array(
            [
                [float(v) for v in reference.loss_grad(self.kind, r, t, self.param)]
                for r, t in zip(X, y, strict=True)
            ]
        )


def _losses():
    for m in MAPPINGS:
        if m.kind != "budget":
            yield Loss(f"{m.name}_loss", m)


LOSSES = tuple(_losses())  # over the simplex: labels or distributions
BUDGET_LOSSES = tuple(Loss("budget_loss", m) for m in MAPPINGS if m.kind == "budget")


def tolerance(expected, dtype, times=1):
    """What API and README promise: 4 eps and 8 eps of the value."""
    eps = np.finfo(dtype).eps
    return times * eps * (4 + 8 * np.abs(expected))


def assert_close(got, expected, dtype, times=1):
    """Within the promised accuracy, NaN and infinities in the same places."""
    got, expected = np.asarray(got, dtype="float64"), np.asarray(expected, dtype="float64")
    assert got.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    usual = np.isfinite(expected)
    np.testing.assert_array_equal(got[~usual], expected[~usual])
    excess = np.abs(got[usual] - expected[usual]) / tolerance(expected[usual], dtype, times)
    assert excess.size == 0 or excess.max() <= 1, f"{excess.max():.3g} times the tolerance"
