"""The project's own rules of size and naming, checked on every module."""

import ast
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dialect", "passes", "lowering", "runtime", "frontend", "tools", "testing")
MODULES = sorted(p for f in FOLDERS for p in (ROOT / f).rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_module_is_documented_and_short(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), f"{name(path)} has no docstring"
    assert len(text.splitlines()) <= 400, f"{name(path)} has {len(text.splitlines())} lines, at most 400 are allowed"


def test_functions_are_short():
    lengths = [
        node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, FUNCTIONS)
    ]
    assert statistics.median(lengths) <= 8
    assert statistics.quantiles(lengths, n=10)[-1] <= 40


def test_public_functions_are_documented():
    bare = [
        f"{name(path)}: {node.name}"
        for path in MODULES
        if "ops" not in path.parts
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not bare, f"public names without a docstring: {bare}"


@pytest.mark.parametrize(
    ("package", "home"), [("triton", "runtime/cuda/compiler.py"), ("cuda", "runtime/cuda/driver.py")]
)
def test_one_module_loads_a_gpu_package(package, home):
    homes = [
        name(path)
        for path in MODULES
        if any(_loaded(node).split(".")[0] == package for node in ast.walk(ast.parse(path.read_text())))
    ]
    assert homes == [home], f"{package} is loaded in {homes}; take it from {home}"


def _loaded(node):
    """What a call of `importlib.import_module` loads, as far as its text says it."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")):
        return ""
    return next((str(c.value) for c in ast.walk(node.args[0]) if isinstance(c, ast.Constant)), "")
