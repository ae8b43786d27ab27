"""Calls of external kernels: an operator with a `kernel` slot, or a collective, becomes a call of a declaration.

    func.func private @oneflow_user_kernel_0(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        attributes {oneflow.external = ..}
    %0 = call @oneflow_user_kernel_0(%x, %e)

Operands come first, then a destination for each result. The attribute `oneflow.external` has the operator, its
attributes and types, the results that may take the memory of operands, and the location; `read_external` reads the
call back. Kernels are created when a program is loaded, so that compiled objects hold no addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Call, OperatorError, Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.linalg.checks import location_text
from oneflow.lowering.linalg.declared_calls import DeclaredCalls, check_static
from oneflow.lowering.linalg.emit import Emitter, Value
from oneflow.passes.base import PassError

EXTERNAL = "oneflow.external"
IN_PLACE = "in_place"
PREFIX = "oneflow_user_kernel_"


def is_external(call: Call) -> bool:
    """Whether a call runs an external kernel: the kernel of its record, or a collective between several ranks."""
    return call.record.kernel is not None or ("collective" in call.record.traits and call.attrs["members"] != 1)


class Externals:
    """Emits calls of external kernels into one module."""

    def __init__(self, module: ir.Module, emitter: Emitter) -> None:
        self.calls = DeclaredCalls(module, emitter, PREFIX, EXTERNAL)

    def call(
        self, op: ir.Operation, call: Call, operands: Sequence[Value], results: Sequence[TensorDesc]
    ) -> Sequence[Value]:
        """The results of `op` by its external kernel; `call` is its call, `results` its results' descriptions.

        Raises:
            OperatorError: a size is dynamic.
        """
        check_static(op.name, "an external kernel", (*call.operands, *results))
        destinations = self.calls.destinations(results)
        return self.calls.call(operands, destinations, _description(op, dialect.bind_results(op, call, results)))


def _description(op: ir.Operation, call: Call) -> ir.Attribute:
    known = call.record.signature.attr_by_name
    carried = [n for n in op.attributes if n not in known and (n in dialect.BOOKKEEPING or "." in n)]
    kept = {n: op.attributes[n] for n in op.attributes if n not in carried}
    types = ir.FunctionType.get([d.to_mlir() for d in call.operands], [d.to_mlir() for d in call.results])
    described = {
        "operator": ir.StringAttr.get(op.name),
        "attributes": ir.DictAttr.get(kept),
        "types": ir.TypeAttr.get(types),
        "location": ir.StringAttr.get(location_text(op.location)),
    }
    pairs = call.record.in_place(call) if call.record.in_place is not None else ()
    if pairs:
        described[IN_PLACE] = ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in pairs])
    return ir.DictAttr.get(described)


def in_place_pairs(described: ir.Attribute) -> list[tuple[int, int]]:
    """The in-place pairs of an external kernel: index of a result, index of the operand whose memory it may take."""
    fields = ir.DictAttr(described)
    pairs = ir.ArrayAttr(fields[IN_PLACE]) if IN_PLACE in fields else ()
    return [(pair[0], pair[1]) for pair in map(ir.DenseI64ArrayAttr, pairs)]


def declarations(module: ir.Module) -> dict[str, ir.Attribute]:
    """The attribute `oneflow.external` of each declaration of a module, by the function's name, in order.

    Raises:
        PassError: an attribute lacks a field, or a field is of another kind.
    """
    declared = [o.operation for o in module.body.operations if EXTERNAL in o.operation.attributes]
    for op in declared:
        _check_fields(op)
    return {ir.StringAttr(op.attributes["sym_name"]).value: op.attributes[EXTERNAL] for op in declared}


def _check_fields(declaration: ir.Operation) -> None:
    described = declaration.attributes[EXTERNAL]
    try:
        fields = ir.DictAttr(described)
        types = ir.FunctionType(ir.TypeAttr(fields["types"]).value)
        has_kinds = all(isinstance(fields[n], ir.StringAttr) for n in ("operator", "location"))
        has_kinds &= isinstance(fields["attributes"], ir.DictAttr)
        sizes = len(types.results), len(types.inputs)
        is_valid = has_kinds and all(
            0 <= n < size for pair in in_place_pairs(described) for n, size in zip(pair, sizes, strict=True)
        )
    except (IndexError, KeyError, ValueError):
        is_valid = False
    if not is_valid:
        what = "the fields operator, attributes, types and location, and pairs of results and operands in_place"
        raise PassError(f"expected {EXTERNAL} to have {what}, got {described}", declaration.location)


@dataclass(frozen=True)
class _OperationView:
    """The parts of an operation that its call is read from."""

    name: str
    attributes: Mapping[str, ir.Attribute]
    operands: Sequence[ir.Type]


def call_locations(module: ir.Module) -> list[str]:
    """The location of each external kernel's call: ` (file:line:col)`, or empty."""
    locations = [ir.StringAttr(ir.DictAttr(a)["location"]).value for a in declarations(module).values()]
    return [f" ({location})" if location else "" for location in locations]


def read_external(text: str, registry: Registry) -> Call:
    """The call that an attribute `oneflow.external` describes. Needs a current context.

    Raises:
        OperatorError: the registry does not have the operator, or it has another signature.
    """
    fields = ir.DictAttr(ir.Attribute.parse(text))
    name = ir.StringAttr(fields["operator"]).value
    short = name.removeprefix(dialect.PREFIX)
    if short not in registry:
        raise OperatorError(registry.unknown(short))
    types = ir.FunctionType(ir.TypeAttr(fields["types"]).value)
    dictionary = ir.DictAttr(fields["attributes"])
    attributes = {dictionary[i].name: dictionary[i].attr for i in range(len(dictionary))}
    stated: Any = _OperationView(name, attributes, types.inputs)
    call = dialect.operand_call(stated, registry[short], from_mlir)
    return dialect.bind_results(stated, call, [from_mlir(t) for t in types.results])
