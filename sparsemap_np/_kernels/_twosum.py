"""A threshold as an unevaluated sum of two numbers.

A threshold rounded to the row's precision is off by up to half a unit in the last place, the same
way for every score: with s scores in the support the probabilities would miss their sum by s times
that, where the budget is sqrt(s). The remainder is carried and subtracted last.
"""

from sparsemap_np._kernels._compile import element, scalar


@scalar
def split_sum(a, b, like):
    """``a + b`` as (hi, lo): hi rounded to the type of ``like``, lo the rest, in float64."""
    a = a + 0.0
    s = a + b
    t = s - a
    error = (a - (s - t)) + (b - t)
    hi = type(like)(s)
    return hi, (s - hi) + error


@element
def product_error(a, b, product):
    """``a * b - product`` exactly, for product = a * b rounded (Dekker's splitting)."""
    a1 = a * 134217729.0
    a1 = a1 - (a1 - a)
    b1 = b * 134217729.0
    b1 = b1 - (b1 - b)
    a2 = a - a1
    b2 = b - b1
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
