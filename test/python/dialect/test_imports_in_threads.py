"""A thread that asks for a pass, an operator or a module that another thread imports waits for the whole module."""

from __future__ import annotations

import importlib
import sys
import threading
from types import SimpleNamespace

import pytest

from oneflow.dialect.lazy import lazy
from oneflow.dialect.record import Registry
from oneflow.passes.registry import PassTable

# Each module registers under its name, lets the test continue, and has a last line that its functions need.
MODULES = {
    "late": """
import test_pause as pause
from oneflow.passes.base import Pass
class Late(Pass):
    '''A pass.'''
    name = "oneflow-late"
    def run(self, module, registry):
        return LAST
pause.table["oneflow-late"] = Late
pause.pause()
LAST = 3
""",
    "operator": """
import test_pause as pause
from oneflow.dialect.elementwise import elementwise
elementwise(
    "late(x) -> y", "x.", registry=pause.registry, scalar=lambda x: x, reference=lambda x: LAST, linear="joint",
)
pause.pause()
LAST = 3
""",
    "module": """
import test_pause as pause
FIRST = lambda: LAST
pause.pause()
LAST = 3
""",
}


@pytest.fixture
def pause(monkeypatch, tmp_path):
    """The module `test_pause`, with which a module under test stops until `resume`."""
    registered, resume = threading.Event(), threading.Event()

    def stop() -> None:
        registered.set()
        assert resume.wait(20)

    pause = SimpleNamespace(table=PassTable(), pause=stop, registered=registered, resume=resume)
    pause.table.declare("late_families", ["late"])
    pause.registry = Registry(families="late_families", index={"late": "operator"})
    monkeypatch.setitem(sys.modules, "test_pause", pause)
    folder = tmp_path / "late_families"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield pause
    for name in [name for name in sys.modules if name.partition(".")[0] == "late_families"]:
        del sys.modules[name]


def _call_pass(pause):
    return pause.table["oneflow-late"].run(None, None, None)


def _call_operator(pause):
    return pause.registry["late"].reference(None)


def _call_module(pause):
    return lazy("late_families.module").FIRST()


CALLS = {"late": _call_pass, "operator": _call_operator, "module": _call_module}


@pytest.mark.parametrize("module", MODULES)
def test_a_thread_waits_until_a_module_is_imported(pause, module):
    found: list[object] = []

    def ask() -> None:
        try:
            found.append(CALLS[module](pause))
        except Exception as error:
            found.append(error)

    first = threading.Thread(target=importlib.import_module, args=[f"late_families.{module}"])
    first.start()
    assert pause.registered.wait(20)
    second = threading.Thread(target=ask)
    second.start()
    # A thread that does not wait has its answer by then.
    second.join(0.2)
    pause.resume.set()
    first.join()
    second.join()
    assert found == [3]
