"""Losses and gradients of a linear model from the classes near the top of each row alone.

Lists of classes come as (rows, width), filled up with -1; weights and gradients as
(classes, features), which makes the inner loops long.
"""

import numpy as np

from sparsemap_np._kernels._compile import kernel, scalar
from sparsemap_np._kernels._hessian import add_multiple, dot, four_dots
from sparsemap_np._kernels._scan import largest
from sparsemap_np._kernels._views import stretch


@scalar
def _first_at_least(ascending, number):
    """The place of the first entry that is not below a number; a NaN is below all."""
    low = 0
    high = ascending.size
    while low < high:
        middle = (low + high) // 2
        if number > ascending[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel("near_count")
def count(S, gap, lengths, reaches, counts):
    """``counts[r]``: scores that come within ``gap`` of the largest by reach r, no earlier one."""
    k = S.shape[1]
    for i in range(S.shape[0]):
        x = stretch(S, i * k, k)
        floor = np.float64(largest(x)) - gap
        for j in range(k):
            r = _first_at_least(reaches, (floor - np.float64(x[j])) / lengths[i])
            if r < reaches.size:
                counts[r] += 1


@kernel("near_collect")
def collect(S, labels, margins, cols, counts, places):
    """List the classes within ``margins[i]`` of the row's largest score, and the label.

    The lists follow one another in ``cols``, which has room for a number more than S.
    ``counts[i]`` is the length of one, ``places[i]`` where in it the label is.
    """
    k = S.shape[1]
    at = 0
    for i in range(S.shape[0]):
        x = stretch(S, i * k, k)
        t = labels[i]
        floor = np.float64(largest(x)) - margins[i]
        first = at
        for j in range(k):
            if j == t:
                places[i] = at - first
            cols[at] = j
            at += (not np.float64(x[j]) < floor) | (j == t)
        counts[i] = at - first
    return at


@kernel("near_scores")
def scores(X, rows, cols, V, b, S):
    """``S[a, e]``: score of the class ``cols[a, e]`` in the row ``rows[a]``, -inf for no class."""
    d = X.shape[1]
    width = cols.shape[1]
    for a in range(rows.size):
        x = stretch(X, rows[a] * d, d)
        listed = stretch(cols, a * width, width)
        s = stretch(S, a * width, width)
        size = width
        while size > 0 and listed[size - 1] < 0:
            size -= 1
            s[size] = -np.inf
        e = 0
        while e + 4 <= size:
            s[e], s[e + 1], s[e + 2], s[e + 3] = four_dots(
                x,
                stretch(V, listed[e] * d, d),
                stretch(V, listed[e + 1] * d, d),
                stretch(V, listed[e + 2] * d, d),
                stretch(V, listed[e + 3] * d, d),
            )
            e += 4
        while e < size:
            s[e] = dot(x, stretch(V, listed[e] * d, d))
            e += 1
        for e in range(size):
            s[e] += b[listed[e]]


@kernel("near_outer")
def outer(X, rows, cols, values, first, stop, G):
    """Add ``values[e]`` times the row ``rows[e]`` to ``G[cols[e]]``, features first to stop."""
    d = X.shape[1]
    size = stop - first
    for e in range(rows.size):
        x = stretch(X, rows[e] * d + first, size)
        add_multiple(x, values[e], stretch(G, cols[e] * d + first, size))
