"""`flow.cuda`: CUDA devices, their memory, streams.

with flow.cuda.stream(flow.cuda.Stream()):
    y = f(x)
flow.cuda.synchronize()
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from oneflow.dialect.deprecated import takes_previous_names
from oneflow.frontend.core import devices, generator
from oneflow.frontend.core.compilation import COMPILE_OPTIONS
from oneflow.frontend.methods.tensor_type import typed_tensors
from oneflow.lowering.options import AUTOTUNE, DETERMINISTIC, PRECISION, PRECISIONS
from oneflow.runtime import device_array
from oneflow.runtime.backends import ACCELERATORS

_BACKEND = ACCELERATORS["cuda"]

#: The classes of tensors on devices.
_TENSOR_TYPES = typed_tensors("cuda")
globals().update(_TENSOR_TYPES)
#: The random state, which devices share with the host.
manual_seed = manual_seed_all = generator.manual_seed
get_rng_state = generator.get_rng_state

__all__ = [
    "Stream", "current_device", "current_stream", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "is_available", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "memory_allocated", "reset_peak_memory_stats", "set_autotune",
    "set_deterministic", "set_device", "set_matmul_precision", "set_rng_state", "set_rng_state_all", "stream",
    "synchronize",
]  # fmt: skip
__all__ += list(_TENSOR_TYPES)


def get_rng_state_all() -> list[tuple[int, int]]:
    """The states of the devices, which are one state."""
    return [get_rng_state()]


def set_rng_state(new_state: tuple[int, int], device: str | devices.Device | int = "cuda") -> None:
    """Restores a state from `get_rng_state`, for all devices and the host."""
    generator.set_rng_state(new_state)


def set_rng_state_all(new_states: Sequence[tuple[int, int]]) -> None:
    """Restores the first of states from `get_rng_state_all`, for all devices and the host."""
    set_rng_state(new_states[0])


def set_matmul_precision(precision: str) -> None:
    """Sets how products of float32 are computed by programs compiled from now on.

    Args:
        precision: "ieee", exact products (the default); "tf32", tensor cores with 10 bits of mantissa; or "tf32x3",
            three such products, nearly as exact as float32.

    Raises:
        ValueError: there is no such precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"expected precision to be one of {', '.join(PRECISIONS)}, got {precision!r}")
    COMPILE_OPTIONS[PRECISION] = precision


def set_deterministic(deterministic: bool) -> None:
    """Sets whether programs compiled from now on give the same bits in every run.

    If several elements are added to one position (gradients of embeddings and of indexing, scatters), the order of
    atomic additions differs from run to run. In deterministic mode they are done one after the other, which is
    slower. All other operators are deterministic anyway.
    """
    COMPILE_OPTIONS[DETERMINISTIC] = str(bool(deterministic)).lower()


def set_autotune(autotune: bool) -> None:
    """Sets whether programs compiled from now on measure the fastest configuration of a kernel.

    The first run times a few configurations of each product and each reduction of rows on the device. The fastest is
    kept in the cache on disk, by device, kernel and sizes. Without autotuning a cost model chooses, the same on every
    machine.
    """
    COMPILE_OPTIONS[AUTOTUNE] = str(bool(autotune)).lower()


def current_device() -> int:
    """The index of the device that the name "cuda" stands for: the device of `set_device`, by default the first."""
    return devices.CURRENT_INDEX[0]


@takes_previous_names("argument of flow.cuda.set_device")
def set_device(device: str | devices.Device | int) -> None:
    """Sets the device that the name "cuda" stands for.

    Raises:
        CudaError: there is no such device.
    """
    devices.CURRENT_INDEX[0] = _BACKEND.open_device(_index(device)).ordinal


@dataclass(frozen=True)
class Properties:
    """The properties of a CUDA device: name, compute capability, bytes of memory and number of SMs."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


@takes_previous_names("argument of flow.cuda.get_device_properties")
def get_device_properties(device: str | devices.Device | int | None = None) -> Properties:
    """Returns the properties of a CUDA device.

    Raises:
        CudaError: there is no such device.
    """
    return Properties(*_BACKEND.open_device(_index(device)).properties)


@takes_previous_names("argument of flow.cuda.get_device_name")
def get_device_name(device: str | devices.Device | int | None = None) -> str:
    """The name of a CUDA device.

    Raises:
        CudaError: there is no such device.
    """
    return get_device_properties(device).name


@takes_previous_names("argument of flow.cuda.get_device_capability")
def get_device_capability(device: str | devices.Device | int | None = None) -> tuple[int, int]:
    """The compute capability of a CUDA device, such as (9, 0).

    Raises:
        CudaError: there is no such device.
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def is_available() -> bool:
    """Whether there is a CUDA device, its driver and its Python bindings."""
    return device_count() > 0


def device_count() -> int:
    """How many CUDA devices there are; 0 where the driver or its Python bindings are missing."""
    return _BACKEND.device_count()


def _index(device: str | devices.Device | int | None) -> int:
    """The index of a device, given as a device, its name, its index or None, the current device."""
    return device if isinstance(device, int) else devices.device(device or "cuda").index


@takes_previous_names("argument of flow.cuda.Stream")
def Stream(device: str | devices.Device | int | None = None) -> device_array.Stream:  # noqa: N802
    """A new stream of a device.

    Raises:
        CudaError: there is no such device.
    """
    return _BACKEND.make_stream(_index(device))


@takes_previous_names("argument of flow.cuda.stream")
def stream(target: device_array.Stream) -> AbstractContextManager[device_array.Stream]:
    """A context in which the work of this thread on the device of a stream is queued on the stream."""
    return _BACKEND.using_stream(target)


@takes_previous_names("argument of flow.cuda.current_stream")
def current_stream(device: str | devices.Device | int | None = None) -> device_array.Stream:
    """The stream on which the work of this thread on a device is queued; `handle` is CUDA's.

    Raises:
        CudaError: there is no such device.
    """
    return _BACKEND.current_stream(_index(device))


@takes_previous_names("argument of flow.cuda.synchronize")
def synchronize(device: str | devices.Device | int | None = None) -> None:
    """Waits until all work on a device is done.

    Raises:
        CudaError: there is no such device, or work on it failed.
    """
    _BACKEND.synchronize(_index(device))


@takes_previous_names("argument of flow.cuda.memory_allocated")
def memory_allocated(device: str | devices.Device | int | None = None) -> int:
    """The bytes on a device that tensors and the workspace of programs take."""
    return _BACKEND.memory_allocated(_index(device))


@takes_previous_names("argument of flow.cuda.max_memory_allocated")
def max_memory_allocated(device: str | devices.Device | int | None = None) -> int:
    """The most bytes that were allocated at one time since `reset_peak_memory_stats`.

    The bytes include memory that streams and programs keep for later results, which `memory_allocated` leaves out.
    """
    return _BACKEND.max_memory_allocated(_index(device))


@takes_previous_names("argument of flow.cuda.reset_peak_memory_stats")
def reset_peak_memory_stats(device: str | devices.Device | int | None = None) -> None:
    """Resets the peak of `max_memory_allocated`."""
    _BACKEND.reset_peak_memory(_index(device))


@takes_previous_names("argument of flow.cuda.empty_cache")
def empty_cache(device: str | devices.Device | int | None = None) -> None:
    """Frees unused memory of the allocator."""
    _BACKEND.empty_cache(_index(device))
