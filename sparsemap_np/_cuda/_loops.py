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
    def largest(self) -> float:
        """The largest number of the arithmetic."""
        return float(np.finfo(self.T).max)

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


def forward_loop(make: Callable, team: Team) -> Callable:
    """Kernel ``(X, alpha, b, par, P, state)``: ``P[i] = map(X[i])``.

    par is (2, n), alpha and alpha - 1 of each row, or (2, 0) when the scalars serve all rows.
    ``state`` (2, n), or (2, 0), takes what the losses need: ``(x - state[0]) + state[1]`` is the
    reduced score.
    """
    T = team.T
    W = team.width
    block = team.block
    slots = team.slots
    columns = team.board_columns
    place_shape = (1, 1) if team.resident else (slots, block)
    infinity = T(math.inf)
    nan = T(math.nan)
    solver = make(team)
    solve = solver.solve
    any_top = solver.any_top
    fill = reading(team, solver.bound)
    write = writing(team, solver.prob)
    special = _special(team)
    rows = team.rows

    @cuda.jit
    def forward(X, alpha0, b0, par, P, state):
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
            m = top
            lift = nan
            if any_top or -infinity < top < infinity:
                row = (x, lane, tid, store, used, board)
                m, lift, s = solve(row, top, alpha, b)
                write(row, where, p, m, alpha, b, s)
            else:
                special(x, p, top, lane, board)
            if state.shape[1] > 0 and lane == 0:
                state[0, i] = m
                state[1, i] = lift

    return forward


