"""The Gram matrix of sparse rows times a table, without the weights in between.

Eight columns at a time: their sums stay in registers, and a row of the table is one cache line.
"""

from sparsemap_np._kernels._compile import element, kernel

WIDTH = 8


@element
def _larger(most, t):
    size = -t if t < 0 else t
    return size if size > most else most


@kernel("gram_csc")
def gram_csc(data, indices, indptr, V, start, out):
    """Add ``X (X' V + start)`` to ``out``; all have `WIDTH` columns, start may have no rows.

    Returns the largest magnitude of ``X' V + start``.
    """
    most = 0.0
    for f in range(indptr.size - 1):
        t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = 0.0
        if start.shape[0] > 0:
            t0, t1, t2, t3 = start[f, 0], start[f, 1], start[f, 2], start[f, 3]
            t4, t5, t6, t7 = start[f, 4], start[f, 5], start[f, 6], start[f, 7]
        for at in range(indptr[f], indptr[f + 1]):
            x = data[at]
            i = indices[at]
            t0 += x * V[i, 0]
            t1 += x * V[i, 1]
            t2 += x * V[i, 2]
            t3 += x * V[i, 3]
            t4 += x * V[i, 4]
            t5 += x * V[i, 5]
            t6 += x * V[i, 6]
            t7 += x * V[i, 7]
        most = _larger(_larger(_larger(_larger(most, t0), t1), t2), t3)
        most = _larger(_larger(_larger(_larger(most, t4), t5), t6), t7)
        for at in range(indptr[f], indptr[f + 1]):
            x = data[at]
            i = indices[at]
            out[i, 0] += x * t0
            out[i, 1] += x * t1
            out[i, 2] += x * t2
            out[i, 3] += x * t3
            out[i, 4] += x * t4
            out[i, 5] += x * t5
            out[i, 6] += x * t6
            out[i, 7] += x * t7
    return most
