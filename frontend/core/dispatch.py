"""Dispatch: the path from the functional API to operators.

`dispatch("matmul", a, b, transpose_b=True)` calls the operator with the current builder: the builder of the running
trace, or the builder of eager mode (`eager/builder.py`, which has the cached kernels).
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
from oneflow.frontend.core.settings import SCOPE, get_default_dtype
from oneflow.frontend.core.tensor import Tensor

#: View operators: their results share elements with their first operand.
VIEWS = frozenset(
    "reshape reshape_like squeeze expand_dims expand broadcast_like transpose slice narrow diagonal"
    " unfold_tensor as_strided real imag view_as_real view_as_complex".split()
)


class Stateful:
    """An object that holds tensors, such as a module or an optimizer; a static argument of compiled functions."""

    def facts(self) -> dict[Any, Any]:
        """The facts of the object that a program is specialized to, by name: plain values, or objects compared by
        identity.
        """
        return {}


class TensorBuilder(Builder):
    """The builder that functions of tensors call operators with."""

    #: Whether tensors have values.
    eager = False

    @abstractmethod
    def read(self, tensor: Tensor) -> Value:
        """The value of a tensor in this builder.

        Raises:
            OneFlowError: the tensor belongs to another builder.
        """

    @abstractmethod
    def to_tensor(self, value: Value) -> Tensor:
        """A value of this builder as a tensor."""

    def apply(self, name: str, operands: Sequence[Any], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
        """The results of an operator on tensors; see `dispatch`.

        Raises:
            OneFlowError: the operator does not allow the call.
        """
        values = [self._value(x) for x in operands]
        try:
            results = self.call(name, *values, **attrs)
        except OperatorError as error:
            raise fail(str(error), kind=error) from None
        tensors = tuple(map(self.to_tensor, results))
        if name in VIEWS:
            self.record_view(name, operands, attrs, tensors[0])
        return tensors

    def _value(self, operand: Any) -> Any:
        """An operand of an operator, with values of this builder in place of tensors."""
        if isinstance(operand, Tensor):
            return self.read(operand)
        return tuple(map(self._value, operand)) if isinstance(operand, (tuple, list)) else operand

    @abstractmethod
    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Updates a tensor in place to a result that nothing else refers to; messages call the update `writer`."""

    @abstractmethod
    def backward(
        self,
        tensors: Sequence[Tensor],
        grad_tensors: Sequence[Any],
        retain_graph: bool,
        create_graph: bool,
        inputs: Any,
    ) -> None:
        """Accumulates gradients at the leaves that `tensors` depend on, or at `inputs`; see `autograd.backward`."""

    @abstractmethod
    def runtime_scalar(self, get: Callable[[], float], dtype: DType) -> Tensor:
        """A tensor without dimensions whose value may change; a compiled function calls `get` at every run."""

    @abstractmethod
    def guard(self, read: Callable[[Any, Any], Any], owner: Any, key: Any) -> Any:
        """The result of `read(owner, key)`, which is no tensor; a compiled function is guarded on the result."""

    def guard_items(self, owner: Any, name: str, keys: Sequence[int]) -> None:
        """Guards a trace on the objects in the dicts under `keys` of the dict `getattr(owner, name)`."""

    def watch(self, owner: Stateful) -> None:
        """Guards a trace on the `facts` of `owner`."""

    def on_trace_end(self, restore: Callable[[], None]) -> None:
        """Has `restore` called when a trace ends, the latest first; nothing in eager mode."""

    @abstractmethod
    def watch_hooks(self, version: Callable[[], int]) -> None:
        """Guards a trace on hooks, whose changes `version` counts."""

    def record_view(self, name: str, operands: Sequence[Any], attrs: dict[str, Any], result: Tensor) -> None:
        """Notes that a result shares elements with the first operand."""

    def unrecord_view(self, result: Tensor) -> None:
        """Notes that a result shares no elements with another tensor, though its operator is in `VIEWS`."""

    @abstractmethod
    def is_copy(self, reshaped: Tensor) -> bool:
        """Whether a reshape of a tensor copies its elements; False where sizes are dynamic."""

    @abstractmethod
    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether a tensor is contiguous in memory; False where sizes are dynamic."""

    @abstractmethod
    def memory_root(self, tensor: Tensor) -> tuple[Tensor, int]:
        """The tensor whose memory a tensor shares, and the position of the first element in that memory."""

    @abstractmethod
    def get_grad(self, leaf: Any) -> Any:
        """The gradient of a leaf."""

    @abstractmethod
    def set_grad(self, leaf: Any, grad: Any) -> None:
        """Replaces the gradient of a leaf."""


_default: list[TensorBuilder] = []


def set_default(builder: TensorBuilder) -> None:
    """Sets the builder that is current outside of `use_builder`."""
    _default[:] = [builder]


@contextmanager
def use_builder(builder: TensorBuilder) -> Iterator[None]:
    """A context in which `builder` is active."""
    token = BUILDER.set(builder)
    try:
        yield
    finally:
        BUILDER.reset(token)


def current_builder() -> TensorBuilder:
    """The current builder."""
    builder: TensorBuilder = BUILDER.get() or _default[0]
    return builder


def dispatch(name: str, /, *operands: Any, **attrs: Any) -> Tensor:
    """The only result of an operator.

    Operands follow the operator's signature: tensors or arrays, None for a missing optional one, a list for a
    variadic one.

    Raises:
        OneFlowError: the operator does not allow the call.
    """
    builder: TensorBuilder = BUILDER.get() or _default[0]  # `current_builder` inlined
    if SCOPE.get().autocast is not None:
        operands = SCOPE.get().autocast.converted(name, operands)
    return builder.apply(name, operands, attrs)[0]


def dispatch_all(name: str, /, *operands: Any, **attrs: Any) -> tuple[Tensor, ...]:
    """The results of an operator; see `dispatch`."""
    if SCOPE.get().autocast is not None:
        operands = SCOPE.get().autocast.converted(name, operands)
    return current_builder().apply(name, operands, attrs)


def as_scalar(value: Any) -> Any:
    """The number in a tensor without dimensions, where tensors have values; anything else as it is."""
    is_scalar = isinstance(value, Tensor) and value.rank == 0 and current_builder().eager
    return value.item() if is_scalar else value


def detached(x: Tensor) -> Tensor:
    """The same elements of a tensor of a trace, through which no gradient flows."""
    result = dispatch("stop_gradient", x)
    current_builder().record_view("stop_gradient", [x], {}, result)
    return result


def as_tensor(value: Any, what: str = "a tensor") -> Tensor:
    """A tensor, or a constant made of an array or number; a Python number becomes int64, float32, complex64 or
    bool.

    Raises:
        OneFlowError: the value is none of these.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, complex)):
        default = get_default_dtype()
        value = np.asarray(value, {float: default.numpy, complex: default.complex.numpy}.get(type(value)))
    if not is_array(value):
        raise fail(f"expected {what}, got {value!r}")
    builder = current_builder()
    try:
        return builder.to_tensor(builder.wrap(value))
    except TypeError as error:
        raise fail(str(error)) from None
