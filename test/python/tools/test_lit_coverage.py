"""The lit suite leaves no operator, pass, option of a pass or flag of a command out.

A pass counts if a RUN line names the pass, as a flag or in a pipeline; an option if the value of the pass's flag has
the option, or the pass's braces in a pipeline; a flag if a RUN line of the command has the flag.
"""

import re
from pathlib import Path

import pytest

import oneflow.lowering.pipelines
import oneflow.passes.all  # noqa: F401  registers the passes
from oneflow.dialect import ops  # noqa: F401  registers the operators
from oneflow.dialect.record import REGISTRY
from oneflow.passes.registry import PASSES, PIPELINES
from oneflow.tools import oneflow_run
from oneflow.tools.arguments import FLAGS

ROOT = Path(__file__).parents[3]
LIT = ROOT / "test/lit"
RUNS = [line for p in LIT.rglob("*.mlir") for line in re.findall(r"// RUN:(.*)", p.read_text())]
#: The operators in the programs of the suite, without its comments.
PROGRAMS = frozenset(
    re.findall(r"oneflow\.\w+", "\n".join(re.sub(r"//.*", "", p.read_text()) for p in LIT.rglob("*.mlir")))
)
#: The package's own passes: other tests of this process may have defined some.
OWN = {name: p for name, p in PASSES.items() if p.__module__.startswith("oneflow.")}
OPTIONS = [(p.name, option) for p in OWN.values() for option in p.options()]
FLAGS_OF = {
    "oneflow-opt": list(FLAGS),
    "oneflow-run": [name[2:] for name in oneflow_run.OPTIONS if name.startswith("--")],
}


def commands(name):
    """The commands of RUN lines that call `name`, without the commands behind a pipe."""
    return [c for line in RUNS for c in re.split(r"[|&;]", line) if re.search(rf"(^|\s){name}(\s|$)", c)]


@pytest.mark.parametrize("name", sorted({*OWN, *PIPELINES}))
def test_pass_runs(name):
    pattern = rf"(-|[(,]){re.escape(name)}(?![\w-])"
    assert any(re.search(pattern, c) for c in commands("oneflow-opt")), f"no RUN line in {LIT} has --{name}"


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_option_is_given(name, option):
    values = [v for c in commands("oneflow-opt") for v in values_of(name, c)]
    given = {word.partition("=")[0] for v in values for word in v.split()}
    assert option in given, f'no RUN line in {LIT} has --{name}="{option}=.."'


def values_of(name, command):
    """The options of a pass in a command: `value` of --name="value", --name=value and name{value}."""
    found = re.findall(rf"-{re.escape(name)}=(?:\"([^\"]*)\"|(\S+))|[(,]{re.escape(name)}\{{([^}}]*)\}}", command)
    return ["".join(groups) for groups in found]


@pytest.mark.parametrize(("command", "flag"), [(c, f) for c, flags in FLAGS_OF.items() for f in flags])
def test_flag_is_given(command, flag):
    pattern = rf"\s--?{re.escape(flag)}(?![\w-])"
    assert any(re.search(pattern, c) for c in commands(command)), f"no RUN line in {LIT} has {command} --{flag}"


def test_operators_are_in_programs():
    names = [f"oneflow.{r.name}" for r in REGISTRY if "dialect/ops/" in r.where]
    missing = [name for name in names if name not in PROGRAMS]
    assert names and not missing, f"no program in {LIT} has {missing}"


def test_lit_folders_mirror_the_source():
    """The folder of every file is a folder or a module of the source."""
    folders = {path.parent.relative_to(LIT) for path in LIT.rglob("*.mlir")}
    missing = [str(f) for f in sorted(folders) if not (ROOT / f).is_dir() and not (ROOT / f"{f}.py").is_file()]
    assert not missing, f"lit folders that are neither folders nor modules of the source: {missing}"


def test_the_file_of_a_pass_is_where_the_pass_is():
    """Each pass in `passes` has a folder; the file of a pass in `lowering` is in the folder of the module."""
    modules = {p.__module__.rpartition(".")[2]: p.__module__.split(".")[1:] for p in OWN.values()}
    folderless = [
        m for m, path in modules.items() if path[0] == "passes" and not any((LIT / "passes" / m).glob("*.mlir"))
    ]
    assert not folderless, f"passes without a folder {LIT}/passes/<pass>: {folderless}"
    paths = [path for folder in ("passes", "lowering") for path in (LIT / folder).rglob("*.mlir")]
    files = {path.stem: path.parent.relative_to(LIT).parts for path in paths}
    elsewhere = [
        "/".join([*folder, stem])
        for stem, folder in files.items()
        if stem in modules and list(folder) not in (modules[stem], modules[stem][:-1])
    ]
    assert not elsewhere, f"lit files outside of the folders of their passes: {elsewhere}"


OPERATOR_MODULES = {path.stem for path in (ROOT / "dialect/ops").glob("*.py")}


def module_of(stem):
    """The module of operators that a lit file is named for: `<module>.mlir`, or `<module>_<aspect>.mlir`."""
    words = stem.split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return next((name for name in names if name in OPERATOR_MODULES), None)


def test_every_operator_is_in_a_file_of_its_module():
    texts: dict[str | None, str] = {}
    for path in (LIT / "dialect/ops").rglob("*.mlir"):
        module = module_of(path.stem)
        texts[module] = texts.get(module, "") + re.sub(r"//.*", "", path.read_text())
    assert None not in texts, "expected lit files named for modules of dialect/ops"
    own = {r.name: Path(r.where.split(":")[0]).stem for r in REGISTRY if "dialect/ops/" in r.where}
    missing = [f"{m}: {n}" for n, m in own.items() if not re.search(rf"oneflow\.{n}\b", texts.get(m, ""))]
    assert not missing, f"operators without a program in test/lit/dialect/ops/<module>*.mlir: {sorted(missing)}"
