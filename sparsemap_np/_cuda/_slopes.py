"""Vector-Jacobian products of a row from its probabilities, by a team of threads.

``vjp(p, v, alpha, b, lane, board, dx)`` writes J v; ``dpar(p, v, alpha, b, lane, board)`` returns
v . dp/dparameter to every lane. Off the support the result is exactly 0 whatever v holds there, and
v is not read. The formulas are those of the CPU's kernel of this name.
"""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._rows import PLACE
from sparsemap_np._kernels import _formulas

second_order = device(_formulas.second_order)


def centred(team, slope):
    """``s (v - (s . v) / sum s)`` with s = slope(p, alpha, b): the row of most mappings."""
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    _, total = team.sum_three

    @device
    def vjp(p, v, alpha, b, lane, board, dx):
        mass = zero
        dot = zero
        bad = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                s = slope(q, alpha, b)
                if s > zero:
                    mass += s
                    dot += s * T(v[j & PLACE])
            elif q != q:
                bad = one
        mass, dot, bad = total(mass, dot, bad, board)
        mean = dot / mass if mass > zero else zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            result = zero
            if q > zero:
                s = slope(q, alpha, b)
                # A slope of zero gives 0, not -0 nor 0 times a NaN in the cotangent.
                if s > zero:
                    result = s * (T(v[j & PLACE]) - mean)
            dx[j & PLACE] = nan if bad > zero else result

    return vjp


def sparsemax_vjp(team):
    one = team.T(1)

    @device
    def slope(p, alpha, b):
        return one

    return centred(team, slope)


def entmax15_vjp(team):
    T = team.T

    @device
    def slope(p, alpha, b):
        return T(math.sqrt(p))

    return centred(team, slope)


def budget_vjp(team):
    """Only coordinates strictly between 0 and 1 move."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def slope(p, alpha, b):
        return one if p < one else zero

    return centred(team, slope)


def still(team):
    """Zero unless the row is NaN: mappings that are piecewise constant."""
    T = team.T

    @device
    def slope(p, alpha, b):
        return T(0)

    return centred(team, slope)


def _powers(team):
    T = team.T
    one = T(1)

    @device
    def slope(p, alpha, b):
        return T(math.pow(p, one - b))

    return centred(team, slope)


def _steep(team):
    """Alpha > 2: the slope of the smallest probability dwarfs the rest and may overflow.

    Cotangents are taken relative to that coordinate's, and its own entry is minus the sum of the
    others (columns of J sum to zero), so its slope is never used.
    """
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    infinity = T(math.inf)
    _, total = team.sum_three
    _, extremes = team.sum_and_maxima

    @device
    def vjp(p, v, alpha, b, lane, board, dx):
        bad = zero
        least = -infinity
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q != q:
                bad = one
            elif q > zero and -q > least:
                least = -q
        bad, least, _a = extremes(bad, least, zero, board)
        # The first coordinate that is as small as that; p0 > 0 in any row of probabilities.
        p0 = -least
        first = -infinity
        for j in range(lane, p.shape[0], W):
            if first == -infinity and T(p[j & PLACE]) == p0:
                first = -T(j)
        _b, first, _c = extremes(zero, first, zero, board)
        v0 = zero
        for j in range(lane, p.shape[0], W):
            if T(j) == -first:
                v0 = T(v[j & PLACE])
        v0, _d, _e = total(v0, zero, zero, board)
        mass = zero
        dot = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                r = T(math.pow(p0 / q, b - one))
                mass += r
                if T(j) != -first:
                    dot += r * (T(v[j & PLACE]) - v0)
        mass, dot, _f = total(mass, dot, zero, board)
        mean = dot / mass
        rest = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            result = zero
            if q > zero and T(j) != -first:
                gap = (T(v[j & PLACE]) - v0) - mean
                if gap != zero:
                    result = T(math.pow(q, one - b)) * gap
                    rest += result
            dx[j & PLACE] = nan if bad > zero else result
        rest, _g, _h = total(rest, zero, zero, board)
        for j in range(lane, p.shape[0], W):
            if T(j) == -first and not bad > zero:
                dx[j & PLACE] = zero - rest

    return vjp


def entmax_vjp(team):
    """Any alpha > 0."""
    T = team.T
    one = T(1)
    half = T(0.5)
    infinity = T(math.inf)
    constant = still(team)
    flat = sparsemax_vjp(team)
    root = entmax15_vjp(team)
    powers = _powers(team)
    steep = _steep(team)

    @device
    def vjp(p, v, alpha, b, lane, board, dx):
        if alpha == infinity:
            constant(p, v, alpha, b, lane, board, dx)
        elif b == one:
            flat(p, v, alpha, b, lane, board, dx)
        elif b == half:
            root(p, v, alpha, b, lane, board, dx)
        elif b < one:
            powers(p, v, alpha, b, lane, board, dx)
        else:
            steep(p, v, alpha, b, lane, board, dx)

    return vjp


def entmax_dalpha(team):
    """``p (Phi (1 - b l) - phi (1 - b H)) / Z`` with l = log p, summed against v - p . v.

    Far from alpha = 1, where exp(-b l) overflows, the textbook form.
    """
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    infinity = T(math.inf)
    far = T(0.8 * math.log(float(team.largest)))
    _, total = team.sum_three
    _, extremes = team.sum_and_maxima

    @device
    def near(p, v, b, h, mean, lane, board):
        phi_mean = zero
        z = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                log_q = T(math.log(q))
                phi_mean += q * log_q * log_q * second_order(-b * log_q)
                z += q * T(math.exp(-b * log_q))
        phi_mean, z, _a = total(phi_mean, z, zero, board)
        out = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                log_q = T(math.log(q))
                phi = log_q * log_q * second_order(-b * log_q)
                d = q * (phi_mean * (one - b * log_q) - phi * (one - b * h)) / z
                if d != zero:
                    out += (T(v[j & PLACE]) - mean) * d
        out, _b, _c = total(out, zero, zero, board)
        return out

    @device
    def distant(p, v, b, h, least, lane, board):
        mass = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                mass += T(math.pow(least / q, b - one))
        mass, _a, _b = total(mass, zero, zero, board)
        out = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                w = T(math.pow(least / q, b - one)) / mass
                d = (q - w) / (b * b) - (q * T(math.log(q)) - w * h) / b
                out += T(v[j & PLACE]) * d
        out, _c, _d = total(out, zero, zero, board)
        return out

    @device
    def dpar(p, v, alpha, b, lane, board):
        h = zero
        mean = zero
        bad = zero
        least = -infinity
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                h += q * T(math.log(q))
                mean += q * T(v[j & PLACE])
                least = -q if -q > least else least
            elif q != q:
                bad = one
        h, mean, _a = total(h, mean, zero, board)
        bad, least, _b = extremes(bad, least, zero, board)
        if bad > zero or alpha != alpha:
            return nan
        if alpha == infinity:
            return zero
        if -b * T(math.log(-least)) > far:
            return distant(p, v, b, h, -least, lane, board)
        return near(p, v, b, h, mean, lane, board)

    return dpar


def _normmax_state(team):
    """``(p, v, alpha) -> (norm, mean, support, bad)``: ||p||_alpha, p . v, the support's size."""
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    _, total = team.sum_three
    _, extremes = team.sum_and_maxima

    @device
    def state(p, v, alpha, lane, board):
        mean = zero
        top = zero
        bad = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                mean += q * T(v[j & PLACE])
                top = q if q > top else top
            elif q != q:
                bad = one
        mean, top, bad = extremes(mean, top, bad, board)
        powers = zero
        support = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                support += one
                powers += T(math.pow(q / top, alpha))
        powers, support, _a = total(powers, support, zero, board)
        return T(math.pow(powers, one / alpha)) * top, mean, support, bad

    return state


