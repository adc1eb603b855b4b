"""The judge: every mapping, gradient and loss of the package to sixty digits and more (mpmath).

Nothing here looks at the package.  Each value comes from the optimality conditions of the
problem that defines it, at one row of scores x:

    entmax_a(x)   argmax_p <p, x> - Omega_a(p),  Omega_a(p) = (sum p^a - 1) / (a (a - 1)),
                  Omega_1(p) = sum p log p,  Omega_inf = 0                  p in the simplex
    normmax_a(x)  argmax_p <p, x> - ||p||_a                                 p in the simplex
    budget_B(x)   argmax_p <p, x> - ||p||^2 / 2                  0 <= p <= 1, sum p = B

With b = a - 1 the stationarity of a supported coordinate reads

    entmax   p_i = (b (x_i - tau))^(1/b),                        sum p_i   = 1
    normmax  q_i = (x_i - tau)^(1/b),  p = q / sum q,            sum q_i^a = 1

so both are one scalar equation.  Its unknown is not tau but t = log(smallest coordinate): at
a = 100 a probability of 0.01 lies 1e-198 above the threshold, which no fixed-point tau can show,
while log p_i = log(gap_i + exp(b t)) / b is well behaved everywhere.

A row function takes a sequence of floats and returns a list of mpf; `rows` lifts it to arrays.
"""
# ruff: noqa: B905 - rows have one length by construction; strict= would bury the formulas

import functools
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf

mp.dps = 80
_TIE = mpf(10) ** -50  # below this an irrational support test counts as an equality
_INF = float("inf")
_NAN = mpf("nan")


# --------------------------------------------------------------------------- one scalar root
def _solve(log_mass, slope, low, high):
    """Root of an increasing function on [low, high]: Newton, kept inside its bracket."""
    t = high
    for i in range(2000):
        value = log_mass(t)
        if value >= 0:
            high = t
        else:
            low = t
        step = value / slope(t)
        new = t - step
        if not low <= new <= high or i > 100:  # beside a kink Newton's steps may go in circles
            new = (low + high) / 2
        if abs(new - t) <= mpf(10) ** (8 - mp.dps) * (1 + abs(t)):
            return new
        t = new
    raise ArithmeticError("the reference did not converge")


def _coordinates(gaps, b, power):
    """The u_i = (gap_i + exp(b t))^(1/b) whose power-sum is one, smallest gap first or last.

    For b > 0 gap 0 belongs to the smallest coordinate, for b < 0 to the largest.
    """

    def logs(t):
        base = mp.exp(b * t)
        return [t if g == 0 else mp.log(g + base) / b for g in gaps]

    def log_mass(t):
        return mp.log(sum(mp.exp(power * v) for v in logs(t)))

    def slope(t):
        weights = [mp.exp(power * v) for v in logs(t)]
        base = mp.exp(b * t)
        inner = sum(w * (1 if g == 0 else base / (g + base)) for w, g in zip(weights, gaps))
        return power * inner / sum(weights)

    n = len(gaps)
    high = -mp.log(n) / power if b > 0 else mpf(0)
    low = mpf(-(10**16)) if b > 0 else -mp.log(n) / power
    t = _solve(log_mass, slope, low, high)
    return [mp.exp(v) for v in logs(t)], mp.exp(b * t)


def _support_size(descending, expo):
    """How many scores stay positive: k does iff those before it leave mass at tau = x_k."""
    size = 1
    while size < len(descending):
        here = descending[size]
        if sum((v - here) ** expo for v in descending[:size] if v != here) >= 1 - _TIE:
            break
        size += 1
    return size


# --------------------------------------------------------------------------- awkward rows
def _awkward(x):
    """The answer of a row that needs no arithmetic, else None."""
    if any(v != v for v in x):
        return [_NAN] * len(x)
    tops = [v == _INF for v in x]
    if sum(tops) == 1:
        return [mpf(t) for t in tops]
    if sum(tops) > 1 or all(v == -_INF for v in x):
        return [_NAN] * len(x)
    return None


def _on_finite(x, solve):
    """Apply solve to the usable scores minus their maximum; masked ones get an exact zero."""
    used = [i for i, v in enumerate(x) if v != -_INF]
    top = max(Fraction(x[i]) for i in used)
    shifted = [Fraction(x[i]) - top for i in used]
    z = [mpf(v.numerator) / v.denominator for v in shifted]
    p = [mpf(0)] * len(x)
    values, tau = solve(z)
    for i, v in zip(used, values):
        p[i] = v
    return p, tau


