"""Formulas of one score or one coordinate, in the type of their arguments, for any compiler.

Plain functions without a decorator: the kernels of the processor and those of a GPU wrap them, each
in its own way, and only loops and sums over a row are written twice. Nothing here calls another
function of the package or NumPy, and no constant brings another type in: ``T = type(x)``.
"""

import math


def excess(x, m, tau):
    """Sparsemax: ``((x - m) - tau)+``, the probability."""
    T = type(x)
    w = (x - m) - tau
    return w if w > T(0) else T(0)


def half_excess(x, m, tau):
    """1.5-entmax: the square root of the probability, half the distance above the threshold."""
    T = type(x)
    w = T(0.5) * ((x - m) - tau)
    return w if w > T(0) else T(0)


def deformed_power(v, b):
    """``(1 + v)+^(1/b)`` for either sign of b, without rounding 1 + v first; 0 for v <= -1."""
    T = type(v)
    return T(math.exp(T(math.log1p(v)) / b)) if v > T(-1) else T(0)


def deformed_log(level, b):
    """``ln_b(exp(level)) = (exp(b level) - 1) / b``, the logarithm at b = 0."""
    T = type(level)
    return level if b == T(0) else T(math.expm1(b * level)) / b


def level_step(level, r0, r1, b):
    """Newton's change of the level L = log y on the norm F^b, and log F where it started."""
    T = type(level)
    log_f = level + T(math.log(r0))
    return T(math.log1p((r0 / r1) * T(math.expm1(-b * log_f)))) / b, log_f


def coordinate(gap, y, yb, b):
    """``(gap + y^b)^(1/b)``, exactly y at gap 0, where y^b may have underflowed."""
    T = type(gap)
    return y if gap == T(0) else T(math.exp(T(math.log(gap + yb)) / b))


def second_order(u):
    """``(exp(u) - 1 - u) / u^2``, the remainder of the exponential; 1/2 at 0."""
    T = type(u)
    if -T(0.5) < u < T(0.5):
        term = T(0.5)
        total = T(0.5)
        divisor = T(3)
        for _k in range(15):
            term *= u / divisor
            total += term
            divisor += T(1)
        return total
    return (T(math.expm1(u)) - u) / (u * u)


def power_of_probability(p, alpha):
    """``p^alpha`` for p > 0."""
    T = type(p)
    if alpha == T(1.5):
        return p * T(math.sqrt(p))
    if alpha == T(2):
        return p * p
    if alpha == T(1):
        return p
    return T(math.pow(p, alpha))


FULL_PRECISION = 1e-37
"""A smaller probability may lack digits in float32, or have become 0."""


def own_label_loss(pt, others, alpha, b):
    """The target's part of the entmax loss of a label: from its probability and the others'."""
    T = type(pt)
    log_p = T(math.log1p(-others)) if others < T(0.5) else T(math.log(pt))
    return T(math.expm1(alpha * log_p)) / alpha - T(math.expm1(b * log_p)) / b


def own_loss_of_score(reduced, alpha, b):
    """The same from its score, for a probability below ``FULL_PRECISION``."""
    T = type(reduced)
    v = b * reduced
    power = T(math.exp(T(math.log1p(v)) * (alpha / b))) if v > T(-1) else T(0)
    return (power - T(1)) / alpha - reduced
