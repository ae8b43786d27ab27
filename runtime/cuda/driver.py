"""The one module that imports CUDA: the driver calls that programs need, with errors as exceptions.

`cuda.bindings` is imported when a device is first opened. Streams, events and addresses are handles of the driver or
plain integers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.lowering.targets.card import CardFacts
from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.targets.instructions import DEFAULT_SHARED_BYTES, WARP
from oneflow.lowering.targets.selection import gpu_target_named

HINT = "expected an NVIDIA GPU, its driver, and CUDA's Python bindings (pip install 'oneflow-mlir[gpu]')"
#: The attributes of a device that are facts of its card, by the field of `CardFacts`.
FACTS = {
    "sms": "MULTIPROCESSOR_COUNT",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "l2_cache_bytes": "L2_CACHE_SIZE",
    "sm_shared_bytes": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "block_shared_bytes": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "sm_registers": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "sm_threads": "MAX_THREADS_PER_MULTIPROCESSOR",
}
#: The handle of the legacy default stream.
LEGACY = 1
#: The status `CUDA_ERROR_NOT_READY` of an event that has not completed.
NOT_READY = 600


class CudaError(RuntimeError):
    """The error of a missing device, or of a driver call that failed."""


class OutOfMemoryError(CudaError, MemoryError):
    """The device has less memory than requested."""


#: The exceptions where memory is freed while the process ends: the context, or modules, may be gone. A method
#: `__del__` has this tuple as a default argument, since the names of modules may be gone too.
AT_EXIT = (CudaError, AttributeError, TypeError)


@functools.cache
def _cuda() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CudaError(f"{HINT}: {error}") from error


@functools.cache
def _library() -> Any:
    """The driver library without the bindings, whose overhead is as large as a launch itself."""
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> Any:
    """Calls a driver function; returns its results besides the status: None, a value, or a tuple.

    Raises:
        OutOfMemoryError: the device has no more memory.
        CudaError: the status is an error.
    """
    status, *values = getattr(_cuda(), name)(*arguments)
    if status != 0:
        raise _failure(name, status)
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _failure(name: str, status: Any) -> CudaError:
    label = getattr(status, "name", str(status))
    if "OUT_OF_MEMORY" in label:
        free, total = _cuda().cuMemGetInfo()[1:]
        return OutOfMemoryError(f"{name}: the device is out of memory ({free} of {total} bytes are free)")
    text = _cuda().cuGetErrorString(status)[1]
    return CudaError(f"{name}: {label}" + (f" ({text.decode()})" if isinstance(text, bytes) else ""))


@functools.cache
def device_count() -> int:
    """The number of devices.

    Raises:
        CudaError: there is no driver.
    """
    try:
        call("cuInit", 0)
    except CudaError as error:
        if "NO_DEVICE" not in str(error):
            raise
        return 0
    except RuntimeError as error:
        raise CudaError(f"expected a CUDA driver on this machine: {error}") from None
    return int(call("cuDeviceGetCount"))


@dataclass(frozen=True, eq=False)
class Device:
    """A device. The primary context of the device is shared with the other libraries of the process."""

    ordinal: int
    handle: Any
    context: Any
    pool: Any

    @functools.cached_property
    def name(self) -> str:
        """The name that users write."""
        return f"cuda:{self.ordinal}"

    def __str__(self) -> str:
        return self.name

    def attribute(self, name: str) -> int:
        """An attribute of the device by the end of the driver's name for it: `CU_DEVICE_ATTRIBUTE_<name>`."""
        attribute = getattr(_cuda().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call("cuDeviceGetAttribute", attribute, self.handle))

    @functools.cached_property
    def arch(self) -> str:
        """The architecture, for example `sm_90`."""
        return f"sm_{self.attribute('COMPUTE_CAPABILITY_MAJOR')}{self.attribute('COMPUTE_CAPABILITY_MINOR')}"

    @functools.cached_property
    def properties(self) -> tuple[str, int, int, int, int]:
        """The name, the compute capability, the bytes of memory and the number of SMs."""
        names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT")
        major, minor, sms = map(self.attribute, names)
        text = call("cuDeviceGetName", 256, self.handle).split(b"\0")[0].decode()
        return text, major, minor, int(call("cuDeviceTotalMem", self.handle)), sms

    @functools.cached_property
    def target(self) -> GpuTarget:
        """The target for which kernels are compiled, with the facts that the driver reports.

        Raises:
            ValueError: the architecture is not in the table of targets.
        """
        facts = CardFacts(**{field: self.attribute(name) for field, name in FACTS.items()})
        return gpu_target_named(self.arch).on_card(facts)

    def use(self) -> None:
        """Makes the device's context current in the calling thread."""
        (status,) = _cuda().cuCtxSetCurrent(self.context)
        if status != 0:
            raise _failure("cuCtxSetCurrent", status)

    def memory(self) -> tuple[int, int]:
        """The bytes in use by arrays and programs of this process, and their peak since `reset_peak`."""
        attributes = _cuda().CUmemPool_attribute
        names = (attributes.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, attributes.CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        current, peak = (int(call("cuMemPoolGetAttribute", self.pool, name)) for name in names)
        return current, peak

    def reset_peak(self) -> None:
        """Restarts the peak of `memory` at the bytes in use."""
        kind = _cuda().CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_HIGH
        call("cuMemPoolSetAttribute", self.pool, kind, _cuda().cuuint64_t(0))

    def trim(self) -> None:
        """Returns unused memory of the pool to the system."""
        self.use()
        call("cuCtxSynchronize")
        call("cuMemPoolTrimTo", self.pool, 0)


_open_lock = threading.Lock()
_devices: dict[int, Device] = {}


def device(ordinal: int = 0) -> Device:
    """The device of an ordinal.

    Raises:
        CudaError: the device does not exist.
    """
    opened = _devices.get(ordinal)
    if opened is None:
        with _open_lock:
            opened = _devices.get(ordinal) or _devices.setdefault(ordinal, _open(ordinal))
    return opened


def _open(ordinal: int) -> Device:
    count = device_count()
    if not 0 <= ordinal < count:
        raise CudaError(f"expected a CUDA device cuda:{ordinal}, the machine has {count or 'none'}")
    handle = call("cuDeviceGet", ordinal)
    context = call("cuDevicePrimaryCtxRetain", handle)
    pool = call("cuDeviceGetDefaultMemPool", handle)
    # Without this threshold every synchronization would return free memory to the system.
    threshold = _cuda().CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    call("cuMemPoolSetAttribute", pool, threshold, _cuda().cuuint64_t(2**64 - 1))
    opened = Device(ordinal, handle, context, pool)
    opened.use()
    return opened


@contextlib.contextmanager
def current_context(context: Any) -> Iterator[None]:
    """Makes a context current in the calling thread within a block; objects are freed in any thread."""
    call("cuCtxPushCurrent", context)
    try:
        yield
    finally:
        call("cuCtxPopCurrent")


def make_stream() -> Any:
    """Creates a stream that synchronizes with the legacy default stream, as the streams of other libraries do."""
    return call("cuStreamCreate", 0)


def make_high_priority_stream() -> Any:
    """Creates a non-blocking stream of the highest priority."""
    _, first = call("cuCtxGetStreamPriorityRange")
    return call("cuStreamCreateWithPriority", int(_cuda().CUstream_flags.CU_STREAM_NON_BLOCKING), first)


def synchronize_context() -> None:
    """Waits until all work of the current context is done."""
    call("cuCtxSynchronize")


def synchronize(stream: Any) -> None:
    """Waits until the work of a stream is done."""
    call("cuStreamSynchronize", stream)


_events = threading.local()


def make_event() -> Any:
    """Creates an event without timing."""
    return call("cuEventCreate", _cuda().CUevent_flags.CU_EVENT_DISABLE_TIMING)


def record_event(event: Any, stream: Any) -> None:
    """Records an event on a stream."""
    call("cuEventRecord", event, stream)


def is_event_complete(event: Any) -> bool:
    """Whether a recorded event has completed."""
    (status,) = _cuda().cuEventQuery(event)
    if status not in (0, NOT_READY):
        raise _failure("cuEventQuery", status)
    return bool(status == 0)


def wait_stream(producer: Any, consumer: Any) -> None:
    """Makes later work of stream `consumer` wait for the work that stream `producer` has so far."""
    context = int(call("cuCtxGetCurrent"))
    known = _events.__dict__.setdefault("by_context", {})
    if context not in known:
        known[context] = make_event()
    record_event(known[context], producer)
    call("cuStreamWaitEvent", consumer, known[context], 0)


def allocate(size: int, stream: Any) -> int:
    """Allocates device memory on a stream; at least one byte."""
    try:
        return int(call("cuMemAllocAsync", max(size, 1), stream))
    except OutOfMemoryError as error:
        raise OutOfMemoryError(f"expected {size} bytes of device memory; {error}") from None


def free(address: int, stream: Any) -> None:
    """Frees device memory in stream order."""
    call("cuMemFreeAsync", address, stream)


def allocate_host_words(count: int) -> Any:
    """Allocates zeroed 64-bit words of pinned host memory, which has the same address in kernels."""
    attributes = _cuda()
    flags = attributes.CU_MEMHOSTALLOC_DEVICEMAP | attributes.CU_MEMHOSTALLOC_PORTABLE
    words = (ctypes.c_int64 * count).from_address(int(call("cuMemHostAlloc", 8 * count, flags)))
    ctypes.memset(ctypes.addressof(words), 0, 8 * count)
    return words


def free_host_words(words: Any) -> None:
    """Frees the memory of `allocate_host_words`."""
    call("cuMemFreeHost", ctypes.addressof(words))


def is_pinned(address: int) -> bool:
    """Whether host memory is pinned: the driver reads pinned memory after the call that enqueues a copy returns."""
    kind = _cuda().CUpointer_attribute.CU_POINTER_ATTRIBUTE_HOST_POINTER
    (pointer,) = call("cuPointerGetAttributes", 1, [kind], address)
    return bool(pointer)


def device_of(address: int) -> int:
    """The ordinal of the device of a device address."""
    kind = _cuda().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    device_count()
    return int(call("cuPointerGetAttribute", kind, address))


def copy_to_device(target: int, source: int, size: int, stream: Any) -> None:
    """Copies host memory to the device; the host may overwrite `source` when this returns."""
    call("cuMemcpyHtoDAsync", target, source, size, stream)
    if is_pinned(source):
        synchronize(stream)


def copy_to_host(target: int, source: int, size: int, stream: Any) -> None:
    """Copies device memory to the host, in stream order."""
    call("cuMemcpyDtoHAsync", target, source, size, stream)


def copy(target: int, source: int, size: int, stream: Any) -> None:
    """Copies device memory to device memory, in stream order."""
    call("cuMemcpyDtoDAsync", target, source, size, stream)


def copy_rows(target: tuple[int, int], source: tuple[int, int], size: int, count: int, stream: Any) -> None:
    """Copies `count` rows of `size` bytes on the device; target and source are (address, bytes between rows)."""
    params = memcpy_params(target[0], source[0], size)
    params.Height = params.srcHeight = params.dstHeight = count
    params.dstPitch, params.srcPitch = target[1], source[1]
    call("cuMemcpy3DAsync", params, stream)


def fill(target: int, pattern: bytes, count: int, pitch: int, stream: Any) -> None:
    """Writes `count` times a pattern of 1, 2 or 4 bytes, `pitch` bytes apart; only 4-byte patterns may have gaps."""
    value = int.from_bytes(pattern, "little")
    if pitch != len(pattern):
        call("cuMemsetD2D32Async", target, pitch, value, 1, count, stream)
        return
    name = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}[len(pattern)]
    call(name, target, value, count, stream)


