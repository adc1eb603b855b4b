"""The Jacobian of a mapping inside a linear model: products that touch only the support's classes.

A row's Jacobian is ``(I - c 1') diag(s) (I - 1 c')`` on the support, with slopes s and centres c
that sum to one: c = s / sum(s) for the entmax family and the budget, c = p for normmax. So a row is
kept as its classes, slopes and (unscaled) centres, one after another as in a CSR matrix; rows whose
support is a single class have J = 0 and are left out. A row with one entry stands for two classes,
of which one score is free: its curvature is the slope itself.

Dense data come with weights as (classes, features), which makes the inner loop long. Sparse data
come by columns, with weights as (features, classes): a gather of weights for each entry of a row
would wait for memory a hundred times as long as it computes.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import fast, kernel, scalar, sums
from sparsemap_np._kernels._views import stretch

_STEEPEST = 1e8  # a mapping's slope is unbounded for alpha > 2; far above all others is enough


@fast
def dot(x, v):
    total = type(x[0])(0)
    for f in range(x.size):
        total += x[f] * v[f]
    return total


@fast
def four_dots(x, v0, v1, v2, v3):
    """Four at a time read x once, and leave the processor more to do at a time."""
    t0 = t1 = t2 = t3 = type(x[0])(0)
    for f in range(x.size):
        t0 += x[f] * v0[f]
        t1 += x[f] * v1[f]
        t2 += x[f] * v2[f]
        t3 += x[f] * v3[f]
    return t0, t1, t2, t3


@fast
def add_multiple(x, h, g):
    for f in range(x.size):
        g[f] += h * x[f]


@scalar
def _slope(p, alpha):
    if alpha == 2.0:
        return 1.0
    if alpha == 1.5:
        return math.sqrt(p)
    if alpha == 1.0:
        return p
    return min(p ** (2.0 - alpha), _STEEPEST)


@scalar
def _targets_excess(D, labels, Y, i, j, w):
    """What the residual ``w * (p - y)`` lacks of ``w * p``."""
    if Y.shape[0] > 0:
        return w * np.float64(Y[i, j])
    return w if j == labels[i] else 0.0


@kernel("curvature_count")
def count_supports(D, labels, Y, weight, cut, upper, counts):
    """``counts[i]``: classes of row i with cut < p < upper, 0 for a row without curvature.

    ``D`` is the residual ``weight * (P - Y)``; ``Y`` has no rows when ``labels`` are the targets.
    """
    step = 1 if weight.size > 1 else 0
    total = 0
    for i in range(D.shape[0]):
        w = weight[i * step]
        number = 0
        if w > 0.0:
            low = cut * w
            high = upper * w
            if Y.shape[0] > 0:
                for j in range(D.shape[1]):
                    number += low < D[i, j] + w * Y[i, j] < high
            else:
                for j in range(D.shape[1]):
                    number += low < D[i, j] < high
                d = D[i, labels[i]]
                number += (low < d + w < high) - (low < d < high)
        counts[i] = number if number > 1 else 0
        total += counts[i]
    return total


@kernel("curvature_collect")
def collect_supports(
    D, labels, Y, weight, alpha, norm, cut, upper, counts, ptr, cols, slopes, centres
):
    """Write what ``count_supports`` found: where rows begin, classes, slopes and centres.

    ``norm`` says that the mapping is normmax. Without room for centres, they are the slopes.
    """
    step = 1 if weight.size > 1 else 0
    T = type(slopes[0])
    at = 0
    ptr[0] = 0
    for i in range(D.shape[0]):
        ptr[i + 1] = at
        if counts[i] == 0:
            continue
        w = np.float64(weight[i * step])
        low = cut * w
        high = upper * w
        first = at
        powers = 0.0
        for j in range(D.shape[1]):
            q = np.float64(D[i, j]) + _targets_excess(D, labels, Y, i, j, w)
            if low < q < high and at - first < counts[i]:
                p = q / w
                cols[at] = j
                slopes[at] = T(w * _slope(p, alpha))
                if centres.size:
                    centres[at] = T(p)
                    powers += p**alpha
                at += 1
        if norm:
            # s_i = ||p|| (p_i / ||p||)^(2 - a) / (a - 1)
            scale = powers ** ((alpha - 1.0) / alpha) / (alpha - 1.0)
            for e in range(first, at):
                slopes[e] = T(slopes[e] * scale)
        if D.shape[1] == 2:
            c = centres if centres.size else slopes
            share = c[first + 1] / (c[first] + c[first + 1])
            rest = 1 - share
            slopes[first] = T(slopes[first] * share * share + slopes[first + 1] * rest * rest)
            cols[first] = 0
            at = first + 1
        ptr[i + 1] = at


@sums
def _mean(c, u):
    """The centres' mean of u, and their sum."""
    total = 0.0
    product = 0.0
    for e in range(c.size):
        total += c[e]
        product += c[e] * u[e]
    return product / total, total


