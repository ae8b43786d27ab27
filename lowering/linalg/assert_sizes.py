"""`oneflow-assert-sizes`: what composite operators require of dynamic sizes becomes run-time checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Operator, OperatorError, Registry
from oneflow.lowering.linalg.dynamic_sizes import DynamicSizes
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class AssertSizes(Pass):
    """Writes the run-time checks of the sizes that an operator compares and its decomposition need not compare.

        %0 = "oneflow.assign"(%ref, %value) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>

    becomes

        %d = tensor.dim %value, %c0
        %e = tensor.dim %ref, %c0
        func.call @oneflow_rt_check_size(..)
        %0 = "oneflow.assign"(%ref, %value) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    """

    name: ClassVar[str] = "oneflow-assert-sizes"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Writes the checks before each operator that is decomposed and has the slot `check`.

        Raises:
            PassError: the operands or the attributes do not fit the operator.
        """
        checked: list[tuple[ir.Operation, Operator]] = []

        def visit(op: ir.Operation) -> None:
            record = dialect.record_of(op, registry)
            if record.decompose is not None and record.check is not None:
                checked.append((op, record))

        dialect.walk(module.operation, visit)
        sizes = DynamicSizes(module)
        for op, record in checked:
            try:
                call = dialect.operand_call(op, record, dialect.desc_of)
            except OperatorError as error:
                raise PassError(str(error), op.location) from None
            if all(desc.shape is not None for desc in call.operands):
                sizes.assert_satisfied(op, call, record.check)
        sizes.write_sites()
