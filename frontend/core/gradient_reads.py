"""A probe of gradient rules: which values a rule reads, found by a run of the rule on types alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import REGISTRY, Absent, Call, distribute, flatten
from oneflow.dialect.reverse import substituted
from oneflow.dialect.tensor_desc import TensorDesc

#: The trait of a function of users that keeps no tensor for its gradient.
SAVES_NOTHING = "saves_nothing"


class Probe(Builder):
    """A builder that infers the types of results and notes which values are operands."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Values without elements."""
        unread = (*op.record.shapes_of, "like", "depend_tensor")
        self.read.update(id(v) for name, slot in op.inputs.items() if name not in unread for v in flatten([slot]))
        return [Value(self, None, d) for d in results]

    def wrap(self, value: Any) -> Value:
        """An array as a value without elements."""
        return Value(self, None, describe_array(value))


def gradient_reads(op: Call, asked: Sequence[Value] | None = None) -> list[bool]:
    """Whether the gradient of a call reads the elements of each operand, or of each of the values `asked`; `op` is a
    call on values with results.
    """
    return _reads(op, op.operands if asked is None else asked)


def _reads(op: Call, operands: Sequence[Value], constants: Sequence[Value] = ()) -> list[bool]:
    """Whether the gradient by operands other than `constants` reads the elements of each of these values."""
    if isinstance(op.record.grad, Absent):
        return [False] * len(operands)
    probe = Probe()
    values = {id(v): Value(probe, None, v.desc) for v in (*op.operands, *op.results)}
    inputs = {k: substituted(v, values) for k, v in op.inputs.items()}
    outputs = distribute(op.record.signature.outputs, [values[id(r)] for r in op.results], None)
    cotangents = [Value(probe, None, r.desc) if r.dtype.is_inexact else None for r in op.results]
    grads = op.record.grad(probe, Call(op.record, inputs, op.attrs, outputs), *cotangents)
    excluded = {id(v) for v in constants}
    wanted = [k for k, slot in op.inputs.items() if any(id(v) not in excluded for v in flatten([slot]))]
    for grad in flatten(grads[name] for name in wanted if name in grads):
        if callable(grad):
            grad()
    return [id(values[id(v)]) in probe.read for v in operands]


#: Whether the gradient of an operator reads elements, by its name and the operands that are constants; computed at
#: the first call.
_reading: dict[tuple[str, tuple[bool, ...]], bool] = {}


def gradient_reads_any(op: Call, is_constant: tuple[bool, ...]) -> bool:
    """Whether the gradient of a call may read elements of results, or of operands of which `is_constant` is False;
    True for operators of users, unless these state that they save nothing.
    """
    if REGISTRY.find(op.record.name) is not op.record:
        return SAVES_NOTHING not in op.record.traits
    key = (op.record.name, is_constant)
    if key not in _reading:
        constants = [v for v, constant in zip(op.operands, is_constant, strict=True) if constant]
        excluded = {id(v) for v in constants}
        asked = [v for v in (*op.operands, *op.results) if id(v) not in excluded]
        _reading[key] = any(_reads(op, asked, constants))
    return _reading[key]
