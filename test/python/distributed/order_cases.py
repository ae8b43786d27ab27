"""Ranks that make eager calls in different orders; every call is on a separate line."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import oneflow as flow
from oneflow.runtime.collectives import mpi

ALL = flow.placement("cpu", list(range(mpi.world().size)))
SPLIT, BROADCAST, SUM = flow.sbp.split(0), flow.sbp.broadcast, flow.sbp.partial_sum
SMALL, LARGE = (flow.tensor(np.ones(shape, np.float32)) for shape in ((4, 2), (300, 70)))


def share_small() -> None:
    """Rank 0's small tensor."""
    SMALL.to_global(ALL, SPLIT)


def share_large() -> None:
    """Rank 0's large tensor."""
    LARGE.to_global(ALL, SPLIT)


def share_repeated() -> None:
    """The small tensor, of which every rank has all."""
    SMALL.to_global(ALL, BROADCAST)


def gather() -> None:
    """The shards of a tensor, everywhere."""
    X.to_global(ALL, BROADCAST)


def add() -> None:
    """The sum over the tensors of all ranks."""
    P.numpy()


def sum_small() -> None:
    """The sum over the small tensors of all ranks, in place."""
    flow.comm.all_reduce(SMALL)


def sum_large() -> None:
    """The sum over the large tensors of all ranks, in place."""
    flow.comm.all_reduce(LARGE)


def compute() -> None:
    """A compiled program; ranks compare programs when the program is compiled."""
    flow.compile(lambda x: x.to_global(ALL, SPLIT).sum(0), placement=ALL)(np.ones((4, 2), np.float32))


CALLS: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
    "sizes": (share_small, share_large),
    "layouts": (share_small, share_repeated),
    "moves": (share_small, gather),
    "sums": (gather, add),
    "local sums": (sum_small, sum_large),
    "local and global": (sum_small, share_small),
    "programs": (share_large, compute),
}
X = SMALL.to_global(ALL, SPLIT)
P = SMALL.to_global(ALL, SUM)

if __name__ == "__main__":
    first, second = CALLS[sys.argv[1]]
    for call in (second, first) if mpi.world().rank == 1 else (first, second):
        call()
    raise SystemExit("no rank has seen that the calls differ")
