"""The one module that imports CUDA: the calls of the driver that programs need, errors as exceptions.

`cuda.bindings` is imported when a device is first asked for. Streams and addresses are plain integers here.
Imports nothing of the project.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from dataclasses import dataclass
from typing import Any

HINT = "expected CUDA's Python bindings (pip install oneflow-mlir[gpu])"


class CudaError(RuntimeError):
    """There is no device, or a call of the driver failed."""


@functools.cache
def _cuda() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CudaError(f"{HINT}: {error}") from error


def call(name: str, *arguments: Any) -> Any:
    """What a function of the driver gives besides its status: nothing, a value, or a tuple.

    Raises:
        CudaError: the status is not success.
    """
    status, *values = getattr(_cuda(), name)(*arguments)
    if int(status) != 0:
        raise CudaError(f"{name}: {getattr(status, 'name', status)}")
    return None if not values else values[0] if len(values) == 1 else tuple(values)


@dataclass(frozen=True)
class Device:
    """A device whose primary context is current in this thread."""

    number: int
    handle: Any
    context: Any

    @property
    def arch(self) -> str:
        """The architecture, such as sm_90."""
        kinds = _cuda().CUdevice_attribute
        major = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self.handle)
        minor = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self.handle)
        return f"sm_{major}{minor}"

    def use(self) -> None:
        """Makes the device's context current in the calling thread."""
        call("cuCtxSetCurrent", self.context)


@functools.cache
def device(number: int = 0) -> Device:
    """A device by number.

    Raises:
        CudaError: there is none.
    """
    call("cuInit", 0)
    handle = call("cuDeviceGet", number)
    context = call("cuDevicePrimaryCtxRetain", handle)
    found = Device(number, handle, context)
    found.use()
    return found


def make_stream() -> Any:
    """A stream that does not wait for the default stream."""
    return call("cuStreamCreate", _cuda().CUstream_flags.CU_STREAM_NON_BLOCKING)


def wait() -> None:
    """Waits until everything on the device is done."""
    call("cuCtxSynchronize")


def synchronize(stream: Any) -> None:
    """Waits until a stream has done its work."""
    call("cuStreamSynchronize", stream)


def allocate(size: int, stream: Any) -> int:
    """Device memory from the stream's pool; at least one byte."""
    return int(call("cuMemAllocAsync", max(size, 1), stream))


def free(address: int, stream: Any) -> None:
    """Gives memory back when the stream gets there."""
    call("cuMemFreeAsync", address, stream)


def copy_in(target: int, source: int, size: int, stream: Any) -> None:
    """Host memory to the device."""
    call("cuMemcpyHtoDAsync", target, source, size, stream)


def copy_out(target: int, source: int, size: int, stream: Any) -> None:
    """Device memory to the host."""
    call("cuMemcpyDtoHAsync", target, source, size, stream)


def copy(target: int, source: int, size: int, stream: Any) -> None:
    """Device memory to device memory."""
    call("cuMemcpyDtoDAsync", target, source, size, stream)


def fill(target: int, pattern: bytes, count: int, stream: Any) -> None:
    """`count` times a pattern of 1, 2, 4 or 8 bytes."""
    if count == 0:
        return
    if len(pattern) == 8:
        for half in (0, 4):
            value = int.from_bytes(pattern[half : half + 4], "little")
            call("cuMemsetD2D32Async", target + half, 8, value, 1, count, stream)
        return
    name = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}[len(pattern)]
    call(name, target, int.from_bytes(pattern, "little"), count, stream)


@dataclass(frozen=True)
class Function:
    """A kernel on the device, ready to launch."""

    handle: Any
    threads: int
    shared: int

    def launch(self, programs: int, parameters: int, stream: Any) -> None:
        """Launches `programs` blocks; `parameters` is the address of an array of pointers to the arguments."""
        call("cuLaunchKernel", self.handle, programs, 1, 1, self.threads, 1, 1, self.shared, stream, parameters, 0)


def load(cubin: bytes, name: str, warps: int, shared: int) -> Function:
    """A kernel of a compiled module; more shared memory than 48 KB is asked for."""
    module = call("cuModuleLoadData", cubin)
    handle = call("cuModuleGetFunction", module, name.encode())
    if shared > 48 * 1024:
        attribute = _cuda().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuFuncSetAttribute", handle, attribute, shared)
    return Function(handle, warps * 32, shared)


class Parameters:
    """Arguments of a launch in memory, as the driver takes them: a slot of 8 bytes each."""

    def __init__(self, count: int) -> None:
        self.slots = (ctypes.c_int64 * count)()
        base = ctypes.addressof(self.slots)
        self.pointers = (ctypes.c_void_p * count)(*(base + 8 * i for i in range(count)))
        self.address = ctypes.addressof(self.pointers)


class Graph:
    """Work of a stream recorded once, to be launched again at the cost of one call."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        call("cuStreamBeginCapture", stream, _cuda().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)

    def finish(self) -> None:
        """Ends the recording."""
        graph = call("cuStreamEndCapture", self.stream)
        self.handle = call("cuGraphInstantiate", graph, 0)

    def launch(self) -> None:
        """Runs what was recorded."""
        call("cuGraphLaunch", self.handle, self.stream)
