"""Boxing and training on ranks with a GPU each: real ones and NCCL, or with "host" those of host memory and files.

Run under mpirun it checks the job's own ranks: "host" or "gpu", what to check, and which types or layouts.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable

import boxing_cases
import numpy as np
import training_cases

import oneflow as flow
from oneflow.dialect import dtypes
from oneflow.dialect.nd_sbp import devices
from oneflow.runtime.collectives import mpi
from oneflow.runtime.cuda.array import DeviceArray
from oneflow.runtime.distributed import world_of
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.host_nccl import host_nccl


def boxing(name: str, ranks: list[int]) -> None:
    """Moves tensors of a type between all layouts."""
    for mesh in boxing_cases.MESHES[len(ranks)]:
        boxing_cases.check(world_of(devices(mesh)), mesh, dtypes.BY_NAME[name], "cuda")


def training(name: str, ranks: list[int]) -> None:
    """Trains a small net under a layout."""
    training_cases.DEVICE = "cuda"
    training_cases.check(name, ranks)


def largest(name: str, ranks: list[int]) -> None:
    """Maxima over ranks, of NaN and of negative numbers; pieces stay on their GPU between programs."""
    x = np.array([[-1, -8, -7, 2], [-3, np.nan, -9, np.inf], [-4, -2, -6, -np.inf]], np.float32)
    if name != "float32":
        x = np.nan_to_num(x, posinf=9, neginf=-9)
    x = x.astype(dtypes.BY_NAME[name].numpy)
    at = flow.placement("cuda", ranks)
    whole = flow.tensor(x).to_global(at, flow.sbp.split(0))
    assert isinstance(whole.storage.local(), DeviceArray)
    rows = flow.compile(lambda x: flow.amax(x, 0))(whole)
    np.testing.assert_array_equal(rows.numpy(), x.max(0))


CHECKS = {"boxing": boxing, "training": training, "largest": largest}
DEFAULTS: dict[str, Iterable[str]] = {
    "boxing": dtypes.BY_NAME, "training": training_cases.LAYOUTS, "largest": ("float32", "int32"),
}  # fmt: skip


def main(kind: str, what: str, *names: str) -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    with contextlib.ExitStack() as stack:
        if kind == "host":
            stack.enter_context(host_nccl(stack.enter_context(host_cuda(devices=world.size))))
        for name in names or DEFAULTS[what]:
            CHECKS[what](name, list(range(world.size)))
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
