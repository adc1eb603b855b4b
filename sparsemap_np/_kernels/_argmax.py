"""The limit of every mapping for an unbounded alpha: the maximum, ties split evenly."""

from sparsemap_np._kernels._compile import scalar


@scalar
def argmax_row(x, top, par, bmax, room, p):
    """Equal shares of the largest scores; returns ln_inf(1) = 0."""
    m = type(x[0])(top)
    count = 0
    for j in range(x.size):
        count += x[j] == m
    share = type(x[0])(1.0 / count)
    for j in range(x.size):
        p[j] = share if x[j] == m else type(share)(0)
    return 0.0
