"""`oneflow-canonicalize`: the laws of the operators' records, constant folding and removal of dead operations.

A law is written against a `LawBuilder`: it may ask for the `producer` of a value and for its `constant`, and
builds the replacement out of operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir, tensor
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Call, Law, OperatorError, Registry, suggestion
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes import constants
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

FOLDING = "constant-folding"
CONSTANT = "arith.constant"
#: OneFlow's bookkeeping that says where an operation runs; a law rewrites only operations of one placement.
PLACEMENT = ("device_tag", "device_name")
#: The attributes that a replacement copies from the replaced operation.
INHERITED = (*PLACEMENT, "hierarchy", "scope_symbol_id")


@register_pass
@dataclass(frozen=True)
class Canonicalize(Pass):
    """Applies the operators' laws and folds constants until nothing changes.

        %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %1 = "oneflow.transpose"(%0) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
        return %1
    becomes
        return %x

    Pure operations without uses are removed. `laws` restricts the pass to the named laws;
    `constant-folding` is one of them. No law applies across operations of different placement.
    """

    name: ClassVar[str] = "oneflow-canonicalize"
    laws: tuple[str, ...] = ()

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites in place.

        Raises:
            PassError: `laws` names an unknown law, or a law returns values of other types than the replaced results.
        """
        known = law_names(registry) if self.laws else frozenset[str]()
        for name in self.laws:
            if name not in known:
                raise PassError(f"{self.name}: unknown law {name}{suggestion(name, known)}")
        _Rewriter(registry, frozenset(self.laws)).run(module.operation)


def law_names(registry: Registry) -> frozenset[str]:
    """The names of all laws, constant folding included."""
    return frozenset({FOLDING, *(law.name for record in registry for law in record.laws)})


