"""What a bug report needs to know about the machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

_DEPENDENCIES = ("sparsemap_np", "numpy", "scipy", "numba", "llvmlite")
_OPTIONAL = (
    "scikit-learn",
    "pandas",
    "polars",
    "matplotlib",
    "dask",
    "numba-cuda",
    "cupy",
    "torch",
    "pip",
)


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Read installed versions without importing anything.

    Parameters
    ----------
    names : iterable of str
        Distributions.

    Returns
    -------
    dict of str to str
        The version of each, or "not installed".
    """
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _runtime() -> dict[str, str]:
    """Facts about Numba that explain most surprises: threads, cache, switched-off JIT."""
    import numba
    from numba import config

    return {
        "processors": str(os.cpu_count()),
        "numba threads": str(numba.get_num_threads()),
        "threading layer": str(config.THREADING_LAYER),
        "jit disabled": "yes" if config.DISABLE_JIT else "no",
        "kernel cache": config.CACHE_DIR or "beside the package (NUMBA_CACHE_DIR is not set)",
        "cuda": _cuda(),
    }


def _cuda() -> str:
    """Whether CUDA could be used; looks for packages and devices, loads no driver."""
    support = [name for name in ("numba_cuda", "cupy") if find_spec(name) is not None]
    devices = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")
    return (
        f"packages: {', '.join(support) or 'none'}; "
        f"device nodes: {'present' if devices else 'none seen'}"
    )


def _table(title: str, rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join([f"{title}:", *(f"{name:>{width}}: {value}" for name, value in rows.items())])


def show_versions() -> None:
    """Print the versions and settings that a bug report should contain.

    Examples
    --------
    >>> import sparsemap_np
    >>> sparsemap_np.show_versions()  # doctest: +ELLIPSIS
    System:
    ...
    """
    system = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
    }
    tables = (
        ("System", system),
        ("Dependencies", installed_versions(_DEPENDENCIES)),
        ("Optional", installed_versions(_OPTIONAL)),
        ("Runtime", _runtime()),
    )
    print("\n\n".join(_table(title, rows) for title, rows in tables))
