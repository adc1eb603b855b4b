"""Sparse probability mappings of the entmax family: values, gradients, losses, estimators.

Names are imported on first use: ``import sparsemap_np`` loads neither Numba nor scikit-learn.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sparsemap_np._version import __version__

_MODULES = {
    "mappings": (
        "budget_bisect",
        "entmax",
        "entmax15",
        "entmax_bisect",
        "normmax_bisect",
        "sparsemax",
        "sparsemax_bisect",
    ),
    "gradients": tuple(
        f"{name}_{kind}"
        for name in (
            "sparsemax",
            "entmax15",
            "sparsemax_bisect",
            "entmax_bisect",
            "entmax",
            "normmax_bisect",
            "budget_bisect",
        )
        for kind in ("vjp", "jvp", "jacobian")
    ),
    "losses": (
        "budget_loss",
        "entmax15_loss",
        "entmax_bisect_loss",
        "entmax_loss",
        "normmax_bisect_loss",
        "sparsemax_bisect_loss",
        "sparsemax_loss",
    ),
    "linear_model": (
        "EntmaxClassifier",
        "FenchelYoungClassifier",
        "FenchelYoungClassifierCV",
        "KSubsetsClassifier",
        "NormmaxClassifier",
        "SparsemaxClassifier",
        "fenchel_young_path",
    ),
    "_device": ("cuda_is_available", "cuda_stream"),
    "calibration": ("EntmaxCalibrator",),
    "_show_versions": ("show_versions",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*sorted(_HOME), "__version__"]

if TYPE_CHECKING:
    from sparsemap_np._device import cuda_is_available as cuda_is_available
    from sparsemap_np._device import cuda_stream as cuda_stream
    from sparsemap_np._show_versions import show_versions as show_versions
    from sparsemap_np.calibration import *  # noqa: F403
    from sparsemap_np.gradients import *  # noqa: F403
    from sparsemap_np.linear_model import *  # noqa: F403
    from sparsemap_np.losses import *  # noqa: F403
    from sparsemap_np.mappings import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in ("calibration", "gradients", "linear_model", "losses", "mappings", "metrics"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
