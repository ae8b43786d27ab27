"""Programs of other dialects that no lowering takes."""

from __future__ import annotations

import pytest

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.lowering.linalg.legality import check_legal
from oneflow.passes.base import PassError

DIMENSION = """
func.func @main(%x: tensor<4x?xf32>) -> tensor<?xf32> {{
  %position = arith.constant {} : index
  %size = tensor.dim %x, %position : tensor<4x?xf32>
  %empty = tensor.empty(%size) : tensor<?xf32>
  return %empty : tensor<?xf32>
}}"""


def check(position: int) -> None:
    context = create_context()
    with context, ir.Location.unknown():
        check_legal(read_module(DIMENSION.format(position), context))


@pytest.mark.parametrize("position", [-1, 2, 2**62])
def test_dimensions_out_of_range_are_refused(position: int) -> None:
    message = rf"expected a dimension from 0 to 1 of tensor<4x\?xf32>, got {position}$"
    with pytest.raises(PassError, match=message):
        check(position)


@pytest.mark.parametrize("position", [0, 1])
def test_dimensions_in_range(position: int) -> None:
    check(position)
