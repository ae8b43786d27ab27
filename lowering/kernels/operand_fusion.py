"""Fusion of the conversion of integers into the contraction that reads the result.

    w: 384x384xi8  ->  float(w) * scale: 384x384xf32  ->  x @ ..          two kernels, 5 bytes for each element
    w: 384x384xi8  ->  x @ (float(w) * scale)                             one kernel, 1 byte for each element

A contraction computes the elements of such an operand more than once, but in registers: packing and the micro-kernel
convert each element that they load. `form_kernels` leaves the fusion itself to MLIR.
"""

from __future__ import annotations

from collections.abc import Mapping

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.factors import WIDENING, is_narrower
from oneflow.lowering.kernels.fusion_barriers import add_fusion_barrier
from oneflow.lowering.kernels.nodes import Node, find_node, has_unit_strides, is_contraction
from oneflow.lowering.targets.selection import cpu_target

#: The most operations that compute a factor. More would take longer than the bytes that the fusion saves.
MAX_OPERATIONS = 6


def fuse_conversions(op: ir.Operation) -> set[int]:
    """Gives a contraction conversions of its own for the operands that it should convert; returns their indices."""
    node = find_node(op)
    if node is None or not is_contraction(node) or not has_unit_strides(node) or not node.outputs[0].access:
        return set()
    found = {i: {c.results[0]: c for c in conversions_of(use.value)} for i, use in enumerate(node.inputs)}
    operands = {i for i, conversions in found.items() if _is_converted(node.inputs[i].value, conversions)}
    if len(operands) < 2 or not _has_instruction(op):
        # Packing and the micro-kernel convert vectors of the operand with the last dimension of the result.
        operands = {i for i in operands if node.outputs[0].access[-1].dims & node.dims(i)}
    for operand in operands:
        op.operands[operand] = _copy_conversion(op.operands[operand], found[operand], op)
    return operands


def _has_instruction(op: ir.Operation) -> bool:
    """Whether the target has an instruction for a product of short integers."""
    return cpu_target().dot_product is not None and str(op.results[0].type.element_type) == "i32"


def conversions_of(value: ir.Value, operations: int = MAX_OPERATIONS) -> list[Node]:
    """The nodes in order that compute a tensor from integers of fewer bits, by chains of at most `operations`.

    The list is empty for other tensors.
    """
    node = None if isinstance(value, ir.BlockArgument) else find_node(value.owner)
    if node is None or node.reductions or len(node.results) > 1:
        return []
    names, element = [o.operation.name for o in node.body.operations][:-1], value.type.element_type
    if not names or not WIDENING.issuperset(names) or len(names) > operations:
        return []
    parts = [part for use in node.inputs for part in conversions_of(use.value, operations - len(names))]
    is_narrow = any(is_narrower(use.value.type.element_type, element) for use in node.inputs)
    return [*parts, node] if parts or is_narrow else []


def _is_converted(value: ir.Value, conversions: Mapping[ir.Value, Node]) -> bool:
    """Whether few operations compute a tensor from one tensor of its size, of integers with fewer bits."""
    if sum(len(node.body.operations) - 1 for node in conversions.values()) > MAX_OPERATIONS:
        return False
    element = value.type.element_type
    while (node := conversions.get(value)) is not None:
        every = set(range(len(node.loop_ids)))
        full = [use.value for use in node.inputs if use.dims | node.unit_loops == every]
        if len(full) != 1:
            return False
        (value,) = full
        if is_narrower(value.type.element_type, element):
            return True
    return False


def _copy_conversion(value: ir.Value, conversions: Mapping[ir.Value, Node], user: ir.Operation) -> ir.Value:
    """A copy of a conversion and its producers before `user`; MLIR fuses the copy with the user and nothing else."""
    if value not in conversions:
        return value
    with ir.InsertionPoint(user):
        copy = value.owner.clone()
    for index in range(len(copy.operands) - 1):
        copy.operands[index] = _copy_conversion(copy.operands[index], conversions, copy)
        if copy.operands[index] == value.owner.operands[index]:
            add_fusion_barrier(copy, index)
    return copy.results[0]
