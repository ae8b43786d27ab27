"""A fake CUDA driver on host memory, whose kernels run in Triton's interpreter.

    with host_cuda() as cuda:
        flow.compile(f, device="cuda")(x)
        assert not cuda.live

The module has the functions of `cuda.bindings.driver` that `runtime.cuda.driver` calls. A copy or a fill outside an
allocated block fails. Captured work runs when its graph is launched.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import struct
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from unittest import mock

import numpy as np

from oneflow.frontend.eager.tensor import BUILDER
from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda import driver, kernel_cache
from oneflow.runtime.cuda import stream as streams
from oneflow.runtime.cuda.compile_workers import CompileWorkers
from oneflow.runtime.cuda.compiler import Binary
from oneflow.runtime.cuda.launches import LaunchConfig
from oneflow.runtime.user_ops.kernel_interpreter import interpreting
from oneflow.testing import host_tensor_maps
from oneflow.testing.host_graphs import SUCCESS, HostGraphs
from oneflow.testing.triton_interpreter import interpret_kernel

NO_CONTEXT = (types.SimpleNamespace(name="CUDA_ERROR_INVALID_CONTEXT"),)
INVALID: tuple[Any, ...] = (types.SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE"),)
#: Attributes of an A100, for which kernels have no specialized forms; those cannot be interpreted.
A100 = {"COMPUTE_CAPABILITY_MAJOR": 8, "MULTIPROCESSOR_COUNT": 108}
EXHAUSTED = (types.SimpleNamespace(name="CUDA_ERROR_OUT_OF_MEMORY"),)


#: The status of a launch whose kernel has raised an exception.
RAISED = 719
#: A launch by the C interface: configuration, function, pointers to arguments, and a null pointer.
in_c = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)


class _Names:
    """An enumeration whose members equal their names."""

    def __getattr__(self, name: str) -> str:
        return name


class _Params(types.SimpleNamespace):
    """A structure of the driver."""


class HostCuda(HostGraphs):
    """The driver.

    Attributes:
        live: the allocated blocks by address.
        log: the names of called functions.
        limit: the bytes that can be allocated.
        attributes: of each device, by the names of the driver without their prefix; others are 0.
        pending_frees: the bytes that a stream has freed and that other streams get after a synchronization of the
            host.
        is_busy: while true, no event completes.
        stream_waits: the pairs of streams of which the second waits for the first.
        captured_work: the work of streams that are capturing.
    """

    CU_MEMHOSTALLOC_DEVICEMAP = CU_MEMHOSTALLOC_PORTABLE = 0
    cuuint64_t = int
    #: Pinned memory is shared by all drivers: programs of an earlier driver may be freed later.
    pinned: ClassVar[dict[int, np.ndarray]] = {}
    CUgraphInstantiate_flags = types.SimpleNamespace(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY=8)
    CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUDA_KERNEL_NODE_PARAMS = CUDA_MEMCPY3D = CUDA_MEMSET_NODE_PARAMS = _Params

    def __init__(self, devices: int = 1, limit: int = 1 << 32, attributes: Mapping[str, int] = A100) -> None:
        super().__init__()
        self.devices, self.limit, self.attributes = devices, limit, attributes
        self.live: dict[int, np.ndarray] = {}
        self.pending_frees: collections.Counter[int] = collections.Counter()
        self.stream_waits: list[tuple[int, int]] = []
        self.modules: dict[int, Source] = {}
        self.events: dict[int, int] = {}
        self.streams: set[int] = set()
        self.captured_work: dict[int, list[Callable[[], tuple[Any, ...]]]] = {}
        self.peak, self._contexts, self.is_busy = 0, threading.local(), False
        self.raised: BaseException | None = None
        self.cuLaunchKernelEx = in_c(self.launch)

    def __getattr__(self, name: str) -> Any:
        """Enumerations, and functions that do nothing here."""
        if not name.startswith("cu"):
            return _Names()
        if name.removeprefix("cu") in _NOTHING:
            return lambda *_: SUCCESS
        raise AttributeError(name)

    def cuGetErrorString(self, status: Any) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"made of host memory"

    def cuDeviceGetCount(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.devices

    def cuDeviceGet(self, number: int) -> tuple[int, int]:  # noqa: N802
        return 0, number

    def cuDevicePrimaryCtxRetain(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return 0, handle + 1

    def cuDeviceGetDefaultMemPool(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return 0, handle

    def cuDeviceGetAttribute(self, name: str, handle: int) -> tuple[int, int]:  # noqa: N802
        return 0, self.attributes.get(name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuDeviceGetName(self, length: int, handle: int) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"host memory".ljust(length, b"\0")

    def cuDeviceTotalMem(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return 0, self.limit

    @property
    def contexts(self) -> list[int]:
        """The stack of contexts of the calling thread; the last is current."""
        stack: list[int] = self._contexts.__dict__.setdefault("stack", [])
        return stack

    def cuCtxSetCurrent(self, context: int) -> tuple[Any, ...]:  # noqa: N802
        self.contexts[-1:] = [context]
        return SUCCESS

    def cuCtxPushCurrent(self, context: int) -> tuple[Any, ...]:  # noqa: N802
        self.contexts.append(context)
        return SUCCESS

    def cuCtxPopCurrent(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.contexts.pop()

    def cuCtxGetCurrent(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.contexts[-1] if self.contexts else 0

    def cuCtxSynchronize(self) -> tuple[Any, ...]:  # noqa: N802
        self.pending_frees.clear()
        return SUCCESS if self.contexts else NO_CONTEXT

    def cuMemPoolGetAttribute(self, pool: int, name: str) -> tuple[int, int]:  # noqa: N802
        return 0, self.peak if "HIGH" in name else self._used()

    def cuMemGetInfo(self) -> tuple[int, int, int]:  # noqa: N802
        return 0, self.limit - self._used(), self.limit

    def _used(self) -> int:
        return sum(b.size for b in self.live.values())

    def cuStreamCreate(self, flags: int) -> tuple[int, int]:  # noqa: N802
        number = next(self.numbers)
        self.streams.add(number)
        return 0, number

    def cuCtxGetStreamPriorityRange(self) -> tuple[int, int, int]:  # noqa: N802
        return 0, 0, -5

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[int, int]:  # noqa: N802
        return self.cuStreamCreate(flags)

    def cuStreamDestroy(self, handle: int) -> tuple[Any, ...]:  # noqa: N802
        self.streams.discard(handle)
        return SUCCESS

    def cuStreamBeginCapture(self, handle: int, mode: Any) -> tuple[Any, ...]:  # noqa: N802
        self.log.append("record")
        self.captured_work[handle] = []
        return SUCCESS

    def cuStreamEndCapture(self, handle: int) -> tuple[int, int]:  # noqa: N802
        number = next(self.numbers)
        self.graphs[number] = [[[], self.captured_work.pop(handle)]]
        return 0, number

    def enqueue(self, handle: Any, act: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Runs work of a stream at once, or captures the work."""
        recorded = self.captured_work.get(int(handle or 0))
        if recorded is None:
            return act()
        recorded.append(act)
        return SUCCESS

    def cuStreamSynchronize(self, handle: int) -> tuple[Any, ...]:  # noqa: N802
        if handle in self.captured_work:
            return INVALID
        self.pending_frees.pop(int(handle), None)
        return SUCCESS

    def cuEventCreate(self, flags: Any) -> tuple[int, int]:  # noqa: N802
        return 0, next(self.numbers)

    def cuEventRecord(self, event: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        self.events[event] = int(handle)
        return SUCCESS

    def cuEventQuery(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        return (driver.NOT_READY,) if self.is_busy else SUCCESS

    def cuEventElapsedTime(self, begin: int, end: int) -> tuple[int, float]:  # noqa: N802
        return 0, 0.0

    def cuEventDestroy(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        return SUCCESS

    def cuStreamWaitEvent(self, handle: int, event: int, flags: int) -> tuple[Any, ...]:  # noqa: N802
        self.stream_waits.append((self.events[event], int(handle)))
        return SUCCESS

    def cuMemAllocAsync(self, size: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        if handle in self.captured_work:
            return INVALID
        reserved = sum(freed for stream, freed in self.pending_frees.items() if stream != int(handle))
        if self._used() + reserved + size > self.limit:
            return EXHAUSTED
        allocation = np.full(size + 256, 0xAB, np.uint8)
        start = -allocation.ctypes.data % 256
        block = allocation[start : start + size]
        self.live[block.ctypes.data] = block
        self.peak = max(self.peak, self._used())
        return 0, block.ctypes.data

    def cuMemFreeAsync(self, address: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        block = self.live.pop(address, None) if handle in self.streams else None
        if block is None:
            return INVALID
        self.pending_frees[int(handle)] += block.size
        return SUCCESS

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[int, int]:  # noqa: N802
        block = np.full(size, 0xAB, np.uint8)
        self.pinned[block.ctypes.data] = block
        return 0, block.ctypes.data

    def cuMemFreeHost(self, address: int) -> tuple[Any, ...]:  # noqa: N802
        return INVALID if self.pinned.pop(address, None) is None else SUCCESS

    def cuPointerGetAttribute(self, name: str, address: int) -> tuple[Any, ...]:  # noqa: N802
        return (0, 0) if "ORDINAL" in name else INVALID

    def cuPointerGetAttributes(self, count: int, names: Sequence[str], address: int) -> tuple[Any, ...]:  # noqa: N802
        return 0, [0] * count

    def _is_live(self, address: int, size: int) -> bool:
        return any(a <= address and address + size <= a + b.size for a, b in self.live.items())

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        return self._move(target, source, size, target)

    def cuMemcpyDtoHAsync(self, target: int, source: int, size: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        return self._move(target, source, size, source)

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append("copy")
        return self.enqueue(handle, lambda: self._move(target, source, size, target, source))

    def cuMemcpy3DAsync(self, params: Any, handle: int) -> tuple[Any, ...]:  # noqa: N802
        assert min(params.srcPitch, params.dstPitch) >= params.WidthInBytes
        self.log.append("copy")
        return self.enqueue(handle, lambda: self._move_rows(params))

    def _move_rows(self, params: Any) -> tuple[Any, ...]:
        for row in range(params.Height):
            target, source = params.dstDevice + row * params.dstPitch, params.srcDevice + row * params.srcPitch
            if self._move(target, source, params.WidthInBytes, target, source) != SUCCESS:
                return INVALID
        return SUCCESS

    def _move(self, target: int, source: int, size: int, *device_addresses: int) -> tuple[Any, ...]:
        if not all(self._is_live(p, size) for p in device_addresses):
            return INVALID
        ctypes.memmove(target, source, size)
        return SUCCESS

    def cuMemsetD8Async(self, target: int, value: int, count: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        return self.enqueue(handle, lambda: self._set(target, value, 1, count, 1))

    def cuMemsetD16Async(self, target: int, value: int, count: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        return self._set(target, value, 2, count, 2)

    def cuMemsetD32Async(self, target: int, value: int, count: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        return self._set(target, value, 4, count, 4)

    def cuMemsetD2D32Async(  # noqa: N802
        self, target: int, pitch: int, value: int, width: int, height: int, handle: int
    ) -> tuple[Any, ...]:
        assert width == 1
        return self._set(target, value, 4, height, pitch)

    def _set(self, target: int, value: int, size: int, count: int, pitch: int) -> tuple[Any, ...]:
        if not self._is_live(target, pitch * (count - 1) + size):
            return INVALID
        pattern = value.to_bytes(size, "little")
        if pitch == size:
            pattern, count = pattern * count, 1
        for number in range(count):
            ctypes.memmove(target + number * pitch, pattern, len(pattern))
        return SUCCESS

    def cuModuleLoadData(self, cubin: bytes) -> tuple[int, int]:  # noqa: N802
        number = next(self.numbers)
        self.modules[number] = Source.from_dict(json.loads(cubin))
        return 0, number

    def cuModuleUnload(self, module: int) -> tuple[Any, ...]:  # noqa: N802
        if not self.contexts:
            return NO_CONTEXT
        return INVALID if self.modules.pop(module, None) is None else SUCCESS

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int, int]:  # noqa: N802
        return 0, module

    cuTensorMapEncodeTiled = staticmethod(host_tensor_maps.encode)  # noqa: N815

    def launch(self, config: int, function: int, parameters: int, extra: None) -> int:
        """`cuLaunchKernelEx`. An exception of a kernel cannot pass through C, so the exception is stored."""
        self.log.append("launch")
        try:
            blocks = LaunchConfig.from_address(config).blocks
            self._run(function, blocks[0], self._arguments(function, parameters))
        except BaseException as error:
            self.raised = error
            return RAISED
        return 0

    def CUresult(self, status: int) -> Any:  # noqa: N802
        """A status of the library, in the form of the bindings.

        Raises:
            BaseException: a kernel has raised the exception.
        """
        if status == RAISED and self.raised is not None:
            raise self.raised
        return status

    def _arguments(self, function: int, parameters: int) -> list[Any]:
        """The values that an array of pointers leads to."""
        source, kinds = self.modules[function], [kind for _, kind in self.modules[function].parameters]
        pointers = (ctypes.c_void_p * len(kinds)).from_address(parameters)
        values = [_unpacked(kind, ctypes.string_at(p, 8)) for kind, p in zip(kinds, pointers, strict=True)]
        host_tensor_maps.check(source, parameters + ctypes.sizeof(pointers), values)
        return values

    def _run(self, function: int, programs: int, arguments: Sequence[Any]) -> None:
        source = self.modules[function]
        named = dict(zip((p.name for p in source.parameters), arguments, strict=True))
        assert programs == source.grid.value(named), f"{source.name}: {programs} programs"
        with interpreting():
            interpret_kernel(source, arguments)


_NOTHING = """Init MemPoolSetAttribute MemPoolTrimTo FuncSetAttribute
    GraphExecDestroy GraphDestroy""".split()


def _unpacked(kind: str, data: bytes) -> Any:
    if kind in ("fp32", "fp64"):
        return struct.unpack("<fxxxx" if kind == "fp32" else "<d", data)[0]
    value = struct.unpack("<q", data)[0]
    width = {"i1": 1, "i8": 8, "i16": 16, "i32": 32}.get(kind, 64)
    return (value & 1) if width == 1 else (value + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def _compile(source: Source, arch: str) -> Binary:
    text, maps = json.dumps(source.to_dict()), host_tensor_maps.maps_of(source)
    return Binary(source.name, text.encode(), "", 0, source.warps, 0, maps)


@contextlib.contextmanager
def host_cuda(devices: int = 1, limit: int = 1 << 32, attributes: Mapping[str, int] = A100) -> Iterator[HostCuda]:
    """Installs the fake driver in this process."""
    driver_of_host = HostCuda(devices, limit, attributes)
    before = dict(driver._devices)
    _forget()
    with (
        mock.patch.multiple(driver, _cuda=lambda: driver_of_host, _library=lambda: driver_of_host),
        mock.patch.object(kernel_cache, "compile_source", _compile),
        mock.patch.object(CompileWorkers, "start"),
    ):
        try:
            yield driver_of_host
        finally:
            _forget()
            driver._devices.update(before)


def _forget() -> None:
    driver._devices.clear()
    driver.device_count.cache_clear()
    kernel_cache.warm_up.cache_clear()
    driver._events.__dict__.clear()
    streams.default.cache_clear()
    BUILDER.forget_device_kernels()
