"""Arrays whose rows are not in one piece, or not of a kernel's dtype: a block of rows at a time.

No temporary of the array's size is ever made.
"""

from collections.abc import Callable, Sequence
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
    """An array seen as rows along one axis, copied to and from contiguous blocks of rows."""

    def __init__(self, array: NDArray, axis: int, work: np.dtype) -> None:
        self._moved = np.moveaxis(array, axis, -1)
        self._flat = None
        flags = array.flags
        if array.dtype == work and flags.aligned and flags.forc:
            self._flat = for_kernel(array).ravel(order="K")
            self._origin = array.__array_interface__["data"][0]

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

    def _across(self, view: NDArray, n: int, d: int) -> tuple[int, int] | None:
        """First index and step, in the flat array, of rows that lie across the memory."""
        if self._flat is None:
            return None
        try:
            view = view.reshape((n, d), copy=False)
        except ValueError:
            return None
        size = view.itemsize
        if view.strides[0] != size or view.strides[1] < size:
            return None
        return (view.__array_interface__["data"][0] - self._origin) // size, view.strides[1] // size

    def read(self, box: tuple, block: NDArray) -> None:
        """Copy the rows in ``box`` to ``block`` (n, d)."""
        view = self._moved[box]
        where = self._across(view, *block.shape)
        if where is None:
            np.copyto(block.reshape(view.shape), view, casting="unsafe")
        else:
            n, d = block.shape
            transpose(self._flat, *where, block.reshape(-1), 0, d, n, d, _crowded(block))

    def write(self, box: tuple, block: NDArray) -> None:
        """Copy ``block`` to the rows in ``box``."""
        view = self._moved[box]
        where = self._across(view, *block.shape)
        if where is None:
            np.copyto(view, block.reshape(view.shape), casting="same_kind")
        else:
            n, d = block.shape
            transpose(block.reshape(-1), 0, d, self._flat, *where, d, n, not _crowded(block))


def _crowded(block: NDArray) -> bool:
    return block.strides[0] % _CROWDED_BYTES == 0


def _aligned(count: int, size: int, dtype: np.dtype) -> list[NDArray]:
    """Uninitialised flat arrays, each at the start of a cache line."""
    step = -(-size * dtype.itemsize // _LINE_BYTES) * _LINE_BYTES
    memory = np.empty(count * step + _LINE_BYTES, np.uint8)
    first = -memory.__array_interface__["data"][0] % _LINE_BYTES
    lines = memory[first : first + count * step].reshape(count, step)
    return [line[: size * dtype.itemsize].view(dtype) for line in lines]


def map_blocks(
    kernel: Callable,
    inputs: Sequence[NDArray],
    parameters: Sequence[Any],
    work: np.dtype,
    axis: int,
    result: NDArray,
    cost: float,
    per_row: bool,
) -> None:
    """Copy a block of rows to scratch, run the kernel there, copy the answer to its place.

    ``result`` has the inputs' shape or, with ``per_row``, is flat with one number a row.
    """
    sources = [_Lines(a, axis, work) for a in inputs]
    target = None if per_row else _Lines(result, axis, work)
    d = inputs[0].shape[axis]
    count = len(inputs)
    ahead = 0
    if target is not None:
        if all(getattr(p, "size", 1) == 1 for p in parameters):
            # The answer goes over rows of the last input that are done, as far ahead as a kernel
            # takes rows together: a loop that writes over what it reads is not vectorised.
            ahead = -(-_TOGETHER // d)
        elif count > 1:  # several kernels may go over a block whose rows differ in parameter
            count += 1
    serial = inputs[0].size * cost < SERIAL_NS
    share = _SCRATCH_BYTES // (1 if serial else thread_count()) // count
    lines = max(1, (share - ahead * d * work.itemsize) // (d * _LINE_BYTES))
    rows = lines * (_LINE_BYTES // work.itemsize)
    boxes = _blocks(sources[0].lead, rows, (target or sources[0]).lag % rows)
    height = max(stop - start for _, start, stop in boxes)
    spare: list[list[NDArray]] = []

    @np.errstate(all="ignore")  # a cast to float16 may underflow, and that is its right answer
    def task(number: int) -> None:
        box, start, stop = boxes[number]
        n = stop - start
        try:
            scratch = spare.pop()
        except IndexError:
            scratch = _aligned(count, (height + ahead) * d, work)
        blocks = [part[ahead * d : (ahead + n) * d].reshape(n, d) for part in scratch]
        for source, block in zip(sources, blocks, strict=False):
            source.read(box, block)
        own = [p[start:stop] if isinstance(p, np.ndarray) and p.size > 1 else p for p in parameters]
        if target is None:
            kernel(*blocks, *own, result[start:stop], 0, n)
        else:
            answer = scratch[-1][: n * d].reshape(n, d)
            kernel(*blocks[: len(inputs)], *own, answer, 0, n)
            target.write(box, answer)
        spare.append(scratch)

    if serial:
        for number in range(len(boxes)):
            task(number)
    else:
        run_tasks(task, len(boxes))
