"""Bodies: functions of tensors as values, which operators of structured control flow have as attributes.

    body = write_body(lambda ops, h, x: [ops.tanh(h + x)], [TensorDesc((4,), float32)] * 2)
    body.build(ops, h, x)               the calls of the body, built again with any builder

A body reads no values from outside: every operand is an argument. In a module a body is a private function,
and the attribute is the function's symbol.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from oneflow.dialect.attributes import FunctionValue
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import REGISTRY, Call, OperatorError, Registry
from oneflow.dialect.tensor_desc import TensorDesc

#: The id of a value of a body: the results of steps are counted from 0, the arguments from -1 downwards.
ValueId: TypeAlias = int
#: File, line and column.
SourceLocation: TypeAlias = tuple[str, int, int]
#: The names of steps that are no calls: a value with another static type, and an array.
CAST, CONSTANT = "tensor.cast", "arith.constant"


@dataclass(frozen=True)
class BodyStep:
    """A call of a body.

    Attributes:
        name: the operator's name, `CAST` or `CONSTANT`.
        operands: a value id, None or a tuple of value ids for each operand of the signature.
        attrs: the attributes by name; a constant has its array instead.
        results: the types of the results.
        location: where the program calls the operator.
    """

    name: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any]
    results: tuple[TensorDesc, ...]
    location: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True)
class BodySteps:
    """The steps of a body in order, and the results of the body."""

    steps: tuple[BodyStep, ...]
    returned: tuple[ValueId, ...]


class Body(FunctionValue):
    """A function of tensors.

    Attributes:
        inputs: the types of the arguments.
        outputs: the types of the results.
        symbol, module: the function that the body was read from, and its module.
    """

    def __init__(
        self,
        inputs: Iterable[TensorDesc],
        outputs: Iterable[TensorDesc],
        steps: Callable[[], BodySteps],
        symbol: str = "",
        module: Any = None,
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.symbol, self.module = symbol, module
        self._read = steps

    @functools.cached_property
    def steps(self) -> BodySteps:
        """The steps.

        Raises:
            OperatorError: the function has operations that are no operators.
        """
        return self._read()

    @functools.cached_property
    def name(self) -> str:
        """A name that bodies of the same steps share."""
        hashed = hashlib.sha256(repr((self.inputs, *map(_key, self.steps.steps), self.steps.returned)).encode())
        return f"body_{hashed.hexdigest()[:16]}"

    def __repr__(self) -> str:
        return f"@{self.symbol or self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and (self is other or self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def with_inputs(self, more: Iterable[TensorDesc]) -> Body:
        """The body with further, unused arguments."""
        return Body([*self.inputs, *more], self.outputs, self._read)

    def build(
        self, ops: Builder, *operands: Value, before: Callable[[BodyStep], None] = lambda step: None
    ) -> list[Value]:
        """The results of the steps on `operands`, built with `ops`; `before` is called with each step."""
        values: dict[ValueId, Value] = {-1 - i: v for i, v in enumerate(operands)}
        count = 0
        for step in self.steps.steps:
            before(step)
            for result in _built(ops, step, values):
                values[count] = result
                count += 1
        return [values[n] for n in self.steps.returned]


def _built(ops: Builder, step: BodyStep, values: Mapping[ValueId, Value]) -> Sequence[Value]:
    if step.name == CONSTANT:
        return [ops.wrap(step.attrs["value"])]
    if step.name == CAST:
        return [ops.retype(values[step.operands[0]], step.results[0])]
    operands = [tuple(values[n] for n in x) if isinstance(x, tuple) else x if x is None else values[x]
                for x in step.operands]  # fmt: skip
    return ops.call(step.name, *operands, **step.attrs)


def _key(step: BodyStep) -> Any:
    """The key of a step, as text or a number."""
    attrs = {k: x.tobytes() if isinstance(x, np.ndarray) else x for k, x in step.attrs.items()}
    return step.name, step.operands, repr(sorted(attrs.items())), step.results


class BodyBuilder(Builder):
    """Records the calls of a body; the handles of values are their ids."""

    def __init__(self, registry: Registry = REGISTRY) -> None:
        super().__init__(registry)
        self.inputs: list[TensorDesc] = []
        self.steps: list[BodyStep] = []
        self.location: SourceLocation | None = None
        self._count = 0

    def argument(self, desc: TensorDesc) -> Value:
        """A further argument."""
        self.inputs.append(desc)
        return Value(self, -len(self.inputs), desc)

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Records a call."""
        return self._add(op.record.name, tuple(map(_value_ids, op.inputs.values())), op.attrs, results)

    def retype(self, value: Value, desc: TensorDesc) -> Value:
        """`value` as a tensor of another static type."""
        return value if value.desc == desc else self._add(CAST, (value.handle,), {}, [desc])[0]

    def wrap(self, value: Any) -> Value:
        """An array as a constant."""
        array = np.array(value)
        return self._add(CONSTANT, (), {"value": array}, [describe_array(array)])[0]

    def _add(
        self, name: str, operands: tuple[Any, ...], attrs: Mapping[str, Any], results: Sequence[TensorDesc]
    ) -> list[Value]:
        self.steps.append(BodyStep(name, operands, dict(attrs), tuple(results), self.location))
        first, self._count = self._count, self._count + len(results)
        return [Value(self, first + i, desc) for i, desc in enumerate(results)]

    def body(self, results: Sequence[Value]) -> Body:
        """The body with the results `results`."""
        steps = BodySteps(tuple(self.steps), tuple(v.handle for v in results))
        return Body(self.inputs, [v.desc for v in results], lambda: steps)


def _value_ids(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(v.handle for v in operand)
    return None if operand is None else operand.handle


def write_body(
    write: Callable[..., Sequence[Value]], inputs: Iterable[TensorDesc], registry: Registry = REGISTRY
) -> Body:
    """The body that `write(ops, *arguments)` builds on arguments of the types `inputs`."""
    ops = BodyBuilder(registry)
    return ops.body(write(ops, *[ops.argument(desc) for desc in inputs]))


def expect_arguments(op: Call, name: str, wanted: Sequence[TensorDesc]) -> None:
    """Checks the types of the arguments of the body `name` of a call.

    Raises:
        OperatorError: the types differ from the types that the call passes.
    """
    body: Body = op[name]
    if len(body.inputs) != len(wanted):
        raise op.error(f"expected {name} to take {len(wanted)} arguments, got {body!r} with {len(body.inputs)}")
    for index, (got, passed) in enumerate(zip(body.inputs, wanted, strict=True)):
        if not got.compatible(passed):
            raise op.error(f"expected argument {index} of {name} {body!r} of type {passed}, got {got}")


def not_an_operator(where: str, got: str) -> OperatorError:
    """The error for an operation in a function that is no operator."""
    return OperatorError(f"{where}: expected operators of oneflow in a function that is a body, got {got}")
