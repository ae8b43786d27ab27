"""Tensor maps of the driver of `host_cuda`: the address of each map, checked at every launch.

Interpreted kernels create their own descriptors, so that interpretation does not detect a map of wrong memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda.tensor_maps import TensorMap, lift_descriptors

#: The bytes of an element of a map.
ELEMENT = 2
POINTER = ctypes.sizeof(ctypes.c_void_p)


def maps_of(source: Source) -> tuple[TensorMap, ...]:
    """The maps of a kernel, with blocks as large as the tensors."""
    return tuple(TensorMap(*about, about[2], ELEMENT, 9, 0) for about in lift_descriptors(source, has_tma=True)[1])


def encode(target: Any, kind: int, rank: int, address: Any, *_: Any) -> int:
    """Writes a map, which has the address alone."""
    ctypes.c_int64.from_address(target.value).value = address.value
    return 0


def check(source: Source, parameters: int, values: Sequence[Any]) -> None:
    """Checks that each map has the address of its tensor; `parameters` is the address of the pointer to the first
    map.
    """
    for about in maps_of(source):
        address = ctypes.c_void_p.from_address(parameters).value or 0
        begin = values[about.pointer] + about.first * ELEMENT
        assert ctypes.c_int64.from_address(address).value == begin, f"{source.name}: a map of other memory"
        parameters += (1 + 2 * len(about.sizes)) * POINTER
