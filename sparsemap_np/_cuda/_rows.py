"""What a team of threads does with one row: read it once, sum over it, write it.

Lane l of a team of W lanes owns the scores l, l + W, l + 2 W, ... of a row. Those that can matter
are kept in the lane's own column of a shared array (``store``), so that an iteration touches no
global memory. Teams made for short rows keep all of them (``resident``). Long rows are filtered on
the way: when some lane's column is full, the threshold of the scores kept so far, a lower bound of
the row's, drops what lies below it. Where that makes no room (flat rows, dense mappings) nothing is
kept, ``used`` is -1, and every sum reads the row again.

Loads stand in groups of eight before their uses, so that eight of them are on their way at once.
A row is passed around as the tuple ``(x, lane, tid, store, used, board)``.
"""

import math

from sparsemap_np._cuda._compile import device

GROUP = 8
"""Scores that a lane reads at a time."""

PLACE = 0x7FFFFFFF
"""Numba lets a negative index count from the end, which costs a comparison, an addition and a
register at each access. Masked, an index is visibly none; so are places in a lane's column."""


def loads(team):
    """``load(x, j, missing)``: eight scores of a lane from j on, ``missing`` beyond the end."""
    T = team.T
    W = team.width

    @device
    def load(x, j, missing):
        n = x.shape[0]
        if j + 7 * W < n:
            return (
                T(x[j & PLACE]),
                T(x[(j + W) & PLACE]),
                T(x[(j + 2 * W) & PLACE]),
                T(x[(j + 3 * W) & PLACE]),
                T(x[(j + 4 * W) & PLACE]),
                T(x[(j + 5 * W) & PLACE]),
                T(x[(j + 6 * W) & PLACE]),
                T(x[(j + 7 * W) & PLACE]),
            )
        return (
            T(x[j & PLACE]) if j < n else missing,
            T(x[(j + W) & PLACE]) if j + W < n else missing,
            T(x[(j + 2 * W) & PLACE]) if j + 2 * W < n else missing,
            T(x[(j + 3 * W) & PLACE]) if j + 3 * W < n else missing,
            T(x[(j + 4 * W) & PLACE]) if j + 4 * W < n else missing,
            T(x[(j + 5 * W) & PLACE]) if j + 5 * W < n else missing,
            T(x[(j + 6 * W) & PLACE]) if j + 6 * W < n else missing,
            missing,
        )

    return load


def reading(team, bound):
    """``fill(x, alpha, b, lane, tid, store, where, board) -> (used, top)``.

    ``bound(row, top, alpha, b, low)`` is a lower bound, relative to ``top``, of the threshold of
    the scores in the store; None for mappings that no score is too low for.
    """
    T = team.T
    W = team.width
    last = team.slots - 1
    slots = team.slots
    larger = team.larger
    load = loads(team)
    infinity = T(math.inf)
    zero = T(0)
    one = T(1)
    slack = T(1e-5)

    @device
    def maximum(top, v):
        # A NaN, once met, stays.
        return v if v > top or v != v else top

    @device
    def fill_resident(x, alpha, b, lane, tid, store, where, board):
        top = -infinity
        used = 0
        for j in range(lane, x.shape[0], GROUP * W):
            v0, v1, v2, v3, v4, v5, v6, v7 = load(x, j, -infinity)
            store[used & last, tid] = v0
            store[(used + 1) & last, tid] = v1
            store[(used + 2) & last, tid] = v2
            store[(used + 3) & last, tid] = v3
            store[(used + 4) & last, tid] = v4
            store[(used + 5) & last, tid] = v5
            store[(used + 6) & last, tid] = v6
            store[(used + 7) & last, tid] = v7
            used += GROUP
            top = maximum(maximum(maximum(maximum(top, v0), v1), v2), v3)
            top = maximum(maximum(maximum(maximum(top, v4), v5), v6), v7)
        return used, larger(top, board)

    if team.resident:
        return fill_resident

    full = team.any

    @device
    def push(v, place, used, ref, low, tid, store, where):
        if not v - ref <= low:
            store[used & last, tid] = v
            where[used & last, tid] = place
            used += 1
        return used

    @device
    def drop(used, ref, low, tid, store, where):
        kept = 0
        for k in range(used):
            v = store[k & last, tid]
            if not v - ref <= low:
                store[kept & last, tid] = v
                where[kept & last, tid] = where[k & last, tid]
                kept += 1
        return kept

    @device
    def fill(x, alpha, b, lane, tid, store, where, board):
        n = x.shape[0]
        top = -infinity
        ref = zero
        low = -infinity
        used = 0
        over = False
        for start in range(0, n, GROUP * W):
            # The whole team decides alike: there are barriers inside.
            if not over and full(used > slots - GROUP):
                peak = larger(top, board)
                over = True
                if -infinity < peak < infinity:
                    low = bound(
                        (x, lane, tid, store, used, board), peak, alpha, b, low + (ref - peak)
                    )
                    low -= slack * (one if low > -one else -low)
                    ref = peak
                    used = drop(used, ref, low, tid, store, where)
                    over = full(used > slots - GROUP)
            j = start + lane
            v0, v1, v2, v3, v4, v5, v6, v7 = load(x, j, -infinity)
            top = maximum(maximum(maximum(maximum(top, v0), v1), v2), v3)
            top = maximum(maximum(maximum(maximum(top, v4), v5), v6), v7)
            if not over:
                place = start // W
                used = push(v0, place, used, ref, low, tid, store, where)
                used = push(v1, place + 1, used, ref, low, tid, store, where)
                used = push(v2, place + 2, used, ref, low, tid, store, where)
                used = push(v3, place + 3, used, ref, low, tid, store, where)
                used = push(v4, place + 4, used, ref, low, tid, store, where)
                used = push(v5, place + 5, used, ref, low, tid, store, where)
                used = push(v6, place + 6, used, ref, low, tid, store, where)
                used = push(v7, place + 7, used, ref, low, tid, store, where)
        return (-1 if over else used), larger(top, board)

    @device
    def fill_dense(x, alpha, b, lane, tid, store, where, board):
        top = -infinity
        for j in range(lane, x.shape[0], GROUP * W):
            v0, v1, v2, v3, v4, v5, v6, v7 = load(x, j, -infinity)
            top = maximum(maximum(maximum(maximum(top, v0), v1), v2), v3)
            top = maximum(maximum(maximum(maximum(top, v4), v5), v6), v7)
        return -1, larger(top, board)

    return fill if bound is not None else fill_dense


