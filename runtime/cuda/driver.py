"""The one module that imports CUDA: the calls of the driver that programs need, errors as exceptions.

`cuda.bindings` is imported when a device is first asked for. Streams, events and addresses are the driver's handles,
or plain integers.
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

from oneflow.lowering.targets.choice import gpu_target_named
from oneflow.lowering.targets.gpu import GpuTarget

HINT = "expected an NVIDIA GPU, its driver, and CUDA's Python bindings (pip install 'oneflow-mlir[gpu]')"
#: The handle of the stream that work without a stream goes to.
LEGACY = 1
#: The status of an event that has not passed yet.
NOT_READY = 600


class CudaError(RuntimeError):
    """There is no device, or a call of the driver failed."""


class OutOfMemoryError(CudaError, MemoryError):
    """The device has less memory than was asked for."""


@functools.cache
def _cuda() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CudaError(f"{HINT}: {error}") from error


@functools.cache
def _library() -> Any:
    """The driver without its bindings, for what is called for every kernel: they take as long as it does."""
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> Any:
    """What a function of the driver gives besides its status: nothing, a value, or a tuple.

    Raises:
        OutOfMemoryError: the device has no more memory.
        CudaError: the status is not success.
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
    """How many devices there are.

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
    """A device by its number; its primary context is shared with other libraries of the process."""

    number: int
    handle: Any
    context: Any
    pool: Any

    def __str__(self) -> str:
        return f"cuda:{self.number}"

    @functools.cached_property
    def arch(self) -> str:
        """The architecture, such as sm_90."""
        kinds = _cuda().CUdevice_attribute
        major = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self.handle)
        minor = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self.handle)
        return f"sm_{major}{minor}"

    @functools.cached_property
    def target(self) -> GpuTarget:
        """What kernels for the device are compiled for.

        Raises:
            ValueError: the architecture is not in the table of targets.
        """
        name = _cuda().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        return gpu_target_named(self.arch, int(call("cuDeviceGetAttribute", name, self.handle)))

    def use(self) -> None:
        """Makes the device's context current in the calling thread."""
        (status,) = _cuda().cuCtxSetCurrent(self.context)
        if status != 0:
            raise _failure("cuCtxSetCurrent", status)

    def memory(self) -> tuple[int, int]:
        """The bytes in use by this process's arrays and programs, and the most that were since `reset_peak`."""
        kinds = _cuda().CUmemPool_attribute
        names = (kinds.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, kinds.CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        now, peak = (int(call("cuMemPoolGetAttribute", self.pool, name)) for name in names)
        return now, peak

    def reset_peak(self) -> None:
        """Counts the peak of `memory` from here on."""
        kind = _cuda().CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_HIGH
        call("cuMemPoolSetAttribute", self.pool, kind, _cuda().cuuint64_t(0))

    def trim(self) -> None:
        """Gives memory that no array uses back to the system."""
        self.use()
        call("cuCtxSynchronize")
        call("cuMemPoolTrimTo", self.pool, 0)


_opening = threading.Lock()
_devices: dict[int, Device] = {}


def device(number: int = 0) -> Device:
    """A device by number.

    Raises:
        CudaError: there is none.
    """
    found = _devices.get(number)
    if found is None:
        with _opening:
            found = _devices.get(number) or _devices.setdefault(number, _open(number))
    return found


def _open(number: int) -> Device:
    count = device_count()
    if not 0 <= number < count:
        raise CudaError(f"expected a CUDA device cuda:{number}, the machine has {count or 'none'}")
    handle = call("cuDeviceGet", number)
    context = call("cuDevicePrimaryCtxRetain", handle)
    pool = call("cuDeviceGetDefaultMemPool", handle)
    # Without this every synchronization would give what is free back to the system.
    threshold = _cuda().CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    call("cuMemPoolSetAttribute", pool, threshold, _cuda().cuuint64_t(2**64 - 1))
    found = Device(number, handle, context, pool)
    found.use()
    return found


@contextlib.contextmanager
def within(context: Any) -> Iterator[None]:
    """Makes a context current in the calling thread for a while: things are freed in any thread, amid other work."""
    call("cuCtxPushCurrent", context)
    try:
        yield
    finally:
        call("cuCtxPopCurrent")


def make_stream() -> Any:
    """A stream; like those of other libraries it and the legacy stream wait for each other."""
    return call("cuStreamCreate", 0)


def make_urgent_stream() -> Any:
    """A stream that waits for no other, whose work goes ahead of that of others."""
    _, first = call("cuCtxGetStreamPriorityRange")
    return call("cuStreamCreateWithPriority", int(_cuda().CUstream_flags.CU_STREAM_NON_BLOCKING), first)


def wait() -> None:
    """Waits until everything on the device is done."""
    call("cuCtxSynchronize")


def synchronize(stream: Any) -> None:
    """Waits until a stream has done its work."""
    call("cuStreamSynchronize", stream)


_events = threading.local()


def make_event() -> Any:
    """An event that can be recorded again and again."""
    return call("cuEventCreate", _cuda().CUevent_flags.CU_EVENT_DISABLE_TIMING)


def record(event: Any, stream: Any) -> None:
    """Has an event pass when a stream has done what it was given."""
    call("cuEventRecord", event, stream)


def has_passed(event: Any) -> bool:
    """Whether what an event was recorded for has been done."""
    (status,) = _cuda().cuEventQuery(event)
    if status not in (0, NOT_READY):
        raise _failure("cuEventQuery", status)
    return bool(status == 0)


def order(before: Any, after: Any) -> None:
    """What `after` is given from here on waits for what `before` has been given."""
    context = int(call("cuCtxGetCurrent"))
    known = _events.__dict__.setdefault("by_context", {})
    if context not in known:
        known[context] = make_event()
    record(known[context], before)
    call("cuStreamWaitEvent", after, known[context], 0)


def allocate(size: int, stream: Any) -> int:
    """Device memory from the stream's pool; at least one byte."""
    try:
        return int(call("cuMemAllocAsync", max(size, 1), stream))
    except OutOfMemoryError as error:
        raise OutOfMemoryError(f"expected {size} bytes of device memory; {error}") from None


def free(address: int, stream: Any) -> None:
    """Gives memory back when the stream gets there."""
    call("cuMemFreeAsync", address, stream)


def host_words(count: int) -> Any:
    """An array of 64-bit words of the host that kernels reach under the same address; zeroed, kept for good."""
    kinds = _cuda()
    flags = kinds.CU_MEMHOSTALLOC_DEVICEMAP | kinds.CU_MEMHOSTALLOC_PORTABLE
    words = (ctypes.c_int64 * count).from_address(int(call("cuMemHostAlloc", 8 * count, flags)))
    ctypes.memset(ctypes.addressof(words), 0, 8 * count)
    return words


def release_words(words: Any) -> None:
    """Gives the memory of `host_words` back."""
    call("cuMemFreeHost", ctypes.addressof(words))


def is_pinned(address: int) -> bool:
    """Whether host memory is known to the driver, which then reads it later than a copy is asked for."""
    kind = _cuda().CUpointer_attribute.CU_POINTER_ATTRIBUTE_HOST_POINTER
    (pointer,) = call("cuPointerGetAttributes", 1, [kind], address)
    return bool(pointer)


def device_of(address: int) -> int:
    """The number of the device that memory is on."""
    kind = _cuda().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    device_count()
    return int(call("cuPointerGetAttribute", kind, address))


def copy_in(target: int, source: int, size: int, stream: Any) -> None:
    """Host memory to the device; the host may write to it as soon as this returns."""
    call("cuMemcpyHtoDAsync", target, source, size, stream)
    if is_pinned(source):
        synchronize(stream)


def copy_out(target: int, source: int, size: int, stream: Any) -> None:
    """Device memory to the host."""
    call("cuMemcpyDtoHAsync", target, source, size, stream)


def copy(target: int, source: int, size: int, stream: Any) -> None:
    """Device memory to device memory."""
    call("cuMemcpyDtoDAsync", target, source, size, stream)


def copy_rows(target: tuple[int, int], source: tuple[int, int], size: int, count: int, stream: Any) -> None:
    """`count` rows of `size` bytes on the device; both sides are an address and the bytes between rows."""
    made = copy_params(target[0], source[0], size)
    made.Height = made.srcHeight = made.dstHeight = count
    made.dstPitch, made.srcPitch = target[1], source[1]
    call("cuMemcpy3DAsync", made, stream)


def fill(target: int, pattern: bytes, count: int, pitch: int, stream: Any) -> None:
    """`count` times a pattern of 1, 2 or 4 bytes, `pitch` bytes apart; only those of 4 may have gaps."""
    value = int.from_bytes(pattern, "little")
    if pitch != len(pattern):
        call("cuMemsetD2D32Async", target, pitch, value, 1, count, stream)
        return
    name = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}[len(pattern)]
    call(name, target, value, count, stream)


