"""Conversions of operators kept and cloned: programs repeat their calls, and a clone takes a tenth of the time.

A call on static tensors that makes no checks is converted once, in a module of its own.
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

#: What converts a call: from its operands to its results.
Convert: TypeAlias = Callable[[Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True)
class Conversion:
    """The operations of one conversion, from `inputs` to `outputs`, and whether their regions read from outside."""

    inputs: Sequence[Value]
    outputs: Sequence[Value]
    ops: Sequence[tuple[ir.Operation, bool]]

    def clone(self, operands: Sequence[Value]) -> list[Value]:
        """The results on other operands, at the insertion point."""
        values = dict(zip(self.inputs, operands, strict=True))
        for op, inside in self.ops:
            clone_with(op, values, inside).location = ir.Location.current
        return [values[v] for v in self.outputs]


class ConversionCache:
    """The conversions of a module by what they are conversions of."""

    def __init__(self) -> None:
        self.module = ir.Module.create(ir.Location.unknown())
        self._known: dict[Hashable, Conversion | None] = {}

    def convert(self, key: Hashable, operands: Sequence[Value], convert: Convert) -> Sequence[Value]:
        """The results of the call `key` on operands, the same ones of which are the same each time."""
        if key not in self._known:
            self._known[key] = self._record(operands, convert)
        conversion = self._known[key]
        return convert(operands) if conversion is None else conversion.clone(operands)

    def _record(self, operands: Sequence[Value], convert: Convert) -> Conversion | None:
        """A conversion, or None where the conversion calls what knows its place."""
        types = [v.type for v in operands]
        function = func.FuncOp("template", (types, []), ip=ir.InsertionPoint(self.module.body))
        block = function.add_entry_block()
        same = [operands.index(v) for v in operands]
        with ir.InsertionPoint(block):
            outputs = convert([block.arguments[i] for i in same])
        ops = [o.operation for o in block.operations]
        if any(map(_has_calls, ops)):
            return None
        reading = [(op, len(operands_of(op)) > len(op.operands)) for op in ops]
        return Conversion(list(block.arguments), outputs, reading)


def _has_calls(op: ir.Operation) -> bool:
    return bool(gather(op, lambda inner: inner.name == "func.call"))
