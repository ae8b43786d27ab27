"""`oneflow-expand-complex`: complex numbers become pairs of reals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.complex_parts import Parts, PartsBuilder
from oneflow.dialect.record import Call, OperatorError, Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.passes.base import Pass, PassError
from oneflow.passes.decompose import Writer
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: Operations of other dialects that pass tensors on, for any element type.
PASSING = ("func.", "scf.", "tensor.cast", "tensor.dim")


@register_pass
@dataclass(frozen=True)
class ExpandComplex(Pass):
    """Expands operators on complex numbers by their slot `parts`; complex tensors get a last axis of two reals.

        func.func @f(%x: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
          %0 = "oneflow.real"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>

    becomes

        func.func @f(%x: tensor<4x2xf32>) -> tensor<4xf32> {
          %0 = "oneflow.narrow"(%x) {dim = 1 : si64, length = 1 : si64}
          %1 = "oneflow.squeeze"(%0) {axes = [1 : si32]}
    """

    name: ClassVar[str] = "oneflow-expand-complex"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Expands every operator with a complex operand or result.

        Raises:
            PassError: the rank of a complex tensor is unknown, or an operation of another dialect computes with one.
        """
        affected = gather(module.operation, _is_affected)
        uses = [_Use.of(op, registry) for op in affected if dialect.is_oneflow(op)]
        for op in affected:
            if not dialect.is_oneflow(op):
                _retype(op)
        expansion = _Expansion(Writer(registry, ir.InsertionPoint(module.body), ir.Location.unknown()))
        for use in uses:
            expansion.expand(use)
        expansion.writer.remove_unused()


def _complex_desc(kind: ir.Type) -> TensorDesc | None:
    desc = from_mlir(kind)
    return desc if desc is not None and desc.dtype.is_complex else None


def _types(op: ir.Operation) -> list[ir.Type]:
    """The types of operands, results and arguments of blocks of an operation, and the types in a function's type."""
    arguments = [a.type for region in op.regions for block in region for a in block.arguments]
    return [*(v.type for v in (*op.operands, *op.results)), *arguments, *_signature(op)]


def _signature(op: ir.Operation) -> list[ir.Type]:
    if op.name != "func.func":
        return []
    kind = ir.FunctionType(op.attributes["function_type"].value)
    return [*kind.inputs, *kind.results]


def _is_affected(op: ir.Operation) -> bool:
    return any("complex<" in str(kind) for kind in _types(op))


def _retype(op: ir.Operation) -> None:
    """Gives the complex tensors of an operation of another dialect a last axis of the parts."""
    if not op.name.startswith(PASSING):
        raise PassError(f"{op.name}: expected operators of OneFlow on complex numbers", op.location)
    for value in (*op.results, *(a for region in op.regions for block in region for a in block.arguments)):
        value.set_type(_paired(value.type, op))
    if op.name == "func.func":
        kind = ir.FunctionType(op.attributes["function_type"].value)
        paired = ([_paired(t, op) for t in types] for types in (kind.inputs, kind.results))
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*paired))


def _paired(kind: ir.Type, op: ir.Operation) -> ir.Type:
    desc = _complex_desc(kind)
    if desc is None:
        if "complex<" in str(kind):
            raise PassError(f"{op.name}: expected tensors of complex numbers, got {kind}", op.location)
        return kind
    if desc.shape is None:
        raise PassError(f"{op.name}: complex tensor of unknown rank; run oneflow-infer-types first", op.location)
    return _with_parts(desc).to_mlir()


def _with_parts(desc: TensorDesc) -> TensorDesc:
    """The pairs of reals that a complex tensor becomes."""
    return TensorDesc((*(desc.shape or ()), 2), desc.dtype.part)


@dataclass
class _Use:
    """An operation and its call on descriptions, taken while its operands are complex."""

    op: ir.Operation
    call: Call
    results: list[TensorDesc]

    @classmethod
    def of(cls, op: ir.Operation, registry: Registry) -> _Use:
        try:
            call = dialect.operand_call(op, dialect.record_of(op, registry), dialect.desc_of)
            results = [dialect.stated_desc(v) for v in op.results]
        except OperatorError as error:
            raise PassError(str(error), op.location) from None
        if any(d.shape is None for d in (*call.operands, *results)):
            raise PassError(f"{op.name}: tensor of unknown rank; run oneflow-infer-types first", op.location)
        return cls(op, call, results)


@dataclass
class _Expansion:
    """The parts of complex results, by the value that has both."""

    writer: Writer
    known: dict[ir.Value, Parts] = field(default_factory=dict)

    def expand(self, use: _Use) -> None:
        """Replaces an operation by operators on reals."""
        self.writer.ip, self.writer.loc = ir.InsertionPoint(use.op), use.op.location
        ops = PartsBuilder(self.writer)
        handles = iter(list(use.op.operands))

        def operand(desc: TensorDesc) -> Value:
            return self._operand(ops, next(handles), desc)

        inputs = {
            name: tuple(map(operand, operand_value))
            if isinstance(operand_value, tuple)
            else None
            if operand_value is None
            else operand(operand_value)
            for name, operand_value in use.call.inputs.items()
        }
        try:
            values = ops.emit(Call(use.call.record, inputs, use.call.attrs), use.results)
        except OperatorError as error:
            raise PassError(f"{use.op.name}: on complex numbers: {error}", use.op.location) from None
        for old, value in zip(list(use.op.results), values, strict=True):
            old.replace_all_uses_with(self._joined(ops, value))
        use.op.erase()

    def _operand(self, ops: PartsBuilder, handle: ir.Value, desc: TensorDesc) -> Value:
        if not desc.dtype.is_complex:
            return Value(ops.reals, handle, desc)
        if handle in self.known:
            return Value(ops, self.known[handle], desc)
        pairs = Value(ops.reals, handle, dialect.stated_desc(handle))
        value = ops.call("view_as_complex", pairs)[0]
        return ops.retype(value, desc)

    def _joined(self, ops: PartsBuilder, value: Value) -> ir.Value:
        """The handle of a result. For a complex result it is the handle of the pairs, whose parts are cached."""
        if not value.dtype.is_complex:
            return value.handle
        joined = ops.call("view_as_real", value)[0]
        self.known[joined.handle] = value.handle
        return joined.handle
