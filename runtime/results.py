"""Results of compiled programs as arrays: their memory, which they own, and how NumPy reads it."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.tensor_desc import TensorDesc, parse_desc
from oneflow.runtime import native

#: More bytes than any result has.
_MOST = 1 << 46


@functools.cache
def _free() -> Any:
    return native.library().oneflow_rt_free


class Memory(ctypes.c_char * _MOST):  # type: ignore[misc]
    """A result's memory, by `from_address`; given back when no array needs it. Where it ends, arrays know."""

    def __del__(self, free: Any = _free, address_of: Any = ctypes.addressof) -> None:
        free()(address_of(self))


def described(text: str) -> TensorDesc:
    """The type that a text of the facts says."""
    desc = parse_desc(text)
    assert desc is not None, text
    return desc


def dynamic_axes(desc: TensorDesc) -> list[int]:
    """The dimensions whose sizes are only known at run time."""
    return [axis for axis, size in enumerate(desc.shape or ()) if size is None]


@dataclass(frozen=True)
class Form:
    """How a result becomes an array: its sizes (None: from the run) and element type."""

    shape: tuple[int | None, ...]
    dynamic: int
    dtype: np.dtype

    @classmethod
    def of(cls, desc: TensorDesc) -> Form:
        """The form of results of a type."""
        return cls(desc.shape or (), len(dynamic_axes(desc)), desc.dtype.numpy)
