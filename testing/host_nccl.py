"""A fake NCCL on files: ranks, each with the driver of `host_cuda`, exchange messages in a folder.

    with host_cuda(devices=2) as cuda, host_nccl(cuda):
        flow.compile(f, placement=flow.placement("cuda", [0, 1]))(x)

The module has the functions that `runtime.collectives.nccl` calls. Within a group all messages are sent before the
first is awaited, as NCCL allows. Memory outside the device is refused.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from oneflow.dialect import dtypes
from oneflow.runtime.collectives import nccl
from oneflow.testing.host_cuda import HostCuda

#: NumPy dtypes by `ncclDataType_t`.
KINDS = {nccl.TYPES[d.numpy.name]: d.numpy for d in dtypes.DTYPES if d.numpy.name in nccl.TYPES and d.kind != "bool"}
REDUCTIONS: dict[int, Callable[..., Any]] = {0: np.add, 2: np.maximum}
INVALID = 4
#: The seconds after which a receive fails.
TIMEOUT_SECONDS = 60.0


class _Communicator:
    """The folder of messages, and the numbers of messages sent to and received from each member."""

    def __init__(self, folder: Path, count: int, index: int) -> None:
        self.folder, self.count, self.index = folder, count, index
        self.sent, self.received = Counter[int](), Counter[int]()

    def send(self, data: bytes, receiver: int) -> None:
        """Sends a message."""
        file = self.folder / f"{self.index}-{receiver}-{self.sent[receiver]}"
        self.sent[receiver] += 1
        made = file.with_suffix(".part")
        made.write_bytes(data)
        made.rename(file)

    def receive(self, sender: int) -> bytes:
        """Receives the next message of a member."""
        file, limit = (
            self.folder / f"{sender}-{self.index}-{self.received[sender]}",
            time.monotonic() + TIMEOUT_SECONDS,
        )
        self.received[sender] += 1
        while not file.exists():
            assert time.monotonic() < limit, f"no message {file.name}"
            time.sleep(0.001)
        data = file.read_bytes()
        file.unlink()
        return data


class HostNccl:
    """The library. `log` are the names of functions called."""

    def __init__(self, cuda: HostCuda, folder: Path) -> None:
        self.cuda, self.folder, self.log = cuda, folder, list[str]()
        self.known: dict[int, _Communicator] = {}
        self.depth, self.waiting = 0, list[Callable[[], None]]()
        self.error = b""

    def ncclGetErrorString(self, status: int) -> bytes:  # noqa: N802
        return b"made of files"

    def ncclGetLastError(self, _: Any) -> bytes:  # noqa: N802
        return self.error

    def ncclGetUniqueId(self, name: Any) -> int:  # noqa: N802
        ctypes.memmove(name._obj.data, secrets.token_bytes(8), 8)
        return 0

    def ncclCommInitRank(self, made: Any, count: int, name: nccl.UniqueId, index: int) -> int:  # noqa: N802
        folder = self.folder / f"oneflow-nccl-{bytes(name)[:8].hex()}"
        folder.mkdir(exist_ok=True)
        made._obj.value = len(self.known) + 1
        self.known[made._obj.value] = _Communicator(folder, count, index)
        return 0

    def ncclGroupStart(self) -> int:  # noqa: N802
        self.depth += 1
        return 0

    def ncclGroupEnd(self) -> int:  # noqa: N802
        self.depth -= 1
        if not self.depth:
            self._receive_all()
        return 0

    def _receive_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for take in waiting:
            take()

    def _when_received(self, take: Callable[[], None]) -> int:
        """Receives messages now, or at the end of the group."""
        self.waiting.append(take)
        if not self.depth:
            self._receive_all()
        return 0

    def _collective(self, stream: Any, name: str, communicator: Any, *what: Any) -> int:
        """Runs a collective at once, or captures the collective if the stream is capturing."""
        (status,) = self.cuda.enqueue(stream, lambda: (self._run_collective(name, communicator, *what),))
        return int(status)

    def _run_collective(
        self, name: str, communicator: Any, sends: Any, receives: Any, target: int, combine: Any
    ) -> int:
        """Sends `sends` (address, bytes, receiver) and writes the combined received messages to `target`."""
        self.log.append(name)
        at = self.known[communicator.value]
        if not all(self.cuda._is_live(address, size) for address, size, _ in sends):
            self.error = f"{name}: no memory of the device".encode()
            return INVALID
        for address, size, receiver in sends:
            at.send(ctypes.string_at(address, size), receiver)

        def take() -> None:
            data = combine([at.receive(sender) for sender in receives])
            assert not data or self.cuda._is_live(target, len(data)), f"{name}: no memory of the device"
            ctypes.memmove(target, data, len(data))

        return self._when_received(take) if receives else 0

    def ncclSend(self, source: int, count: int, kind: int, peer: int, at: Any, stream: Any) -> int:  # noqa: N802
        return self._collective(stream, "send", at, [(source, count, peer)], [], 0, b"".join)

    def ncclRecv(self, target: int, count: int, kind: int, peer: int, at: Any, stream: Any) -> int:  # noqa: N802
        return self._collective(stream, "receive", at, [], [peer], target, b"".join)

    def ncclAllGather(self, source: int, target: int, count: int, kind: int, at: Any, stream: Any) -> int:  # noqa: N802
        everyone = range(self.known[at.value].count)
        return self._collective(
            stream, "all_gather", at, [(source, count, r) for r in everyone], everyone, target, b"".join
        )

    def ncclBroadcast(self, source: int, target: int, count: int, kind: int, root: int, at: Any, stream: Any) -> int:  # noqa: N802
        known = self.known[at.value]
        sends = [(source, count, r) for r in range(known.count)] if known.index == root else []
        return self._collective(stream, "broadcast", at, sends, [root], target, b"".join)

    def ncclAllReduce(  # noqa: N802
        self, source: int, target: int, count: int, kind: int, how: int, at: Any, stream: Any
    ) -> int:
        everyone, size = range(self.known[at.value].count), count * KINDS[kind].itemsize
        sends = [(source, size, r) for r in everyone]
        return self._collective(
            stream, "all_reduce", at, sends, everyone, target, functools.partial(_combined, kind, how)
        )

    def ncclReduceScatter(  # noqa: N802
        self, source: int, target: int, count: int, kind: int, how: int, at: Any, stream: Any
    ) -> int:
        everyone, size = range(self.known[at.value].count), count * KINDS[kind].itemsize
        sends = [(source + r * size, size, r) for r in everyone]
        return self._collective(
            stream, "reduce_scatter", at, sends, everyone, target, functools.partial(_combined, kind, how)
        )

    def ncclReduce(  # noqa: N802
        self, source: int, target: int, count: int, kind: int, how: int, root: int, at: Any, stream: Any
    ) -> int:
        known, size = self.known[at.value], count * KINDS[kind].itemsize
        receives = range(known.count) if known.index == root else []
        combine = functools.partial(_combined, kind, how)
        return self._collective(stream, "reduce", at, [(source, size, root)], receives, target, combine)


def _combined(kind: int, how: int, terms: list[bytes]) -> bytes:
    arrays = [np.frombuffer(t, KINDS[kind]) for t in terms]
    combined: np.ndarray = functools.reduce(REDUCTIONS[how], arrays)
    return combined.tobytes()


@contextlib.contextmanager
def host_nccl(cuda: HostCuda) -> Iterator[HostNccl]:
    """Installs the fake NCCL in this process; the other processes of the job do the same."""
    made = HostNccl(cuda, Path(tempfile.gettempdir()))
    nccl.gpus.cache_clear()
    try:
        with mock.patch.object(nccl, "library", lambda: made):
            yield made
    finally:
        nccl.gpus.cache_clear()
        atexit.unregister(nccl.wait_before_exit)
        for known in made.known.values():
            with contextlib.suppress(OSError):
                known.folder.rmdir()