@dataclass(frozen=True)
class Function:
    """A kernel on the device, ready to launch; `module` goes with the last of its kernels."""

    handle: Any
    name: str
    threads: int
    shared: int
    module: Any


def launcher() -> Any:
    """The driver's function that launches a kernel, to be called from C."""
    return _library().cuLaunchKernelEx


def refusal(name: str, status: int) -> CudaError:
    """The error of a function of the library that gave a status."""
    return _failure(name, _cuda().CUresult(status))


def launch_graph(program: Any, stream: Any) -> None:
    """Launches a graph."""
    (status,) = _cuda().cuGraphLaunch(program, stream)
    if status != 0:
        raise _failure("cuGraphLaunch", status)


def change_launch(program: Any, node: Any, launch: Any) -> None:
    """Has a launch in a graph take other parameters."""
    (status,) = _cuda().cuGraphExecKernelNodeSetParams(program, node, launch)
    if status != 0:
        raise _failure("cuGraphExecKernelNodeSetParams", status)


class Module:
    """Machine code on a device, unloaded with the last that holds it."""

    def __init__(self, cubin: bytes) -> None:
        self.handle = call("cuModuleLoadData", cubin)
        self.context = call("cuCtxGetCurrent")

    def __del__(self, call: Any = call, within: Any = within, error: Any = CudaError) -> None:
        if hasattr(self, "context"):
            try:
                with within(self.context):
                    call("cuModuleUnload", self.handle)
            except (error, TypeError):
                return


