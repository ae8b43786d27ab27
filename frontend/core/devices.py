"""Devices: `flow.device`, and the devices of arrays.

    x = flow.ones(2, 3, device="cuda")      x.device        x.to("cpu")

A program runs on the device of its tensors. Operands on different devices are an error, except tensors without
dimensions, which are copied.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oneflow.dialect.deprecated import takes_previous_names
from oneflow.frontend.core.arrays import Data, device_name
from oneflow.frontend.core.errors import fail
from oneflow.runtime.backends import ACCELERATORS, BACKENDS, HOST
from oneflow.runtime.device_array import DeviceArray
from oneflow.runtime.global_array import GlobalArray

#: The index of the device that a name without an index stands for.
CURRENT_INDEX = [0]


class _DeviceType(type):
    """Makes devices of names: `Device("cuda:1")`, `Device("cuda", 1)`."""

    @takes_previous_names("argument of flow.device")
    def __call__(cls, type: str | Device, index: int | None = None) -> Device:
        """The device "cpu", "cuda" (the current one, by default the first) or such as "cuda:1".

        Raises:
            OneFlowError: the name is none of these.
        """
        if isinstance(type, Device):
            return type
        kind, _, digits = str(type).partition(":")
        if kind not in BACKENDS or not (digits or "0").isdigit():
            raise fail(f'expected a device such as "cpu", "cuda" or "cuda:1", got {type!r}')
        present = CURRENT_INDEX[0] if index is None else index
        made: Device = super().__call__(kind, 0 if kind == HOST else int(digits or present))
        return made


@dataclass(frozen=True)
class Device(metaclass=_DeviceType):
    """The device `index` of the backend `type` ("cpu", "cuda"). A device equals its name."""

    type: str
    index: int = 0

    if TYPE_CHECKING:  # what the metaclass accepts

        def __init__(self, type: str | Device, index: int | None = None) -> None: ...

    def __str__(self) -> str:
        return self.type if self.type == HOST else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}, index={self.index})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == str(device(other))
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash(str(self))


#: `flow.device`.
device = Device


@functools.cache
def device_named(name: str) -> Device:
    """The device of a whole name, as `device_name` returns it."""
    return device(name)


def move(data: Data, target: Device) -> Data:
    """An array on a device: the array itself if it is on the device, else a copy.

    Raises:
        CudaError: there is no such device.
        ValueError: the array is global.
    """
    if isinstance(data, GlobalArray):
        raise ValueError(f"expected a tensor of this process to move to {target}; use to_global, or to_local() first")
    if target.type == HOST:
        return data.numpy() if isinstance(data, DeviceArray) else data
    return ACCELERATORS[target.type].to_device(data, target.index)


def common_device(named: Sequence[tuple[str, Data]]) -> str | None:
    """The device that arrays are on, None if all are on the host.

    Raises:
        ValueError: the tensors are on different devices; the message names two devices.
    """
    first = next(((n, d) for n, d in named if isinstance(d, DeviceArray)), None)
    if first is None:
        return None
    expected = device_name(first[1])
    for name, data in named:
        if device_name(data) != expected and (data.ndim or isinstance(data, DeviceArray)):
            raise ValueError(
                f"expected all tensors on one device: {first[0]} is on {expected}, {name} is on {device_name(data)}; "
                f'move it there, {name}.to("{expected}")'
            )
    return expected
