r"""Gradients of the mappings, derived by hand, from the probabilities that they returned.

Every Jacobian :math:`J = \partial p / \partial x` here is symmetric, so the vector-Jacobian product
``<map>_vjp`` (cotangent in, gradient of the scores out) and the Jacobian-vector product
``<map>_jvp`` (tangent in, tangent out) are the same map under two names. With the support
:math:`S = \{i : p_i > 0\}`:

* entmax: :math:`J = \operatorname{diag}(s) - s s^\top / \sum_i s_i`,
  :math:`s_i = p_i^{2 - \alpha}` on S, 0 elsewhere (Peters et al. 2019);
* normmax: :math:`J v = w \odot (v - p^\top v) - p\, \sum_i w_i (v_i - p^\top v)`,
  :math:`w_i = q_i^{2 - \alpha} / ((\alpha - 1) \sum_j q_j)`, :math:`q = p / \|p\|_\alpha`;
* budget: the centring of the coordinates strictly between 0 and 1.

At a kink this is the one-sided derivative of the support that was returned. Off the support the
result is exactly 0 whatever the cotangent holds there; NaN rows give NaN rows.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsemap_np import _parameters
from sparsemap_np._arrays import (
    as_axis,
    as_rows,
    as_scores,
    compute_dtype,
    map_rows,
    matching,
    reduce_rows,
    run_ranges,
)
from sparsemap_np._device import launcher
from sparsemap_np._kernels import table

__all__ = [
    f"{name}_{kind}"
    for name in (
        "budget_bisect",
        "entmax",
        "entmax15",
        "entmax_bisect",
        "normmax_bisect",
        "sparsemax",
        "sparsemax_bisect",
    )
    for kind in ("jacobian", "jvp", "vjp")
]


def _product(mapping, dP, P, par, axis, name="dP"):
    """J dP, in P's dtype."""
    P, dtype = as_scores(P, "P")
    dP = matching(dP, P.shape, name, "P")
    return map_rows(mapping, "vjp", (dP, P), (par,), dtype, as_axis(axis, P.ndim), cost=2.0)


def _parameter_gradient(mapping, dP, P, par, axis):
    """One number a row, dP . dp/dparameter, in P's dtype."""
    P, dtype = as_scores(P, "P")
    dP = matching(dP, P.shape, "dP", "P")
    axis = as_axis(axis, P.ndim)
    work = compute_dtype(dtype)
    return reduce_rows(mapping, "dpar", (dP, P), (par,), work, axis, dtype, 30.0)


def _dense(mapping, P, par, axis):
    """The Jacobian of every row, shape (..., d, d): the normalised axis goes to the end."""
    P, dtype = as_scores(P, "P")
    if type(P) is not np.ndarray:
        return launcher().jacobian(mapping.name, P, par, dtype, as_axis(axis, len(P.shape)))
    rows, lead = as_rows(P, as_axis(axis, P.ndim), compute_dtype(dtype))
    n, d = rows.shape
    J = np.empty((n, d, d), rows.dtype)
    if J.size:
        run_ranges(mapping.jacobian, (rows, par, J), n, 2.0 * d * d)
    with np.errstate(all="ignore"):
        return J.reshape(*lead, d, d).astype(dtype, copy=False)


def _per_row(domain, value, P, axis):
    """A parameter checked against P, which has the shape that X had."""
    P, _ = as_scores(P, "P")
    return domain(value, P.shape, as_axis(axis, P.ndim))


def sparsemax_vjp(dP: ArrayLike, P: ArrayLike, axis: int = -1) -> NDArray:
    """Vector-Jacobian product of sparsemax: the gradient of its scores.

    Parameters
    ----------
    dP : array_like of P's shape
        Cotangent: gradient of a scalar function with respect to the probabilities.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `sparsemax`.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    dX : ndarray
        Gradient of the scores, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    References
    ----------
    .. [1] A. F. T. Martins, R. F. Astudillo. From Softmax to Sparsemax. ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import sparsemax_vjp
    >>> P = np.array([0, 0.25, 0.75])
    >>> sparsemax_vjp([1.0, 2.0, 3.0], P)
    array([ 0. , -0.5,  0.5])
    """
    return _product(table.SPARSEMAX, dP, P, table.SPARSEMAX.parameter, axis)


def sparsemax_jvp(V: ArrayLike, P: ArrayLike, axis: int = -1) -> NDArray:
    """Jacobian-vector product of sparsemax; the same map as `sparsemax_vjp`.

    Parameters
    ----------
    V : array_like of P's shape
        Tangent: a direction in the space of the scores.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `sparsemax`.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    dP : ndarray
        Change of the probabilities along V, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import sparsemax_jvp
    >>> P = np.array([0, 0.25, 0.75])
    >>> sparsemax_jvp([1.0, 2.0, 3.0], P)
    array([ 0. , -0.5,  0.5])
    """
    return _product(table.SPARSEMAX, V, P, table.SPARSEMAX.parameter, axis, "V")


