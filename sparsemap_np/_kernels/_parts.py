"""Code that only kernels call is compiled as parts of them: half of the time of a first call.

Numba makes every function ready to run by itself: it links what the function calls, optimises all
of it again, emits machine code and loads that. Of a function deep down that is done once for each
level above it. But only kernels are ever run; what they call reaches them as LLVM code. So a part
is optimised alone, with what is always inlined into it, then keeps the rest of what it calls beside
it as it is, and no machine code is made of it. The kernel optimises all together, once.
"""

from collections.abc import Callable
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult


class _NothingToRun:
    """In the place of a code generator, for what Numba would do to a function that is loaded."""

    def set_env(self, name: str, environment: object) -> None:
        """A function without machine code has no variable to hold its environment."""


class Part(JITCodeLibrary):
    """The LLVM code of a function, for others to link and never to run."""

    inlined = False
    """Whether all callers take the function in: it is optimised there."""

    @property
    def codegen(self) -> _NothingToRun:
        return _NothingToRun()

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        self._raise_if_finalized()
        libraries = list(dict.fromkeys(self._linking_libraries))
        for library in libraries if hasattr(self, "_reload_init") else []:  # of newer Numbas
            self._reload_init.update(library._reload_init)
        beside = [x for x in libraries if isinstance(x, Part) and not x.inlined]
        self._link([x for x in libraries if x not in beside])
        if not self.inlined:
            self._optimize_final_module()
        self._link(beside)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def _link(self, libraries: list) -> None:
        for library in libraries:
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)


class PartCompiler(Compiler):
    """Numba's compiler, for functions that are called by compiled ones only."""

    def compile_extra(self, func: Callable) -> CompileResult:
        codegen: Any = self.state.targetctx.codegen()
        part = Part(codegen, func.__qualname__)
        part.inlined = bool(self.state.flags.forceinline)
        self.state.library = part
        return super().compile_extra(func)
