"""Devices: `flow.device`, and programs compiled for a device.

    x = flow.ones(2, 3, device="cuda")      x.device        x.to("cpu")

A program runs where its tensors are. Tensors on different devices do not mix, except tensors without dimensions,
which are copied.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.deprecated import takes_previous_names
from oneflow.frontend.core.arrays import Data, device_name
from oneflow.frontend.core.layouts import ProgramPlacements
from oneflow.frontend.core.settings import SCOPE
from oneflow.runtime.backends import ACCELERATORS, BACKENDS, HOST, RANKS
from oneflow.runtime.device_array import DeviceArray
from oneflow.runtime.global_array import GlobalArray
from oneflow.runtime.protocol import Executable

T = TypeVar("T")


#: The number of the device that a name without a number stands for.
CURRENT_NUMBER = [0]


class _DeviceType(type):
    """Makes devices of names: `Device("cuda:1")`, `Device("cuda", 1)`."""

    @takes_previous_names("argument of flow.device")
    def __call__(cls, type: str | Device, index: int | None = None) -> Device:
        """The device "cpu", "cuda" (the present one, by default the first) or such as "cuda:1".

        Raises:
            ValueError: the name is none of these.
        """
        if isinstance(type, Device):
            return type
        kind, _, number = str(type).partition(":")
        if kind not in BACKENDS or not (number or "0").isdigit():
            raise ValueError(f'expected a device such as "cpu", "cuda" or "cuda:1", got {type!r}')
        present = CURRENT_NUMBER[0] if index is None else index
        made: Device = super().__call__(kind, 0 if kind == HOST else int(number or present))
        return made


@dataclass(frozen=True)
class Device(metaclass=_DeviceType):
    """A device: `type` names a backend ("cpu", "cuda"), `index` is the number. A device equals its name."""

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


#: Attributes of every program for a device; `flow.cuda` sets these attributes.
COMPILE_OPTIONS: dict[str, str] = {}


def write_compile_options(module: ir.Module) -> None:
    """Writes `COMPILE_OPTIONS` as attributes of a module, where the module lacks these attributes."""
    for name, value in COMPILE_OPTIONS.items():
        if name not in module.operation.attributes:
            module.operation.attributes[name] = ir.StringAttr.get(value, module.context)


def set_compile_option(module: ir.Module, name: str, value: bool) -> None:
    """Writes an option that is on or off as an attribute of a module."""
    module.operation.attributes[name] = ir.StringAttr.get(str(bool(value)).lower(), module.context)


def compile_for(
    place: Device | ProgramPlacements, module: ir.Module, entry: str, strategy: str = "greedy"
) -> Executable:
    """Compiles a function of a module for a device, or for ranks with layouts that `strategy` chooses.

    Raises:
        CudaError: there is no such device.
        CompileError: a kernel does not compile.
        PassError: a pass failed.
        WorldError: the job has too few ranks, or other ranks have another program.
    """
    home = place.home if isinstance(place, ProgramPlacements) else place
    if home.type != HOST:
        write_compile_options(module)
    if isinstance(place, ProgramPlacements):
        return RANKS.compile_program(module, entry, place.home, place.named, strategy)
    return BACKENDS[place.type].compile_program(module, entry, place.index)


def common_device(named: Sequence[tuple[str, Data]]) -> str | None:
    """The device that arrays are on, None if all are on the host.

    Raises:
        ValueError: the tensors are on different devices; the message names two devices.
    """
    first = next(((n, d) for n, d in named if isinstance(d, DeviceArray)), None)
    if first is None:
        return None
    place = device_name(first[1])
    for name, data in named:
        if device_name(data) != place and (data.ndim or isinstance(data, DeviceArray)):
            raise ValueError(
                f"expected all tensors on one device: {first[0]} is on {place}, {name} is on {device_name(data)}; "
                f'move it there, {name}.to("{place}")'
            )
    return place


def tensor_factory(function: Callable[..., T]) -> Callable[..., T]:
    """A decorator of functions that make a tensor: adds `device`, `placement` with `sbp`, and `requires_grad`; sizes
    that come one by one may also come as `size`.

    A tensor that a traced function makes is no leaf, even with `requires_grad`. `pin_memory` and `layout` are taken
    for programs of PyTorch: memory is pinned by copies to a device, and no tensor is sparse.
    """
    one_by_one = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def create(*args: Any, device: str | Device | None = None, placement: Any = None, sbp: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, layout: Any = None,
               **kwargs: Any) -> Any:  # fmt: skip
        if one_by_one and "size" in kwargs:
            args = (*args, kwargs.pop("size"))
        tensor: Any = function(*args, **kwargs)
        if placement is None and sbp is None and device is None:
            placement, sbp = SCOPE.get().global_mode or (None, None)
        if placement is not None or sbp is not None:
            tensor = tensor.to_global(placement, sbp)
        elif device is not None and hasattr(tensor, "to_device"):
            tensor = tensor.to_device(device)
        return tensor.detach().requires_grad_() if requires_grad and tensor.builder.eager else tensor

    return create
