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
from sparsemap_np.linear_model._cv import FenchelYoungClassifierCV
from sparsemap_np.linear_model._ksubsets import KSubsetsClassifier
from sparsemap_np.linear_model._path import fenchel_young_path

__all__ = [
    "EntmaxClassifier",
    "FenchelYoungClassifier",
    "FenchelYoungClassifierCV",
    "KSubsetsClassifier",
    "NormmaxClassifier",
    "SparsemaxClassifier",
    "fenchel_young_path",
]
