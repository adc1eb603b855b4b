"""The Jacobian of a mapping inside a linear model: products that touch only the support's classes.

A row's Jacobian is ``(I - c 1') diag(s) (I - 1 c')`` on the support, with slopes s and centres c
that sum to one: c = s / sum(s) for the entmax family and the budget, c = p for normmax. So a row is
kept as its classes, slopes and (unscaled) centres, one after another as in a CSR matrix; rows whose
support is a single class have J = 0 and are left out. A row with one entry stands for two classes,
of which one score is free: its curvature is the slope itself.

Dense data come with weights as (classes, features), CSR data with (features, classes): the inner
loop is long there, and here it gathers from one row.
"""

import math

import numpy as np

from sparsemap_np._kernels._compile import fast, kernel, scalar

_STEEPEST = 1e8  # a mapping's slope is unbounded for alpha > 2; far above all others is enough


@fast
def _dot(x, v):
    total = type(x[0])(0)
    for f in range(x.size):
        total += x[f] * v[f]
    return total


@fast
def _add_multiple(x, h, g):
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
    D, labels, Y, weight, alpha, norm, cut, upper, counts, rows, ptr, cols, slopes, centres
):
    """Write the rows that ``count_supports`` found: numbers, ends, classes, slopes and centres.

    ``norm`` says that the mapping is normmax. Without room for centres, they are the slopes.
    """
    step = 1 if weight.size > 1 else 0
    T = type(slopes[0])
    at = 0
    kept = 0
    ptr[0] = 0
    for i in range(D.shape[0]):
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
        rows[kept] = i
        kept += 1
        ptr[kept] = at
    return kept


@scalar
def _apply_jacobian(u, s, c):
    """Turn the scores' change u on the support into the probabilities' change."""
    if s.size == 1:
        u[0] *= s[0]
        return
    total = 0.0
    dot = 0.0
    for e in range(s.size):
        total += c[e]
        dot += c[e] * u[e]
    mean = dot / total
    change = 0.0
    for e in range(s.size):
        u[e] = s[e] * (u[e] - mean)
        change += u[e]
    # Zero but for rounding where the slopes are the centres.
    change /= total
    for e in range(s.size):
        u[e] -= c[e] * change


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
        share = c[e] / total
        u[e] = s[e] * (1.0 - 2.0 * share) + share * share * slopes


@kernel("curvature_product_dense")
def product_dense(X, rows, ptr, cols, slopes, centres, V, b, G, g):
    """Add ``X' J X V`` to G, both (classes, features); b and g belong to the intercepts."""
    T = type(G[0, 0])
    work = np.empty(V.shape[0])
    for a in range(rows.size):
        x = X[rows[a]]
        lo = ptr[a]
        hi = ptr[a + 1]
        u = work[: hi - lo]
        for e in range(u.size):
            j = cols[lo + e]
            u[e] = _dot(x, V[j])
            if b.size:
                u[e] += b[j]
        _apply_jacobian(u, slopes[lo:hi], centres[lo:hi])
        for e in range(u.size):
            j = cols[lo + e]
            _add_multiple(x, T(u[e]), G[j])
            if b.size:
                g[j] += u[e]


@kernel("curvature_diagonal_dense")
def diagonal_dense(X, rows, ptr, cols, slopes, centres, G, g):
    """Add the diagonal of ``X' J X`` to G (classes, features)."""
    work = np.empty(G.shape[0])
    for a in range(rows.size):
        x = X[rows[a]]
        lo = ptr[a]
        hi = ptr[a + 1]
        u = work[: hi - lo]
        _jacobian_diagonal(u, slopes[lo:hi], centres[lo:hi])
        for e in range(u.size):
            j = cols[lo + e]
            for f in range(x.size):
                G[j, f] += u[e] * x[f] * x[f]
            g[j] += u[e]


