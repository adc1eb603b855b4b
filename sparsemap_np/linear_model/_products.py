"""Products of a block of rows with weights and residuals, dense or CSC.

Sums over rows are oriented as their inner loops want them: (outputs, features) for dense data,
(features, outputs) for CSC data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsemap_np._arrays import for_kernel
from sparsemap_np._kernels import _hessian

# A product class by class runs so many times slower than the same product of all classes, by
# BLAS for dense data, in runs of adjacent numbers for sparse data.
_ADVANTAGE_DENSE = 4
_ADVANTAGE_SPARSE = 8


def is_sparse(X: Any, nonzeros: int, size: int) -> bool:
    """Tell whether a product that reads only the non-zeros is faster than one that reads all.

    Parameters
    ----------
    X : ndarray or CSC array
        Data on the other side of the product.
    nonzeros : int
        Entries that are not zero.
    size : int
        Entries.

    Returns
    -------
    bool
        Whether it pays.
    """
    return nonzeros * (_ADVANTAGE_SPARSE if sp.issparse(X) else _ADVANTAGE_DENSE) < size


def for_kernels(X: Any) -> Any:
    """Bring a block of data into the form that the kernels take.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Data, perhaps read-only.

    Returns
    -------
    ndarray or CSC array
        Dense data share their memory.
    """
    return X.tocsc() if sp.issparse(X) else for_kernel(X)


def csc_parts(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, rows and column ends.

    Parameters
    ----------
    X : CSC array
        Data.

    Returns
    -------
    data, indices, indptr : ndarray
        As the kernels take them.
    """
    return X.data, X.indices, X.indptr


def scores(X: Any, W: np.ndarray, b: np.ndarray | None, out: np.ndarray) -> None:
    """Compute the scores of a block.

    Parameters
    ----------
    X : ndarray or CSC array of shape (n, n_features)
        Data.
    W : ndarray of shape (n_features, n_outputs)
        Weights.
    b : ndarray of shape (n_outputs,) or None
        Intercepts.
    out : ndarray of shape (n, n_outputs)
        Where they are written.
    """
    if sp.issparse(X):
        sums = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        sums[...] = 0.0 if b is None else b
        _hessian.scores_csc(*csc_parts(X), W, sums)
        if sums is not out:
            out[...] = sums
        return
    np.matmul(X, W, out=out)
    if b is not None:
        out += b


def add_outer(X: Any, D: np.ndarray, G: np.ndarray, g: np.ndarray) -> None:
    """Add the outer products of rows of data and residuals.

    Parameters
    ----------
    X : ndarray or CSC array of shape (n, n_features)
        Data.
    D : ndarray of shape (n, n_outputs)
        Residuals.
    G : ndarray of shape (n_outputs, n_features), or for CSC data its transpose
        Where the products are added.
    g : ndarray of shape (n_outputs,)
        Where the residuals are added.
    """
    if sp.issparse(X):
        _hessian.outer_csc(*csc_parts(X), np.ascontiguousarray(D), G)
    else:
        G += D.T @ X
    # NumPy sums short rows one after another, at a quarter of this speed.
    g += np.einsum("ij->j", D, dtype=np.float64, casting="same_kind")


def add_sparse_outer(X: Any, D: np.ndarray, G: np.ndarray, g: np.ndarray) -> None:
    """Do as `add_outer`, reading data only for the non-zeros of D.

    Parameters
    ----------
    X, D, G, g
        See `add_outer`.
    """
    if sp.issparse(X):
        _hessian.sparse_outer_csc(*csc_parts(X), D, G, g)
    else:
        _hessian.sparse_outer_dense(X, D, G, g)
