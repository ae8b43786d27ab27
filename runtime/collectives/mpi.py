"""Ranks as processes of an MPI job: the one module that imports mpi4py.

MPI is loaded when a program of several ranks first runs. Calls block inside MPI without the interpreter lock. The
watchdog, a separate process, detects ranks that wait in vain.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from oneflow.runtime import native
from oneflow.runtime.collectives import watchdog
from oneflow.runtime.collectives.progress import COMPUTING, ENDED, FAILED, WAITING, ProgressTable, Row, now
from oneflow.runtime.collectives.transport import Array, Messages, Transport, World, WorldError

T = TypeVar("T")
HINT = "expected mpi4py and an MPI (pip install oneflow-mlir[mpi])"
#: The environment variables in which launchers pass the number of ranks.
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")
#: The seconds between two reads of the progress table by a failed rank.
INTERVAL = 0.01
#: The default of `$ONEFLOW_TIMEOUT`: the seconds that a rank may wait at one step.
TIMEOUT = 600.0


def launched() -> bool:
    """Whether an MPI launcher has started this process, with others or alone."""
    return any(name in os.environ for name in SIZE_VARIABLES)


@functools.cache
def mpi() -> Any:
    """The module `mpi4py.MPI`; the import initializes MPI.

    Raises:
        WorldError: mpi4py is not installed, or finds no MPI.
    """
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise WorldError(f"{HINT}: {error}") from error


def timeout() -> float:
    """The seconds a rank may wait at one step.

    Raises:
        WorldError: `$ONEFLOW_TIMEOUT` is no positive number.
    """
    text = os.environ.get("ONEFLOW_TIMEOUT", str(TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise WorldError(f"expected $ONEFLOW_TIMEOUT to be a positive number of seconds, got {text!r}")
    return seconds


class MpiTransport(Transport):
    """Collectives by an MPI communicator of the group. MPI computes sums; all other data moves as bytes."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm

    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """`MPI_Allreduce`, in place where source and target are one array."""
        operand = mpi().IN_PLACE if source.ctypes.data == target.ctypes.data else source
        self._comm.Allreduce(operand, target, mpi().MAX if reduce == "max" else mpi().SUM)

    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """`MPI_Reduce_scatter`."""
        self._comm.Reduce_scatter(source, target, list(counts))

    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """`MPI_Allgatherv` of bytes."""
        self._comm.Allgatherv(_bytes(source), (_bytes(target), _byte_counts(counts, target)))

    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """`MPI_Alltoallv` of bytes."""
        self._comm.Alltoallv(
            (_bytes(source), _byte_counts(sent, source)), (_bytes(target), _byte_counts(received, target))
        )

    def exchange(self, sends: Messages, receives: Messages) -> None:
        """Nonblocking sends and receives; messages between two members keep their order."""
        requests = [self._comm.Irecv(_bytes(array), sender) for sender, array in receives]
        requests += [self._comm.Isend(_bytes(array), receiver) for receiver, array in sends]
        mpi().Request.Waitall(requests)

    def broadcast(self, array: Array, root: int) -> None:
        """`MPI_Bcast` of bytes."""
        self._comm.Bcast(_bytes(array), root)


def _bytes(array: Array) -> Array:
    return array.view("u1")


