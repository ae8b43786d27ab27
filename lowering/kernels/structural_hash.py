"""Structural hashing: operations that are equal but for the values captured from outside get the same number.

    hasher.read(op).structural_hash == hasher.read(other).structural_hash

Most kernels of a program are a few kernels repeated, so each operation is read once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.passes.structure import operands_of


@dataclass(frozen=True)
class HashedOperation:
    """The structural number of an operation, and uses of outer values in its regions: operations, operand indices.

    An operation with branches has no number (None); its captured values are searched each time.
    """

    op: ir.Operation
    structural_hash: int | None
    region_captures: tuple[tuple[ir.Operation, int], ...] = ()

    @property
    def captured_values(self) -> list[ir.Value]:
        """The values from outside that the operation uses now, as `operands_of` finds them."""
        if self.structural_hash is None:
            return operands_of(self.op)
        return [*self.op.operands, *(op.operands[index] for op, index in self.region_captures)]


class StructuralHasher:
    """Numbers operations by structure. The regions of an operation must not change while the hasher is used."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        # By the identity of Python's objects, which the values keep: an operation cannot be compared with an erased
        # one, whose address may be the same.
        self._cache: dict[int, HashedOperation] = {}

    def read(self, op: ir.Operation) -> HashedOperation:
        """The structure of an operation."""
        if id(op) not in self._cache:
            self._cache[id(op)] = self._hash(op)
        return self._cache[id(op)]

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
    """The name, attributes and result types of an operation."""
    attributes = tuple(op.attributes.items()) if len(op.attributes) else ()
    return op.name, attributes, tuple([r.type for r in op.results])


class _Body:
    """The regions of an operation as a sequence `parts`, in which operands are numbered by definition."""

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self.region_captures: list[tuple[ir.Operation, int]] = []
        self._defined: dict[ir.Value, int] = {}

    def read(self, op: ir.Operation) -> bool:
        """Adds the regions of an operation; returns whether each region is one block."""
        return all(len(region.blocks) == 1 and self._block(region.blocks[0]) for region in op.regions)

    def _block(self, block: ir.Block) -> bool:
        self.parts.append(tuple([a.type for a in block.arguments]))
        for argument in block.arguments:
            self._defined[argument] = len(self._defined)
        single_block = all(self._op(view.operation) for view in block.operations)
        self.parts.append(None)
        return single_block

    def _op(self, op: ir.Operation) -> bool:
        self.parts.append((_head(op), tuple([self._operand_number(op, i, v) for i, v in enumerate(op.operands)])))
        for result in op.results:
            self._defined[result] = len(self._defined)
        return not len(op.regions) or self.read(op)

    def _operand_number(self, op: ir.Operation, index: int, value: ir.Value) -> int | None:
        """The number of a value that is defined inside; None for a captured value, which is recorded."""
        number = self._defined.get(value)
        if number is None:
            self.region_captures.append((op, index))
        return number
