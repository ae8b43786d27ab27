"""`convert-oneflow-to-linalg`: operators become linalg on tensors, from the stage `oneflow` to the stage `linalg`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from oneflow.dialect import meaning
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.compute import Input, Reshape, Stage, is_natural
from oneflow.dialect.record import Call, OperatorError, Registry, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.checks import Checks
from oneflow.lowering.linalg.control import Controls
from oneflow.lowering.linalg.conversion_cache import ConversionCache
from oneflow.lowering.linalg.emit import BARRIER, Emitter, Value
from oneflow.lowering.linalg.external import Externals, is_external
from oneflow.lowering.linalg.foreign_checks import CHECKED, ForeignChecks
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.linalg.rules import RULES
from oneflow.lowering.linalg.scalars import Scalars
from oneflow.lowering.linalg.shape_assertions import ShapeAssertions
from oneflow.lowering.linalg.signless import make_signless
from oneflow.lowering.linalg.sizes import Shapes, cast_source
from oneflow.lowering.linalg.stages import StageBuilder, operand_names
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather


@dataclass(frozen=True)
class _OperatorUse:
    """An operator's operation that is to be converted.

    Attributes:
        op: the operation.
        call: its call on descriptions of the operands.
        results: the inferred descriptions of its results.
        declared: the descriptions of the types that the operation has.
        key: equal for operations with equal conversions; None where the conversion depends on dynamic sizes.
    """

    op: ir.Operation
    call: Call
    results: tuple[TensorDesc, ...]
    declared: tuple[TensorDesc, ...]
    key: Hashable = None


@register_pass
@dataclass(frozen=True)
class ConvertOneflowToLinalg(Pass):
    """Turns every operator into linalg on tensors; tensors of unsigned integers become signless.

        %0 = "oneflow.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>

    becomes

        %e = tensor.empty() : tensor<4xf32>
        %0 = linalg.generic {..} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
        ^bb0(%in: f32, %out: f32):
          %z = arith.constant 0.0 : f32
          %m = arith.maximumf %in, %z : f32
          linalg.yield %m : f32
        } -> tensor<4xf32>
    """

    name: ClassVar[str] = "convert-oneflow-to-linalg"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Converts each operation in place, with its location.

        Raises:
            PassError: a type is unranked; an operator has to be decomposed first, or refuses the call.
        """
        check_legal(module)
        uses = _uses(_operations(module.operation), registry)
        make_signless(module.operation)
        keys = [use.key for use in uses if isinstance(use, _OperatorUse)]
        converter = _Converter(module, Counter(key for key in keys if key is not None))
        for use in uses:
            if isinstance(use, _OperatorUse):
                converter.convert(use)
            else:
                converter.foreign_checks.write(use)
        converter.checks.write_sites()


def _operations(root: ir.Operation) -> list[ir.Operation]:
    """The operators of a program and other operations with run-time checks, in order."""
    return gather(root, lambda op: op.name.startswith(dialect.PREFIX) or op.name in CHECKED)


def _uses(ops: Sequence[ir.Operation], registry: Registry) -> list[_OperatorUse | ir.Operation]:
    """Uses of operators, and other operations as they are, in order. Equal calls are described once."""
    known: dict[Hashable, _OperatorUse] = {}
    uses: list[_OperatorUse | ir.Operation] = []
    for op in ops:
        key = _conversion_key(op)
        if not op.name.startswith(dialect.PREFIX):
            uses.append(op)
        elif key in known:
            uses.append(replace(known[key], op=op))
        else:
            use = replace(_use(op, registry), key=key)
            uses.append(use)
            known |= {} if key is None else {key: use}
    return uses


def _conversion_key(op: ir.Operation) -> Hashable:
    """The key of a conversion on static tensors: operator, attributes and types."""
    types = [v.type for v in (*op.operands, *op.results)]
    if not all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types):
        return None
    return op.name, tuple(op.attributes.items()), tuple(types)


def _use(op: ir.Operation, registry: Registry) -> _OperatorUse:
    record = dialect.record_of(op, registry)
    if record.decompose is not None:
        raise PassError(f"{op.name}: expected operators that compute; run oneflow-decompose first", op.location)
    try:
        call = dialect.operand_call(op, record, dialect.desc_of)
        declared = tuple(dialect.desc_of(v) for v in op.results)
        results = infer(record, call)
    except OperatorError as error:
        raise PassError(str(error), op.location) from None
    if any(d.dtype.is_complex for d in (*call.operands, *results)):
        raise PassError(f"{op.name}: expected operators on reals; run oneflow-expand-complex first", op.location)
    return _OperatorUse(op, call, results, declared)