def _argmax(z):
    ties = [v == 0 for v in z]
    return [mpf(t) / sum(ties) for t in ties]


# --------------------------------------------------------------------------- the mappings
def entmax(x, alpha, with_tau=False):
    """alpha-entmax of one row (tau is relative to the row's maximum)."""
    x, a = [float(v) for v in x], mpf(alpha)
    if not a > 0:
        raise ValueError("alpha must be positive")

    def solve(z):
        if a == _INF:
            return _argmax(z), mpf(0)
        if a == 1:
            e = [mp.exp(v) for v in z]
            return [v / sum(e) for v in e], mpf("-inf")
        b = a - 1
        s = [b * v for v in z]
        if b < 0:
            p, base = _coordinates(s, b, mpf(1))
            return p, mpf("-inf")
        order = sorted(range(len(s)), key=lambda i: -s[i])
        size = _support_size([s[i] for i in order], 1 / b)
        floor = s[order[size - 1]]
        u, base = _coordinates([s[i] - floor for i in order[:size]], b, mpf(1))
        p = [mpf(0)] * len(s)
        for i, v in zip(order, u):
            p[i] = v
        return p, (floor - base) / b

    return _finish(x, solve, with_tau)


def normmax(x, alpha, with_tau=False):
    """alpha-normmax of one row."""
    x, a = [float(v) for v in x], mpf(alpha)
    if not a >= 1:
        raise ValueError("alpha must be at least one")

    def solve(z):
        if a == 1:
            return _argmax(z), mpf(-1)
        order = sorted(range(len(z)), key=lambda i: -z[i])
        b = a - 1
        # the limit a = inf: q is flat on the support that sum (x - tau) = 1 selects
        size = _support_size([z[i] for i in order], mpf(1) if a == _INF else a / b)
        p = [mpf(0)] * len(z)
        if a == _INF:
            kept = [z[i] for i in order[:size]]
            for i in order[:size]:
                p[i] = mpf(1) / size
            return p, (sum(kept) - 1) / size
        floor = z[order[size - 1]]
        q, base = _coordinates([z[i] - floor for i in order[:size]], b, a)
        for i, v in zip(order, q):
            p[i] = v / sum(q)
        return p, floor - base

    return _finish(x, solve, with_tau)


def _finish(x, solve, with_tau):
    p, tau = [], _NAN
    if x:
        p = _awkward(x)
        if p is None:
            p, tau = _on_finite(x, solve)
    return (p, tau) if with_tau else p


def budget(x, total, with_tau=False):
    """Projection on {0 <= p <= 1, sum p = total}, in exact rationals."""
    x = [float(v) for v in x]
    if not 0 <= float(total) <= len(x):
        raise ValueError("budget must lie in [0, d]")
    total = Fraction(float(total))
    tops = [v == _INF for v in x]
    used = [i for i, v in enumerate(x) if abs(v) != _INF and v == v]
    unusable = any(v != v for v in x) or total > sum(tops) + len(used)
    if unusable or (sum(tops) > 1 and 0 < total < sum(tops)):
        p, tau = [_NAN] * len(x), _NAN
    else:
        each = min(Fraction(1), total) if any(tops) else Fraction(0)
        p = [mpf(t) * each.numerator / each.denominator for t in tops]
        inner, tau = _box([Fraction(x[i]) for i in used], total - each * sum(tops))
        for i, v in zip(used, inner):
            p[i] = mpf(v.numerator) / v.denominator
    return (p, tau) if with_tau else p


def _box(v, total):
    """Lower tau from the top: the mass grows by one for each coordinate strictly inside."""
    if total <= 0 or not v:
        return [Fraction(0)] * len(v), mpf("inf")
    if total == len(v):
        return [Fraction(1)] * len(v), mpf("-inf")
    events = sorted([(-u, 1) for u in v] + [(1 - u, -1) for u in v])
    mass, inside, at = Fraction(0), 0, -events[0][0]
    for place, change in events:
        grown = mass + inside * (at + place)
        if grown >= total:
            break
        mass, at, inside = grown, -place, inside + change
    tau = at - (total - mass) / inside
    one = Fraction(1)
    top = max(v)
    shown = tau - top
    return [min(max(u - tau, 0 * one), one) for u in v], mpf(shown.numerator) / shown.denominator


