"""A user's folder as a lit suite, and the refusal of tests that check nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import oneflow
from oneflow.testing.lit_config import has_check

PROGRAM = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n"
TESTS = {
    "good.mlir": "// RUN: oneflow-opt %s | FileCheck %s\n// CHECK: func.func @f\n" + PROGRAM,
    "wrong.mlir": "// RUN: oneflow-opt %s | FileCheck %s\n// CHECK: func.func @g\n" + PROGRAM,
    "unchecked.mlir": "// RUN: oneflow-opt %s\n" + PROGRAM,
    "good.py": "# RUN: %python %s | FileCheck %s\n# CHECK: 4\nprint(2 + 2)\n",
    "pipe.mlir": "// RUN: not oneflow-opt %s | FileCheck %s\n// CHECK: nothing\nnonsense\n",
}


def test_user_folder(tmp_path: Path) -> None:
    """Two lines of configuration are enough; nothing is written into the folder."""
    (tmp_path / "lit.cfg.py").write_text("from oneflow.testing import lit_config\nlit_config.setup(config)\n")
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    report = tmp_path.parent / "report.json"
    environment = {**os.environ, "PYTHONPATH": str(Path(oneflow.__file__).parents[1])}
    command = [sys.executable, "-c", "from lit.main import main; main()", "-q", "-o", str(report), str(tmp_path)]
    subprocess.run(command, env=environment, capture_output=True, check=False)
    tests = json.loads(report.read_text())["tests"]
    codes = {t["name"].partition(" :: ")[2]: t["code"] for t in tests}
    assert codes == {
        "good.mlir": "PASS",
        "wrong.mlir": "FAIL",
        "unchecked.mlir": "FAIL",
        "good.py": "PASS",
        "pipe.mlir": "FAIL",
    }
    assert "the test checks nothing" in next(t["output"] for t in tests if t["name"].endswith("unchecked.mlir"))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["lit.cfg.py", *TESTS])


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("// RUN: oneflow-opt %s", False),
        ("// RUN: oneflow-opt %s | FileCheck %s", False),
        ("// RUN: oneflow-opt %s | FileCheck %s\n// CHECK-LABEL: f", True),
        ("// RUN: oneflow-opt %s\n// CHECK: f", False),
        ("// RUN: oneflow-opt %s | FileCheck %s --check-prefix=LAW\n// LAW-NOT: f", True),
        ("// RUN: oneflow-opt %s --verify-diagnostics", False),
        ("// RUN: oneflow-opt %s --verify-diagnostics\n// expected-error {{x}}", True),
        ("// RUN: not oneflow-opt %s", False),
        ("// RUN: not oneflow-opt %s 2>&1 | FileCheck %s\n// CHECK: expected", True),
        ("// RUN: not diff %t %s", True),
        ("// RUN: oneflow-opt %s > %t && diff %t %s", True),
        ("// RUN: oneflow-opt %s\n// CHECKS: none because it must only run", True),
    ],
)
def test_has_check(text: str, checked: bool) -> None:
    """What counts as a check."""
    assert has_check(text) is checked
