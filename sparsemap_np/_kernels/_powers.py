"""exp, log and powers without a call to libm, so that LLVM can vectorise the loops around them.

Double precision throughout, errors of about one unit in the last place: exponent and fraction are
taken apart as integers, the rest is a polynomial. Only for the arguments named; nothing here looks
at NaN, infinities or subnormal numbers.
"""

import numpy as np

from sparsemap_np._kernels._compile import element

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # 33 bits, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, left in the low bits
_BIAS = np.int64(1023)
_FRACTION = np.int64(0x000FFFFFFFFFFFFF)
_ONE = np.int64(0x3FF0000000000000)
_TWO52 = np.int64(0x4330000000000000)
_SQRT2 = 1.4142135623730951


@element
def exp_of_negative(x):
    """``exp(x)`` for x <= 0, down to the smallest subnormal number."""
    tiny = x < -700.0
    t = max(x + 64.0 * (_LN2_HIGH + _LN2_LOW) if tiny else x, -708.0)
    shifted = np.float64(t * _LOG2E + _ROUND)
    n = shifted - _ROUND
    r = (t - n * _LN2_HIGH) - n * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = (p * r) * r + r + 1.0
    # The low bits of `shifted` hold n: move them to where a double keeps its exponent.
    power = np.int64((shifted.view(np.int64) + _BIAS) << np.int64(52)).view(np.float64)
    return p * power * (5.421010862427522e-20 if tiny else 1.0)  # 2^-64


@element
def log1p_above(v, rest):
    """``log(1 + v + rest)`` for -1 < v <= 0, where rest is what rounding took from v."""
    u = np.float64(1.0 + v)
    lost = ((v - (u - 1.0)) + rest) / u
    bits = u.view(np.int64)
    exponent = np.int64((bits >> np.int64(52)) | _TWO52).view(np.float64) - 4503599627371519.0
    m = np.int64((bits & _FRACTION) | _ONE).view(np.float64)
    large = m > _SQRT2
    m = 0.5 * m if large else m
    exponent = exponent + 1.0 if large else exponent
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = 2.0 / 21.0
    p = p * q + 2.0 / 19.0
    p = p * q + 2.0 / 17.0
    p = p * q + 2.0 / 15.0
    p = p * q + 2.0 / 13.0
    p = p * q + 2.0 / 11.0
    p = p * q + 2.0 / 9.0
    p = p * q + 2.0 / 7.0
    p = p * q + 2.0 / 5.0
    p = p * q + 2.0 / 3.0
    tail = s * q * p + lost + exponent * _LN2_LOW
    return exponent * _LN2_HIGH + (2.0 * s + tail)
