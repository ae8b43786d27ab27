"""Random operators on many ranks: every mesh and layout gives the tensor of one process, to the bit.

Run under mpirun, the script checks the ranks of the job.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import oneflow as flow
from oneflow.runtime.collectives import mpi

B, split = flow.sbp.broadcast, flow.sbp.split
SHAPE = (7, 5)
DRAWS: dict[str, Any] = {
    "dropout": lambda x: flow.nn.functional.dropout(x, 0.5),
    "bernoulli": lambda x: flow.bernoulli(x * 0.25),
    "normal": lambda x: x * flow.randn(*SHAPE),
}


def meshes(ranks: list[int]) -> list[Any]:
    """The ranks along one axis, and along two axes if the number of ranks suffices."""
    return [ranks] + ([np.reshape(ranks, (2, -1))] if len(ranks) % 2 == 0 and len(ranks) > 2 else [])


def draw(name: str, placement: Any = None, sbp: Any = None) -> np.ndarray:
    """Two draws of a function from one seed."""
    flow.manual_seed(11)
    lies = (lambda x: x) if placement is None else (lambda x: x.to_global(placement, sbp))
    drawn = flow.compile(lambda x: DRAWS[name](lies(x)), placement=placement)
    return np.stack([np.asarray(drawn(np.ones(SHAPE, np.float32))) for _ in range(2)])


def check(name: str, ranks: list[int]) -> None:
    """Compares all layouts with one process."""
    wanted = draw(name)
    assert len(np.unique(wanted)) > 1 and not np.array_equal(*wanted), "it draws anew"
    for mesh in meshes(ranks):
        placement = flow.placement("cpu", mesh)
        for first in (split(0), split(1), B):
            sbp = (first, *[split(0)] * (np.ndim(mesh) - 1))
            np.testing.assert_array_equal(draw(name, placement, sbp), wanted, err_msg=f"{name} {placement} {sbp}")


def main() -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    for name in DRAWS:
        check(name, list(range(world.size)))
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main()
