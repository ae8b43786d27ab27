"""Attributes of modules, functions and arguments that passes read have the kinds that the passes expect."""

from __future__ import annotations

import pytest

from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module

PROGRAM = """module attributes {{{}}} {{
  func.func @main(%x: tensor<2xf32> {{{}}}) -> (tensor<2xf32> {{{}}}) attributes {{{}}} {{
    return %x : tensor<2xf32>
  }}
}}"""
NONE = ("", "", "", "")


def program(position: int, attribute: str) -> str:
    attributes = [*NONE[:position], attribute, *NONE[position + 1 :]]
    return PROGRAM.format(*attributes)


@pytest.mark.parametrize(
    ("position", "attribute", "message"),
    [
        (0, "oneflow.precision = 3 : i32", "-:1:1: error: expected oneflow.precision to be a string, got 3 : i32"),
        (0, 'oneflow.sites = "x"', 'expected oneflow.sites to be a list of strings, got "x"'),
        (0, "oneflow.sites = [1 : i64]", "expected oneflow.sites to be a list of strings, got [1]"),
        (1, "oneflow.name = unit", "-:2:3: error: expected oneflow.name of argument 0 to be a string, got unit"),
        (2, "oneflow.placement = [@x]", "expected oneflow.placement of result 0 to be a string, got [@x]"),
        (3, "oneflow.kernel", "expected oneflow.kernel to be a string, got unit"),
        (3, "oneflow.template = {}", "expected oneflow.template to be a string, got {}"),
    ],
)
def test_attributes_of_another_kind_are_refused(position: int, attribute: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        read_module(program(position, attribute), create_context())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("position", "attribute"),
    [(0, 'oneflow.sites = ["x"], oneflow.precision = "tf32"'), (1, 'oneflow.name = "x"'), (2, "mine.name = 3 : i32")],
)
def test_attributes_of_their_kinds(position: int, attribute: str) -> None:
    read_module(program(position, attribute), create_context())
