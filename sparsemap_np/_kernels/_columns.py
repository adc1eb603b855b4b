"""Rows that lie across the memory, answered where they are, if few of their numbers matter.

Of a long row only the scores above a bound of its threshold matter, and of a gradient only the
support. So whole lines of memory are read, in order: for the maxima of blocks, which bound the
threshold as they do in a row of one piece, then for the scores above. Those of a row are put where
they stand in its blocks, without the blocks that hold none, and go to the functions that solve a
row of one piece: the answer has the same bits. Zeros are written in order, the rest among them.

A kernel tells whether it could. If too many scores matter, or a row is not of the usual kind,
nothing has been written, and the rows have to be copied after all.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from sparsemap_np._kernels._compile import INLINE, kernel, referring, row_function, scalar, sums
from sparsemap_np._kernels._scan import BLOCK, below, block_count, fill
from sparsemap_np._kernels._views import stretch

LANES = 32
"""Rows side by side that are looked at together; fewer are not worth it."""

LONG = 512
"""Shorter rows are copied in less time."""

LONGEST = 2**31
"""Places in a row are noted in 32 bits."""

_LIVE = 64
"""Most blocks of a row that may hold scores above."""

_ROOM = 128
"""Most numbers of a row that may matter."""

_STATES = 5


class Descent(NamedTuple):
    """How a mapping with few scores above its threshold finds it.

    ``start(bmax, m) -> (tau, share)`` bounds it from below by the block maxima, and tells which
    share of them lies above; ``mean_start(mean, count, bmax)`` does by the mean of the scores,
    ``descend(x, m, tau, bmax) -> (hi, lo)`` goes on from the larger of both, and
    ``write(x, m, hi, lo, p)`` answers. The threshold is at most ``span`` below the maximum.
    """

    span: float
    start: Callable
    mean_start: Callable
    descend: Callable
    write: Callable


@intrinsic
def _bits_above(typing_context, x, start, level, place):
    def generate(context, builder, signature, arguments):
        # Here, not above: this module is a quarter of a second of Numba's own.
        from numba.np.arrayobj import make_array

        x_value, start, level_value, place = arguments
        vector = ir.VectorType(context.get_data_type(x.dtype), LANES)

        def load(array_type, value, index):
            data = make_array(array_type)(context, builder, value).data
            pointer = cgutils.gep(builder, data, index, inbounds=True)
            pointer = builder.bitcast(pointer, vector.as_pointer())
            return builder.load(pointer, align=x.dtype.bitwidth // 8)

        above = builder.fcmp_unordered(
            ">", load(x, x_value, start), load(level, level_value, place)
        )
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(x, types.intp, level, types.intp), generate


def _above(x, start, level, place):
    """Bits of the ``LANES`` numbers from ``start`` on that are above their level, or NaN."""
    bits = 0
    for k in range(LANES):
        bits |= (not x[start + k] <= level[place + k]) << k
    return bits


@overload(_above, jit_options=INLINE)
def _(x, start, level, place):
    return lambda x, start, level, place: _bits_above(x, start, level, place)


@intrinsic
def _trailing_zeros(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _lowest(bits):
    """The place of the lowest bit of a number that is not zero."""
    return int(bits & -bits).bit_length() - 1


@overload(_lowest, jit_options=INLINE)
def _(bits):
    return lambda bits: _trailing_zeros(bits)


@scalar
def _width(room, d, itemsize, paired):
    """How many rows to take at once, for scratch of at most ``room`` bytes; whole cache lines."""
    blocks = block_count(d)
    longest = min(blocks, _LIVE) * BLOCK * (3 if paired else 1)
    besides = (longest + 8 * LANES + blocks + _ROOM) * itemsize
    own = (blocks + _STATES + _ROOM * (2 if paired else 1)) * itemsize + _ROOM * 4 + 16
    return max(LANES, ((room - besides) // own - LANES) // LANES * LANES)


@sums
def _fold_four(a, b, c, e, top, total):
    for r in range(top.size):
        u = a[r] if a[r] > b[r] else b[r]
        v = c[r] if c[r] > e[r] else e[r]
        w = u if u > v else v
        top[r] = w if w > top[r] else top[r]
        total[r] += (a[r] + b[r]) + (c[r] + e[r])


@sums
def _fold(a, top, total):
    for r in range(top.size):
        top[r] = a[r] if a[r] > top[r] else top[r]
        total[r] += a[r]


@scalar
def _folds(n, step):
    """How many lines to take for one, none if that is not possible.

    A line of few rows fills no vector; if it ends where the next begins, several are a longer one.
    """
    folds = 1
    if n < LANES:
        if step != n:
            return 0
        while folds * n < 2 * LANES:
            folds *= 2
    return folds


@scalar
def _read_blocks(X, first, step, n, d, folds, maxima, part, total):
    """Maxima of the blocks of each row, and the row's sum, roughly: NaN if it holds one."""
    fill(total, 0)
    line = folds * step
    for b in range(block_count(d)):
        top = stretch(maxima, b * n, folds * n)  # the next block's come over what is not theirs
        fill(top, -np.inf)
        fill(part, 0)
        at = first + b * BLOCK * step
        size = min(BLOCK, d - b * BLOCK)
        left = size // folds
        while left >= 4:
            _fold_four(
                stretch(X, at, folds * n),
                stretch(X, at + line, folds * n),
                stretch(X, at + 2 * line, folds * n),
                stretch(X, at + 3 * line, folds * n),
                top,
                part,
            )
            at += 4 * line
            left -= 4
        while left > 0:
            _fold(stretch(X, at, folds * n), top, part)
            at += line
            left -= 1
        for _ in range(size % folds):
            _fold(stretch(X, at, n), stretch(top, 0, n), stretch(part, 0, n))
            at += step
        for k in range(n, folds * n):
            i = k % n
            top[i] = max(top[i], top[k])
            part[i] += part[k]
        for i in range(n):
            total[i] += part[i]


