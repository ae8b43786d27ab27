"""A fixed part of PyTorch's own samples of operators; `benchmarks/torch_operators.py` runs all."""

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytest.importorskip("expecttest", reason="PyTorch's samples of operators need it")

pytestmark = pytest.mark.filterwarnings("ignore")

SCRIPT = Path(__file__).parents[4] / "benchmarks/torch_operators.py"
#: Operators of every family that no model of these tests has.
OPERATORS = (
    "einsum index_put cumprod diagonal nn.functional.interpolate nn.functional.nll_loss nn.functional.group_norm "
    "scatter take_along_dim unfold index_reduce put renorm tensordot logaddexp2".split()
)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("torch_operators", SCRIPT)
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", OPERATORS)
def test_values_and_gradients_are_those_of_pytorch(script, name):
    op = next(op for op in script.operators(torch.float32) if op.name == name)
    row = script.measure(op, torch.float32, 1)
    assert row.equal == row.with_gradients == 1, str(row)


def test_the_comparison_detects_wrong_values(script):
    assert "not close" in script.difference(torch.ones(2), torch.tensor([1.0, 1.1]))
