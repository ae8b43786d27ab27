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


@pytest.mark.parametrize("name", [r.name for r in REGISTRY if "dialect/ops/" in r.where])
def test_operator_is_in_a_program(name):
    assert f"oneflow.{name}" in PROGRAMS, f"no program in {LIT} has oneflow.{name}"


def test_lit_folders_mirror_the_folders_of_lowering():
    """Every folder is one of `lowering`, and the file of a pass is in the folder of the module of the pass."""
    modules = [p.__module__.split(".")[1:] for p in OWN.values()]
    folders = {module[-1]: "/".join(module[:-1]) for module in modules if module[0] == "lowering"}
    files = {p.stem: str(p.parent.relative_to(LIT)) for p in (LIT / "lowering").rglob("*.mlir")}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in files.values())
    elsewhere = {stem: folder for stem, folder in files.items() if folders.get(stem, folder) != folder}
    assert not elsewhere, f"lit files outside of the folders of their passes: {elsewhere}"
