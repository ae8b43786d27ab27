"""One protocol for all executables: of the host, a device and ranks; and the frontend names no backend.

The types of `runtime.backends` are checked by mypy.
"""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.frontend.core.arrays import to_host
from oneflow.passes.sbp import annotations
from oneflow.runtime.backends import BACKENDS, RANKS
from oneflow.runtime.global_array import GlobalArray, Placement
from oneflow.runtime.protocol import Executable

ROOT = Path(__file__).parents[3]
UPDATE = """
func.func @main(%x: tensor<4x2xf32> {oneflow.donated = 0 : i64}, %y: tensor<4x2xf32>)
    -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = "oneflow.relu"(%y) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<4x2xf32>
}
"""
X, Y = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(-5, 3, dtype=np.float32).reshape(4, 2)


def on_host(module: ir.Module) -> Executable:
    return BACKENDS["cpu"].compile_program(module, "main")


def on_ranks(module: ir.Module) -> Executable:
    with module.context:
        annotations.write_mesh(module.operation, (2,))
    return RANKS.compile_program(module, "main", Placement("cpu", [0, 1]), {}, "greedy")


@pytest.mark.parametrize("compile_program, array", [(on_host, np.ndarray), (on_ranks, GlobalArray)])
def test_executables_are_used_alike(compile_program, array) -> None:
    executable = compile_program(read_module(UPDATE, create_context(REGISTRY), "update.mlir"))
    assert executable.array is array
    assert not executable.is_remote and not executable.is_size_specialized
    assert executable.last_run is None
    replayed: Any = executable.replay([X.copy(), Y])
    if replayed is not None:
        np.testing.assert_array_equal(np.asarray(to_host(replayed[0])), X + Y)
    assert executable.reads(0) and executable.reads(1)
    assert "oneflow.broadcast_add" in executable.ir("oneflow")
    total, positive = executable.run([X.copy(), Y])
    assert type(total) is type(positive) is array
    np.testing.assert_array_equal(to_host(total), X + Y)
    again, _ = executable.run([total, Y])
    assert again is total, "an argument that is updated in place is the result"
    np.testing.assert_array_equal(to_host(again), X + 2 * Y)
    assert executable.memory.arguments


def test_the_frontend_names_no_backend() -> None:
    """The linter sees imports alone; names of modules that are loaded lazily and imports for types count as well."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c["name"].startswith("The frontend names no backend"))
    assert {"oneflow.runtime.distributed", "oneflow.runtime.collectives"} <= set(contract["forbidden_modules"])
    texts = {path: path.read_text() for path in sorted((ROOT / "frontend").rglob("*.py"))}
    named = [
        (path.name, name) for path, text in texts.items() for name in contract["forbidden_modules"] if name in text
    ]
    assert not named
