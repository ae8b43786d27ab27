"""Tensor maps: descriptors of blocks that the host makes ahead of a launch, as parameters of a kernel.

    block5 = tl.make_tensor_descriptor(p0, [8192, 768], [768, 1], [128, 64])   ->   a parameter block5

A program that makes its descriptors waits for each of them before it can read, the host only makes those whose
memory has moved. Those of sizes that a kernel is told stay in the kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oneflow.lowering.triton.source import Source, TensorDescriptor, signature
from oneflow.runtime.cuda import driver

#: The least compute capability of the hardware that copies blocks.
LEAST = 90
#: The bytes of a tensor map, and what its address is a multiple of.
BYTES, ALIGNMENT = 128, 64
#: Elements one after the other, the cache takes 128 bytes at once, 0 outside of the tensor.
PLAIN, NEAR, ZEROS = 0, 2, 0
#: The driver's numbers of kinds of elements where Triton has others.
KINDS = {8: 10, 9: 8, 10: 9}


@dataclass(frozen=True)
class TensorMap:
    """Blocks of a tensor that begins `first` elements after parameter `pointer`.

    Its `sizes` and `strides`, in elements, are outermost first; `block` is what is copied at once, `element`
    the bytes and `kind` the driver's number of its elements.
    """

    pointer: int
    first: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    element: int
    kind: int
    swizzle: int

    @staticmethod
    def of(fields: Mapping[str, Any]) -> TensorMap:
        """The map whose fields are plain data."""
        lists = {name: tuple(fields[name]) for name in ("sizes", "strides", "block")}
        return TensorMap(**{**fields, **lists})


#: A descriptor before it is known how blocks lie in shared memory: the first fields of its map.
Lifted = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def lift(source: Source, capability: int) -> tuple[Source, list[Lifted]]:
    """The kernel with its descriptors as parameters after the others, in order, and the tensors that these describe.

    A GPU below `LEAST` has no tensor maps: its kernel stays as it is.
    """
    if capability < LEAST or not source.descriptors:
        return source, []
    types, numbers = dict(source.parameters), {name: i for i, (name, _) in enumerate(source.parameters)}
    added = tuple((d.name, _parameter_type(d, types[d.pointer])) for d in source.descriptors)
    lifted = [(numbers[d.pointer], d.offset, d.shape, d.strides) for d in source.descriptors]
    parameters = (*source.parameters, *added)
    head = signature(source.name, (name for name, _ in parameters), source.language)
    text = f"{source.prelude}{head}{source.body}"
    return replace(source, text=text, parameters=parameters, descriptors=()), lifted


def _parameter_type(descriptor: TensorDescriptor, pointer: str) -> str:
    """The type of a descriptor in a Triton signature; `pointer` is that of its tensor."""
    layout = descriptor.layout.partition(".")[2]
    return f"tensordesc<{pointer.removeprefix('*')}{list(descriptor.block)}{f',{layout}' if layout else ''}>"


def settled(lifted: Sequence[Lifted], facts: Sequence[Mapping[str, Any]]) -> tuple[TensorMap, ...]:
    """The maps of descriptors, from what the compiler says of each."""
    return tuple(TensorMap(*about, *_layout(found)) for about, found in zip(lifted, facts, strict=True))


def _layout(found: Mapping[str, Any]) -> tuple[tuple[int, ...], int, int, int]:
    kind = found["elem_type"]
    return tuple(found["block_size"]), found["elem_size"], KINDS.get(kind, kind), found["swizzle"]


class MapArgument:
    """A tensor map in memory, with the sizes and strides that kernels have beside it.

    `places` are the addresses of all of these, as arguments of a launch.
    """

    def __init__(self, about: TensorMap) -> None:
        rank = len(about.sizes)
        self.about, self.of = about, 0
        self._room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        self.address = -(-ctypes.addressof(self._room) // ALIGNMENT) * ALIGNMENT
        self._sizes = (ctypes.c_int32 * rank)(*about.sizes)
        self._strides = (ctypes.c_int64 * rank)(*about.strides)
        sizes, strides = ctypes.addressof(self._sizes), ctypes.addressof(self._strides)
        self.places = [self.address, *(sizes + 4 * i for i in range(rank)), *(strides + 8 * i for i in range(rank))]
        self._how = tiled(about.sizes, about.strides, about.block, about.element, about.kind, about.swizzle)

    def set(self, slots: Sequence[int]) -> None:
        """Makes it the map of the tensor that the parameters in `slots` are of."""
        address = slots[self.about.pointer] + self.about.first * self.about.element
        if address != self.of:
            driver.encode(self.address, address, self._how)
            self.of = address


def tiled(sizes: Sequence[int], strides: Sequence[int], block: Sequence[int], element: int, kind: int,
          swizzle: int) -> tuple[Any, ...]:  # fmt: skip
    """How `driver.encode` describes a tensor: sizes, strides in elements and blocks, outermost first."""
    rank = len(sizes)
    bounds = (ctypes.c_uint64 * rank)(*reversed(sizes))
    steps = (ctypes.c_uint64 * rank)(*(element * s for s in reversed(strides[:-1])))
    box, ones = (ctypes.c_uint32 * rank)(*reversed(block)), (ctypes.c_uint32 * rank)(*[1] * rank)
    return kind, rank, bounds, steps, box, ones, PLAIN, swizzle, NEAR, ZEROS
