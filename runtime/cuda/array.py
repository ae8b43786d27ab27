"""Arrays on the device: results of programs, and what other libraries have there, without a copy.

    x = from_other(torch_tensor)      y = torch.from_dlpack(device_array)      DeviceArray.of(numpy_array, device)

An array knows the stream that its values are made on; using it on another makes that one wait.
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
from oneflow.runtime.cuda.stream import SPARE, Spares, Stream, current
from oneflow.runtime.shaped import Shaped


class Owner:
    """What arrays on the device are in: the stream that it goes back on, and others that used it."""

    __slots__ = ("__weakref__", "stream", "users")

    def __init__(self, stream: Stream) -> None:
        self.stream, self.users = stream, set[int]()

    def _wait_for_users(self, driver: Any) -> None:
        """What its stream is given from here on waits for what others have been given."""
        for user in self.users:
            driver.order(user, self.stream.handle)


class Memory(Owner):
    """Device memory of this package, freed with its last array: when every stream that used it gets there.

    With `spares` it is taken from there and goes back there, all of one size. Where it `comes_again`, as that of
    programs' results, the stream keeps it for a while.
    """

    __slots__ = ("address", "comes_again", "size", "spares")

    def __init__(self, size: int, stream: Stream, spares: Spares | None = None, comes_again: bool = False) -> None:
        super().__init__(stream)
        self.size, self.spares, self.comes_again = size, spares, comes_again
        spare = None if spares is None else spares.take()
        kept = stream.take(size) if spare is None and comes_again else None
        self.address = spare or kept or stream.allocate(size)

    def __del__(self, driver: Any = driver) -> None:
        try:
            spares = self.spares if self.spares is not None and len(self.spares.addresses) < SPARE else None
            if self.users or spares is None:
                with driver.within(self.stream.device.context):
                    self._leave(driver, spares is None)
            if spares is not None:
                spares.addresses.append(self.address)
        except (driver.CudaError, AttributeError, TypeError):
            return

    def _leave(self, driver: Any, is_freed: bool) -> None:
        self._wait_for_users(driver)
        if is_freed:
            if self.comes_again:
                self.stream.leave(self.address, self.size, driver)
            else:
                driver.free(self.address, self.stream.handle)


class Borrowed(Owner):
    """Memory of another library, which `lent` holds: let go of when every stream that used it gets there."""

    __slots__ = ("lent",)

    def __init__(self, lent: Any, stream: Stream) -> None:
        super().__init__(stream)
        self.lent = lent
        stream.settle()

    def __del__(self, driver: Any = driver) -> None:
        try:
            with driver.within(self.stream.device.context):
                self._wait_for_users(driver)
                self.stream.give_back(self.lent, driver)
        except (driver.CudaError, AttributeError, TypeError):
            return


class DeviceArray(Shaped):
    """A contiguous array on a device; `owner` keeps its memory alive.

    Attributes:
        address: where its elements begin.
        stream: the stream that its values are made on.
        check: called before values are given to the host; raises what the program that makes them has met.
    """

    __slots__ = ("__weakref__", "address", "check", "dtype", "owner", "shape", "stream")

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], dtype: DType, stream: Stream,
                 check: Callable[[], None] | None = None) -> None:  # fmt: skip
        self.owner, self.address, self.shape, self.dtype = owner, address, shape, dtype
        self.stream, self.check = stream, check

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType, stream: Stream) -> DeviceArray:
        """An array whose values are still to be written.

        Raises:
            OutOfMemoryError: the device has less memory.
        """
        memory = Memory(math.prod(shape) * dtype.numpy.itemsize, stream)
        return DeviceArray(memory, memory.address, shape, dtype, stream)

    @staticmethod
    def of(array: np.ndarray, device: driver.Device) -> DeviceArray:
        """A copy of an array on the host. Of one that repeats an element (`np.broadcast_to`) only that is sent.

        Raises:
            OutOfMemoryError: the device has less memory.
        """
        stream = current(device)
        device.use()
        if array.size > 1 and not any(array.strides):
            return DeviceArray._filled(array, stream)
        array = np.require(array, array.dtype.newbyteorder("="), ("C", "A"))
        made = DeviceArray.empty(array.shape, dtypes.from_numpy(array.dtype), stream)
        if array.size:
            driver.copy_in(made.address, array.ctypes.data, array.nbytes, stream.handle)
        return made

    @staticmethod
    def _filled(array: np.ndarray, stream: Stream) -> DeviceArray:
        """An array that repeats the first element of one on the host."""
        made = DeviceArray.empty(array.shape, dtypes.from_numpy(array.dtype), stream)
        element = np.require(array[(slice(1),) * array.ndim], array.dtype.newbyteorder("="), "C").tobytes()
        for at in range(0, len(element), 4):
            driver.fill(made.address + at, element[at : at + 4], array.size, len(element), stream.handle)
        return made

    @property
    def device(self) -> driver.Device:
        """The device it is on."""
        return self.stream.device

    def use_on(self, stream: Stream) -> None:
        """Lets a stream that its values were not made on read and write it."""
        if stream is not self.stream:
            stream.wait_for(self.stream.handle)
            self._used_by(stream.handle)

    def _used_by(self, handle: Any) -> None:
        if isinstance(self.owner, Owner):
            self.owner.users.add(int(handle))

    def numpy(self) -> np.ndarray:
        """A copy on the host, when the work before it is done.

        Raises:
            PositionError: the program that makes it met a position out of range.
        """
        self.device.use()
        made = np.empty(self.shape, self.dtype.numpy)
        if made.size:
            driver.copy_out(made.ctypes.data, self.address, made.nbytes, self.stream.handle)
        driver.synchronize(self.stream.handle)
        if self.check is not None:
            self.check()
        return made

    def copy(self) -> DeviceArray:
        """A copy on the same device."""
        self.device.use()
        made = DeviceArray.empty(self.shape, self.dtype, self.stream)
        made.check = self.check
        made.take(self)
        return made

    def take(self, other: DeviceArray | np.ndarray) -> None:
        """Overwrites its elements with those of another array of its type, wherever that is."""
        self.device.use()
        if isinstance(other, np.ndarray) or other.device is not self.device:
            host = np.ascontiguousarray(other if isinstance(other, np.ndarray) else other.numpy())
            if host.size:
                driver.copy_in(self.address, host.ctypes.data, host.nbytes, self.stream.handle)
            return
        other.use_on(self.stream)
        self.check = other.check
        if self.size and self.address != other.address:
            driver.copy(self.address, other.address, self.nbytes, self.stream.handle)

    def to(self, device: driver.Device) -> DeviceArray:
        """Itself, or a copy on another device."""
        return self if device is self.device else DeviceArray.of(self.numpy(), device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = self.dtype.numpy
        typestr = kind.str if kind.kind != "V" else f"<V{kind.itemsize}"
        return {"shape": self.shape, "typestr": typestr, "data": (self.address if self.size else 0, False),
                "version": 3, "strides": None, "stream": int(self.stream.handle)}  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device.number

    def __dlpack__(self, *, stream: int | None = None, max_version: Any = None, dl_device: Any = None,
                   copy: bool | None = None) -> Any:  # fmt: skip
        """A capsule; `stream` (None: the legacy one, -1: none) waits for the values."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"expected to be asked for device {self.__dlpack_device__()}, got {tuple(dl_device)}")
        given = self.copy() if copy else self
        if stream != -1:
            given.device.use()
            handle = driver.LEGACY if stream is None else stream
            driver.order(given.stream.handle, handle)
            given._used_by(handle)
        return dlpack.export(given, given.address, given.shape, given.dtype, given.__dlpack_device__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("expected copy to be None or True: the array is on a device")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no len()")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype.name}, shape={self.shape}, device={self.device})"


def is_on_device(value: Any) -> bool:
    """Whether `value` is an array on a CUDA device, this package's or another's."""
    if isinstance(value, DeviceArray):
        return True
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    asked = getattr(value, "__dlpack_device__", None)
    if asked is not None:
        return int(asked()[0]) in (dlpack.CUDA, dlpack.MANAGED)
    return hasattr(value, "__cuda_array_interface__")


def from_other(value: Any) -> DeviceArray:
    """An array of any library on a device, after what its stream has been given: in the same memory, or a copy of
    elements that do not lie densely in order.

    Raises:
        TypeError: its element type is none of ours.
        ValueError: PyTorch captures a graph.
    """
    if isinstance(value, DeviceArray):
        return value
    return _from_dlpack(value) if hasattr(value, "__dlpack__") else _from_interface(value)


def _from_dlpack(value: Any) -> DeviceArray:
    torch = sys.modules.get("torch")
    # What a program does besides launches would end the capture, and leave PyTorch's generator in it.
    if torch is not None and torch.cuda.is_current_stream_capturing():
        raise ValueError("expected no capture of a CUDA graph by PyTorch; a compiled function is graphs of its own, "
                         "call it outside of the capture")  # fmt: skip
    device = driver.device(int(value.__dlpack_device__()[1]))
    stream = current(device)
    taken = dlpack.Taken(value.__dlpack__(stream=int(stream.handle)))
    if taken.strides is not None:
        kind = taken.dtype.numpy
        return _gathered(taken.address, taken.shape, [s * kind.itemsize for s in taken.strides], kind, stream)
    return DeviceArray(Borrowed(taken, stream), taken.address, taken.shape, taken.dtype, stream)


def _from_interface(value: Any) -> DeviceArray:
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
        return _gathered(address, shape, strides, kind, stream)
    return DeviceArray(Borrowed(value, stream), address, shape, dtypes.from_numpy(kind), stream)


def _gathered(
    address: int, shape: Sequence[int], strides: Sequence[int], kind: np.dtype, stream: Stream
) -> DeviceArray:
    """A copy of elements that are `strides` bytes apart: the host puts them in order."""
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    first = sum(min(r, 0) for r in reach)
    span = np.empty(sum(map(abs, reach)) + kind.itemsize, np.uint8)
    stream.device.use()
    driver.copy_out(span.ctypes.data, address + first, span.nbytes, stream.handle)
    driver.synchronize(stream.handle)
    return DeviceArray.of(np.ndarray(shape, kind, span.data, -first, strides), stream.device)
