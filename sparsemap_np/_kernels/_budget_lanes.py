"""The budget of ``_budget.py`` for short rows side by side: the same steps, a row to a lane.

In float64 whatever the rows' type. A lane holds the scores as they are and moves tau itself, so
each excess x - tau is rounded once; the last step is kept apart from tau. Rows that this does not
suit (infinities, NaN, scores that are whole units apart, nothing to share) go one by one.
"""

import numpy as np

from sparsemap_np._kernels._budget import budget_row
from sparsemap_np._kernels._compile import element, fast, referring, scalar
from sparsemap_np._kernels._lanes import LANES
from sparsemap_np._kernels._views import stretch

_LARGE = 1e12
"""Sum of a row's magnitudes up to which its scores have digits behind the point to spare."""


@element
def _excess(x, tau):
    return x - tau


@scalar
def _load(X, index, n, par, wide, lane, tau, budget):
    """Lay out the rows that suit; ``lane[r]`` is the lane of row r or -1. Return how many do."""
    d = X.shape[1]
    m = 0
    for r in range(n):
        x = stretch(X, index[r] * d, d)
        b = par[index[r] if par.size > 1 else 0]
        total = 0.0
        size = 0.0
        for j in range(d):
            v = np.float64(x[j])
            wide[j * LANES + m] = v
            total += v
            size += abs(v)
        lane[r] = np.int64(-1)
        if size < _LARGE and 0.0 < b < d and d > 1:
            lane[r] = m
            tau[m] = (total - b) / d
            budget[m] = b
            m += 1
    return m


@scalar
def _widen(x, lo, hi):
    for r in range(x.size):
        v = x[r]
        lo[r] = v if v < lo[r] else lo[r]
        hi[r] = v if v > hi[r] else hi[r]


@fast
def _lane_counts(x, tau, full, inside, s):
    for r in range(x.size):
        w = _excess(x[r], tau[r])
        over = 1.0 if w >= 1.0 else 0.0
        above = 1.0 if w > 0.0 else 0.0
        full[r] += over
        inside[r] += above - over
        s[r] += w if above > over else 0.0


@scalar
def _lane_steps(tau, step, lo, hi, full, inside, s, full0, inside0, budget, going):
    """One bracketed Newton step in every lane that is not done; how many go on. Clears the sums.

    A lane that is done has 0 in ``going``, one that got stuck -1.
    """
    left = 0
    for r in range(tau.size):
        on = going[r] > 0.0
        excess = (full[r] - budget[r]) + s[r]
        some = inside[r] > 0.0
        change = excess / inside[r] if some else 0.0
        moved = tau[r] + change
        # A Newton step that changed neither set was exact; this is its last correction.
        same = (full[r] == full0[r]) & (inside[r] == inside0[r])
        done = (excess == 0.0) | (some & (same | (moved == tau[r])))
        low = tau[r] if on & (excess > 0.0) else lo[r]
        high = tau[r] if on & (excess <= 0.0) else hi[r]
        newton = some & (moved > low) & (moved < high)
        middle = low + 0.5 * (high - low)
        stuck = (not newton) & (not done) & ((middle <= low) | (middle >= high))
        step[r] = change if on else step[r]
        following = moved if newton else middle
        tau[r] = following if on & (not done) else tau[r]
        full0[r] = full[r] if newton else -1.0
        inside0[r] = inside[r]
        lo[r] = low
        hi[r] = high
        state = -1.0 if stuck else 1.0
        state = 0.0 if done else state
        going[r] = state if on else going[r]
        left += 1 if going[r] > 0.0 else 0
        full[r] = 0.0
        inside[r] = 0.0
        s[r] = 0.0
    return left


@scalar
def _lane_write(x, tau, step):
    for r in range(x.size):
        w = _excess(x[r], tau[r]) - step[r]
        w = w if w > 0.0 else 0.0
        x[r] = w if w < 1.0 else 1.0


@scalar
def _solve(wide, d, m):
    """Solve the first m lanes; the probabilities take the place of the scores."""
    tau = stretch(wide, d * LANES, m)
    step = stretch(wide, (d + 1) * LANES, m)
    budget = stretch(wide, (d + 2) * LANES, m)
    going = stretch(wide, (d + 3) * LANES, m)
    lo = stretch(wide, (d + 4) * LANES, m)
    hi = stretch(wide, (d + 5) * LANES, m)
    full = stretch(wide, (d + 6) * LANES, m)
    inside = stretch(wide, (d + 7) * LANES, m)
    s = stretch(wide, (d + 8) * LANES, m)
    full0 = stretch(wide, (d + 9) * LANES, m)
    inside0 = stretch(wide, (d + 10) * LANES, m)
    for r in range(m):
        lo[r] = wide[r]
        hi[r] = wide[r]
    for j in range(1, d):
        _widen(stretch(wide, j * LANES, m), lo, hi)
    for r in range(m):
        lo[r] -= 1.0
        full[r] = 0.0
        inside[r] = 0.0
        s[r] = 0.0
        full0[r] = -1.0
        inside0[r] = -1.0
        going[r] = 1.0
        step[r] = 0.0
        tau[r] = min(max(tau[r], lo[r]), hi[r])
    for _ in range(60):
        for j in range(d):
            _lane_counts(stretch(wide, j * LANES, m), tau, full, inside, s)
        if _lane_steps(tau, step, lo, hi, full, inside, s, full0, inside0, budget, going) == 0:
            break
    for j in range(d):
        _lane_write(stretch(wide, j * LANES, m), tau, step)


@referring
def budget_rows(X, index, n, par, n_iter, work, P, place, refs, lifts):
    """Like ``rows_in_turn`` of ``budget_row``, for up to ``LANES`` short rows."""
    d = X.shape[1]
    # Made here and handed on: a stretch does not keep its array alive.
    wide = np.empty((d + 11) * LANES)
    lane = np.empty(LANES, np.int64)
    _rows(X, index, n, par, n_iter, work, P, place, refs, lifts, wide, lane)


@scalar
def _rows(X, index, n, par, n_iter, work, P, place, refs, lifts, wide, lane):
    d = X.shape[1]
    tau = stretch(wide, d * LANES, LANES)
    step = stretch(wide, (d + 1) * LANES, LANES)
    budget = stretch(wide, (d + 2) * LANES, LANES)
    going = stretch(wide, (d + 3) * LANES, LANES)
    m = _load(X, index, n, par, wide, lane, tau, budget)
    if m > 0:
        _solve(wide, d, m)
    for r in range(n):
        k = lane[r]
        p = stretch(P, place[r] * d, d)
        if k >= 0 and going[k] == 0.0:
            for j in range(d):
                p[j] = wide[j * LANES + k]
            refs[r] = tau[k]
            lifts[r] = -step[k]
        else:
            b = par[index[r] if par.size > 1 else 0]
            refs[r], lifts[r] = budget_row(stretch(X, index[r] * d, d), b, n_iter, work, p)
