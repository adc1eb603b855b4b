"""The main job and the version report, as a user runs them."""

import os
import re
import subprocess
import sys

import sparsemap_np


def run(*arguments, **env):
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_main_job(tmp_path):
    # A cold cache, as on a fresh machine.
    job = run("-W", "error", "-m", "sparsemap_np", NUMBA_CACHE_DIR=str(tmp_path))
    assert job.returncode == 0, job.stderr
    for step, name in enumerate(("sparsemax", "entmax (alpha=1.5)", "logistic"), start=1):
        assert f"[{step}/3] fitting {name} ... done in" in job.stdout
    rows = re.findall(r"^(.{20}) +(0\.\d+) +([\d.]+) +([\d.]+) s$", job.stdout, flags=re.M)
    assert [name.strip() for name, *_ in rows] == ["sparsemax", "entmax (alpha=1.5)", "logistic"]
    support = [float(row[2]) for row in rows]
    assert all(float(row[1]) > 0.93 for row in rows)
    assert 1 < support[0] < support[1] < support[2] == 10
    assert re.search(r"digit \d  \{\d: 1\.00\}", job.stdout)
    assert re.search(r"digit \d  \{\d: 0\.\d\d, \d: 0\.\d\d", job.stdout)
    assert "scikit-learn" in job.stdout.splitlines()[-1]
    assert max(map(len, job.stdout.splitlines())) <= 100


def test_show_versions(capsys):
    assert sparsemap_np.show_versions() is None
    printed = capsys.readouterr().out
    for name in ("python", "numpy", "numba", "scikit-learn", "numba threads", "cuda"):
        assert re.search(rf"^ *{name}: \S", printed, flags=re.M), name


def test_show_versions_loads_no_driver():
    code = (
        "import sys, sparsemap_np; sparsemap_np.show_versions(); print('numba.cuda' in sys.modules)"
    )
    assert run("-c", code).stdout.splitlines()[-1] == "False"
