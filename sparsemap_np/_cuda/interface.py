"""What the rest of the package calls: its own functions' twins for device arrays."""

from sparsemap_np._cuda.launch import dtype_of, jacobian, map_rows, parameter, reduce_rows
from sparsemap_np._cuda.losses import fenchel_young

__all__ = ["dtype_of", "fenchel_young", "jacobian", "map_rows", "parameter", "reduce_rows"]
