"""`oneflow-infer-types`: shape inference to a fixpoint, within functions, through calls and control flow.

Types are only refined: `tensor<*xf32>` and `?` become the types of the operators' rules, never the reverse. An
operation of another dialect that needs the old type gets a `tensor.cast` back to that type. Values that must have
one type (the two yields of an `scf.if`, what callers pass and a function takes) are refined to what all of
these values agree on, and are cast to that type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir, tensor
from oneflow.dialect.control import body_inputs
from oneflow.dialect.reader import share_types
from oneflow.dialect.record import OperatorError, Registry, distribute
from oneflow.dialect.tensor_desc import TensorDesc, common_type, expected_type, from_mlir
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass
from oneflow.passes.structure import BodyUse, Function, Join, Operand, Structure


@register_pass
@dataclass(frozen=True)
class InferTypes(Pass):
    """Refines the types of results, function arguments and function results to the known types.

        %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
    becomes
        %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>

    The arguments of a private function are refined when all its calls agree. A public function may have callers in
    other modules, so its arguments are refined only with `keep-public=false`, for whole programs.
    """

    name: ClassVar[str] = "oneflow-infer-types"
    keep_public: bool = True

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Refines types in place.

        Raises:
            PassError: an operator's rule contradicts the type that the program states.
        """
        _Refiner(Structure.of(module.operation), registry, self.keep_public).run()