@scalar
def _note(own, other, i, j, n, counts, values, others, places):
    """Note what row i holds at j; False where that is too much or NaN."""
    if counts[i] == _ROOM or own != own:
        return False
    k = counts[i] * n + i
    values[k] = own
    places[k] = j
    if others.size > 0:
        others[k] = other
    counts[i] += 1
    return True


@scalar
def _collect(X, first, step, V, at, gap, n, d, folds, level, counts, values, others, places):
    """Note of each row what lies above its level, and what V holds there.

    False where that is too much or holds a NaN. There is a level for each of ``folds * n`` numbers.
    """
    found = 0
    for i in range(n):
        counts[i] = 0
    width = folds * n
    for j in range(0, d - d % folds, folds):
        # A tenth of all scores takes as long as to copy them.
        if found * 8 > (j + BLOCK) * n:
            return False
        x = first + j * step
        for i in range(0, width, LANES):
            shift = min(i, width - LANES)
            bits = _above(X, x + shift, level, shift)
            bits = bits >> (i - shift) << (i - shift)  # the last may overlap the one before
            while bits != 0:
                r = shift + _lowest(bits)
                bits &= bits - 1
                down = r // n if folds > 1 else 0
                k, r = j + down, r - down * n
                own, other = X[first + k * step + r], V[at + k * gap + r]
                if not _note(own, other, r, k, n, counts, values, others, places):
                    return False
                found += 1
    for j in range(d - d % folds, d):
        for i in range(n):
            own, other = X[first + j * step + i], V[at + j * gap + i]
            if not own <= level[i]:
                if not _note(own, other, i, j, n, counts, values, others, places):
                    return False
    return True


@scalar
def _lay_out(values, places, i, n, count, d, off, slots, row, blocks):
    """Put what was noted of row i where it stands in its blocks, with ``off`` around.

    Returns how many blocks that takes, none if they are too many, and the length of all. Notes
    where each number went, and the numbers of the blocks.
    """
    live = 0
    size = 0
    start = -BLOCK
    for k in range(count):
        j = places[k * n + i]
        if j >= start + BLOCK:
            if live == _LIVE:
                return 0, 0
            start = j // BLOCK * BLOCK
            blocks[live] = j // BLOCK
            live += 1
            size = min(BLOCK, d - start)
            fill(stretch(row, (live - 1) * BLOCK, size), off)
        slots[k] = (live - 1) * BLOCK + j - start
        row[slots[k]] = values[k * n + i]
    return live, (live - 1) * BLOCK + size


