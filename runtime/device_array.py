"""Arrays in the memory of a device: what all backends have in common."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.runtime.array_properties import ArrayProperties


class OpenDevice(Protocol):
    """A device of a backend that is in use. Each device has one object, so that devices are compared by identity."""

    @property
    def ordinal(self) -> int:
        """The ordinal of the device among the devices of the backend."""

    @property
    def name(self) -> str:
        """The name that users write, such as `cuda:0`."""

    @property
    def properties(self) -> tuple[str, int, int, int, int]:
        """The name of the model, its capability as two numbers, the bytes of memory, and the number of SMs."""


class Stream(Protocol):
    """A queue of work on a device."""

    @property
    def device(self) -> OpenDevice:
        """The device."""

    @property
    def handle(self) -> Any:
        """The handle of the backend's driver."""

    def synchronize(self) -> None:
        """Waits until all work of the stream is done."""


class DeviceArray(ArrayProperties):
    """A contiguous array in the memory of a device; each backend has a class of its own.

    Attributes:
        address: the address of the first element.
        stream: the stream that computes the values.
    """

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: DType
    address: int
    stream: Any

    @property
    def device(self) -> OpenDevice:
        """The device of this array."""
        device: OpenDevice = self.stream.device
        return device

    def __dlpack_device__(self) -> tuple[int, int]:
        raise NotImplementedError

    def numpy(self) -> np.ndarray:
        """A copy on the host, after the stream has computed the values."""
        raise NotImplementedError

    def copy(self) -> DeviceArray:
        """A copy on the same device."""
        raise NotImplementedError

    def take(self, other: DeviceArray | np.ndarray) -> None:
        """Overwrites the elements with the elements of `other`, an array of the same dtype and size on any device or
        host.
        """
        raise NotImplementedError
