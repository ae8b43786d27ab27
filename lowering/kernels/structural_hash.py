"""Operations that are alike but for the values they take from outside, as numbers: told by reading each once.

    reader.read(op).form == reader.read(other).form

Most kernels of a program are the same few again and again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.passes.structure import operands_of


@dataclass(frozen=True)
class Reading:
    """What an operation is: the number of its form, and which operands in its regions come from outside.

    An operation with branches in it has no form, and is read again for what it takes.
    """

    op: ir.Operation
    form: int | None
    inside: tuple[tuple[ir.Operation, int], ...] = ()

    @property
    def taken(self) -> list[ir.Value]:
        """What it takes from outside now, as `operands_of` has it."""
        if self.form is None:
            return operands_of(self.op)
        return [*self.op.operands, *(op.operands[number] for op, number in self.inside)]


class Reader:
    """Reads operations; what is in their regions may not change as long as it is used."""

    def __init__(self) -> None:
        self._forms: dict[Hashable, int] = {}
        self._known: dict[ir.Operation, Reading] = {}

    def read(self, op: ir.Operation) -> Reading:
        """What an operation is."""
        if op not in self._known:
            self._known[op] = self._new(op)
        return self._known[op]

    def forget(self, op: ir.Operation) -> None:
        """Has to be told of operations that are erased: others may come to lie where they were."""
        self._known.pop(op, None)

    def _new(self, op: ir.Operation) -> Reading:
        if not len(op.regions):
            return Reading(op, self._number(_head(op)))
        body = _Body()
        if not body.read(op):
            return Reading(op, None)
        return Reading(op, self._number((_head(op), *body.parts)), tuple(body.inside))

    def _number(self, form: Hashable) -> int:
        return self._forms.setdefault(form, len(self._forms))


def _head(op: ir.Operation) -> Hashable:
    """An operation without operands and regions."""
    attributes = tuple(op.attributes.items()) if len(op.attributes) else ()
    return op.name, attributes, tuple([r.type for r in op.results])


class _Body:
    """What is in the regions of an operation: its `parts` in order, whose operands are numbers."""

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self.inside: list[tuple[ir.Operation, int]] = []
        self._made: dict[ir.Value, int] = {}

    def read(self, op: ir.Operation) -> bool:
        """Adds the regions of an operation; whether each is one block."""
        return all(len(region.blocks) == 1 and self._block(region.blocks[0]) for region in op.regions)

    def _block(self, block: ir.Block) -> bool:
        self.parts.append(tuple([a.type for a in block.arguments]))
        for argument in block.arguments:
            self._made[argument] = len(self._made)
        whole = all(self._op(view.operation) for view in block.operations)
        self.parts.append(None)
        return whole

    def _op(self, op: ir.Operation) -> bool:
        self.parts.append((_head(op), tuple([self._place(op, n, v) for n, v in enumerate(op.operands)])))
        for result in op.results:
            self._made[result] = len(self._made)
        return not len(op.regions) or self.read(op)

    def _place(self, op: ir.Operation, number: int, value: ir.Value) -> int | None:
        """The number of a value made inside; None for one from outside, which is noted."""
        place = self._made.get(value)
        if place is None:
            self.inside.append((op, number))
        return place