def vjp_loop(make: Callable, team: Team) -> Callable:
    """Kernel ``(dP, P, alpha, b, par, dX)``: ``dX[i] = J(P[i]) dP[i]``."""
    T = team.T
    W = team.width
    columns = team.board_columns
    rows = team.rows
    row = make(team)

    @cuda.jit
    def vjp(dP, P, alpha0, b0, par, dX):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        for i in range(cuda.blockIdx.x * rows + tid // W, P.shape[0], cuda.gridDim.x * rows):
            alpha, b = _parameters(alpha0, b0, par, i)
            row(P[i], dP[i], alpha, b, lane, board, dX[i])

    return vjp


def jacobian_loop(make: Callable, team: Team) -> Callable:
    """Kernel ``(P, eye, alpha, b, par, J)``: dense, a column at a time; J (n d, d), eye (d, d)."""
    T = team.T
    W = team.width
    columns = team.board_columns
    rows = team.rows
    row = make(team)

    @cuda.jit
    def jacobian(P, eye, alpha0, b0, par, J):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        d = P.shape[1]
        for k in range(cuda.blockIdx.x * rows + tid // W, J.shape[0], cuda.gridDim.x * rows):
            i = k // d
            alpha, b = _parameters(alpha0, b0, par, i)
            row(P[i], eye[k - i * d], alpha, b, lane, board, J[k])

    return jacobian


def dpar_loop(make: Callable, team: Team) -> Callable:
    """Kernel ``(dP, P, alpha, b, par, out)``: ``out[i] = dP[i] . dP / dparameter``."""
    T = team.T
    W = team.width
    columns = team.board_columns
    rows = team.rows
    row = make(team)

    @cuda.jit
    def dpar(dP, P, alpha0, b0, par, out):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        for i in range(cuda.blockIdx.x * rows + tid // W, P.shape[0], cuda.gridDim.x * rows):
            alpha, b = _parameters(alpha0, b0, par, i)
            value = row(P[i], dP[i], alpha, b, lane, board)
            if lane == 0:
                out[i] = value

    return dpar


@device
def _outcome(loss, weight):
    """A weight of zero removes the row, also one with an infinite loss."""
    return loss * weight if weight != type(weight)(0) else weight


@device
def _row_weight(weight, i, one):
    return weight[i] if weight.shape[0] > 0 else one


@device
def _scale(factor, divisor, zero):
    """What the sum of losses is multiplied by: known, or one over a sum made on the device."""
    if divisor.shape[0] > 0:
        return factor / divisor[0] if divisor[0] > zero else zero
    return factor


def label_loss_loop(make: Callable, team: Team) -> Callable:
    """Losses of labels from what ``forward`` left in P and state; ``grad`` (n, d), may be P.

    Rows whose label is ``ignored`` (where ``ignores`` is 1) count nothing. A label out of range
    makes its row NaN: who keeps labels on the device does not want to wait for an error.
    """
    T = team.T
    W = team.width
    columns = team.board_columns
    rows = team.rows
    zero = T(0)
    one = T(1)
    nan = T(math.nan)
    infinity = T(math.inf)
    _, total = team.sum_three
    row = make(team)

    @cuda.jit
    def label_loss(
        X,
        P,
        labels,
        ignores,
        ignored,
        alpha0,
        b0,
        par,
        state,
        weight,
        factor,
        divisor,
        losses,
        support,
        grad,
    ):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        d = X.shape[1]
        for i in range(cuda.blockIdx.x * rows + tid // W, X.shape[0], cuda.gridDim.x * rows):
            alpha, b = _parameters(alpha0, b0, par, i)
            t = np.int64(labels[i])
            skipped = ignores > 0 and t == ignored
            known = 0 <= t < d
            place = t if known else 0
            x = X[i]
            p = P[i]
            target = T(x[place & PLACE])
            # Before the team meets in a sum: the gradient may take the place of P.
            own = T(p[place & PLACE])
            lift = state[1, i]
            count = zero
            for j in range(lane, d, W):
                count += one if T(p[j & PLACE]) > zero else zero
            count, _a, _b = total(count, zero, zero, board)
            loss = row(x, place, own, p, alpha, b, state[0, i], lift, lane, board)
            if not -infinity < lift < infinity:
                # The solver gave no threshold: an infinite score took all, or NaN.
                hot = state[0, i] == infinity and T(p[0]) == T(p[0])
                loss = (zero if target == infinity else infinity) if hot else nan
            elif target == -infinity:
                loss = infinity
            loss = loss if known else nan
            w = _row_weight(weight, i, one)
            if lane == 0:
                losses[i] = zero if skipped else _outcome(loss, w)
                support[i] = 0 if skipped else np.int64(count)
            if grad.shape[0] > 0:
                scale = w * _scale(factor, divisor, zero)
                g = grad[i]
                for j in range(lane, d, W):
                    q = T(p[j & PLACE]) - (one if j == t else zero)
                    q = q if known else nan
                    g[j & PLACE] = zero if skipped or scale == zero else scale * q

    return label_loss


def soft_loss_loop(make: Callable, team: Team) -> Callable:
    """Losses of target distributions Y (n, d), as ``label_loss_loop``.

    A row of Y whose sum is within rounding of its total is taken as it is; one further off is
    rescaled; one off by more than ``slack``, or with an entry below 0 (or above ``most``), is no
    target: its row is NaN.
    """
    T = team.T
    W = team.width
    columns = team.board_columns
    rows = team.rows
    zero = T(0)
    one = T(1)
    four_eps = T(4) * T(team.eps)
    nan = T(math.nan)
    infinity = T(math.inf)
    _, total_of = team.sum_three
    _, extremes = team.sum_and_maxima
    row = make(team)

    @cuda.jit
    def soft_loss(
        X,
        P,
        Y,
        budgeted,
        slack,
        most,
        alpha0,
        b0,
        par,
        state,
        weight,
        factor,
        divisor,
        losses,
        support,
        grad,
    ):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        d = X.shape[1]
        for i in range(cuda.blockIdx.x * rows + tid // W, X.shape[0], cuda.gridDim.x * rows):
            alpha, b = _parameters(alpha0, b0, par, i)
            total = alpha if budgeted > 0 else one
            x = X[i]
            p = P[i]
            y = Y[i]
            lift = state[1, i]
            mass = zero
            count = zero
            missing = zero
            infinite = zero
            bad = zero
            for j in range(lane, d, W):
                v = T(x[j & PLACE])
                w = T(y[j & PLACE])
                mass += w
                count += one if T(p[j & PLACE]) > zero else zero
                missing = one if w > zero and v == -infinity else missing
                infinite = one if w == one and v == infinity else infinite
                bad = one if not zero <= w <= most else bad
            mass, count, _a = total_of(mass, count, zero, board)
            bad, missing, infinite = extremes(bad, missing, infinite, board)
            off = mass - total if mass > total else total - mass
            bad = one if off > slack * (total if total > one else one) else bad
            scale = one
            if mass > zero and off > four_eps * T(math.sqrt(T(d))) * total:
                scale = total / mass
            loss = row(x, y, scale, p, alpha, b, state[0, i], lift, lane, board)
            if missing > zero and T(p[0]) == T(p[0]):
                loss = infinity
            elif not -infinity < lift < infinity:
                hot = state[0, i] == infinity and T(p[0]) == T(p[0])
                loss = (zero if infinite > zero else infinity) if hot else nan
            loss = nan if bad > zero else loss
            weighting = _row_weight(weight, i, one)
            if lane == 0:
                losses[i] = _outcome(loss, weighting)
                support[i] = np.int64(count)
            if grad.shape[0] > 0:
                times = weighting * _scale(factor, divisor, zero)
                g = grad[i]
                for j in range(lane, d, W):
                    q = T(p[j & PLACE]) - scale * T(y[j & PLACE])
                    q = nan if bad > zero else q
                    g[j & PLACE] = zero if times == zero else times * q

    return soft_loss


def row_total_loop(make: None, team: Team) -> Callable:
    """Kernel ``(Y, ..., totals)``: the sum of each row."""
    T = team.T
    W = team.width
    columns = team.board_columns
    rows = team.rows
    zero = T(0)
    _, total = team.sum_three

    @cuda.jit
    def row_total(Y, alpha0, b0, par, totals):
        board = cuda.shared.array((3, columns), T)
        tid = cuda.threadIdx.x & 1023
        lane = tid & (W - 1)
        for i in range(cuda.blockIdx.x * rows + tid // W, Y.shape[0], cuda.gridDim.x * rows):
            y = Y[i]
            mass = zero
            for j in range(lane, y.shape[0], W):
                mass += T(y[j & PLACE])
            mass, _a, _b = total(mass, zero, zero, board)
            if lane == 0:
                totals[i] = mass

    return row_total


def kept_weight_loop(make: None, team: Team) -> Callable:
    """The weight of the rows that are kept, by one block: what "mean" divides by."""
    T = team.T
    W = team.width
    columns = team.board_columns
    zero = T(0)
    one = T(1)
    _, total = team.sum_three

    @cuda.jit
    def kept_weight(labels, ignores, ignored, weight, n, kept):
        board = cuda.shared.array((3, columns), T)
        lane = cuda.threadIdx.x & 1023
        s = zero
        for i in range(lane, n, W):
            if ignores == 0 or np.int64(labels[i]) != ignored:
                s += _row_weight(weight, i, one)
        s, _a, _b = total(s, zero, zero, board)
        if lane == 0:
            kept[0] = s

    return kept_weight


def total_loss_loop(make: None, team: Team) -> Callable:
    """The sum of the losses times the factor, by one block, in an order that never changes."""
    T = team.T
    W = team.width
    columns = team.board_columns
    zero = T(0)
    _, total = team.sum_three

    @cuda.jit
    def total_loss(losses, factor, divisor, out):
        board = cuda.shared.array((3, columns), T)
        lane = cuda.threadIdx.x & 1023
        s = zero
        rest = zero
        for i in range(lane, losses.shape[0], W):
            # Compensated: each lane may add many.
            y = losses[i] - rest
            t = s + y
            rest = (t - s) - y
            rest = rest if rest == rest else zero  # infinities
            s = t
        s, _a, _b = total(s, zero, zero, board)
        if lane == 0:
            out[0] = s * _scale(factor, divisor, zero)

    return total_loss


def support_size_loop(make: None, team: Team) -> Callable:
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
