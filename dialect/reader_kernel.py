"""Kernels that read files, one batch in each run: the `kernel` slot of a reader.

    kernel = reader_kernel(batches)

`batches(**attrs)` is an infinite generator of batches. Each loaded call has a separate generator, which holds the
position in the data; files are opened in the first run. A reader has side effects: calls are not removed, merged or
reordered.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.external import ExternalKernel, as_array, python_kernel
from oneflow.dialect.numpy_kernel import DataError
from oneflow.dialect.record import Call

Batch = tuple[np.ndarray, ...]
Batches = Callable[..., Iterator[Batch]]
#: The attributes that select a device's part of a batch.
AXIS_SHARD = "logical_size: int64 = 0, logical_begin: int64 = 0"


class Position:
    """The position of a reader in the data. Several threads may read."""

    def __init__(self, batches: Batches, attrs: dict[str, Any]) -> None:
        self._open: Callable[[], Iterator[Batch]] = functools.partial(batches, **attrs)
        self._batches: Iterator[Batch] | None = None
        self._failure: Exception | None = None
        self._reading = threading.Lock()

    def read(self) -> Batch:
        """The next batch.

        Raises:
            DataError: the data cannot be read, or could not be before.
        """
        with self._reading:
            if self._failure is not None:
                raise self._failure
            try:
                self._batches = self._batches or self._open()
                return next(self._batches)
            except (OSError, ValueError) as error:
                self._failure = error if isinstance(error, DataError) else DataError(str(error))
                raise self._failure from None


@dataclass(frozen=True)
class ReaderKernel:
    """A kernel that gives a batch in each run; see the module's text."""

    batches: Batches

    def __call__(self, op: Call) -> ExternalKernel:
        """The external kernel of a call, at the start of the data."""
        position, descs = Position(self.batches, op.attrs), list(op.results)

        def run(buffers: Any, stream: Any) -> None:
            for i, (array, desc) in enumerate(zip(position.read(), descs, strict=True)):
                as_array(buffers[i], desc)[...] = array

        return python_kernel(run)


def reader_kernel(batches: Batches) -> ReaderKernel:
    """A generator of batches as the kernel of a reader; see `ReaderKernel`."""
    return ReaderKernel(batches)


def first_batch(batches: Batches) -> Callable[..., Batch]:
    """The reference of a reader: the first batch."""

    def reference(**attrs: Any) -> Batch:
        return next(iter(batches(**attrs)))

    return reference


def whole_batch(attrs: dict[str, Any]) -> int:
    """The number of items in a batch of all devices."""
    size: int = attrs["logical_size"] or attrs["batch_size"]
    return size


def local_items(items: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """The items of a batch that a device keeps."""
    begin: int = attrs["logical_begin"]
    return items[begin : begin + attrs["batch_size"]]