@scalar
def _spread(P, first, step, n, d, counts, values, places, done):
    """Zeros, and among them what there is of each row, while they are at hand."""
    for i in range(n):
        done[i] = 0
    for start in range(0, d, BLOCK):
        stop = min(start + BLOCK, d)
        if step == n:
            fill(stretch(P, first + start * step, (stop - start) * n), 0)
        else:
            for j in range(start, stop):
                fill(stretch(P, first + j * step, n), 0)
        for i in range(n):
            k = done[i]
            while k < counts[i] and places[k * n + i] < stop:
                P[first + places[k * n + i] * step + i] = values[k * n + i]
                k += 1
            done[i] = k


@referring
def _scratch(X, n, width, d, paired):
    """Room for strips of rows, some of which take up to ``LANES`` rows more than ``width``."""
    rows = 3 if paired else 1
    nb = block_count(d)
    most = min(n, width + LANES)
    longest = min(nb, _LIVE) * BLOCK * rows
    own = nb + _STATES + _ROOM * (2 if paired else 1)
    work = np.empty(own * most + 8 * LANES + longest + nb + _ROOM, X.dtype)
    places = np.empty(_ROOM * most, np.int32)
    return work, places, np.empty(2 * most + _ROOM + _LIVE, np.int64)


@scalar
def _strip(left, width):
    """How many of the rows that are left to take next; never are less than ``LANES`` left."""
    return left if left < width + LANES else width


def forward_columns(name, descent):
    """``map(X[i])`` for n rows side by side, whose scores j are ``step`` apart from scores j + 1.

    Score j of row i is ``X[first + j * step + i]``, its probability ``P[place + j * stride + i]``.
    Strips of rows are taken in turn, with at most ``room`` bytes of scratch; returns how many rows
    are answered.
    """
    span, start, mean_start, descend, write = descent

    @row_function(f"{name}.columns_bounds")
    def bounds(maxima, total, n, d, bmax, top, tau):
        """Maximum of each row, and how far below its threshold is at most; False if unknown."""
        T = type(total[0])
        eps = 2.3e-16 if total.itemsize == 8 else 1.2e-7
        for i in range(n):
            m = T(-np.inf)
            for b in range(bmax.size):
                bmax[b] = maxima[b * n + i]
                m = max(m, bmax[b])
            if not (np.isfinite(m) and total[i] < np.inf):
                return False
            top[i] = m
            tau[i], share = start(bmax, m)
            if share > 0.5:
                if total[i] == -np.inf:
                    return False
                # The sum is rounded by no more than that for each addition on its way.
                mean = np.float64(total[i]) / d
                slack = (BLOCK + bmax.size) * eps * (2.0 * max(np.float64(m), 0.0) - mean)
                if mean_start(min(mean + slack - m, 0.0), np.float64(d), bmax) > tau[i]:
                    return False
        return True

    @row_function(f"{name}.columns_solved")
    def solved(values, places, count, i, n, d, m, tau, off, maxima, bmax, row, own, slots, blocks):
        live, size = _lay_out(values, places, i, n, count, d, off, slots, row, blocks)
        if live == 0:
            return False
        for b in range(live):
            bmax[b] = maxima[blocks[b] * n + i]
        hi, lo = descend(stretch(row, 0, size), m, tau, stretch(bmax, 0, live))
        for k in range(count):
            own[k] = row[slots[k]]
        write(own, m, hi, type(m)(lo), own)
        for k in range(count):
            values[k * n + i] = own[k]
        return True

    @row_function(f"{name}.columns_strip")
    def strip(X, first, step, n, d, P, place, stride, work, places, integers):
        nb = block_count(d)
        counts = stretch(integers, 0, n)
        done = stretch(integers, n, n)
        slots = stretch(integers, 2 * n, _ROOM)
        blocks = stretch(integers, 2 * n + _ROOM, _LIVE)
        folds = _folds(n, step)
        wide = folds * n
        total = stretch(work, 0, n)
        top = stretch(work, n, n)
        tau = stretch(work, 2 * n, n)
        level = stretch(work, 3 * n, wide)
        maxima = stretch(work, 3 * n + wide, (nb - 1) * n + wide)
        values = stretch(work, (nb + 2) * n + 2 * wide, _ROOM * n)
        rest = (nb + 2 + _ROOM) * n + 2 * wide
        bmax = stretch(work, rest, nb)
        none = stretch(work, 0, 0)
        row = stretch(work, rest + nb + _ROOM, work.size - rest - nb - _ROOM)
        _read_blocks(X, first, step, n, d, folds, maxima, level, total)
        if not bounds(maxima, total, n, d, bmax, top, tau):
            return False
        for i in range(n):
            level[i] = below(stretch(top, i, 1), top[i], 2e-5 * span - tau[i])
        for k in range(n, wide):
            level[k] = level[k % n]
        if not _collect(X, first, step, X, 0, 0, n, d, folds, level, counts, values, none, places):
            return False
        for i in range(n):
            own = stretch(work, rest + nb, counts[i])
            if not solved(
                values, places, counts[i], i, n, d, top[i], tau[i], level[i], maxima, bmax, row,
                own, slots, blocks,
            ):  # fmt: skip
                return False
        _spread(P, place, stride, n, d, counts, values, places, done)
        return True

    @row_function(f"{name}.columns_loop")
    def loop(X, first, step, par, n, d, width, P, place, stride, work, places, integers):
        i = 0
        while i < n and _folds(n, step) > 0:
            w = _strip(n - i, width)
            if not strip(X, first + i, step, w, d, P, place + i, stride, work, places, integers):
                break
            i += w
        return i

    @kernel(f"{name}.columns")
    def columns(X, first, step, par, n, d, room, P, place, stride):
        width = _width(room, d, X.itemsize, False)
        work, places, integers = _scratch(X, n, width, d, False)
        return loop(X, first, step, par, n, d, width, P, place, stride, work, places, integers)

    return columns


