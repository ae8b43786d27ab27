"""`oneflow-join-insertions`: the sum of tensors that are zero but for parts of their own is all parts in one tensor.

That is the gradient of a tensor of which several parts are used, such as one product for query, key and value. A
part's -0 stays -0, where the sum with 0 was 0. What is put into zeros twice, as images that are padded along several
dimensions, is put there once.
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
#: Where a part lies, as attributes of its insertion.
PLACES = ("static_offsets", "static_sizes", "static_strides")


@register_pass
@dataclass(frozen=True)
class JoinInsertions(Pass):
    """Sets parts that do not meet into one tensor in place of adding up a tensor for each.

    %a = tensor.insert_slice %x into %zeros[0] [4] [1] ; %b = tensor.insert_slice %y into %zeros[4] [4] [1]
    %s = linalg.generic {%a + %b}
      ->   %a = tensor.insert_slice %x into %zeros[0] [4] [1] ; %s = tensor.insert_slice %y into %a[4] [4] [1]
    """

    name: ClassVar[str] = "oneflow-join-insertions"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins every such sum."""
        for op in gather_named(module.operation, {INSERTION}):
            _put_once(op)
        for op in sums_in(module):
            one, other = (_insertions(v) for v in list(op.operands)[:2])
            if one and other and all(_apart(a, b) for a in one for b in other):
                _join(op, other)


def _put_once(op: ir.Operation) -> None:
    """Puts what the source of an insertion into zeros is to zeros itself in that source's place."""
    inner = _insertions(op.operands[0])
    if len(inner) != 1 or len(_insertions(op.results[0])) != 1:
        return
    outer, within = ([list(ir.DenseI64ArrayAttr(o.attributes[n])) for n in PLACES] for o in (op, inner[0]))
    if len(outer[0]) != len(within[0]):
        return
    offsets = [a + b * step for a, b, step in zip(outer[0], within[0], outer[2], strict=True)]
    strides = [a * b for a, b in zip(outer[2], within[2], strict=True)]
    for name, values in zip(PLACES, (offsets, within[1], strides), strict=True):
        op.attributes[name] = ir.DenseI64ArrayAttr.get(values)
    op.operands[0] = inner[0].operands[0]


def _insertions(value: ir.Value) -> list[ir.Operation]:
    """The parts that a tensor of zeros got, in order; none where it is anything else, or sizes are unknown."""
    found: list[ir.Operation] = []
    while (
        not isinstance(value, ir.BlockArgument) and value.owner.name == INSERTION and len(value.owner.operands) == 2
    ):
        found.insert(0, value.owner.operation)
        value = value.owner.operands[1]
    return found if _is_zeros(value) else []


def _is_zeros(value: ir.Value) -> bool:
    if isinstance(value, ir.BlockArgument) or value.owner.name != "linalg.fill":
        return False
    number = value.owner.operands[0]
    if isinstance(number, ir.BlockArgument) or number.owner.name != "arith.constant":
        return False
    return bool(number.owner.attributes["value"].value == 0)


def _apart(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two parts have no element in common, as their ranges along an axis tell."""
    return any(a[1] <= b[0] or b[1] <= a[0] for a, b in zip(_ranges(one), _ranges(other), strict=True))


def _ranges(op: ir.Operation) -> list[tuple[int, int]]:
    lists = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in PLACES)
    return [(first, first + (size - 1) * step + 1) for first, size, step in zip(*lists, strict=True)]


def _join(op: ir.Operation, parts: list[ir.Operation]) -> None:
    """Sets `parts` into the first operand of a sum, which that becomes."""
    value = op.operands[0]
    for part in parts:
        made = part.clone(ir.InsertionPoint(op))
        made.operands[1] = value
        value = made.results[0]
    op.results[0].replace_all_uses_with(value)
    op.erase()
    for part in reversed(parts):
        if not any(True for _ in part.results[0].uses):
            part.erase()
