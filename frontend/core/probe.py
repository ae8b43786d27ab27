"""A probe of gradient rules: which values a rule reads, found by running it on types alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import REGISTRY, Absent, Call, distribute, flatten
from oneflow.dialect.reverse import placed
from oneflow.dialect.tensor_desc import TensorDesc

#: The names of operands of which operators read only the shape.
SHAPES = frozenset({"like", "depend_tensor"})


class Probe(Builder):
    """A builder that infers the types of results and notes which values are operands."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Values without elements."""
        self.read.update(id(v) for name, slot in op.inputs.items() if name not in SHAPES for v in flatten([slot]))
        return [Value(self, None, d) for d in results]

    def wrap(self, value: Any) -> Value:
        """An array as a value without elements."""
        return Value(self, None, describe_array(value))


def gradient_reads(op: Call) -> list[bool]:
    """Whether the gradient of a call reads the elements of each operand; `op` is a call on values with results."""
    return _reads(op, op.operands)


def _reads(op: Call, asked: Sequence[Value]) -> list[bool]:
    """Whether the gradient of a call reads the elements of each of these values."""
    if isinstance(op.record.grad, Absent):
        return [False] * len(asked)
    probe = Probe()
    values = {id(v): Value(probe, None, v.desc) for v in (*op.operands, *op.results)}
    inputs = {k: placed(v, values) for k, v in op.inputs.items()}
    outputs = distribute(op.record.signature.outputs, [values[id(r)] for r in op.results], None)
    cotangents = [Value(probe, None, r.desc) if r.dtype.is_float else None for r in op.results]
    grads = op.record.grad(probe, Call(op.record, inputs, op.attrs, outputs), *cotangents)
    for grad in flatten(grad for name, grad in grads.items() if flatten([inputs.get(name)])):
        if callable(grad):
            grad()
    return [id(values[id(v)]) in probe.read for v in asked]


#: Whether the gradient of an operator reads elements, by its name; computed at the first call.
_reading: dict[str, bool] = {}


def gradient_reads_any(op: Call) -> bool:
    """Whether the gradient of a call may read elements of operands or results; True for operators of users."""
    if REGISTRY.find(op.record.name) is not op.record:
        return True
    if op.record.name not in _reading:
        _reading[op.record.name] = any(_reads(op, (*op.operands, *op.results)))
    return _reading[op.record.name]
