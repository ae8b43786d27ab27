"""`flow.env`: which rank of a job this process is."""

from __future__ import annotations

from oneflow.runtime.collectives import mpi

__all__ = ["get_local_rank", "get_rank", "get_world_size"]


def get_rank() -> int:
    """The number of this process in its job, 0 where no launcher has started it.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().rank if mpi.launched() else 0


def get_world_size() -> int:
    """How many ranks the job has.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().size if mpi.launched() else 1


def get_local_rank() -> int:
    """The number of this process among those of its job on this machine.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().local_rank_and_size()[0] if mpi.launched() else 0
