"""`flow.env`: the rank of this process in its job."""

from __future__ import annotations

from oneflow.runtime import ranks
from oneflow.runtime.global_array import Placement

__all__ = [
    "all_device_placement", "get_local_rank", "get_node_size", "get_rank", "get_world_size", "init_rdma",
    "rdma_is_initialized",
]  # fmt: skip


def get_rank() -> int:
    """The rank of this process, 0 without a launcher.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return ranks.rank()


def get_world_size() -> int:
    """The number of ranks of the job, 1 without a launcher.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return ranks.world_size()


def get_local_rank() -> int:
    """The index of this process among the processes of its job on this machine.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return ranks.local_rank_and_size()[0]


def get_node_size() -> int:
    """The number of machines of the job, if each runs as many ranks as this machine.

    Raises:
        WorldError: there is a launcher, but mpi4py is not installed.
    """
    return -(-ranks.world_size() // ranks.local_rank_and_size()[1])


def all_device_placement(type: str) -> Placement:
    """The placement of all ranks of the job on a type of device, "cpu" or "cuda"."""
    return Placement.all(type)


def init_rdma() -> None:
    """Does nothing: the MPI of the job chooses the transport of messages."""


def rdma_is_initialized() -> bool:
    """False: the MPI of the job chooses whether RDMA transports messages."""
    return False
