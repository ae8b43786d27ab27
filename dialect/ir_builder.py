"""A builder that emits operations of the dialect at the current insertion point.

Handles are MLIR values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Builder, Value
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

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Creates the operation; repeated operands or results of different types are cast (see `oneflow`)."""
        if op.record.name not in self._declared:
            self._declare(op.record)
        outputs = distribute(op.record.signature.outputs, list(results), None)
        created = ir.Operation.create(
            dialect.PREFIX + op.record.name,
            results=[self._types(d) for group in outputs.values() for d in self._stated(group)],
            operands=[h for group in op.inputs.values() for h in self._handles(group)],
            attributes=write_attributes(op, outputs),
            ip=self.ip,
            loc=self.loc,
        )
        return [self._refined(v, d) for v, d in zip(created.results, results, strict=True)]

    def _declare(self, record: Operator) -> None:
        """Makes the operation known to the context."""
        dialect.declare((self.loc or ir.Location.current).context, [record])
        self._declared.add(record.name)

    def _stated(self, group: Any) -> list[TensorDesc]:
        if not isinstance(group, tuple):
            return [] if group is None else [group]
        return [common_type(group)] * len(group) if group else []

    def _handles(self, group: Any) -> list[ir.Value]:
        if not isinstance(group, tuple):
            return [] if group is None else [group.handle]
        if len({v.handle.type for v in group}) < 2:
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
            attrs[names[0]] = ir.DenseI32ArrayAttr.get(sizes)
    return attrs


def needs_segments(args: Sequence[ArgDef]) -> bool:
    """Whether the counts of operands or results are ambiguous without segment sizes."""
    return sum(not a.is_single for a in args) > 1