def vjp_columns(name, vjp_row):
    """``J(P[i]) dP[i]`` for n rows of more than 16 side by side, as in `forward_columns`."""

    @row_function(f"{name}.columns_solved")
    def solved(values, others, places, count, i, n, d, par, p, v, dx, work, slots, blocks):
        T = type(p[0])
        live, size = _lay_out(values, places, i, n, count, d, T(0), slots, p, blocks)
        if live == 0:
            return False
        fill(stretch(v, 0, size), T(0))
        for k in range(count):
            v[slots[k]] = others[k * n + i]
        vjp_row(stretch(p, 0, size), stretch(v, 0, size), par[0], work, stretch(dx, 0, size))
        for k in range(count):
            values[k * n + i] = dx[slots[k]]
        return True

    @row_function(f"{name}.columns_strip")
    def strip(V, at, gap, P, first, step, par, n, d, dX, place, stride, work, places, integers):
        nb = block_count(d)
        counts = stretch(integers, 0, n)
        done = stretch(integers, n, n)
        slots = stretch(integers, 2 * n, _ROOM)
        blocks = stretch(integers, 2 * n + _ROOM, _LIVE)
        longest = min(nb, _LIVE) * BLOCK
        folds = _folds(n, step)
        wide = folds * n
        level = stretch(work, 0, wide)
        values = stretch(work, wide, _ROOM * n)
        others = stretch(work, wide + _ROOM * n, _ROOM * n)
        rest = wide + 2 * _ROOM * n
        p = stretch(work, rest, longest)
        v = stretch(work, rest + longest, longest)
        dx = stretch(work, rest + 2 * longest, longest)
        sums = stretch(work, rest + 3 * longest, nb)
        fill(level, 0)
        if not _collect(
            P, first, step, V, at, gap, n, d, folds, level, counts, values, others, places
        ):
            return False
        for i in range(n):
            if not solved(
                values, others, places, counts[i], i, n, d, par, p, v, dx, sums, slots, blocks
            ):  # fmt: skip
                return False
        _spread(dX, place, stride, n, d, counts, values, places, done)
        return True

    @row_function(f"{name}.columns_loop")
    def loop(
        V, origin, gap, P, first, step, par, n, d, width, dX, place, stride, work, places, integers
    ):  # fmt: skip
        i = 0
        while i < n and _folds(n, step) > 0:
            w = _strip(n - i, width)
            if not strip(
                V, origin + i, gap, P, first + i, step, par, w, d, dX, place + i, stride,
                work, places, integers,
            ):  # fmt: skip
                break
            i += w
        return i

    @kernel(f"{name}.columns")
    def columns(V, origin, gap, P, first, step, par, n, d, room, dX, place, stride):
        width = _width(room, d, P.itemsize, True)
        work, places, integers = _scratch(P, n, width, d, True)
        return loop(
            V, origin, gap, P, first, step, par, n, d, width, dX, place, stride,
            work, places, integers,
        )  # fmt: skip

    return columns
