"""Streams: work of one is done in order; `using` makes one the present stream of a thread.

    with using(Stream(device)):
        f(x)

Every device has a stream of its own that is used otherwise. A stream has one workspace, which all programs on it
share: they run one after the other. Imports `driver`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from oneflow.runtime.cuda import driver

_current: ContextVar[Stream | None] = ContextVar("oneflow_cuda_stream", default=None)


class Stream:
    """A stream of a device. Hold its `lock` while you give it work that shares the workspace."""

    def __init__(self, device: driver.Device) -> None:
        device.use()
        self.device, self.handle, self.lock = device, driver.make_stream(), threading.RLock()
        self._workspace, self._size = 0, 0

    def synchronize(self) -> None:
        """Waits until its work is done."""
        self.device.use()
        driver.synchronize(self.handle)

    def wait_for(self, handle: Any) -> None:
        """What it is given from here on waits for what another stream has been given."""
        if int(handle) != int(self.handle):
            driver.order(handle, self.handle)

    def workspace(self, size: int) -> int:
        """Memory of at least `size` bytes that programs on this stream share."""
        if size > self._size:
            old, self._workspace, self._size = self._workspace, 0, 0
            if old:
                driver.free(old, self.handle)
            self._workspace, self._size = driver.allocate(size, self.handle), size
        return self._workspace

    def trim(self) -> None:
        """Frees the workspace until it is needed again."""
        with self.lock:
            if self._workspace:
                driver.free(self._workspace, self.handle)
            self._workspace, self._size = 0, 0

    def __repr__(self) -> str:
        return f"Stream({self.device})"


@functools.cache
def default(device: driver.Device) -> Stream:
    """The stream of a device that is used where none was chosen."""
    return Stream(device)


def current(device: driver.Device) -> Stream:
    """The stream that work for a device goes to in this thread."""
    chosen = _current.get()
    return chosen if chosen is not None and chosen.device is device else default(device)


@contextlib.contextmanager
def using(stream: Stream) -> Iterator[Stream]:
    """Makes a stream the present one for its device."""
    token = _current.set(stream)
    try:
        yield stream
    finally:
        _current.reset(token)
