"""Rules that operators which read files share: the part of a batch that a device reads, rows of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect.numpy_kernel import DataError
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import S, SbpSignature, Shard


def expect_shard(op: Call) -> None:
    """Checks the size of the batch, and the offset of the part of a device in it."""
    size = op.logical_size or op.batch_size
    if op.batch_size < 1 or not 0 <= op.logical_begin <= size - op.batch_size:
        raise op.error(
            "expected batch_size of at least 1 and a part inside of the batch, got"
            f" {op.batch_size} from {op.logical_begin} of {size}"
        )


def local_shard(op: Call, shard: Shard) -> dict[str, Any]:
    """The attributes by which a device reads its part of a batch."""
    size = (shard.outputs[0].shape or (0,))[0] or 0
    return {
        "batch_size": size, "logical_size": op.logical_size or op.batch_size,
        "logical_begin": op.logical_begin + (shard.output_begins[0] if size != op.batch_size else 0),
    }  # fmt: skip


def split_batch(op: Call) -> list[SbpSignature]:
    """The batch can be split: every device reads the whole batch and keeps a part."""
    return [SbpSignature((), (S(0),) * len(op.results))]


def rows_of(items: list[bytes], length: int, name: str, limit: str) -> np.ndarray:
    """Items of different lengths as rows of bytes, with zero padding after each.

    Raises:
        DataError: one is longer than `length`, the attribute `limit`.
    """
    out = np.zeros((len(items), length), np.uint8)
    for index, item in enumerate(items):
        if len(item) > length:
            raise DataError(f"{name} {index}: expected at most {limit} {length} bytes, got {len(item)}")
        out[index, : len(item)] = np.frombuffer(item, np.uint8)
    return out
