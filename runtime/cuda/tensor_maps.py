"""Tensor maps: TMA descriptors that the host makes before a launch, as parameters of the kernel.

    block5 = tl.make_tensor_descriptor(p0, [8192, 768], [768, 1], [128, 64])   ->   a parameter block5

A program that makes its own descriptors waits for each of them before its first load. The host makes a descriptor
again only if the tensor has another address. Descriptors with sizes that only a run knows stay in the kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oneflow.lowering.triton.source import Parameter, Source, TensorDescriptor
from oneflow.runtime.cuda import driver

#: The size and the alignment of a tensor map in bytes.
BYTES, ALIGNMENT = 128, 64
#: `CUtensorMapInterleave`, `CUtensorMapL2promotion` and `CUtensorMapFloatOOBfill` of the driver: elements are not
#: interleaved, L2 fetches 128 bytes at once, elements outside of the tensor read as 0.
INTERLEAVE_NONE, L2_PROMOTION_128B, FILL_ZERO = 0, 2, 0
#: The driver's `CUtensorMapDataType` by Triton's, where the two differ.
DRIVER_TYPES = {8: 10, 9: 8, 10: 9}


@dataclass(frozen=True)
class TensorMap:
    """Blocks of a tensor that begins `first` elements after the pointer in parameter number `pointer`.

    `sizes` and `strides` are in elements, outermost dimension first. `block` is the shape of one copy. `element` is
    the size of an element in bytes, `kind` its `CUtensorMapDataType`, `swizzle` the `CUtensorMapSwizzle` of a block.
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
        """The map with these fields, given as plain data."""
        lists = {name: tuple(fields[name]) for name in ("sizes", "strides", "block")}
        return TensorMap(**{**fields, **lists})


#: The tensor of a descriptor before its layout in shared memory is known: the first four fields of its map.
DescribedTensor = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def lift_descriptors(source: Source, has_tma: bool) -> tuple[Source, list[DescribedTensor]]:
    """The kernel with its descriptors as parameters after the others, in order, and the tensors that these describe.

    A GPU without TMA has no tensor maps: its kernel is not changed.
    """
    if not has_tma or not source.descriptors:
        return source, []
    types, numbers = dict(source.parameters), {p.name: i for i, p in enumerate(source.parameters)}
    added = tuple(Parameter(d.name, _parameter_type(d, types[d.pointer])) for d in source.descriptors)
    lifted = [(numbers[d.pointer], d.offset, d.shape, d.strides) for d in source.descriptors]
    return replace(source, parameters=(*source.parameters, *added), body=source.without_descriptors), lifted


def _parameter_type(descriptor: TensorDescriptor, pointer: str) -> str:
    """The type of a descriptor in a Triton signature; `pointer` is the pointer type of its tensor."""
    layout = f",{descriptor.layout}" if descriptor.layout else ""
    return f"tensordesc<{pointer.removeprefix('*')}{list(descriptor.block)}{layout}>"


def tensor_maps_of(lifted: Sequence[DescribedTensor], facts: Sequence[Mapping[str, Any]]) -> tuple[TensorMap, ...]:
    """The maps of descriptors, with the layouts in shared memory that the compiler chose."""
    return tuple(TensorMap(*tensor, *_block_fields(fact)) for tensor, fact in zip(lifted, facts, strict=True))


def _block_fields(fact: Mapping[str, Any]) -> tuple[tuple[int, ...], int, int, int]:
    kind = fact["elem_type"]
    return tuple(fact["block_size"]), fact["elem_size"], DRIVER_TYPES.get(kind, kind), fact["swizzle"]


class MapArgument:
    """A tensor map in memory, and the sizes and strides that follow it among the arguments of a kernel.

    `argument_addresses` are the addresses of all of these arguments, for the launch. `tensor_address` is the address
    of the mapped tensor.
    """

    def __init__(self, about: TensorMap) -> None:
        rank = len(about.sizes)
        self.about, self.tensor_address = about, 0
        self._memory = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        self.address = -(-ctypes.addressof(self._memory) // ALIGNMENT) * ALIGNMENT
        self._sizes = (ctypes.c_int32 * rank)(*about.sizes)
        self._strides = (ctypes.c_int64 * rank)(*about.strides)
        sizes, strides = ctypes.addressof(self._sizes), ctypes.addressof(self._strides)
        fields = *(sizes + 4 * i for i in range(rank)), *(strides + 8 * i for i in range(rank))
        self.argument_addresses = [self.address, *fields]
        self._layout = tensor_map_fields(
            about.sizes, about.strides, about.block, about.element, about.kind, about.swizzle
        )

    def encode(self, slots: ctypes.Array[ctypes.c_int64]) -> None:
        """Encodes the map for the address of its tensor; `slots` are the values of the kernel's parameters."""
        address = slots[self.about.pointer] + self.about.first * self.about.element
        if address != self.tensor_address:
            driver.encode_tensor_map(self.address, address, self._layout)
            self.tensor_address = address


def tensor_map_fields(sizes: Sequence[int], strides: Sequence[int], block: Sequence[int], element: int, kind: int,
          swizzle: int) -> tuple[Any, ...]:  # fmt: skip
    """How `driver.encode_tensor_map` describes a tensor: sizes, strides in elements and blocks, outermost first."""
    rank = len(sizes)
    bounds = (ctypes.c_uint64 * rank)(*reversed(sizes))
    steps = (ctypes.c_uint64 * rank)(*(element * s for s in reversed(strides[:-1])))
    box, ones = (ctypes.c_uint32 * rank)(*reversed(block)), (ctypes.c_uint32 * rank)(*[1] * rank)
    return kind, rank, bounds, steps, box, ones, INTERLEAVE_NONE, swizzle, L2_PROMOTION_128B, FILL_ZERO
