"""Ranks with a GPU each: the one module that loads NCCL.

Arrays here are NumPy arrays over device memory: only their addresses, shapes and strides are used. NCCL is
loaded when a program of several GPUs is first compiled. Ranks exchange the unique id of NCCL over the transports of
the world, which also carry out on the host what NCCL does not offer.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.runtime.collectives.transport import Array, Messages, Transport, World, WorldError, aligned_bytes
from oneflow.runtime.cuda import driver

#: The `ncclDataType_t` of element types; other types are moved as bytes and not added.
TYPES = {
    "int8": 0, "uint8": 1, "bool": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
#: The variable in which launchers set the visible GPUs; a rank that sees one GPU has it for itself.
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: The largest pitch in bytes of a copy of rows by the driver.
MAX_PITCH = 2**31 - 1
BYTES, REDUCTIONS = 1, {"sum": 0, "max": 2}
SIZE, POINTER, NUMBER = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
#: The variable with the path of NCCL, for machines without NVIDIA's package, and the name of the file.
LIBRARY, FILE = "ONEFLOW_NCCL_LIBRARY", "libnccl.so.2"


class UniqueId(ctypes.Structure):
    """`ncclUniqueId`."""

    _fields_ = (("data", ctypes.c_byte * 128),)


#: The called functions with the types of their arguments; all return a status.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
    "ncclCommInitRank": (ctypes.POINTER(POINTER), NUMBER, UniqueId, NUMBER),
    "ncclAllReduce": (POINTER, POINTER, SIZE, NUMBER, NUMBER, POINTER, POINTER),
    "ncclReduceScatter": (POINTER, POINTER, SIZE, NUMBER, NUMBER, POINTER, POINTER),
    "ncclReduce": (POINTER, POINTER, SIZE, NUMBER, NUMBER, NUMBER, POINTER, POINTER),
    "ncclAllGather": (POINTER, POINTER, SIZE, NUMBER, POINTER, POINTER),
    "ncclBroadcast": (POINTER, POINTER, SIZE, NUMBER, NUMBER, POINTER, POINTER),
    "ncclSend": (POINTER, SIZE, NUMBER, NUMBER, POINTER, POINTER),
    "ncclRecv": (POINTER, SIZE, NUMBER, NUMBER, POINTER, POINTER),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}


def candidates() -> list[str]:
    """The files from which NCCL may be loaded: the named file, or the files of packages, the environment and the
    system.
    """
    named = os.environ.get(LIBRARY)
    if named:
        return [named]
    patterns = [f"{package}/lib/{FILE}" for package in ("nvidia/nccl", "nvidia/*", "torch")]
    files = [f for pattern in patterns for folder in sys.path for f in sorted(Path(folder or ".").glob(pattern))]
    own = Path(sys.prefix) / "lib" / FILE
    return [*dict.fromkeys(map(str, files)), *([str(own)] if own.exists() else []), FILE]


#: With buffer registration, NCCL would require all ranks to capture the same runs.
REGISTER = "NCCL_GRAPH_REGISTER"


@functools.cache
def library() -> Any:
    """NCCL, from the first of `candidates` that loads.

    Raises:
        WorldError: NCCL is not installed.
    """
    os.environ.setdefault(REGISTER, "0")
    failures = []
    for file in candidates():
        try:
            return _declared(ctypes.CDLL(file))
        except (OSError, AttributeError) as error:
            failures.append(str(error))
    raise WorldError(
        f"expected NCCL for ranks on GPUs (pip install nvidia-nccl-cu13, or ${LIBRARY}): {'; '.join(failures)}"
    )


def _declared(loaded: Any) -> Any:
    """The library with declared function types."""
    for name, types in FUNCTIONS.items():
        getattr(loaded, name).argtypes = types
    loaded.ncclGetErrorString.restype = loaded.ncclGetLastError.restype = ctypes.c_char_p
    loaded.ncclGetLastError.argtypes = (POINTER,)
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Calls NCCL.

    Raises:
        WorldError: the call fails.
    """
    status = getattr(library(), name)(*arguments)
    if status != 0:
        known = (library().ncclGetErrorString(status), library().ncclGetLastError(None))
        text = ": ".join(t.decode(errors="replace").strip() for t in known if t)
        raise WorldError(f"{name}: {text}; NCCL_DEBUG=WARN says more")


