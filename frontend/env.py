"""`flow.env`: the rank of this process in its job."""

from __future__ import annotations

from oneflow.runtime.collectives import mpi

__all__ = ["get_local_rank", "get_rank", "get_world_size"]


def get_rank() -> int:
    """The rank of this process, 0 without a launcher.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return mpi.world().rank if mpi.launched() else 0


def get_world_size() -> int:
    """The number of ranks of the job, 1 without a launcher.

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
