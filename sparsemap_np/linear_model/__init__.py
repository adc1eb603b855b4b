"""Linear classifiers trained with Fenchel-Young losses, in scikit-learn's manner.

The package has one module for each idea: the table of losses (``_losses``), the objective
over row blocks (``_objective``, ``_blocks``), the solvers (``_solvers`` and one module each),
the callbacks (``_callbacks``), the behaviour common to all classifiers (``_base``) and the
classifiers themselves. What a target may be stands in ``sparsemap_np._targets``.
"""

from sparsemap_np.linear_model._classifiers import (
    EntmaxClassifier,
    FenchelYoungClassifier,
    NormmaxClassifier,
    SparsemaxClassifier,
)

__all__ = [
    "EntmaxClassifier",
    "FenchelYoungClassifier",
    "NormmaxClassifier",
    "SparsemaxClassifier",
]
