"""Ranks as processes that MPI started: the one module that imports mpi4py.

MPI is loaded when a program of several ranks is first run. Calls block inside of MPI, without the interpreter's lock;
who waits in vain is found out by the watchman, a process beside the ranks.
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
from oneflow.runtime.collectives import watchman
from oneflow.runtime.collectives.progress import COMPUTING, ENDED, FAILED, WAITING, Row, Table, now
from oneflow.runtime.collectives.transport import Array, Parcels, Transport, World, WorldError

T = TypeVar("T")
HINT = "expected mpi4py and an MPI (pip install oneflow-mlir[mpi])"
#: Where launchers tell a process how many ranks there are.
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")
#: How often a rank that has failed looks for the others, in seconds.
INTERVAL = 0.01
#: The seconds a rank may wait at one step; `$ONEFLOW_TIMEOUT` says otherwise.
TIMEOUT = 600.0


def launched() -> bool:
    """Whether an MPI launcher has started this process, with others or alone."""
    return any(name in os.environ for name in SIZES)


@functools.cache
def mpi() -> Any:
    """The module `mpi4py.MPI`; loading it starts MPI.

    Raises:
        WorldError: it is not installed, or finds no MPI.
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
    """A communicator of the group's members. Sums are MPI's; everything else moves as bytes."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm

    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """MPI's; it has to be told where both are one array."""
        given = mpi().IN_PLACE if source.ctypes.data == target.ctypes.data else source
        self._comm.Allreduce(given, target, mpi().MAX if reduce == "max" else mpi().SUM)

    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """MPI's."""
        self._comm.Reduce_scatter(source, target, list(counts))

    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """MPI's, of bytes."""
        self._comm.Allgatherv(_bytes(source), (_bytes(target), _scaled(counts, target)))

    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """MPI's, of bytes."""
        self._comm.Alltoallv((_bytes(source), _scaled(sent, source)), (_bytes(target), _scaled(received, target)))

    def exchange(self, sends: Parcels, receives: Parcels) -> None:
        """Sends that wait for nothing, and receives; parcels between two members keep their order."""
        requests = [self._comm.Irecv(_bytes(array), sender) for sender, array in receives]
        requests += [self._comm.Isend(_bytes(array), receiver) for receiver, array in sends]
        mpi().Request.Waitall(requests)

    def broadcast(self, array: Array, root: int) -> None:
        """MPI's, of bytes."""
        self._comm.Bcast(_bytes(array), root)


def _bytes(array: Array) -> Array:
    return array.view("u1")


def _part(row: int, allowed: Sequence[Set[int]]) -> int:
    """How many processors a rank uses of those that it is `allowed`: a part where others are allowed some too."""
    own = allowed[row]
    return max(len(own) // sum(not own.isdisjoint(other) for other in allowed), 1)


def _scaled(counts: Sequence[int], array: Array) -> list[int]:
    return [n * array.dtype.itemsize for n in counts]


class MpiWorld(World):
    """The ranks of an MPI job, of which this process is one."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size, self.here = comm.Get_size(), (self.rank,)
        self._transports: dict[tuple[int, ...], MpiTransport] = {tuple(range(self.size)): MpiTransport(comm)}
        self._compared = comm.Dup()
        self._steps = self._failures = 0
        self._text = ""
        if self.size > 1:
            self._share_table()

    def _share_table(self) -> None:
        """Makes the table of the ranks of this machine, and starts its watchman."""
        near = self.comm.Split_type(mpi().COMM_TYPE_SHARED)
        self._row, rows, first = near.Get_rank(), near.Get_size(), near.Get_rank() == 0
        made = Path(tempfile.mkdtemp(prefix="oneflow-ranks-")) if first else None
        if made is not None:
            Table(made / "table", rows, make=True)
        self.folder: Path = near.bcast(made)
        self._table = Table(self.folder / "table", rows)
        if "ONEFLOW_NUM_THREADS" not in os.environ:
            native.set_num_threads(_part(self._row, near.allgather(os.sched_getaffinity(0))))
        self._note(COMPUTING)
        near.Barrier()
        if first:
            command = [sys.executable, "-m", watchman.__name__, str(self.folder), str(rows), str(timeout())]
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
    def step(self, rank: int, number: int, text: str, count: int = 1) -> Iterator[None]:
        """Notes in the table where this rank is; after a failure the others have to have met it as well."""
        while self._failures and any(row.failures < self._failures for row in self._table.all()):
            time.sleep(INTERVAL)
        self._steps += count
        self._text = text
        self._note(WAITING)
        yield
        self._note(COMPUTING)

    def transport(self, rank: int, members: Sequence[int]) -> Transport:
        """The way through a communicator of these members, made at first use."""
        key = tuple(members)
        if key not in self._transports:
            group = self.comm.Get_group().Incl(list(key))
            with self.step(rank, 0, f"the meeting of ranks {list(key)}"):
                self._transports[key] = MpiTransport(self.comm.Create_group(group))
        return self._transports[key]

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs the one task; where it fails here alone the watchman ends those who wait."""
        try:
            return [task() for task in tasks]
        except BaseException:
            self._failures += 1
            if self.size > 1:
                self._note(COMPUTING)
            raise

    def near(self) -> tuple[int, int]:
        """Which of the ranks of this machine this is, and how many there are."""
        return (self._row, self._table.rows) if self.size > 1 else (0, 1)

    def gather(self, text: str, why: str) -> list[str]:
        """The texts of all ranks, on a way of their own: no other message is taken for one of them."""
        with self.step(self.rank, 0, why):
            return list(self._compared.allgather(text))

    def fail(self, message: str) -> NoReturn:
        """Ends all ranks; the first rank that fails says why."""
        stream = watchman.stream_of(watchman.launcher_of(os.getpid()))
        late = watchman.is_file(stream)
        if self.size == 1:
            print(message, file=sys.stderr if late else stream or sys.stderr, flush=True)
        else:
            watchman.say(self.folder, message, stream or sys.stderr, late)
            self._note(FAILED)
        sys.stdout.flush()
        self.comm.Abort(1)
        os._exit(1)  # MPICH's launcher ends us a little later

    def _fail_with(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        text = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        self.fail(f"{text}\noneflow: error: rank {self.rank} failed; all ranks are ended")


@functools.cache
def world() -> MpiWorld:
    """The job that this process belongs to.

    Raises:
        WorldError: mpi4py is not installed.
    """
    return MpiWorld(mpi().COMM_WORLD)
