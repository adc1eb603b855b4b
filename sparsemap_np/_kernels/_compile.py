"""How kernels are compiled, and a cache of machine code that cannot be stale.

Numba's own cache is stamped with the file that holds the cached function only: edit a scalar in
another file, or upgrade the package, and callers keep the old machine code. It also numbers its
data files through an index that racing processes can leave pointing at each other's code. Here
one file holds one compiled signature, and its name is a hash of everything the code depends on:
the text of every kernel source, the kernel's name, the signature, the processor, and the versions
of Python, Numba and llvmlite. There is no index, writes are atomic, and a cache that cannot be
read or written only costs the compilation.
"""

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from numbers import Integral
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core import config
from numba.core.caching import NullCache, _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.extending import overload

from sparsemap_np._kernels._parts import PartCompiler

# The numpy error model leaves out the zero test of each division, which stops vectorisation.
OPTIONS = {"error_model": "numpy", "nogil": True}

# Only kernels are called from Python; for what they call, the code to take Python's arguments and
# C's would cost a fifth of the compilation.
_COUNTED = {
    **OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": PartCompiler,
}

# Kernels own their arrays and outlive all that they call. There Numba would count references to
# arrays up and down again, dozens of times in a row of scores: a fourth of a short row's time.
UNWRAPPED = {**_COUNTED, "_nrt": False}

# Every option is said outright: what a function leaves unsaid it inherits from whoever compiles it.
scalar = numba.njit(fastmath=False, forceinline=False, **UNWRAPPED)
"""A row solver or a rare formula: IEEE semantics, nothing re-associated."""

INLINE = {"fastmath": False, "forceinline": True, **UNWRAPPED}
element = numba.njit(**INLINE)
"""The formula of one element, always part of the loop around it: a call would not vectorise."""

REFERRING = {**_COUNTED, "fastmath": False, "forceinline": True, "_nrt": True}
referring = numba.njit(**REFERRING)
"""What returns a piece of an array, or makes one: Numba wants references counted there."""

_FUSED = {**INLINE, "fastmath": {"contract"}}
polynomial = numba.njit(**_FUSED)
"""An ``element`` whose products and sums may be fused."""

sums = numba.njit(fastmath={"reassoc", "nsz", "contract"}, forceinline=False, **UNWRAPPED)
"""A reduction in any order that may meet infinities and NaN."""

fast = numba.njit(
    fastmath={"reassoc", "nsz", "contract", "arcp", "nnan"}, forceinline=False, **UNWRAPPED
)
"""A reduction in any order. Rows with NaN must have been sorted out before, and the element-wise
part belongs in an ``element``: else ``(x - m) - tau`` becomes ``x - (m + tau)``."""


def by_type(narrow: Callable, wide: Callable) -> Callable:
    """One name for a float32 and a float64 twin, resolved when the caller is compiled.

    Takes plain functions whose one argument, ``x``, is a number or an array. Always inlined;
    products and sums may be fused, as in a ``polynomial``.
    """

    def choose(x):  # without a compiler
        return narrow(x) if getattr(x, "dtype", None) == np.float32 else wide(x)

    overload(choose, jit_options=_FUSED)(
        lambda x: narrow if getattr(x, "dtype", x) == types.float32 else wide
    )
    return choose


def by_exponent(real: Callable, whole: Callable) -> Callable:
    """Like ``by_type``, by whether the last of three arguments, ``exponent``, is an integer."""

    def choose(v, rest, exponent):  # without a compiler
        return (whole if isinstance(exponent, Integral) else real)(v, rest, exponent)

    overload(choose, jit_options=_FUSED)(
        lambda v, rest, exponent: whole if isinstance(exponent, types.Integer) else real
    )
    return choose


@lru_cache(maxsize=1)
def source_stamp() -> str:
    """Hash of the text of all kernel sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """Where machine code is kept; ``None`` when no folder can be written."""
    if config.CACHE_DIR:
        choices = [Path(config.CACHE_DIR) / "sparsemap_np"]
    else:
        choices = [Path(__file__).parent / "__pycache__"]
        # A folder that others may write is no place for code: no temporary folder in this list.
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        if os.path.isabs(home):
            choices.append(Path(home) / "sparsemap_np")
    for folder in choices:
        if _usable(folder):
            return folder
    return None


class KernelCache(_Cache):
    """Numba's cache interface over one file per compiled signature."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._enabled = True

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        for path in self._folder.glob(f"{self._name}-*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, sig: object, codegen: object) -> Path:
        parts = (
            source_stamp(),
            self._name,
            str(sig),
            repr(codegen.magic_tuple()),
            sys.version,
            numba.__version__,
            llvmlite.__version__,
        )
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        return self._folder / f"{self._name}-{key}.nbc"

    def load_overload(self, sig: object, target_context: object) -> CompileResult | None:
        if not self._enabled:
            return None
        try:
            # All that machine code needs of Numba. Its whole refresh, for compiling, takes 0.2 s.
            rtsys.initialize(target_context)
            payload = pickle.loads(self._path(sig, target_context.codegen()).read_bytes())
            return CompileResult._rebuild(target_context, *payload)
        except Exception:
            # Missing, truncated or unreadable: compiling again is always right.
            return None

    def save_overload(self, sig: object, data: CompileResult) -> None:
        if not self._enabled or data.library.has_dynamic_globals:
            return
        path = self._path(sig, data.codegen)
        temporary = None
        try:
            blob = pickle.dumps(data._reduce())
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=self._name)
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(blob)
            os.replace(temporary, path)
        except OSError:
            # A full disk or a folder that went away: work on without a cache.
            if temporary is not None and os.path.exists(temporary):
                os.unlink(temporary)


def renamed(function: Callable, name: str) -> Callable:
    """Give a function made in a factory a name of its own.

    Machine code is linked by qualified name and argument types. Two products of one factory have
    both in common, and code from the cache would silently call whichever was loaded first.
    """
    function.__name__ = name
    function.__qualname__ = name
    return function


def row_function(name: str, options: Callable = scalar) -> Callable:
    """A ``scalar``, or other, that a factory makes, under a ``name`` unique in its module."""
    return lambda function: options(renamed(function, name.replace(".", "_")))


def kernel(name: str) -> Callable:
    """Compile a loop over rows, kept in the cache under ``name`` (unique in the package)."""

    def decorate(function: Callable) -> Callable:
        options = {"fastmath": False, "forceinline": False, "no_cfunc_wrapper": True, **OPTIONS}
        dispatcher = numba.njit(**options)(renamed(function, name.replace(".", "_")))
        if hasattr(dispatcher, "_cache"):  # not so under NUMBA_DISABLE_JIT
            folder = cache_folder()
            dispatcher._cache = NullCache() if folder is None else KernelCache(name, folder)
        return dispatcher

    return decorate