@sums
def _weigh(u, s, mean):
    """Turn u into ``s (u - mean)``; return its sum."""
    T = type(u[0])
    change = 0.0
    for e in range(s.size):
        v = s[e] * (u[e] - T(mean))
        u[e] = v
        change += v
    return change


@kernel("curvature_spread")
def spread(rows, ptr, cols, values, table):
    """Write the values of some rows where their classes are in a table of zeros."""
    for a in range(rows.size):
        for e in range(ptr[rows[a]], ptr[rows[a] + 1]):
            table[a, cols[e]] = values[e]


@scalar
def _apply_jacobian(u, s, c):
    """Turn the scores' change u on the support into the probabilities' change."""
    if s.size == 1:
        u[0] *= s[0]
        return
    mean, total = _mean(c, u)
    if total == 0.0:
        u[:] = 0
        return
    # The change's sum is zero but for rounding where the slopes are the centres.
    change = _weigh(u, s, mean) / total
    T = type(u[0])
    for e in range(s.size):
        u[e] -= c[e] * T(change)


@scalar
def _jacobian_diagonal(u, s, c):
    if s.size == 1:
        u[0] = s[0]
        return
    total = 0.0
    slopes = 0.0
    for e in range(s.size):
        total += c[e]
        slopes += s[e]
    for e in range(s.size):
        share = c[e] / total if total > 0.0 else 0.0
        u[e] = s[e] * (1.0 - 2.0 * share) + share * share * slopes


@kernel("curvature_product_dense")
def product_dense(X, ptr, cols, slopes, centres, V, b, G, g):
    """Add ``X' J X V`` to G, both (classes, features); b and g belong to the intercepts."""
    T = type(G[0, 0])
    d = X.shape[1]
    work = np.empty(V.shape[0])
    for i in range(X.shape[0]):
        lo = ptr[i]
        size = ptr[i + 1] - lo
        if size == 0:
            continue
        x = stretch(X, i * d, d)
        u = stretch(work, 0, size)
        e = 0
        while e + 4 <= size:
            u[e], u[e + 1], u[e + 2], u[e + 3] = four_dots(
                x,
                stretch(V, cols[lo + e] * d, d),
                stretch(V, cols[lo + e + 1] * d, d),
                stretch(V, cols[lo + e + 2] * d, d),
                stretch(V, cols[lo + e + 3] * d, d),
            )
            e += 4
        while e < size:
            u[e] = dot(x, stretch(V, cols[lo + e] * d, d))
            e += 1
        for e in range(size):
            u[e] += b[cols[lo + e]]
        _apply_jacobian(u, stretch(slopes, lo, size), stretch(centres, lo, size))
        for e in range(size):
            j = cols[lo + e]
            add_multiple(x, T(u[e]), stretch(G, j * d, d))
            g[j] += u[e]