# --------------------------------------------------------------------------- derivatives in x
def _is_nan(p):
    return any(v != v for v in p)


def _as_mpf(v):
    return [mpf(float(u)) for u in v]


def _power_on_support(p, expo):
    return [v**expo if v > 0 else mpf(0) for v in p]


def entmax_vjp(x, dp, alpha):
    return entmax_pull(entmax(x, alpha), dp, alpha)


def entmax_pull(p, dp, alpha):
    """J = diag(s) - s s' / sum(s), s = p^(2 - a): differentiate p^b = b (x - tau), sum p = 1.

    Written over pairs, s_i s_j (v_i - v_j): at large a one s_i can exceed the rest by more than
    the working precision.
    """
    a, v = mpf(alpha), _as_mpf(dp)
    if _is_nan(p):
        return [_NAN] * len(p)
    if a == _INF:
        return [mpf(0)] * len(p)
    s = _power_on_support(p, 2 - a)
    total = sum(s)
    return [si * sum(sj * (vi - vj) for sj, vj in zip(s, v)) / total for si, vi in zip(s, v)]


def _normmax_q(p, a):
    norm = sum(v**a for v in p if v > 0) ** (1 / a)
    return [v / norm for v in p]


def normmax_vjp(x, dp, alpha):
    return normmax_pull(normmax(x, alpha), dp, alpha)


def normmax_pull(p, dp, alpha):
    """dq_i = q_i^(2-a) / b (dx_i - dtau); sum q^a = 1 gives dtau = <p, dx>; then p = q / sum q."""
    a, v = mpf(alpha), _as_mpf(dp)
    if _is_nan(p):
        return [_NAN] * len(p)
    if a == 1 or a == _INF:
        return [mpf(0)] * len(p)
    q = _normmax_q(p, a)
    total = sum(q)
    w = [u / ((a - 1) * total) for u in _power_on_support(q, 2 - a)]
    move = [wi * sum(pj * (vi - vj) for pj, vj in zip(p, v)) for wi, vi in zip(w, v)]
    return [m - i * sum(move) for m, i in zip(move, p)]


def budget_vjp(x, dp, total):
    return budget_pull(budget(x, total), dp, total)


def budget_pull(p, dp, _):
    """The projection on sum v = 0 of the coordinates strictly inside the box."""
    v = _as_mpf(dp)
    if _is_nan(p):
        return [_NAN] * len(p)
    inside = [0 < u < 1 for u in p]
    if not any(inside):
        return [mpf(0)] * len(p)
    mean = sum(u for u, i in zip(v, inside) if i) / sum(inside)
    return [u - mean if i else mpf(0) for u, i in zip(v, inside)]


# --------------------------------------------------------------------------- in the parameter
def _dot(values, dp):
    return sum((i * j for i, j in zip(values, _as_mpf(dp))), mpf(0))


def entmax_dalpha(x, dp, alpha):
    """<dp, d p / d a>, from log p = log(b (x - tau)) / b and sum p = 1."""
    p, a = entmax(x, alpha), mpf(alpha)
    if _is_nan(p):
        return _NAN
    if a == _INF:
        return mpf(0)
    logs = [mp.log(v) if v > 0 else mpf(0) for v in p]
    if a == 1:  # the limit b -> 0 of the formula below
        half = sum(v * g * g for v, g in zip(p, logs)) / 2
        return _dot([v * (half - g * g / 2) for v, g in zip(p, logs)], dp)
    b = a - 1
    s = _power_on_support(p, 2 - a)
    share = [v / sum(s) for v in s]
    entropy = sum(v * g for v, g in zip(p, logs))
    return _dot([(v - w) / b**2 - (v * g - w * entropy) / b for v, w, g in zip(p, share, logs)], dp)


def normmax_dalpha(x, dp, alpha):
    """<dp, d p / d a>, from log q = log(x - tau) / b and sum q^a = 1.

    dlog q_i = -(log q_i + tau' q_i^(-b)) / b, and the constraint, differentiated, leaves
    tau' = -H / (a sum q) with H = sum q^a log q.
    """
    p, a = normmax(x, alpha), mpf(alpha)
    if _is_nan(p):
        return _NAN
    if a == 1 or a == _INF:
        return mpf(0)
    b = a - 1
    q = _normmax_q(p, a)
    total = sum(q)
    logs = [mp.log(v) if v > 0 else mpf(0) for v in q]
    slope = -sum(v**a * g for v, g in zip(q, logs)) / (a * total)
    dq = [-(v * g + slope * v ** (1 - b)) / b if v > 0 else mpf(0) for v, g in zip(q, logs)]
    return _dot([(u - v * sum(dq)) / total for u, v in zip(dq, p)], dp)


