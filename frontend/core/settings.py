"""Settings that functions of tensors read: the default type of floats, autocast, the global mode.

A compiled function has a program for each combination of settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType

#: The default type of floats.
DEFAULT_DTYPE = [dtypes.float32]


class Scope(NamedTuple):
    """The settings of contexts.

    Attributes:
        autocast: the conversion of the operands of operators, None outside of `flow.autocast`.
        global_mode: the placement and SBP layout of tensors that functions make, None for tensors of this process.
        loss_scale: returns the factor of the initial gradient of `backward`, None for 1.
    """

    autocast: Any = None
    global_mode: Any = None
    loss_scale: Any = None


_DEFAULT = Scope()
SCOPE: ContextVar[Scope] = ContextVar("oneflow_scope", default=_DEFAULT)


def get_default_dtype() -> DType:
    """The element type of tensors made of Python floats, and of layers: float32 unless `set_default_dtype` says
    otherwise.
    """
    return DEFAULT_DTYPE[0]


def set_default_dtype(d: DType) -> None:
    """Sets the element type of tensors made of Python floats, and of layers.

    Raises:
        TypeError: the type is no type of floats.
    """
    if d not in dtypes.FLOATS:
        raise TypeError(f"expected a type of floats such as flow.float64, got {d!r}")
    DEFAULT_DTYPE[0] = d


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """A context with the settings of `scope`."""
    token = SCOPE.set(scope)
    try:
        yield
    finally:
        SCOPE.reset(token)


def loss_scale(get: Callable[[], float] | None) -> AbstractContextManager[None]:
    """A context in which `backward` of one element begins with the number `get()`, not with 1."""
    return within(SCOPE.get()._replace(loss_scale=get))
