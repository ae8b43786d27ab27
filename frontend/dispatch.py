"""The one way from the functional API to operators.

`dispatch("matmul", a, b, transpose_b=True)` calls the operator with the builder in force: the one of the trace
that is running. Imports `dialect.builder` and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import numpy as np

from oneflow.dialect.builder import Builder
from oneflow.dialect.record import OperatorError, flatten
from oneflow.frontend.arrays import is_array
from oneflow.frontend.errors import fail
from oneflow.frontend.tensor import Tensor

_current: ContextVar[Builder | None] = ContextVar("oneflow_builder", default=None)


@contextmanager
def using(builder: Builder) -> Iterator[None]:
    """Makes `builder` the one that functions build with."""
    token = _current.set(builder)
    try:
        yield
    finally:
        _current.reset(token)


def current_builder() -> Builder:
    """The builder in force.

    Raises:
        TraceError: no function is being traced.
    """
    builder = _current.get()
    if builder is None:
        raise fail("called outside of a traced function; put it in one and use flow.compile or flow.trace")
    return builder


def dispatch(name: str, *operands: Any, **attrs: Any) -> Tensor:
    """The result of an operator that has one.

    Operands follow the operator's signature: tensors or arrays, None for a missing optional one, a list for a
    repeated one.

    Raises:
        TraceError: the operator does not allow the call; the message is its own.
    """
    return dispatch_all(name, *operands, **attrs)[0]


def dispatch_all(name: str, *operands: Any, **attrs: Any) -> tuple[Tensor, ...]:
    """The results of an operator; see `dispatch`."""
    builder = current_builder()
    for operand in flatten(operands):
        if isinstance(operand, Tensor) and operand.builder is not builder:
            raise fail("a tensor of another trace: it was kept from a function whose tracing has ended; pass it in")
    try:
        return cast(tuple[Tensor, ...], builder.call(name, *operands, **attrs))
    except OperatorError as error:
        raise fail(str(error)) from None


def as_tensor(value: Any, what: str = "a tensor") -> Tensor:
    """A tensor, or a constant made of an array; a Python number becomes int64, float32 or bool.

    Raises:
        TraceError: it is nothing of the kind.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value, np.float32 if isinstance(value, float) else None)
    if not is_array(value):
        raise fail(f"expected {what}, got {value!r}")
    try:
        tensor = current_builder().wrap(value)
    except TypeError as error:
        raise fail(str(error)) from None
    assert isinstance(tensor, Tensor)
    return tensor
