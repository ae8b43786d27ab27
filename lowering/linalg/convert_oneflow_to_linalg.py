"""`convert-oneflow-to-linalg`: operators become linalg on tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from oneflow.dialect import dtypes, meaning
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.compute import Input, Reshape, Stage, is_natural
from oneflow.dialect.record import Call, OperatorError, Registry, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.checks import CHECK_SIZE, Checks
from oneflow.lowering.linalg.control import Controls
from oneflow.lowering.linalg.conversion_cache import ConversionCache
from oneflow.lowering.linalg.emit import BARRIER, Emitter, Value
from oneflow.lowering.linalg.external import Externals, is_external
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.linalg.rules import RULES
from oneflow.lowering.linalg.scalars import Scalars
from oneflow.lowering.linalg.shape_assertions import ShapeAssertions
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
        stated: the descriptions of the types that the operation has.
        key: equal for operations with equal conversions; None where the conversion depends on dynamic sizes.
    """

    op: ir.Operation
    call: Call
    results: tuple[TensorDesc, ...]
    stated: tuple[TensorDesc, ...]
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
        _retype_unsigned(module.operation)
        keys = [use.key for use in uses if isinstance(use, _OperatorUse)]
        converter = _Converter(module, Counter(key for key in keys if key is not None))
        for use in uses:
            if isinstance(use, _OperatorUse):
                converter.convert(use)
            else:
                converter.check(use)
        converter.checks.write_sites()


def _operations(root: ir.Operation) -> list[ir.Operation]:
    """The operators of a program and other operations with run-time checks, in order."""
    return gather(root, lambda op: op.name.startswith(dialect.PREFIX) or op.name in CHECKED)


def _stated_dims(cast: ir.Operation) -> list[int]:
    """The dimensions that are static in the result of a cast and dynamic in its operand."""
    source, result = cast.operands[0].type, cast.results[0].type
    if not all(isinstance(t, ir.RankedTensorType) for t in (source, result)):
        return []
    return [i for i in range(result.rank) if source.is_dynamic_dim(i) and not result.is_dynamic_dim(i)]


def _uses(ops: Sequence[ir.Operation], registry: Registry) -> list[_OperatorUse | ir.Operation]:
    """Operations by kind: uses of operators, and others as they are. Equal calls are described once."""
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
        stated = tuple(dialect.desc_of(v) for v in op.results)
        results = infer(record, call)
    except OperatorError as error:
        raise PassError(str(error), op.location) from None
    if any(d.dtype.is_complex for d in (*call.operands, *results)):
        raise PassError(f"{op.name}: expected operators on reals; run oneflow-expand-complex first", op.location)
    return _OperatorUse(op, call, results, stated)


def _retype_unsigned(root: ir.Operation) -> None:
    """Makes unsigned integer types of values and of functions signless: ui8 becomes i8."""
    signless = {ir.IntegerType.get_unsigned(d.bits): ir.IntegerType.get_signless(d.bits) for d in dtypes.UNSIGNED}

    def retyped(kind: ir.Type) -> ir.Type:
        element = kind.element_type if isinstance(kind, ir.ShapedType) else kind
        if element not in signless:
            return kind
        if isinstance(kind, ir.RankedTensorType):
            return ir.RankedTensorType.get(kind.shape, signless[element])
        if isinstance(kind, ir.UnrankedTensorType):
            return ir.UnrankedTensorType.get(signless[element])
        return signless[element]

    def visit(op: ir.Operation) -> ir.WalkResult:
        arguments = [a for region in op.regions for block in region for a in block.arguments]
        for value in (*op.results, *arguments):
            kind = retyped(value.type)
            if kind != value.type:
                value.set_type(kind)
        if op.name == "func.func":
            kind = op.attributes["function_type"].value
            signed_type = ir.FunctionType.get(*(list(map(retyped, types)) for types in (kind.inputs, kind.results)))
            op.attributes["function_type"] = ir.TypeAttr.get(signed_type)
        return ir.WalkResult.ADVANCE

    with ir.Location.unknown():
        root.walk(visit)


