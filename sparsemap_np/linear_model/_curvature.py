r"""The generalised Hessian of the objective, as products with vectors.

A row x contributes the Kronecker product of ``x x'`` and J, the Jacobian of the mapping. J is zero
where the support is a single class, and touches only the support's classes elsewhere: so what is
kept of a block of rows is the supports and the slopes there, and a product reads only those. Where
supports hold most of the classes, a block keeps all of them and works with BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsemap_np._kernels import _hessian
from sparsemap_np.linear_model._losses import JacobianForm
from sparsemap_np.linear_model._products import add_outer, csc_parts, is_sparse, scores


@dataclass(frozen=True)
class Slopes:
    """What is kept of the Jacobians of a block of rows.

    Attributes
    ----------
    X : ndarray or CSC array of shape (n, n_features)
        The block's data.
    ptr : ndarray of shape (n + 1,)
        Where the classes of each row begin.
    cols : ndarray of shape (ptr[-1],)
        Classes of the supports.
    slopes, centres : ndarray of shape (ptr[-1],) or (m, n_outputs)
        See `sparsemap_np._kernels._hessian`; both may be one array.
    rows : ndarray of shape (m,) or None
        If given, all classes of these rows are kept, and none of the others.
    """

    X: Any
    ptr: np.ndarray
    cols: np.ndarray
    slopes: np.ndarray
    centres: np.ndarray
    rows: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Memory held, without the data."""
        arrays = {id(a): a for a in (self.ptr, self.cols, self.slopes, self.centres, self.rows)}
        return sum(a.nbytes for a in arrays.values() if a is not None)

    def add_product(
        self, V: np.ndarray, b: np.ndarray | None, G: np.ndarray, g: np.ndarray
    ) -> None:
        """Add the block's part of a product.

        Parameters
        ----------
        V : ndarray of shape (n_outputs, n_features), or for CSC data its transpose
            Direction of the weights.
        b : ndarray of shape (n_outputs,) or None
            Direction of the intercepts.
        G, g : ndarray
            Where the product is added, in the shapes of V and b.
        """
        if self.rows is not None:
            X = self._kept_rows()
            U = np.empty_like(self.slopes)
            scores(X, V if sp.issparse(X) else V.T, b, U)
            _hessian.apply_rows(self.slopes, self.centres, U)
            add_outer(X, U, G, g)
            return
        b = np.zeros(len(g), V.dtype) if b is None else b
        if sp.issparse(self.X):
            change = np.empty_like(self.slopes)
            _hessian.product_csc(*csc_parts(self.X), *self._supports, V, b, change, G, g)
        else:
            _hessian.product_dense(self.X, *self._supports, V, b, G, g)

    def add_diagonal(self, G: np.ndarray, g: np.ndarray) -> None:
        """Add the block's part of the diagonal.

        Parameters
        ----------
        G, g : ndarray
            As for `add_product`.
        """
        if self.rows is not None:
            X = self._kept_rows()
            U = np.empty_like(self.slopes)
            _hessian.diagonal_rows(self.slopes, self.centres, U)
            add_outer(X.multiply(X).tocsc() if sp.issparse(X) else X * X, U, G, g)
        elif sp.issparse(self.X):
            data, indices, indptr = csc_parts(self.X)
            change = np.empty_like(self.slopes)
            _hessian.diagonal_csc(data * data, indices, indptr, *self._supports, change, G, g)
        else:
            _hessian.diagonal_dense(self.X, *self._supports, G, g)

    @property
    def _supports(self) -> tuple[np.ndarray, ...]:
        return self.ptr, self.cols, self.slopes, self.centres

    def _kept_rows(self) -> Any:
        return self.X if len(self.rows) == self.X.shape[0] else self.X[self.rows]


FindSlopes = Callable[[], Slopes]
"""Gives the slopes of a block: kept, or found again where they would take too much memory."""

_UNIT_WEIGHT = np.ones(1)