def normmax_vjp(team):
    """``w (v - p.v) - p sum(w (v - p.v))`` with w = q^(2-a) / ((a-1) sum q), q = p / ||p||_a."""
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    infinity = T(math.inf)
    state = _normmax_state(team)
    _, total = team.sum_three

    @device
    def vjp(p, v, alpha, b, lane, board, dx):
        norm, mean, support, bad = state(p, v, alpha, lane, board)
        still = alpha == infinity or not b > zero or support == one
        scale = norm / b  # 1 / sum(q) = ||p||, because p sums to one
        dot = zero
        if not still:
            for j in range(lane, p.shape[0], W):
                q = T(p[j & PLACE])
                if q > zero:
                    w = scale * T(math.pow(q / norm, one - b))
                    dot += w * (T(v[j & PLACE]) - mean)
        dot, _a, _b = total(dot, zero, zero, board)
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            result = zero
            if q > zero and not still:
                w = scale * T(math.pow(q / norm, one - b))
                result = w * (T(v[j & PLACE]) - mean) - q * dot
            dx[j & PLACE] = nan if bad > zero else result

    return vjp


def normmax_dalpha(team):
    """``sum_i v_i p_i (r_i - sum p r)``, r_i = (H / (a S q_i^b) - log q_i) / b."""
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    infinity = T(math.inf)
    state = _normmax_state(team)
    _, total = team.sum_three

    @device
    def dpar(p, v, alpha, b, lane, board):
        norm, mean, support, bad = state(p, v, alpha, lane, board)
        if bad > zero or alpha != alpha:
            return nan
        if alpha == infinity or not b > zero or support == one:
            return zero
        log_norm = T(math.log(norm))
        h = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                log_q = T(math.log(q)) - log_norm
                h += T(math.exp(alpha * log_q)) * log_q
        h, _a, _b = total(h, zero, zero, board)
        lead = h * norm / alpha
        out = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero:
                log_q = T(math.log(q)) - log_norm
                r = (lead * T(math.exp(-b * log_q)) - log_q) / b
                out += q * (T(v[j & PLACE]) - mean) * r
        out, _c, _d = total(out, zero, zero, board)
        return out

    return dpar


def budget_dbudget(team):
    """The budget is shared by the interior coordinates."""
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    _, total = team.sum_three

    @device
    def dpar(p, v, alpha, b, lane, board):
        count = zero
        dot = zero
        bad = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if zero < q < one:
                count += one
                dot += T(v[j & PLACE])
            elif q != q:
                bad = one
        count, dot, bad = total(count, dot, bad, board)
        if bad > zero:
            return nan
        return dot / count if count > zero else zero

    return dpar
