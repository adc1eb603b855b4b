"""exp and log in double-double arithmetic: numbers held as an unevaluated sum of two doubles.

For the rare rows whose answer hangs on the last bits of a sum of powers. Relative errors below
1e-29, a few hundred operations each.
"""

import math
from fractions import Fraction

from sparsemap_np._kernels._compile import scalar
from sparsemap_np._kernels._twosum import product_error

_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.1612227229362532e-26)
"""ln 2 in three parts; the first has 33 bits, so that n times it is exact."""

_HALVINGS = 8


def _fraction(n):
    """1 / n as a sum of two doubles."""
    return 1.0 / n, float(Fraction(1, n) - Fraction(1.0 / n))


_OVER_FACTORIALS = tuple(_fraction(math.factorial(n)) for n in (5, 4, 3, 2))
_OVER_ODD = tuple(_fraction(n) for n in range(19, 0, -2))


@scalar
def add(ah, al, bh, bl):
    s = ah + bh
    t = s - ah
    e = (ah - (s - t)) + (bh - t) + al + bl
    h = s + e
    return h, e - (h - s)


@scalar
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


@scalar
def exp_double(xh, xl):
    """``exp(xh + xl)`` for -700 < x <= 0 and a little above."""
    n = float(round(xh / 0.6931471805599453))
    rh, rl = add(xh, xl, -n * _LN2[0], 0.0)
    low = n * _LN2[1]
    rh, rl = add(rh, rl, -low, -product_error(n, _LN2[1], low) - n * _LN2[2])
    rh /= 2.0**_HALVINGS
    rl /= 2.0**_HALVINGS
    # exp(r) - 1 by its series; what is small beside the first terms needs no second double.
    tail = rh * (1.0 / 3628800.0) + 1.0 / 362880.0
    tail = tail * rh + 1.0 / 40320.0
    tail = tail * rh + 1.0 / 5040.0
    tail = tail * rh + 1.0 / 720.0
    eh, el = add(*_OVER_FACTORIALS[0], tail * rh, 0.0)
    for ch, cl in _OVER_FACTORIALS[1:]:
        eh, el = multiply(eh, el, rh, rl)
        eh, el = add(eh, el, ch, cl)
    sh, sl = multiply(rh, rl, rh, rl)
    eh, el = multiply(eh, el, sh, sl)
    eh, el = add(rh, rl, eh, el)
    # Doubled: (1 + e)^2 - 1 = 2 e + e^2.
    for _ in range(_HALVINGS):
        sh, sl = multiply(eh, el, eh, el)
        eh, el = add(2.0 * eh, 2.0 * el, sh, sl)
    h, low = add(1.0, 0.0, eh, el)
    scale = 2.0**n
    return h * scale, low * scale


@scalar
def log_double(xh, xl):
    """``log(xh + xl)`` for normal x > 0: 2 artanh((m - 1) / (m + 1)) for its fraction m."""
    mh, exponent = math.frexp(xh)
    n = float(exponent)
    if mh < 0.7071067811865476:
        mh *= 2.0
        n -= 1.0
    ml = math.ldexp(xl, -int(n))
    nh, nl = add(mh, ml, -1.0, 0.0)
    dh, dl = add(mh, ml, 1.0, 0.0)
    sh = nh / dh
    ph, pl = multiply(dh, dl, sh, 0.0)
    rh, _ = add(nh, nl, -ph, -pl)
    sh, sl = add(sh, 0.0, rh / dh, 0.0)
    qh, ql = multiply(sh, sl, sh, sl)
    tail = 1.0 / 41.0
    for k in range(39, 19, -2):
        tail = tail * qh + 1.0 / k
    th, tl = add(*_OVER_ODD[0], tail * qh, 0.0)
    for ch, cl in _OVER_ODD[1:]:
        th, tl = multiply(th, tl, qh, ql)
        th, tl = add(th, tl, ch, cl)
    th, tl = multiply(th, tl, 2.0 * sh, 2.0 * sl)
    low = n * _LN2[1]
    lh, ll = add(n * _LN2[0], 0.0, low, product_error(n, _LN2[1], low) + n * _LN2[2])
    return add(lh, ll, th, tl)
