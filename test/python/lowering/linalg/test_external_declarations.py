"""Declarations of external kernels have the fields of a call."""

from __future__ import annotations

import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.lowering.linalg.external import declarations
from oneflow.lowering.pipelines import pipeline_between
from oneflow.passes.base import PassError
from oneflow.passes.pipeline import Pipeline, PipelineFailure, Watch

DECLARATION = """
func.func private @oneflow_user_kernel_0(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {oneflow.external =
  {attributes = {members = 2 : i64, mesh_axes = array<i32: 0>}, in_place = [array<i64: 0, 0>],
   location = "f:2:8", operator = "oneflow.ccl_all_reduce", types = (tensor<4xf32>) -> tensor<4xf32>}}
"""


def read(text: str) -> list[str]:
    context = create_context()
    with context, ir.Location.unknown():
        return list(declarations(read_module(text, context)))


def test_declaration_of_a_call() -> None:
    assert read(DECLARATION) == ["oneflow_user_kernel_0"]
    assert read(DECLARATION.replace("in_place = [array<i64: 0, 0>],", "")) == ["oneflow_user_kernel_0"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("array<i64: 0, 0>", "array<i64: 1, 0>"),
        ("array<i64: 0, 0>", "array<i64: 0, -1>"),
        ("array<i64: 0, 0>", "array<i64: 0>"),
        ("array<i64: 0, 0>", "0"),
        ('"oneflow.ccl_all_reduce"', "unit"),
        ('operator = "oneflow.ccl_all_reduce",', ""),
        ('location = "f:2:8",', ""),
        ("types = (tensor<4xf32>) -> tensor<4xf32>", "types = f32"),
        ("attributes = {members = 2 : i64, mesh_axes = array<i32: 0>}", "attributes = []"),
    ],
)
def test_other_fields_are_refused(old: str, new: str) -> None:
    assert old in DECLARATION
    with pytest.raises(PassError, match=r"expected oneflow\.external to have the fields operator, attributes, types"):
        read(DECLARATION.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [("ccl_all_reduce", "no_operator"), ("members = 2", 'members = "x"')])
def test_calls_that_do_not_fit_their_operators_are_refused(old: str, new: str) -> None:
    context = create_context()
    with context, ir.Location.unknown():
        module = read_module(DECLARATION.replace(old, new), context)
        pipeline = Pipeline.parse(pipeline_between("gpu-kernels", "triton"), context)
        with pytest.raises(PipelineFailure, match=r"no_operator|members"):
            pipeline.run(module, watch=Watch(reproducers=None))
