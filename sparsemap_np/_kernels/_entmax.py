"""alpha-entmax for every alpha > 0: each range of alpha has a solver that is exact there."""

import numpy as np

from sparsemap_np._kernels._argmax import argmax_row
from sparsemap_np._kernels._compile import scalar
from sparsemap_np._kernels._entmax15 import entmax15_row
from sparsemap_np._kernels._sparsemax import sparsemax_row
from sparsemap_np._kernels._steep import steep_row
from sparsemap_np._kernels._tsallis import softmax_row, tsallis_row


@scalar
def entmax_row(x, top, alpha, bmax, p):
    """Probabilities of one finite-maximum row; returns ln_b(p of the largest score)."""
    if alpha == 1.0:
        return softmax_row(x, top, alpha, bmax, p)
    if alpha == 1.5:
        return entmax15_row(x, top, alpha, bmax, p)
    if alpha == 2.0:
        return sparsemax_row(x, top, alpha, bmax, p)
    if alpha == np.inf:
        return argmax_row(x, top, alpha, bmax, p)
    if alpha > 2.0:
        return steep_row(x, top, alpha - 1.0, bmax, p)
    return tsallis_row(x, top, alpha - 1.0, bmax, p)