def _thread_share(row: int, allowed: Sequence[Set[int]]) -> int:
    """The number of threads of a rank: its allowed processors, divided by the number of ranks that share them."""
    own = allowed[row]
    return max(len(own) // sum(not own.isdisjoint(other) for other in allowed), 1)


def _byte_counts(counts: Sequence[int], array: Array) -> list[int]:
    return [n * array.dtype.itemsize for n in counts]


class MpiWorld(World):
    """The ranks of an MPI job; this process is one of them.

    Attributes:
        message_transport: for the messages that a program itself sends between two ranks, over another communicator
            than collectives, so that no collective receives such a message.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size, self.local_ranks = comm.Get_size(), (self.rank,)
        self._transports: dict[tuple[int, ...], MpiTransport] = {tuple(range(self.size)): MpiTransport(comm)}
        self._agreement_comm = comm.Dup()
        self.message_transport = MpiTransport(self._agreement_comm)
        self._steps = self._failures = 0
        self._text = ""
        if self.size > 1:
            self._share_table()

    def _share_table(self) -> None:
        """Creates the progress table of the ranks of this node, and starts the watchdog."""
        node = self.comm.Split_type(mpi().COMM_TYPE_SHARED)
        self._row, rows, first = node.Get_rank(), node.Get_size(), node.Get_rank() == 0
        folder = Path(tempfile.mkdtemp(prefix="oneflow-ranks-")) if first else None
        if folder is not None:
            ProgressTable(folder / "table", rows, create=True)
        self.folder: Path = node.bcast(folder)
        self._table = ProgressTable(self.folder / "table", rows)
        if "ONEFLOW_NUM_THREADS" not in os.environ:
            native.set_num_threads(_thread_share(self._row, node.allgather(os.sched_getaffinity(0))))
        self._note(COMPUTING)
        node.Barrier()
        if first:
            command = [sys.executable, "-m", watchdog.__name__, str(self.folder), str(rows), str(timeout())]
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        sys.excepthook = self._fail_with
        atexit.register(self._end)

    def _note(self, state: int) -> None:
        self._table.write(
            self._row, Row(self.rank, os.getpid(), state, self._steps, now(), self._text, self._failures)
        )

    def _end(self) -> None:
        self._note(ENDED)

    @contextmanager
    def step(self, rank: int, index: int, text: str, count: int = 1) -> Iterator[None]:
        """Notes in the table that this rank waits at a step. After a failure it first waits until all ranks have
        failed.
        """
        while self._failures and any(row.failures < self._failures for row in self._table.all()):
            time.sleep(INTERVAL)
        self._steps += count
        self._text = text
        self._note(WAITING)
        yield
        self._note(COMPUTING)

    def transport(self, rank: int, members: Sequence[int]) -> Transport:
        """The transport over a communicator of these members, created at first use."""
        key = tuple(members)
        if key not in self._transports:
            group = self.comm.Get_group().Incl(list(key))
            with self.step(rank, 0, f"the creation of a communicator of ranks {list(key)}"):
                self._transports[key] = MpiTransport(self.comm.Create_group(group))
        return self._transports[key]

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs the task of this rank. If the task fails on this rank alone, the watchdog ends the ranks that wait."""
        try:
            return [task() for task in tasks]
        except BaseException:
            self._failures += 1
            if self.size > 1:
                self._note(COMPUTING)
            raise

    def local_rank_and_size(self) -> tuple[int, int]:
        """The local rank of this process on its node, and the number of ranks of the node."""
        return (self._row, self._table.rows) if self.size > 1 else (0, 1)

    def gather(self, text: str, why: str) -> list[str]:
        """The texts of all ranks, over a communicator of their own."""
        with self.step(self.rank, 0, why):
            return list(self._agreement_comm.allgather(text))

    def fail(self, message: str) -> NoReturn:
        """Ends all ranks; the first rank that fails reports the reason."""
        stream = watchdog.stream_of(watchdog.launcher_of(os.getpid()))
        is_deferred = watchdog.is_file(stream)
        if self.size == 1:
            print(message, file=sys.stderr if is_deferred else stream or sys.stderr, flush=True)
        else:
            watchdog.report(self.folder, message, stream or sys.stderr, is_deferred)
            self._note(FAILED)
        sys.stdout.flush()
        self.comm.Abort(1)
        os._exit(1)  # the launcher of MPICH ends this process with a delay

    def _fail_with(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        text = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        self.fail(f"{text}\noneflow: error: rank {self.rank} failed; all ranks are ended")


@functools.cache
def world() -> MpiWorld:
    """The MPI job of this process.

    Raises:
        WorldError: mpi4py is not installed.
    """
    return MpiWorld(mpi().COMM_WORLD)