def find_slopes(
    form: JacobianForm, X: Any, D: np.ndarray, target: np.ndarray, weight: np.ndarray | None
) -> Slopes:
    """Find the Jacobians of a block of rows.

    Parameters
    ----------
    form : JacobianForm
        The mapping.
    X : ndarray or CSR array of shape (n, n_features)
        The block's data.
    D : ndarray of shape (n, n_classes)
        Residuals ``weight * (P - Y)``.
    target : ndarray of shape (n,) or (n, n_classes)
        Labels or distributions.
    weight : ndarray of shape (n,) or None
        Weights of the rows.

    Returns
    -------
    Slopes
        Of the rows that have any.
    """
    n, n_classes = D.shape
    hard = target.ndim == 1
    labels = target if hard else np.empty(0, np.int64)
    Y = np.empty((0, 0), D.dtype) if hard else target
    weight = _UNIT_WEIGHT if weight is None else weight
    # Taken back from a residual, what was zero is a rounding error.
    cut = 4 * float(np.finfo(D.dtype).eps)
    counts = np.empty(n, np.int64)
    held = _hessian.count_supports(D, labels, Y, weight, cut, form.upper, counts)
    ptr = np.empty(n + 1, np.int64)
    cols = np.empty(held, np.int32)
    slopes = np.empty(held, D.dtype)
    centres = np.empty(held if form.norm else 0, D.dtype)
    _hessian.collect_supports(
        *(D, labels, Y, weight, form.alpha, form.norm, cut, form.upper),
        *(counts, ptr, cols, slopes, centres),
    )
    if n_classes == 2:
        single = slopes[: ptr[-1]].copy()
        return Slopes(X, ptr, cols[: ptr[-1]].copy(), single, single)
    centres = centres if form.norm else slopes
    # Rows cannot be taken from sparse data that come by columns.
    rows = np.arange(n) if sp.issparse(X) else np.flatnonzero(counts)
    if is_sparse(X, held, len(rows) * n_classes):
        return Slopes(X, ptr, cols, slopes, centres)
    tables = []
    for values in (slopes, centres)[: 1 + form.norm]:
        table = np.zeros((len(rows), n_classes), D.dtype)
        _hessian.spread(rows, ptr, cols, values, table)
        tables.append(table)
    return Slopes(X, ptr, cols[:0].copy(), tables[0], tables[-1], rows)


class Curvature:
    """The generalised Hessian at one point.

    Parameters
    ----------
    objective : LinearObjective
        Whose Hessian it is.
    lanes : list of list of callable
        For each thread what finds the slopes of its blocks.
    """

    def __init__(self, objective: Any, lanes: list[list[FindSlopes]]) -> None:
        self._objective = objective
        self._lanes = lanes

    def product(self, v: np.ndarray) -> np.ndarray:
        """Multiply a vector.

        Parameters
        ----------
        v : ndarray of shape (n_parameters,)
            Direction.

        Returns
        -------
        ndarray of shape (n_parameters,)
            The Hessian times `v`.
        """
        objective = self._objective
        V, b = objective.layout.split(v.astype(objective.dtype, copy=False))
        V = objective.oriented(V)

        def add(i: int, G: np.ndarray, g: np.ndarray) -> None:
            for find in self._lanes[i]:
                find().add_product(V, b, G, g)

        result = objective.sum_over_lanes(add, objective.dtype)
        n = objective.layout.n_weights
        result[:n] += objective.l2 * v[:n]
        return result

    def diagonal(self) -> np.ndarray:
        """Compute the diagonal.

        Returns
        -------
        ndarray of shape (n_parameters,)
            The Hessian's diagonal.
        """
        objective = self._objective

        def add(i: int, G: np.ndarray, g: np.ndarray) -> None:
            for find in self._lanes[i]:
                find().add_diagonal(G, g)

        result = objective.sum_over_lanes(add, objective.dtype)
        result[: objective.layout.n_weights] += objective.l2
        return result
