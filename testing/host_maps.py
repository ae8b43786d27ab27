"""Tensor maps of `host_cuda`'s driver: the address that each is of, checked at every launch.

Kernels make their own descriptors in the interpreter, so that a map of other memory would not be noticed there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda.tensor_maps import MIN_CAPABILITY, TensorMap, lift

#: The bytes of an element that maps are of.
ELEMENT = 2
POINTER = ctypes.sizeof(ctypes.c_void_p)


def maps_of(source: Source) -> tuple[TensorMap, ...]:
    """The maps that a kernel takes, its blocks as large as its tensors."""
    return tuple(TensorMap(*about, about[2], ELEMENT, 9, 0) for about in lift(source, MIN_CAPABILITY)[1])


def encode(target: Any, kind: int, rank: int, address: Any, *_: Any) -> int:
    """Makes a map, which is no more than the address."""
    ctypes.c_int64.from_address(target.value).value = address.value
    return 0


def check(source: Source, parameters: int, values: Sequence[Any]) -> None:
    """Fails where a map is of other memory than its tensor; `parameters` is where the pointer to the first one is."""
    for about in maps_of(source):
        place = ctypes.c_void_p.from_address(parameters).value or 0
        begin = values[about.pointer] + about.first * ELEMENT
        assert ctypes.c_int64.from_address(place).value == begin, f"{source.name}: a map of other memory"
        parameters += (1 + 2 * len(about.sizes)) * POINTER
