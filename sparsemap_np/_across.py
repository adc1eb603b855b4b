"""Arrays whose rows are not in one piece, or not of a kernel's dtype: a block of rows at a time.

No temporary of the array's size is ever made.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsemap_np._kernels._centre import SHORT, WIDTH
from sparsemap_np._kernels._transpose import transpose
from sparsemap_np._threads import SERIAL_NS, run_tasks, thread_count
from sparsemap_np._writable import for_kernel

_SCRATCH_BYTES = 7 << 17
"""Room for blocks of rows that have to be copied, all threads together: under 1 MB."""

_LINE_BYTES = 64
"""Rows that lie across the memory are copied at least so many bytes wide, a cache line: a narrower
block would read each line several times. Rows of more than some 10000 scores pay for it in room."""

_LEAST_BYTES = 1 << 10
"""A thread that reads lines where they lie reads so much of each: in less, the processor does not
see what comes next."""

_CROWDED_BYTES = 4096
"""Rows a multiple of this apart compete for the same few places in the cache."""

_TOGETHER = SHORT * WIDTH
"""Scores of short rows that a gradient's kernel takes at once."""


def _blocks(lead: tuple[int, ...], rows: int, lag: int) -> list[tuple[tuple, int, int]]:
    """Cut the leading shape into boxes of about ``rows`` rows: (index, first row, last row + 1).

    Boxes of rows side by side are cut ``lag`` rows before a multiple of ``rows``.
    """
    split = len(lead)
    inner = 1
    while split > 0 and inner * lead[split - 1] <= rows:
        split -= 1
        inner *= lead[split]
    if split == 0:
        return [((), 0, inner)]
    width = max(1, rows // inner)
    lag = lag if inner == 1 else 0
    boxes = []
    for number, index in enumerate(np.ndindex(*lead[: split - 1])):
        base = number * lead[split - 1]
        for cut in range(-lag, lead[split - 1], width):
            start = max(cut, 0)
            stop = min(cut + width, lead[split - 1])
            box = (*index, slice(start, stop))
            boxes.append((box, (base + start) * inner, (base + stop) * inner))
    return boxes


class _Lines:
    """Rows along one axis of an array, copied to and from contiguous blocks of rows."""

    def __init__(self, moved: NDArray, flat: NDArray | None, origin: int) -> None:
        self._moved = moved
        self._flat = flat
        self._origin = origin

    @classmethod
    def of(cls, array: NDArray, axis: int, work: np.dtype) -> "_Lines":
        """All rows of an array."""
        flat = None
        flags = array.flags
        if array.dtype == work and flags.aligned and flags.forc:
            flat = for_kernel(array).ravel(order="K")
        origin = array.__array_interface__["data"][0]
        return cls(np.moveaxis(array, axis, -1), flat, origin)

    @property
    def itemsize(self) -> int:
        return self._moved.itemsize

    def part(self, box: tuple) -> "_Lines":
        """The rows in a box of the leading dimensions."""
        return _Lines(self._moved[box], self._flat, self._origin)

    def beyond(self, count: int) -> "_Lines":
        """All rows but the first ``count``; those lie across the memory if there are any."""
        if count == 0:
            return self
        flat = self._moved.reshape((math.prod(self.lead), -1), copy=False)
        return _Lines(flat[count:], self._flat, self._origin)

    @property
    def lead(self) -> tuple[int, ...]:
        return self._moved.shape[:-1]

    @property
    def lag(self) -> int:
        """How many rows further left a cache line begins, if it does so at each of their scores."""
        array = self._moved
        size = array.itemsize
        if array.ndim < 2 or array.strides[-2] != size or array.strides[-1] % _LINE_BYTES:
            return 0
        return array.__array_interface__["data"][0] % _LINE_BYTES // size

    @cached_property
    def across(self) -> tuple[NDArray, int, int] | None:
        """The flat array, first index in it and step, of rows that lie across the memory."""
        if self._flat is None:
            return None
        *lead, d = self._moved.shape
        try:
            view = self._moved.reshape((math.prod(lead), d), copy=False)
        except ValueError:
            return None
        size = view.itemsize
        if view.strides[0] != size or view.strides[1] < size:
            return None
        first = (view.__array_interface__["data"][0] - self._origin) // size
        return self._flat, first, view.strides[1] // size

    def _at(self, box: tuple, start: int) -> tuple["_Lines", tuple[NDArray, int, int] | None]:
        """The rows in a box, the first of which is number ``start``, and where they lie across."""
        if self.across is None:
            part = self.part(box)
            return part, part.across
        flat, first, step = self.across  # a view of each box would take as long as to copy it
        return self, (flat, first + start, step)

    def read(self, box: tuple, start: int, block: NDArray) -> None:
        """Copy the rows in ``box``, the first of which is number ``start``, to ``block`` (n, d)."""
        part, where = self._at(box, start)
        if where is None:
            np.copyto(block.reshape(part._moved.shape), part._moved, casting="unsafe")
        else:
            n, d = block.shape
            transpose(*where, block.reshape(-1), 0, d, n, d, _crowded(block))

    def write(self, box: tuple, start: int, block: NDArray) -> None:
        """Copy ``block`` to the rows in ``box``, the first of which is number ``start``."""
        part, where = self._at(box, start)
        if where is None:
            np.copyto(part._moved, block.reshape(part._moved.shape), casting="same_kind")
        else:
            n, d = block.shape
            transpose(block.reshape(-1), 0, d, *where, d, n, not _crowded(block))


def _crowded(block: NDArray) -> bool:
    return block.strides[0] % _CROWDED_BYTES == 0


def _aligned(count: int, size: int, dtype: np.dtype) -> list[NDArray]:
    """Uninitialised flat arrays, each at the start of a cache line."""
    step = -(-size * dtype.itemsize // _LINE_BYTES) * _LINE_BYTES
    memory = np.empty(count * step + _LINE_BYTES, np.uint8)
    first = -memory.__array_interface__["data"][0] % _LINE_BYTES
    lines = memory[first : first + count * step].reshape(count, step)
    return [line[: size * dtype.itemsize].view(dtype) for line in lines]


def _run(task: Callable[[int], None], count: int, threads: int) -> None:
    if threads == 1:
        for number in range(count):
            task(number)
    else:
        run_tasks(task, count)


def _answer_in_place(
    columns: Callable, lines: list[_Lines], par: Any, d: int, threads: int
) -> list[list[_Lines]]:
    """Answer the rows that lie across the memory where they are; return the parts that are left.

    ``lines`` are the inputs and the result.
    """
    lead = lines[0].lead
    if not lead:
        return [lines]
    line = _LINE_BYTES // lines[-1].itemsize
    pieces = max(1, min(threads, lead[-1] * lines[-1].itemsize // _LEAST_BYTES))
    share = -(-lead[-1] // pieces)
    boxes = _blocks(lead, min(-(-share // line) * line, lead[-1]), 0)
    if any(one.part(boxes[0][0]).across is None for one in lines):
        return [lines]
    room = _SCRATCH_BYTES // min(threads, len(boxes))
    left: list[list[_Lines]] = []

    def task(number: int) -> None:
        box, start, stop = boxes[number]
        part = [one.part(box) for one in lines]
        done = 0
        # Where most have been too much, so will be the rest.
        if 2 * len(left) <= number:
            where = [one.across for one in part]
            if None not in where:
                *inputs, target = where
                done = columns(*chain(*inputs), par, stop - start, d, room, *target)
        if done < stop - start:
            left.append([one.beyond(done) for one in part])

    _run(task, len(boxes), threads)
    return left


def map_blocks(
    kernel: Callable,
    inputs: Sequence[NDArray],
    parameters: Sequence[Any],
    work: np.dtype,
    axis: int,
    result: NDArray,
    cost: float,
    per_row: bool,
    columns: Callable | None = None,
) -> None:
    """Copy a block of rows to scratch, run the kernel there, copy the answer to its place.

    ``result`` has the inputs' shape or, with ``per_row``, is flat with one number a row. What the
    kernel ``columns`` can answer where it lies is not copied.
    """
    sources = [_Lines.of(a, axis, work) for a in inputs]
    target = None if per_row else _Lines.of(result, axis, work)
    d = inputs[0].shape[axis]
    shared = all(getattr(p, "size", 1) == 1 for p in parameters)
    threads = 1 if inputs[0].size * cost < SERIAL_NS else thread_count()
    parts = [sources if target is None else [*sources, target]]
    if columns is not None and target is not None and shared:
        parts = _answer_in_place(columns, parts[0], *parameters, d, threads)
    count = len(inputs)
    ahead = 0
    if target is not None:
        if shared:
            # The answer goes over rows of the last input that are done, as far ahead as a kernel
            # takes rows together: a loop that writes over what it reads is not vectorised.
            ahead = -(-_TOGETHER // d)
        elif count > 1:  # several kernels may go over a block whose rows differ in parameter
            count += 1
    lines = max(
        1, (_SCRATCH_BYTES // threads // count - ahead * d * work.itemsize) // (d * _LINE_BYTES)
    )
    rows = lines * (_LINE_BYTES // work.itemsize)
    boxes = [
        (part, *box) for part in parts for box in _blocks(part[-1].lead, rows, part[-1].lag % rows)
    ]
    height = max((stop - start for _, _, start, stop in boxes), default=0)
    spare: list[list[NDArray]] = []

    @np.errstate(all="ignore")  # a cast to float16 may underflow, and that is its right answer
    def task(number: int) -> None:
        part, box, start, stop = boxes[number]
        n = stop - start
        try:
            scratch = spare.pop()
        except IndexError:
            scratch = _aligned(count, (height + ahead) * d, work)
        blocks = [one[ahead * d : (ahead + n) * d].reshape(n, d) for one in scratch]
        for source, block in zip(part[: len(inputs)], blocks, strict=False):
            source.read(box, start, block)
        own = [p[start:stop] if isinstance(p, np.ndarray) and p.size > 1 else p for p in parameters]
        if target is None:
            kernel(*blocks, *own, result[start:stop], 0, n)
        else:
            answer = scratch[-1][: n * d].reshape(n, d)
            kernel(*blocks[: len(inputs)], *own, answer, 0, n)
            part[-1].write(box, start, answer)
        spare.append(scratch)

    _run(task, len(boxes), threads)
