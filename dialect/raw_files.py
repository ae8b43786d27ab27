"""Tensors one after the other in files, as they are in memory."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.numpy_kernel import DataError


class Instances:
    """The tensors of some files; after the last, the first again.

    Raises:
        DataError: a file is absent or has a part of a tensor, or there are no tensors.
    """

    def __init__(self, files: Sequence[str], shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self._parts = [part for part in (self._opened(file, shape, dtype) for file in files) if len(part)]
        self._ends = list(itertools.accumulate(map(len, self._parts)))
        if not self._parts:
            raise DataError(f"expected tensors in {', '.join(files) or 'files'}, got none")

    @staticmethod
    def _opened(file: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        try:
            data: Any = np.fromfile(file, np.uint8, 1)
            data = np.memmap(file, np.uint8, "r") if len(data) else data
        except (OSError, ValueError) as error:
            raise DataError(f"expected the file {file} of tensors: {error}") from None
        size = math.prod(shape) * dtype.itemsize
        if len(data) % size:
            raise DataError(f"{file}: expected a multiple of {size} bytes, the size of a tensor, got {len(data)}")
        return data.view(dtype).reshape(-1, *shape)

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Any:
        index %= len(self)
        part = bisect.bisect_right(self._ends, index)
        return self._parts[part][index - self._ends[part]]


def batch_indices(count: int, batch: int, block: int, seed: int | None) -> Iterator[list[int]]:
    """The indices of the tensors of each batch of `count` tensors, again and again.

    With a seed, blocks of tensors that follow one another make up the batches in random order, and the batches come
    in another order in each round.
    """
    blocks = [range(at, at + block) for at in range(0, math.ceil(count / batch) * batch, block)]
    drawn = None if seed is None else random.Random(seed)
    if drawn is not None:
        drawn.shuffle(blocks)
    step = batch // block
    batches = [[n for one in blocks[at : at + step] for n in one] for at in range(0, len(blocks), step)]
    while True:
        if drawn is not None:
            drawn.shuffle(batches)
        yield from batches
