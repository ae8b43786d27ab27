"""CUDA devices as a backend: the functions of `runtime.backends.Accelerator`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.runtime.cuda import array as arrays
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda import stream as streams
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.device_array import DeviceArray

if TYPE_CHECKING:
    from oneflow.runtime.cuda import size_specialization
    from oneflow.runtime.cuda.executable import CudaExecutable
else:  # the compiler of programs is loaded with the first program
    size_specialization = lazy("oneflow.runtime.cuda.size_specialization")


def compile_program(module: ir.Module, entry: str, device: int = 0) -> CudaExecutable:
    """Compiles a function of a module for a device.

    Raises:
        CudaError: there is no such device.
        CompileError: a kernel does not compile.
        PassError: a pass failed.
    """
    return size_specialization.compile_cuda_program(module, entry, device=device)


def device_count() -> int:
    """The number of devices; 0 where the driver or its Python bindings are missing."""
    try:
        return driver.device_count()
    except driver.CudaError:
        return 0


def open_device(ordinal: int) -> driver.Device:
    """The device of an ordinal.

    Raises:
        CudaError: there is no such device.
    """
    return driver.device(ordinal)


def holds(value: Any) -> bool:
    """Whether an array of any library is on a CUDA device."""
    return arrays.is_on_device(value)


def import_array(value: Any) -> CudaArray:
    """An array of any library on a CUDA device; see `array.from_other`."""
    return arrays.from_other(value)


def to_device(array: np.ndarray | DeviceArray, device: int) -> CudaArray:
    """An array on a device: the array itself if it is there, else a copy.

    Raises:
        CudaError: there is no such device.
        OutOfMemoryError: the device has less memory.
    """
    target = driver.device(device)
    if isinstance(array, CudaArray):
        return array.to(target)
    return CudaArray.of(array if isinstance(array, np.ndarray) else array.numpy(), target)


def make_stream(device: int) -> streams.Stream:
    """A new stream of a device."""
    return streams.Stream(driver.device(device))


def current_stream(device: int) -> streams.Stream:
    """The stream on which this thread enqueues work for a device."""
    return streams.current(driver.device(device))


def using_stream(stream: streams.Stream) -> AbstractContextManager[streams.Stream]:
    """A context in which this thread enqueues work for the device of a stream on that stream."""
    return streams.using(stream)


def synchronize(device: int) -> None:
    """Waits until all work on a device is done.

    Raises:
        CudaError: there is no such device, or work on it failed.
    """
    streams.synchronize(driver.device(device))


def memory_allocated(device: int) -> int:
    """The bytes that arrays and the workspace of programs take."""
    opened = driver.device(device)
    return opened.memory()[0] - streams.cached_bytes(opened)


def max_memory_allocated(device: int) -> int:
    """The most bytes that were allocated at one time since `reset_peak_memory`, including cached bytes."""
    return driver.device(device).memory()[1]


def reset_peak_memory(device: int) -> None:
    """Restarts the peak of `max_memory_allocated`."""
    driver.device(device).reset_peak()


def empty_cache(device: int) -> None:
    """Returns unused memory to the system."""
    opened = driver.device(device)
    streams.clear_result_pools(opened)
    streams.trim(opened)
    opened.trim()
