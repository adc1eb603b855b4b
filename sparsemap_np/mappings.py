"""Sparse probability mappings: scores in, probabilities with exact zeros out."""

from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsemap_np import _parameters
from sparsemap_np._arrays import (
    as_axis,
    as_count,
    as_scores,
    compute_dtype,
    map_rows,
    reduce_rows,
)
from sparsemap_np._kernels import _loops, table

__all__ = [
    "budget_bisect",
    "entmax",
    "entmax15",
    "entmax_bisect",
    "normmax_bisect",
    "sparsemax",
    "sparsemax_bisect",
]


def _forward(mapping, X, dtype, par, axis, out, cost=1.0):
    return map_rows(mapping, "forward", (X,), (par,), dtype, axis, out, cost)


def _bisect(mapping, X, dtype, par, axis, out, n_iter, normalise, cost):
    options = (par, n_iter, normalise)
    return map_rows(mapping, "bisect", (X,), options, dtype, axis, out, cost * n_iter)


def _with_support_size(P, axis):
    work = compute_dtype(as_scores(P, "out")[1])
    return P, reduce_rows(_loops, "support_size", (P,), (), work, axis, np.dtype(np.int64))


@overload
def sparsemax(
    X: ArrayLike,
    axis: int = ...,
    k: int | None = ...,
    return_support_size: Literal[False] = ...,
    *,
    out: NDArray | None = ...,
) -> NDArray: ...
@overload
def sparsemax(
    X: ArrayLike,
    axis: int = ...,
    k: int | None = ...,
    *,
    return_support_size: Literal[True],
    out: NDArray | None = ...,
) -> tuple[NDArray, NDArray]: ...
def sparsemax(X, axis=-1, k=None, return_support_size=False, *, out=None):
    r"""Sparsemax: the Euclidean projection of the scores onto the probability simplex.

    .. math:: \operatorname{sparsemax}(x) = \operatorname*{argmin}_{p \in \Delta} \|p - x\|^2
              = (x - \tau)_+ , \quad \tau \text{ such that the entries sum to } 1

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores: real numbers of any dtype and layout. ``-inf`` masks an entry.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    k : int >= 1 or None, default=None
        Hint of the largest support, for code written for a partial sort. The selection used here
        does not need it: the result never depends on it.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities too.
    out : ndarray, optional
        Where to write the result: X's shape and a dtype that the result can be cast to by
        ``same_kind``. May be X itself.

    Returns
    -------
    P : ndarray
        Probabilities, of X's shape; float16, float32 and float64 keep their dtype, integers and
        booleans give float64. Rows holding a NaN, more than one ``+inf`` or nothing but ``-inf``
        are NaN; a single ``+inf`` takes everything.
    support_size : ndarray of int64
        Number of non-zero entries, length 1 along ``axis``; only with ``return_support_size``.

    Raises
    ------
    TypeError
        X is complex or holds objects; ``out`` is no array or cannot take the dtype.
    ValueError
        X is 0-dimensional, ``k`` is not an integer >= 1, ``out`` has another shape.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    References
    ----------
    .. [1] A. F. T. Martins, R. F. Astudillo. From Softmax to Sparsemax: A Sparse Model of
       Attention and Multi-Label Classification. ICML 2016.

    Examples
    --------
    >>> from sparsemap_np import sparsemax
    >>> sparsemax([-2, 0, 0.5])
    array([0.  , 0.25, 0.75])
    """
    as_count(k, "k")
    X, dtype = as_scores(X)
    axis = as_axis(axis, X.ndim)
    P = _forward(table.SPARSEMAX, X, dtype, table.SPARSEMAX.parameter, axis, out)
    return _with_support_size(P, axis) if return_support_size else P