@kernel("curvature_diagonal_dense")
def diagonal_dense(X, ptr, cols, slopes, centres, G, g):
    """Add the diagonal of ``X' J X`` to G (classes, features)."""
    d = X.shape[1]
    work = np.empty(G.shape[0])
    squares = np.empty(d, X.dtype)
    for i in range(X.shape[0]):
        lo = ptr[i]
        size = ptr[i + 1] - lo
        if size == 0:
            continue
        x = stretch(X, i * d, d)
        for f in range(d):
            squares[f] = x[f] * x[f]
        u = stretch(work, 0, size)
        _jacobian_diagonal(u, stretch(slopes, lo, size), stretch(centres, lo, size))
        for e in range(size):
            j = cols[lo + e]
            add_multiple(squares, u[e], stretch(G, j * d, d))
            g[j] += u[e]


@kernel("curvature_product_csc")
def product_csc(data, indices, indptr, ptr, cols, slopes, centres, V, b, change, G, g):
    """Like ``product_dense`` for CSC data, with V and G (features, classes).

    ``change`` has room for a number for each slope. A feature's weights stay in the cache for
    all its rows, and so do the changes of all rows of a block.
    """
    k = V.shape[1]
    for e in range(change.size):
        change[e] = b[cols[e]]
    for f in range(V.shape[0]):
        v = stretch(V, f * k, k)
        for at in range(indptr[f], indptr[f + 1]):
            lo = ptr[indices[at]]
            size = ptr[indices[at] + 1] - lo
            u = stretch(change, lo, size)
            if size == k:
                add_multiple(v, data[at], u)
            else:
                for e in range(size):
                    u[e] += data[at] * v[cols[lo + e]]
    for i in range(ptr.size - 1):
        lo = ptr[i]
        size = ptr[i + 1] - lo
        if size > 0:
            u = stretch(change, lo, size)
            _apply_jacobian(u, stretch(slopes, lo, size), stretch(centres, lo, size))
            for e in range(size):
                g[cols[lo + e]] += u[e]
    _add_outer(data, indices, indptr, ptr, cols, change, G)


@scalar
def _add_outer(data, indices, indptr, ptr, cols, change, G):
    k = G.shape[1]
    for f in range(G.shape[0]):
        out = stretch(G, f * k, k)
        for at in range(indptr[f], indptr[f + 1]):
            lo = ptr[indices[at]]
            size = ptr[indices[at] + 1] - lo
            if size == k:
                add_multiple(stretch(change, lo, k), data[at], out)
            else:
                for e in range(lo, lo + size):
                    out[cols[e]] += data[at] * change[e]


@kernel("curvature_diagonal_csc")
def diagonal_csc(squares, indices, indptr, ptr, cols, slopes, centres, change, G, g):
    """Like ``diagonal_dense`` for the squares of CSC data, with G (features, classes)."""
    for i in range(ptr.size - 1):
        lo = ptr[i]
        size = ptr[i + 1] - lo
        if size > 0:
            u = stretch(change, lo, size)
            _jacobian_diagonal(u, stretch(slopes, lo, size), stretch(centres, lo, size))
            for e in range(size):
                g[cols[lo + e]] += u[e]
    _add_outer(squares, indices, indptr, ptr, cols, change, G)


@kernel("curvature_rows")
def apply_rows(slopes, centres, U):
    """``U[a] = J_a U[a]`` for rows kept with all their classes."""
    k = U.shape[1]
    for a in range(U.shape[0]):
        _apply_jacobian(stretch(U, a * k, k), stretch(slopes, a * k, k), stretch(centres, a * k, k))


@kernel("curvature_row_diagonals")
def diagonal_rows(slopes, centres, U):
    """``U[a] = diag(J_a)`` for rows kept with all their classes."""
    k = U.shape[1]
    for a in range(U.shape[0]):
        _jacobian_diagonal(
            stretch(U, a * k, k), stretch(slopes, a * k, k), stretch(centres, a * k, k)
        )


