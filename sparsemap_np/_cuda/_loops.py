"""Teams of threads that share a row, and the kernels over rows that are made of them.

All that touches threads, barriers and shared memory is in this one file: the simulator exchanges
the module ``cuda`` in the file of the kernel that it runs, and only there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import cuda

from sparsemap_np._cuda._compile import SIMULATED, device
from sparsemap_np._cuda._rows import PLACE, reading, writing

WARP = 32


@device
def _add(a, b):
    return a + b


@device
def _larger(a, b):
    """Maximum; a NaN stays."""
    return a if a > b or a != a else b


def _in_warp(width, pick0, pick1, pick2):
    """Combine three numbers over the lanes of (part of) a warp, the same bits in every lane."""

    @device
    def combine(a, b, c):
        apart = width // 2
        while apart > 0:
            a = pick0(a, cuda.shfl_xor_sync(0xFFFFFFFF, a, apart))
            b = pick1(b, cuda.shfl_xor_sync(0xFFFFFFFF, b, apart))
            c = pick2(c, cuda.shfl_xor_sync(0xFFFFFFFF, c, apart))
            apart //= 2
        return a, b, c

    return combine


def _over_board(parts, pick0, pick1, pick2):
    """Combine what ``parts`` threads have put on the board, in a fixed order."""

    @device
    def combine(board):
        cuda.syncthreads()
        a = board[0, 0]
        b = board[1, 0]
        c = board[2, 0]
        for k in range(1, parts):
            a = pick0(a, board[0, k])
            b = pick1(b, board[1, k])
            c = pick2(c, board[2, k])
        cuda.syncthreads()
        return a, b, c

    return combine


def _team_total(team, pick0, pick1, pick2):
    """``total(a, b, c, board)``: three numbers combined over a team, known to all its lanes."""
    parts = team.board_columns

    @device
    def alone(a, b, c, board):
        return a, b, c

    if team.width == 1:
        return alone

    on_board = _over_board(parts, pick0, pick1, pick2)

    @device
    def simulated(a, b, c, board):
        board[0, cuda.threadIdx.x] = a
        board[1, cuda.threadIdx.x] = b
        board[2, cuda.threadIdx.x] = c
        return on_board(board)

    if SIMULATED:
        return simulated

    in_warp = _in_warp(min(team.width, WARP), pick0, pick1, pick2)

    @device
    def warp(a, b, c, board):
        return in_warp(a, b, c)

    @device
    def block(a, b, c, board):
        a, b, c = in_warp(a, b, c)
        if cuda.threadIdx.x % WARP == 0:
            k = cuda.threadIdx.x // WARP
            board[0, k] = a
            board[1, k] = b
            board[2, k] = c
        return on_board(board)

    return warp if team.width <= WARP else block


@dataclass(frozen=True)
class Team:
    """``width`` lanes that share a row, in blocks of ``block`` threads.

    All three numbers are powers of two. ``slots`` (at least 8) scores of each lane fit in shared
    memory; ``resident`` says that rows are so short that all of theirs do. A team larger than a
    warp is a whole block. The simulator has no warps: there, any team of more than one lane is.
    """

    T: Any
    width: int
    block: int
    slots: int
    resident: bool

    def __post_init__(self) -> None:
        whole = self.width > (1 if SIMULATED else WARP)
        powers = all(n & (n - 1) == 0 for n in (self.width, self.block, self.slots))
        if (
            not powers
            or self.slots < 8
            or self.block % self.width
            or (whole and self.block != self.width)
        ):
            raise ValueError(f"no such team: {self}")

    @property
    def rows(self) -> int:
        """Rows that a block works at together."""
        return self.block // self.width

    @property
    def longest(self) -> float:
        """The longest row it is made for."""
        return self.slots * self.width if self.resident else math.inf

    @property
    def eps(self) -> float:
        """Machine epsilon of the arithmetic."""
        return float(np.finfo(self.T).eps)

    @property
    def board_columns(self) -> int:
        if self.width == 1:
            return 1
        return self.block if SIMULATED else max(1, self.width // WARP)

    @cached_property
    def larger(self) -> Callable:
        """``larger(a, board)``: the team's maximum, NaN if any is."""
        total = _team_total(self, _larger, _larger, _larger)

        @device
        def largest(a, board):
            return total(a, a, a, board)[0]

        return largest

    @cached_property
    def sum_three(self) -> tuple[Callable, Callable]:
        """How a lane adds to three numbers, and how a team does."""

        @device
        def add(a, b, c, ea, eb, ec):
            return a + ea, b + eb, c + ec

        return add, _team_total(self, _add, _add, _add)

    @cached_property
    def sum_and_maxima(self) -> tuple[Callable, Callable]:
        """The same for one sum and two maxima."""

        @device
        def combine(a, b, c, ea, eb, ec):
            return a + ea, _larger(b, eb), _larger(c, ec)

        return combine, _team_total(self, _add, _larger, _larger)

    @cached_property
    def any(self) -> Callable:
        """Whether a condition holds in any lane of a block-wide team."""

        @device
        def any_lane(condition):
            return cuda.syncthreads_or(np.int32(1 if condition else 0)) != 0

        return any_lane


