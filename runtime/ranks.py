"""The ranks of the job of this process, and the worlds of programs of several ranks.

A process that an MPI launcher has started is one rank of its job. Any other process is rank 0 of 1, and runs the
ranks of a program as threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.runtime.collectives import mpi
from oneflow.runtime.collectives.threads import ThreadWorld
from oneflow.runtime.collectives.transport import Messages, Transport, World, WorldError

__all__ = [
    "Transport",
    "WorldError",
    "exchange",
    "job_transport",
    "local_rank_and_size",
    "rank",
    "world_of",
    "world_size",
]


def rank() -> int:
    """The rank of this process in its job.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().rank if mpi.launched() else 0


def world_size() -> int:
    """The number of ranks of the job.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().size if mpi.launched() else 1


def local_rank_and_size() -> tuple[int, int]:
    """The local rank of this process on its machine, and the number of ranks of the job on the machine.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().local_rank_and_size() if mpi.launched() else (0, 1)


def job_transport(call: str) -> Transport:
    """The transport of this process to all ranks of the job, after all ranks have arrived at the same `call`.

    Raises:
        WorldError: other ranks make another call, or mpi4py is not installed.
    """
    world = mpi.world()
    world.check_agreement(call, "")
    return world.transport(world.rank, tuple(range(world.size)))


def exchange(call: str, sends: Messages, receives: Messages) -> None:
    """Sends arrays to ranks of the job, and receives arrays from ranks; `call` names the step in messages.

    Raises:
        WorldError: mpi4py is not installed.
    """
    world = mpi.world()
    with world.step(world.rank, 0, call):
        world.message_transport.exchange(sends, receives)


def world_of(size: int, ranks: Sequence[int] | None = None) -> World:
    """The world of a program of `size` ranks: the job of this process, or threads of this process.

    Args:
        size: the number of ranks of the program.
        ranks: their ranks in the world; by default the first ones.

    Raises:
        WorldError: the job is too small, or mpi4py is not installed.
    """
    largest = max(ranks or range(size)) + 1
    if world_size() == 1:
        return ThreadWorld(largest)
    world = mpi.world()
    if world.size < largest:
        raise WorldError(
            f"expected a job of {largest} ranks for a mesh of {size}, got {world.size}; run mpirun -n {largest}"
        )
    return world
