"""Masks of bits: whether each element of a row is kept, 32 elements in one i32, the first in the lowest bit."""

from __future__ import annotations

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value

#: The number of elements whose bits are in one integer.
BITS = 32
#: Rows of kernels of cuBLAS have the bits of a multiple of so many elements.
ALIGNMENT = 128


def words_of(columns: int, alignment: int = ALIGNMENT) -> int:
    """How many integers hold the bits of a row."""
    return -(-columns // alignment) * alignment // BITS


def packed_bits(ops: Builder, kept: Value, alignment: int = ALIGNMENT) -> Value:
    """The masks (rows, words) of a tensor of bools (rows, columns): halves of a word are combined, from bits on."""
    rows, columns = kept.shape
    assert columns is not None, "the bits of a static number of columns"
    size = words_of(columns, alignment) * BITS
    lead = -1 if rows is None else rows
    parts: Value = ops.pad(
        ops.cast(kept, dtype=dtypes.int32), padding_before=(0, 0), padding_after=(0, size - columns)
    )
    for width in (1, 2, 4, 8, 16):
        size //= 2
        pairs = ops.reshape(parts, shape=(lead, size, 2))
        low, high = (ops.narrow(pairs, dim=2, start=i, length=1) for i in range(2))
        parts = ops.reshape(low + high * (1 << width), shape=(lead, size))
    return parts


def unpacked_bits(ops: Builder, words: Value, columns: int) -> Value:
    """The bools (rows, columns) of masks (rows, words): words are cut in halves, down to bits."""
    rows, size = words.shape
    assert size is not None, "a static number of words"
    lead = -1 if rows is None else rows
    parts: Value = words
    for width in (16, 8, 4, 2, 1):
        low, high = parts, ops.scalar_floordiv(parts, has_int_operand=True, int_operand=1 << width)
        halves = [ops.scalar_bitwise_and(half, operand=(1 << width) - 1) for half in (low, high)]
        size *= 2
        parts = ops.reshape(ops.stack(halves, axis=2), shape=(lead, size))
    kept: Value = ops.cast(ops.narrow(parts, dim=1, start=0, length=columns), dtype=dtypes.bool_)
    return kept


def numpy_packed(kept: np.ndarray, alignment: int = ALIGNMENT) -> np.ndarray:
    """`packed_bits` in NumPy."""
    rows, columns = kept.shape
    bits = np.zeros((rows, words_of(columns, alignment) * BITS), np.bool_)
    bits[:, :columns] = kept
    return np.packbits(bits, axis=1, bitorder="little").view("<i4").astype(np.int32)


def numpy_unpacked(words: np.ndarray, columns: int) -> np.ndarray:
    """`unpacked_bits` in NumPy."""
    octets = np.ascontiguousarray(words.astype("<i4")).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :columns].astype(np.bool_)
