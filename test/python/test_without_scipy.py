"""A base installation without SciPy: all of README's Python, constants, Triton kernels on the host, and SBP by
elimination.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oneflow.dialect.evaluate import UNARY

ROOT = Path(__file__).parents[2]
BLOCKED = """
import sys
sys.modules["scipy"] = None
"""
CONSTANTS = """
import numpy as np
import oneflow as flow

x = np.linspace(-2, 2, 5)
expected = 1 / (1 + np.exp(-x))
folded = flow.compile(lambda: flow.sigmoid(flow.tensor(x)))
np.testing.assert_allclose(folded(), expected, rtol=1e-12)
np.testing.assert_allclose(flow.compile(flow.sigmoid)(x), expected, rtol=1e-12)


@flow.elementwise("t_bell(x) -> y")
def t_bell(x):
    return flow.scalar.erf(x)


np.testing.assert_allclose(flow.ops.t_bell(x).numpy()[4], 0.99532226501895)
try:
    flow.dialect.record.REGISTRY["sigmoid"].reference(x)
except ImportError as error:
    assert "expected SciPy" in str(error) and "pip install 'oneflow-mlir[sbp]'" in str(error)
else:
    raise SystemExit("the reference of sigmoid is SciPy's")
"""
LAYOUTS = """
import sys, warnings
from oneflow.tools import oneflow_opt

warnings.simplefilter("error" if sys.argv[1] == "greedy" else "always")
sys.exit(oneflow_opt.main([sys.argv[2], "--oneflow-infer-types", f"--oneflow-infer-sbp=strategy={sys.argv[1]}"]))
"""
PROGRAM = """module attributes {oneflow.mesh = array<i64: 2>} {
func.func @main(%x: tensor<8x4xf32> {oneflow.nd_sbp = ["S(0)"]}, %w: tensor<4x6xf32>) -> tensor<8x6xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
}"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program in which SciPy cannot be imported."""
    command = [sys.executable, "-c", BLOCKED + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_python_of_the_readme_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text("\n".join([BLOCKED, *blocks]))
    found = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) > 4


def test_constants_and_references():
    found = run(CONSTANTS)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
def test_layouts_are_chosen(tmp_path, strategy):
    (tmp_path / "p.mlir").write_text(PROGRAM)
    found = run(LAYOUTS, strategy, str(tmp_path / "p.mlir"))
    assert found.returncode == 0, found.stderr
    assert re.search(r"oneflow.matmul.*oneflow.out_nd_sbp = \[\[#sbp.split<0", found.stdout), found.stdout
    assert ("layouts are chosen by elimination" in found.stderr) == (strategy == "auto")


def test_triton_kernels_are_interpreted():
    found = run("import oneflow.runtime.user_ops.kernel_interpreter")
    assert found.returncode == 0, found.stderr


def test_error_functions_are_those_of_the_library():
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-6, 6, 1001)
    for name in ("erf", "erfc"):
        np.testing.assert_allclose(UNARY[name](x), getattr(special, name)(x), rtol=1e-14)
        assert UNARY[name](x.astype(np.float32)).dtype == np.float32
    assert UNARY["erf"](np.empty((0, 2))).shape == (0, 2)
