"""Builds operations that are requested by name, with named operands and results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Operator, OperatorError, Registry, distribute, suggestion

#: Older names of operators in the documents of OneFlow, with the older names of their results.
OLDER_NAMES: dict[str, tuple[str, dict[str, str]]] = {"multiply": ("broadcast_mul", {"out": "z"})}

#: The trait of declared operators: programs state their results, and libraries replace them.
DECLARED = "declared"


def call_by_name(
    ops: Builder,
    name: str,
    inputs: Mapping[str, tuple[Value, ...]],
    attrs: Mapping[str, Any],
    outputs: Mapping[str, int],
) -> dict[str, Any]:
    """The results of the operator `name` on the operands `inputs`, by name; `outputs` says how many of each.

    Raises:
        OperatorError: the operator, an operand or a result does not exist, or the operator does not allow the call.
    """
    record, renamed = find_operator(ops.registry, name)
    check_names(record, "operand", inputs, [a.name for a in record.signature.inputs])
    operands = [_operand(inputs.get(a.name, ()), a.is_variadic) for a in record.signature.inputs]
    wanted = {renamed.get(n, n): count for n, count in outputs.items()}
    results = ops.call(record.name, *operands, **attrs, **count_attributes(record, wanted))
    older = {new: old for old, new in renamed.items()}
    return {older.get(n, n): group for n, group in name_results(record, results, wanted).items()}


def find_operator(registry: Registry, name: str) -> tuple[Operator, dict[str, str]]:
    """The operator of a name or older name, and the current names of its results by older name.

    Raises:
        OperatorError: the operator does not exist.
    """
    current, renamed = (name, {}) if name in registry else OLDER_NAMES.get(name, (operation_name(name), {}))
    if current not in registry:
        raise OperatorError(registry.unknown(name))
    return registry[current], renamed


def operation_name(name: str) -> str:
    """The operation name of an operator of a library: `user_my_op` for `MyOp` and `_my_op`, otherwise its own
    name.
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return name if name == name.lower().lstrip("_") else f"user_{re.sub('_+', '_', words).strip('_').lower()}"


def count_attribute(output: str) -> str:
    """The attribute that says how many tensors a result has whose number a call chooses."""
    return f"{output}_count"


def count_attributes(record: Operator, outputs: Mapping[str, int]) -> dict[str, int]:
    """The attributes that ask for `outputs[name]` tensors of each result.

    Raises:
        OperatorError: the result does not exist, or has fewer tensors.
    """
    check_names(record, "result", outputs, [a.name for a in record.signature.outputs])
    counts = {}
    for arg in record.signature.outputs:
        if arg.name not in outputs:
            continue
        if count_attribute(arg.name) in record.signature.attr_by_name:
            counts[count_attribute(arg.name)] = outputs[arg.name]
        elif arg.is_single and outputs[arg.name] != 1:
            raise OperatorError(f"oneflow.{record.name}: expected 1 tensor of {arg.name}, got {outputs[arg.name]}")
    return counts


def name_results(record: Operator, results: Sequence[Any], outputs: Mapping[str, int]) -> dict[str, Any]:
    """Results in order under their names.

    Raises:
        OperatorError: their number differs from `outputs`.
    """
    names = [a.name for a in record.signature.outputs]
    sizes = [outputs[name] for name in names] if all(name in outputs for name in names) else None
    try:
        return distribute(record.signature.outputs, results, sizes)
    except ValueError:
        wanted = ", ".join(f"{count} of {name}" for name, count in outputs.items())
        raise OperatorError(f"oneflow.{record.name}: expected {wanted}, got {len(results)} results") from None


def _operand(values: tuple[Value, ...], is_variadic: bool) -> Any:
    """Operands as builders take them; surplus operands of a single name stay together and are refused later."""
    return values if is_variadic or len(values) > 1 else values[0] if values else None


def check_names(record: Operator, what: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Checks that a record has operands or results of these names.

    Raises:
        OperatorError: a name is unknown.
    """
    for name in names:
        if name not in known:
            raise OperatorError(
                f"oneflow.{record.name}: no {what} is called {name!r}, expected {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