@contextlib.contextmanager
def group_calls() -> Iterator[None]:
    """An NCCL group: calls that NCCL executes as one. The group is closed after a failure, too."""
    call("ncclGroupStart")
    try:
        yield
    finally:
        call("ncclGroupEnd")


class NcclTransport(Transport):
    """Collectives by an NCCL communicator of the group, enqueued on `stream`.

    Args:
        host: the transport between the same members for host arrays.
        index: the index of this member.
        count: the number of members.
    """

    sums_16_bit, max_packed_bytes = True, 0

    def __init__(self, host: Transport, index: int, count: int) -> None:
        self._host, self.index, self.count = host, index, count
        self.stream: Any = 0
        self._workspace = 0
        self._communicator = POINTER()
        name = UniqueId()
        if index == 0:
            call("ncclGetUniqueId", ctypes.byref(name))
        host.broadcast(np.ctypeslib.as_array(name.data).view(np.uint8), 0)
        call("ncclCommInitRank", ctypes.byref(self._communicator), count, name, index)

    @property
    def host(self) -> Transport:
        """The transport of the world between the same members."""
        return self._host

    @contextlib.contextmanager
    def on_stream(self, stream: Any, workspace: int = 0) -> Iterator[None]:
        """Enqueues the calls of the block on a stream; `workspace` has the `packing_bytes` of the collective."""
        self.stream, self._workspace = stream, workspace
        yield
        self._workspace = 0

    def _call(self, name: str, *arguments: Any) -> None:
        call(name, *arguments, self._communicator, self.stream)

    def grouped(self) -> contextlib.AbstractContextManager[None]:
        """An NCCL group: NCCL fuses consecutive reductions into one kernel, without the copies of packing."""
        return group_calls()

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> Array:
        """Device memory, valid until the collective is done."""
        count = int(np.prod(shape)) * dtype.itemsize
        if not count:
            return np.empty(shape, dtype)
        assert self._workspace, "expected a workspace to pack into"
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(self._workspace))
        array: Array = memory.view(dtype).reshape(shape)
        self._workspace += aligned_bytes(count)
        return array

    def copy(self, target: Array, source: Array) -> None:
        """A copy on the device, of one block or of rows that are contiguous on both sides."""
        if not source.size:
            return
        size, rows, rest = copy_axes(target, source)
        for index in itertools.product(*(range(n) for n, *_ in rest)):
            to = _address(target) + sum(i * pitch for i, (_, pitch, _) in zip(index, rest, strict=True))
            of = _address(source) + sum(i * pitch for i, (*_, pitch) in zip(index, rest, strict=True))
            if rows is None:
                driver.copy(to, of, size, self.stream)
            else:
                driver.copy_rows((to, rows[1]), (of, rows[2]), size, rows[0], self.stream)

    def clear(self, target: Array) -> None:
        """A fill on the device."""
        if target.size:
            driver.fill(_address(target), b"\0", target.nbytes, 1, self.stream)

    def fetch(self, array: Array) -> Array:
        """A copy on the host, after the work before it is done."""
        copy = np.empty(array.shape, array.dtype)
        if copy.size:
            driver.copy_to_host(copy.ctypes.data, _address(array), copy.nbytes, self.stream)
            driver.synchronize(self.stream)
        return copy

    def store(self, target: Array, array: Array) -> None:
        """A copy from the host."""
        if array.size:
            driver.copy_to_device(_address(target), array.ctypes.data, array.nbytes, self.stream)

    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """`ncclAllReduce`."""
        self._call("ncclAllReduce", *_pair(source, target), source.size, _type(source), REDUCTIONS[reduce])

    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """`ncclReduceScatter`, or one `ncclReduce` for each member if the shards differ in size."""
        kind, ends = _type(source), list(itertools.accumulate(counts))
        if len(set(counts)) == 1:
            self._call("ncclReduceScatter", *_pair(source, target), counts[0], kind, REDUCTIONS["sum"])
            return
        with group_calls():
            for root, (end, count) in enumerate(zip(ends, counts, strict=True)):
                shard = source[end - count : end]
                if count:
                    into = target if root == self.index else shard
                    self._call("ncclReduce", *_pair(shard, into), count, kind, REDUCTIONS["sum"], root)

    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """`ncclAllGather` of bytes, or one `ncclBroadcast` from each member if the shards differ in size."""
        if len(set(counts)) == 1:
            self._call("ncclAllGather", *_pair(source, target), source.nbytes, BYTES)
            return
        with group_calls():
            for root, shard in enumerate(_cut(target, counts)):
                operand = source if root == self.index else shard
                if shard.size:
                    self._call("ncclBroadcast", *_pair(operand, shard), shard.nbytes, BYTES, root)

    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """A send to each member and a receive from each member, in one group."""
        self.exchange(list(enumerate(_cut(source, sent))), list(enumerate(_cut(target, received))))

    def exchange(self, sends: Messages, receives: Messages) -> None:
        """Sends and receives in one group; messages between two members keep their order."""
        with group_calls():
            for receiver, array in sends:
                if array.size:
                    self._call("ncclSend", _address(array), array.nbytes, BYTES, receiver)
            for sender, array in receives:
                if array.size:
                    self._call("ncclRecv", _address(array), array.nbytes, BYTES, sender)

    def broadcast(self, array: Array, root: int) -> None:
        """`ncclBroadcast` of bytes."""
        self._call("ncclBroadcast", *_pair(array, array), array.nbytes, BYTES, root)