class _Converter:
    """Converts the operations of one module in program order."""

    def __init__(self, module: ir.Module, counts: Mapping[Hashable, int]) -> None:
        self.counts, self.cache = counts, ConversionCache()
        self.e = Emitter()
        self.shapes = Shapes(self.e, Scalars(self.e))
        self.checks, self.assertions = Checks(module, self.e), ShapeAssertions()
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

    def check(self, op: ir.Operation) -> None:
        """Writes the run-time checks of an operation of another dialect."""
        self.checks.begin_operation()
        CHECKED[op.name](self, op)

    def _check_cast(self, op: ir.Operation) -> None:
        """Checks the sizes that a cast makes static."""
        source, stated = op.operands[0], op.results[0].type
        with ir.InsertionPoint(op), op.location:
            for dim in _stated_dims(op):
                got, wanted = self.shapes.extent(source, dim), stated.get_dim_size(dim)
                text = f"{op.name}: dimension {dim}"
                self.checks.size(self.shapes.value(got), self.shapes.value(wanted), text, op.location)

    def _check_assert(self, op: ir.Operation) -> None:
        """Makes an assertion a run-time check: otherwise its failure ends the process."""
        with ir.InsertionPoint(op), op.location:
            holds = self.e.op("arith.index_castui", self.e.index_type, [op.operands[0]])
            self.checks.size(holds, self.e.index(1), f"cf.assert: {op.attributes['msg'].value}", op.location)
        op.erase()

    def _remember_check(self, op: ir.Operation) -> None:
        """Remembers the sizes that a check of an earlier pass compares, so that they are not compared again."""
        if op.attributes["callee"].value == CHECK_SIZE:
            with ir.InsertionPoint(op), op.location:
                self.checks.remember(*(self._compared(v) for v in list(op.operands)[:2]))

    def _compared(self, operand: Value) -> Value:
        """The size that is an operand of a check: the value that the checks of this pass have for it."""
        known = _constant(operand)
        if known is not None:
            return self.shapes.value(known)
        size = operand.owner.operands[0] if _is_made_by("arith.index_cast", operand) else operand
        source, position = size.owner.operands if _is_made_by("tensor.dim", size) else (size, size)
        dim = _constant(position)
        return size if dim is None else self.shapes.value(self.shapes.extent(source, dim))

    def _check_loop_carried(self, op: ir.Operation) -> None:
        """Checks that loop-carried tensors keep their sizes, for which memory is allocated."""
        if op.block.owner.operation.name not in LOOPS:
            return
        passed = list(op.operands)[op.name == "scf.condition" :]
        with ir.InsertionPoint(op), op.location:
            for value, before in zip(passed, list(op.block.arguments)[-len(passed) :], strict=False):
                self._check_sizes_unchanged(value, before, op)

    def _check_sizes_unchanged(self, value: Value, before: Value, op: ir.Operation) -> None:
        if not isinstance(value.type, ir.RankedTensorType) or value.type != before.type:
            return
        for dim in range(value.type.rank):
            got, wanted = self.shapes.extent(value, dim), self.shapes.extent(before, dim)
            if got != wanted:
                text = f"{op.block.owner.operation.name}: dimension {dim} of a tensor that is passed on"
                self.checks.size(self.shapes.value(got), self.shapes.value(wanted), text, op.location)

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
        """The first operand, ordered after the others."""
        value = self.e.op(BARRIER, operands[0].type, operands)
        self.shapes.remember(value, [self.shapes.extent(operands[0], i) for i in range(operands[0].type.rank)])
        return [self._stated(value, d) for d in use.stated]

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
        results = [self._result(builder, stage, stated) for stage, stated in zip(stages, use.stated, strict=True)]
        if element_wise:
            self.assertions.check(builder, use.call)
        return results

    def _call(self, use: _OperatorUse, operands: Sequence[Value], calls: Externals | Controls) -> list[Value]:
        values = calls.call(use.op, use.call, operands, use.results)
        return [self._stated(v, d) for v, d in zip(values, use.stated, strict=True)]

    def _stated(self, value: Value, desc: TensorDesc) -> Value:
        """A value cast to the type that the operation states."""
        ranked = None if desc.shape is None else self.e.tensor(desc.shape, desc.dtype)
        return self.e.cast(value, ranked or ir.UnrankedTensorType.get(value.type.element_type))

    def _operand(self, value: Value, desc: TensorDesc) -> Value:
        """The operand with the described type, which may be the operand of a cast before it."""
        wanted = self.e.tensor(desc.shape or (), desc.dtype)
        source: Value | None = value
        while source is not None and source.type != wanted:
            source = cast_source(source)
        return self.e.cast(value, wanted) if source is None else source

    def _result(self, builder: StageBuilder, stage: Stage, stated: TensorDesc) -> Value:
        """The value of a stage with the stated type; sizes that are static in this type alone are checked."""
        value = builder.tensor(stage)
        if stated.shape is None:
            return self.e.cast(value, ir.UnrankedTensorType.get(value.type.element_type))
        for number, (size, dim) in enumerate(zip(stage.shape, stated.shape, strict=True)):
            if dim is not None:
                builder.check_equal(size, dim, f"dimension {number} of the result")
            elif not is_natural(size):
                builder.check_at_least(size, 0, f"dimension {number} of the result, which is too small")
        cast = self.e.cast(value, self.e.tensor(stated.shape, stated.dtype))
        self.shapes.remember(cast, builder.sizes.extents(stage.shape))
        return cast


#: Loops with loop-carried values.
LOOPS = frozenset({"scf.for", "scf.while"})
#: The run-time checks of operations of other dialects, by name.
CHECKED: Mapping[str, Callable[[_Converter, ir.Operation], None]] = {
    dialect.CAST: _Converter._check_cast,
    "cf.assert": _Converter._check_assert,
    "func.call": _Converter._remember_check,
    "scf.yield": _Converter._check_loop_carried,
    "scf.condition": _Converter._check_loop_carried,
}


def _is_view(stage: Stage) -> bool:
    """Whether a stage is a reshape of an operand."""
    return isinstance(stage, Reshape) and isinstance(stage.source, Input)


def _constant(value: Value) -> int | None:
    """The integer that a value is, where the program states it."""
    return value.owner.attributes["value"].value if _is_made_by("arith.constant", value) else None


def _is_made_by(name: str, value: Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == name