@overload
def entmax15(
    X: ArrayLike,
    axis: int = ...,
    k: int | None = ...,
    return_support_size: Literal[False] = ...,
    *,
    out: NDArray | None = ...,
) -> NDArray: ...
@overload
def entmax15(
    X: ArrayLike,
    axis: int = ...,
    k: int | None = ...,
    *,
    return_support_size: Literal[True],
    out: NDArray | None = ...,
) -> tuple[NDArray, NDArray]: ...
def entmax15(X, axis=-1, k=None, return_support_size=False, *, out=None):
    r"""1.5-entmax, half way between softmax and sparsemax: sparse, and smooth up to its kinks.

    .. math:: \operatorname{entmax}_{1.5}(x) = \operatorname*{argmax}_{p \in \Delta}
              \langle p, x \rangle - \tfrac43 \Big(\sum_i p_i^{1.5} - 1\Big)
              = (x / 2 - \tau)_+^2

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores: real numbers of any dtype and layout. ``-inf`` masks an entry.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    k : int >= 1 or None, default=None
        Hint of the largest support, for code written for a partial sort. The selection used here
        does not need it: the result never depends on it.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities too.
    out : ndarray, optional
        Where to write the result: X's shape and a dtype that the result can be cast to by
        ``same_kind``. May be X itself.

    Returns
    -------
    P : ndarray
        Probabilities; dtypes and awkward rows as in `sparsemax`.
    support_size : ndarray of int64
        Number of non-zero entries, length 1 along ``axis``; only with ``return_support_size``.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As `sparsemax`.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.

    Examples
    --------
    >>> from sparsemap_np import entmax15
    >>> entmax15([-2, 0, 0.5]).round(4)
    array([0.   , 0.326, 0.674])
    """
    as_count(k, "k")
    X, dtype = as_scores(X)
    axis = as_axis(axis, X.ndim)
    P = _forward(table.ENTMAX15, X, dtype, table.ENTMAX15.parameter, axis, out, cost=1.5)
    return _with_support_size(P, axis) if return_support_size else P


def sparsemax_bisect(
    X: ArrayLike,
    axis: int = -1,
    n_iter: int | None = None,
    ensure_sum_one: bool = True,
    *,
    out: NDArray | None = None,
) -> NDArray:
    """Sparsemax by root finding; see `sparsemax` for the problem it solves.

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    n_iter : int >= 1 or None, default=None
        ``None`` iterates to the last bit. An integer makes that many steps of plain bisection, for
        comparison with the literature.
    ensure_sum_one : bool, default=True
        Whether to divide what ``n_iter`` steps of bisection left by its sum. Rows solved to the
        last bit sum to one as they are.
    out : ndarray, optional
        Where to write the result, as in `sparsemax`.

    Returns
    -------
    P : ndarray
        Probabilities; dtypes and awkward rows as in `sparsemax`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As `sparsemax`, with ``n_iter`` in the place of ``k``.

    References
    ----------
    .. [1] M. Blondel, A. F. T. Martins, V. Niculae. Learning with Fenchel-Young Losses.
       JMLR 21 (2020). Algorithm 1.

    Examples
    --------
    >>> from sparsemap_np import sparsemax_bisect
    >>> sparsemax_bisect([-2, 0, 0.5])
    array([0.  , 0.25, 0.75])
    >>> sparsemax_bisect([-2, 0, 0.6], n_iter=3, ensure_sum_one=False).round(3)
    array([0.  , 0.15, 0.75])
    """
    return entmax_bisect(X, 2.0, axis, n_iter, ensure_sum_one, out=out)


