"""The project's own rules of size and naming, checked on every module."""

import ast
import importlib.util
import re
import statistics
import tomllib
import warnings
from pathlib import Path

import pytest

from oneflow import testing
from oneflow.dialect import ops  # noqa: F401  (registers the operators)
from oneflow.dialect.record import REGISTRY
from oneflow.lowering import pipelines  # noqa: F401  (registers the passes)
from oneflow.passes.registry import PASSES

ROOT = Path(__file__).parents[2]
FOLDERS = ("dialect", "passes", "lowering", "runtime", "frontend", "tools", "testing")
MODULES = sorted(p for f in FOLDERS for p in (ROOT / f).rglob("*.py"))
#: Modules with more lines are reported.
LONG_MODULE_LINES = 600
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_modules_are_documented():
    bare = [name(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not bare, f"modules without a docstring: {bare}"


@pytest.mark.filterwarnings("default:long modules")
def test_long_modules_are_reported():
    """A module is as long as its one job: a long module is a warning, which asks whether the module has two jobs."""
    lengths = {name(path): len(path.read_text().splitlines()) for path in MODULES}
    long = {path: lines for path, lines in lengths.items() if lines > LONG_MODULE_LINES}
    if long:
        warnings.warn(f"long modules: {long}; does each have one job?", stacklevel=1)


@pytest.mark.parametrize(
    "command_line_name", sorted(n for n, p in PASSES.items() if p.__module__.startswith("oneflow."))
)
def test_a_pass_is_in_the_module_of_its_name(command_line_name):
    module = PASSES[command_line_name].__module__.rsplit(".", 1)[-1]
    assert module == command_line_name.removeprefix("oneflow-").replace("-", "_")


def test_functions_are_short():
    lengths = [
        (node.end_lineno or 0) - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, FUNCTIONS)
    ]
    assert statistics.median(lengths) <= 8
    assert statistics.quantiles(lengths, n=10)[-1] <= 40


#: Functions that may nest more deeply, with the reason.
DEEP = {
    "lowering/kernels/graph.py: order": "a search with its queue",
    "lowering/kernels/nodes.py: _sizes": "forms of uses of nodes",
    "lowering/kernels/nodes.py: loop_size": "forms of uses of nodes",
    "lowering/kernels/share_kernels.py: _calls": "operands of operations of functions",
    "lowering/llvm/iteration_space.py: _size_of": "forms of uses of nodes",
    "passes/sbp/auto.py: _add_transfers": "pairs of signatures of an edge",
    "lowering/triton/codegen/kernel.py: loop_sizes": "forms of uses of operations",
}
NESTS = (ast.If, ast.For, ast.While, ast.Try, ast.Match)


def nesting(node, depth=0):
    """The depth of nested branches and loops; `elif` is no deeper than `if`."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, nesting(child, depth + (isinstance(child, NESTS) and not is_elif)))
    return deepest


def test_nesting_is_shallow():
    deep = {
        f"{name(path)}: {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, FUNCTIONS) and nesting(node) > 3
    }
    assert deep <= DEEP.keys(), f"nested more than 3 deep: {deep - DEEP.keys()}; return early, or name a part"
    assert DEEP.keys() <= deep, f"not deep any more: {DEEP.keys() - deep}"


def test_test_modules_have_names_of_their_own():
    """pytest imports test files by name alone: of two files with one name, pytest collects one."""
    names = [p.name for p in (ROOT / "test/python").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_the_licence_is_stated_once():
    """Sources have no license headers: LICENSE and the SPDX expression of pyproject.toml hold for all."""
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    headed = [name(p) for p in MODULES if "SPDX-License-Identifier" in p.read_text()]
    assert not headed, f"licence headers: {headed}"


def test_hooks_are_what_ci_runs():
    """The hooks before a commit, the commands of CI and the pinned versions are the same."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    commands = [line.removeprefix(".venv/bin/") for line in (ROOT / ".ci/run").read_text().splitlines()]
    entries = [line.partition("entry: ")[2] for line in hooks.splitlines() if "entry: " in line]
    missing = [entry for entry in entries if not any(c.startswith(entry.split(" --")[0]) for c in commands)]
    assert entries and not missing, f"CI does not run {missing}"


def test_public_functions_are_documented():
    """Rows of tables are exempt: a record documents its operator, and a builder means its ATen operator."""
    bare = [
        f"{name(path)}: {node.name}"
        for path in MODULES
        if not {"ops", "aten"} & set(path.parts)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not bare, f"public names without a docstring: {bare}"


def test_emitters_of_the_cpu_are_composed():
    """A class of `lowering/llvm` derives from at most one other class of the folder."""
    paths = [path for path in MODULES if name(path).startswith("lowering/llvm/")]
    classes = [n for path in paths for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]
    bases = {c.name: [b.id for b in c.bases if isinstance(b, ast.Name)] for c in classes}

    def depth(of):
        return max((1 + depth(base) for base in bases[of] if base in bases), default=0)

    deep = [c for c in bases if depth(c) > 1]
    assert not deep, f"chains of classes: {deep}; give a class the other classes as fields"


#: The folders of `lowering` that may name operators.
NAMING = ("lowering/triton/fusion/", "lowering/triton/templates/")
#: Names of operators that are names of functions of numbers, kinds of memory, or forms of control flow, as well.
WORDS = frozenset(
    """abs atan2 cast ceil constant cos expm1 floor floordiv log1p pow reciprocal rint rsqrt scan sin sqrt tan
    trunc""".split()
)


def named_operators(path):
    """The operators that string constants of a module name, documentation aside."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    documented = [n for n in nodes if isinstance(n, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(n)]
    docstrings = {id(n.body[0].value) for n in documented}  # type: ignore[attr-defined]
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and id(n) not in docstrings}
    words = {t.removeprefix("oneflow.") for t in texts if isinstance(t, str)} - WORDS
    return words & {record.name for record in REGISTRY}


def test_mechanisms_name_no_operator():
    modules = [path for path in MODULES if name(path).startswith("lowering/")]
    naming = {name(path): found for path in modules if (found := named_operators(path))}
    assert any(path.startswith(NAMING[0]) for path in naming) and any(path.startswith(NAMING[1]) for path in naming)
    others = {path: found for path, found in naming.items() if not path.startswith(NAMING)}
    assert not others, f"modules that name operators: {others}; ask the record, or move the module to {NAMING}"


#: The modules that use the text of a kernel or a program, and the purpose: kernels are values, printed once.
TEXT_USERS = {
    "lowering/triton/launch/program.py": "a program for people",
    "runtime/cuda/compile_workers.py": "longer kernels are compiled first",
    "runtime/cuda/compiler.py": "Triton takes a file",
    "runtime/cuda/dump.py": "files for people",
    "runtime/cuda/executable.py": "the text of the program",
    "runtime/cuda/host.py": "a kernel of the host is MLIR text",
}
#: The modules of these folders that use regular expressions, and the purpose.
EXPRESSION_USERS = {"runtime/cuda/ptx.py": "PTX is the text of the compiler"}


def test_no_stage_reads_the_source_of_a_kernel():
    """Stages read the fields of `Source`; `Source.text` is for Triton and for people."""
    folders = ("lowering/kernels/", "lowering/triton/", "runtime/cuda/")
    trees = {name(p): list(ast.walk(ast.parse(p.read_text()))) for p in MODULES if name(p).startswith(folders)}
    calls = {id(node.func) for nodes in trees.values() for node in nodes if isinstance(node, ast.Call)}
    texts = {
        path for path, nodes in trees.items() for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "text" and id(node) not in calls
    }  # fmt: skip
    imports = {
        path for path, nodes in trees.items() for node in nodes
        if isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names)
    }  # fmt: skip
    assert texts == TEXT_USERS.keys() and imports == EXPRESSION_USERS.keys()


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


def test_the_frontend_loads_no_backend_by_name():
    """The linter checks imports; this test checks modules that are loaded later by name."""
    backends = (
        "oneflow.runtime.cuda",
        "oneflow.runtime.executable",
        "oneflow.lowering.triton",
        "oneflow.lowering.llvm",
    )
    named = {
        name(path): node.value
        for path in MODULES
        if name(path).startswith("frontend/")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and str(node.value).startswith(backends)
    }
    assert not named, f"{named}: ask runtime.backends for a backend"


def _loaded(node):
    """The modules that a call of `importlib.import_module` loads, as far as literal text names the modules."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")):
        return ""
    return next((str(c.value) for c in ast.walk(node.args[0]) if isinstance(c, ast.Constant)), "")


