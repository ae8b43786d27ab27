"""Streams: work of one is done in order; `using` makes one the present stream of a thread.

    with using(Stream(device)):
        f(x)

Every device has a stream of its own that is used otherwise. A stream has one workspace, which all programs on it
share: they run one after the other. It keeps memory that results had for those of later programs, and programs keep
that of theirs (`Spares`): to free some takes the device more than half a microsecond. Where memory runs out all that
is given back first; workspaces stay. What other libraries lent goes back when the stream has used it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from oneflow.runtime.cuda import driver

#: The bytes of arrays given up that a stream keeps at most.
KEPT = 256 << 20
#: Addresses that one result keeps for the runs that follow.
SPARE = 2

#: Every stream there is; threads make them and spares, and look at all, in turn.
_naming = threading.Lock()
_known: weakref.WeakSet[Stream] = weakref.WeakSet()
_current: ContextVar[Stream | None] = ContextVar("oneflow_cuda_stream", default=None)


class Stream:
    """A stream of a device. Hold its `lock` while you give it work that shares the workspace."""

    def __init__(self, device: driver.Device) -> None:
        device.use()
        self.device, self.handle, self.lock = device, driver.make_stream(), threading.RLock()
        self._workspace, self._size = 0, 0
        # By size, that which has been there for longest first. Arrays are freed in any thread, amid other work.
        self._kept: dict[int, list[int]] = {}
        self._held, self._keeping = 0, threading.RLock()
        self._borrowed, self._events = deque[tuple[Any, Any]](), list[Any]()
        with _naming:
            _known.add(self)

    def synchronize(self) -> None:
        """Waits until its work is done."""
        self.device.use()
        driver.synchronize(self.handle)
        self.settle()

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
            self._workspace, self._size = self.allocate(size), size
        return self._workspace

    def allocate(self, size: int) -> int:
        """New memory, if need be after what is kept for later has been given back.

        Raises:
            OutOfMemoryError: the device has less memory.
        """
        try:
            return driver.allocate(size, self.handle)
        except driver.OutOfMemoryError:
            clear_spares(self.device)
            free_kept(self.device)
            driver.wait()  # other streams have not given it back before they get there
            return driver.allocate(size, self.handle)

    def held(self) -> int:
        """The bytes of memory given up that are kept."""
        return self._held

    def take(self, size: int) -> int | None:
        """Memory of `size` bytes that was left here, if there is some."""
        with self._keeping:
            kept = self._kept.get(size)
            if kept is None:
                return None
            address = kept.pop()
            if not kept:
                del self._kept[size]
            self._held -= size
            return address

    def leave(self, address: int, size: int, driver: Any = driver) -> None:
        """Keeps memory that only work given to this stream uses, for what comes next on it. Where all is too much,
        what has been kept for longest goes, and what is too much by itself is not kept.
        """
        if size > KEPT:
            driver.free(address, self.handle)
            return
        with self._keeping:
            while self._held + size > KEPT:
                self._free_first(driver)
            self._kept.setdefault(size, []).append(address)
            self._held += size

    def free_kept(self, driver: Any = driver) -> None:
        """Frees what is kept."""
        with self._keeping:
            while self._kept:
                self._free_first(driver)

    def _free_first(self, driver: Any) -> None:
        """Frees what has been kept for longest."""
        driver.free(self.take(next(iter(self._kept))), self.handle)

    @property
    def borrows(self) -> bool:
        """Whether something that was lent has not gone back yet."""
        return bool(self._borrowed)

    def give_back(self, lent: Any, driver: Any = driver) -> None:
        """Lets go of what holds memory of another library, when the stream has done what it was given."""
        event = self._events.pop() if self._events else driver.make_event()
        driver.record(event, self.handle)
        self._borrowed.append((event, lent))
        self.settle(driver)

    def settle(self, driver: Any = driver) -> None:
        """Lets go of what was lent and has been used."""
        with contextlib.suppress(IndexError):  # another thread does the same
            while self._borrowed:
                event, lent = self._borrowed.popleft()
                if not driver.has_passed(event):
                    self._borrowed.appendleft((event, lent))
                    return
                self._events.append(event)

    def trim(self) -> None:
        """Frees the workspace until it is needed again, and what is kept."""
        with self.lock:
            self._free_all(driver)

    def _free_all(self, driver: Any) -> None:
        self.free_kept(driver)
        if self._workspace:
            driver.free(self._workspace, self.handle)
        self._workspace, self._size = 0, 0

    def __del__(self, driver: Any = driver) -> None:
        try:
            with driver.within(self.device.context):
                self._free_all(driver)
        except (driver.CudaError, TypeError, AttributeError):
            return

    def __repr__(self) -> str:
        return f"Stream({self.device})"


def _streams(device: driver.Device) -> list[Stream]:
    """Those of a device."""
    with _naming:
        return [stream for stream in _known if stream.device is device]


def synchronize(device: driver.Device) -> None:
    """Waits until everything on a device is done."""
    device.use()
    driver.wait()
    for stream in _streams(device):
        stream.settle()


@atexit.register
def give_all_back() -> None:
    """Lets go of what is lent, before the process ends and with it the libraries whose memory that is."""
    with _naming:
        borrowing = [stream for stream in _known if stream.borrows]
    for stream in borrowing:
        with contextlib.suppress(driver.CudaError):
            stream.synchronize()


def kept(device: driver.Device) -> int:
    """The bytes of memory given up that streams of a device, and programs on it, keep."""
    spares = sum(spares.size * len(spares.addresses) for spares in _spares(device))
    return spares + sum(stream.held() for stream in _streams(device))


def free_kept(device: driver.Device) -> None:
    """Frees what streams of a device keep."""
    with driver.within(device.context):
        for stream in _streams(device):
            stream.free_kept()


def trim(device: driver.Device) -> None:
    """Frees the workspaces of streams of a device until they are needed again, and what the streams keep."""
    with driver.within(device.context):
        for stream in _streams(device):
            stream.trim()


class Spares:
    """Memory of one result of a program that nobody holds any more, for its next runs on a stream; `size` bytes each.

    Where addresses come again, runs need no other graph and no allocation.
    """

    __slots__ = ("__weakref__", "addresses", "size", "stream")
    known: weakref.WeakSet[Spares] = weakref.WeakSet()

    def __init__(self, stream: Stream, size: int) -> None:
        self.stream, self.size, self.addresses = stream, size, list[int]()
        with _naming:
            self.known.add(self)

    def take(self) -> int | None:
        """Memory for a result, if there is some: threads that run out of memory clear it meanwhile."""
        try:
            return self.addresses.pop()
        except IndexError:
            return None

    def clear(self, driver: Any = driver) -> None:
        """Gives the memory back to the device."""
        with driver.within(self.stream.device.context):
            while (address := self.take()) is not None:
                driver.free(address, self.stream.handle)

    def __del__(self, driver: Any = driver) -> None:
        try:
            self.clear(driver)
        except (driver.CudaError, AttributeError, TypeError):
            return


def _spares(device: driver.Device) -> list[Spares]:
    """Those of programs on a device."""
    with _naming:
        return [spares for spares in Spares.known if spares.stream.device is device]


def clear_spares(device: driver.Device) -> None:
    """Gives memory that programs on a device keep for results of their next runs back to it."""
    for spares in _spares(device):
        spares.clear()


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
