"""Threads, forks, processes and the cache of machine code, each in an interpreter of its own.

A fault here is a crash, a hang or stale code, none of which the test process would survive to
report: hence the subprocesses, and a time limit on each.
"""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import sparsemap_np as sm

SOURCE = Path(sm.__file__).parent
LIMIT = 120  # seconds; a hang is what it is for

PRELUDE = """
import multiprocessing, os, sys, threading
import numpy as np
import sparsemap_np as sm

X = np.random.default_rng(0).normal(size=(64, 40))
LARGE = np.random.default_rng(1).normal(size=(12000, 60))  # enough work for several threads

def everything(X=X):
    y = np.arange(len(X)) % X.shape[1]
    results = [
        sm.sparsemax(X), sm.entmax15(X), sm.entmax_bisect(X, 1.3), sm.sparsemax_bisect(X),
        sm.normmax_bisect(X, 3), sm.budget_bisect(X, 2.5), sm.entmax(X, 1), sm.entmax(X, 4),
    ]
    results += [sm.sparsemax_vjp(X, results[0]), sm.entmax_vjp(X, results[2], 1.3)]
    results += [sm.sparsemax_loss(X, y), sm.entmax_loss(X, y, 1.3)]
    return results

def same(a, b):
    assert len(a) == len(b)
    for u, v in zip(a, b):
        np.testing.assert_array_equal(u, v)
"""


def environment(**changes):
    """The environment without what would steer Numba or the cache; None removes a variable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTHON", "XDG_"))}
    env["PYTHONPATH"] = str(SOURCE.parent)
    env |= {k: v for k, v in changes.items() if v is not None}
    return {k: v for k, v in env.items() if changes.get(k, v) is not None}


def start(code, *args, cwd=None, **env):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *args],
        env=environment(**env),
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(process):
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children too: they hold the pipes
        out, err = process.communicate()
        pytest.fail(f"no end within {LIMIT} s\n{out}\n{err}")
    assert process.returncode == 0, f"status {process.returncode}\n{out}\n{err}"
    return out.strip()


def run(code, *args, cwd=None, **env):
    return finish(start(code, *args, cwd=cwd, **env))


def call(code, **env):
    """Run code after the prelude, with the cache of this process: compiling anew takes minutes."""
    cache = os.environ.get("NUMBA_CACHE_DIR")
    return run(PRELUDE + textwrap.dedent(code), NUMBA_CACHE_DIR=cache, **env)


# --------------------------------------------------------------------------- forks and threads
FORK = """
    before, large = everything(), sm.sparsemax(LARGE)

    def child(connection):
        same(everything(), before)
        np.testing.assert_array_equal(sm.sparsemax(LARGE), large)
        connection.send("child is well")

    context = multiprocessing.get_context("fork")
    for _ in range(2):
        here, there = context.Pipe()
        process = context.Process(target=child, args=(there,))
        process.start()
        assert here.poll(60), "the child hangs or died"
        assert here.recv() == "child is well"
        process.join(30)
        assert process.exitcode == 0, process.exitcode
        same(everything(), before)
        np.testing.assert_array_equal(sm.sparsemax(LARGE), large)
    print("well")
"""


@pytest.mark.parametrize("layer", ["omp", "workqueue", None])
def test_use_then_fork_then_use(layer):
    assert call(FORK, NUMBA_THREADING_LAYER=layer) == "well"


def test_fork_after_numba_itself_ran_in_parallel():
    """Another library may have started Numba's threads; the child must not touch them."""
    code = """
        import numba
        numba.get_num_threads()
        before, large = everything(), sm.sparsemax(LARGE)
        pid = os.fork()
        if not pid:
            same(everything(), before)
            np.testing.assert_array_equal(sm.sparsemax(LARGE), large)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        same(everything(), before)
        print("well")
    """
    assert call(code, NUMBA_THREADING_LAYER="workqueue") == "well"


def test_fork_while_other_threads_call():
    """A lock or a pool held by a thread at the moment of the fork must not hang the child."""
    code = """
        # compiled before the fork: Numba's own lock does not survive one
        before, large, stop = everything(), sm.sparsemax(LARGE), threading.Event()

        def busy():
            while not stop.is_set():
                sm.sparsemax(LARGE)

        threads = [threading.Thread(target=busy) for _ in range(3)]
        for t in threads:
            t.start()
        for _ in range(5):
            pid = os.fork()
            if not pid:
                same(everything(), before)
                np.testing.assert_array_equal(sm.sparsemax(LARGE), large)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for t in threads:
            t.join()
        same(everything(), before)
        print("well")
    """
    # Python 3.12 warns of any fork while threads run, which is what this is about
    code = (
        'import warnings; warnings.simplefilter("ignore", DeprecationWarning)\n'
        + textwrap.dedent(code)
    )
    assert call(code) == "well"


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_eight_threads_call_everything_at_once(layer):
    code = """
        small, wide = everything(), everything(LARGE)
        barrier, failures = threading.Barrier(8), []

        def work(i):
            try:
                barrier.wait()
                for _ in range(2):
                    same(everything(), small)
                    same(everything(LARGE), wide)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures, failures
        print("well")
    """
    assert call(code, NUMBA_THREADING_LAYER=layer) == "well"


