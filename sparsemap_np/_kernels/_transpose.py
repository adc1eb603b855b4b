"""Rows that lie across the memory, copied to where a kernel can read them, and back.

Copied a score at a time, one of the sides would touch a new cache line for each. Here square
tiles are turned in vector registers, two by two, so that whole lines are read and written.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from sparsemap_np._kernels._compile import INLINE, element, kernel, scalar


def _side(itemsize):
    """Side of a tile: a vector register of 32 bytes, which every processor can make of its own."""
    return 32 // itemsize


@intrinsic
def _turn_in_registers(typing_context, source, start, step, target, place, stride):
    itemsize = source.dtype.bitwidth // 8
    side = _side(itemsize)

    def generate(context, builder, signature, arguments):
        # Here, not above: this module is a quarter of a second of Numba's own.
        from numba.np.arrayobj import make_array

        source_value, start, step, target_value, place, stride = arguments
        element = context.get_data_type(source.dtype)
        vector = ir.VectorType(element, side)
        lanes = ir.VectorType(ir.IntType(32), side)

        def address(array_type, value, index):
            data = make_array(array_type)(context, builder, value).data
            pointer = cgutils.gep(builder, data, index, inbounds=True)
            return builder.bitcast(pointer, vector.as_pointer())

        def line(first, width, k):
            return builder.add(first, builder.mul(width, ir.Constant(width.type, k)))

        rows = []
        for k in range(side):
            pointer = address(source, source_value, line(start, step, k))
            rows.append(builder.load(pointer, align=itemsize))
        # Swap the off-diagonal halves, then quarters, ... of ever smaller squares.
        half = side // 2
        while half:
            low = [k if not k & half else side + k - half for k in range(side)]
            high = [k + half if not k & half else side + k for k in range(side)]
            for k in range(side):
                if not k & half:
                    a, b = rows[k], rows[k + half]
                    rows[k] = builder.shuffle_vector(a, b, ir.Constant(lanes, low))
                    rows[k + half] = builder.shuffle_vector(a, b, ir.Constant(lanes, high))
            half //= 2
        for k in range(side):
            pointer = address(target, target_value, line(place, stride, k))
            builder.store(rows[k], pointer, align=itemsize)
        return context.get_dummy_value()

    arguments = (source, types.intp, types.intp, target, types.intp, types.intp)
    return types.none(*arguments), generate


def _turn_tile(source, start, step, target, place, stride):
    side = _side(source.itemsize)
    for i in range(side):
        for j in range(side):
            target[place + i * stride + j] = source[start + j * step + i]


@overload(_turn_tile, jit_options=INLINE)
def _(source, start, step, target, place, stride):
    return lambda source, start, step, target, place, stride: _turn_in_registers(
        source, start, step, target, place, stride
    )


@element
def _turn_square(source, start, step, target, place, stride):
    """Two tiles by two, whole cache lines; those of the target are finished one after another."""
    side = 32 // source.itemsize
    below = side * step
    _turn_tile(source, start, step, target, place, stride)
    _turn_tile(source, start + below, step, target, place + side, stride)
    place += side * stride
    _turn_tile(source, start + side, step, target, place, stride)
    _turn_tile(source, start + below + side, step, target, place + side, stride)


@scalar
def _turn_edge(source, start, step, target, place, stride, i, j, n, d):
    """What is left of a square at the edge, in tiles.

    The last tiles overlap their neighbours: a remainder would go one by one.
    """
    side = 32 // source.itemsize
    for own in range(i, min(i + 2 * side, n), side):
        a = min(own, n - side)
        for other in range(j, min(j + 2 * side, d), side):
            b = min(other, d - side)
            _turn_tile(source, start + b * step + a, step, target, place + a * stride + b, stride)


@kernel("transpose")
def transpose(source, start, step, target, place, stride, n, d, narrow):
    """``target[place + i * stride + j] = source[start + j * step + i]``, i < n, j < d.

    Both arrays are flat. The score j of n rows lies side by side in ``source``, ``step`` apart
    from their score j + 1; in ``target`` each row is in one piece, ``stride`` from the next.
    A cache line of each source line is taken at a time if ``narrow``, else the whole line.
    """
    side = 32 // source.itemsize
    if n < side or d < side:
        for j in range(d):
            for i in range(n):
                target[place + i * stride + j] = source[start + j * step + i]
        return
    square = 2 * side
    band = square if narrow else n
    for first in range(0, n, band):
        for j in range(0, d, square):
            for i in range(first, min(first + band, n), square):
                if i + square <= n and j + square <= d:
                    at = start + j * step + i
                    _turn_square(source, at, step, target, place + i * stride + j, stride)
                else:
                    _turn_edge(source, start, step, target, place, stride, i, j, n, d)
