"""`oneflow-join-insertions`: a sum of tensors that are zero outside of disjoint slices becomes one tensor of slices.

Such a sum is the gradient of a tensor whose slices have different users, such as a product for query, key and value.
A -0 in a slice stays -0, where the sum with 0 was 0. Nested insertions into zeros, such as an image that is padded
along one dimension after the other, become one insertion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.sums import sums_in
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_named

INSERTION = "tensor.insert_slice"
#: The attributes of an insertion that define its slice.
SLICE_ATTRIBUTES = ("static_offsets", "static_sizes", "static_strides")


@register_pass
@dataclass(frozen=True)
class JoinInsertions(Pass):
    """Inserts disjoint slices into one tensor instead of adding a tensor for each.

    %a = tensor.insert_slice %x into %zeros[0] [4] [1] ; %b = tensor.insert_slice %y into %zeros[4] [4] [1]
    %s = linalg.generic {%a + %b}
      ->   %a = tensor.insert_slice %x into %zeros[0] [4] [1] ; %s = tensor.insert_slice %y into %a[4] [4] [1]
    """

    name: ClassVar[str] = "oneflow-join-insertions"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins nested insertions and every such sum."""
        for op in gather_named(module.operation, {INSERTION}):
            _join_nested(op)
        for op in sums_in(module):
            lhs, rhs = (_insertions(v) for v in list(op.operands)[:2])
            if lhs and rhs and all(_are_disjoint(a, b) for a in lhs for b in rhs):
                _join(op, rhs)


def _join_nested(op: ir.Operation) -> None:
    """Composes an insertion into zeros with its source, if that is an insertion into zeros, to one insertion."""
    inner = _insertions(op.operands[0])
    if len(inner) != 1 or len(_insertions(op.results[0])) != 1:
        return
    outer, nested = ([list(ir.DenseI64ArrayAttr(o.attributes[n])) for n in SLICE_ATTRIBUTES] for o in (op, inner[0]))
    if len(outer[0]) != len(nested[0]):
        return
    offsets = [a + b * step for a, b, step in zip(outer[0], nested[0], outer[2], strict=True)]
    strides = [a * b for a, b in zip(outer[2], nested[2], strict=True)]
    for name, values in zip(SLICE_ATTRIBUTES, (offsets, nested[1], strides), strict=True):
        op.attributes[name] = ir.DenseI64ArrayAttr.get(values)
    op.operands[0] = inner[0].operands[0]


def _insertions(value: ir.Value) -> list[ir.Operation]:
    """The insertions into a tensor of zeros that build a value, in order; none for other values or dynamic slices."""
    insertions: list[ir.Operation] = []
    while (
        not isinstance(value, ir.BlockArgument) and value.owner.name == INSERTION and len(value.owner.operands) == 2
    ):
        insertions.insert(0, value.owner.operation)
        value = value.owner.operands[1]
    return insertions if _is_zeros(value) else []


def _is_zeros(value: ir.Value) -> bool:
    if isinstance(value, ir.BlockArgument) or value.owner.name != "linalg.fill":
        return False
    scalar = value.owner.operands[0]
    if isinstance(scalar, ir.BlockArgument) or scalar.owner.name != "arith.constant":
        return False
    return bool(scalar.owner.attributes["value"].value == 0)


def _are_disjoint(first: ir.Operation, second: ir.Operation) -> bool:
    """Whether two slices have disjoint ranges along an axis."""
    return any(a[1] <= b[0] or b[1] <= a[0] for a, b in zip(_ranges(first), _ranges(second), strict=True))


def _ranges(op: ir.Operation) -> list[tuple[int, int]]:
    """The first and past-the-end position of a slice along each axis."""
    lists = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in SLICE_ATTRIBUTES)
    return [(first, first + (size - 1) * step + 1) for first, size, step in zip(*lists, strict=True)]


def _join(op: ir.Operation, parts: list[ir.Operation]) -> None:
    """Replaces a sum by its first operand with the slices `parts` inserted."""
    value = op.operands[0]
    for part in parts:
        insertion = part.clone(ir.InsertionPoint(op))
        insertion.operands[1] = value
        value = insertion.results[0]
    op.results[0].replace_all_uses_with(value)
    op.erase()
    for part in reversed(parts):
        if not any(True for _ in part.results[0].uses):
            part.erase()
