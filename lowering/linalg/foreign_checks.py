"""Run-time checks of operations of other dialects: casts, assertions, loop-carried tensors, earlier checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.lowering.linalg.checks import CHECK_SIZE, Checks
from oneflow.lowering.linalg.emit import Value
from oneflow.lowering.linalg.sizes import Shapes

#: Loops with loop-carried values.
LOOPS = frozenset({"scf.for", "scf.while"})


@dataclass
class ForeignChecks:
    """Writes the checks of one module."""

    shapes: Shapes
    checks: Checks

    def write(self, op: ir.Operation) -> None:
        """Writes the run-time checks of an operation of `CHECKED`."""
        self.checks.begin_operation()
        CHECKED[op.name](self, op)

    def _check_cast(self, op: ir.Operation) -> None:
        """Checks the sizes that a cast makes static."""
        source, result = op.operands[0], op.results[0].type
        with ir.InsertionPoint(op), op.location:
            for dim in _static_result_dims(op):
                got, wanted = self.shapes.extent(source, dim), result.get_dim_size(dim)
                text = f"{op.name}: dimension {dim}"
                self.checks.size(self.shapes.value(got), self.shapes.value(wanted), text, op.location)

    def _check_assert(self, op: ir.Operation) -> None:
        """Makes an assertion a run-time check: otherwise its failure ends the process."""
        e = self.shapes.e
        with ir.InsertionPoint(op), op.location:
            holds = e.op("arith.index_castui", e.index_type, [op.operands[0]])
            self.checks.size(holds, e.index(1), f"cf.assert: {op.attributes['msg'].value}", op.location)
        op.erase()

    def _remember_check(self, op: ir.Operation) -> None:
        """Remembers the sizes that a check of an earlier pass compares; this pass writes no second check of them."""
        if op.attributes["callee"].value == CHECK_SIZE:
            with ir.InsertionPoint(op), op.location:
                self.checks.remember(*(self._compared(v) for v in list(op.operands)[:2]))

    def _compared(self, operand: Value) -> Value:
        """The size that is an operand of a check: the value that the checks of this pass have for it."""
        known = _constant(operand)
        if known is not None:
            return self.shapes.value(known)
        size = operand.owner.operands[0] if _is_result_of("arith.index_cast", operand) else operand
        source, axis = size.owner.operands if _is_result_of("tensor.dim", size) else (size, size)
        dim = _constant(axis)
        return size if dim is None else self.shapes.value(self.shapes.extent(source, dim))

    def _check_loop_carried(self, op: ir.Operation) -> None:
        """Checks that loop-carried tensors keep their sizes, for which memory is allocated."""
        if op.block.owner.operation.name not in LOOPS:
            return
        carried = list(op.operands)[op.name == "scf.condition" :]
        with ir.InsertionPoint(op), op.location:
            for value, before in zip(carried, list(op.block.arguments)[-len(carried) :], strict=False):
                self._check_sizes_unchanged(value, before, op)

    def _check_sizes_unchanged(self, value: Value, before: Value, op: ir.Operation) -> None:
        """Checks that a loop-carried tensor has the sizes that it had before the step."""
        if not isinstance(value.type, ir.RankedTensorType) or value.type != before.type:
            return
        for dim in range(value.type.rank):
            got, wanted = self.shapes.extent(value, dim), self.shapes.extent(before, dim)
            if got != wanted:
                text = f"{op.block.owner.operation.name}: dimension {dim} of a loop-carried tensor"
                self.checks.size(self.shapes.value(got), self.shapes.value(wanted), text, op.location)


#: The operations with run-time checks, by name.
CHECKED: Mapping[str, Callable[[ForeignChecks, ir.Operation], None]] = {
    dialect.CAST: ForeignChecks._check_cast,
    "cf.assert": ForeignChecks._check_assert,
    "func.call": ForeignChecks._remember_check,
    "scf.yield": ForeignChecks._check_loop_carried,
    "scf.condition": ForeignChecks._check_loop_carried,
}


def _static_result_dims(cast: ir.Operation) -> list[int]:
    """The dimensions that are static in the result of a cast and dynamic in its operand."""
    source, result = cast.operands[0].type, cast.results[0].type
    if not all(isinstance(t, ir.RankedTensorType) for t in (source, result)):
        return []
    return [i for i in range(result.rank) if source.is_dynamic_dim(i) and not result.is_dynamic_dim(i)]


def _constant(value: Value) -> int | None:
    """The integer of a constant; None for other values."""
    return value.owner.attributes["value"].value if _is_result_of("arith.constant", value) else None


def _is_result_of(name: str, value: Value) -> bool:
    """Whether a value is the result of an operation `name`."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == name
