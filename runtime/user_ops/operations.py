"""Operations that C++ code asks for, operands and results by name. Imports `dialect`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Operator, OperatorError, suggestion


def call_by_name(
    ops: Builder, name: str, inputs: Mapping[str, tuple[Value, ...]], attrs: Mapping[str, Any], outputs: Iterable[str]
) -> tuple[Operator, tuple[Value, ...]]:
    """The operator `name` and its results on the operands `inputs`; `outputs` are the results that will be used.

    Raises:
        OperatorError: the operator, an operand or a result does not exist, or it does not allow the call.
    """
    if name not in ops.registry:
        raise OperatorError(ops.registry.unknown(name))
    record = ops.registry[name]
    _check_names(record, "operand", inputs, [a.name for a in record.signature.inputs])
    _check_names(record, "result", outputs, [a.name for a in record.signature.outputs])
    operands = [_operand(inputs.get(a.name, ()), a.is_variadic) for a in record.signature.inputs]
    return record, ops.call(name, *operands, **attrs)


def _operand(values: tuple[Value, ...], is_variadic: bool) -> Any:
    """Operands as builders take them; too many for a single one stay together and are refused there."""
    return values if is_variadic or len(values) > 1 else values[0] if values else None


def _check_names(record: Operator, what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise OperatorError(
                f"oneflow.{record.name}: no {what} is called {name!r}, expected {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
