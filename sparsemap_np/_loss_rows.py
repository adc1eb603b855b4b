"""What all losses share: targets and weights checked, blocks of rows to the kernels, reduction."""

import operator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from sparsemap_np._arrays import (
    as_count,
    as_scores,
    compute_dtype,
    for_kernel,
    result_dtype,
    run_ranges,
)
from sparsemap_np._device import launcher
from sparsemap_np._kernels import table

_REDUCTIONS = {"none": "none", "mean": "mean", "elementwise_mean": "mean", "sum": "sum"}
_BLOCK_BYTES = 1 << 20
"""Rows of scores, or of sparse targets, that are brought to the kernels' form at a time."""


class Options(NamedTuple):
    """The keywords that all losses share."""

    reduction: str
    ignore_index: int | None
    sample_weight: ArrayLike | None
    return_grad: bool
    return_support_size: bool


def _one_of(value, name, choices):
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}, got {value!r}")
    return choices[value]


def _scores(X):
    X, dtype = as_scores(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions: a loss takes scores of shape (n, d)")
    return X, dtype


def _labels(y, n, d, ignore_index):
    """Class of each row as int64, -1 for ignored rows."""
    if y.dtype.kind not in "iub":
        raise ValueError(
            f"y is one-dimensional with dtype {y.dtype}: labels must be integers, "
            "and target distributions must have shape (n, d)"
        )
    if len(y) != n:
        raise ValueError(f"y has {len(y)} targets: X has {n} rows")
    ignored = np.zeros(n, bool)
    if ignore_index is not None:
        try:
            ignored = y == operator.index(ignore_index)
        except TypeError:
            raise ValueError(
                f"ignore_index must be None or an integer, got {ignore_index!r}"
            ) from None
    bad = ~ignored & ((y < 0) | (y >= d))
    if bad.any():
        raise ValueError(
            f"y has the label {y[bad][0]}: labels must be in [0, {d}), the columns of X"
            + ("" if ignore_index is None else f", or ignore_index={ignore_index}")
        )
    labels = y.astype(np.int64)
    labels[ignored] = -1
    return labels


def _weights(sample_weight, n):
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight)
    result_dtype(weight.dtype, "sample_weight")
    weight = weight.astype(np.float64)
    if weight.ndim > 1 or weight.ndim == 1 and len(weight) != n:
        raise ValueError(
            f"sample_weight has shape {weight.shape}: "
            f"it must be a scalar or one number a row, ({n},)"
        )
    good = np.isfinite(weight) & (weight >= 0)
    if not good.all():
        bad = weight[~good].flat[0]
        raise ValueError(f"sample_weight must be finite and >= 0, got {bad}")
    return np.broadcast_to(weight, (n,))


def _check_targets(Y, totals, first_row, upper, name):
    """Raise unless the rows of a block of targets are >= 0 (<= 1 for budgets) and sum to totals."""
    good = Y >= 0
    if upper:
        good &= Y <= 1
    sums = Y.sum(axis=1, dtype=np.float64)
    # float16 and float32 rows cannot sum closer than their own rounding.
    eps = np.finfo(Y.dtype).eps
    slack = np.maximum(1e-6, 4 * eps * np.sqrt(Y.shape[1])) * np.maximum(totals, 1.0)
    good = good.all(axis=1) & (np.abs(sums - totals) <= slack)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        total = np.broadcast_to(totals, sums.shape)[row]
        raise ValueError(
            f"{name} row {first_row + row} sums to {sums[row]:.6g} with smallest entry "
            f"{Y[row].min():.6g} and largest {Y[row].max():.6g}: target rows must be >= 0"
            f"{' and <= 1' if upper else ''} and sum to {total:.6g}"
        )


def _soft_targets(y, n, d, name):
    """Targets (n, d) as an array of floats or a CSR matrix."""
    if scipy.sparse.issparse(y):
        result_dtype(y.dtype, name)
        y = y.tocsr()
    elif y.dtype.kind in "iub":
        y = y.astype(np.float64)
    if y.shape != (n, d):
        raise ValueError(f"{name} has shape {y.shape}: targets for X must have shape {(n, d)}")
    return y


def _as_targets(y, name):
    if scipy.sparse.issparse(y):
        return y
    y = np.asarray(y)
    if y.dtype == object:
        raise TypeError(f"{name} has dtype object: it must hold integer labels or real numbers")
    result_dtype(y.dtype, name)
    if y.ndim not in (1, 2):
        raise ValueError(
            f"{name} has {y.ndim} dimensions: it must be labels (n,) or targets (n, d)"
        )
    return y


def _divisor(options, weight, kept, n):
    """What the sum of losses is divided by; 0 when nothing is kept."""
    if options.reduction != "mean":
        return 1.0
    if weight is None:
        return float(n if kept is None else kept.sum())
    return float(weight.sum() if kept is None else weight[kept].sum())


