"""Whole programs: calls, constants, repeated operands, several blocks, gradients of layers."""

import numpy as np
import pytest
from interpreter import functions, run
from sbp_programs import check_distributed, distribute, run_passes

from oneflow.dialect.reader import read_module

CALLS = """
func.func private @layer(%x: tensor<6x4xf64> {oneflow.nd_sbp = [#sbp.split<0>]}, %w: tensor<4x4xf64>) -> tensor<6x4xf64> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>
  %1 = "oneflow.tanh"(%0) : (tensor<6x4xf64>) -> tensor<6x4xf64>
  return %1 : tensor<6x4xf64>
}
func.func @main(%x: tensor<6x4xf64>, %w: tensor<4x4xf64> {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<12x4xf64> {
  %c = arith.constant dense<2.0> : tensor<6x4xf64>
  %0 = call @layer(%x, %w) : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>
  %1 = "oneflow.broadcast_mul"(%0, %c) : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<6x4xf64>
  %2 = call @layer(%1, %w) : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>
  %3 = "oneflow.cat"(%1, %2) {axis = 0} : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<12x4xf64>
  return %3 : tensor<12x4xf64>
}
"""  # noqa: E501


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
def test_layouts_through_calls(strategy, context):
    """Two calls take operands in the annotated layouts of the function."""
    with context:
        module = distribute(CALLS, context, (2,), f"strategy={strategy}")
        rng = np.random.default_rng(0)
        x, w = rng.normal(size=(6, 4)), rng.normal(size=(4, 4))
        one = np.tanh(x @ w) * 2
        check_distributed(module, [x, w], [np.concatenate([one, np.tanh(one @ w)])])


BLOCKS = """
func.func private @outside(tensor<6xf32>) -> tensor<6xf32>
func.func @main(%p: i1, %x: tensor<6xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<6xf32>, i1) {
  %0 = "oneflow.exp"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  cf.cond_br %p, ^one(%0 : tensor<6xf32>), ^two
^one(%y: tensor<6xf32>):
  %1 = "oneflow.relu"(%y) : (tensor<6xf32>) -> tensor<6xf32>
  %2 = call @outside(%0) : (tensor<6xf32>) -> tensor<6xf32>
  return %1, %p : tensor<6xf32>, i1
^two:
  return %0, %p : tensor<6xf32>, i1
}
"""


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
def test_layouts_between_blocks(strategy, context):
    """Between blocks, and to functions outside, tensors are whole."""
    with context:
        module = distribute(BLOCKS, context, (2,), f"strategy={strategy}")
        run_passes(module, "oneflow-to-physical{rank=1 check=true}")
        text = str(module)
    assert "cf.cond_br %arg0, ^bb1(" in text
    assert text.count("ccl_all_gather") == 3
    assert "func.func private @outside(tensor<6xf32> {oneflow.logical_shape = array<i64: 6>" in text


MLP = """
func.func @main(%x: tensor<8x6xf64> {{X}}, %w: tensor<6x10xf64> {{W}}, %v: tensor<10x6xf64> {{V}},
                %d: tensor<8x6xf64> {{X}})
    -> (tensor<8x6xf64>, tensor<6x10xf64> {{W}}, tensor<10x6xf64> {{V}}) {
  %h = "oneflow.matmul"(%x, %w) : (tensor<8x6xf64>, tensor<6x10xf64>) -> tensor<8x10xf64>
  %a = "oneflow.tanh"(%h) : (tensor<8x10xf64>) -> tensor<8x10xf64>
  %y = "oneflow.matmul"(%a, %v) : (tensor<8x10xf64>, tensor<10x6xf64>) -> tensor<8x6xf64>
  %dv = "oneflow.matmul"(%a, %d) {transpose_a = true} : (tensor<8x10xf64>, tensor<8x6xf64>) -> tensor<10x6xf64>
  %da = "oneflow.matmul"(%d, %v) {transpose_b = true} : (tensor<8x6xf64>, tensor<10x6xf64>) -> tensor<8x10xf64>
  %dh = "oneflow.tanh_grad"(%a, %da) : (tensor<8x10xf64>, tensor<8x10xf64>) -> tensor<8x10xf64>
  %dw = "oneflow.matmul"(%x, %dh) {transpose_a = true} : (tensor<8x6xf64>, tensor<8x10xf64>) -> tensor<6x10xf64>
  return %y, %dw, %dv : tensor<8x6xf64>, tensor<6x10xf64>, tensor<10x6xf64>
}
"""
S0, S1, B = "#sbp.split<0>", "#sbp.split<1>", "#sbp.broadcast"
LAYOUTS = {
    "data": ((3,), [S0], [B], [B]),
    "tensor": ((2,), [B], [S1], [S0]),
    "zero": ((2,), [S0], [S0], [S0]),
    "data and tensor": ((2, 2), [S0, B], [B, S1], [B, S0]),
    "two-dimensional": ((2, 2), [S0, S1], [S0, S1], [S0, S1]),
}


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_training_steps(layout, strategy, context):
    """Data, tensor and ZeRO parallel gradients of two layers, and mixtures, by annotation alone."""
    mesh, *layouts = LAYOUTS[layout]
    text = MLP
    for name, nd in zip("XWV", layouts, strict=True):
        text = text.replace(f"{{{{{name}}}}}", f"{{oneflow.nd_sbp = [{', '.join(nd)}]}}")
    with context:
        whole = read_module(text, context)
        alone = functions(whole)["main"]
        rng = np.random.default_rng(0)
        arrays = [rng.normal(size=s) for s in ((8, 6), (6, 10), (10, 6), (8, 6))]
        want = run(alone, arrays)
        check_distributed(distribute(text, context, mesh, f"strategy={strategy}"), arrays, want)
