"""Operations that are alike but for the values they take from outside, as numbers: told by reading each once.

    reader.read(op).structural_hash == reader.read(other).structural_hash

Most kernels of a program are the same few again and again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.passes.structure import operands_of


@dataclass(frozen=True)
class HashedOperation:
    """What an operation is: the number of its form, and which operands in its regions come from outside.

    An operation with branches in it has no form, and is read again for what it takes.
    """

    op: ir.Operation
    structural_hash: int | None
    region_captures: tuple[tuple[ir.Operation, int], ...] = ()

    @property
    def captured_values(self) -> list[ir.Value]:
        """What it takes from outside now, as `operands_of` has it."""
        if self.structural_hash is None:
            return operands_of(self.op)
        return [*self.op.operands, *(op.operands[number] for op, number in self.region_captures)]


class StructuralHasher:
    """Reads operations; what is in their regions may not change as long as it is used."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._cache: dict[ir.Operation, HashedOperation] = {}

    def read(self, op: ir.Operation) -> HashedOperation:
        """What an operation is."""
        if op not in self._cache:
            self._cache[op] = self._hash(op)
        return self._cache[op]

    def forget(self, op: ir.Operation) -> None:
        """Has to be told of operations that are erased: others may come to lie where they were."""
        self._cache.pop(op, None)

    def _hash(self, op: ir.Operation) -> HashedOperation:
        if not len(op.regions):
            return HashedOperation(op, self._number(_head(op)))
        body = _Body()
        if not body.read(op):
            return HashedOperation(op, None)
        return HashedOperation(op, self._number((_head(op), *body.parts)), tuple(body.region_captures))

    def _number(self, form: Hashable) -> int:
        return self._numbers.setdefault(form, len(self._numbers))


def _head(op: ir.Operation) -> Hashable:
    """An operation without operands and regions."""
    attributes = tuple(op.attributes.items()) if len(op.attributes) else ()
    return op.name, attributes, tuple([r.type for r in op.results])


class _Body:
    """What is in the regions of an operation: its `parts` in order, whose operands are numbers."""

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self.region_captures: list[tuple[ir.Operation, int]] = []
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
            self.region_captures.append((op, number))
        return place