@dataclass(frozen=True)
class Function:
    """A loaded kernel; `module` is unloaded with its last kernel."""

    handle: Any
    name: str
    threads: int
    shared: int
    module: Any


def launcher() -> Any:
    """`cuLaunchKernelEx`, to be called from C."""
    return _library().cuLaunchKernelEx


def error_of_status(name: str, status: int) -> CudaError:
    """The exception for a function of the library that returned a status."""
    return _failure(name, _cuda().CUresult(status))


def launch_graph(program: Any, stream: Any) -> None:
    """LaunchBatch a graph."""
    (status,) = _cuda().cuGraphLaunch(program, stream)
    if status != 0:
        raise _failure("cuGraphLaunch", status)


def update_launch(program: Any, node: Any, launch: Any) -> None:
    """Updates the parameters of a launch in an executable graph."""
    (status,) = _cuda().cuGraphExecKernelNodeSetParams(program, node, launch)
    if status != 0:
        raise _failure("cuGraphExecKernelNodeSetParams", status)


class Module:
    """A CUDA module, unloaded when it is no longer referenced."""

    def __init__(self, cubin: bytes) -> None:
        self.handle = call("cuModuleLoadData", cubin)
        self.context = call("cuCtxGetCurrent")

    def __del__(self, call: Any = call, current_context: Any = current_context, error: Any = CudaError) -> None:
        if hasattr(self, "context"):
            try:
                with current_context(self.context):
                    call("cuModuleUnload", self.handle)
            except (error, TypeError):
                return


