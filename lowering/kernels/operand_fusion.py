"""Fusion of the conversion of integers into the contraction that reads the result.

    w: 384x384xi8  ->  float(w) * scale: 384x384xf32  ->  x @ ..          two kernels, 5 bytes for each element
    w: 384x384xi8  ->  x @ (float(w) * scale)                             one kernel, 1 byte for each element

A contraction computes the elements of such an operand more than once, but in registers: packing and the micro-kernel
convert them as they load them. `form_kernels` leaves the fusion itself to MLIR.
"""

from __future__ import annotations

from collections.abc import Iterator

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.factors import WIDENING, is_narrower
from oneflow.lowering.kernels.fusion_barriers import add_fusion_barrier
from oneflow.lowering.kernels.nodes import Node, find_node, has_unit_strides, is_contraction
from oneflow.lowering.targets.selection import cpu_target

#: The most operations that compute a factor. More would take longer than the bytes that the fusion saves.
MAX_OPERATIONS = 6


def fuse_conversions(op: ir.Operation) -> set[int]:
    """Gives a contraction conversions of its own for the operands that it should convert; returns their numbers."""
    node = find_node(op)
    if node is None or not is_contraction(node) or not has_unit_strides(node) or not node.outputs[0].access:
        return set()
    numbers = {n for n, use in enumerate(node.inputs) if _is_converted(use.value)}
    if len(numbers) < 2 or not _has_instruction(op):
        # Packing and the micro-kernel convert vectors of the operand with the last dimension of the result.
        numbers = {n for n in numbers if node.outputs[0].access[-1].dims & node.dims(n)}
    for number in numbers:
        op.operands[number] = _copy_conversion(op.operands[number], op)
    return numbers


def _has_instruction(op: ir.Operation) -> bool:
    """Whether the target has an instruction for a product of short integers."""
    return cpu_target().dot_product is not None and str(op.results[0].type.element_type) == "i32"


def _conversion(value: ir.Value) -> Node | None:
    """The node that computes a tensor from integers of fewer bits; None for other tensors."""
    node = None if isinstance(value, ir.BlockArgument) else find_node(value.owner)
    if node is None or node.reductions or len(node.results) > 1:
        return None
    names = {o.operation.name for o in node.body.operations} - {"linalg.yield"}
    is_narrow = (is_narrower(u.value.type.element_type, value.type.element_type) for u in node.inputs)
    return node if names and names <= WIDENING and (any(is_narrow) or any(_parts(node))) else None


def conversions_of(value: ir.Value) -> list[Node]:
    """The nodes that compute a tensor from integers of fewer bits, in order; none for other tensors."""
    node = _conversion(value)
    parts = [] if node is None else [part for use in node.inputs for part in conversions_of(use.value)]
    return parts if node is None else [*parts, node]


def _parts(node: Node) -> Iterator[Node]:
    """The conversions among the inputs of a conversion."""
    return filter(None, (_conversion(use.value) for use in node.inputs))


def _is_converted(value: ir.Value) -> bool:
    """Whether few operations compute a tensor from one tensor of its size, of integers with fewer bits."""
    node = _conversion(value)
    if node is None or _operation_count(node) > MAX_OPERATIONS:
        return False
    full = [use.value for use in node.inputs if use.dims | node.unit_loops == set(range(len(node.names)))]
    return len(full) == 1 and (
        is_narrower(full[0].type.element_type, value.type.element_type) or _is_converted(full[0])
    )


def _operation_count(node: Node) -> int:
    """The operations of a conversion and of its parts."""
    return len(node.body.operations) - 1 + sum(map(_operation_count, _parts(node)))


def _copy_conversion(value: ir.Value, reader: ir.Operation) -> ir.Value:
    """A copy of a conversion and of its parts, which MLIR fuses with `reader` and with nothing else."""
    if _conversion(value) is None:
        return value
    with ir.InsertionPoint(reader):
        copy = value.owner.clone()
    for number in range(len(copy.operands) - 1):
        copy.operands[number] = _copy_conversion(copy.operands[number], copy)
        if copy.operands[number] == value.owner.operands[number]:
            add_fusion_barrier(copy, number)
    return copy.results[0]
