"""Sequences of different lengths as one tensor: padded to one length, or packed step by step (`PackedSequence`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """The elements of sequences in descending order of lengths: step 0 of all, step 1 of all that have a step 1, and
    so on.

    `batch_sizes` is the number of sequences at each step. `sorted_indices` is the order of the sequences in a batch
    that was not sorted by length, and `unsorted_indices` its inverse; None for a sorted batch.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the elements converted or moved, as a tensor is."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cuda(self, index: int = 0) -> PackedSequence:
        """With the elements on a CUDA device."""
        return self._replace(data=self.data.cuda(index))

    def cpu(self) -> PackedSequence:
        """With the elements on the host."""
        return self._replace(data=self.data.cpu())

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return bool(self.data.is_cuda)


def _rows(x: Any, positions: np.ndarray) -> Any:
    return dispatch("gather", x, as_tensor(positions), axis=0)


def _counts(lengths: np.ndarray) -> np.ndarray:
    """How many sequences, in descending order of lengths, have each step."""
    counts: np.ndarray = (lengths[None, :] > np.arange(lengths.max())[:, None]).sum(1)
    return counts


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences `(length, batch, ..)`, or `(batch, length, ..)` with `batch_first`, packed.

    `lengths` are the lengths of the sequences, in descending order with `enforce_sorted`.

    Raises:
        OneFlowError: the lengths are not lengths of such a batch.
    """
    x = F.transpose(as_tensor(input), 0, 1) if batch_first else as_tensor(input)
    sizes = np.asarray(lengths, np.int64)
    steps, batch = x.shape[:2]
    if sizes.shape != (batch,) or not sizes.size or sizes.min() < 1 or sizes.max() > steps:
        raise fail(f"expected {batch} lengths in [1, {steps}], got {sizes.tolist()}")
    if enforce_sorted and (np.diff(sizes) > 0).any():
        raise fail(f"expected lengths that fall, got {sizes.tolist()}; write enforce_sorted=False")
    order = np.arange(batch) if enforce_sorted else np.argsort(-sizes, kind="stable")
    counts = _counts(sizes[order])
    positions = np.concatenate([step * batch + order[:count] for step, count in enumerate(counts)])
    data = _rows(F.reshape(x, (steps * batch, *x.sizes()[2:])), positions)
    orders = () if enforce_sorted else (as_tensor(order), as_tensor(np.argsort(order)))
    return PackedSequence(data, as_tensor(counts), *orders)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Packed sequences padded to the longest, or to `total_length`, and their lengths (int64).

    Raises:
        OneFlowError: `total_length` is less than the longest.
    """
    counts = np.asarray(sequence.batch_sizes)
    batch, longest = int(counts[0]), len(counts)
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise fail(f"expected total_length of at least {longest}, the longest length, got {total_length}")
    order = np.arange(batch) if sequence.unsorted_indices is None else np.asarray(sequence.unsorted_indices)
    count, data = int(counts.sum()), sequence.data
    positions = np.full((steps, batch), count)
    for step, start in enumerate(np.cumsum(counts) - counts):
        positions[step, : counts[step]] = start + np.arange(counts[step])
    padded = F.cat([data, F.full((1, *data.sizes()[1:]), padding_value, dtype=data.dtype)])
    x = _rows(padded, positions[:, order])
    lengths = (counts[:, None] > np.arange(batch)[None, :]).sum(0)[order]
    return F.transpose(x, 0, 1) if batch_first else x, as_tensor(lengths)


def pad_sequence(sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0) -> Any:
    """Sequences `(length, ..)` as one tensor `(longest, batch, ..)`, or `(batch, longest, ..)` with `batch_first`.

    Raises:
        OneFlowError: there are no sequences.
    """
    tensors = [as_tensor(x) for x in sequences]
    if not tensors:
        raise fail("expected at least one sequence to pad, got none")
    longest = max(x.shape[0] for x in tensors)
    ends = [F.full((longest - x.shape[0], *x.sizes()[1:]), padding_value, dtype=x.dtype) for x in tensors]
    padded = [F.cat([x, end]) if end.shape[0] else x for x, end in zip(tensors, ends, strict=True)]
    return F.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded batch, each of its length."""
    x = as_tensor(padded_sequences) if batch_first else F.transpose(as_tensor(padded_sequences), 0, 1)
    sizes = np.asarray(lengths).tolist()
    return [F.narrow(F.select(x, 0, i), 0, 0, size) for i, size in enumerate(sizes)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences `(length, ..)` packed; with `enforce_sorted` their lengths are in descending order."""
    lengths = [as_tensor(x).shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
