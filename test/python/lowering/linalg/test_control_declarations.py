"""A declaration of structured control flow has to agree with the functions that the declaration runs."""

from __future__ import annotations

import re

import pytest

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.lowering.linalg.control_declarations import read_controls
from oneflow.passes.base import PassError

STATE, ELEMENT, SEQUENCE, BOOL = "tensor<2xf32>", "tensor<3xf32>", "tensor<5x3xf32>", "tensor<i1>"
CONTROL = "oneflow.control = {{form = {}, functions = [{}], length = 5 : i64, outputs = {} : i64, "
NUMBERS = "results = array<i64: {}>, reverse = false, sequences = {} : i64, states = {} : i64"


def function(name: str, inputs: list[str], outputs: list[str]) -> str:
    """A body whose results are not computed."""
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(inputs))
    empty = "".join(f"  %r{i} = tensor.empty() : {kind}\n" for i, kind in enumerate(outputs))
    values = ", ".join(f"%r{i}" for i in range(len(outputs)))
    head = f"func.func private @{name}({arguments}) -> ({', '.join(outputs)}) attributes {{oneflow.body}} {{\n"
    return f"{head}{empty}  return {values} : {', '.join(outputs)}\n}}\n"


def declaration(inputs: list[str], results: list[str], fields: str) -> str:
    kinds = f"({', '.join([*inputs, *results])}) -> ({', '.join(results)})"
    return f"func.func private @oneflow_control_0{kinds} attributes {{{fields}}}\n"


def fields(form: str, functions: str, outputs: int, results: str, sequences: int, states: int) -> str:
    return CONTROL.format(f'"{form}"', functions, outputs) + NUMBERS.format(results, sequences, states) + "}"


STEP = function("step", [STATE, ELEMENT, STATE], [STATE, ELEMENT])
SCAN = STEP + declaration(
    [STATE, SEQUENCE, STATE], [STATE, SEQUENCE, "tensor<5x2xf32>"], fields("steps", "@step", 2, "0, 1, 2", 1, 1)
)
LOOP = (
    function("test", [STATE, ELEMENT], [BOOL])
    + function("next", [STATE, ELEMENT], [STATE])
    + declaration([STATE, ELEMENT], [STATE], fields("while", "@test, @next", 1, "0", 0, 1))
)
BRANCH = (
    function("yes", [STATE], [ELEMENT])
    + function("no", [STATE], [ELEMENT])
    + declaration([BOOL, STATE], [ELEMENT], fields("branch", "@yes, @no", 1, "0", 0, 0))
)
AGREE = "states, sequences, outputs and results of the form"


def controls(text: str) -> list[str]:
    context = create_context()
    with context, ir.Location.unknown():
        return [control.form for control in read_controls(read_module(text, context)).values()]


@pytest.mark.parametrize(("text", "form"), [(SCAN, "steps"), (LOOP, "while"), (BRANCH, "branch")])
def test_declarations_that_agree(text: str, form: str) -> None:
    assert controls(text) == [form]


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (SCAN, "[@step]", "[]", AGREE),
        (SCAN, "[@step]", "[@step, @step]", AGREE),
        (SCAN, '"steps"', '"twice"', AGREE),
        (SCAN, "length = 5", "length = -1", AGREE),
        (SCAN, "length = 5", "length = 4", "expected the type (tensor<2xf32>, tensor<4x3xf32>, "),
        (SCAN, "states = 1", "states = 2", "expected the type (tensor<2xf32>, tensor<3xf32>, "),
        (SCAN, "states = 1", "states = -1", AGREE),
        (SCAN, "sequences = 1", "sequences = 3", AGREE),
        (SCAN, "outputs = 2", "outputs = 3", AGREE),
        (SCAN, "0, 1, 2>", "0, 1, 3>", AGREE),
        (SCAN, "0, 1, 2>", "1, 2>", AGREE),
        (SCAN, "0, 1, 2>", "0, 1>", "expected the type (tensor<2xf32>, tensor<5x3xf32>, tensor<2xf32>, "),
        (SCAN, "(tensor<2xf32>, tensor<5x3xf32>, tensor<2xf32>, ", "(", "expected the type"),
        (LOOP, "[@test, @next]", "[@next]", AGREE),
        (LOOP, "[@test, @next]", "[@next, @next]", AGREE),
        (LOOP, "states = 1", "states = 0", AGREE),
        (
            LOOP,
            "[@test, @next]",
            "[@test, @oneflow_control_0]",
            "with the attribute oneflow.body as bodies, got @one",
        ),
        (BRANCH, "[@yes, @no]", "[@yes, @none]", "with the attribute oneflow.body as bodies, got @none"),
        (
            BRANCH,
            "(tensor<i1>, ",
            "(",
            "expected the type (tensor<i1>, tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>",
        ),
        (BRANCH, "@yes, @no]", "@yes]", AGREE),
    ],
)
def test_declarations_that_do_not_agree(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(PassError, match=re.escape(message)):
        controls(text.replace(old, new))