@kernel("sparse_outer_dense")
def sparse_outer_dense(X, D, G, g):
    """Add ``D' X`` to G (classes, features) and the sums of D to g, from its non-zeros alone."""
    d = X.shape[1]
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            h = D[i, j]
            if h != 0:
                add_multiple(stretch(X, i * d, d), h, stretch(G, j * d, d))
                g[j] += h


@kernel("sparse_outer_csc")
def sparse_outer_csc(data, indices, indptr, D, G, g):
    """Add ``X' D`` to G (features, classes) and the sums of D to g, from its non-zeros alone."""
    n, k = D.shape
    ptr = np.empty(n + 1, np.int64)
    ptr[0] = 0
    for i in range(n):
        size = 0
        for j in range(k):
            size += D[i, j] != 0
        ptr[i + 1] = ptr[i] + size
    cols = np.empty(ptr[n], np.int32)
    values = np.empty(ptr[n], D.dtype)
    at = 0
    for i in range(n):
        if ptr[i + 1] > ptr[i]:
            for j in range(k):
                if D[i, j] != 0:
                    cols[at] = j
                    values[at] = D[i, j]
                    g[j] += D[i, j]
                    at += 1
    _add_outer(data, indices, indptr, ptr, cols, values, G)


@kernel("outer_csc")
def outer_csc(data, indices, indptr, D, G):
    """Add ``X' D`` to G (features, classes)."""
    k = G.shape[1]
    for f in range(G.shape[0]):
        out = stretch(G, f * k, k)
        for at in range(indptr[f], indptr[f + 1]):
            add_multiple(stretch(D, indices[at] * k, k), data[at], out)


@kernel("scores_csc")
def scores_csc(data, indices, indptr, W, out):
    """Add ``X W`` for W (features, classes) to ``out``."""
    k = W.shape[1]
    for f in range(W.shape[0]):
        w = stretch(W, f * k, k)
        for at in range(indptr[f], indptr[f + 1]):
            add_multiple(w, data[at], stretch(out, indices[at] * k, k))


@scalar
def _leader(x):
    """The largest score's place, and how far it is ahead of the next one."""
    best = 0
    for j in range(1, x.size):
        if x[j] > x[best]:
            best = j
    gap = np.inf
    for j in range(x.size):
        if j != best:
            gap = min(gap, np.float64(x[best]) - np.float64(x[j]))
    return best, gap


@kernel("moving_rows")
def moving_rows(S, E, gap, moves):
    """``moves[i]`` unless one class leads by ``gap`` in the scores S[i] and in E[i]."""
    k = S.shape[1]
    for i in range(S.shape[0]):
        a, ahead = _leader(stretch(S, i * k, k))
        moves[i] = True
        if ahead > gap:
            b, ahead = _leader(stretch(E, i * k, k))
            moves[i] = a != b or not ahead > gap


@kernel("leads")
def leads(S, labels, out):
    """``out[i]``: how far the score of the label is ahead of all others."""
    k = S.shape[1]
    for i in range(S.shape[0]):
        x = stretch(S, i * k, k)
        t = labels[i]
        others = -np.inf
        for j in range(k):
            others = max(others, np.float64(x[j]) if j != t else -np.inf)
        out[i] = np.float64(x[t]) - others


@kernel("longest_difference")
def longest_difference(z, origin, k):
    """A bound of ``|v_j - v_l|`` for the columns of ``z - origin``, which are k (and one of zeros).

    Two columns are no further apart than from the mean together.
    """
    squares = np.zeros(k)
    for start in range(0, z.size, k):
        change = stretch(z, start, k)
        earlier = stretch(origin, start, k)
        total = 0.0
        for j in range(k):
            total += change[j] - earlier[j]
        mean = total / k if k > 1 else 0.0
        for j in range(k):
            v = change[j] - earlier[j] - mean
            squares[j] += v * v
    first = 0.0
    second = 0.0
    for j in range(k):
        if not squares[j] < first:
            second = first
            first = squares[j]
        elif squares[j] > second:
            second = squares[j]
    return math.sqrt(first) + math.sqrt(second)
