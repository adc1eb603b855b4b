"""Stretches of an array without reference counts.

A slice normalises its bounds and, in a kernel, counts a reference to its array up and down again,
with atomic instructions: 5 to 10 ns each time, more than a short row's arithmetic.
A stretch is only an address and a length. It must not outlive its array: an array made in the same
function is freed after the last line that names it, so stretches are taken of arguments only.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from sparsemap_np._kernels._compile import REFERRING


@intrinsic
def _borrowed(typing_context, array, start, size):
    flat = types.Array(array.dtype, 1, "C", readonly=not array.mutable, aligned=array.aligned)

    def generate(context, builder, signature, arguments):
        # Here, not above: this module is a quarter of a second of Numba's own.
        from numba.np.arrayobj import make_array, populate_array

        source = make_array(array)(context, builder, arguments[0])
        view = make_array(flat)(context, builder)
        itemsize = context.get_constant(
            types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype))
        )
        offset = builder.mul(arguments[1], itemsize)
        populate_array(
            view,
            data=cgutils.pointer_add(builder, source.data, offset, source.data.type),
            shape=cgutils.pack_array(builder, [arguments[2]]),
            strides=cgutils.pack_array(builder, [itemsize]),
            itemsize=itemsize,
            meminfo=None,
        )
        return view._getvalue()

    return flat(array, types.intp, types.intp), generate


def stretch(array, start, size):
    """``size`` numbers from ``start`` on, of a C-contiguous array read as one flat row."""
    return array.reshape(-1)[start : start + size]


@overload(stretch, jit_options=REFERRING)
def _(array, start, size):
    return lambda array, start, size: _borrowed(array, start, size)
