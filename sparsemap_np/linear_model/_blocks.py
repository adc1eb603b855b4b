"""Blocks of rows: what bounds the memory of a fit and of a sparse prediction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

# Scores that a thread holds at once. A megabyte or two stay in the cache from one step to the
# next; more rows than these do not make the matrix product faster.
SCORES_PER_BLOCK = 2**18
_MOST_ROWS = 8192


def rows_per_block(n_classes: int) -> int:
    """Rows whose scores fit the block budget; at least one.

    Parameters
    ----------
    n_classes : int
        Scores a row.

    Returns
    -------
    int
        The number of rows in all blocks but the last.
    """
    return min(_MOST_ROWS, max(1, SCORES_PER_BLOCK // max(1, n_classes)))


def row_slices(start: int, stop: int, rows: int) -> Iterator[slice]:
    """Cut ``range(start, stop)`` into slices.

    Parameters
    ----------
    start, stop : int
        First row, and the one after the last.
    rows : int
        Length of each slice but the last.

    Yields
    ------
    slice
        Consecutive slices that cover every row once.
    """
    for first in range(start, stop, rows):
        yield slice(first, min(first + rows, stop))


def take_rows(X: Any, rows: slice) -> Any:
    """Rows of a dense or CSR array, sharing its memory.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, d)
        Indexing a CSR array would copy its values; this does not.
    rows : slice
        Contiguous rows.

    Returns
    -------
    ndarray or CSR array
        The rows.
    """
    if not sp.issparse(X):
        return X[rows]
    if rows.start == 0 and rows.stop == X.shape[0]:
        return X
    indptr = X.indptr[rows.start : rows.stop + 1]
    held = slice(indptr[0], indptr[-1])
    block = type(X)((rows.stop - rows.start, X.shape[1]), dtype=X.dtype)
    # Given to the constructor, short parts of long arrays would be copied.
    block.data, block.indices, block.indptr = X.data[held], X.indices[held], indptr - indptr[0]
    return block


def nonzeros_to_csr(P: np.ndarray) -> sp.csr_array:
    """Keep the non-zeros of a dense block.

    Parameters
    ----------
    P : ndarray of shape (n, d)
        Probabilities, mostly zero.

    Returns
    -------
    csr_array of shape (n, d)
        The same numbers, with sorted column indices.
    """
    n, d = P.shape
    flat = P.ravel()
    held = np.flatnonzero(flat != 0)
    indptr = np.searchsorted(held, d * np.arange(n + 1))
    return sp.csr_array((flat[held], held % max(1, d), indptr), shape=P.shape)