@kernel("curvature_product_csr")
def product_csr(data, indices, indptr, rows, ptr, cols, slopes, centres, V, b, G, g):
    """Like ``product_dense`` for CSR data, with V and G (features, classes)."""
    T = type(G[0, 0])
    work = np.empty(V.shape[1])
    for a in range(rows.size):
        lo = ptr[a]
        hi = ptr[a + 1]
        classes = cols[lo:hi]
        u = work[: hi - lo]
        for e in range(u.size):
            u[e] = b[classes[e]] if b.size else 0.0
        for at in range(indptr[rows[a]], indptr[rows[a] + 1]):
            x = data[at]
            v = V[indices[at]]
            for e in range(u.size):
                u[e] += x * v[classes[e]]
        _apply_jacobian(u, slopes[lo:hi], centres[lo:hi])
        for at in range(indptr[rows[a]], indptr[rows[a] + 1]):
            x = data[at]
            out = G[indices[at]]
            for e in range(u.size):
                out[classes[e]] += T(x * u[e])
        if b.size:
            for e in range(u.size):
                g[classes[e]] += u[e]


@kernel("curvature_diagonal_csr")
def diagonal_csr(data, indices, indptr, rows, ptr, cols, slopes, centres, G, g):
    """Like ``diagonal_dense`` for CSR data, with G (features, classes)."""
    work = np.empty(G.shape[1])
    for a in range(rows.size):
        lo = ptr[a]
        hi = ptr[a + 1]
        classes = cols[lo:hi]
        u = work[: hi - lo]
        _jacobian_diagonal(u, slopes[lo:hi], centres[lo:hi])
        for at in range(indptr[rows[a]], indptr[rows[a] + 1]):
            x = data[at]
            out = G[indices[at]]
            for e in range(u.size):
                out[classes[e]] += u[e] * x * x
        for e in range(u.size):
            g[classes[e]] += u[e]


@kernel("curvature_rows")
def apply_rows(slopes, centres, U):
    """``U[a] = J_a U[a]`` for rows kept with all their classes."""
    work = np.empty(U.shape[1])
    for a in range(U.shape[0]):
        for j in range(U.shape[1]):
            work[j] = U[a, j]
        _apply_jacobian(work, slopes[a], centres[a])
        for j in range(U.shape[1]):
            U[a, j] = work[j]


@kernel("curvature_row_diagonals")
def diagonal_rows(slopes, centres, U):
    """``U[a] = diag(J_a)`` for rows kept with all their classes."""
    work = np.empty(U.shape[1])
    for a in range(U.shape[0]):
        _jacobian_diagonal(work, slopes[a], centres[a])
        for j in range(U.shape[1]):
            U[a, j] = work[j]


@kernel("sparse_outer_dense")
def sparse_outer_dense(X, D, G, g):
    """Add ``D' X`` to G (classes, features) and the sums of D to g, from its non-zeros alone."""
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            d = D[i, j]
            if d != 0:
                _add_multiple(X[i], d, G[j])
                g[j] += d


@kernel("sparse_outer_csr")
def sparse_outer_csr(data, indices, indptr, D, G, g):
    """Add ``X' D`` to G (features, classes) and the sums of D to g, from its non-zeros alone."""
    classes = np.empty(D.shape[1], np.int64)
    for i in range(D.shape[0]):
        number = 0
        for j in range(D.shape[1]):
            if D[i, j] != 0:
                classes[number] = j
                number += 1
                g[j] += D[i, j]
        if number > 0:
            held = classes[:number]
            for at in range(indptr[i], indptr[i + 1]):
                x = data[at]
                out = G[indices[at]]
                for j in held:
                    out[j] += x * D[i, j]


@kernel("outer_csr")
def outer_csr(data, indices, indptr, D, G):
    """Add ``X' D`` to G (features, classes)."""
    for i in range(D.shape[0]):
        for at in range(indptr[i], indptr[i + 1]):
            _add_multiple(D[i], data[at], G[indices[at]])


@kernel("scores_csr")
def scores_csr(data, indices, indptr, W, out):
    """``out = X W`` for W (features, classes)."""
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for at in range(indptr[i], indptr[i + 1]):
            _add_multiple(W[indices[at]], data[at], row)


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
    for i in range(S.shape[0]):
        a, ahead = _leader(S[i])
        moves[i] = True
        if ahead > gap:
            b, ahead = _leader(E[i])
            moves[i] = a != b or not ahead > gap
