"""The `oneflow` and `sbp` dialects, made from the registry: loading, parsing, verifying, normal form.

Each record becomes an operation class of `ext`. MLIR's verifier then checks counts of operands; everything
else is checked by `verify`, one walk over a module that costs little and runs after reading and after every
pass. MLIR wants all tensors of one repeated operand to have one type, so a list of different shapes is cast to
the type they share (`tensor.cast` to `tensor<?x3xf32>`), and descriptions look through the cast. Imports
`record` and the MLIR seam.
"""

from __future__ import annotations

import keyword
import types as python_types
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect._mlir import ext, ir
from oneflow.dialect.record import (
    REGISTRY,
    Call,
    Operator,
    OperatorError,
    Registry,
    attribute_values,
    distribute,
    infer,
    suggestion,
)
from oneflow.dialect.signature import ArgDef
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir

PREFIX = "oneflow."
OPERAND_SEGMENTS = ("operandSegmentSizes", "operand_segment_sizes")
RESULT_SEGMENTS = ("resultSegmentSizes", "result_segment_sizes")
#: OneFlow's bookkeeping: carried along, never needed.
BOOKKEEPING = frozenset(
    """op_name device_tag device_name hierarchy scope_symbol_id output_lbns op_type_name nd_sbp parallel
    sbp_signature""".split()
)


def create_context(registry: Registry = REGISTRY) -> ir.Context:
    """A context in which every registered operator is known, as the registry stands now."""
    context = ir.Context()
    with context, ir.Location.unknown():
        _dialect_class(registry).load()
        _sbp_dialect().load()
    return context


def _dialect_class(registry: Registry) -> Any:
    dialect = python_types.new_class("OneFlow", (ext.Dialect,), {"name": "oneflow"})
    for record in registry:
        options = {"name": record.name, "traits": [ext.Pure] if record.pure else []}
        fields = {_field(a.name): _group(ext.Operand[Any], a) for a in record.signature.inputs}
        fields |= {_field(a.name): _group(ext.Result[Any], a) for a in record.signature.outputs}
        class_name = "".join(w.title() for w in record.name.split("_")) + "Op"
        python_types.new_class(
            class_name,
            (dialect.Operation,),
            options,
            lambda ns, fields=fields: ns.update(__annotations__=fields),
        )
    return dialect


def _field(name: str) -> str:
    """The accessor's name: the operand's own unless Python or MLIR has taken it."""
    name = name.lstrip("_")
    return f"{name}_" if keyword.iskeyword(name) or hasattr(ir.OpView, name) else name


def _group(single: Any, arg: ArgDef) -> Any:
    if arg.is_single:
        return single
    return single | None if arg.is_optional else Sequence[single]


def _sbp_dialect() -> Any:
    dialect = python_types.new_class("SbpDialect", (ext.Dialect,), {"name": "sbp"})
    for name, fields in (("split", {"axis": ir.IntegerAttr}), ("broadcast", {}), ("partial_sum", {})):
        python_types.new_class(
            name.title(),
            (dialect.Attribute,),
            {"name": name},
            lambda ns, fields=fields: ns.update(__annotations__=dict(fields)),
        )
    return dialect


def is_oneflow(op: ir.Operation) -> bool:
    """Whether this is an operation of the dialect."""
    return bool(op.name.startswith(PREFIX))


def record_of(op: ir.Operation, registry: Registry = REGISTRY) -> Operator:
    """The record of an operation of the dialect."""
    return registry[op.name[len(PREFIX) :]]


