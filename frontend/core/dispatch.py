"""The one way from the functional API to operators.

`dispatch("matmul", a, b, transpose_b=True)` calls the operator with the builder in force: the one of the trace that
is running, or that of eager mode.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import OperatorError
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.mode import BUILDER
from oneflow.frontend.core.tensor import Tensor

#: Operators whose results show elements of their first operand.
VIEWS = frozenset("reshape reshape_like squeeze expand_dims expand broadcast_like transpose slice narrow".split())


class Stateful:
    """What holds tensors of its own, as modules and optimizers do; compiled functions take it as it is."""

    def facts(self) -> dict[Any, Any]:
        """What programs that use it are made for, by name: plain values, or what is compared by identity."""
        return {}


class TensorBuilder(Builder):
    """A builder that functions of tensors build with."""

    #: Whether tensors have values.
    eager = False

    @abstractmethod
    def read(self, tensor: Tensor) -> Value:
        """What a tensor is to this builder.

        Raises:
            OneFlowError: it belongs to another one.
        """

    @abstractmethod
    def give(self, value: Value) -> Tensor:
        """A value of this builder as a tensor."""

    @abstractmethod
    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Updates a tensor in place to a result that nothing else holds; `writer` is what messages call that."""

    @abstractmethod
    def backward(
        self, tensors: Sequence[Tensor], weights: Sequence[Any], retain_graph: bool, create_graph: bool, inputs: Any
    ) -> None:
        """Adds up gradients at the leaves behind `tensors`, or those of them in `inputs`; see `autograd.backward`."""

    @abstractmethod
    def number(self, get: Callable[[], float], dtype: DType) -> Tensor:
        """A tensor of one number that may change: in a compiled function it is asked for at every run."""

    @abstractmethod
    def guard(self, get: Callable[[], Any]) -> Any:
        """What `get` gives, which something that is not a tensor depends on; compiled functions watch it."""

    def watch(self, owner: Stateful) -> None:
        """Has what is built hold while the `facts` of `owner` are the same."""

    @abstractmethod
    def watch_hooks(self, version: Callable[[], int]) -> None:
        """Has what is built hold while hooks, whose changes `version` counts, are the same."""

    def note_view(self, name: str, operands: Sequence[Any], attrs: dict[str, Any], result: Tensor) -> None:
        """Notes that a result shows elements of the first operand, where that may be updated."""

    def drop_view(self, result: Tensor) -> None:
        """Notes that a result shows nobody's elements, though its operator is one of `VIEWS`."""

    @abstractmethod
    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether element follows element in the memory of a tensor; False where only the run knows."""

    @abstractmethod
    def get_grad(self, leaf: Any) -> Any:
        """The gradient that a leaf has."""

    @abstractmethod
    def set_grad(self, leaf: Any, grad: Any) -> None:
        """Gives a leaf another gradient."""


_default: list[TensorBuilder] = []


def set_default(builder: TensorBuilder) -> None:
    """Makes `builder` the one that functions build with where none is in force."""
    _default[:] = [builder]


@contextmanager
def use_builder(builder: TensorBuilder) -> Iterator[None]:
    """Makes `builder` the one that functions build with."""
    token = BUILDER.set(builder)
    try:
        yield
    finally:
        BUILDER.reset(token)


def current_builder() -> TensorBuilder:
    """The builder in force."""
    builder: TensorBuilder = BUILDER.get() or _default[0]
    return builder


def dispatch(name: str, *operands: Any, **attrs: Any) -> Tensor:
    """The result of an operator that has one.

    Operands follow the operator's signature: tensors or arrays, None for a missing optional one, a list for a
    repeated one.

    Raises:
        OneFlowError: the operator does not allow the call; the message is its own.
    """
    return dispatch_all(name, *operands, **attrs)[0]


def dispatch_all(name: str, *operands: Any, **attrs: Any) -> tuple[Tensor, ...]:
    """The results of an operator; see `dispatch`."""
    builder = current_builder()
    values = [_value(builder, x) for x in operands]
    try:
        results = builder.call(name, *values, **attrs)
    except OperatorError as error:
        raise fail(str(error)) from None
    given = tuple(map(builder.give, results))
    if name in VIEWS:
        builder.note_view(name, operands, attrs, given[0])
    return given


def detached(x: Tensor) -> Tensor:
    """The same elements as a tensor of a trace through which no gradient flows."""
    found = dispatch("stop_gradient", x)
    current_builder().note_view("stop_gradient", [x], {}, found)
    return found


def _value(builder: TensorBuilder, operand: Any) -> Any:
    if isinstance(operand, Tensor):
        return builder.read(operand)
    if isinstance(operand, (tuple, list)):
        return tuple(_value(builder, x) for x in operand)
    return operand


def as_tensor(value: Any, what: str = "a tensor") -> Tensor:
    """A tensor, or a constant made of an array; a Python number becomes int64, float32 or bool.

    Raises:
        OneFlowError: it is nothing of the kind.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value, np.float32 if isinstance(value, float) else None)
    if not is_array(value):
        raise fail(f"expected {what}, got {value!r}")
    builder = current_builder()
    try:
        return builder.give(builder.wrap(value))
    except TypeError as error:
        raise fail(str(error)) from None