def test_modules_that_are_imported_late_exist():
    """`lazy("oneflow...")` names modules in strings, which no import error and no type checker reports."""
    texts = [path.read_text() for path in MODULES]
    names = {name for text in texts for name in re.findall(r'\blazy\("(oneflow\.[\w.]+)"\)', text)}
    assert len(names) > 10 and not [name for name in sorted(names) if importlib.util.find_spec(name) is None]
    assert all(hasattr(testing, name) for name in testing._HOMES)


#: Modules that name modules of later layers, and why: the names are not imported there.
LATER_LAYERS = {
    "dialect/mypy_plugin.py": "mypy gives the plugin the name of a decorator",
    "testing/lit_config.py": "commands of RUN lines are processes of their own",
}


def test_modules_that_are_imported_late_are_in_earlier_layers():
    """The linter reads import statements; names of modules in strings keep the direction of imports as well."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c["name"] == "Imports go one way")
    order = [layer.removeprefix("oneflow.") for layer in contract["layers"]]
    later: dict[str, str] = {}
    for path in MODULES:
        own = order.index(name(path).split("/")[0])
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            named = re.fullmatch(r"oneflow\.(\w+)\.[\w.]+", text) if isinstance(text, str) else None
            if named and named[1] in order[:own]:
                later[name(path)] = named[0]
    assert later.keys() == LATER_LAYERS.keys(), f"modules that name modules of later layers: {later}"


def names_of_lazy_modules() -> set[tuple[str, str]]:
    """The names that modules read of modules that are imported late."""
    found = set()
    for path in MODULES:
        text = path.read_text()
        late = dict(re.findall(r'^(\w+)(?:: Any)? = lazy\("(oneflow\.[\w.]+)"\)', text, re.MULTILINE))
        for node in ast.walk(ast.parse(text)) if late else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in late:
                found.add((late[node.value.id], node.attr))
    return found


@pytest.mark.parametrize(("module", "name"), sorted(names_of_lazy_modules()))
def test_names_of_modules_that_are_imported_late_exist(module, name):
    assert hasattr(importlib.import_module(module), name)
