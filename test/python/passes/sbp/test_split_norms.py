"""Normalization of rows that are split over several devices: moments are summed over the shards."""

import re

import numpy as np
import pytest
from interpreter import functions, run
from sbp_programs import check_distributed, distribute, run_passes

from oneflow.dialect.reader import read_module

X, ROW, HIDDEN = "tensor<5x7xf64>", "tensor<5xf64>", "tensor<7xf64>"
NORMS = {
    "layer_norm": f"""
  %y, %m, %v = "oneflow.layer_norm"(%x, %b, %g) {{begin_norm_axis = 1, begin_params_axis = 1, center = true,
      scale = true, epsilon = 1.0e-05, operandSegmentSizes = array<i32: 1, 1, 1>}}
      : ({X}, {HIDDEN}, {HIDDEN}) -> ({X}, {ROW}, {ROW})
  %dx = "oneflow.layer_norm_grad"(%d, %x, %m, %v, %g) {{begin_norm_axis = 1, epsilon = 1.0e-05,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}} : ({X}, {X}, {ROW}, {ROW}, {HIDDEN}) -> {X}
  %db, %dg = "oneflow.layer_norm_param_grad"(%d, %x, %m, %v) {{begin_params_axis = 1}}
      : ({X}, {X}, {ROW}, {ROW}) -> ({HIDDEN}, {HIDDEN})""",
    "rms_norm": f"""
  %y, %v = "oneflow.rms_norm"(%x, %g) {{normalized_shape = [7], epsilon = 1.0e-05 : f32}}
      : ({X}, {HIDDEN}) -> ({X}, {ROW})
  %dx = "oneflow.rms_norm_grad"(%d, %x, %v, %g) : ({X}, {X}, {ROW}, {HIDDEN}) -> {X}
  %dg = "oneflow.rms_norm_param_grad"(%d, %x, %v) : ({X}, {X}, {ROW}) -> {HIDDEN}""",
}  # fmt: skip
LAYOUTS = {
    (2,): ("[#sbp.split<1>]", "[#sbp.split<0>]"),
    (3,): ("[#sbp.split<1>]", "[#sbp.split<0>]"),
    (2, 2): ("[#sbp.split<0>, #sbp.split<1>]", "[#sbp.broadcast, #sbp.split<0>]"),
}


def program(norm, mesh):
    """A normalization and its gradients; hidden values, and parameters, are split."""
    x, hidden = (f"{{oneflow.nd_sbp = {nd}}}" for nd in LAYOUTS[mesh])
    return (
        f"func.func @main(%x: {X} {x}, %d: {X} {x}, %b: {HIDDEN} {hidden}, %g: {HIDDEN} {hidden})"
        f" -> ({X} {x}, {X} {x}, {HIDDEN} {hidden}) {{ {NORMS[norm]}\n"
        f"  return %y, %dx, %dg : {X}, {X}, {HIDDEN}\n}}"
    )


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
@pytest.mark.parametrize("mesh", LAYOUTS, ids=str)
@pytest.mark.parametrize("norm", NORMS)
def test_split_rows(norm, mesh, strategy, context):
    """Values and gradients equal the values and gradients of one device."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((5, 7), (5, 7), (7,), (7,))]
    with context:
        whole = read_module(program(norm, mesh), context)
        want = run(functions(whole)["main"], arrays)
        check_distributed(distribute(program(norm, mesh), context, mesh, f"strategy={strategy}"), arrays, want)


@pytest.mark.parametrize("norm", NORMS)
def test_only_row_sums_are_exchanged(norm, context):
    """No collective has the elements of a row."""
    with context:
        module = distribute(program(norm, (2,)), context, (2,))
        run_passes(module, "oneflow-to-physical{rank=0}")
    collectives = [line for line in str(module).splitlines() if "ccl_" in line]
    assert collectives and all(re.search(r"\(tensor<\dxf64>\) -> tensor<\dxf64>", line) for line in collectives)


def batch_program(mesh):
    """A normalization of channels with an addend and relu, of which a batch is split."""
    batch, channel = "tensor<6x4x3xf64>", "tensor<4xf64>"
    annotation = "{oneflow.nd_sbp = [" + ", ".join(["#sbp.split<0>", "#sbp.split<2>"][: len(mesh)]) + "]}"
    return f"""
func.func @main(%x: {batch} {annotation}, %a: {batch} {annotation}, %g: {channel}, %b: {channel})
    -> ({batch} {annotation}, tensor<3xi32>, {channel}, {channel}) {{
  %y, %bits, %m, %v = "oneflow.normalization_add_relu"(%x, %a, %g, %b) {{axis = 1 : i32, epsilon = 1.0e-5 : f32,
      training = true, momentum = 0.9 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1>,
      resultSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}}
      : ({batch}, {batch}, {channel}, {channel}) -> ({batch}, tensor<3xi32>, {channel}, {channel})
  return %y, %bits, %m, %v : {batch}, tensor<3xi32>, {channel}, {channel}
}}"""


@pytest.mark.parametrize("mesh", [(2,), (2, 3)], ids=str)
def test_split_batch_with_relu(mesh, context):
    """Values, moments and the bits of relu are as on one device."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((6, 4, 3), (6, 4, 3), (4,), (4,))]
    with context:
        whole = read_module(batch_program(mesh), context)
        want = run(functions(whole)["main"], arrays)
        check_distributed(distribute(batch_program(mesh), context, mesh), arrays, want)


def test_unused_reserve_space_is_not_gathered(context):
    """No collective has elements of the batch."""
    text = batch_program((2,)).replace("return %y, %bits, ", "return %y, ")
    text = re.sub(r"(return .*?), tensor<3xi32>", r"\1", text)
    with context:
        module = distribute(text.replace("}, tensor<3xi32>, tensor<4xf64>", "}, tensor<4xf64>", 1), context, (2,))
        run_passes(module, "oneflow-to-physical{rank=0}")
    collectives = [line for line in str(module).splitlines() if "ccl_" in line]
    assert collectives and all(re.search(r"\(tensor<\dxf64>\) -> tensor<\dxf64>", line) for line in collectives)
