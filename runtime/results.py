"""Results of compiled programs as arrays: their memory, which they own, and how NumPy reads it.

Imports `native`, the dialect and NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.tensor_desc import TensorDesc, parse_desc
from oneflow.runtime import native


class Memory:
    """A result's memory; NumPy keeps it alive through the array interface."""

    __slots__ = ("__array_interface__", "address")

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self.address = address
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "version": 3}

    def __del__(self, free: Any = None) -> None:
        (free or _free)(self.address)


def _free(address: int) -> None:
    native.library().oneflow_rt_free(address)


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
    """How a result becomes an array: its sizes (None: from the run), how NumPy reads it, the type it is seen as."""

    shape: tuple[int | None, ...]
    dynamic: int
    typestr: str
    view: np.dtype | None

    @classmethod
    def of(cls, desc: TensorDesc) -> Form:
        """The form of results of a type."""
        dtype = desc.dtype.numpy
        special = dtype.kind == "V"
        typestr = f"<u{dtype.itemsize}" if special else dtype.str
        return cls(desc.shape or (), len(dynamic_axes(desc)), typestr, dtype if special else None)
