"""The architecture, read from the sources: who may import whom, and what an import may cost."""

import ast
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparsemap_np

PACKAGE = Path(sparsemap_np.__file__).parent
PROJECT = Path(__file__).parent.parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Each layer knows only those below it.  A module of another name stands on the layer given here.
LAYERS = (
    "_kernels",
    "_cuda",
    "_arrays",
    "mappings",
    "gradients",
    "losses",
    "metrics",
    "linear_model",
)
HELPERS = {
    "_device": "_cuda",
    "_across": "_arrays",
    "_threads": "_arrays",
    "_writable": "_arrays",
    "_parameters": "_arrays",
    "_loss_rows": "losses",
    "_targets": "metrics",
}
# These stand on the whole package, and nothing stands on them.
TOPS = {"__init__", "__main__", "_demo", "_show_versions", "calibration", "conformal"}
TOPS |= {"plot", "dask"}
LEAVES = {"_version"}
OPTIONAL = {"sklearn", "matplotlib", "dask", "distributed", "pandas", "polars", "torch", "cupy"}


def parts_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


def layer_of(name):
    return HELPERS.get(name, name)


def statements(tree, *, run_on_import=False):
    """Import statements; with run_on_import only those that a plain import executes."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and run_on_import:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        pending.extend(ast.iter_child_nodes(node))


def imported(path, **which):
    """Dotted names of everything a module imports; names of the package made absolute."""
    here = ("sparsemap_np", *parts_of(path))
    for node in statements(ast.parse(path.read_text()), **which):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = ".".join(here[: len(here) - node.level]) if node.level else ""
            base = ".".join(p for p in (base, node.module) if p)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def own(path):
    """First-level names of the package that a module imports."""
    for name in imported(path):
        head, *rest = name.split(".")
        if head == "sparsemap_np" and rest:
            yield rest[0]


each_module = pytest.mark.parametrize("path", MODULES, ids=lambda p: "/".join(parts_of(p)))


@each_module
def test_imports_point_one_way(path):
    first = parts_of(path)[0]
    names = {n for n in own(path) if layer_of(n) in LAYERS or n in TOPS | LEAVES}
    if first in TOPS:
        return
    assert layer_of(first) in LAYERS or first in LEAVES, f"{first} belongs to no layer"
    assert not names & TOPS, f"{first} imports {names & TOPS}, which stand above it"
    if first in LEAVES:
        assert not names
        return
    allowed = LAYERS[: LAYERS.index(layer_of(first)) + 1]
    above = {n for n in names - LEAVES if layer_of(n) not in allowed}
    assert not above, f"{first} imports {above}, which stand above it"


@each_module
def test_optional_packages_stay_where_they_belong(path):
    first = parts_of(path)[0]
    needs = {name.split(".")[0] for name in imported(path)} & OPTIONAL
    allowed = {
        "linear_model": {"sklearn"},
        "calibration": {"sklearn"},
        "conformal": {"sklearn"},
        "metrics": {"sklearn"},
        "_targets": {"sklearn"},
        "_demo": {"sklearn"},
        "plot": {"matplotlib", "sklearn"},
        "dask": {"dask", "distributed", "sklearn"},
    }
    assert needs <= allowed.get(first, set())
    at_import = {n.split(".")[0] for n in imported(path, run_on_import=True)}
    assert not at_import & {"pandas", "polars", "torch", "cupy"}
    if first != "_cuda":
        assert not any(n.startswith("numba.cuda") for n in imported(path, run_on_import=True))


def test_kernels_know_numba_and_nothing_of_the_package():
    for path in MODULES:
        if parts_of(path)[0] != "_kernels":
            continue
        for name in imported(path):
            head, *rest = name.split(".")
            assert head != "sparsemap_np" or rest[0] == "_kernels", (path.name, name)
            assert head not in OPTIONAL | {"scipy"}, (path.name, name)


def is_compiled(node):
    return isinstance(node, ast.FunctionDef) and any(
        re.search(r"\b(scalar|fast|kernel|njit|jit)\b", ast.unparse(d)) for d in node.decorator_list
    )


BUILTINS = {
    "abs",
    "bool",
    "float",
    "int",
    "len",
    "max",
    "min",
    "range",
    "type",
    "zip",
    "enumerate",
    "round",
}


@each_module
def test_a_kernel_calls_nothing_outside_the_kernels(path):
    """The cache is stamped with the kernel sources: a call out of them could go stale."""
    tree = ast.parse(path.read_text())
    compiled = [node for node in ast.walk(tree) if is_compiled(node)]
    if parts_of(path)[0] == "_cuda":  # compiled in each process anew: nothing there can be stale
        return
    if parts_of(path)[0] != "_kernels":
        assert not compiled, "a compiled function outside sparsemap_np/_kernels is not stamped"
        return
    for function in compiled:
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                known = node.value.id in {"np", "math"} or not is_module(tree, node.value.id)
                assert known, f"{function.name} uses {node.value.id}.{node.attr}"
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                assert is_local(tree, node.id), f"{function.name} uses {node.id}"


@functools.cache
def is_module(tree, name):
    return any(
        (alias.asname or alias.name.split(".")[0]) == name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    )


@functools.cache
def is_local(tree, name):
    """Defined in this file or imported from a kernel file, NumPy or the standard library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if name in {alias.asname or alias.name for alias in node.names}:
                return node.level > 0 or node.module.split(".")[:2] == ["sparsemap_np", "_kernels"]
        elif isinstance(node, ast.Import):
            if is_module(tree, name):
                return name in {"np", "math", "numba"}
    defined = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    defined |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    defined |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return name in defined | BUILTINS


def loaded_by(code):
    """Top-level modules in a fresh interpreter after running code."""
    report = "; import sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + report],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


HEAVY = {"sklearn", "matplotlib", "dask", "distributed", "torch", "cupy", "pandas"}


def test_importing_the_package_is_light():
    assert not loaded_by("import sparsemap_np") & (HEAVY | {"numba", "llvmlite", "scipy"})


def test_functions_need_no_scikit_learn():
    code = (
        "import sparsemap_np as s; p = s.sparsemax([1.0, 2]); s.sparsemax_vjp(p, p); "
        "s.sparsemax_loss([[1.0, 2]], [0])"
    )
    assert not loaded_by(code) & HEAVY


def test_every_public_name_exists_and_is_listed():
    listed = set(sparsemap_np.__all__)
    for name in listed:
        assert getattr(sparsemap_np, name) is not None
    assert listed <= set(dir(sparsemap_np))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sparsemap_np.nonsense


def test_no_path_of_one_machine():
    """Nothing that only exists where a file was written."""
    local = re.compile(r"(?<![\w.~])/(?:home|work|root|tmp|Users|farm)/\w|[A-Z]:\\\\Users")
    suffixes = {".py", ".toml", ".md", ".cff", ".yaml", ".yml", ".json", ".ipynb", ".cfg", ".txt"}
    folders = [PACKAGE, *(PROJECT / n for n in ("tests", "notebooks", "benchmarks", "docs"))]
    files = [p for folder in folders if folder.is_dir() for p in folder.rglob("*")]
    files += [p for p in PROJECT.iterdir() if p.is_file()]
    for path in files:
        if path.suffix in suffixes and "__pycache__" not in path.parts:
            found = local.search(path.read_text(encoding="utf-8"))
            assert not found, f"{path.name}: {found and found.group()}"