class _Refiner:
    """Refines the functions of a program until nothing changes."""

    def __init__(self, structure: Structure, registry: Registry, keep_public: bool) -> None:
        self.structure, self.registry, self.keep_public = structure, registry, keep_public
        self.inference = dialect.Inference(registry)
        self.type_of = cache(TensorDesc.to_mlir)
        self.holders: dict[ir.Value, ir.Value] = {}
        self.changed = False

    def run(self) -> None:
        queue = deque(self.structure.functions.values())
        while queue:
            function = queue.popleft()
            self._refine_function(function)
            for other in self._refine_calls(function):
                if other not in queue:
                    queue.append(other)
        self._insert_casts()

    def _refine_function(self, function: Function) -> None:
        """Visits the operations in program order, again while a loop's or block's arguments change."""
        while True:
            for op in function.operations:
                self._visit(op)
            self.changed = False
            for join in function.joins:
                self._join(join)
            if not self.changed:
                return

    def _visit(self, op: ir.Operation) -> None:
        if op.name == dialect.CAST:
            self._visit_cast(op)
            return
        try:
            types = self.inference.results(op)
            message = dialect.disagreement(op, types)
        except OperatorError as error:
            message = dialect.message_of(op, error)
        if message is not None:
            raise PassError(message, op.location)
        if types is not None:
            self._refine_results(op, types)

    def _visit_cast(self, op: ir.Operation) -> None:
        source, result = op.operands[0], op.results[0]
        self.inference.casts[result] = source
        known, stated = from_mlir(source.type), from_mlir(result.type)
        if known is not None and stated is None:
            raise PassError(f"tensor.cast: {expected_type(result.type)}, got {result.type}", op.location)
        if known is not None and stated is not None and not known.compatible(stated):
            raise PassError(f"tensor.cast: expected a tensor that can be {stated}, got {known}", op.location)

    def _refine_results(self, op: ir.Operation, types: Sequence[TensorDesc]) -> None:
        record = dialect.record_of(op, self.registry)
        if all(a.mixed or not a.is_variadic for a in record.signature.outputs):
            for value, desc in zip(op.results, types, strict=True):
                self._refine(value, desc)
            return
        pairs = list(zip(op.results, types, strict=True))
        for group in distribute(record.signature.outputs, pairs, None).values():
            if isinstance(group, tuple) and not isinstance(group[0], ir.Value):
                self._refine_group(op, group)
            elif group is not None:
                self._refine(*group)

    def _refine_group(self, op: ir.Operation, group: Sequence[tuple[ir.Value, TensorDesc]]) -> None:
        """Refines results that share a type: each is cast to its own where that says more."""
        exact = [desc.meet(dialect.stated_desc(value)) for value, desc in group]
        shared = common_type(exact)
        for (value, _), desc in zip(group, exact, strict=True):
            self._refine(value, shared)
            if value in self.holders:
                self._refine(self.holders[value], desc)
            elif desc != shared:
                self.holders[value] = self._cast_value(op, value, desc)

    def _cast_value(self, op: ir.Operation, value: ir.Value, desc: TensorDesc) -> ir.Value:
        """`value` cast to `desc`: by a cast that is there, or a new one for all users."""
        target = self.type_of(desc)
        for use in value.uses:
            if use.owner.name == dialect.CAST and use.owner.results[0].type == target:
                return use.owner.results[0]
        with op.location:
            cast = tensor.CastOp(target, value, ip=ir.InsertionPoint.after(op))
        value.replace_all_uses_except(cast.result, cast.operation)
        return cast.result

    def _refine(self, value: ir.Value, known: TensorDesc) -> bool:
        """Refines the type of `value` by `known`; returns whether the type changed."""
        stated = from_mlir(value.type)
        if stated is None or stated == known or not stated.compatible(known):
            return False
        target = stated.meet(known)
        if target == stated:
            return False
        old = value.type
        value.set_type(self.type_of(target))
        self._cast_back(value, old)
        return True

    def _cast_back(self, value: ir.Value, old: ir.Type) -> None:
        """Gives users of other dialects the previous type."""
        uses = self.structure.fixed.pop(value, None)
        if not uses:
            return
        point, location = _after(value)
        back = tensor.CastOp(old, value, ip=point, loc=location).result
        for use in uses:
            use.op.operands[use.index] = back

    def _known(self, operands: Sequence[Operand], others: Sequence[TensorDesc] = ()) -> TensorDesc | None:
        """The known type of all of these values and of `others`; None where one of the values is no tensor of
        OneFlow's.
        """
        values = [o.value for o in operands]
        if not (values or others) or any(from_mlir(v.type) is None for v in values):
            return None
        return common_type([*(self.inference.desc_of(v) for v in values), *others])

    def _body_inputs(self, use: BodyUse) -> list[TensorDesc]:
        """The types of the inputs of the bodies of an operator."""
        record = dialect.record_of(use.op, self.registry)
        return body_inputs(dialect.operand_call(use.op, record, self.inference.desc_of))

    def _join(self, join: Join) -> None:
        known = self._known(join.sources)
        if known is not None:
            for target in join.targets:
                self.changed |= self._refine(target, known)

    def _refine_calls(self, function: Function) -> list[Function]:
        """Refines the results of `function` and the values that it passes to bodies; returns the functions that
        change.
        """
        news = []
        for index in range(0 if function.name in self.structure.referenced else len(function.results)):
            known = self._known([Operand(op, index) for op in function.returns])
            if known is not None and function.refine_result(index, known, self.type_of):
                news += [c.function for c in self.structure.calls_of(function)]
                news += [u.function for u in self.structure.body_uses_of(function)]
        for call in self.structure.calls_of(function):
            self._return(function, call.op)
        for symbol in (*(c.callee for c in function.calls), *(u.symbol for u in function.bodies)):
            callee = self.structure.functions.get(symbol)
            if callee is not None and self._pass_arguments(callee):
                news.append(callee)
        return news

    def _return(self, function: Function, call: ir.Operation) -> None:
        for value, result in zip(call.results, function.results, strict=True):
            known = from_mlir(result)
            if known is not None:
                self._refine(value, known)

    def _pass_arguments(self, callee: Function) -> bool:
        """Refines the arguments of `callee` to what all calls and operators pass; returns whether a type changed."""
        stays = callee.name in self.structure.referenced or (self.keep_public and callee.is_public)
        if callee.is_declaration or stays:
            return False
        calls, uses = self.structure.calls_of(callee), self.structure.body_uses_of(callee)
        by_use = [self._body_inputs(use) for use in uses]
        news = False
        for index, argument in enumerate(callee.arguments):
            known = self._known([Operand(c.op, index) for c in calls], [descs[index] for descs in by_use])
            news |= known is not None and self._refine(argument, known)
        if news:
            callee.update_type()
        return news

    def _insert_casts(self) -> None:
        """Casts values to their required types, and the tensors of variadic operands to a shared type."""
        for function in self.structure.functions.values():
            for op in function.operations:
                if op.name != dialect.CAST:
                    share_types(op, dialect.record_of(op, self.registry))
            for join in function.joins:
                for source in join.sources:
                    self._cast_to(source, join.targets[0].type)
            for op in function.returns:
                for index, result in enumerate(function.results):
                    self._cast_to(Operand(op, index), result)
            for call in function.calls:
                callee = self.structure.functions.get(call.callee)
                for index, input_type in enumerate(callee.inputs if callee else ()):
                    self._cast_to(Operand(call.op, index), input_type)

        for function in self.structure.functions.values():
            self._erase_casts(function)

    @staticmethod
    def _erase_casts(function: Function) -> None:
        """Removes casts that have become identities or have lost their users."""
        for op in reversed(function.operations):
            if op.name != dialect.CAST:
                continue
            if op.operands[0].type == op.results[0].type:
                op.results[0].replace_all_uses_with(op.operands[0])
            if next(iter(op.results[0].uses), None) is None:
                op.erase()

    def _cast_to(self, operand: Operand, target: ir.Type) -> None:
        value = operand.value
        while value.type != target and value in self.inference.casts:
            value = self.inference.casts[value]
        if value.type != target:
            with operand.op.location:
                value = tensor.CastOp(target, value, ip=ir.InsertionPoint(operand.op)).result
        if value != operand.value:
            operand.op.operands[operand.index] = value


def _after(value: ir.Value) -> tuple[ir.InsertionPoint, ir.Location]:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner), value.location
    return ir.InsertionPoint.after(owner), owner.location
