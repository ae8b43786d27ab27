"""Tables whose rows the processes of a job share train as the tables of one process do.

Run under mpirun, the script checks the ranks of the job; its argument is a folder for snapshots.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import oneflow as flow
from oneflow import one_embedding as oe
from oneflow.runtime.collectives import mpi

IDS = np.asarray([[1, 2], [3, 1], [5, 4], [1, 7]])


def module(name: str, folder: str) -> oe.MultiTableEmbedding:
    """Two tables of other first rows."""
    tables = [oe.make_table(oe.make_uniform_initializer(low, low + 1)) for low in (-1, 1)]
    store = oe.make_device_mem_store_options(folder, 100, size_factor=2)
    return oe.MultiTableEmbedding(name, 4, flow.float32, flow.int64, tables, store)


def train(embedding: oe.MultiTableEmbedding, ids: Any) -> list[float]:
    """The losses of a few steps."""
    optimizer, losses = flow.optim.SGD(embedding.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(2):
        optimizer.zero_grad()
        loss = embedding(ids).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.numpy()))
    return losses


def rows(embedding: oe.MultiTableEmbedding, ids: Any) -> Any:
    """The rows of ids, without an update."""
    with flow.no_grad():
        return embedding(ids)


def check(ranks: list[int], folder: str, *layouts: Any) -> None:
    """Compares rows that are shared with the rows of one process, for ids with layouts."""
    placement, ids, name = flow.placement("cpu", ranks), flow.tensor(IDS), f"rows on {len(ranks)}"
    alone = module(f"{name}, alone", folder)
    wanted = train(alone, ids)
    assert wanted[1] < wanted[0]
    for sbp in layouts:
        embedding = module(f"{name}, {sbp}", folder)
        global_ids = ids.to_global(placement, sbp)
        np.testing.assert_allclose(train(embedding, global_ids), wanted, rtol=1e-5)
        found = rows(embedding, global_ids)
        assert found.sbp == (sbp,) and found.placement == placement
        np.testing.assert_allclose(found.numpy(), rows(alone, ids).numpy(), rtol=1e-5)
        embedding.save_snapshot(name)
        again = module(f"{name}, {sbp}, again", folder)
        again.load_snapshot(name)
        np.testing.assert_array_equal(rows(again, global_ids).numpy(), found.numpy())


def main() -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    check(list(range(world.size)), sys.argv[1], flow.sbp.split(0))
    embedding = module("on one rank", sys.argv[1])
    try:
        embedding(flow.tensor(IDS).to_global(flow.placement("cpu", [0]), flow.sbp.broadcast))
    except ValueError as error:
        assert f"on all {world.size} ranks" in str(error)
    else:
        raise AssertionError("rows of other ranks are missing")
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main()
