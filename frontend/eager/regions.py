"""Regions of memory: where the elements of tensors are, and which tensors have elements in common.

The region of a view is in the memory of its root, though its values are read from a copy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.arrays import Data, dtype_of, is_on_device, memory_of
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.runtime.arguments import address_of
from oneflow.runtime.spans import Span, overlap


@dataclass(frozen=True)
class Region:
    """Elements in memory: which memory, the address of the first element, the shape, and the strides in bytes."""

    memory: Hashable
    begin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @functools.cached_property
    def span(self) -> Span:
        """The bytes from the first element to the last; empty for a region without elements."""
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + self.dtype.numpy.itemsize
        return self.memory, self.begin + low, self.begin + (high if self.size else low)

    @functools.cached_property
    def is_dense(self) -> bool:
        """Whether the elements are contiguous."""
        pairs = zip(self.shape, self.strides, _dense_strides(self.shape, self.dtype), strict=True)
        return all(n == 1 or stride == wanted for n, stride, wanted in pairs)

    def is_element_aligned(self, other: Region) -> bool:
        """Whether an element of one region is either an element of the other or apart from it."""
        return self.dtype == other.dtype and (self.begin - other.begin) % self.dtype.numpy.itemsize == 0

    def positions(self) -> np.ndarray:
        """The address of each element, in row-major order."""
        steps = [np.arange(n) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        positions = np.asarray(self.begin, np.int64)
        for step in steps:
            positions = np.add.outer(positions, step)
        return np.ravel(positions)

    def find(self, positions: np.ndarray) -> np.ndarray:
        """The indices of the elements at these addresses, -1 for an address without element."""
        _, low, high = self.span
        numbers_of_positions = (positions - low) // self.dtype.numpy.itemsize
        outside = (positions < low) | (positions >= high)
        if not self.is_dense:
            numbers_by_offset = np.full((high - low) // self.dtype.numpy.itemsize, -1)
            numbers_by_offset[(self.positions() - low) // self.dtype.numpy.itemsize] = np.arange(self.size)
            numbers_of_positions = numbers_by_offset[np.where(outside, 0, numbers_of_positions)]
        return np.where(outside, -1, numbers_of_positions)

    def overlaps(self, other: Region) -> bool:
        """Whether the two regions have bytes of elements in common."""
        if not overlap(self.span, other.span):
            return False
        dense = self.is_dense and other.is_dense
        return dense or not self.is_element_aligned(other) or bool((self._element_indices(other) >= 0).any())

    def covers(self, other: Region) -> bool:
        """Whether all elements of the other region are elements of this one."""
        return self.is_element_aligned(other) and bool((self._element_indices(other) >= 0).all())

    def _element_indices(self, other: Region) -> np.ndarray:
        """For each element of the other region its index in this region, -1 for elements outside of this region."""
        return self.find(other.positions())


def region_of(tensor: EagerTensor) -> Region:
    """The region of a tensor; for a view within the memory of its root."""
    if not tensor.is_view():
        return region_in(tensor.handle.handle)
    first, shape, steps = tensor.view_meta.strided_layout()
    memory, begin = memory_of(tensor.view_meta.root.handle.handle)
    size = tensor.dtype.numpy.itemsize
    return Region(memory, begin + first * size, shape, tuple(step * size for step in steps), tensor.dtype)


def region_in(data: Data) -> Region:
    """The region of an array."""
    dtype, shape = dtype_of(data), tuple(data.shape)
    strides = data.strides if isinstance(data, np.ndarray) else _dense_strides(shape, dtype)
    return Region(*memory_of(data), shape, strides, dtype)


def span_of(data: Data) -> Span:
    """The bytes from the first element of an array to the last."""
    # The common cases in a training step do without the detour by `memory_of`.
    if isinstance(data, np.ndarray):
        if not data.flags.c_contiguous:
            return region_in(data).span
        begin = address_of(data)
        return None, begin, begin + data.nbytes
    if is_on_device(data):
        return data.stream.device, data.address, data.address + math.prod(data.shape) * data.dtype.numpy.itemsize
    memory, begin = memory_of(data)
    return memory, begin, begin + data.nbytes


def _dense_strides(shape: Sequence[int], dtype: DType) -> tuple[int, ...]:
    """The strides in bytes of a contiguous array."""
    size = dtype.numpy.itemsize
    return tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