class _Converter:
    """Converts the operations of one module in program order."""

    def __init__(self, module: ir.Module, counts: Mapping[Hashable, int]) -> None:
        self.counts, self.cache = counts, ConversionCache()
        self.e = Emitter()
        self.shapes = Shapes(self.e, Scalars(self.e))
        self.checks, self.assertions = Checks(module, self.e), ShapeAssertions()
        self.foreign_checks = ForeignChecks(self.shapes, self.checks)
        self.externals, self.controls = Externals(module, self.e), Controls(module, self.e)

    def convert(self, use: _OperatorUse) -> None:
        """Replaces an operation by its stages, or by a call of its external kernel or of its bodies."""
        self.checks.begin_operation()
        with ir.InsertionPoint(use.op), ir.Location.name(use.op.name, use.op.location):
            operands = [self._operand(v, d) for v, d in zip(use.op.operands, use.call.operands, strict=True)]
            try:
                values = self._values(use, operands)
            except OperatorError as error:
                raise PassError(str(error), use.op.location) from None
            for old, value in zip(use.op.results, values, strict=True):
                old.replace_all_uses_with(value)
        use.op.erase()

    def _values(self, use: _OperatorUse, operands: Sequence[Value]) -> Sequence[Value]:
        """The results of a call."""
        if is_external(use.call):
            return self._call(use, operands, self.externals)
        if use.call.record.control is not None:
            return self._call(use, operands, self.controls)
        if "barrier" in use.call.record.traits:
            return self._barrier(use, operands)
        if self.counts.get(use.key, 0) < 2:
            return self._stages(use, operands)
        return self.cache.convert(use.key, operands, lambda values: self._stages(use, values))

    def _barrier(self, use: _OperatorUse, operands: Sequence[Value]) -> list[Value]:
        """The first operand, ordered after the other operands."""
        value = self.e.op(BARRIER, operands[0].type, operands)
        self.shapes.remember(value, [self.shapes.extent(operands[0], i) for i in range(operands[0].type.rank)])
        return [self._with_declared_type(value, d) for d in use.declared]

    def _stages(self, use: _OperatorUse, operands: Sequence[Value]) -> list[Value]:
        """The results of a call by its stages; dynamic sizes are asserted before a stage relies on them.

        Loops of element-wise operators check the sizes of their operands, and reshapes the number of elements.
        """
        builder = StageBuilder(
            RULES, self.e, self.shapes, self.checks, operands, operand_names(use.call), use.op.name
        )
        stages = meaning.stages(meaning.input_stages(use.call), use.results)
        for stage in stages:
            builder.sizes.extents(stage.shape)
        element_wise = use.call.record.scalar is not None
        if not element_wise and not all(map(_is_view, stages)):
            self.assertions.check(builder, use.call)
        results = [
            self._result(builder, stage, declared) for stage, declared in zip(stages, use.declared, strict=True)
        ]
        if element_wise:
            self.assertions.check(builder, use.call)
        return results

    def _call(self, use: _OperatorUse, operands: Sequence[Value], calls: Externals | Controls) -> list[Value]:
        values = calls.call(use.op, use.call, operands, use.results)
        return [self._with_declared_type(v, d) for v, d in zip(values, use.declared, strict=True)]

    def _with_declared_type(self, value: Value, desc: TensorDesc) -> Value:
        """A value cast to the type of the operation."""
        ranked = None if desc.shape is None else self.e.tensor(desc.shape, desc.dtype)
        return self.e.cast(value, ranked or ir.UnrankedTensorType.get(value.type.element_type))

    def _operand(self, value: Value, desc: TensorDesc) -> Value:
        """The operand with the described type; the operand of a `tensor.cast` where that has the type."""
        wanted = self.e.tensor(desc.shape or (), desc.dtype)
        source: Value | None = value
        while source is not None and source.type != wanted:
            source = cast_source(source)
        return self.e.cast(value, wanted) if source is None else source

    def _result(self, builder: StageBuilder, stage: Stage, declared: TensorDesc) -> Value:
        """The value of a stage, cast to the type of the operation; checks the sizes that are static only there."""
        value = builder.tensor(stage)
        if declared.shape is None:
            return self.e.cast(value, ir.UnrankedTensorType.get(value.type.element_type))
        for axis, (size, dim) in enumerate(zip(stage.shape, declared.shape, strict=True)):
            if dim is not None:
                builder.check_equal(size, dim, f"dimension {axis} of the result")
            elif not is_natural(size):
                builder.check_at_least(size, 0, f"dimension {axis} of the result, which is too small")
        cast = self.e.cast(value, self.e.tensor(declared.shape, declared.dtype))
        self.shapes.remember(cast, builder.sizes.extents(stage.shape))
        return cast


def _is_view(stage: Stage) -> bool:
    """Whether a stage is a reshape of an operand."""
    return isinstance(stage, Reshape) and isinstance(stage.source, Input)
