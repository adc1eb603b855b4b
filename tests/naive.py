"""Slow and plain NumPy versions for rows too long for reference.py, in long double.

The same two steps for every mapping with a simplex: count the support by its definition, then
bisect for the logarithm of the smallest supported coordinate.  Not for alpha within 1e-3 of one:
there 1/(alpha - 1) multiplies the rounding of a long double.
"""

import numpy as np

L = np.longdouble


def _support_size(s, expo):
    """Largest k such that the scores before s[k-1] leave mass at that threshold."""
    low, high = 1, len(s)
    while low < high:
        k = (low + high + 1) // 2
        if np.sum((s[: k - 1] - s[k - 1]) ** expo) < 1:
            low = k
        else:
            high = k - 1
    return low


def _coordinates(s, b, expo):
    """u = (s - tau)^(1/b) on the support of descending s, with sum u^expo = 1."""
    gaps = s - s[-1]
    low, high = L(-5000), -np.log(L(len(s))) / expo
    while True:
        t = (low + high) / 2
        if not low < t < high:
            break
        u = (gaps + np.exp(b * t)) ** (1 / b)
        if np.sum(u**expo) >= 1:
            high = t
        else:
            low = t
    return (gaps + np.exp(b * high)) ** (1 / b)


def _simplex(x, scale, b, power, expo):
    z = np.asarray(x, dtype=L)
    s = scale * (z - z.max())
    order = np.argsort(-s, kind="stable")
    kept = order[: _support_size(s[order], power)]
    u = _coordinates(s[kept], b, expo)
    p = np.zeros_like(s)
    p[kept] = u / u.sum()
    return p


def _argmax(x):
    ties = np.asarray(x) == np.max(x)
    return ties / L(np.sum(ties))


def entmax(x, alpha):
    if alpha == np.inf:
        return _argmax(x)
    if alpha == 1:
        e = np.exp(np.asarray(x, dtype=L) - np.max(x))
        return e / e.sum()
    b = L(alpha) - 1
    return _simplex(x, b, b, 1 / b, L(1))


def normmax(x, alpha):
    if alpha == 1:
        return _argmax(x)
    if alpha == np.inf:
        on = entmax(x, 2) > 0
        return on / L(on.sum())
    b = L(alpha) - 1
    return _simplex(x, L(1), b, alpha / b, L(alpha))


def budget(x, total):
    """Bisect tau between the ends that give everything and nothing."""
    x = np.asarray(x, dtype=L)
    if total == 0 or total == len(x):
        return np.full_like(x, total / len(x))
    low, high = x.min() - 1, x.max()
    while True:
        tau = (low + high) / 2
        if not low < tau < high:
            return np.clip(x - tau, 0, 1)
        if np.clip(x - tau, 0, 1).sum() >= total:
            low = tau
        else:
            high = tau


MAPS = {"entmax": entmax, "normmax": normmax, "budget": budget}


def rows(kind, X, param):
    return np.array([MAPS[kind](row, param) for row in X], dtype="float64")
