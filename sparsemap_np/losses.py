r"""Fenchel-Young losses of the mappings, with their gradients.

For a mapping :math:`\hat p(x) = \operatorname{argmax}_p \langle p, x \rangle - \Omega(p)`,

.. math:: L_\Omega(x; y) = \Omega^*(x) + \Omega(y) - \langle x, y \rangle \ge 0 ,

which is convex in the scores x, zero exactly where :math:`\hat p(x) = y`, and has the gradient
:math:`\hat p(x) - y` (Blondel, Martins, Niculae 2020, Proposition 2). Softmax gives the
cross-entropy, the argmax the perceptron loss.

Gradients with respect to alpha or to the budget are not offered: each alpha defines another loss
with another scale, so comparing (or descending) losses across alpha is meaningless. To choose an
alpha, score the *probabilities* by a proper score, and use ``return_dalpha`` of the mappings.
"""

from typing import Any

from numpy.typing import ArrayLike

from sparsemap_np import _parameters
from sparsemap_np._arrays import as_count
from sparsemap_np._kernels import table
from sparsemap_np._loss_rows import Options, fenchel_young

__all__ = [
    "budget_loss",
    "entmax15_loss",
    "entmax_bisect_loss",
    "entmax_loss",
    "normmax_bisect_loss",
    "sparsemax_bisect_loss",
    "sparsemax_loss",
]


