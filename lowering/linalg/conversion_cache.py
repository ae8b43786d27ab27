"""Conversions that are recorded and cloned: programs repeat calls, and cloning is faster than converting.

A call on static tensors without run-time checks is converted once, in a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oneflow.dialect._mlir import func, ir
from oneflow.lowering.linalg.emit import Value
from oneflow.passes.inline import clone_with
from oneflow.passes.structure import operands_of
from oneflow.passes.walk import gather

#: Converts a call: from its operands to its results.
Convert: TypeAlias = Callable[[Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True)
class Conversion:
    """The operations of a conversion from `inputs` to `outputs`, and whether the regions of each capture values."""

    inputs: Sequence[Value]
    outputs: Sequence[Value]
    ops: Sequence[tuple[ir.Operation, bool]]

    def clone(self, operands: Sequence[Value]) -> list[Value]:
        """Clones the operations for other operands at the insertion point, and returns the results."""
        values = dict(zip(self.inputs, operands, strict=True))
        for op, captures in self.ops:
            clone_with(op, values, captures).location = ir.Location.current
        return [values[v] for v in self.outputs]


class ConversionCache:
    """The recorded conversions of a module, by key."""

    def __init__(self) -> None:
        self.module = ir.Module.create(ir.Location.unknown())
        self._known: dict[Hashable, Conversion | None] = {}

    def convert(self, key: Hashable, operands: Sequence[Value], convert: Convert) -> Sequence[Value]:
        """The results of the call `key` on operands. Equal operands may become one operand of an operation."""
        first_uses = tuple(operands.index(v) for v in operands)
        recorded = (key, first_uses)
        if recorded not in self._known:
            self._known[recorded] = self._record(operands, first_uses, convert)
        conversion = self._known[recorded]
        return convert(operands) if conversion is None else conversion.clone(operands)

    def _record(self, operands: Sequence[Value], first_uses: Sequence[int], convert: Convert) -> Conversion | None:
        """A recorded conversion; None where it has calls, such as checks, which depend on the location."""
        types = [v.type for v in operands]
        function = func.FuncOp("template", (types, []), ip=ir.InsertionPoint(self.module.body))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            outputs = convert([block.arguments[i] for i in first_uses])
        ops = [o.operation for o in block.operations]
        if any(map(_has_calls, ops)):
            return None
        captures = [(op, len(operands_of(op)) > len(op.operands)) for op in ops]
        return Conversion(list(block.arguments), outputs, captures)


def _has_calls(op: ir.Operation) -> bool:
    return bool(gather(op, lambda inner: inner.name == "func.call"))
