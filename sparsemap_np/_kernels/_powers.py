"""exp, log and powers without a call to libm, so that LLVM can vectorise the loops around them.

Twins for float32 (eight lanes) and float64, chosen by the argument's type; errors of about one
unit in the last place. Exponent and fraction are taken apart as integers, the rest is a
polynomial, summed in pairs (Estrin): Horner's chain keeps a processor waiting for each product.
Only for the arguments named; nothing here looks at NaN.
"""

import numpy as np

from sparsemap_np._kernels._compile import by_exponent, by_type, element, polynomial

_LN2 = 0.6931471805599453


def _exp_of_negative_wide(x):
    tiny = x < -700.0
    t = max(x + 64.0 * _LN2 if tiny else x, -708.0)
    # Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    shifted = np.float64(t * 1.4426950408889634 + 6755399441055744.0)
    n = shifted - 6755399441055744.0
    r = (t - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    square = r * r
    fourth = square * square
    low = (r * (1.0 / 6.0) + 0.5) + (r * (1.0 / 120.0) + 1.0 / 24.0) * square
    mid = (r * (1.0 / 5040.0) + 1.0 / 720.0) + (r * (1.0 / 362880.0) + 1.0 / 40320.0) * square
    high = (r * (1.0 / 39916800.0) + 1.0 / 3628800.0) + (
        r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    ) * square
    p = (low + (mid + high * fourth) * fourth) * square + r + 1.0
    # The low bits of `shifted` hold n: move them to where a double keeps its exponent.
    power = np.int64((shifted.view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return p * power * (5.421010862427522e-20 if tiny else 1.0)  # 2^-64


def _exp_of_negative_narrow(x):
    T = np.float32
    tiny = x < T(-86)
    t = max(x + T(32 * _LN2) if tiny else x, T(-87))
    shifted = np.float32(t * T(1.4426950408889634) + T(12582912))
    n = shifted - T(12582912)
    r = (t - n * T(0.693359375)) - n * T(-2.12194440054690583e-4)
    square = r * r
    high = (r * T(1.0 / 120.0) + T(1.0 / 24.0)) + (r * T(1.0 / 5040.0) + T(1.0 / 720.0)) * square
    p = ((r * T(1.0 / 6.0) + T(0.5)) + high * square) * square + r + T(1)
    power = np.int32((shifted.view(np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * power * (T(2.3283064365386963e-10) if tiny else T(1))  # 2^-32


exp_of_negative = by_type(_exp_of_negative_narrow, _exp_of_negative_wide)
"""``exp(x)`` for x <= 0, down to the smallest subnormal number."""


def _log_parts_wide(x):
    bits = np.float64(x).view(np.int64)
    exponent = (
        np.int64((bits >> np.int64(52)) | np.int64(0x4330000000000000)).view(np.float64)
        - 4503599627371519.0
    )
    m = np.int64((bits & np.int64(0x000FFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000)).view(
        np.float64
    )
    large = m > 1.4142135623730951
    m = 0.5 * m if large else m
    exponent = exponent + 1.0 if large else exponent
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    q2 = q * q
    q4 = q2 * q2
    low = (q * (2.0 / 5.0) + 2.0 / 3.0) + (q * (2.0 / 9.0) + 2.0 / 7.0) * q2
    mid = (q * (2.0 / 13.0) + 2.0 / 11.0) + (q * (2.0 / 17.0) + 2.0 / 15.0) * q2
    p = low + (mid + (q * (2.0 / 21.0) + 2.0 / 19.0) * q4) * q4
    tail = s * q * p + exponent * 1.90821492927058770002e-10
    return exponent * 6.93147180369123816490e-01, 2.0 * s, tail


def _log_parts_narrow(x):
    T = np.float32
    bits = np.float32(x).view(np.int32)
    exponent = np.int32((bits >> np.int32(23)) | np.int32(0x4B000000)).view(np.float32) - T(8388735)
    m = np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F800000)).view(np.float32)
    large = m > T(1.4142135623730951)
    m = T(0.5) * m if large else m
    exponent = exponent + T(1) if large else exponent
    r = m - T(1)
    # Minimax on [sqrt(1/2), sqrt(2)] (Cephes, logf): a division would cost more than these terms.
    square = r * r
    fourth = square * square
    low = (r * T(-2.4999993993e-1) + T(3.3333331174e-1)) + (
        r * T(-1.6668057665e-1) + T(2.0000714765e-1)
    ) * square
    high = (r * T(-1.2420140846e-1) + T(1.4249322787e-1)) + (
        r * T(-1.1514610310e-1) + T(1.1676998740e-1)
    ) * square
    p = low + (high + fourth * T(7.0376836292e-2)) * fourth
    tail = (p * r * square - T(0.5) * square) + exponent * T(-2.12194440054690583e-4)
    return exponent * T(0.693359375), r, tail


_log_parts = by_type(_log_parts_narrow, _log_parts_wide)
"""log of a positive normal number in three parts: exact, large, small."""


@element
def log_of_positive(u):
    """``log(u)`` for a positive normal number."""
    exact, large, small = _log_parts(u)
    return exact + (large + small)


@element
def log1p_and_inverse(v, rest):
    """``log(1 + v + rest)`` for v > -1, where rest is what rounding took from v; 1 / (1 + v)."""
    T = type(v)
    u = type(v)(T(1) + v)
    inverse = T(1) / u
    lost = ((v - (u - T(1))) + rest) * inverse
    exact, large, small = _log_parts(u)
    return exact + (large + (small + lost)), inverse


@element
def expm1_of_negative(x):
    """``exp(x) - 1`` for x <= 0."""
    T = type(x)
    near = x > T(-0.2)
    r = x if near else T(0)
    p = T(1.0 / 39916800.0)
    p = p * r + T(1.0 / 3628800.0)
    p = p * r + T(1.0 / 362880.0)
    p = p * r + T(1.0 / 40320.0)
    p = p * r + T(1.0 / 5040.0)
    p = p * r + T(1.0 / 720.0)
    p = p * r + T(1.0 / 120.0)
    p = p * r + T(1.0 / 24.0)
    p = p * r + T(1.0 / 6.0)
    p = p * r + T(0.5)
    p = (p * r) * r + r
    return p if near else exp_of_negative(x) - T(1)


@polynomial
def _quick_parts(u):
    """A normal float32 u > 0 as 2^e (1 + r), 1 + r between sqrt(1/2) and sqrt(2): e and r."""
    bits = np.float32(u).view(np.int32)
    e = np.int32(np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23))
    m = np.int32(bits - np.int32(e << np.int32(23))).view(np.float32)
    return np.float32(e), m - np.float32(1)


@polynomial
def _quick_log2(r):
    """``log2(1 + r)`` in float32 for 1 + r between sqrt(1/2) and sqrt(2)."""
    T = np.float32
    square = r * r
    low = (r * T(-0.721363576) + T(1.44269645)) + (r * T(-0.359371652) + T(0.480626767)) * square
    high = (r * T(-0.269320144) + T(0.295699547)) + square * T(0.171624363)
    return (low + high * (square * square)) * r


@polynomial
def _quick_exp2(t):
    """``2^t`` in float32 for t <= 0 and a little above."""
    T = np.float32
    t = t if t > T(-126) else T(-126)
    shifted = np.float32(t + T(12582912))
    f = t - (shifted - T(12582912))
    square = f * f
    high = (f * T(0.0559178603) + T(0.240247448)) + square * T(0.00957010143)
    q = np.float32((f * T(0.693121815) + T(0.999999261)) + high * square)
    return np.int32(q.view(np.int32) + np.int32(shifted.view(np.int32) << np.int32(23))).view(
        np.float32
    )


# Powers come with the one below, r^e and r^(e-1): a Newton step takes both. The exponent may be an
# integer, 3 or 4, and then only multiplications are left; lanes may have either.


def _power_real(v, rest, exponent):
    T = type(v)
    inside = v > T(-1)
    log_u, inverse = log1p_and_inverse(v if inside else T(0), rest)
    r = exp_of_negative(log_u * T(exponent))
    r = r if inside else T(0)
    return r, r * inverse


def _power_whole(v, rest, exponent):
    T = type(v)
    inside = v > T(-1)
    u = T(T(1) + v)
    lost = (v - (u - T(1))) + rest
    u = u if inside else T(0)
    below = u * u * (u if exponent == 4 else T(1))
    return below * (u + T(exponent) * (lost if inside else T(0))), below


power_of = by_exponent(_power_real, _power_whole)
"""``(1 + v + rest)+^exponent`` for v <= 0, and the power one below."""


def _quick_power_real(v, rest, exponent):
    T = np.float32
    inside = v > T(-1)
    v = v if inside else T(0)
    u = np.float32(T(1) + v)
    inverse = T(1) / u
    e, r = _quick_parts(u)
    lost = (v - (u - T(1))) * inverse
    q = _quick_exp2(((_quick_log2(r) + lost * T(1.44269504)) + e) * np.float32(exponent))
    q = q if inside else T(0)
    return q, q * inverse


def _quick_power_whole(v, rest, exponent):
    T = np.float32
    u = T(1) + v
    u = u if u > T(0) else T(0)
    below = u * u * (u if exponent == 4 else T(1))
    return below * u, below


quick_power = by_exponent(_quick_power_real, _quick_power_whole)
"""``power_of`` in float32, to about 4e-6, without the rest: to iterate.

Half the work; as small an error for an exponent that is large because v is small.
"""


@polynomial
def quick_root(u, exponent):
    """``u^exponent`` for a normal float32 u > 0 and an exponent in (0, 1), to about 5e-6."""
    e, r = _quick_parts(u)
    return _quick_exp2((_quick_log2(r) + e) * exponent)


@polynomial
def rough_root(u, exponent):
    """``u^exponent`` for float32 u > 0 and an exponent in (0, 1), at most 7% above the truth.

    The bits of a float, read as an integer, are its logarithm, straight between powers of two.
    """
    T = np.float32
    one = T(1065353216)
    bits = T(np.float32(u).view(np.int32))
    return np.int32(np.float32(one + (bits - one) * exponent)).view(np.float32)


@element
def root_of(u, exponent):
    """``u^exponent`` for 0 < u, not much above 1, subnormal or not; in the type of u."""
    T = type(u)
    tiny = u < T(1.2e-38)
    log_u = log_of_positive(u * T(18446744073709551616.0) if tiny else u)  # 2^64
    return exp_of_negative((log_u - T(44.3614195558365) if tiny else log_u) * exponent)