def budget_dbudget(x, dp, total):
    """One more unit of budget is shared evenly by the coordinates strictly inside."""
    p = budget(x, total)
    if _is_nan(p):
        return _NAN
    inside = [0 < u < 1 for u in p]
    if not any(inside):
        return mpf(0)
    return sum(u for u, i in zip(_as_mpf(dp), inside) if i) / sum(inside)


# --------------------------------------------------------------------------- losses
def entmax_omega(p, alpha):
    a = mpf(alpha)
    if a == _INF:
        return mpf(0)
    if a == 1:
        return sum((v * mp.log(v) for v in p if v > 0), mpf(0))
    return (sum(v**a for v in p if v > 0) - 1) / (a * (a - 1))


def normmax_omega(p, alpha):
    a = mpf(alpha)
    return max(p) if a == _INF else sum(v**a for v in p if v > 0) ** (1 / a)


def budget_omega(p, _):
    return sum(v * v for v in p) / 2


MAPS = {"entmax": entmax, "normmax": normmax, "budget": budget}
PULLS = {"entmax": entmax_pull, "normmax": normmax_pull, "budget": budget_pull}
VJPS = {"entmax": entmax_vjp, "normmax": normmax_vjp, "budget": budget_vjp}
DPARAMS = {"entmax": entmax_dalpha, "normmax": normmax_dalpha, "budget": budget_dbudget}
OMEGAS = {"entmax": entmax_omega, "normmax": normmax_omega, "budget": budget_omega}


@functools.cache
def _solved(kind, x, param):
    return MAPS[kind](x, param)


def prediction(kind, x, param):
    """The mapping of one row, remembered: values, gradients and several targets share it."""
    return _solved(kind, tuple(float(v) for v in x), float(param))


def target(y, d, kind):
    """A label becomes its one-hot row; a soft target is normalised exactly."""
    if np.ndim(y) == 0:
        return [mpf(i == int(y)) for i in range(d)]
    y = _as_mpf(y)
    return y if kind == "budget" else [v / sum(y) for v in y]


def loss(kind, x, y, param):
    """Omega*(x) + Omega(y) - <x, y> = <p - y, x> - Omega(p) + Omega(y) at p = the mapping."""
    x = [float(v) for v in x]
    y, p = target(y, len(x), kind), prediction(kind, x, param)
    if _is_nan(p):
        return _NAN
    if any(v == -_INF and w > 0 or v == _INF and w < 1 for v, w in zip(x, y)):
        return mpf("inf")
    # where the score is infinite p and y agree by now, so the product counts as zero
    inner = sum((i - j) * mpf(v) for i, j, v in zip(p, y, x) if abs(v) != _INF)
    return inner - OMEGAS[kind](p, param) + OMEGAS[kind](y, param)


def loss_grad(kind, x, y, param):
    p = prediction(kind, x, param)
    return [i - j for i, j in zip(p, target(y, len(p), kind))]


# --------------------------------------------------------------------------- arrays
def rows(function, X, *others, param, axis=-1):
    """Apply a row function along an axis; param is a scalar or broadcasts with length 1 there.

    The result is float64: rounding it costs half an eps of the 4 + 8 that a test allows.
    """
    X = np.asarray(X)
    shape = list(X.shape)
    shape[axis] = 1
    params = np.moveaxis(np.broadcast_to(np.asarray(param, dtype="float64"), shape), axis, -1)[
        ..., 0
    ]
    moved = [np.moveaxis(np.asarray(a), axis, -1) for a in (X, *others)]
    out = None
    for where in np.ndindex(*params.shape):
        value = function(*(a[where] for a in moved), params[where])
        value = [value] if isinstance(value, mpf) else value
        if out is None:
            out = np.empty((*params.shape, len(value)))
        out[where] = [float(v) for v in value]
    if out is None:
        out = np.empty((*params.shape, X.shape[axis]))
    return np.moveaxis(out, -1, axis)
