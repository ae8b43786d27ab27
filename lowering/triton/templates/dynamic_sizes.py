"""Dynamic sizes of operators that have templates: their shape assertions, and the sizes as values."""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Call
from oneflow.lowering.linalg.checks import Checks
from oneflow.lowering.linalg.emit import Emitter
from oneflow.lowering.linalg.rules import RULES
from oneflow.lowering.linalg.scalars import Scalars
from oneflow.lowering.linalg.shape_assertions import ShapeAssertions
from oneflow.lowering.linalg.sizes import Shapes
from oneflow.lowering.linalg.stages import StageBuilder


class DynamicSizes:
    """The dynamic sizes of one module's tensors; `finish` writes the messages of the assertions."""

    def __init__(self, module: ir.Module) -> None:
        emitter = Emitter()
        self.shapes = Shapes(emitter, Scalars(emitter))
        self.checks, self.assertions = Checks(module, emitter), ShapeAssertions()

    def expect(self, op: ir.Operation, call: Call) -> None:
        """Asserts before an operation that the sizes of a run satisfy the rules of its types."""
        names = [name for name, desc in call.inputs.items() if desc is not None]
        self.checks.begin_operation()
        with ir.InsertionPoint(op), ir.Location.name(op.name, op.location):
            shapes, checks = self.shapes, self.checks
            self.assertions.check(
                StageBuilder(RULES, shapes.e, shapes, checks, list(op.operands), names, op.name), call
            )

    def value(self, op: ir.Operation, tensor: ir.Value, dim: int) -> ir.Value:
        """The size of a tensor along `dim`, as a value before an operation."""
        with ir.InsertionPoint(op), ir.Location.name(op.name, op.location):
            return self.shapes.value(self.shapes.extent(tensor, dim))

    def finish(self) -> None:
        """Writes the messages of the assertions to the module."""
        self.checks.write_sites()