def sparsemax_jacobian(P: ArrayLike, axis: int = -1) -> NDArray:
    """Dense Jacobian of sparsemax, for teaching and tests.

    Parameters
    ----------
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `sparsemax`.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    J : ndarray of shape (..., d, d)
        ``dp_i / dx_j`` of each row; the normalised axis is taken to the end.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import sparsemax_jacobian
    >>> P = np.array([0, 0.25, 0.75])
    >>> sparsemax_jacobian(P)
    array([[ 0. ,  0. ,  0. ],
           [ 0. ,  0.5, -0.5],
           [ 0. , -0.5,  0.5]])
    """
    return _dense(table.SPARSEMAX, P, table.SPARSEMAX.parameter, axis)


def entmax15_vjp(dP: ArrayLike, P: ArrayLike, axis: int = -1) -> NDArray:
    """Vector-Jacobian product of 1.5-entmax: the gradient of its scores.

    Parameters
    ----------
    dP : array_like of P's shape
        Cotangent: gradient of a scalar function with respect to the probabilities.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `entmax15`.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    dX : ndarray
        Gradient of the scores, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import entmax15_vjp
    >>> P = np.array([0, 0.36, 0.64])
    >>> entmax15_vjp([5.0, 1.0, 0.0], P).round(4)
    array([ 0.    ,  0.3429, -0.3429])
    """
    return _product(table.ENTMAX15, dP, P, table.ENTMAX15.parameter, axis)


def entmax15_jvp(V: ArrayLike, P: ArrayLike, axis: int = -1) -> NDArray:
    """Jacobian-vector product of 1.5-entmax; the same map as `entmax15_vjp`.

    Parameters
    ----------
    V : array_like of P's shape
        Tangent: a direction in the space of the scores.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `entmax15`.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    dP : ndarray
        Change of the probabilities along V, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import entmax15_jvp
    >>> P = np.array([0, 0.36, 0.64])
    >>> entmax15_jvp([5.0, 1.0, 0.0], P).round(4)
    array([ 0.    ,  0.3429, -0.3429])
    """
    return _product(table.ENTMAX15, V, P, table.ENTMAX15.parameter, axis, "V")


def entmax15_jacobian(P: ArrayLike, axis: int = -1) -> NDArray:
    """Dense Jacobian of 1.5-entmax, for teaching and tests.

    Parameters
    ----------
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `entmax15`.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    J : ndarray of shape (..., d, d)
        ``dp_i / dx_j`` of each row; the normalised axis is taken to the end.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import entmax15_jacobian
    >>> P = np.array([0, 0.36, 0.64])
    >>> entmax15_jacobian(P).round(4)
    array([[ 0.    ,  0.    ,  0.    ],
           [ 0.    ,  0.3429, -0.3429],
           [ 0.    , -0.3429,  0.3429]])
    """
    return _dense(table.ENTMAX15, P, table.ENTMAX15.parameter, axis)


def entmax_bisect_vjp(
    dP: ArrayLike, P: ArrayLike, alpha: ArrayLike = 1.5, axis: int = -1, return_dalpha: bool = False
) -> NDArray | tuple[NDArray, NDArray]:
    """Vector-Jacobian product of alpha-entmax: the gradient of its scores.

    Parameters
    ----------
    dP : array_like of P's shape
        Cotangent: gradient of a scalar function with respect to the probabilities.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `entmax_bisect`.
    alpha : float or array_like, default=1.5
        > 0, ``inf`` included: that of the forward call. Or one a row, of length 1
        along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    return_dalpha : bool, default=False
        Whether to return the gradient of alpha too.

    Returns
    -------
    dX : ndarray
        Gradient of the scores, in P's shape and dtype.
    dalpha : ndarray
        Gradient of each row's alpha, length 1 along ``axis``; whoever shared one alpha among
        rows sums it. At alpha = 1 the analytic limit. Only with ``return_dalpha``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``alpha`` is outside its domain; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    References
    ----------
    .. [1] G. M. Correia, V. Niculae, A. F. T. Martins. Adaptively Sparse Transformers. EMNLP 2019.
       Proposition 1 (the gradient of alpha).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import entmax_bisect_vjp
    >>> from sparsemap_np import entmax_bisect
    >>> P = entmax_bisect([-1, 0, 0.5], alpha=1.33)
    >>> dX, dalpha = entmax_bisect_vjp([1, 0, 0], P, alpha=1.33, return_dalpha=True)
    >>> dX.round(4), dalpha.round(4)
    (array([ 0.1149, -0.0452, -0.0697]), array([-0.2562]))
    """
    par = _per_row(_parameters.entmax_alpha, alpha, P, axis)
    dX = _product(table.entmax_kernel(par), dP, P, par, axis)
    if not return_dalpha:
        return dX
    return dX, _parameter_gradient(table.ENTMAX, dP, P, par, axis)


