"""Dynamic sizes in programs of operators: shape assertions before an operation, and sizes as values."""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Call, Rule
from oneflow.lowering.linalg.checks import Checks
from oneflow.lowering.linalg.emit import Emitter
from oneflow.lowering.linalg.rules import RULES
from oneflow.lowering.linalg.scalars import Scalars
from oneflow.lowering.linalg.shape_assertions import ShapeAssertions
from oneflow.lowering.linalg.sizes import Shapes, cast_source
from oneflow.lowering.linalg.stages import StageBuilder, operand_names


class DynamicSizes:
    """The dynamic sizes of one module's tensors; `write_sites` writes the messages of the assertions."""

    def __init__(self, module: ir.Module) -> None:
        emitter = Emitter()
        self.shapes = Shapes(emitter, Scalars(emitter))
        self.checks, self.assertions = Checks(module, emitter), ShapeAssertions()

    def assert_satisfied(self, op: ir.Operation, call: Call, rule: Rule | None = None) -> None:
        """Asserts before an operation that the sizes of a run satisfy `rule`, by default the rule of its types."""
        self.checks.begin_operation()
        with ir.InsertionPoint(op), ir.Location.name(op.name, op.location):
            e, operands, names = self.shapes.e, list(map(_ranked, op.operands)), operand_names(call)
            builder = StageBuilder(RULES, e, self.shapes, self.checks, operands, names, op.name)
            self.assertions.check(builder, call, rule)

    def value(self, op: ir.Operation, tensor: ir.Value, dim: int) -> ir.Value:
        """The size of a tensor along `dim`, as a value before an operation."""
        with ir.InsertionPoint(op), ir.Location.name(op.name, op.location):
            return self.shapes.value(self.shapes.extent(tensor, dim))

    def write_sites(self) -> None:
        """Writes the messages of the assertions to the module."""
        self.checks.write_sites()


def _ranked(value: ir.Value) -> ir.Value:
    """A tensor of known rank: the value, or what it was cast from."""
    return value if isinstance(value.type, ir.RankedTensorType) else cast_source(value)
