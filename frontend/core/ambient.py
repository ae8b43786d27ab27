"""Settings that functions of tensors read wherever they are called: the default type of floats, and autocast.

A compiled function has a program for each combination of settings.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType

_default = [dtypes.float32]

#: The autocast in force, None outside of it.
AUTOCAST: ContextVar[Any] = ContextVar("oneflow_autocast", default=None)


def ambient() -> tuple[DType, Any]:
    """The present settings, to be compared."""
    return _default[0], AUTOCAST.get()


def get_default_dtype() -> DType:
    """The element type of tensors made of Python floats, and of layers: float32 unless `set_default_dtype` says
    otherwise.
    """
    return _default[0]


def set_default_dtype(d: DType) -> None:
    """Sets the element type of tensors made of Python floats, and of layers.

    Raises:
        TypeError: it is no type of floats.
    """
    if not isinstance(d, DType) or not d.is_float:
        raise TypeError(f"expected a type of floats such as flow.float64, got {d!r}")
    _default[0] = d