def entmax_bisect(
    X: ArrayLike,
    alpha: ArrayLike = 1.5,
    axis: int = -1,
    n_iter: int | None = None,
    ensure_sum_one: bool = True,
    *,
    out: NDArray | None = None,
) -> NDArray:
    r"""alpha-entmax for any alpha > 0, by root finding.

    .. math:: \operatorname{entmax}_\alpha(x) = \operatorname*{argmax}_{p \in \Delta}
              \langle p, x \rangle - \Omega_\alpha(p), \quad
              \Omega_\alpha(p) = \frac{\sum_i p_i^\alpha - 1}{\alpha (\alpha - 1)}

    alpha = 1 is the softmax (:math:`\Omega = \sum p \log p`), 2 the sparsemax, inf the argmax with
    ties split evenly. For alpha > 1 scores further than 1 / (alpha - 1) below the largest get
    exactly zero; for alpha <= 1 every finite score gets a positive probability.

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores.
    alpha : float or array_like, default=1.5
        > 0, ``inf`` included. An array gives each row its own: it must broadcast to X with
        length 1 along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    n_iter : int >= 1 or None, default=None
        ``None`` iterates to the last bit. An integer makes that many steps of plain bisection, for
        comparison with the literature (alpha = 1 and inf have a closed form and no steps).
    ensure_sum_one : bool, default=True
        Whether to divide what ``n_iter`` steps of bisection left by its sum. Rows solved to the
        last bit sum to one as they are.
    out : ndarray, optional
        Where to write the result, as in `sparsemax`.

    Returns
    -------
    P : ndarray
        Probabilities; dtypes and awkward rows as in `sparsemax`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As `sparsemax`; also ValueError for an alpha outside its domain or of another shape.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.
    .. [2] M. Blondel, A. F. T. Martins, V. Niculae. Learning with Fenchel-Young Losses.
       JMLR 21 (2020).

    Examples
    --------
    >>> from sparsemap_np import entmax_bisect
    >>> entmax_bisect([[-1, 0, 0.5], [1, 2, 3.5]], alpha=1.33).round(4)
    array([[0.046 , 0.3276, 0.6264],
           [0.0026, 0.1012, 0.8963]])
    >>> entmax_bisect([[0, 1, 1.5], [0, 1, 1.5]], alpha=[[1], [2]]).round(4)
    array([[0.122 , 0.3315, 0.5465],
           [0.    , 0.25  , 0.75  ]])
    """
    n_iter = as_count(n_iter, "n_iter")
    X, dtype = as_scores(X)
    axis = as_axis(axis, X.ndim)
    par = _parameters.entmax_alpha(alpha, X.shape, axis)
    if n_iter is None:
        return _forward(table.entmax_kernel(par), X, dtype, par, axis, out, cost=10.0)
    normalise = bool(ensure_sum_one)
    return _bisect(table.ENTMAX, X, dtype, par, axis, out, n_iter, normalise, cost=10.0)


def entmax(
    X: ArrayLike, alpha: ArrayLike = 1.5, axis: int = -1, *, out: NDArray | None = None
) -> NDArray:
    """alpha-entmax by the best algorithm for each alpha; see `entmax_bisect` for the problem.

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores.
    alpha : float or array_like, default=1.5
        > 0, ``inf`` included; 1 is the softmax, 1.5 `entmax15`, 2 `sparsemax`, inf the argmax.
        An array gives each row its own: it must broadcast to X with length 1 along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    out : ndarray, optional
        Where to write the result, as in `sparsemax`.

    Returns
    -------
    P : ndarray
        Probabilities; dtypes and awkward rows as in `sparsemax`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As `entmax_bisect`.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.

    Examples
    --------
    >>> from sparsemap_np import entmax
    >>> entmax([-2, 0, 0.5], alpha=1).round(4)
    array([0.0486, 0.3592, 0.5922])
    >>> entmax([-2, 0, 0.5], alpha=2)
    array([0.  , 0.25, 0.75])
    """
    return entmax_bisect(X, alpha, axis, out=out)