def entmax_bisect_jvp(
    V: ArrayLike, P: ArrayLike, alpha: ArrayLike = 1.5, axis: int = -1
) -> NDArray:
    """Jacobian-vector product of alpha-entmax; the same map as `entmax_bisect_vjp`.

    Parameters
    ----------
    V : array_like of P's shape
        Tangent: a direction in the space of the scores.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `entmax_bisect`.
    alpha : float or array_like, default=1.5
        > 0, ``inf`` included: that of the forward call. Or one a row, of length 1
        along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    dP : ndarray
        Change of the probabilities along V, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``alpha`` is outside its domain; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import entmax_bisect_jvp
    >>> P = np.array([0.5, 0.5, 0])
    >>> entmax_bisect_jvp([1, 0, 0], P, alpha=1)
    array([ 0.25, -0.25,  0.  ])
    """
    par = _per_row(_parameters.entmax_alpha, alpha, P, axis)
    return _product(table.entmax_kernel(par), V, P, par, axis, "V")


def entmax_bisect_jacobian(P: ArrayLike, alpha: ArrayLike = 1.5, axis: int = -1) -> NDArray:
    """Dense Jacobian of alpha-entmax, for teaching and tests.

    Parameters
    ----------
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `entmax_bisect`.
    alpha : float or array_like, default=1.5
        > 0, ``inf`` included: that of the forward call. Or one a row, of length 1
        along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    J : ndarray of shape (..., d, d)
        ``dp_i / dx_j`` of each row; the normalised axis is taken to the end.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``alpha`` is outside its domain; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import entmax_bisect_jacobian
    >>> P = np.array([0.5, 0.5])
    >>> entmax_bisect_jacobian(P, alpha=1)
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    par = _per_row(_parameters.entmax_alpha, alpha, P, axis)
    return _dense(table.entmax_kernel(par), P, par, axis)


def normmax_bisect_vjp(
    dP: ArrayLike, P: ArrayLike, alpha: ArrayLike = 2, axis: int = -1, return_dalpha: bool = False
) -> NDArray | tuple[NDArray, NDArray]:
    """Vector-Jacobian product of alpha-normmax: the gradient of its scores.

    Parameters
    ----------
    dP : array_like of P's shape
        Cotangent: gradient of a scalar function with respect to the probabilities.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `normmax_bisect`.
    alpha : float or array_like, default=2
        >= 1, ``inf`` included: that of the forward call. Or one a row, of length 1
        along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.
    return_dalpha : bool, default=False
        Whether to return the gradient of alpha too.

    Returns
    -------
    dX : ndarray
        Gradient of the scores, in P's shape and dtype.
    dalpha : ndarray
        Gradient of each row's alpha, length 1 along ``axis``; whoever shared one alpha among
        rows sums it. Only with ``return_dalpha``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``alpha`` is outside its domain; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    References
    ----------
    .. [1] M. Blondel, A. F. T. Martins, V. Niculae. Learning with Fenchel-Young Losses.
       JMLR 21 (2020). The mapping; differentiated implicitly here.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import normmax_bisect_vjp
    >>> P = np.array([0, 0.5, 0.5])
    >>> normmax_bisect_vjp([3, 1, 0], P).round(4)
    array([ 0.    ,  0.3536, -0.3536])
    """
    par = _per_row(_parameters.normmax_alpha, alpha, P, axis)
    dX = _product(table.NORMMAX, dP, P, par, axis)
    if not return_dalpha:
        return dX
    return dX, _parameter_gradient(table.NORMMAX, dP, P, par, axis)


def normmax_bisect_jvp(V: ArrayLike, P: ArrayLike, alpha: ArrayLike = 2, axis: int = -1) -> NDArray:
    """Jacobian-vector product of alpha-normmax; the same map as `normmax_bisect_vjp`.

    Parameters
    ----------
    V : array_like of P's shape
        Tangent: a direction in the space of the scores.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `normmax_bisect`.
    alpha : float or array_like, default=2
        >= 1, ``inf`` included: that of the forward call. Or one a row, of length 1
        along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    dP : ndarray
        Change of the probabilities along V, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``alpha`` is outside its domain; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import normmax_bisect_jvp
    >>> P = np.array([0, 0.5, 0.5])
    >>> normmax_bisect_jvp([3, 1, 0], P).round(4)
    array([ 0.    ,  0.3536, -0.3536])
    """
    par = _per_row(_parameters.normmax_alpha, alpha, P, axis)
    return _product(table.NORMMAX, V, P, par, axis, "V")


def normmax_bisect_jacobian(P: ArrayLike, alpha: ArrayLike = 2, axis: int = -1) -> NDArray:
    """Dense Jacobian of alpha-normmax, for teaching and tests.

    Parameters
    ----------
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `normmax_bisect`.
    alpha : float or array_like, default=2
        >= 1, ``inf`` included: that of the forward call. Or one a row, of length 1
        along ``axis``.
    axis : int, default=-1
        Axis along which the probabilities sum to one.

    Returns
    -------
    J : ndarray of shape (..., d, d)
        ``dp_i / dx_j`` of each row; the normalised axis is taken to the end.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``alpha`` is outside its domain; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import normmax_bisect_jacobian
    >>> P = np.array([0.5, 0.5])
    >>> normmax_bisect_jacobian(P).round(4)
    array([[ 0.3536, -0.3536],
           [-0.3536,  0.3536]])
    """
    par = _per_row(_parameters.normmax_alpha, alpha, P, axis)
    return _dense(table.NORMMAX, P, par, axis)


def budget_bisect_vjp(
    dP: ArrayLike, P: ArrayLike, axis: int = -1, return_dbudget: bool = False
) -> NDArray | tuple[NDArray, NDArray]:
    """Vector-Jacobian product of the k-subsets budget: the gradient of its scores.

    Parameters
    ----------
    dP : array_like of P's shape
        Cotangent: gradient of a scalar function with respect to the probabilities.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `budget_bisect`.
    axis : int, default=-1
        Axis along which the probabilities sum to the budget.
    return_dbudget : bool, default=False
        Whether to return the gradient of budget too.

    Returns
    -------
    dX : ndarray
        Gradient of the scores, in P's shape and dtype.
    dbudget : ndarray
        Gradient of each row's budget, length 1 along ``axis``; whoever shared one budget among
        rows sums it. 0 where no coordinate is
        strictly between 0 and 1. Only with ``return_dbudget``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    References
    ----------
    .. [1] S. J. R. Santos, V. Niculae, D. McNamee, A. F. T. Martins. Sparse and Structured
       Hopfield Networks. ICML 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import budget_bisect_vjp
    >>> P = np.array([0, 0.25, 0.75, 1])
    >>> dX, dbudget = budget_bisect_vjp([9, 1, 3, 9], P, return_dbudget=True)
    >>> dX, dbudget
    (array([ 0., -1.,  1.,  0.]), array([2.]))
    """
    dX = _product(table.BUDGET, dP, P, table.BUDGET.parameter, axis)
    if not return_dbudget:
        return dX
    return dX, _parameter_gradient(table.BUDGET, dP, P, table.BUDGET.parameter, axis)


def budget_bisect_jvp(V: ArrayLike, P: ArrayLike, axis: int = -1) -> NDArray:
    """Jacobian-vector product of the k-subsets budget; the same map as `budget_bisect_vjp`.

    Parameters
    ----------
    V : array_like of P's shape
        Tangent: a direction in the space of the scores.
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `budget_bisect`.
    axis : int, default=-1
        Axis along which the probabilities sum to the budget.

    Returns
    -------
    dP : ndarray
        Change of the probabilities along V, in P's shape and dtype.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import budget_bisect_jvp
    >>> P = np.array([0, 0.25, 0.75, 1])
    >>> budget_bisect_jvp([9, 1, 3, 9], P)
    array([ 0., -1.,  1.,  0.])
    """
    return _product(table.BUDGET, V, P, table.BUDGET.parameter, axis, "V")


def budget_bisect_jacobian(P: ArrayLike, axis: int = -1) -> NDArray:
    """Dense Jacobian of the k-subsets budget, for teaching and tests.

    Parameters
    ----------
    P : array_like of shape (..., d, ...)
        Probabilities, as returned by `budget_bisect`.
    axis : int, default=-1
        Axis along which the probabilities sum to the budget.

    Returns
    -------
    J : ndarray of shape (..., d, d)
        ``dp_i / dx_j`` of each row; the normalised axis is taken to the end.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Shapes differ; ``P`` is 0-dimensional.
    numpy.exceptions.AxisError
        ``axis`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemap_np import budget_bisect_jacobian
    >>> P = np.array([1, 0.25, 0.75])
    >>> budget_bisect_jacobian(P)
    array([[ 0. ,  0. ,  0. ],
           [ 0. ,  0.5, -0.5],
           [ 0. , -0.5,  0.5]])
    """
    return _dense(table.BUDGET, P, table.BUDGET.parameter, axis)


# The same mappings under the names of their other algorithms.
sparsemax_bisect_vjp = sparsemax_vjp
sparsemax_bisect_jvp = sparsemax_jvp
sparsemax_bisect_jacobian = sparsemax_jacobian
entmax_vjp = entmax_bisect_vjp
entmax_jvp = entmax_bisect_jvp
entmax_jacobian = entmax_bisect_jacobian