@dataclass(frozen=True)
class Solver:
    """What a mapping needs to know about a row, made for one kind of team.

    ``solve(row, top, alpha, b) -> (m, lift, s)`` finds the four numbers ``s`` that fix every
    probability ``prob(v, m, alpha, b, s)``; ``(v - m) + lift`` is the reduced score of its loss.
    ``bound`` is what `_rows.reading` takes. ``any_top`` tells that ``solve`` answers rows without
    a finite maximum too.
    """

    solve: Callable
    prob: Callable
    bound: Callable | None = None
    any_top: bool = False


@device
def _parameters(alpha, b, par, i):
    """The row's alpha and alpha - 1: its own, if there is one a row."""
    if par.shape[1] > 0:
        return par[0, i], par[1, i]
    return alpha, b


def _special(team):
    """Answer a row whose maximum is not finite: NaN, all -inf, or +inf somewhere."""
    T = team.T
    W = team.width
    zero = T(0)
    one = T(1)
    infinity = T(math.inf)
    nan = T(math.nan)
    add, total = team.sum_three

    @device
    def special(x, p, top, lane, board):
        count = zero
        for j in range(lane, x.shape[0], W):
            count += one if T(x[j]) == infinity else zero
        count, _, _ = total(count, zero, zero, board)
        for j in range(lane, x.shape[0], W):
            hit = one if T(x[j]) == infinity else zero
            p[j] = hit if top == infinity and count == one else nan

    return special


@cuda.jit
def parameter_pairs(values, low, high, par):
    """``par[:, i] = (alpha, alpha - 1)`` from one alpha, or one a row; NaN outside [low, high].

    Who keeps alpha on the device does not want to wait for it: no error can be raised here.
    """
    step = 1 if values.shape[0] > 1 else 0
    for i in range(cuda.grid(1), par.shape[1], cuda.gridsize(1)):
        alpha = np.float64(values[i * step])
        alpha = alpha if low <= alpha <= high else np.float64(math.nan)
        par[0, i] = alpha
        par[1, i] = alpha - np.float64(1)


def forward_loop(mapping: Any, team: Team) -> Callable:
    """Kernel ``(X, alpha, b, par, P)``: ``P[i] = map(X[i])``.

    par is (2, n), alpha and alpha - 1 of each row, or (2, 0) when the scalars serve all rows.
    """
    T = team.T
    W = team.width
    block = team.block
    slots = team.slots
    columns = team.board_columns
    place_shape = (1, 1) if team.resident else (slots, block)
    infinity = T(math.inf)
    nan = T(math.nan)
    solver = mapping.make(team)
    solve = solver.solve
    any_top = solver.any_top
    fill = reading(team, solver.bound)
    write = writing(team, solver.prob)
    special = _special(team)
    rows = team.rows

    @cuda.jit
    def forward(X, alpha0, b0, par, P):
        store = cuda.shared.array((slots, block), T)
        where = cuda.shared.array(place_shape, np.int32)
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023  # visibly not negative
        lane = tid & (W - 1)
        for i in range(cuda.blockIdx.x * rows + tid // W, X.shape[0], cuda.gridDim.x * rows):
            alpha, b = _parameters(alpha0, b0, par, i)
            x = X[i]
            p = P[i]
            used, top = fill(x, alpha, b, lane, tid, store, where, board)
            top = top if alpha == alpha else nan
            if any_top or -infinity < top < infinity:
                row = (x, lane, tid, store, used, board)
                m, lift, s = solve(row, top, alpha, b)
                write(row, where, p, m, alpha, b, s)
            else:
                special(x, p, top, lane, board)

    return forward


def support_size_loop(mapping: Any, team: Team) -> Callable:
    """Kernel ``(P, sizes)``: how many probabilities of each row are not zero."""
    T = team.T
    W = team.width
    columns = team.board_columns
    zero = T(0)
    one = T(1)
    add, total = team.sum_three
    rows = team.rows

    @cuda.jit
    def support_size(P, alpha0, b0, par, sizes):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        for i in range(cuda.blockIdx.x * rows + tid // W, P.shape[0], cuda.gridDim.x * rows):
            p = P[i]
            count = zero
            for j in range(lane, p.shape[0], W):
                count += one if T(p[j & PLACE]) > zero else zero
            count, unused, unused2 = total(count, zero, zero, board)
            if lane == 0:
                sizes[i] = np.int64(count)

    return support_size