def load(cubin: bytes, name: str, warps: int, shared: int) -> Function:
    """Loads a kernel; shared memory beyond the default is enabled explicitly."""
    module = Module(cubin)
    handle = call("cuModuleGetFunction", module.handle, name.encode())
    if shared > DEFAULT_SHARED_BYTES:
        attribute = _cuda().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuFuncSetAttribute", handle, attribute, shared)
    return Function(handle, name, warps * WARP, shared, module)


class Parameters:
    """The arguments of a launch in memory, in slots of 8 bytes, and the array of pointers to them.

    `others` are addresses of further arguments, inserted before the last two, which Triton adds.
    """

    def __init__(self, count: int, others: Sequence[int] = ()) -> None:
        self.slots = (ctypes.c_int64 * count)()
        base = ctypes.addressof(self.slots)
        addresses = [base + 8 * i for i in range(count)]
        addresses[count - 2 : count - 2] = others
        self.pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        self.address = ctypes.addressof(self.pointers)


def encode_tensor_map(target: int, address: int, how: tuple[Any, ...]) -> None:
    """Encodes the tensor map of device memory at `address` into host memory at `target`.

    `how` are the arguments that `TensorMap` computes for `cuTensorMapEncodeTiled`.
    """
    kind, rank, *rest = how
    head = ctypes.c_void_p(target), kind, rank, ctypes.c_void_p(address)
    status = _library().cuTensorMapEncodeTiled(*head, *rest)
    if status != 0:
        raise error_of_status("cuTensorMapEncodeTiled", status)


def memcpy_params(target: int, source: int, size: int) -> Any:
    """The `CUDA_MEMCPY3D` parameters of a copy of one row of bytes on the device."""
    params = _cuda().CUDA_MEMCPY3D()
    device = _cuda().CUmemorytype.CU_MEMORYTYPE_DEVICE
    params.srcMemoryType, params.dstMemoryType, params.srcDevice, params.dstDevice = device, device, source, target
    params.WidthInBytes, params.Height, params.Depth = size, 1, 1
    return params
