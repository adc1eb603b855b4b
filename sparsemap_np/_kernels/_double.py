"""exp and log in double-double arithmetic: numbers held as an unevaluated sum of two doubles.

For the rare rows whose answer hangs on the last bits of a sum of powers. Relative errors below
1e-22, a few hundred operations each.
"""

import math

from sparsemap_np._kernels._compile import scalar
from sparsemap_np._kernels._twosum import product_error

_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10, -6.9793321859e-27)
"""ln 2 in three parts; the first has 33 bits, so that n times it is exact."""

_HALVINGS = 8


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
    # exp(r) - 1 by its series, then doubled: (1 + e)^2 - 1 = 2 e + e^2.
    eh, el = rh, rl
    th, tl = rh, rl
    for k in range(2, 10):
        ch, cl = reciprocal(float(k))
        th, tl = multiply(th, tl, rh, rl)
        th, tl = multiply(th, tl, ch, cl)
        eh, el = add(eh, el, th, tl)
    for _ in range(_HALVINGS):
        sh, sl = multiply(eh, el, eh, el)
        eh, el = add(2.0 * eh, 2.0 * el, sh, sl)
    h, low = add(1.0, 0.0, eh, el)
    scale = 2.0**n
    return h * scale, low * scale


@scalar
def log_double(xh, xl):
    """``log(xh + xl)`` for normal x > 0."""
    guess = math.log(xh)
    eh, el = exp_double(-abs(guess), 0.0)
    if guess < 0.0:  # x / exp(guess), where exp(-|guess|) is the denominator
        qh = xh / eh
        ph, pl = multiply(qh, 0.0, eh, el)
        dh, dl = add(xh, xl, -ph, -pl)
        wh, wl = add(qh - 1.0, 0.0, dh / eh, 0.0)
    else:
        ph, pl = multiply(xh, xl, eh, el)
        wh, wl = add(ph, pl, -1.0, 0.0)
    return add(guess, 0.0, wh - 0.5 * wh * wh, wl)
