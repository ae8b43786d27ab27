"""CUDA streams and their memory: the shared workspace, the caching allocator, borrowed memory of other libraries.

    with using(Stream(device)):
        f(x)

The work of a stream runs in order. `using` makes a stream the current one of a thread; otherwise the device's default
stream is current. All programs on a stream share one workspace, since they run one after the other.

Freeing device memory costs time on the device, so freed memory is cached: a stream caches blocks for results of later
programs, and a program caches blocks for its own results (`ResultPool`). When the device is out of memory, all cached
blocks are freed first; workspaces stay. Memory borrowed from other libraries is released once the stream has used it.
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

#: The most bytes of freed memory that a stream caches.
MAX_CACHED_BYTES = 256 << 20
#: The most free blocks that the pool of one result holds.
MAX_FREE_BLOCKS = 2

#: Guards the sets of all streams and of all result pools.
_registry_lock = threading.Lock()
_registry: weakref.WeakSet[Stream] = weakref.WeakSet()
_current: ContextVar[Stream | None] = ContextVar("oneflow_cuda_stream", default=None)


class Stream:
    """A stream of a device. A caller holds `lock` while it enqueues work that uses the workspace."""

    def __init__(self, device: driver.Device) -> None:
        device.use()
        self.device, self.handle, self.lock = device, driver.make_stream(), threading.RLock()
        self._workspace, self._workspace_bytes = 0, 0
        # Free blocks by size, the oldest size first. Arrays are freed in any thread, during any other work.
        self._cache: dict[int, list[int]] = {}
        self.max_cached_bytes = MAX_CACHED_BYTES
        self._cached_bytes, self._cache_lock = 0, threading.RLock()
        self._borrowed, self._free_events = deque[tuple[Any, Any]](), list[Any]()
        with _registry_lock:
            _registry.add(self)

    def synchronize(self) -> None:
        """Waits until the work of this stream is done."""
        self.device.use()
        driver.synchronize(self.handle)
        self.release_completed()

    def wait_for(self, handle: Any) -> None:
        """Makes later work of this stream wait for all work that the stream `handle` has so far."""
        if int(handle) != int(self.handle):
            driver.wait_stream(handle, self.handle)

    def workspace(self, size: int) -> int:
        """Memory of at least `size` bytes that programs on this stream share."""
        if size > self._workspace_bytes:
            old, self._workspace, self._workspace_bytes = self._workspace, 0, 0
            if old:
                driver.free(old, self.handle)
            self._workspace, self._workspace_bytes = self.allocate(size), size
        return self._workspace

    def allocate(self, size: int) -> int:
        """Newly allocated memory. If the allocation fails, cached blocks are freed and the allocation is repeated.

        Raises:
            OutOfMemoryError: the device has less memory.
        """
        try:
            return driver.allocate(size, self.handle)
        except driver.OutOfMemoryError:
            clear_result_pools(self.device)
            free_cached(self.device)
            # Memory freed on other streams is available once these streams have reached the free.
            driver.synchronize_context()
            return driver.allocate(size, self.handle)

    def cached_bytes(self) -> int:
        """The bytes of freed memory that this stream caches."""
        return self._cached_bytes

    def take_cached(self, size: int) -> int | None:
        """A cached block of exactly `size` bytes; None if there is none."""
        with self._cache_lock:
            blocks = self._cache.get(size)
            if blocks is None:
                return None
            address = blocks.pop()
            if not blocks:
                del self._cache[size]
            self._cached_bytes -= size
            return address

    def cache_if_space(self, address: int, size: int) -> bool:
        """Caches a block that only work of this stream uses, if no other block has to be freed for it."""
        with self._cache_lock:
            if self._cached_bytes + size > self.max_cached_bytes:
                return False
            self._cache.setdefault(size, []).append(address)
            self._cached_bytes += size
            return True

    def cache(self, address: int, size: int, driver: Any = driver) -> None:
        """Caches a block that only work of this stream uses, for later work of this stream.

        The oldest blocks are freed when the cache exceeds `max_cached_bytes`. A larger block is freed at once.
        """
        if size > self.max_cached_bytes:
            driver.free(address, self.handle)
            return
        with self._cache_lock:
            while not self.cache_if_space(address, size):
                self._evict_oldest(driver)

    def free_cached(self, driver: Any = driver) -> None:
        """Frees all cached blocks."""
        with self._cache_lock:
            while self._cache:
                self._evict_oldest(driver)

    def _evict_oldest(self, driver: Any) -> None:
        """Frees the oldest cached block."""
        driver.free(self.take_cached(next(iter(self._cache))), self.handle)

    @property
    def has_borrowed(self) -> bool:
        """Whether borrowed memory has not been released yet."""
        return bool(self._borrowed)

    def release_after_use(self, owner: Any, driver: Any = driver) -> None:
        """Drops `owner`, which holds memory of another library, once the stream has done all work it has so far."""
        event = self._free_events.pop() if self._free_events else driver.make_event()
        driver.record_event(event, self.handle)
        self._borrowed.append((event, owner))
        self.release_completed(driver)

    def release_completed(self, driver: Any = driver) -> None:
        """Drops the owners of borrowed memory that the stream has finished using."""
        with contextlib.suppress(IndexError):  # another thread does the same
            while self._borrowed:
                event, owner = self._borrowed.popleft()
                if not driver.is_event_complete(event):
                    self._borrowed.appendleft((event, owner))
                    return
                self._free_events.append(event)

    def trim(self) -> None:
        """Frees the workspace (the next program allocates it again) and all cached blocks."""
        with self.lock:
            self._free_all(driver)

    def _free_all(self, driver: Any) -> None:
        self.free_cached(driver)
        if self._workspace:
            driver.free(self._workspace, self.handle)
        self._workspace, self._workspace_bytes = 0, 0

    def __del__(self, driver: Any = driver, at_exit: Any = driver.AT_EXIT) -> None:
        try:
            with driver.current_context(self.device.context):
                self._free_all(driver)
        except at_exit:
            return

    def __repr__(self) -> str:
        return f"Stream({self.device})"


def _streams_of(device: driver.Device) -> list[Stream]:
    """The streams of a device."""
    with _registry_lock:
        return [stream for stream in _registry if stream.device is device]


def synchronize(device: driver.Device) -> None:
    """Waits until all work on a device is done."""
    device.use()
    driver.synchronize_context()
    for stream in _streams_of(device):
        stream.release_completed()


@atexit.register
def release_all_borrowed() -> None:
    """Releases all borrowed memory before the process ends, while the libraries that own the memory still work."""
    with _registry_lock:
        borrowing = [stream for stream in _registry if stream.has_borrowed]
    for stream in borrowing:
        with contextlib.suppress(driver.CudaError):
            stream.synchronize()


def cached_bytes(device: driver.Device) -> int:
    """The bytes of freed memory that the streams and programs of a device cache."""
    pooled = sum(pool.size * len(pool.addresses) for pool in _result_pools(device))
    return pooled + sum(stream.cached_bytes() for stream in _streams_of(device))


def free_cached(device: driver.Device) -> None:
    """Frees the cached blocks of all streams of a device."""
    with driver.current_context(device.context):
        for stream in _streams_of(device):
            stream.free_cached()


def trim(device: driver.Device) -> None:
    """Frees the workspaces and cached blocks of all streams of a device."""
    with driver.current_context(device.context):
        for stream in _streams_of(device):
            stream.trim()


class ResultPool:
    """Free blocks of `size` bytes for one result of a program, for its next runs on one stream.

    A run that gets an address of an earlier run needs neither an allocation nor another graph.
    """

    __slots__ = ("__weakref__", "addresses", "size", "stream")
    known: weakref.WeakSet[ResultPool] = weakref.WeakSet()

    def __init__(self, stream: Stream, size: int) -> None:
        self.stream, self.size, self.addresses = stream, size, list[int]()
        with _registry_lock:
            self.known.add(self)

    def take(self) -> int | None:
        """A free block; None if no block is free. Another thread may clear the pool at the same time."""
        try:
            return self.addresses.pop()
        except IndexError:
            return None

    def clear(self, driver: Any = driver) -> None:
        """Frees all blocks of the pool."""
        with driver.current_context(self.stream.device.context):
            while (address := self.take()) is not None:
                driver.free(address, self.stream.handle)

    def __del__(self, driver: Any = driver, at_exit: Any = driver.AT_EXIT) -> None:
        try:
            self.clear(driver)
        except at_exit:
            return


def _result_pools(device: driver.Device) -> list[ResultPool]:
    """The result pools of all programs on a device."""
    with _registry_lock:
        return [pool for pool in ResultPool.known if pool.stream.device is device]


def clear_result_pools(device: driver.Device) -> None:
    """Frees the free blocks of all result pools on a device."""
    for pool in _result_pools(device):
        pool.clear()


@functools.cache
def default(device: driver.Device) -> Stream:
    """The default stream of a device."""
    return Stream(device)


def current(device: driver.Device) -> Stream:
    """The current stream of a device in this thread."""
    chosen = _current.get()
    return chosen if chosen is not None and chosen.device is device else default(device)


@contextlib.contextmanager
def using(stream: Stream) -> Iterator[Stream]:
    """Makes a stream the current one of its device."""
    token = _current.set(stream)
    try:
        yield stream
    finally:
        _current.reset(token)