class LawBuilder(IRBuilder):
    """Builds replacements, and answers the queries of laws about values.

    `owners` has the operation of each value, kept up to date by the rewriter: MLIR's own answer is slow.
    """

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.owners: dict[ir.Value, ir.Operation] = {}
        self.created: list[ir.Operation] = []
        self._inherited: dict[str, ir.Attribute] = {}

    def begin(self, op: ir.Operation) -> None:
        """Sets the insertion point before `op`, and the placement of `op`."""
        self.ip, self.loc, self.created = ir.InsertionPoint(op), op.location, []
        self._inherited = {n: op.attributes[n] for n in INHERITED if n in op.attributes}

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Creates the operation with the placement of the replaced operation."""
        values = super().emit(op, results)
        for value in values:
            self._adopt(value.handle.owner.operation)
        return values

    def _adopt(self, created: ir.Operation) -> None:
        if created.name == dialect.CAST:
            self._adopt(created.operands[0].owner.operation)
        else:
            for name, attribute in self._inherited.items():
                created.attributes[name] = attribute
        self.note(created)

    def note(self, op: ir.Operation) -> None:
        """Registers the results of an operation that was just built."""
        self.created.append(op)
        self.owners.update((result, op) for result in op.results)

    def owner(self, value: ir.Value) -> ir.Operation | None:
        """The operation that defines a value, through casts; None for a block argument."""
        op = self.owners.get(value)
        while op is not None and op.name == dialect.CAST:
            op = self.owners.get(op.operands[0])
        return op

    def producer(self, value: Value, name: str) -> Call | None:
        """The call of operator `name` that defines `value`, if there is such a call of the same placement whose
        tensors have known ranks.
        """
        op = self.owner(value.handle)
        if op is None or op.name != dialect.PREFIX + name:
            return None
        if _placement(op.attributes) != _placement(self._inherited):
            return None
        call = self.call_of(op)
        return call if _has_ranks(call) else None

    def constant(self, value: Value) -> np.ndarray | None:
        """The array that `value` always is, or None."""
        op = self.owner(value.handle)
        if op is None or op.operands:
            return None
        if op.name == CONSTANT:
            return constants.read_dense(op)
        if not dialect.is_oneflow(op) or not constants.can_evaluate(dialect.record_of(op, self.registry)):
            return None
        arrays = constants.evaluate_call(self.call_of(op))
        return arrays[0] if arrays is not None and len(arrays) == 1 else None


class _Rewriter:
    """A worklist of operations by their first result; operations that a rewrite touches are added again.

    `laws` are the names of the laws that are applied, all laws where there is no name. Operations are no keys: MLIR
    hashes operations by their content, which rewriting changes.
    """

    def __init__(self, registry: Registry, laws: frozenset[str]) -> None:
        self.registry, self.laws, self.folds = registry, laws, not laws or FOLDING in laws
        self.ops = LawBuilder(registry)
        self.worklist: dict[ir.Value, ir.Operation] = {}

    def run(self, root: ir.Operation) -> None:
        operations = gather(root, _is_ours)
        self.ops.owners.update((result, op) for op in operations for result in op.results)
        self._revisit(reversed(operations))
        while self.worklist:
            _, op = self.worklist.popitem()
            self._visit(op)

    def _visit(self, op: ir.Operation) -> None:
        if self._is_dead(op):
            self._erase(op)
        elif op.name == dialect.CAST:
            if op.operands[0].type == op.results[0].type:
                self._replace(op, [op.operands[0]])
        elif op.name != CONSTANT:
            self._rewrite(op)

    def _is_dead(self, op: ir.Operation) -> bool:
        if any(next(iter(result.uses), None) is not None for result in op.results):
            return False
        return op.name in (dialect.CAST, CONSTANT) or dialect.record_of(op, self.registry).pure

    def _rewrite(self, op: ir.Operation) -> None:
        """Folds the operation or applies the first law that matches."""
        laws = [law for law in dialect.record_of(op, self.registry).laws if not self.laws or law.name in self.laws]
        foldable = self.folds and bool(op.operands) and self._all_constant(op)
        if not laws and not foldable:
            return
        self.ops.begin(op)
        call = self.ops.call_of(op)
        if not _has_ranks(call):
            return
        values = self._fold(call) if foldable else None
        for law in laws:
            values = values or self._apply(law, call, op)
        if values is not None:
            self._replace(op, [self._converted(v, r) for v, r in zip(values, op.results, strict=True)])
        self._revisit(self.ops.created)

    def _all_constant(self, op: ir.Operation) -> bool:
        owners = [self.ops.owner(v) for v in op.operands]
        return all(o is not None and not o.operands for o in owners)

    def _fold(self, call: Call) -> list[Value] | None:
        """The results of a call whose operands are known, if the results are small enough to write."""
        if not constants.can_evaluate(call.record):
            return None
        arrays = {k: self._arrays(v) for k, v in call.inputs.items()}
        if any(a is None and call.inputs[k] is not None for k, a in arrays.items()):
            return None
        results = constants.evaluate_call(Call(call.record, arrays, call.attrs))
        if results is None or not all(map(constants.can_write, results)):
            return None
        return [self._write(array) for array in results]

    def _arrays(self, operand: Any) -> Any:
        if not isinstance(operand, tuple):
            return None if operand is None else self.ops.constant(operand)
        arrays = tuple(self.ops.constant(v) for v in operand)
        return None if any(a is None for a in arrays) else arrays

    def _write(self, array: np.ndarray) -> Value:
        assert self.ops.ip is not None and self.ops.loc is not None, "no operation is being replaced"
        value = constants.write(self.ops, array, (self.ops.ip, self.ops.loc))
        self.ops.note(value.handle.owner.operation)
        return value

    def _apply(self, law: Law, call: Call, op: ir.Operation) -> list[Value] | None:
        try:
            values = law.apply(self.ops, call)
        except OperatorError as error:
            raise PassError(f"law {law.name}: {error}", op.location) from None
        if values is None:
            return None
        replacements = [values] if isinstance(values, Value) else list(values)
        for value, result in zip(replacements, call.results, strict=True):
            if not value.desc.compatible(result.desc):
                raise PassError(f"law {law.name}: expected {result.desc}, got {value.desc}", op.location)
        return replacements

    def _converted(self, value: Value, result: ir.Value) -> ir.Value:
        """`value` with the type of the replaced result."""
        if value.handle.type == result.type:
            return value.handle
        cast = tensor.CastOp(result.type, value.handle, ip=self.ops.ip, loc=self.ops.loc)
        self.ops.note(cast.operation)
        return cast.result

    def _replace(self, op: ir.Operation, values: Sequence[ir.Value]) -> None:
        for result, value in zip(op.results, values, strict=True):
            self._revisit([use.owner.operation for use in result.uses])
            result.replace_all_uses_with(value)
        self._erase(op)

    def _erase(self, op: ir.Operation) -> None:
        owners = [self.ops.owners.get(value) for value in op.operands]
        for result in op.results:
            self.ops.owners.pop(result, None)
            self.worklist.pop(result, None)
        op.erase()
        self._revisit([owner for owner in owners if owner is not None])

    def _revisit(self, ops: Iterable[ir.Operation]) -> None:
        self.worklist.update((op.results[0], op) for op in ops if _is_ours(op))


def _has_ranks(call: Call) -> bool:
    return all(v.desc.shape is not None for v in (*call.operands, *call.results))


def _is_ours(op: ir.Operation) -> bool:
    """Whether the pass visits an operation: an operator, a cast or a constant."""
    return bool(op.results) and (dialect.is_oneflow(op) or op.name in (dialect.CAST, CONSTANT))


def _placement(attributes: Mapping[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    """The placement attributes among `attributes`."""
    return {name: attributes[name] for name in PLACEMENT if name in attributes}
