"""The layouts of values in a program after layout propagation, and the layouts that operations require.

The source of the layouts is the annotations of `oneflow-infer-sbp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import NdSbp, broadcast
from oneflow.dialect.record import Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.passes.base import PassError
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.graph import block_arguments, cast_layout, static_desc
from oneflow.passes.sbp.submeshes import WHOLE, Submesh, Submeshes, placement_of, placements_of
from oneflow.passes.structure import Function, qualified_callee


@dataclass
class Layouts:
    """The layouts of a function's values so far, filled in program order by `add_arguments` and `add_results`."""

    submeshes: Submeshes
    registry: Registry
    functions: dict[str, ir.Operation]
    values: dict[ir.Value, NdSbp] = field(default_factory=dict)
    submesh_of: dict[ir.Value, Submesh] = field(default_factory=dict)
    descs: dict[ir.Value, TensorDesc] = field(default_factory=dict)

    def add_arguments(self, function: Function) -> None:
        """Records the arguments of a function.

        Raises:
            PassError: one is not annotated.
        """
        stated = notes.read_values(function.op, notes.ARGUMENTS, len(function.inputs))
        placements = placements_of(function.op, notes.ARGUMENTS, len(function.inputs))
        for index, (value, nd, placement) in enumerate(zip(function.arguments, stated, placements, strict=True)):
            if notes.is_tensor(value.type):
                self.set(value, _required(nd, function.op, f"argument {index}"), placement)
        self._add_block_arguments(function.op, 1)

    def _add_block_arguments(self, op: ir.Operation, skipped: int = 0) -> None:
        """Records the arguments of an operation's blocks, which are replicated."""
        for value in block_arguments(op, skipped):
            if notes.is_tensor(value.type):
                self.set(value, self._broadcast)

    @property
    def _broadcast(self) -> NdSbp:
        return broadcast(self.submeshes[WHOLE].mesh)

    def set(self, value: ir.Value, nd: NdSbp, placement: str = WHOLE) -> None:
        """Sets the layout and the placement of a value."""
        desc = static_desc(value)
        assert desc is not None, value
        self.values[value], self.descs[value] = nd, desc
        self.submesh_of[value] = self.submeshes[placement]

    def is_relaxing_cast(self, op: ir.Operation) -> bool:
        """Whether an operation is a `tensor.cast` to a less specific type."""
        if op.name != dialect.CAST or op.operands[0] not in self.descs:
            return False
        result = from_mlir(op.results[0].type)
        return result is not None and self.descs[op.operands[0]].refines(result)

    def operand_layouts(self, function: Function, op: ir.Operation) -> list[NdSbp | None]:
        """The layout that an operation requires of each operand; None for a value that is no tensor.

        Raises:
            PassError: the operation is not annotated, or is annotated for another number of operands.
        """
        if op.name.startswith(dialect.PREFIX):
            annotated = notes.read_operation(op, notes.IN)
            stated: Sequence[NdSbp | None] = _checked_count(annotated, op.operands, op)
        elif op.name == "func.return":
            stated = notes.read_values(function.op, notes.RESULTS, len(op.operands))
        else:
            stated = self._of_call(op, notes.ARGUMENTS, op.operands)
        return [self._if_tensor(v, nd, op) for v, nd in zip(op.operands, stated, strict=True)]

    def result_layouts(self, op: ir.Operation) -> list[NdSbp | None]:
        """The layout of each result of an operation; None for a value that is no tensor.

        Raises:
            PassError: the operation is not annotated, or is annotated for another number of results.
        """
        if op.name == notes.PARALLEL_CAST:
            stated: Sequence[NdSbp | None] = [cast_layout(op, self.registry)]
        elif op.name.startswith(dialect.PREFIX):
            stated = _checked_count(notes.read_operation(op, notes.OUT), op.results, op)
        else:
            stated = self._of_call(op, notes.RESULTS, op.results)
        return [self._if_tensor(v, nd, op) for v, nd in zip(op.results, stated, strict=True)]

    def _of_call(self, op: ir.Operation, name: str, values: Sequence[ir.Value]) -> Sequence[NdSbp | None]:
        callee = self.functions.get(qualified_callee(op)) if op.name == "func.call" else None
        return [self._broadcast] * len(values) if callee is None else notes.read_values(callee, name, len(values))

    def _if_tensor(self, value: ir.Value, nd: NdSbp | None, op: ir.Operation) -> NdSbp | None:
        return _required(nd, op, "every tensor") if notes.is_tensor(value.type) else None

    def add_results(self, op: ir.Operation) -> None:
        """Records the results of an operation, and the arguments of its blocks."""
        if self.is_relaxing_cast(op):
            source = op.operands[0]
            self.values[op.results[0]], self.descs[op.results[0]] = self.values[source], self.descs[source]
            self.submesh_of[op.results[0]] = self.submesh_of[source]
            return
        for value, nd in zip(op.results, self.result_layouts(op), strict=True):
            if nd is not None:
                self.set(value, nd, placement_of(op))
        self._add_block_arguments(op)


def _checked_count(annotated: list[NdSbp] | None, values: Sequence[ir.Value], op: ir.Operation) -> list[NdSbp]:
    if annotated is None or len(annotated) != len(values):
        raise PassError(
            f"{op.name}: expected {notes.IN} and {notes.OUT} for all operands and results;"
            " run oneflow-infer-sbp first",
            op.location,
        )
    return annotated


def _required(nd: NdSbp | None, op: ir.Operation, what: str) -> NdSbp:
    if nd is None:
        raise PassError(f"{op.name}: expected {notes.ND_SBP} of {what}; run oneflow-infer-sbp first", op.location)
    return nd
