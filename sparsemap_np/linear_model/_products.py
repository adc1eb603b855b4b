"""Products of a block of rows with weights and residuals, dense or CSR.

Sums over rows are oriented as their inner loops want them: (outputs, features) for dense data,
(features, outputs) for CSR data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsemap_np._arrays import for_kernel
from sparsemap_np._kernels import _hessian

# A product class by class runs so many times slower than the same product by BLAS.
_BLAS_ADVANTAGE = 4


def is_sparse(nonzeros: int, size: int) -> bool:
    """Tell whether a product that reads only the non-zeros is faster than BLAS.

    Parameters
    ----------
    nonzeros : int
        Entries that are not zero.
    size : int
        Entries.

    Returns
    -------
    bool
        Whether it pays.
    """
    return nonzeros * _BLAS_ADVANTAGE < size


def for_kernels(X: Any) -> Any:
    """Bring data into the one form that kernels are compiled for.

    Parameters
    ----------
    X : ndarray or CSR array
        Data, perhaps read-only.

    Returns
    -------
    ndarray or CSR array
        The same memory.
    """
    if not sp.issparse(X):
        return for_kernel(X)
    plain = type(X)(X.shape, dtype=X.dtype)
    plain.data, plain.indices, plain.indptr = map(for_kernel, (X.data, X.indices, X.indptr))
    return plain


def csr_parts(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and row ends.

    Parameters
    ----------
    X : CSR array
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
    X : ndarray or CSR array of shape (n, n_features)
        Data.
    W : ndarray of shape (n_features, n_outputs)
        Weights.
    b : ndarray of shape (n_outputs,) or None
        Intercepts.
    out : ndarray of shape (n, n_outputs)
        Where they are written.
    """
    if sp.issparse(X):
        _hessian.scores_csr(*csr_parts(X), W, out)
    else:
        np.matmul(X, W, out=out)
    if b is not None:
        out += b


def add_outer(X: Any, D: np.ndarray, G: np.ndarray, g: np.ndarray) -> None:
    """Add the outer products of rows of data and residuals.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Data.
    D : ndarray of shape (n, n_outputs)
        Residuals.
    G : ndarray of shape (n_outputs, n_features), or for CSR data its transpose
        Where the products are added.
    g : ndarray of shape (n_outputs,)
        Where the residuals are added.
    """
    if sp.issparse(X):
        _hessian.outer_csr(*csr_parts(X), D, G)
    else:
        G += D.T @ X
    g += D.sum(axis=0, dtype=np.float64)


def add_sparse_outer(X: Any, D: np.ndarray, G: np.ndarray, g: np.ndarray) -> None:
    """Do as `add_outer`, reading data only for the non-zeros of D.

    Parameters
    ----------
    X, D, G, g
        See `add_outer`.
    """
    if sp.issparse(X):
        _hessian.sparse_outer_csr(*csr_parts(X), D, G, g)
    else:
        _hessian.sparse_outer_dense(X, D, G, g)
