"""OneFlow's documented names: what is missing has a reason; the scripts that try OneFlow's examples and programs."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "conformance"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", ["oneflow_docs.py"])
    return runpy.run_path(str(FOLDER / "oneflow_docs.py"))


def test_names_that_are_missing_have_a_reason(script):
    names = script["names"]
    missing = [n for of_page in names.documented().values() for n in of_page if not names.resolves(n)]
    assert [n for n in missing if names.reason(n) is None] == []
    assert sum(map(len, names.documented().values())) - len(missing) > 880


#: Programs in OneFlow's spelling, and their rows in the table.
PROGRAMS = {
    "a.mlir": (
        """
        oneflow.job @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
          %w = "oneflow.variable"() {device_tag = "cpu", op_name = "w", parallel = #sbp.parallel<[] -> [#sbp.B]>}
            : () -> tensor<4x4xf32>
          %0 = "oneflow.add_n2"(%x, %w) {device_tag = "cpu"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
          oneflow.return %0 : tensor<4x4xf32>
        }
        func.func @g(%x: tensor<4xf32>) { %0 = "oneflow.relu"(%x) {no = 1} : (tensor<4xf32>) -> tensor<4xf32> return }
        func.func @h() { return }
        """,
        "in part | 1 of 2 | parse and verify: oneflow.relu: unknown attribute 'no'; it has none;"
        " 1 without operators of OneFlow",
    ),
    "b.mlir": ("// RUN: nothing\n", "no program |  | only comments, which run a command"),
    "c.mlir": (
        '"okm.a"() : () -> ()\n',
        'refused |  | line 1: "okm.a": the dialect okm holds the memory of OneFlow\'s',
    ),
    "d.mlir": ("func.func @f() { return }", "none of OneFlow's | 0 of 0 | 1 without operators of OneFlow"),
    "e.mlir": ("module { arith.maxf }", "refused |  | MLIR's parser: custom op 'arith.maxf' is unknown"),
}


def test_programs_of_a_checkout(tmp_path):
    for name, (text, _) in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    rows = runpy.run_path(str(FOLDER / "oneflow_mlir.py"))["report"](tmp_path).splitlines()[2:]
    for row, (name, (_, wanted)) in zip(rows, PROGRAMS.items(), strict=False):
        assert row.startswith(f"| {name} | {wanted}")
    assert rows[-1] == "refused: 2, in part: 1, no program: 1, none of OneFlow's: 1"


#: Texts of examples, and what becomes of them.
EXAMPLES = {
    "passed": ">>> flow.tensor([1, 2.00001])\ntensor([1., 2.], dtype=oneflow.float32)\n>>> flow.ones(2)\n",
    "other output": ">>> flow.ones(1)\ntensor([2.], dtype=oneflow.float32)\n",
    "missing name": ">>> flow.nothing(1)\n",
    "error": ">>> 1 / 0\n",
    "crash": ">>> import os\n>>> os.kill(os.getpid(), 9)\n",
    "skipped by its own marks": ">>> 1  # doctest: +SKIP\n2\n",
}


def test_examples_and_names_of_a_checkout(script, tmp_path):
    (tmp_path / "docs/source").mkdir(parents=True)
    (tmp_path / "docs/source/page.rst").write_text(
        ".. currentmodule:: oneflow.nn\n.. autosummary::\n    :nosignatures:\n\n    Linear\n    oneflow.nothing\n\n"
        "Text\n.. autofunction:: relu\n"
    )
    (tmp_path / "python/oneflow").mkdir(parents=True)
    sources = [f"def f{i}():\n    {text!r}\n" for i, text in enumerate(EXAMPLES.values())]
    (tmp_path / "python/oneflow/a.py").write_text("".join(sources))
    assert script["documented_names"](tmp_path) == {
        "page": ["oneflow.nn.Linear", "oneflow.nothing", "oneflow.nn.relu"]
    }
    outcomes = [script["try_example"](e) for e in script["documented_examples"](tmp_path)]
    assert [o.kind for o in outcomes] == list(EXAMPLES)
    there = script["Example"]("a.py:1", ">>> flow.tensor([1.0]).cuda().device\ndevice(type='cuda', index=0)\n")
    assert [script["try_example"](there, devices).kind for devices in (0, 1)] == ["error", "passed"]
