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
    """Two lines of configuration are enough; nothing is written into the folder. The output of lit goes to a file."""
    (tmp_path / "lit.cfg.py").write_text("from oneflow.testing import lit_config\nlit_config.setup(config)\n")
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    report = tmp_path.parent / "report.json"
    environment = {**os.environ, "PYTHONPATH": str(Path(oneflow.__file__).parents[1])}
    command = [sys.executable, "-c", "from lit.main import main; main()", "-q", "-o", str(report), str(tmp_path)]
    with (tmp_path.parent / "output.txt").open("w") as output:
        subprocess.run(command, env=environment, stdout=output, stderr=output, check=False)
    tests = json.loads(report.read_text())["tests"]
    assert {t["name"].partition(" :: ")[0] for t in tests} == {tmp_path.name}
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


def test_the_example_is_a_suite_outside_of_the_repository(tmp_path: Path) -> None:
    """The suite of README.md: two lines of configuration, and a program with checks."""
    root = Path(__file__).parents[3]
    for file in (root / "examples/lit").iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    readme = (root / "README.md").read_text()
    text = (tmp_path / "lit.cfg.py").read_text()
    lines = [line.partition("  #")[0] for line in text.splitlines() if line]
    assert len(lines) == 2 and "\n".join(lines) in readme
    environment = {**os.environ, "PYTHONPATH": str(Path(oneflow.__file__).parents[1])}
    command = [sys.executable, "-c", "from lit.main import main; main()", "-v", str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"PASS: {tmp_path.name} :: double.mlir (1 of 1)" in done.stdout


def test_the_suite_of_a_checkout_tests_that_checkout(tmp_path: Path) -> None:
    """Neither an installed version nor an earlier entry of the path is used."""
    root = Path(__file__).parents[3]
    other = tmp_path / "installed" / "oneflow"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise ImportError('the wrong one')")
    test = root / "test/lit/tools/opt_help.mlir"
    command = [sys.executable, "-c", "from lit.main import main; main()", "-v", str(test)]
    environment = {**os.environ, "PYTHONPATH": str(other.parent)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "PASS: oneflow :: tools/opt_help.mlir" in done.stdout, done.stdout + done.stderr


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
def test_lines_that_count_as_checks(text: str, checked: bool) -> None:
    """Lines that count as checks."""
    assert has_check(text) is checked
