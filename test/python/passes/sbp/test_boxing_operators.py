"""OneFlow's operators for changes of layout on four ranks: the tensor stays, and the stated change is carried out."""

import numpy as np
import pytest
from samples.boxing import CHANGES, EAGER, LOGICAL
from sbp_programs import annotate, run_passes

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import float32
from oneflow.dialect.nd_sbp import check_nd_sbp
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY, attribute_values
from oneflow.passes.to_physical import physical
from oneflow.testing.simulate import simulate

#: The work of a rank for the layout changes of the samples, by operator.
DONE = {
    "all_reduce": "ccl_all_reduce",
    "reduce_scatter": "ccl_reduce_scatter",
    "reduce_scatter_noncontinuous": "ccl_reduce_scatter",
    "all_gather": "ccl_all_gather",
    "all_gather_noncontinuous": "ccl_all_gather",
    "s2s": "ccl_all_to_all",
    "2d_same_dim0_all_reduce": "ccl_all_reduce",
    "2d_same_dim0_all_gather": "ccl_all_gather",
    "2d_same_dim0_all_gather_noncontinuous": "ccl_all_gather",
    "2d_same_dim0_all2all": "ccl_all_to_all",
    "2d_same_dim1_all_reduce": "ccl_all_reduce",
}
#: The layouts before and after, along each of two mesh axes, and the work of a rank, by operator.
EAGERLY = {
    "b_to_s": ("B", "S(1)", "narrow"),
    "naive_s_to_s": ("S(0)", "S(1)", "ccl_all_to_all"),
    "p_to_b": ("P", "B", "ccl_all_reduce"),
    "p_to_s": ("P", "S(0)", "ccl_reduce_scatter"),
    "s_to_b": ("S(0)", "B", "ccl_all_gather"),
    "s_to_p": ("S(1)", "P", "pad"),
    "symmetric_s_to_p": ("S(1)", "P", "pad"),
    "ccl_s2s": ("S(0)", "S(1)", "ccl_all_to_all"),
    "ccl_all_reduce": ("P", "B", "ccl_all_reduce"),
    "ccl_all_gather": ("S(0)", "B", "ccl_all_gather"),
    "ccl_reduce_scatter": ("P", "S(0)", "ccl_reduce_scatter"),
    "ccl_reduce": ("P", "P", "ccl_all_reduce"),
    "ccl_broadcast": ("B", "B", ""),
}
#: The attributes of the operators for a tensor of 8 x 4.
SIZES = {"shape": [8, 4], "shape_list": [[8, 4]], "output_shape": [8, 4], "output_dtype": float32}
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def program(context, name, attributes, mesh, before, after):
    """A program that is the operator alone, whose operand and result have the stated layouts."""
    record = REGISTRY[name]
    with context:
        values = attribute_values(record, attributes)
        written = ir.DictAttr.get({a.name: a.kind.write(values[a.name]) for a in record.signature.attrs})
        sizes = ", ".join(map(str, mesh))
        text = f"""module attributes {{oneflow.mesh = array<i64: {sizes}>}} {{
          func.func @main(%x: tensor<8x4xf32> {annotate(before)}) -> (tensor<8x4xf32> {annotate(after)}) {{
            %0 = "oneflow.{name}"(%x) {written} : (tensor<8x4xf32>) -> tensor<8x4xf32>
            return %0 : tensor<8x4xf32>
          }}
        }}"""
    module = read_module(text, context)
    run_passes(module, "oneflow-infer-sbp", "oneflow-insert-boxing")
    return module


def operators_of(module):
    found = []
    dialect.walk(physical(module, 3, REGISTRY).operation, lambda op: found.append(op.name[len(dialect.PREFIX) :]))
    return found


@pytest.mark.parametrize("name", DONE)
def test_logical_boxing_operators(context, name):
    sides = [check_nd_sbp(side) for side in CHANGES[name]]
    attributes = {"src_reduced_nd_sbp": sides[0], "dst_reduced_nd_sbp": sides[1]}
    module = program(context, LOGICAL + name, attributes, (4,) if len(sides[0]) == 1 else (2, 2), *sides)
    assert operators_of(module) == [DONE[name]]
    np.testing.assert_array_equal(simulate(module, [X])[0], X)


@pytest.mark.parametrize("name", EAGERLY)
def test_eager_boxing_operators(context, name):
    before, after, done = EAGERLY[name]
    sizes = SIZES | ({"output_shape": [2, 4]} if name == "ccl_reduce_scatter" else {})
    attributes = {key: sizes.get(key, value) for key, value in EAGER[name].items()}
    sides = (check_nd_sbp([sbp] * 2) for sbp in (before, after))
    module = program(context, f"eager_{name}", attributes, (2, 2), *sides)
    assert [n for n in operators_of(module) if n != "zero_like"] == done.split()
    np.testing.assert_array_equal(simulate(module, [X])[0], X)
