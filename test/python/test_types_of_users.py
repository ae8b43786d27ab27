"""Type checkers see the types of the names of `flow` in programs of users, though the names are found when used."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import oneflow as flow

ROOT = Path(__file__).parents[2]
#: Packages of `flow` whose functions and classes have types.
PACKAGES = ["amp", "autograd", "comm", "cuda", "distributions", "fft", "linalg", "nn", "nn.functional", "nn.init",
            "optim", "optim.lr_scheduler", "sbp", "special", "utils.data"]  # fmt: skip
TENSOR = "oneflow.frontend.core.tensor.Tensor"
#: Expressions of programs, and the types that mypy shows.
REVEALED = {
    "flow.nn.Linear(3, 4, device='cuda')": "oneflow.frontend.nn.layers.Linear",
    "flow.nn.Linear(3, 4).weight": "oneflow.frontend.nn.module.Parameter",
    "flow.add(flow.ones(2), 1)": TENSOR,
    "flow.relu(input=flow.ones(2), inplace=True)": TENSOR,
    "flow.zeros(2, 3, dtype=flow.float16, device='cuda')": TENSOR,
    "flow.randn(size=(2, 3))": TENSOR,
    "flow.exp_(flow.ones(2))": TENSOR,
    "flow.matmul(flow.ones(2, 2), flow.ones(2), out=flow.ones(2))": TENSOR,
    "flow.swapaxes(flow.ones(2, 2), axis0=0, axis1=1)": TENSOR,
    "flow.ones(2).numpy()": "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]",
    "flow.sort(flow.ones(2)).indices": TENSOR,
    "flow.Tensor(2, 3)": TENSOR,
    "flow.cuda.FloatTensor(2, 3)": TENSOR,
    "flow.autograd.grad(flow.ones(2).sum(), flow.ones(2))": f"tuple[{TENSOR}, ...]",
    "flow.optim.SGD([], lr=0.1)": "oneflow.frontend.optim.algorithms.SGD",
    "flow.special.expit(flow.ones(2))": TENSOR,
    "flow.trace": 'def (fn: def (*Any, **Any) -> Any, *specs: Any, name: str | None =) -> Any',
}  # fmt: skip


def check(program: str, folder: Path) -> str:
    """What mypy prints about a program in its strict mode."""
    (folder / "program.py").write_text(program)
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "program.py"]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return result.stdout


@pytest.fixture(scope="module")
def names() -> list[str]:
    """The public names of `flow` and of its packages."""
    found = [f"flow.{name}" for name in dir(flow)]
    for package in PACKAGES:
        found += [f"flow.{package}.{name}" for name in importlib.import_module(f"oneflow.{package}").__all__]
    return found


def test_names_have_types(names, tmp_path):
    """Names and expressions have types, and misspelled names are errors."""
    lines = [*names, *REVEALED]
    program = ["import oneflow as flow", *(f"reveal_type({line})" for line in lines)]
    program += ["x: flow.FloatTensor = flow.relu(flow.ones(2))", "flow.reul", "flow.nn.Linaer"]
    printed = check("\n".join(program) + "\n", tmp_path)
    notes = re.findall(r'program.py:(\d+): note: Revealed type is "(.*)"', printed)
    types = {int(line): text for line, text in notes}
    found = {line: types.get(number) for number, line in enumerate(lines, 2)}
    assert [name for name in names if found[name] in (None, "Any")] == []
    assert {line: found[line] for line in REVEALED} == REVEALED
    errors = re.findall(r'program.py:\d+: error: Module has no attribute "(\w+)"', printed)
    assert errors == ["reul", "Linaer"] and "Found 2 errors" in printed


def test_an_installation_has_types():
    """PEP 561: without the file `py.typed` type checkers do not read an installed package."""
    assert (Path(flow.__file__).parent / "py.typed").is_file()
