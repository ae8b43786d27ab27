"""Device backends: what compiles programs and stores arrays, by the type of device in names such as `cuda:1`.

    backends.BACKENDS["cpu"].compile_program(module, "main")        backends.ACCELERATORS["cuda"].to_device(array, 1)
    backends.RANKS.compile_program(module, "main", placement, {}, "greedy")

The frontend imports no backend: it finds backends here, and knows executables and arrays by `Executable` and
`DeviceArray`. A backend is a module with the functions of `Backend`, or of `Accelerator` if its devices have memory
of their own. The module is imported when one of its functions is first called.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.runtime.device_array import DeviceArray, OpenDevice, Stream
from oneflow.runtime.protocol import Executable

if TYPE_CHECKING:
    from oneflow.runtime import distributed, host
    from oneflow.runtime.cuda import backend as cuda
    from oneflow.runtime.global_array import Placement
else:
    host, cuda = lazy("oneflow.runtime.host"), lazy("oneflow.runtime.cuda.backend")
    distributed = lazy("oneflow.runtime.distributed")


class Backend(Protocol):
    """The functions of a backend. Devices are named by their ordinals."""

    def compile_program(self, module: ir.Module, entry: str, device: int = 0) -> Executable:
        """Compiles a function of a module, for each set of sizes if need be."""


class Accelerator(Backend, Protocol):
    """The functions of a backend whose devices have memory and streams of their own."""

    def device_count(self) -> int:
        """The number of devices; 0 where the driver or its Python bindings are missing."""

    def open_device(self, ordinal: int) -> OpenDevice:
        """The device of an ordinal; an error of the backend where there is none."""

    def holds(self, value: Any) -> bool:
        """Whether an array of any library is in the memory of such a device."""

    def import_array(self, value: Any) -> DeviceArray:
        """An array of any library on such a device, in the same memory; a copy if the elements are not contiguous."""

    def to_device(self, array: np.ndarray | DeviceArray, device: int) -> DeviceArray:
        """An array on a device: the array itself if it is there, else a copy."""

    def make_stream(self, device: int) -> Stream:
        """A new stream."""

    def current_stream(self, device: int) -> Stream:
        """The stream on which this thread enqueues work for a device."""

    def using_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """A context in which this thread enqueues work for the device of a stream on that stream."""

    def synchronize(self, device: int) -> None:
        """Waits until all work on a device is done."""

    def memory_allocated(self, device: int) -> int:
        """The bytes that arrays and the workspace of programs take."""

    def max_memory_allocated(self, device: int) -> int:
        """The most bytes that were allocated at one time since `reset_peak_memory`, including cached bytes."""

    def reset_peak_memory(self, device: int) -> None:
        """Restarts the peak of `max_memory_allocated`."""

    def empty_cache(self, device: int) -> None:
        """Returns unused memory to the system."""


class RanksBackend(Protocol):
    """The functions of the backend of programs of several ranks."""

    def compile_program(
        self, module: ir.Module, entry: str, placement: Placement, parts: Mapping[str, Placement], strategy: str
    ) -> Executable:
        """Compiles an annotated function for the ranks of a placement; its arrays are global arrays.

        `parts` are the placements that the module names. `strategy` chooses layouts: "greedy" or "auto".
        """


#: The type of device whose memory is the memory of the process.
HOST = "cpu"
#: The backends whose devices have memory of their own.
ACCELERATORS: dict[str, Accelerator] = {"cuda": cuda}
#: All backends.
BACKENDS: dict[str, Backend] = {HOST: host, **ACCELERATORS}
#: The backend of programs of several ranks, on devices of any type.
RANKS: RanksBackend = distributed


def accelerator_of(value: Any) -> Accelerator | None:
    """The backend in whose memory an array of any library is; None for an array on the host."""
    if isinstance(value, (np.ndarray, np.generic)):
        return None
    return next((backend for backend in ACCELERATORS.values() if backend.holds(value)), None)
