"""Operators that are declared in ODS without an implementation: records to read and verify programs.

A library that registers an operator of the same signature replaces the declaration. Operators of mixed case have the
names that operators of libraries have, and names of operands are lower case.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

from oneflow.dialect.attributes import KINDS, AttrValue
from oneflow.dialect.record import REGISTRY, Call, Operator, Registry, no_grad, no_reference, no_sbp
from oneflow.dialect.signature import MANDATORY, ArgDef, AttrDef, Signature, SignatureError, check_names
from oneflow.runtime.user_ops.functional_api import FunctionalApiError, parse_constant
from oneflow.runtime.user_ops.operations import DECLARED, count_attribute, operation_name
from oneflow.tools.ods import ATTR_TYPES, OdsArg, OdsAttr, OdsOp
from oneflow.tools.ods_parser import OdsError

_ARGS = {"": (1, 1), "Optional": (0, 1), "Variadic": (0, None)}


def declare(ops: Iterable[OdsOp], registry: Registry = REGISTRY) -> list[Operator]:
    """Registers declared operators and returns their records; operators of the same file may be registered again.

    Raises:
        OdsError: an operator exists, MLIR does not accept a name, or a default has another type than its attribute.
    """
    records = [_record(op) for op in ops]
    for record in records:
        try:
            check_names(record.signature)
        except SignatureError as error:
            raise OdsError(f"{record.where}: {error}") from None
        registered = registry.operators.get(record.name)
        if registered is not None and not (DECLARED in registered.traits and registered.where == record.where):
            raise OdsError(f"{record.where}: operator {record.name} is defined already at {registered.where}")
    registry.operators.update({record.name: record for record in records})
    return records


def declare_missing(ops: Iterable[OdsOp], registry: Registry = REGISTRY) -> list[Operator]:
    """Registers the declared operators without implementation; warns of declarations that differ from one.

    Raises:
        OdsError: as `declare` does.
    """
    missing, differing = [], []
    for op in ops:
        registered = registry.operators.get(operation_name(op.name))
        if registered is None or DECLARED in registered.traits:
            missing.append(op)
        elif not _is_implemented(op, registered.signature):
            differing.append(f"{op.name} of {op.where}, which is {registered.signature}")
    if differing:
        warnings.warn(
            "operators that are implemented with other operands, results or attributes are kept: "
            + "; ".join(differing),
            stacklevel=2,
        )
    return declare(missing, registry)


def _is_implemented(op: OdsOp, signature: Signature) -> bool:
    """Whether `signature` matches the declaration; additional attributes need defaults."""
    declared, attrs = _signature(op), signature.attr_by_name
    names = {a.name for a in op.attrs}
    return (
        (declared.inputs, declared.outputs) == (signature.inputs, signature.outputs)
        and names <= attrs.keys()
        and not any(a.is_mandatory for a in signature.attrs if a.name not in names)
    )


def _record(op: OdsOp) -> Operator:
    reason = f"it is only declared, at {op.where}"

    def refuse(*call: Any, **attrs: Any) -> NoReturn:
        raise next(x for x in call if isinstance(x, Call)).error(
            f"{reason}; load a library that implements the operator with --load-ops"
        )

    return Operator(
        signature=_signature(op),
        doc=f"A user's operator, declared at {op.where}.",
        types=refuse,
        sbp=no_sbp(reason),
        grad=no_grad(reason),
        kernel=refuse,
        reference=no_reference(reason),
        traits=frozenset([DECLARED, *(["cpu_only"] if "CpuOnly" in op.traits else [])]),
        family="declared",
        where=op.where,
    )


def _signature(op: OdsOp) -> Signature:
    counting = [AttrDef(count_attribute(a.name), KINDS["int64"], 0) for a in op.outputs if a.kind]
    attrs = (*(_attr(a, op) for a in op.attrs), *counting)
    return Signature(operation_name(op.name), tuple(map(_arg, op.inputs)), tuple(map(_arg, op.outputs)), attrs)


def _arg(arg: OdsArg) -> ArgDef:
    return ArgDef(arg.name.lower(), *_ARGS[arg.kind])


def _attr(attr: OdsAttr, op: OdsOp) -> AttrDef:
    kind = KINDS[ATTR_TYPES[attr.ods_type].kind]
    if attr.default is None:
        return AttrDef(attr.name, kind, MANDATORY)
    try:
        return AttrDef(attr.name, kind, kind.check(_converted(_default(attr.default, kind.name), kind.name)))
    except (ValueError, FunctionalApiError) as error:
        raise OdsError(f"{op.where}: the default of ${attr.name}: {error}") from None


def _default(text: str, kind: str) -> AttrValue:
    """The value of a C++ literal such as `{1, 2}`, `"mean"`, `0.5` or `DataType::kFloat`."""
    if kind == "shape" or kind.startswith("list_"):
        items = re.sub(r"[\w:<>]*[({]+|[)}]+", "", text).split(",")
        return tuple(_constant(item) for item in items if item.strip())
    return _constant(text)


def _converted(value: AttrValue, kind: str) -> AttrValue:
    """A default after the lossless conversions of C++: `0.` is the integer 0 and the bool false."""
    if isinstance(value, float) and value.is_integer() and kind.startswith("int"):
        return int(value)
    return bool(value) if kind == "bool" and value in (0, 1) else value


def _constant(text: str) -> Any:
    return parse_constant(text.strip().rpartition("::")[2], "default", "ODS")