def normmax_bisect(
    X: ArrayLike,
    alpha: ArrayLike = 2,
    axis: int = -1,
    n_iter: int | None = None,
    *,
    out: NDArray | None = None,
) -> NDArray:
    r"""alpha-normmax: sparse like sparsemax, flatter within its support.

    .. math:: \operatorname{normmax}_\alpha(x) = \operatorname*{argmax}_{p \in \Delta}
              \langle p, x \rangle - \|p\|_\alpha

    alpha = 1 is the argmax with ties split evenly, inf uniform on the support of the sparsemax.

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores.
    alpha : float or array_like, default=2
        >= 1, ``inf`` included. An array gives each row its own: it must broadcast to X with
        length 1 along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    n_iter : int >= 1 or None, default=None
        ``None`` iterates to the last bit. An integer makes that many steps of plain bisection.
    out : ndarray, optional
        Where to write the result, as in `sparsemax`.

    Returns
    -------
    P : ndarray
        Probabilities; dtypes and awkward rows as in `sparsemax`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As `entmax_bisect`.

    References
    ----------
    .. [1] M. Blondel, A. F. T. Martins, V. Niculae. Learning with Fenchel-Young Losses.
       JMLR 21 (2020).
    .. [2] S. J. R. Santos, V. Niculae, D. McNamee, A. F. T. Martins. Sparse and Structured
       Hopfield Networks. ICML 2024.

    Examples
    --------
    >>> from sparsemap_np import normmax_bisect
    >>> normmax_bisect([-2, 0, 0.5]).round(4)
    array([0.   , 0.311, 0.689])
    >>> normmax_bisect([-2, 0, 0.5], alpha=1000).round(4)
    array([0.    , 0.4997, 0.5003])
    """
    n_iter = as_count(n_iter, "n_iter")
    X, dtype = as_scores(X)
    axis = as_axis(axis, X.ndim)
    par = _parameters.normmax_alpha(alpha, X.shape, axis)
    if n_iter is None:
        return _forward(table.NORMMAX, X, dtype, par, axis, out, cost=10.0)
    return _bisect(table.NORMMAX, X, dtype, par, axis, out, n_iter, True, cost=10.0)


def budget_bisect(
    X: ArrayLike,
    budget: ArrayLike = 2,
    axis: int = -1,
    n_iter: int | None = None,
    *,
    out: NDArray | None = None,
) -> NDArray:
    r"""k-subsets budget: marginal probabilities that sum to a budget, each at most one.

    .. math:: \operatorname*{argmax}_{0 \le p \le 1,\ \sum_i p_i = B}
              \langle p, x \rangle - \tfrac12 \|p\|^2 = \min(\max(x - \tau, 0), 1)

    Parameters
    ----------
    X : array_like of shape (..., d, ...)
        Scores.
    budget : float or array_like, default=2
        In [0, d], not necessarily an integer. An array gives each row its own: it must broadcast
        to X with length 1 along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to the budget.
    n_iter : int >= 1 or None, default=None
        ``None`` iterates to the last bit. An integer makes that many steps of plain bisection.
    out : ndarray, optional
        Where to write the result, as in `sparsemax`.

    Returns
    -------
    P : ndarray
        Marginal probabilities; dtypes as in `sparsemax`. ``+inf`` scores take 1 each while the
        budget lasts. A row with a NaN, with fewer entries above ``-inf`` than the budget, or with
        more than one ``+inf`` and too small a budget for them, is NaN.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As `sparsemax`; also ValueError for a budget outside its domain or of another shape.

    References
    ----------
    .. [1] S. J. R. Santos, V. Niculae, D. McNamee, A. F. T. Martins. Sparse and Structured
       Hopfield Networks. ICML 2024.

    Examples
    --------
    >>> from sparsemap_np import budget_bisect
    >>> budget_bisect([0, 0.25, 0.5, 0.75, 1], budget=2)
    array([0.   , 0.125, 0.375, 0.625, 0.875])
    """
    n_iter = as_count(n_iter, "n_iter")
    X, dtype = as_scores(X)
    axis = as_axis(axis, X.ndim)
    par = _parameters.budget(budget, X.shape, axis)
    if n_iter is None:
        return _forward(table.BUDGET, X, dtype, par, axis, out, cost=10.0)
    return _bisect(table.BUDGET, X, dtype, par, axis, out, n_iter, True, cost=2.0)