def load(cubin: bytes, name: str, warps: int, shared: int) -> Function:
    """A kernel of a compiled module; more shared memory than 48 KB is asked for."""
    module = Module(cubin)
    handle = call("cuModuleGetFunction", module.handle, name.encode())
    if shared > 48 * 1024:
        attribute = _cuda().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuFuncSetAttribute", handle, attribute, shared)
    return Function(handle, name, warps * 32, shared, module)


class Parameters:
    """Arguments of a launch in memory, as the driver takes them: a slot of 8 bytes each.

    `others` are the addresses of more of them, before the last two, which are Triton's.
    """

    def __init__(self, count: int, others: Sequence[int] = ()) -> None:
        self.slots = (ctypes.c_int64 * count)()
        base = ctypes.addressof(self.slots)
        places = [base + 8 * i for i in range(count)]
        places[count - 2 : count - 2] = others
        self.pointers = (ctypes.c_void_p * len(places))(*places)
        self.address = ctypes.addressof(self.pointers)


def encode(target: int, address: int, how: tuple[Any, ...]) -> None:
    """Writes the tensor map of memory at an address, described by `maps.tiled`, to memory of the host."""
    kind, rank, *rest = how
    place = ctypes.c_void_p(target), kind, rank, ctypes.c_void_p(address)
    status = _library().cuTensorMapEncodeTiled(*place, *rest)
    if status != 0:
        raise refusal("cuTensorMapEncodeTiled", status)


def copy_params(target: int, source: int, size: int) -> Any:
    """One row of bytes on the device, as the driver takes copies of rows."""
    made = _cuda().CUDA_MEMCPY3D()
    device = _cuda().CUmemorytype.CU_MEMORYTYPE_DEVICE
    made.srcMemoryType, made.dstMemoryType, made.srcDevice, made.dstDevice = device, device, source, target
    made.WidthInBytes, made.Height, made.Depth = size, 1, 1
    return made