class Gpus:
    """The NCCL transports of a world whose ranks have a GPU each, created at first use.

    Raises:
        WorldError: this node has fewer GPUs than ranks, or all ranks run in one process.
    """

    def __init__(self, world: World) -> None:
        self.world, self._transports = world, dict[tuple[int, ...], NcclTransport]()
        local_rank, local_size = world.local_rank_and_size()
        count = driver.device_count()
        if count < local_size and (count != 1 or VISIBLE not in os.environ):
            raise WorldError(f"expected a GPU for each of the {local_size} ranks of this machine, got {count}")
        self.device = driver.device(local_rank % count)
        atexit.register(wait_before_exit, self.device)

    def transport(self, rank: int, members: Sequence[int]) -> NcclTransport:
        """The transport of `rank` to `members`, which include `rank`."""
        key = tuple(members)
        if key not in self._transports:
            self.device.use()
            host = self.world.transport(rank, members)
            with self.world.step(rank, 0, f"the creation of an NCCL communicator of ranks {list(key)}"):
                self._transports[key] = NcclTransport(host, key.index(rank), len(key))
        return self._transports[key]


def wait_before_exit(device: driver.Device) -> None:
    """Waits for a device before this process ends, since other ranks depend on its collectives."""
    with contextlib.suppress(driver.CudaError):
        device.use()
        driver.synchronize_context()


@functools.cache
def gpus(world: World) -> Gpus:
    """The GPUs of a world.

    Raises:
        WorldError: there are too few GPUs, or NCCL is not installed.
    """
    return Gpus(world)


def _address(array: Array) -> int:
    return int(array.ctypes.data)


def _pair(source: Array, target: Array) -> tuple[int, int]:
    return _address(source), _address(target)


def _type(array: Array) -> int:
    try:
        return TYPES[array.dtype.name]
    except KeyError:
        raise WorldError(f"expected a type that NCCL adds ({', '.join(TYPES)}), got {array.dtype.name}") from None


def _cut(array: Array, counts: Sequence[int]) -> list[Array]:
    return [array[e - n : e] for e, n in zip(itertools.accumulate(counts), counts, strict=True)]


#: A dimension of a copy: the number of elements, and the bytes between them in the target and in the source.
Axis = tuple[int, int, int]


def copy_axes(target: Array, source: Array, max_pitch: int = MAX_PITCH) -> tuple[int, Axis | None, list[Axis]]:
    """A copy as a block of bytes, rows of blocks of a pitch up to `max_pitch` bytes, and the remaining axes.

    Axes that are dense on both sides are merged.
    """
    size, axes = source.itemsize, list[Axis]()
    for count, to, of in zip(source.shape[::-1], target.strides[::-1], source.strides[::-1], strict=True):
        if count == 1:
            continue
        rows, *pitches = axes[-1] if axes else (1, size, size)
        follows = (to, of) == (rows * pitches[0], rows * pitches[1])
        if follows and axes:
            axes[-1] = (rows * count, *pitches)
        elif follows:
            size *= count
        else:
            axes.append((count, to, of))
    if not axes or max(axes[0][1:]) > max_pitch:
        return size, None, axes[::-1]
    return size, axes[0], axes[:0:-1]