def test_eight_threads_make_the_first_call_at_once():
    code = """
        barrier, results = threading.Barrier(8), []

        def work():
            barrier.wait()
            results.append(everything())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(results) == 8
        for r in results:
            same(r, results[0])
        print("well")
    """
    assert call(code) == "well"


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(backend):
    code = f"""
        from joblib import Parallel, delayed
        before = everything()
        calls = [(f, LARGE[i::4]) for i in range(4) for f in (sm.sparsemax, sm.entmax15)]
        found = Parallel(n_jobs=2, backend={backend!r}, max_nbytes=1000)(
            delayed(f)(a) for f, a in calls
        )
        for (f, a), p in zip(calls, found):
            np.testing.assert_array_equal(p, f(a))
        same(everything(), before)
        print("well")
    """
    assert call(code) == "well"


def test_threads_of_loky_workers_follow_numba():
    """The library obeys the number of threads and never sets it."""
    code = """
        from joblib import Parallel, delayed, parallel_config

        def ask():
            import numba, threading
            import numpy as np
            import sparsemap_np as sm
            sm.sparsemax(np.ones((20000, 60)))
            mine = [t for t in threading.enumerate() if "sparsemap" in t.name]
            return numba.get_num_threads(), len(mine)

        for wanted in (1, 2):
            os.environ["NUMBA_NUM_THREADS"] = str(wanted)
            with parallel_config(backend="loky", inner_max_num_threads=wanted):
                for threads, pool in Parallel(n_jobs=2)(delayed(ask)() for _ in range(2)):
                    assert threads == wanted, threads
                    assert pool < wanted or wanted > 1, pool
            from joblib.externals.loky import get_reusable_executor
            get_reusable_executor().shutdown()
        print("well")
    """
    assert call(code) == "well"


def test_one_thread():
    code = """
        import numba
        everything(), everything(LARGE)
        assert numba.get_num_threads() == 1
        assert threading.active_count() == 1
        print("well")
    """
    assert call(code, NUMBA_NUM_THREADS="1") == "well"


def test_any_number_of_threads_gives_the_same_bits():
    code = """
        import hashlib
        digest = hashlib.sha256()
        for a in everything(LARGE) + everything():
            digest.update(np.ascontiguousarray(a).tobytes())
        print(digest.hexdigest())
    """
    found = {call(code, NUMBA_NUM_THREADS=n) for n in ("1", "2", "3", "8", None)}
    assert len(found) == 1


def test_set_num_threads_is_obeyed_and_left_alone():
    code = """
        import numba
        numba.set_num_threads(1)
        sm.sparsemax(LARGE)
        assert threading.active_count() == 1
        assert numba.get_num_threads() == 1
        print("well")
    """
    assert call(code, NUMBA_NUM_THREADS="4") == "well"


def test_without_the_compiler():
    """NUMBA_DISABLE_JIT=1 runs the kernels as Python, for a debugger: the same values."""
    code = """
        import warnings
        X = X[:3, :9].copy()
        X[1, 2] = -np.inf
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for part in everything(X) + [
                sm.entmax15(X.astype("float32")),
                sm.entmax_bisect(X, n_iter=20),
                sm.sparsemax_jacobian(sm.sparsemax(X)),
                sm.normmax_bisect_loss(X, [0, 1, 2]),
                sm.budget_loss(X, np.eye(3, 9)),
            ]:
                print(np.asarray(part, dtype=float).ravel().tolist())
    """
    nan, inf = float("nan"), float("inf")

    def values(text):
        return [eval(line, {"nan": nan, "inf": inf}) for line in text.splitlines()]

    plain = values(call(code, NUMBA_DISABLE_JIT="1"))
    compiled = values(call(code))
    assert len(plain) == len(compiled) == 17
    for a, b in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


# --------------------------------------------------------------------------- the cache
TINY = """
    import numpy as np, sparsemap_np as sm
    np.testing.assert_allclose(sm.sparsemax([-2, 0, 0.5]), [0, 0.25, 0.75], atol=1e-15)
    print("well")
"""


