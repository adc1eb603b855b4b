"""The recipes of docs/gpu.md, run on the processor: the same lines serve both."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sparsemap_np as sm

TEXT = (Path(__file__).parent.parent / "docs" / "gpu.md").read_text()


def recipe(library):
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
    (code,) = (block for block in blocks if block.startswith(f"import {library}"))
    return code


def test_cupy_recipe_with_numpy_in_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", np)
    names = {}
    exec(recipe("cupy"), names)
    X = names["X"]
    loss, dX = sm.entmax15_loss(X, np.array([1, 0]), reduction="mean", return_grad=True)
    assert names["loss"] == loss
    np.testing.assert_array_equal(names["dX"], dX)
    assert names["dX_of_entropy"].shape == X.shape


def test_torch_recipe_on_cpu_tensors():
    torch = pytest.importorskip("torch", reason="torch is in the bench extra, too large for tests")
    names = {}
    exec(recipe("torch"), names)
    x, p, function = names["x"], names["p"], names["Entmax"]
    np.testing.assert_allclose(p.detach().numpy(), [[0, 0.3260, 0.6740]], atol=1e-4)
    J = sm.entmax15_jacobian(p.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy()[0], J[0, 1])
    z = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    for alpha in (1.0, 1.3, 2.0):
        assert torch.autograd.gradcheck(lambda t, a=alpha: function.apply(t, a), (z,), atol=1e-4)


def test_no_figure_is_passed_off_as_measured():
    assert "No figure on this page was measured on a GPU" in TEXT