def walk(root: ir.Operation, visit: Callable[[ir.Operation], None]) -> None:
    """Calls `visit` on every operation of the dialect below `root`, in program order."""

    def callback(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(PREFIX):
            visit(op)
        return ir.WalkResult.ADVANCE

    root.walk(callback)


def _segments(attributes: ir.OpAttributeMap, names: Sequence[str]) -> list[int] | None:
    for name in names:
        if name in attributes:
            return [int(getattr(s, "value", s)) for s in attributes[name]]
    return None


def operand_call(op: ir.Operation, record: Operator, convert: Callable[[ir.Value], Any]) -> Call:
    """The call an operation makes, its operands through `convert`.

    Raises:
        OperatorError: operands, results or attributes do not fit the signature.
    """
    attributes = op.attributes
    try:
        operands = [convert(v) for v in op.operands]
        inputs = distribute(record.signature.inputs, operands, _segments(attributes, OPERAND_SEGMENTS))
    except ValueError as error:
        raise OperatorError(f"{op.name}: operands: {error}") from None
    return Call(record, inputs, read_attributes(op, record))


def bind_results(op: ir.Operation, call: Call, values: Sequence[Any]) -> Call:
    """`call` with results under their names.

    Raises:
        OperatorError: the number of results does not fit the signature.
    """
    try:
        segments = _segments(op.attributes, RESULT_SEGMENTS)
        call.outputs = distribute(call.record.signature.outputs, list(values), segments)
    except ValueError as error:
        raise OperatorError(f"{op.name}: results: {error}") from None
    return call


def read_attributes(op: ir.Operation, record: Operator) -> dict[str, Any]:
    """The Python values of an operation's attributes, defaults filled in.

    Raises:
        OperatorError: an attribute is unknown, missing or of the wrong kind.
    """
    known = record.signature.attr_by_name
    given: dict[str, Any] = {}
    attributes = op.attributes
    for name in attributes:
        if name in known:
            try:
                given[name] = known[name].kind.read(attributes[name])
            except ValueError as error:
                raise OperatorError(f"{op.name}: attribute {name}: {error}") from None
        elif name not in BOOKKEEPING and name not in (*OPERAND_SEGMENTS, *RESULT_SEGMENTS) and "." not in name:
            raise OperatorError(f"{op.name}: unknown attribute {name!r}{suggestion(name, known)}")
    return attribute_values(record, given)


def desc_of(value: ir.Value) -> TensorDesc:
    """The description of a value: of its type, or of what it was cast from.

    Raises:
        OperatorError: it is not a tensor of a type OneFlow has.
    """
    desc = from_mlir(value.type)
    if desc is not None and not desc.is_static:
        desc = _before_cast(value, desc)
    if desc is None:
        raise OperatorError(f"expected a tensor of a data type OneFlow has, got {value.type}")
    return desc


def _before_cast(value: ir.Value, desc: TensorDesc) -> TensorDesc:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "tensor.cast":
        return desc
    source = from_mlir(owner.operands[0].type)
    return source if source is not None and source.compatible(desc) else desc


def infer_results(op: ir.Operation, registry: Registry = REGISTRY) -> tuple[TensorDesc, ...] | None:
    """What the operator's rule says of the results; None while an operand is unranked.

    Raises:
        OperatorError: the operator does not allow this call.
    """
    record = record_of(op, registry)
    call = operand_call(op, record, desc_of)
    if any(d.shape is None for d in call.operands):
        return None
    results = infer(record, call)
    if len(results) != len(op.results):
        raise OperatorError(f"{op.name}: expected {len(results)} results, got {len(op.results)}")
    return results


def verify_operation(op: ir.Operation, registry: Registry = REGISTRY) -> str | None:
    """The message for an operation that breaks its operator's rules, or None."""
    try:
        results = infer_results(op, registry)
        for number, value in enumerate(op.results):
            stated = desc_of(value)
            if results is not None and not stated.compatible(results[number]):
                return f"{op.name}: expected result {number} of type {results[number]}, got {stated}"
            if stated.element_count is not None and stated.element_count >= 2**63:
                return f"{op.name}: result {number} has more than 2^63 - 1 elements: {stated}"
    except OperatorError as error:
        text = str(error)
        return text if text.startswith(PREFIX) else f"{op.name}: {text}"
    return None


class Verifier:
    """Verifies modules; equal operations (name, types, attributes) are checked once."""

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self.registry = registry
        self._passed: set[Any] = set()

    def verify(self, root: ir.Operation) -> bool:
        """Emits an error at each operation that breaks its operator's rules; whether none does."""
        ok = True

        def visit(op: ir.Operation) -> None:
            nonlocal ok
            key = (
                op.name,
                tuple([v.type for v in op.operands]),
                tuple([v.type for v in op.results]),
                str(op.attributes) if len(op.attributes) else "",
            )
            if key in self._passed:
                return
            message = verify_operation(op, self.registry)
            if message is None:
                self._passed.add(key)
            else:
                ok = False
                op.location.emit_error(message)

        walk(root, visit)
        return ok


def verify(root: ir.Operation, registry: Registry = REGISTRY) -> bool:
    """Emits an error at each operation below `root` that breaks its operator's rules; whether none does."""
    return Verifier(registry).verify(root)
