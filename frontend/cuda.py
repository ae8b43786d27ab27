"""`flow.cuda`: which devices there are, their memory, streams.

with flow.cuda.stream(flow.cuda.Stream()):
    y = f(x)
flow.cuda.synchronize()
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from oneflow.frontend.core.devices import COMPILE_OPTIONS, Device, device
from oneflow.lowering.triton.names import AUTOTUNE, DETERMINISTIC, PRECISION, PRECISIONS
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda import stream as streams

__all__ = [
    "Stream", "current_stream", "device_count", "empty_cache", "is_available", "max_memory_allocated",
    "memory_allocated", "reset_peak_memory_stats", "set_autotune", "set_deterministic", "set_matmul_precision",
    "stream", "synchronize",
]  # fmt: skip


def set_matmul_precision(precision: str) -> None:
    """How products of float32 are computed by what is compiled from now on.

    Args:
        precision: "ieee", exact products (the default); "tf32", on tensor cores with 10 bits of mantissa; or
            "tf32x3", three such products, which come near float32.

    Raises:
        ValueError: there is no such precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"expected precision to be one of {', '.join(PRECISIONS)}, got {precision!r}")
    COMPILE_OPTIONS[PRECISION] = precision


def set_deterministic(deterministic: bool) -> None:
    """Whether what is compiled from now on gives the same bits in every run.

    Where several elements are added to one place (the gradients of embeddings and of indexing, scatters), atomic
    additions take their turns in any order; with this they are done one after the other, which is slower. All else
    gives the same bits in any case.
    """
    COMPILE_OPTIONS[DETERMINISTIC] = str(bool(deterministic)).lower()


def set_autotune(autotune: bool) -> None:
    """Whether the fastest way to compute a kernel is measured, for what is compiled from now on.

    The first run times a few ways for each product and each reduction of rows on the device, and keeps the fastest in
    the cache on disk, by device, kernel and sizes. Without it a model chooses, the same on every machine.
    """
    COMPILE_OPTIONS[AUTOTUNE] = str(bool(autotune)).lower()


def is_available() -> bool:
    """Whether there is a CUDA device, its driver and its Python bindings."""
    return device_count() > 0


def device_count() -> int:
    """How many CUDA devices there are; 0 where the driver or its Python bindings are missing."""
    try:
        return driver.device_count()
    except driver.CudaError:
        return 0


def _found(place: str | Device | int | None) -> driver.Device:
    """A device of the driver."""
    return driver.device(place if isinstance(place, int) else device(place or "cuda").index)


def Stream(place: str | Device | int | None = None) -> streams.Stream:  # noqa: N802
    """A new stream of a device.

    Raises:
        CudaError: there is no such device.
    """
    return streams.Stream(_found(place))


def stream(chosen: streams.Stream) -> AbstractContextManager[streams.Stream]:
    """Within it, what this thread computes on the stream's device goes to that stream."""
    return streams.using(chosen)


def current_stream(place: str | Device | int | None = None) -> streams.Stream:
    """The stream that work for a device goes to in this thread; `handle` is CUDA's.

    Raises:
        CudaError: there is no such device.
    """
    return streams.current(_found(place))


def synchronize(place: str | Device | int | None = None) -> None:
    """Waits until everything on a device is done.

    Raises:
        CudaError: there is no such device, or work on it failed.
    """
    streams.synchronize(_found(place))


def memory_allocated(place: str | Device | int | None = None) -> int:
    """The bytes of tensors, and of the programs' workspace, on a device."""
    found = _found(place)
    return found.memory()[0] - streams.kept(found)


def max_memory_allocated(place: str | Device | int | None = None) -> int:
    """The most bytes that were allocated at one time since `reset_peak_memory_stats`, with the memory of results that
    streams and programs keep for later, which `memory_allocated` leaves out.
    """
    return _found(place).memory()[1]


def reset_peak_memory_stats(place: str | Device | int | None = None) -> None:
    """Counts `max_memory_allocated` from here on."""
    _found(place).reset_peak()


def empty_cache(place: str | Device | int | None = None) -> None:
    """Gives memory that nothing uses back to the system."""
    found = _found(place)
    streams.clear_spares(found)
    streams.trim(found)
    found.trim()
