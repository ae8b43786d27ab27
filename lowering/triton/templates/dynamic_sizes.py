"""Sizes that only a run tells, of operators that have kernels by hand: what is checked of them, and their values."""

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


class RunSizes:
    """The sizes of one module's tensors; `finish` writes what its checks say."""

    def __init__(self, module: ir.Module) -> None:
        emitter = Emitter()
        self.shapes = Shapes(emitter, Scalars(emitter))
        self.checks, self.assertions = Checks(module, emitter), ShapeAssertions()

    def expect(self, op: ir.Operation, call: Call) -> None:
        """Lets a run fail before an operation where its types would refuse the sizes."""
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
        """Writes the texts of the checks on the module."""
        self.checks.write_sites()
