"""The gradient of an operator from its decomposition, for operators without a gradient rule of their own.

    grad = decomposition_gradient        in a record that has `decompose`, or `sharded_decomposition`

The decomposition is built again and differentiated with the gradient slots of its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Call, distribute, flatten
from oneflow.dialect.reverse import pull_back
from oneflow.dialect.tensor_desc import TensorDesc


class Recorder(Builder):
    """Builds with another builder and records the calls; `value` and `original` convert between both builders."""

    def __init__(self, ops: Builder) -> None:
        super().__init__(ops.registry)
        self.ops = ops
        self.calls: list[Call] = []
        self._originals: dict[int, tuple[Value, Value]] = {}

    def value(self, original: Value) -> Value:
        """A value of the other builder as one of this."""
        recorded = Value(self, original.handle, original.desc)
        self._originals[id(recorded)] = (recorded, original)
        return recorded

    def original(self, value: Value) -> Value:
        """A value of this builder as one of the other."""
        return self._originals[id(value)][1] if id(value) in self._originals else value

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Emits the call and keeps it with its results."""
        inputs = {name: mapped(self.original, operand) for name, operand in op.inputs.items()}
        values = [self.value(v) for v in self.ops.emit(Call(op.record, inputs, op.attrs), results)]
        outputs = distribute(op.record.signature.outputs, values, None)
        self.calls.append(Call(op.record, op.inputs, op.attrs, outputs))
        return values

    def wrap(self, value: Any) -> Value:
        """An operand as a value of this builder, made by the other builder where necessary."""
        return value if isinstance(value, Value) and value.builder is self else self.value(self.ops.wrap(value))


def decomposition_gradient(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
    """A gradient slot: the gradients of the decomposition's operators, one operand at a time."""
    recorder = Recorder(ops)
    inputs = {name: mapped(recorder.value, operand) for name, operand in op.inputs.items()}
    write = op.record.decompose or op.record.sharded_decomposition
    assert write is not None, op.record.name
    made = write(recorder, Call(op.record, inputs, op.attrs))
    results = flatten(made if isinstance(made, tuple) else [made])
    pairs = zip(results, cotangents, strict=True)
    seeds = [(result, recorder.value(seed)) for result, seed in pairs if seed is not None]
    calls = list(recorder.calls)

    def by(value: Value) -> Callable[[], Value | None] | None:
        if not value.dtype.is_inexact:
            return None

        def gradient() -> Value | None:
            (gradient,) = pull_back(recorder, calls, seeds, [value])
            return None if gradient is None else recorder.original(gradient)

        return gradient

    return {n: mapped(by, v) for n, v in inputs.items() if v is not None}


def mapped(function: Callable[[Value], Any], operand: Any) -> Any:
    """A value, a tuple of values or None through a function of values."""
    if isinstance(operand, tuple):
        return tuple(map(function, operand))
    return None if operand is None else function(operand)