def copy_of_the_package(folder):
    """A package of its own to lock or edit, without machine code."""
    target = folder / "sparsemap_np"
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def machine_code(folder):
    return [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"]


def test_a_second_process_reuses_the_cache(tmp_path):
    code = """
        import sys
        import numpy as np
        import sparsemap_np as sm
        from numba.core import event

        compiled = []

        class Listener(event.Listener):
            def on_start(self, e): compiled.append(e)
            def on_end(self, e): pass

        event.register("numba:run_pass", Listener())
        sm.sparsemax([1.0, 2.0])
        print(len(compiled) > 0)
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "True"
    files = machine_code(tmp_path)
    assert files
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "False"
    assert machine_code(tmp_path) == files


def test_the_process_that_compiles_gives_the_bits_of_those_that_load(tmp_path):
    code = """
        import hashlib
        import numpy as np
        import sparsemap_np as sm

        rng = np.random.default_rng(3)
        X = 0.1 * rng.standard_normal((257, 33))
        Y = rng.standard_normal((100, 128)).astype("float32")
        for P in (sm.entmax_bisect(X, 1.25), sm.entmax_bisect(Y, 4 / 3), sm.entmax15(Y)):
            print(hashlib.sha256(P.tobytes()).hexdigest())
    """
    compiled = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == compiled


def test_eight_processes_make_their_first_call_at_once(tmp_path):
    code = """
        import sys, time
        import numpy as np
        import sparsemap_np as sm
        while time.time() < float(sys.argv[1]):
            pass
        np.testing.assert_allclose(sm.sparsemax([-2, 0, 0.5]), [0, 0.25, 0.75], atol=1e-15)
        print("well")
    """
    moment = str(time.time() + 3)
    processes = [start(code, moment, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(8)]
    assert [finish(p) for p in processes] == ["well"] * 8
    # what they left is whole: one more process loads it
    assert run(code, "0", NUMBA_CACHE_DIR=str(tmp_path)) == "well"


def test_a_damaged_cache_is_compiled_anew(tmp_path):
    assert run(TINY, NUMBA_CACHE_DIR=str(tmp_path)) == "well"
    for path in machine_code(tmp_path):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run(TINY, NUMBA_CACHE_DIR=str(tmp_path)) == "well"


@pytest.mark.parametrize("home", ["missing", "a file", "locked"])
def test_neither_package_nor_home_can_be_written(tmp_path, home):
    """Permissions do not stop a superuser, a file in the place of a folder stops everybody."""
    site = tmp_path / "site"
    site.mkdir()
    package = copy_of_the_package(site)
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("not a folder")
    file = tmp_path / "file"
    file.write_text("not a folder")
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / ".cache").write_text("not a folder")
    for folder in [locked, package, *(p for p in package.rglob("*") if p.is_dir())]:
        folder.chmod(0o555)
    try:
        value = {"missing": None, "a file": str(file), "locked": str(locked)}[home]
        before = sorted(site.rglob("*"))
        where = dict(
            HOME=value, USERPROFILE=value, PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1"
        )
        if home == "missing":
            # with no HOME at all the account's own folder is found: make that one useless too
            where["XDG_CACHE_HOME"] = str(file)
        code = TINY + "    import os; assert os.path.dirname(sm.__file__) == os.sys.argv[1]\n"
        assert run(code, str(package), cwd=tmp_path, **where) == "well"
        assert sorted(site.rglob("*")) == before
    finally:
        for folder in [locked, package, *(p for p in package.rglob("*") if p.is_dir())]:
            folder.chmod(0o755)


def test_the_cache_folder_is_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    processes = [start(TINY, NUMBA_CACHE_DIR=str(f)) for f in (file, file / "below")]
    assert [finish(p) for p in processes] == ["well"] * 2
    assert file.read_text() == "not a folder"


def test_a_full_disk_under_the_cache(tmp_path):
    """A limit on the size of files fails in the middle of a write, as a full disk does."""
    code = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    """
    code = textwrap.dedent(code) + textwrap.dedent(TINY)
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "well"
    # nothing half-written is left to be loaded, and nothing that would fill the disk for good
    assert not machine_code(tmp_path)
    assert run(TINY, NUMBA_CACHE_DIR=str(tmp_path)) == "well"


def test_a_cache_folder_that_vanishes(tmp_path):
    code = """
        import shutil, sys
        import numpy as np, sparsemap_np as sm
        sm.sparsemax([1.0, 2.0])
        shutil.rmtree(sys.argv[1])
        np.testing.assert_array_equal(sm.budget_bisect([1.0, 2.0, 0.5], 1), [0, 1, 0])
        print("well")
    """
    folder = tmp_path / "cache"
    assert run(code, str(folder), NUMBA_CACHE_DIR=str(folder)) == "well"


# One deliberate change in each kind of file that a kernel is made of: its own, one that this file
# uses, one that both use.  {old} is the function before the edit.
EDITS = {
    "_sparsemax.py": ("sparsemax_lanes", "args[0][0] = 7"),
    "_twosum.py": ("split_sum", "value = (value[0] - 1, value[1])"),
    "_centre.py": ("_side_by_side", "args[3][0] = 7"),
}


@pytest.mark.parametrize("where", ["NUMBA_CACHE_DIR", "package"])
def test_an_edited_kernel_never_runs_old_code(tmp_path, where):
    """An edit of any kernel source must show in the next process, and so must undoing it."""
    site = tmp_path / "site"
    site.mkdir()
    package = copy_of_the_package(site)
    env = {"PYTHONPATH": str(site), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    if where == "NUMBA_CACHE_DIR":
        env["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    code = """
        import sparsemap_np as sm
        print(sm.sparsemax([1.0, 1.0]).tolist(), sm.sparsemax_vjp([1.0, 0], [0.5, 0.5]).tolist())
    """
    fresh = run(code, cwd=tmp_path, **env)
    assert fresh == "[0.5, 0.5] [0.5, -0.5]"
    # one edit is enough to see the stamp work in the second kind of folder
    edits = EDITS.items() if where == "package" else list(EDITS.items())[1:2]
    for name, (function, change) in edits:
        path = package / "_kernels" / name
        text, stamp = path.read_text(), path.stat()
        assert function in text
        path.write_text(
            f"{text}\n\n_unedited = {function}\n\n\n@scalar\ndef {function}(*args):\n"
            f"    value = _unedited(*args)\n    {change}\n    return value\n"
        )
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # an upgrade may keep the date
        assert run(code, cwd=tmp_path, **env) != fresh, name
        path.write_text(text)
    assert run(code, cwd=tmp_path, **env) == fresh


# --------------------------------------------------------------------------- imports and devices
def test_the_import_compiles_nothing_and_loads_no_compiler():
    code = """
        import sys
        import sparsemap_np
        assert "numba" not in sys.modules and "llvmlite" not in sys.modules
        from sparsemap_np import sparsemax
        import numba
        from numba.core import event
        print("well")
    """
    assert run(code) == "well"


def test_loading_the_functions_compiles_nothing():
    code = """
        import numba
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, e): raise AssertionError(e)
            def on_end(self, e): pass

        event.register("numba:compile", Listener())
        event.register("numba:run_pass", Listener())
        import sparsemap_np
        from sparsemap_np import mappings, gradients, losses
        for name in sparsemap_np.__all__:
            getattr(sparsemap_np, name)
        print("well")
    """
    assert run(code) == "well"


def test_no_cuda_driver_is_needed():
    code = """
        everything()
        assert not any(m.split(".")[0] in ("cupy", "torch", "numba_cuda") for m in sys.modules)
        print("well")
    """
    hidden = {"CUDA_VISIBLE_DEVICES": "", "CUDA_HOME": None, "LD_LIBRARY_PATH": None}
    assert call(code, **hidden) == "well"


# --------------------------------------------------------------------------- compiled semantics
@pytest.mark.parametrize(
    "make", [np.asfortranarray, lambda a: a[:, ::2], lambda a: a[::-1], np.transpose]
)
def test_strided_input_and_cotangent(make):
    X = np.array([[0.3, 0.1, 0.4, 0.2], [1.0, 0.2, 0.9, 0.0]])
    view = make(X)
    assert not view.flags.c_contiguous
    plain = np.ascontiguousarray(view)
    P = sm.sparsemax(view)
    np.testing.assert_array_equal(P, sm.sparsemax(plain))
    np.testing.assert_array_equal(sm.sparsemax_vjp(view, P), sm.sparsemax_vjp(plain, P))


def test_read_only_input_and_cotangent():
    X = np.array([[0.3, 0.1, 0.4]])
    P = sm.sparsemax(X)
    dP = np.array([[1.0, -2.0, 0.5]])
    expected = sm.sparsemax_vjp(dP, P)
    for a in (X, P, dP):
        a.flags.writeable = False
    np.testing.assert_array_equal(sm.sparsemax(X), P)
    np.testing.assert_array_equal(sm.sparsemax_vjp(dP, P), expected)
    np.testing.assert_array_equal(X, [[0.3, 0.1, 0.4]])
