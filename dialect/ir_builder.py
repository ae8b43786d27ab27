"""A builder that emits operations of the dialect at the current insertion point.

Handles are MLIR values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.body import CONSTANT, Body, BodyStep
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import REGISTRY, Call, Operator, Registry, distribute
from oneflow.dialect.signature import ArgDef
from oneflow.dialect.tensor_desc import TensorDesc, common_type


class IRBuilder(Builder):
    """Emits operations at the insertion point of the context manager in force, or at `ip`."""

    def __init__(
        self,
        registry: Registry = REGISTRY,
        ip: ir.InsertionPoint | None = None,
        loc: ir.Location | None = None,
    ) -> None:
        super().__init__(registry)
        self.ip, self.loc = ip, loc
        self._types = cache(TensorDesc.to_mlir)
        self._declared = set[str]()

    def call_of(self, op: ir.Operation) -> Call:
        """An operation as a call on values."""
        call = dialect.operand_call(op, dialect.record_of(op, self.registry), self.wrap)
        return dialect.bind_results(op, call, [self.wrap(r) for r in op.results])

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Creates the operation; variadic operands or results of different types are cast (see `oneflow`)."""
        if op.record.name not in self._declared:
            self._declare(op.record)
        outputs = distribute(op.record.signature.outputs, list(results), None)
        op = self._with_symbols(op)
        mixed = {a.name for a in (*op.record.signature.inputs, *op.record.signature.outputs) if a.mixed}
        created = ir.Operation.create(
            dialect.PREFIX + op.record.name,
            results=[self._types(d) for n, group in outputs.items() for d in self._stated(group, n in mixed)],
            operands=[h for n, group in op.inputs.items() for h in self._handles(group, n in mixed)],
            attributes=write_attributes(op, outputs),
            ip=self.ip,
            loc=self.loc,
        )
        return [self._refined(v, d) for v, d in zip(created.results, results, strict=True)]

    def _declare(self, record: Operator) -> None:
        """Makes the operation known to the context."""
        dialect.declare((self.loc or ir.Location.current).context, [record])
        self._declared.add(record.name)

    def _with_symbols(self, op: Call) -> Call:
        """The call with the names of functions of the module for bodies."""
        bodies = {k: x for k, x in op.attrs.items() if isinstance(x, Body)}
        if not bodies:
            return op
        placed = {k: place_body(x, self.ip or ir.InsertionPoint.current, self.registry) for k, x in bodies.items()}
        return Call(op.record, op.inputs, {**op.attrs, **placed})

    def _stated(self, group: Any, mixed: bool) -> list[TensorDesc]:
        if not isinstance(group, tuple):
            return [] if group is None else [group]
        if mixed:
            return list(group)
        return [common_type(group)] * len(group) if group else []

    def _handles(self, group: Any, mixed: bool) -> list[ir.Value]:
        if not isinstance(group, tuple):
            return [] if group is None else [group.handle]
        if mixed or len({v.handle.type for v in group}) < 2:
            return [v.handle for v in group]
        target = common_type([v.desc for v in group]).to_mlir()
        return [self._cast(v.handle, target) for v in group]

    def _refined(self, value: ir.Value, desc: TensorDesc) -> Value:
        return Value(self, self._cast(value, self._types(desc)), desc)

    def _cast(self, value: ir.Value, target: ir.Type) -> ir.Value:
        if value.type == target:
            return value
        return ir.Operation.create(dialect.CAST, [target], [value], ip=self.ip, loc=self.loc).result

    def retype(self, value: Value, desc: TensorDesc) -> Value:
        """`value` cast to the type of `desc`."""
        if value.desc == desc:
            return value
        return type(value)(self, self._cast(value.handle, self._types(desc)), desc)

    def wrap(self, value: Any) -> Value:
        """An MLIR value as a value of this builder."""
        return Value(self, value, dialect.desc_of(value))


def write_attributes(op: Call, outputs: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    """The canonical attributes of a call: segment sizes, and what differs from its default (-0.0 does from 0.0)."""
    signature = op.record.signature
    attrs = {
        a.name: a.kind.write(op.attrs[a.name])
        for a in signature.attrs
        if a.is_mandatory or repr(op.attrs[a.name]) != repr(a.default)
    }
    for names, args, groups in (
        (dialect.OPERAND_SEGMENTS, signature.inputs, op.inputs),
        (dialect.RESULT_SEGMENTS, signature.outputs, outputs),
    ):
        if needs_segments(args):
            sizes = [len(v) if isinstance(v, tuple) else int(v is not None) for v in groups.values()]
            attrs[names[0]] = ir.DenseI32ArrayAttr.get(dialect.segment_sizes(args, sizes))
    return attrs


def needs_segments(args: Sequence[ArgDef]) -> bool:
    """Whether the counts of operands or results are ambiguous without segment sizes."""
    return sum(not a.is_single for a in args) > 1 or any(a.mixed for a in args)


def dense_attribute(array: np.ndarray, dtype: DType) -> ir.Attribute:
    """An array of `dtype` as a dense attribute; the bindings take narrow floats as their bits."""
    bits = array.view(f"u{dtype.bits // 8}") if dtype.bits == 16 or dtype.is_stored_only else array
    return ir.DenseElementsAttr.get(
        np.ascontiguousarray(bits), type=ir.Type.parse(dtype.mlir), shape=list(array.shape)
    )


def place_body(body: Body, ip: ir.InsertionPoint, registry: Registry = REGISTRY) -> str:
    """The name of the function of a body in the module of an insertion point; a new body is added."""
    module = dialect.module_of(ip.block.owner)
    assert module is not None, "a body outside of a module"
    if body.module is not None and body.module == module:
        return body.symbol
    if body.name not in ir.SymbolTable(module):
        _write_function(body, module, registry)
    return body.name


def _write_function(body: Body, module: ir.Operation, registry: Registry) -> None:
    """Adds the private function of a body to a module."""
    kind = ir.FunctionType.get([d.to_mlir() for d in body.inputs], [d.to_mlir() for d in body.outputs])
    attributes = {
        "sym_name": ir.StringAttr.get(body.name),
        "function_type": ir.TypeAttr.get(kind),
        "sym_visibility": ir.StringAttr.get("private"),
    }
    unknown, end = ir.Location.unknown(), ir.InsertionPoint(module.regions[0].blocks[0])
    function = ir.Operation.create("func.func", attributes=attributes, regions=1, ip=end, loc=unknown)
    block = function.regions[0].blocks.append(*kind.inputs, arg_locs=[unknown] * len(body.inputs))
    ops = _BodyWriter(registry, ir.InsertionPoint(block), unknown)

    def before(step: BodyStep) -> None:
        ops.loc = ir.Location.file(*step.location) if step.location is not None else unknown

    results = body.build(ops, *map(ops.wrap, block.arguments), before=before)
    values = [ops.retype(v, d).handle for v, d in zip(results, body.outputs, strict=True)]
    ir.Operation.create("func.return", operands=values, ip=ops.ip, loc=unknown)


class _BodyWriter(IRBuilder):
    """Writes the function of a body."""

    def wrap(self, value: Any) -> Value:
        """An MLIR value, or an array as a constant."""
        if isinstance(value, ir.Value):
            return super().wrap(value)
        desc = describe_array(value)
        constant = {"value": dense_attribute(value, desc.dtype)}
        created = ir.Operation.create(
            CONSTANT, results=[self._types(desc)], attributes=constant, ip=self.ip, loc=self.loc
        )
        return super().wrap(created.result)
