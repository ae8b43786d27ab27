"""Results of compiled programs as NumPy arrays, and the memory that the arrays own."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.tensor_desc import TensorDesc, parse_desc
from oneflow.runtime import native

#: More bytes than any result has: the type `Memory` does not define a size.
_MAX_BYTES = 1 << 46


@functools.cache
def _free() -> Any:
    return native.library().oneflow_rt_free


class Memory(ctypes.c_char * _MAX_BYTES):  # type: ignore[misc]
    """The memory of a result, made by `from_address` and freed when no array refers to it."""

    def __del__(self, free: Any = _free, address_of: Any = ctypes.addressof) -> None:
        free()(address_of(self))


def parse_result_type(text: str) -> TensorDesc:
    """The tensor type that a text names."""
    desc = parse_desc(text)
    assert desc is not None, text
    return desc


def dynamic_axes(desc: TensorDesc) -> list[int]:
    """The dimensions whose sizes are only known at run time."""
    return [axis for axis, size in enumerate(desc.shape or ()) if size is None]


@dataclass(frozen=True)
class ResultFormat:
    """The shape (None: a size that the run returns), the number of dynamic sizes, and the dtype of a result."""

    shape: tuple[int | None, ...]
    dynamic: int
    dtype: np.dtype

    @classmethod
    def of(cls, desc: TensorDesc) -> ResultFormat:
        """The format of results of a type."""
        return cls(desc.shape or (), len(dynamic_axes(desc)), desc.dtype.numpy)