def summing(team, element, combine=None):
    """``sums(row, m, p0, p1, p2)``: the team's three sums of ``element(v, m, p0, p1, p2)``.

    ``combine`` takes the place of the three sums, for maxima among them; then its first argument
    is what no score changes.
    """
    T = team.T
    W = team.width
    last = team.slots - 1
    zero = T(0)
    infinity = T(math.inf)
    add, total = team.sum_three if combine is None else combine
    start = (zero, zero, zero) if combine is None else (zero, -infinity, -infinity)
    a0, b0, c0 = start

    @device
    def take(a, b, c, v, m, p0, p1, p2):
        ea, eb, ec = element(v, m, p0, p1, p2)
        return add(a, b, c, ea, eb, ec)

    @device
    def sum_kept(row, m, p0, p1, p2):
        x, lane, tid, store, used, board = row
        a = a0
        b = b0
        c = c0
        for k in range(used):
            a, b, c = take(a, b, c, store[k & last, tid], m, p0, p1, p2)
        return total(a, b, c, board)

    if team.resident:
        return sum_kept

    @device
    def sums(row, m, p0, p1, p2):
        x, lane, tid, store, used, board = row
        a = a0
        b = b0
        c = c0
        for k in range(used):
            a, b, c = take(a, b, c, store[k & last, tid], m, p0, p1, p2)
        if used < 0:
            # Nothing is stored here: the compiler brings several loads under way by itself.
            for j in range(lane, x.shape[0], W):
                a, b, c = take(a, b, c, T(x[j & PLACE]), m, p0, p1, p2)
        return total(a, b, c, board)

    return sums


def writing(team, prob):
    """``write(row, where, p, m, alpha, b, s)``: every ``prob(v, m, alpha, b, s)`` of a row."""
    T = team.T
    W = team.width
    last = team.slots - 1
    zero = T(0)
    infinity = T(math.inf)
    load = loads(team)

    @device
    def put(p, j, value):
        if j < p.shape[0]:
            p[j & PLACE] = value

    @device
    def write_again(x, lane, p, m, alpha, b, s):
        for j in range(lane, x.shape[0], GROUP * W):
            v0, v1, v2, v3, v4, v5, v6, v7 = load(x, j, -infinity)
            put(p, j, prob(v0, m, alpha, b, s))
            put(p, j + W, prob(v1, m, alpha, b, s))
            put(p, j + 2 * W, prob(v2, m, alpha, b, s))
            put(p, j + 3 * W, prob(v3, m, alpha, b, s))
            put(p, j + 4 * W, prob(v4, m, alpha, b, s))
            put(p, j + 5 * W, prob(v5, m, alpha, b, s))
            put(p, j + 6 * W, prob(v6, m, alpha, b, s))
            put(p, j + 7 * W, prob(v7, m, alpha, b, s))

    @device
    def write_resident(row, where, p, m, alpha, b, s):
        x, lane, tid, store, used, board = row
        k = 0
        for j in range(lane, p.shape[0], W):
            p[j & PLACE] = prob(store[k & last, tid], m, alpha, b, s)
            k += 1

    @device
    def write(row, where, p, m, alpha, b, s):
        x, lane, tid, store, used, board = row
        if used < 0:
            write_again(x, lane, p, m, alpha, b, s)
        else:
            # Each lane writes only where it has read, so p may be x.
            for j in range(lane, p.shape[0], W):
                p[j & PLACE] = zero
            for k in range(used):
                p[(where[k & last, tid] * W + lane) & PLACE] = prob(
                    store[k & last, tid], m, alpha, b, s
                )

    return write_resident if team.resident else write
