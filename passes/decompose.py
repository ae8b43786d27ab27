"""`oneflow-decompose`: operators that are defined by others are written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir, tensor
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Call, OperatorError, Registry, Rule, flatten
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class Decompose(Pass):
    """Writes out operators whose meaning is other operators.

        %y = "oneflow.softmax"(%x)

    becomes

        %m = "oneflow.reduce_max"(%x) {axis = [1 : si32], keepdims = true}
        %d = "oneflow.broadcast_sub"(%x, %m)
        %e = "oneflow.exp"(%d)
        %s = "oneflow.reduce_sum"(%e) {axis = [1 : si32], keepdims = true}
        %y = "oneflow.broadcast_div"(%e, %s)

    A decomposition need not compare the dynamic sizes that its operator compares: `oneflow-assert-sizes` writes these
    checks, and runs before. Without that pass, a run with sizes that do not fit may give values in place of an error.
    """

    name: ClassVar[str] = "oneflow-decompose"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Decomposes until no operator is left that can be.

        Raises:
            PassError: a type is unranked, or a decomposition makes a call that is not allowed.
        """
        for op in _decomposable(module, registry):
            rule = dialect.record_of(op, registry).decompose
            assert rule is not None, op.name
            replace(op, rule, registry, Writer)


class Recorder(IRBuilder):
    """Records the calls that are built, so that calls without users can be removed."""

    def __init__(self, registry: Registry, ip: ir.InsertionPoint, loc: ir.Location) -> None:
        super().__init__(registry, ip, loc)
        self.built: list[ir.Operation] = []

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Builds a call."""
        values = super().emit(op, results)
        self.built += [v.handle.owner for v in values[:1]]
        return values

    def remove_unused(self) -> None:
        """Removes the pure calls whose results have no users, the last first."""
        for op in reversed(self.built):
            is_pure = dialect.is_oneflow(op) and dialect.record_of(op, self.registry).pure
            if is_pure and all(next(iter(r.uses), None) is None for r in op.results):
                op.erase()


class Writer(Recorder):
    """Emits the decompositions of operators, recursively, in place of the operators."""

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Emits the call, or its decomposition."""
        rule = op.record.decompose
        if rule is None:
            return super().emit(op, results)
        computed = rule(self, op)
        values = flatten(computed if isinstance(computed, (tuple, list)) else [computed])
        return [self.retype(v, d) for v, d in zip(values, results, strict=True)]


def _decomposable(module: ir.Module, registry: Registry) -> list[ir.Operation]:
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> None:
        if dialect.record_of(op, registry).decompose is not None:
            operations.append(op)

    dialect.walk(module.operation, visit)
    return operations


def replace(op: ir.Operation, rule: Rule, registry: Registry, builder: type[Recorder] = Recorder) -> None:
    """Replaces an operation by the calls that `rule` builds with a `builder`; the rule is a slot such as `decompose`.

    Raises:
        PassError: the rank of an operand is unknown, or the rule makes a call that is not allowed.
    """
    record = dialect.record_of(op, registry)
    ops = builder(registry, ir.InsertionPoint(op), op.location)
    try:
        call = dialect.operand_call(op, record, ops.wrap)
        if any(v.desc.shape is None for v in call.operands):
            raise PassError(f"{op.name}: operand of unknown rank; run oneflow-infer-types first", op.location)
        result = rule(ops, call)
    except OperatorError as error:
        message = str(error).removeprefix(f"{op.name}: ")
        raise PassError(f"{op.name}: decomposition: {message}", op.location) from None
    values = flatten(result if isinstance(result, (tuple, list)) else [result])
    for old, new in zip(op.results, values, strict=True):
        handle = new.handle
        if handle.type != old.type:
            handle = tensor.CastOp(old.type, handle, ip=ops.ip, loc=ops.loc).result
        old.replace_all_uses_with(handle)
    op.erase()
    ops.remove_unused()
