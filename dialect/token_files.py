"""Documents of tokens in Megatron's files: `prefix.idx` has lengths and byte offsets of documents in `prefix.bin`.

    prefix.idx: MMIDIDX and two zeros, version (u64), element type (u8), documents (u64), offsets (u64),
                lengths (i32 each), byte offsets (i64 each), offsets (i64 each)

A sample is `seq_length` tokens and a label after them; samples follow one another in the documents, which are
repeated for as many epochs as samples need.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect.numpy_kernel import DataError

MAGIC = b"MMIDIDX\0\0"
_HEADER = struct.Struct("<QBQQ")
#: The element types of tokens, by their codes in the file.
TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f4", 7: "<f8", 8: "<u2"}
#: The share of an epoch's samples from which on the last epoch is shuffled with the others.
WHOLE_EPOCH = 0.8


class Documents:
    """The documents of two files.

    Raises:
        DataError: a file is absent or damaged.
    """

    def __init__(self, prefix: str) -> None:
        try:
            index = Path(f"{prefix}.idx").read_bytes()
            data = np.memmap(f"{prefix}.bin", np.uint8, "r")
        except (OSError, ValueError) as error:
            raise DataError(f"expected the files {prefix}.idx and {prefix}.bin of documents: {error}") from None
        self.lengths, self.begins, self.tokens = self._parsed(f"{prefix}.idx", index, data)

    @staticmethod
    def _parsed(name: str, index: bytes, data: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        start = len(MAGIC) + _HEADER.size
        if not index.startswith(MAGIC) or len(index) < start:
            raise DataError(f"{name}: expected a file that begins with {MAGIC!r} and 25 bytes, got {index[:9]!r}")
        _, code, documents, offsets = _HEADER.unpack_from(index, len(MAGIC))
        wanted = start + 12 * documents + 8 * offsets
        if code not in TYPES or offsets != documents + 1 or len(index) != wanted:
            raise DataError(
                f"{name}: expected a known element type, one more offset than documents and {wanted} bytes, got type"
                f" {code}, {documents} documents, {offsets} offsets and {len(index)} bytes"
            )
        dtype = np.dtype(TYPES[code])
        lengths = np.frombuffer(index, "<i4", documents, start).astype(np.int64)
        pointers = np.frombuffer(index, "<i8", documents, start + 4 * documents)
        ends = pointers + lengths * dtype.itemsize
        if (
            (lengths < 0).any()
            or (pointers < 0).any()
            or (pointers % dtype.itemsize).any()
            or (ends > len(data)).any()
        ):
            raise DataError(
                f"{name}: expected documents inside of the {len(data)} bytes of the other file, got lengths from"
                f" {lengths.min()} and ends up to {ends.max()}"
            )
        usable = len(data) // dtype.itemsize * dtype.itemsize
        return lengths, pointers // dtype.itemsize, data[:usable].view(dtype)


class Samples:
    """The samples of a share of the documents."""

    def __init__(
        self, documents: Documents, *, seq_length: int, label_length: int, num_samples: int,
        split_sizes: Sequence[int], split_index: int, shuffle: bool, random_seed: int, **_: Any,
    ) -> None:  # fmt: skip
        self.documents, self.seq_length, self.length = documents, seq_length, seq_length + label_length
        share = _share(len(documents.lengths), split_sizes, split_index)
        per_epoch = int(documents.lengths[share].sum())
        if not per_epoch:
            raise DataError(
                f"expected tokens in part {split_index} of the documents, got {len(share)} documents of none"
            )
        epochs = math.ceil((num_samples * seq_length + label_length) / per_epoch)
        self.count = (epochs * per_epoch - label_length) // seq_length
        full_epochs = _complete_epochs(epochs, num_samples, seq_length, label_length, per_epoch)
        drawn = np.random.default_rng(random_seed % 2**64) if shuffle else None
        self.order = _joined([np.tile(share, full_epochs), np.tile(share, epochs - full_epochs)], drawn)
        first = (full_epochs * per_epoch - label_length) // seq_length
        self.sample_order = _joined([np.arange(first), np.arange(first, self.count)], drawn)
        self.ends = np.cumsum(documents.lengths[self.order])

    def __getitem__(self, index: int) -> np.ndarray:
        """The tokens of a sample.

        Raises:
            DataError: there are fewer samples.
        """
        if not 0 <= index < self.count:
            raise DataError(f"expected the index of one of {self.count} samples, got {index}; see num_samples")
        at = int(self.sample_order[index]) * self.seq_length
        document_index = int(np.searchsorted(self.ends, at, "right"))
        parts, missing = [], self.length
        while missing:
            document = self.order[document_index]
            behind = int(self.ends[document_index]) - at
            begin = int(self.documents.begins[document]) + int(self.documents.lengths[document]) - behind
            parts.append(self.documents.tokens[begin : begin + min(behind, missing)])
            missing, at, document_index = missing - len(parts[-1]), at + len(parts[-1]), document_index + 1
        return np.concatenate(parts)


def _share(documents: int, sizes: Sequence[int], index: int) -> np.ndarray:
    """The documents of a part, whose sizes are shares of all; halves are rounded to even."""
    counts = [round(documents * size / sum(sizes)) for size in sizes[: index + 1]]
    begin = sum(counts[:-1])
    return np.arange(begin, min(begin + counts[-1], documents))


def _complete_epochs(epochs: int, samples: int, seq_length: int, label_length: int, per_epoch: int) -> int:
    """How many epochs are shuffled together: all, or all but the last if few of its samples are needed."""
    if epochs == 1:
        return 1
    before = ((epochs - 1) * per_epoch - label_length) // seq_length
    in_epoch = (per_epoch - label_length) // seq_length
    return epochs - 1 if samples - before < WHOLE_EPOCH * in_epoch else epochs


def _joined(parts: list[np.ndarray], drawn: np.random.Generator | None) -> np.ndarray:
    """Parts one after the other, each in an order that is drawn."""
    return np.concatenate([part if drawn is None else drawn.permutation(part) for part in parts])
