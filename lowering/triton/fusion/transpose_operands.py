"""`oneflow-transpose-operands`: operands of tf32 products become contiguous along the depth.

    %y = linalg.generic {product} ins(%a : tensor<4096x512xf32>, %b : tensor<512x1024xf32>)
      ->   %t = linalg.generic {transpose} ins(%b) -> tensor<1024x512xf32>
           %y = linalg.generic {product} ins(%a, %t)

Tensor cores read 32-bit operands from shared memory along the depth alone; other blocks pass through registers, which
takes several times as long. A copy of the operand takes time too: the cost model says which is faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir, linalg, tensor
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.nodes import Node, Use, find_node, has_unit_strides, is_contraction
from oneflow.lowering.kernels.reduction_split import new_generic
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.lowering.triton.codegen.matmul import precision_at
from oneflow.lowering.triton.cost.matmul_configurations import is_transposition_worthwhile
from oneflow.lowering.triton.fusion.split_reductions import product_of
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_named


@register_pass
@dataclass(frozen=True)
class TransposeOperands(Pass):
    """Copies operands of tf32 products that are not contiguous along the depth, if the copy pays off.

    %y = linalg.generic {(m, n, k) -> (k, n) for %b} ins(%a, %b)
      ->   %t = linalg.generic {(n, k) -> (k, n)} ins(%b)
           %y = linalg.generic {(m, n, k) -> (n, k) for %t} ins(%a, %t)
    """

    name: ClassVar[str] = "oneflow-transpose-operands"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites the products of a module whose precision is tf32."""
        if precision_at(module.operation) != "tf32":
            return
        copies: dict[tuple[ir.Value, int], ir.Value] = {}
        for op in gather_named(module.operation, {"linalg.generic"}):
            node = find_node(op)
            if node is not None and is_contraction(node) and has_unit_strides(node):
                _transpose_operands(node, copies)


def _transpose_operands(node: Node, copies: dict[tuple[ir.Value, int], ir.Value]) -> None:
    """Replaces the operands that have to be transposed; `copies` holds the copies by tensor and last dimension."""
    depths = {i: _depth_axis(node, use) for i, use in enumerate(node.inputs)}
    strided = {i: axis for i, axis in depths.items() if axis is not None and axis != len(node.inputs[i].access) - 1}
    product = product_of(node) if None not in depths.values() else None
    if product is None or not strided:
        return
    new = [node.inputs[i].value for i, axis in strided.items() if (node.inputs[i].value, axis) not in copies]
    if not is_transposition_worthwhile(product, [math.prod(ir.RankedTensorType(v.type).shape) for v in new]):
        return
    maps = [a.value for a in node.op.attributes["indexing_maps"]]
    for operand, axis in strided.items():
        value = node.inputs[operand].value
        order = [*(d for d in range(len(maps[operand].results)) if d != axis), axis]
        if (value, axis) not in copies:
            copies[value, axis] = _copy(node.op, value, order)
        maps[operand] = ir.AffineMap.get(maps[operand].n_dims, 0, [maps[operand].results[d] for d in order])
        node.op.operands[operand] = copies[value, axis]
    node.op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])


def _depth_axis(node: Node, use: Use) -> int | None:
    """The dimension of an f32 operand along the one loop of the depth; None for other operands."""
    axes = [axis for axis, form in enumerate(use.access) if form.dim in node.nonunit_reductions]
    is_wide = isinstance(ir.RankedTensorType(use.value.type).element_type, ir.F32Type)
    return axes[0] if is_wide and len(axes) == len(node.nonunit_reductions) == 1 else None


def _copy(op: ir.Operation, value: ir.Value, order: list[int]) -> ir.Value:
    """A tensor with its dimensions in another order; the barrier keeps the copy from being fused into the product."""
    kind, rank = ir.RankedTensorType(value.type), len(order)
    read = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(order.index(d)) for d in range(rank)])
    with ir.InsertionPoint(op), op.location:
        empty = tensor.EmptyOp([kind.shape[d] for d in order], kind.element_type).result
        copy = new_generic([value], [empty], [read, ir.AffineMap.get_identity(rank)], ["parallel"] * rank)
        block = copy.regions[0].blocks.append(kind.element_type, kind.element_type)
        linalg.YieldOp([block.arguments[0]], ip=ir.InsertionPoint(block))
        barrier: ir.Value = ir.Operation.create(BARRIER, [empty.type], [copy.results[0], value]).results[0]
    return barrier
