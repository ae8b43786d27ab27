"""Imports of a process: a command loads only the operators, passes and backends that the program needs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
"""
#: Modules that a command reports: modules of the project, the dialects of MLIR's bindings, and Triton.
REPORT = """
import sys
print(*(m for m in sys.modules if m.startswith(("oneflow.", "torch_mlir.dialects.", "triton"))), file=sys.stderr)
"""
OPT = "from oneflow.tools.oneflow_opt import main\nmain(['model.mlir', *ARGUMENTS])"
RUN = "from oneflow.tools.oneflow_run import main\nmain(['model.mlir', '--input', 'x=x.npy', '--input', 'w=w.npy'])"
EAGER = "import numpy as np, oneflow as flow\nx = flow.tensor(np.ones((2, 2), np.float32))\n(x + x).numpy()"
#: Modules that generate and run kernels for GPUs.
GPU = {
    "triton",
    "oneflow.lowering.triton.codegen",
    "oneflow.lowering.triton.fusion",
    "oneflow.lowering.triton.launch",
    "oneflow.lowering.triton.templates",
    "oneflow.runtime.cuda.executable",
}
#: Modules that compile programs for the CPU.
COMPILER = {
    "oneflow.lowering.llvm.emit_kernels",
    "oneflow.lowering.linalg.convert_oneflow_to_linalg",
    "oneflow.passes.canonicalize",
    "oneflow.dialect.ops.conv",
    "torch_mlir.dialects.linalg",
    "torch_mlir.dialects.llvm",
}


@pytest.fixture
def imports(tmp_path: Path):
    """The modules that a process imports which runs some code in a folder with a program."""
    (tmp_path / "model.mlir").write_text(PROGRAM)
    np.save(tmp_path / "x.npy", np.ones((4, 8), np.float32))
    np.save(tmp_path / "w.npy", np.ones((8, 2), np.float32))
    environment = {**os.environ, "ONEFLOW_CACHE_DIR": str(tmp_path / "cache")}

    def run(code: str, **names: object) -> set[str]:
        text = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + code + REPORT
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        modules = done.stderr.split()
        return {".".join(m.split(".")[: n + 1]) for m in modules for n in range(len(m.split(".")))}

    return run


def test_reading_a_program_loads_no_backend(imports) -> None:
    modules = imports(OPT, ARGUMENTS=[])
    assert "oneflow.dialect.ops.matmul" in modules
    assert not modules & {*GPU, *COMPILER, "oneflow.runtime", "oneflow.frontend", "oneflow.passes.autodiff"}


def test_a_pass_loads_its_module_only(imports) -> None:
    modules = imports(OPT, ARGUMENTS=["--oneflow-infer-types"])
    assert "oneflow.passes.infer_types" in modules
    assert not modules & {*GPU, *COMPILER, "oneflow.passes.infer_sbp"}


@pytest.mark.parametrize("code", [RUN, EAGER], ids=["oneflow-run", "eager"])
def test_a_run_on_the_cpu(imports, code: str) -> None:
    cold, cached = imports(code), imports(code)
    assert "oneflow.lowering.llvm.emit_kernels" in cold
    assert not cold & GPU
    assert not cached & {*GPU, *COMPILER}


def test_the_index_of_operators(imports) -> None:
    """Each family defines the operators of the index; otherwise a look-up would load all families."""
    imports("""
import importlib
from oneflow.dialect.operator_index import OPERATORS
from oneflow.dialect.record import REGISTRY
for family, names in OPERATORS.items():
    importlib.import_module(f"oneflow.dialect.ops.{family}")
    missing = set(names.split()) - REGISTRY._loaded.keys()
    assert not missing, (family, missing)
""")
