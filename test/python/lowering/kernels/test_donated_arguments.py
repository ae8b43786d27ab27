"""Arguments are donated to results of the function."""

from __future__ import annotations

import pytest

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.lowering.kernels.donated_arguments import donated_arguments
from oneflow.passes.base import PassError
from oneflow.passes.inline import functions_of

DONATED = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32> {{oneflow.donated = {}}}) -> (tensor<4xf32>, tensor<4xf32>) {{
  return %x, %y : tensor<4xf32>, tensor<4xf32>
}}"""


def donated(attribute: str) -> dict[int, int]:
    context = create_context()
    with context, ir.Location.unknown():
        return donated_arguments(functions_of(read_module(DONATED.format(attribute), context))["main"])


def test_donated_arguments() -> None:
    assert donated("1 : i64") == {1: 1}


@pytest.mark.parametrize("attribute", ["-1 : i64", "2 : i64", '"x"', "[]", "unit"])
def test_arguments_donated_to_no_result_are_refused(attribute: str) -> None:
    with pytest.raises(PassError, match="of argument 1 to be the number of one of 2 results, got ") as caught:
        donated(attribute)
    assert str(caught.value).endswith(attribute)
