"""OneFlow's documented names: missing names have a reason; the scripts that try OneFlow's examples and programs."""

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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


#: Programs in OneFlow's spelling, and the rows of the programs in the table.
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


#: Texts of examples, and the outcomes.
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
    lines = [">>> prune.is_pruned is is_pruned", "True", ">>> flow.ones(2, 1)"]
    of_module = "\n".join([*lines, "tensor([[1.],", "   ... [1.]], dtype=oneflow.float32)"])
    assert script["try_example"](script["Example"]("python/oneflow/nn/utils/prune.py:1", of_module)).kind == "passed"


#: A checkout's harness and one of its test modules, and the rows of the table.
HARNESS = """
def autotest(n=20, check_graph=True):
    def decorate(function):
        def repeated(self):
            assert n == 1 and not check_graph
            function(self)
        return repeated
    return decorate

class all_sbp:
    def _calc_value(self):
        return [1, 2, 3]
"""
TESTS = """
import os, unittest
import oneflow as flow
import oneflow.unittest
from oneflow.test_utils.automated_test_util import all_sbp, autotest

@flow.unittest.skip_unless_1n1d()
class TestA(flow.unittest.TestCase):
    @autotest(n=5)
    def test_a(self):
        self.assertTrue(flow._oneflow_internal.Tensor is flow.Tensor)
        self.assertEqual(len(all_sbp()._calc_value()), 2)
    def test_b(self):
        self.assertTrue(False)
    def test_c(self):
        with self.assertRaises(ValueError) as raised:
            flow.tensor([1.0]).reshape(2)
        self.assertTrue("1 element is invalid for shape [2]" in str(raised.exception))
        raise ValueError("12 of 34")
    @flow.unittest.skip_unless_1n2d()
    def test_d(self):
        pass
    def test_e(self):
        os.kill(os.getpid(), 9)
"""
ROWS = {
    "modules/test_a": "1 | 3 | 1 | AssertionError: other values; ValueError: N of N; crash: Killed",
    "modules/test_b": "0 | 2 | 0 | 2 x ModuleNotFoundError: No module named 'nothing'",
}


#: Messages here, texts of OneFlow, and whether the messages state the same facts.
MESSAGES = [
    ("a.py:7: expected a dimension in [-2, 2) of tensor<2x4xf32>, got 3\n    f(x, 3)",
     "Dimension out of range (expected to be in range of [-2, 1], but got 3)", True),
    ("expected a dimension in [-2, 2) of tensor<2x4xf32>, got 5", "Dimension out of range, got 3", False),
    ("expected a.b of tensor<4xi64>, got tensor<4xf32>", "The dtype must be int64, but found float32", True),
    ("expected two vectors for dot, got tensor<2x2xi64>", "1D tensors expected", True),
    ("expected operands that broadcast, got shapes 8x10, 8", "The size (10) must match the size (8)", True),
    ("f() takes 2 positional arguments but 3 were given", "3 positions are expected", False),
    ("a.py:7: x was updated\n    f(reduction=1)", "Reduction should be none, sum or mean", False),
]  # fmt: skip


@pytest.mark.parametrize(("message", "text", "states"), MESSAGES)
def test_messages_are_compared_by_their_facts(monkeypatch, message, text, states):
    monkeypatch.syspath_prepend(str(FOLDER))
    stated = runpy.run_path(str(FOLDER / "messages.py"))["Message"](message)
    if states:
        assert text in stated
    else:
        with pytest.raises(AssertionError, match="expected the facts of"):
            assert text in stated


def test_tests_of_a_checkout(tmp_path):
    harness = tmp_path / "python/oneflow/test_utils/automated_test_util.py"
    folder = tmp_path / "python/oneflow/test/modules"
    for path in (harness.parent, folder):
        path.mkdir(parents=True)
    harness.write_text(HARNESS)
    (folder / "test_a.py").write_text(TESTS)
    (folder / "test_b.py").write_text("import nothing\ndef test_a(): pass\nclass A:\n    def test_b(self): pass\n")
    options = ["--layouts", "2", "--only", "test_[ab]"]
    command = [sys.executable, str(FOLDER / "oneflow_tests.py"), str(tmp_path), *options]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[2:4] == [f"| {module} | {row} |" for module, row in ROWS.items()]
    assert lines[5:7] == [
        "2 modules: passed 1, failed 5, skipped 1",
        "2 x ModuleNotFoundError: No module named 'nothing' | modules/test_b:test_a modules/test_b:test_b",
    ]


def test_samples_of_pytorch_are_compared():
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    script = runpy.run_path(str(FOLDER / "torch_samples.py"))
    wrong = SimpleNamespace(
        sample_input=SimpleNamespace(input=torch.ones(2), args=(5,), kwargs={}), error_regex="dim 5"
    )
    x = torch.tensor([1, 2.0], requires_grad=True)
    sample = SimpleNamespace(input=x, args=(0,), kwargs={"dtype": torch.float64})
    op = SimpleNamespace(
        name="nn.functional.softmin", variant_test_name="", op=torch.nn.functional.softmin, supports_autograd=True,
        error_inputs_func=True, error_inputs=lambda device: [wrong],
        sample_inputs=lambda device, dtype, requires_grad: [sample],
    )  # fmt: skip
    function = script["counterpart"](op.name)
    rows = [script["run"](op, f, torch.float32, 1) for f in (function, lambda x, *_, **__: x.double() * 2)]
    assert [(r.equal, r.with_gradients, r.refused) for r in rows] == [(1, 1, 1), (0, 0, 0)]
    assert dict(rows[1].different) == {"result of other values": 1, "not refused: dim N": 1}
    assert script["counterpart"]("nothing") is None and script["counterpart"]("nothing.more") is None