def fenchel_young(mapping, X, y, domain, value, options, n_iter=None, *, budget=False) -> Any:
    """All losses: check, run the kernel over blocks of rows, reduce."""
    reduction = _one_of(options.reduction, "reduction", _REDUCTIONS)
    options = options._replace(reduction=reduction)
    n_iter = as_count(n_iter, "n_iter")
    X, dtype = _scores(X)
    if type(X) is not np.ndarray:
        return _on_device(mapping, X, y, domain, value, options, n_iter, dtype, budget)
    n, d = X.shape
    name = "Y" if budget else "y"
    y = _as_targets(y, name)
    hard = y.ndim == 1 and not budget
    labels = _labels(y, n, d, options.ignore_index) if hard else None
    targets = None if hard else _soft_targets(y, n, d, name)
    if budget and value is None:
        value = np.asarray(targets.sum(axis=1, dtype=np.float64)).reshape(n, 1)
        if not ((value >= 0) & (value <= d)).all():  # the fault is in Y, not in a budget
            dense = targets.toarray() if scipy.sparse.issparse(targets) else targets
            _check_targets(dense, value[:, 0], 0, True, name)
    par = mapping.parameter if domain is None else domain(value, X.shape, 1)
    if mapping is table.ENTMAX and n_iter is None:
        mapping = table.entmax_kernel(par)
    totals = par if budget else np.ones(1)

    weight = _weights(options.sample_weight, n)
    kept = labels >= 0 if hard and options.ignore_index is not None else None
    divisor = _divisor(options, weight, kept, n)
    factor = 1.0 / divisor if divisor > 0 else 0.0
    scales = np.array([factor]) if weight is None else weight * factor

    losses = np.zeros(n)
    support = np.zeros(n, np.int64)
    grad = np.zeros((n, d) if options.return_grad else (0, d), dtype)
    run = _Blocks(mapping, n_iter, par, totals, scales, losses, support, grad, compute_dtype(dtype))
    if hard:
        run.labels(X, labels)
    else:
        run.targets(X, targets, budget, name)
    return _reduced(losses, support, grad, weight, kept, divisor, options, dtype)


def _on_device(mapping, X, y, domain, value, options, n_iter, dtype, budget):
    """The same for scores on a device, whose values nobody waits for."""
    if n_iter is not None:
        raise ValueError(
            "n_iter must be None for device arrays: bisection in steps is for comparison with the "
            "literature, on NumPy arrays"
        )
    par = mapping.parameter if domain is None else value
    if domain is not None and not (budget and value is None):
        par = domain(value, X.shape, 1)
    if mapping is table.ENTMAX:
        mapping = table.entmax_kernel(par)
    return launcher().fenchel_young(mapping, X, y, par, options, dtype, budget=budget)


class _Blocks(NamedTuple):
    """Hands rows to a loss kernel, converted a block at a time where they are not plain."""

    mapping: table.Mapping | table.Family
    n_iter: int | None
    par: NDArray
    totals: NDArray
    scales: NDArray
    losses: NDArray
    support: NDArray
    grad: NDArray
    work: np.dtype

    def labels(self, X, labels):
        kernel = self.mapping.label_loss if self.n_iter is None else self.mapping.bisect_label_loss
        for part, XB, GB in self._parts(X, None):
            arguments = (
                XB,
                self.n_iter or 0,
                labels[part],
                *self._rows(part, self.par, self.scales),
                self.losses[part],
                self.support[part],
                GB,
            )
            run_ranges(kernel, arguments, len(XB), 3.0 * X.shape[1])
            self._store(part, GB)

    def targets(self, X, Y, upper, name):
        kernel = self.mapping.soft_loss if self.n_iter is None else self.mapping.bisect_soft_loss
        for part, XB, GB in self._parts(X, Y):
            YB = Y[part]
            YB = YB.toarray() if scipy.sparse.issparse(YB) else YB
            if YB.dtype.kind != "f":
                YB = YB.astype(np.float64)
            totals, par, scales = self._rows(part, self.totals, self.par, self.scales)
            _check_targets(YB, totals, part.start, upper, name)
            wide = np.float32 if YB.dtype.itemsize < 8 else np.float64
            YB = for_kernel(np.ascontiguousarray(YB, dtype=wide))
            rows = (self.losses[part], self.support[part])
            arguments = (XB, self.n_iter or 0, YB, totals, par, scales, *rows, GB)
            run_ranges(kernel, arguments, len(XB), 3.0 * X.shape[1])
            self._store(part, GB)

    def _parts(self, X, Y):
        """Slices of rows with scores and gradient as the kernels take them."""
        n, d = X.shape
        plain = X.dtype == self.work and X.dtype.isnative and X.flags.c_contiguous
        whole = plain and self.grad.dtype == self.work and Y is None
        height = n if whole else max(1, _BLOCK_BYTES // (max(d, 1) * self.work.itemsize))
        for start in range(0, n, max(height, 1)):
            part = slice(start, min(start + height, n))
            XB = for_kernel(np.ascontiguousarray(X[part], dtype=self.work))
            GB = self.grad[part] if len(self.grad) else self.grad
            yield part, XB, GB if GB.dtype == self.work else np.empty(GB.shape, self.work)

    def _store(self, part, GB):
        if len(self.grad) and GB.dtype != self.grad.dtype:
            with np.errstate(all="ignore"):
                self.grad[part] = GB

    def _rows(self, part, *vectors):
        return tuple(v[part] if v.size > 1 else v for v in vectors)


def _reduced(losses, support, grad, weight, kept, divisor, options, dtype):
    if weight is not None:
        # A weight of zero removes the row, also one with an infinite loss.
        losses = np.where(weight > 0, losses, 0.0) * weight
    with np.errstate(all="ignore"):
        if options.reduction == "none":
            value = losses.astype(dtype)
        else:
            total = losses.sum()
            value = dtype.type(total / divisor if divisor > 0 else 0.0)
    result = [value]
    if options.return_support_size:
        result.append(support)
    if options.return_grad:
        result.append(grad)
    return result[0] if len(result) == 1 else tuple(result)
