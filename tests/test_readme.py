"""What the README shows must run, and show what it says."""

import doctest
import importlib.util
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def python_blocks():
    """Yield (line number, source) of each fenced Python block."""
    for match in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        yield TEXT.count("\n", 0, match.start(1)), match.group(1)


def run_block(first_line, source, namespace):
    if source.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(
            source, namespace, f"README, line {first_line + 1}", str(README), first_line
        )
        # A doctest runs in a copy of the namespace; later blocks need its names.
        report = []
        result = doctest.DocTestRunner(verbose=False).run(
            test, out=report.append, clear_globs=False
        )
        namespace.update(test.globs)
        assert result.failed == 0, "".join(report)
    else:
        # The empty lines make a traceback point at the README's own line.
        exec(compile("\n" * first_line + source, str(README), "exec"), namespace)


def test_examples_run_in_order(capsys):
    namespace = {}
    blocks = [b for b in python_blocks() if "import torch" not in b[1]]
    assert len(blocks) >= 5
    for first_line, source in blocks:
        run_block(first_line, source, namespace)
    assert capsys.readouterr().out.startswith("accuracy 0.9")
    P = namespace["P"]
    assert 1 < (P > 0).sum(axis=1).mean() < 2
    # The filter of the notebook example finds rows, and not all of them.
    assert 0 < len(namespace["unsure"]) < len(P)


def stand_in_for_torch():
    """Make the little of torch that the recipe calls, for machines that have none."""

    class Tensor(np.ndarray):
        def detach(self):
            return self

        def numpy(self):
            return self.view(np.ndarray)

    torch = types.ModuleType("torch")
    torch.autograd = types.SimpleNamespace(Function=object)
    torch.from_numpy = lambda array: array.view(Tensor)
    return torch


def test_torch_recipe(monkeypatch):
    """Run forward and backward of the recipe, on torch itself where it is installed."""
    if importlib.util.find_spec("torch") is None:
        monkeypatch.setitem(sys.modules, "torch", stand_in_for_torch())
    import torch

    namespace = {}
    (block,) = [b for b in python_blocks() if "import torch" in b[1]]
    run_block(*block, namespace)
    ctx = types.SimpleNamespace()
    ctx.save_for_backward = lambda *tensors: setattr(ctx, "saved_tensors", tensors)
    recipe = namespace["Entmax15"]

    p = recipe.forward(ctx, torch.from_numpy(np.array([[-2.0, 0.0, 0.5]])))
    np.testing.assert_allclose(p.numpy(), [[0, 0.3260, 0.6740]], atol=5e-5)
    dx = recipe.backward(ctx, torch.from_numpy(np.array([[1.0, 1.0, 0.0]]))).numpy()
    # s v - s (s . v) / sum(s) with slope s = sqrt(p), written out for v = (1, 1, 0).
    s = np.sqrt(p.numpy())
    expected = s * [[1, 1, 0]] - s * s[0, 1] / s.sum()
    np.testing.assert_allclose(dx, expected, rtol=1e-12, atol=1e-15)


def test_test_command_is_the_one_of_the_gate():
    command = "pip install '.[test]' && python -m pytest"
    assert f"\n{command}\n" in TEXT
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_main_command_is_printed():
    assert "\npip install . && python -m sparsemap_np\n" in TEXT


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT))), ids=str
)
def test_links_into_the_repository_lead_somewhere(target):
    assert (ROOT / target).is_file()
