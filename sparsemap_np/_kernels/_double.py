"""exp and log in double-double arithmetic: numbers held as an unevaluated sum of two doubles.

For the rare rows whose answer hangs on the last bits of a sum of powers. Relative errors below
1e-29, a few hundred operations each, of which every one waits for the one before: no branches and
no calls, so that a loop over scores takes as many at a time as a vector holds.
"""

import math
from fractions import Fraction

import numpy as np

from sparsemap_np._kernels._compile import element, scalar
from sparsemap_np._kernels._twosum import product_error

_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.1612227229362532e-26)
"""ln 2 in three parts; the first has 33 bits, so that n times it is exact."""

_HALVINGS = 8

_TO_WHOLE = 6755399441055744.0
"""1.5 * 2^52: what is added to it is rounded to an integer, which then lies in the low bits."""

_SQRT_HALF = np.int64(0x3FE6A09E667F3BCD)
"""The bits of sqrt(1/2)."""


def _fraction(n):
    """1 / n as a sum of two doubles."""
    return 1.0 / n, float(Fraction(1, n) - Fraction(1.0 / n))


_OVER_FACTORIALS = tuple(_fraction(math.factorial(n)) for n in (5, 4, 3, 2))
_OVER_ODD = tuple(_fraction(n) for n in range(19, 0, -2))


@element
def add(ah, al, bh, bl):
    s = ah + bh
    t = s - ah
    e = (ah - (s - t)) + (bh - t) + al + bl
    h = s + e
    return h, e - (h - s)


@element
def multiply(ah, al, bh, bl):
    p = ah * bh
    e = product_error(ah, bh, p) + ah * bl + al * bh
    h = p + e
    return h, e - (h - p)


@scalar
def reciprocal(a):
    q = 1.0 / a
    p = q * a
    return q, ((1.0 - p) - product_error(q, a, p)) / a


@element
def _next_term(th, tl, qh, ql, coefficient):
    """A step of Horner's scheme."""
    th, tl = multiply(th, tl, qh, ql)
    return add(th, tl, coefficient[0], coefficient[1])


@element
def _doubled(eh, el):
    """exp(2 r) - 1 from exp(r) - 1: (1 + e)^2 - 1 = 2 e + e^2."""
    sh, sl = multiply(eh, el, eh, el)
    return add(2.0 * eh, 2.0 * el, sh, sl)


@element
def _power_of_two(n):
    """2^n for a whole n of normal results."""
    bits = np.float64(n + _TO_WHOLE).view(np.int64)
    return np.int64((bits + np.int64(1023)) << np.int64(52)).view(np.float64)


@element
def exp_double(xh, xl):
    """``exp(xh + xl)`` for -700 < x <= 0 and a little above."""
    n = np.float64(xh * 1.4426950408889634 + _TO_WHOLE) - _TO_WHOLE
    rh, rl = add(xh, xl, -n * _LN2[0], 0.0)
    low = n * _LN2[1]
    rh, rl = add(rh, rl, -low, -product_error(n, _LN2[1], low) - n * _LN2[2])
    rh *= 2.0**-_HALVINGS
    rl *= 2.0**-_HALVINGS
    # exp(r) - 1 by its series; what is small beside the first terms needs no second double.
    tail = rh * (1.0 / 3628800.0) + 1.0 / 362880.0
    tail = tail * rh + 1.0 / 40320.0
    tail = tail * rh + 1.0 / 5040.0
    tail = tail * rh + 1.0 / 720.0
    eh, el = add(_OVER_FACTORIALS[0][0], _OVER_FACTORIALS[0][1], tail * rh, 0.0)
    eh, el = _next_term(eh, el, rh, rl, _OVER_FACTORIALS[1])
    eh, el = _next_term(eh, el, rh, rl, _OVER_FACTORIALS[2])
    eh, el = _next_term(eh, el, rh, rl, _OVER_FACTORIALS[3])
    sh, sl = multiply(rh, rl, rh, rl)
    eh, el = multiply(eh, el, sh, sl)
    eh, el = add(rh, rl, eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    eh, el = _doubled(eh, el)
    h, low = add(1.0, 0.0, eh, el)
    scale = _power_of_two(n)
    return h * scale, low * scale


@element
def log_double(xh, xl):
    """``log(xh + xl)`` for normal x > 0: 2 artanh((m - 1) / (m + 1)) for its fraction m."""
    bits = np.float64(xh).view(np.int64)
    exponent = np.int64(np.int64(bits - _SQRT_HALF) >> np.int64(52))
    mh = np.int64(bits - np.int64(exponent << np.int64(52))).view(np.float64)
    n = np.float64(exponent)
    ml = xl * _power_of_two(-n)
    nh, nl = add(mh, ml, -1.0, 0.0)
    dh, dl = add(mh, ml, 1.0, 0.0)
    sh = nh / dh
    ph, pl = multiply(dh, dl, sh, 0.0)
    rh, _ = add(nh, nl, -ph, -pl)
    sh, sl = add(sh, 0.0, rh / dh, 0.0)
    qh, ql = multiply(sh, sl, sh, sl)
    tail = qh * (1.0 / 41.0) + 1.0 / 39.0
    tail = tail * qh + 1.0 / 37.0
    tail = tail * qh + 1.0 / 35.0
    tail = tail * qh + 1.0 / 33.0
    tail = tail * qh + 1.0 / 31.0
    tail = tail * qh + 1.0 / 29.0
    tail = tail * qh + 1.0 / 27.0
    tail = tail * qh + 1.0 / 25.0
    tail = tail * qh + 1.0 / 23.0
    tail = tail * qh + 1.0 / 21.0
    th, tl = add(_OVER_ODD[0][0], _OVER_ODD[0][1], tail * qh, 0.0)
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[1])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[2])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[3])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[4])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[5])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[6])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[7])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[8])
    th, tl = _next_term(th, tl, qh, ql, _OVER_ODD[9])
    th, tl = multiply(th, tl, 2.0 * sh, 2.0 * sl)
    low = n * _LN2[1]
    lh, ll = add(n * _LN2[0], 0.0, low, product_error(n, _LN2[1], low) + n * _LN2[2])
    return add(lh, ll, th, tl)
