"""OneFlow's documented names: what is missing has a reason; the script that tries documented examples."""

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
