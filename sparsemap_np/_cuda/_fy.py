"""Fenchel-Young losses of a row, by a team of threads, as sums of terms >= 0.

``label(x, t, own, p, alpha, b, ref, lift, lane, board)`` and ``soft(x, y, scale, p, alpha, b, ref,
lift, lane, board)`` return the loss to every lane; ``ref`` and ``lift`` come from the solver of the
row. ``own`` is p[t], read before any lane may have written the gradient over it. The formulas are
those of the CPU's kernel of this name.
"""

import math

from sparsemap_np._cuda._compile import device
from sparsemap_np._cuda._rows import PLACE
from sparsemap_np._kernels import _formulas

power_of_probability = device(_formulas.power_of_probability)
own_label_loss = device(_formulas.own_label_loss)
own_loss_of_score = device(_formulas.own_loss_of_score)
deformed_log = device(_formulas.deformed_log)


def entmax_label(team):
    """Target: the class t. ``lift`` is ln_b of the largest probability."""
    T = team.T
    W = team.width
    zero = T(0)
    infinity = T(math.inf)
    full_precision = T(_formulas.FULL_PRECISION)
    _, total = team.sum_three

    @device
    def label(x, t, own, p, alpha, b, ref, lift, lane, board):
        others = zero
        powers = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            if q > zero and j != t:
                others += q
                powers += power_of_probability(q, alpha)
        others, powers, _a = total(others, powers, zero, board)
        z = T(x[t & PLACE]) - ref
        if alpha == infinity:
            return zero - z
        if b == zero:
            loss = -(z + lift)
        elif own > full_precision:
            loss = powers / alpha + own_label_loss(own, others, alpha, b)
        else:
            loss = powers / alpha + own_loss_of_score(z + lift, alpha, b)
        return loss if loss > zero or loss != loss else zero

    return label


def entmax_soft(team):
    """Target: the distribution scale * y."""
    T = team.T
    W = team.width
    zero = T(0)
    half = T(0.5)
    two = T(2)
    nan = T(math.nan)
    infinity = T(math.inf)
    _, total = team.sum_three

    @device
    def term(v, w, q, alpha, b, ref, lift):
        z = v - ref
        if w == q:
            return zero
        if alpha == infinity:
            return zero - w * z if w > zero else zero
        if w == zero:
            return power_of_probability(q, alpha) / alpha
        if alpha == two and q > zero:
            return half * (q - w) * (q - w)
        if not w > zero:  # no target
            return nan
        own = w * deformed_log(T(math.log(w)), b) - w
        gain = own + (power_of_probability(q, alpha) if q > zero else zero)
        gain = gain / alpha - w * (z + lift)
        return gain if gain > zero or gain != gain else zero

    @device
    def soft(x, y, scale, p, alpha, b, ref, lift, lane, board):
        loss = zero
        for j in range(lane, p.shape[0], W):
            w = scale * T(y[j & PLACE])
            loss += term(T(x[j & PLACE]), w, T(p[j & PLACE]), alpha, b, ref, lift)
        loss, _a, _b = total(loss, zero, zero, board)
        return loss if loss > zero or loss != loss else zero

    return soft


def normmax_label(team):
    """``||y|| - <y, x - tau>``: 1 minus the target's distance above the threshold."""
    T = team.T
    zero = T(0)
    one = T(1)

    @device
    def label(x, t, own, p, alpha, b, ref, lift, lane, board):
        loss = one - ((T(x[t & PLACE]) - ref) + lift)
        loss = loss if loss > zero or loss != loss else zero
        return zero if own == one else loss

    return label


def normmax_soft(team):
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    infinity = T(math.inf)
    _, total = team.sum_three
    _, extremes = team.sum_and_maxima

    @device
    def soft(x, y, scale, p, alpha, b, ref, lift, lane, board):
        top = zero
        different = zero
        for j in range(lane, p.shape[0], W):
            w = scale * T(y[j & PLACE])
            top = w if w > top else top
            different += zero if w == T(p[j & PLACE]) else one
        different, top, _a = extremes(different, top, zero, board)
        powers = zero
        dot = zero
        for j in range(lane, p.shape[0], W):
            w = scale * T(y[j & PLACE])
            if w > zero:
                powers += T(math.pow(w / top, alpha)) if alpha < infinity else zero
                dot += w * ((T(x[j & PLACE]) - ref) + lift)
        powers, dot, _b = total(powers, dot, zero, board)
        norm = top * T(math.pow(powers, one / alpha)) if alpha < infinity else top
        loss = norm - dot
        loss = loss if loss > zero or loss != loss else zero
        return loss if different > zero else zero

    return soft


def budget_soft(team):
    """Target: y in [0, 1] with sum y = budget."""
    T = team.T
    W = team.width
    zero = T(0)
    half = T(0.5)
    one = T(1)
    infinity = T(math.inf)
    _, total = team.sum_three

    @device
    def soft(x, y, scale, p, alpha, b, ref, lift, lane, board):
        loss = zero
        for j in range(lane, p.shape[0], W):
            q = T(p[j & PLACE])
            w = T(y[j & PLACE])
            if w != q:
                loss += half * (q - w) * (q - w)
                if q <= zero or q >= one:
                    more = (q - w) * (((T(x[j & PLACE]) - ref) + lift) - q)
                    loss += more if more > zero or more != more else zero
                # An infinite score holds the whole budget, the target does not.
                loss = infinity if ref == infinity else loss
        loss, _a, _b = total(loss, zero, zero, board)
        return loss

    return soft
