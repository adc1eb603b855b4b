"""The vector work of L-BFGS: a step remembered, and the direction that the steps tell.

On small data the products with the data take no longer than a dozen calls of NumPy: the two loops
over the steps (Nocedal, Mathematics of Computation 35, 1980, 773-782) are one call here. Steps and
changes of the gradient lie one after another in flat arrays, and are overwritten in turn.
"""

from sparsemap_np._kernels._compile import kernel, sums
from sparsemap_np._kernels._views import stretch


@sums
def _dot(x, y):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@sums
def _add(factor, x, y):
    for i in range(x.size):
        y[i] += factor * x[i]


@sums
def _differences(after, before, out):
    for i in range(out.size):
        out[i] = after[i] - before[i]


@kernel("secant_keep")
def keep(z, earlier_z, g, earlier_g, place, steps, changes):
    """Write a step and its change of the gradient at a place; their product, and the change's."""
    n = z.size
    step = stretch(steps, place * n, n)
    change = stretch(changes, place * n, n)
    _differences(z, earlier_z, step)
    _differences(g, earlier_g, change)
    return _dot(step, change), _dot(change, change)


@kernel("secant_direction")
def direction(g, steps, changes, products, oldest, held, scale, shares, out):
    """Minus the inverse Hessian times ``g``; returns its product with ``g``.

    ``products`` are those of steps and changes, ``shares`` is room for as many numbers, and
    ``scale`` stands for the inverse Hessian where no step has been.
    """
    n = g.size
    most = products.size
    for i in range(n):
        out[i] = -g[i]
    for k in range(held - 1, -1, -1):
        place = (oldest + k) % most
        share = _dot(stretch(steps, place * n, n), out) / products[place]
        shares[place] = share
        _add(-share, stretch(changes, place * n, n), out)
    for i in range(n):
        out[i] *= scale
    for k in range(held):
        place = (oldest + k) % most
        back = _dot(stretch(changes, place * n, n), out) / products[place]
        _add(shares[place] - back, stretch(steps, place * n, n), out)
    return _dot(g, out)