def sparsemax_loss(
    X: ArrayLike,
    y: ArrayLike,
    k: int | None = None,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""Sparsemax loss.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \tfrac12 (\|p\|^2 - 1)

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    y : array_like of shape (n,) or (n, d), or sparse matrix of shape (n, d)
        Integer labels in [0, d), or target distributions: rows >= 0 that sum to 1 within 1e-6.
    k : int >= 1 or None, default=None
        Hint of the largest support; the result never depends on it.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        A label outside [0, d), targets that are no distributions, one-dimensional floating-point
        y, another number of targets than rows, an unknown reduction, or
        a ``k`` that is no integer >= 1.

    References
    ----------
    .. [1] A. F. T. Martins, R. F. Astudillo. From Softmax to Sparsemax. ICML 2016.

    Examples
    --------
    >>> from sparsemap_np import sparsemax_loss
    >>> sparsemax_loss([[3, 1.5, 0], [0.2, 0.7, 0.1]], [0, 0])
    array([0.  , 0.57])
    """
    as_count(k, "k")
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(table.SPARSEMAX, X, y, None, None, options)


def entmax15_loss(
    X: ArrayLike,
    y: ArrayLike,
    k: int | None = None,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""1.5-entmax loss.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \tfrac43 (\sum_i p_i^{1.5} - 1)

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    y : array_like of shape (n,) or (n, d), or sparse matrix of shape (n, d)
        Integer labels in [0, d), or target distributions: rows >= 0 that sum to 1 within 1e-6.
    k : int >= 1 or None, default=None
        Hint of the largest support; the result never depends on it.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        A label outside [0, d), targets that are no distributions, one-dimensional floating-point
        y, another number of targets than rows, an unknown reduction, or
        a ``k`` that is no integer >= 1.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.

    Examples
    --------
    >>> from sparsemap_np import entmax15_loss
    >>> entmax15_loss([[0.2, 0.6, 0.1], [0, 0.1, 0.3]], [0, 2]).round(4)
    array([0.7051, 0.4105])
    """
    as_count(k, "k")
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(table.ENTMAX15, X, y, None, None, options)


def sparsemax_bisect_loss(
    X: ArrayLike,
    y: ArrayLike,
    n_iter: int | None = None,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""Sparsemax loss by root finding.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \tfrac12 (\|p\|^2 - 1)

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    y : array_like of shape (n,) or (n, d), or sparse matrix of shape (n, d)
        Integer labels in [0, d), or target distributions: rows >= 0 that sum to 1 within 1e-6.
    n_iter : int >= 1 or None, default=None
        Steps of plain bisection instead of an exact solution.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        A label outside [0, d), targets that are no distributions, one-dimensional floating-point
        y, another number of targets than rows, an unknown reduction, or
        an ``n_iter`` that is no integer >= 1.

    References
    ----------
    .. [1] M. Blondel, A. F. T. Martins, V. Niculae. Learning with Fenchel-Young Losses.
       JMLR 21 (2020). Algorithm 1.

    Examples
    --------
    >>> from sparsemap_np import sparsemax_bisect_loss
    >>> sparsemax_bisect_loss([[3, 1.5, 0], [0.2, 0.7, 0.1]], [0, 0])
    array([0.  , 0.57])
    """
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(table.SPARSEMAX, X, y, None, None, options, n_iter)


def entmax_bisect_loss(
    X: ArrayLike,
    y: ArrayLike,
    alpha: ArrayLike = 1.5,
    n_iter: int | None = None,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""alpha-entmax loss by root finding.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \frac{\sum_i p_i^\alpha - 1}{\alpha (\alpha - 1)}

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    y : array_like of shape (n,) or (n, d), or sparse matrix of shape (n, d)
        Integer labels in [0, d), or target distributions: rows >= 0 that sum to 1 within 1e-6.
    alpha : float or array_like of shape (n, 1), default=1.5
        > 0, ``inf`` included: 1 is the cross-entropy, 2 the sparsemax loss, inf the
        perceptron loss.
    n_iter : int >= 1 or None, default=None
        Steps of plain bisection instead of an exact solution.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        A label outside [0, d), targets that are no distributions, one-dimensional floating-point
        y, another number of targets than rows, an unknown reduction, or
        an ``alpha`` outside its domain.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.

    Examples
    --------
    >>> from sparsemap_np import entmax_bisect_loss
    >>> entmax_bisect_loss([[0.2, 0.7, 0.1]], [0], alpha=1.3).round(4)
    array([0.9031])
    """
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(table.ENTMAX, X, y, _parameters.entmax_alpha, alpha, options, n_iter)


def entmax_loss(
    X: ArrayLike,
    y: ArrayLike,
    alpha: ArrayLike = 1.5,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""alpha-entmax loss by the best algorithm for each alpha.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \frac{\sum_i p_i^\alpha - 1}{\alpha (\alpha - 1)}

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    y : array_like of shape (n,) or (n, d), or sparse matrix of shape (n, d)
        Integer labels in [0, d), or target distributions: rows >= 0 that sum to 1 within 1e-6.
    alpha : float or array_like of shape (n, 1), default=1.5
        > 0, ``inf`` included: 1 is the cross-entropy, 2 the sparsemax loss, inf the
        perceptron loss.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        A label outside [0, d), targets that are no distributions, one-dimensional floating-point
        y, another number of targets than rows, an unknown reduction, or
        an ``alpha`` outside its domain.

    References
    ----------
    .. [1] B. Peters, V. Niculae, A. F. T. Martins. Sparse Sequence-to-Sequence Models. ACL 2019.

    Examples
    --------
    >>> from sparsemap_np import entmax_loss
    >>> entmax_loss([[0.2, 1.0, -0.5]], [2], alpha=1).round(4)  # cross-entropy
    array([2.0143])
    """
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(table.ENTMAX, X, y, _parameters.entmax_alpha, alpha, options)


def normmax_bisect_loss(
    X: ArrayLike,
    y: ArrayLike,
    alpha: ArrayLike = 2,
    n_iter: int | None = None,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""alpha-normmax loss.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \|p\|_\alpha - 1

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    y : array_like of shape (n,) or (n, d), or sparse matrix of shape (n, d)
        Integer labels in [0, d), or target distributions: rows >= 0 that sum to 1 within 1e-6.
    alpha : float or array_like of shape (n, 1), default=2
        >= 1, ``inf`` included.
    n_iter : int >= 1 or None, default=None
        Steps of plain bisection instead of an exact solution.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        A label outside [0, d), targets that are no distributions, one-dimensional floating-point
        y, another number of targets than rows, an unknown reduction, or
        an ``alpha`` outside its domain.

    References
    ----------
    .. [1] M. Blondel, A. F. T. Martins, V. Niculae. Learning with Fenchel-Young Losses.
       JMLR 21 (2020).

    Examples
    --------
    >>> from sparsemap_np import normmax_bisect_loss
    >>> normmax_bisect_loss([[0.2, 0.7, 0.1], [2, 0.5, 0]], [0, 0]).round(4)
    array([0.6191, 0.    ])
    """
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(table.NORMMAX, X, y, _parameters.normmax_alpha, alpha, options, n_iter)


def budget_loss(
    X: ArrayLike,
    Y: ArrayLike,
    budget: ArrayLike | None = None,
    n_iter: int | None = None,
    *,
    reduction: str = "none",
    ignore_index: int | None = None,
    sample_weight: ArrayLike | None = None,
    return_grad: bool = False,
    return_support_size: bool = False,
) -> Any:
    r"""k-subsets budget loss.

    .. math:: L(x; y) = \max_p \big( \langle p, x \rangle - \Omega(p) \big)
              + \Omega(y) - \langle y, x \rangle, \quad
              \Omega(p) = \tfrac12 \|p\|^2 \text{ on } 0 \le p \le 1,\ \sum_i p_i = B

    Parameters
    ----------
    X : array_like of shape (n, d)
        Scores. A class scored ``-inf`` is ignored unless it is in the target (loss ``+inf``); a
        ``+inf`` on the target gives 0, elsewhere ``+inf``. A NaN makes its own row NaN.
    Y : array_like or sparse matrix of shape (n, d)
        Targets in [0, 1] whose rows sum to the budget.
    budget : float, array_like of shape (n, 1), or None, default=None
        In [0, d]; ``None`` takes the row sums of Y.
    n_iter : int >= 1 or None, default=None
        Steps of plain bisection instead of an exact solution.
    reduction : {"none", "mean", "sum", "elementwise_mean"}, default="none"
        "mean" (also spelt "elementwise_mean") divides by the number, or the weight, of the samples
        kept; when none is kept it is 0.
    ignore_index : int or None, default=None
        Label of samples to leave out; their y is never looked up. Concerns labels only.
    sample_weight : array_like of shape (n,), optional
        Finite weights >= 0.
    return_grad : bool, default=False
        Whether to return the gradient of the (reduced) loss with respect to X.
    return_support_size : bool, default=False
        Whether to return the number of non-zero probabilities of each row.

    Returns
    -------
    loss : ndarray of shape (n,), or a scalar
        In X's dtype; never negative, and exactly 0 where the prediction equals the target.
    support_size : ndarray of int64, shape (n,)
        Only with ``return_support_size``; 0 for ignored samples.
    dX : ndarray of shape (n, d)
        ``P - Y``, weighted and scaled as the reduced loss is; only with ``return_grad``.

    Raises
    ------
    TypeError
        An argument is complex or holds objects.
    ValueError
        Targets outside [0, 1] or that do not sum to the budget, another number of them than
        rows, an unknown reduction, or a ``budget`` outside its domain.

    References
    ----------
    .. [1] S. J. R. Santos, V. Niculae, D. McNamee, A. F. T. Martins. Sparse and Structured
       Hopfield Networks. ICML 2024.

    Examples
    --------
    >>> from sparsemap_np import budget_loss
    >>> budget_loss([[2.0, 1.0, 0.0]], [[1, 1, 0]])
    array([0.])
    """
    options = Options(reduction, ignore_index, sample_weight, return_grad, return_support_size)
    return fenchel_young(
        table.BUDGET, X, Y, _parameters.budget, budget, options, n_iter, budget=True
    )
