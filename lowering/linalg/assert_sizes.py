"""`oneflow-assert-sizes`: what composite operators require of dynamic sizes becomes run-time checks.

Input and output are at the stage `oneflow`, before operators are decomposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.composite import ComposedTypes, TypeBuilder, built_on_types
from oneflow.dialect.record import Call, Operator, OperatorError, Registry, Rule, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.dynamic_sizes import DynamicSizes
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class AssertSizes(Pass):
    """Writes run-time checks of sizes that an operator compares and that its decomposition may not compare.

        %0 = "oneflow.assign"(%ref, %value) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>

    becomes

        %d = tensor.dim %value, %c0
        %e = tensor.dim %ref, %c0
        func.call @oneflow_rt_check_size(..)
        %0 = "oneflow.assign"(%ref, %value) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>

    Checks of composite operators within a decomposition come before the whole operator.
    """

    name: ClassVar[str] = "oneflow-assert-sizes"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Writes the checks before each operator that is decomposed.

        Raises:
            PassError: the operands or the attributes do not fit the operator.
        """
        composites: list[tuple[ir.Operation, Operator]] = []

        def visit(op: ir.Operation) -> None:
            record = dialect.record_of(op, registry)
            if record.decompose is not None:
                composites.append((op, record))

        dialect.walk(module.operation, visit)
        sizes, stated = DynamicSizes(module), _StatedRules(registry)
        for op, record in composites:
            try:
                call = dialect.operand_call(op, record, dialect.desc_of)
                rules = stated.of(call)
            except OperatorError as error:
                raise PassError(str(error), op.location) from None
            for rule in rules:
                sizes.assert_satisfied(op, call, rule)
        sizes.write_sites()


def _own_rule(record: Operator) -> Rule | None:
    """The rule that a composite operator states besides its decomposition."""
    return record.check if isinstance(record.types, ComposedTypes) else _types


def _types(call: Call) -> object:
    return infer(call.record, call)


@dataclass(frozen=True)
class _StatedRules:
    """The rules of composite calls that compare sizes which the primitives of the decomposition need not compare."""

    registry: Registry

    def of(self, call: Call) -> list[Rule]:
        """The rules of a call: the rule of the operator, and rules of composite operators in its decomposition."""
        if any(desc.shape is None for desc in call.operands) or all(desc.is_static for desc in call.operands):
            return []
        rules = [_own_rule(call.record), self._composites_rule(call)]
        return [rule for rule in rules if rule is not None]

    def _composites_rule(self, call: Call) -> Rule | None:
        stated = [record for record in self.composites_of(call) if _own_rule(record) is not None]
        return self.composites_of if stated else None

    def composites_of(self, call: Call) -> list[Operator]:
        """The composite operators of a decomposition, and of the decompositions of these.

        Raises:
            OperatorError: an operator does not allow its call.
        """
        parts = _CompositeCollector(self.registry)
        assert call.record.decompose is not None, call.record.name
        built_on_types(call.record.decompose, call, parts)
        return parts.composites


class _CompositeCollector(TypeBuilder):
    """Builds decompositions on types and notes the composite operators of these."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.composites: list[Operator] = []

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Values of the inferred types; the decomposition of a composite call is built too."""
        if op.record.decompose is not None:
            self.composites.append(op.record)
            op.record.decompose(self, op)
        return super().emit(op, results)
