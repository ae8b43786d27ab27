"""Arrays on a device: results of programs, and memory of other libraries without a copy.

    x = from_other(torch_tensor)      y = torch.from_dlpack(device_array)      CudaArray.of(numpy_array, device)

An array knows the stream that computes its values. Using the array on another stream makes that stream wait.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.runtime import dlpack
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.stream import MAX_FREE_BLOCKS, ResultPool, Stream, current
from oneflow.runtime.device_array import DeviceArray


class Owner:
    """The owner of device memory: the stream on which the memory is freed, and the other streams that used it."""

    __slots__ = ("__weakref__", "stream", "users")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.users: set[int] = set()

    def _wait_for_users(self, driver: Any) -> None:
        """Makes later work of the owning stream wait for the work that the other users have so far."""
        for user in self.users:
            driver.wait_stream(user, self.stream.handle)


class Memory(Owner):
    """Device memory of this package. The memory is freed with its last array, after the work of all streams that used
    it.

    With a `pool`, the memory is taken from the pool and returned to it. `is_recyclable` memory, such as the memory of
    results, is cached by the stream instead of freed.
    """

    __slots__ = ("address", "is_recyclable", "pool", "size")

    def __init__(
        self, size: int, stream: Stream, pool: ResultPool | None = None, is_recyclable: bool = False
    ) -> None:
        self.stream, self.size, self.pool, self.is_recyclable = stream, size, pool, is_recyclable
        self.users = set()  # `Owner` inlined, as every result has new memory
        pooled = None if pool is None else pool.take()
        cached = stream.take_cached(size) if pooled is None and is_recyclable else None
        self.address = pooled or cached or stream.allocate(size)

    def __del__(self, driver: Any = driver, at_exit: Any = driver.AT_EXIT) -> None:
        try:
            pool = self.pool if self.pool is not None and len(self.pool.addresses) < MAX_FREE_BLOCKS else None
            # Most results of eager mode take this path, which calls no driver function.
            is_plain = pool is None and self.is_recyclable and not self.users
            if is_plain and self.stream.cache_if_space(self.address, self.size):
                return
            if self.users or pool is None:
                with driver.current_context(self.stream.device.context):
                    self._free(driver, pool is None)
            if pool is not None:
                pool.addresses.append(self.address)
        except at_exit:
            return

    def _free(self, driver: Any, leaves_pool: bool) -> None:
        self._wait_for_users(driver)
        if leaves_pool:
            if self.is_recyclable:
                self.stream.cache(self.address, self.size, driver)
            else:
                driver.free(self.address, self.stream.handle)


class BorrowedMemory(Owner):
    """Memory of another library, kept alive by `holder` until the work of all streams that used it is done."""

    __slots__ = ("holder",)

    def __init__(self, holder: Any, stream: Stream) -> None:
        super().__init__(stream)
        self.holder = holder
        stream.release_completed()

    def __del__(self, driver: Any = driver, at_exit: Any = driver.AT_EXIT) -> None:
        try:
            with driver.current_context(self.stream.device.context):
                self._wait_for_users(driver)
                self.stream.release_after_use(self.holder, driver)
        except at_exit:
            return


class CudaArray(DeviceArray):
    """A contiguous array on a CUDA device.

    Attributes:
        owner: keeps its memory alive.
        check: called before values are copied to the host; raises the failures of the program that computes them.
    """

    __slots__ = ("__weakref__", "address", "check", "dtype", "owner", "shape", "stream")

    stream: Stream

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], dtype: DType, stream: Stream,
                 check: Callable[[], None] | None = None) -> None:  # fmt: skip
        self.owner, self.address, self.shape, self.dtype = owner, address, shape, dtype
        self.stream, self.check = stream, check

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType, stream: Stream) -> CudaArray:
        """An uninitialized array.

        Raises:
            OutOfMemoryError: the device has less memory.
        """
        memory = Memory(math.prod(shape) * dtype.numpy.itemsize, stream)
        return CudaArray(memory, memory.address, shape, dtype, stream)

    @staticmethod
    def of(array: np.ndarray, device: driver.Device) -> CudaArray:
        """A copy of a host array. If the array repeats one element (`np.broadcast_to`), only that element is copied.

        Raises:
            OutOfMemoryError: the device has less memory.
        """
        stream = current(device)
        device.use()
        if array.size > 1 and not any(array.strides):
            return CudaArray._broadcast(array, stream)
        array = np.require(array, array.dtype.newbyteorder("="), ("C", "A"))
        result = CudaArray.empty(array.shape, dtypes.from_numpy(array.dtype), stream)
        if array.size:
            driver.copy_to_device(result.address, array.ctypes.data, array.nbytes, stream.handle)
        return result

    @staticmethod
    def _broadcast(array: np.ndarray, stream: Stream) -> CudaArray:
        """An array filled with the first element of a host array."""
        result = CudaArray.empty(array.shape, dtypes.from_numpy(array.dtype), stream)
        element = np.require(array[(slice(1),) * array.ndim], array.dtype.newbyteorder("="), "C").tobytes()
        for at in range(0, len(element), 4):
            driver.fill(result.address + at, element[at : at + 4], array.size, len(element), stream.handle)
        return result

    @property
    def device(self) -> driver.Device:
        """The device of this array."""
        return self.stream.device

    def use_on(self, stream: Stream) -> None:
        """Lets a stream other than the one that computes the values read and write them."""
        if stream is not self.stream:
            stream.wait_for(self.stream.handle)
            self._add_user(stream.handle)

    def _add_user(self, handle: Any) -> None:
        if isinstance(self.owner, Owner):
            self.owner.users.add(int(handle))

    def numpy(self) -> np.ndarray:
        """A copy on the host, after the stream has computed the values.

        Raises:
            OutOfBoundsError: the program that computes the array read an index out of bounds.
        """
        self.device.use()
        result = np.empty(self.shape, self.dtype.numpy)
        if result.size:
            driver.copy_to_host(result.ctypes.data, self.address, result.nbytes, self.stream.handle)
        driver.synchronize(self.stream.handle)
        if self.check is not None:
            self.check()
        return result

    def copy(self) -> CudaArray:
        """A copy on the same device."""
        self.device.use()
        result = CudaArray.empty(self.shape, self.dtype, self.stream)
        result.check = self.check
        result.take(self)
        return result

    def take(self, other: DeviceArray | np.ndarray) -> None:
        """Overwrites the elements with the elements of `other`, an array of the same dtype and size on any device or
        host.
        """
        self.device.use()
        if not isinstance(other, CudaArray) or other.device is not self.device:
            host = np.ascontiguousarray(other if isinstance(other, np.ndarray) else other.numpy())
            if host.size:
                driver.copy_to_device(self.address, host.ctypes.data, host.nbytes, self.stream.handle)
            return
        other.use_on(self.stream)
        self.check = other.check
        if self.size and self.address != other.address:
            driver.copy(self.address, other.address, self.nbytes, self.stream.handle)

    def to(self, device: driver.Device) -> CudaArray:
        """The array itself if the array is on `device`, otherwise a copy on `device`."""
        return self if device is self.device else CudaArray.of(self.numpy(), device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = self.dtype.numpy
        typestr = kind.str if kind.kind != "V" else f"<V{kind.itemsize}"
        return {"shape": self.shape, "typestr": typestr, "data": (self.address if self.size else 0, False),
                "version": 3, "strides": None, "stream": int(self.stream.handle)}  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device.ordinal

    def __dlpack__(self, *, stream: int | None = None, max_version: Any = None, dl_device: Any = None,
                   copy: bool | None = None) -> Any:  # fmt: skip
        """A DLPack capsule; `stream` (None: the legacy stream, -1: no stream) waits for the values."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"expected dl_device {self.__dlpack_device__()}, got {tuple(dl_device)}")
        exported = self.copy() if copy else self
        if stream != -1:
            exported.device.use()
            handle = driver.LEGACY if stream is None else stream
            driver.wait_stream(exported.stream.handle, handle)
            exported._add_user(handle)
        return dlpack.export(exported, exported.address, exported.shape, exported.dtype, exported.__dlpack_device__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("expected copy to be None or True: the array is on a device")
        result = self.numpy()
        return result if dtype is None else result.astype(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no len()")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"CudaArray({self.dtype.name}, shape={self.shape}, device={self.device})"


def is_on_device(value: Any) -> bool:
    """Whether `value` is an array on a CUDA device, of this package or of another library."""
    if isinstance(value, CudaArray):
        return True
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    device_of = getattr(value, "__dlpack_device__", None)
    if device_of is not None:
        return int(device_of()[0]) in (dlpack.CUDA, dlpack.MANAGED)
    return hasattr(value, "__cuda_array_interface__")


def from_other(value: Any) -> CudaArray:
    """An array of any library as a `CudaArray`, in the same memory; a copy if the elements are not contiguous.

    The current stream waits for the stream of the other library.

    Raises:
        TypeError: the element type is not supported.
        ValueError: PyTorch is capturing a CUDA graph.
    """
    if isinstance(value, CudaArray):
        return value
    return _from_dlpack(value) if hasattr(value, "__dlpack__") else _from_interface(value)


def _from_dlpack(value: Any) -> CudaArray:
    torch = sys.modules.get("torch")
    # A program does more than launch kernels: that would end the capture and leave PyTorch's generator inside it.
    # A build of PyTorch without CUDA refuses the question for a capture.
    if torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise ValueError("expected no capture of a CUDA graph by PyTorch; a compiled function is graphs of its own, "
                         "call it outside of the capture")  # fmt: skip
    device = driver.device(int(value.__dlpack_device__()[1]))
    stream = current(device)
    imported = dlpack.ImportedTensor(value.__dlpack__(stream=int(stream.handle)))
    if imported.strides is not None:
        kind = imported.dtype.numpy
        return _copy_strided(
            imported.address, imported.shape, [s * kind.itemsize for s in imported.strides], kind, stream
        )
    return CudaArray(BorrowedMemory(imported, stream), imported.address, imported.shape, imported.dtype, stream)


def _from_interface(value: Any) -> CudaArray:
    interface = value.__cuda_array_interface__
    kind, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    dense = tuple(kind.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    strides = interface.get("strides") or dense
    address = int(interface["data"][0])
    stream = current(driver.device(driver.device_of(address) if address else 0))
    if interface.get("stream") is not None:
        stream.device.use()
        stream.wait_for(interface["stream"])
    if strides != dense and 0 not in shape:
        return _copy_strided(address, shape, strides, kind, stream)
    return CudaArray(BorrowedMemory(value, stream), address, shape, dtypes.from_numpy(kind), stream)


def _copy_strided(
    address: int, shape: Sequence[int], strides: Sequence[int], kind: np.dtype, stream: Stream
) -> CudaArray:
    """A contiguous copy, made on the host, of elements that are `strides` bytes apart."""
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    first = sum(min(r, 0) for r in reach)
    span = np.empty(sum(map(abs, reach)) + kind.itemsize, np.uint8)
    stream.device.use()
    driver.copy_to_host(span.ctypes.data, address + first, span.nbytes, stream.handle)
    driver.synchronize(stream.handle)
    return CudaArray.of(np.ndarray(shape, kind, span.data, -first, strides), stream.device)
