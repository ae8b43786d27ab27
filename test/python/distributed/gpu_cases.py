"""Boxing and training on ranks with a GPU each: real GPUs and NCCL, or with "host" host memory and files.

Run under mpirun, the script checks the ranks of the job: "host" or "gpu", the check, and the types or layouts.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import boxing_cases
import numpy as np
import training_cases

import oneflow as flow
from oneflow.dialect import dtypes
from oneflow.dialect.external import as_array
from oneflow.dialect.nd_sbp import devices
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.targets.selection import using_gpu
from oneflow.runtime.collectives import mpi, nccl
from oneflow.runtime.collectives.operations import packing_bytes, run_collective
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.ranks import world_of
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.host_nccl import host_nccl


def boxing(name: str, ranks: list[int]) -> None:
    """Moves tensors of a type between all layouts, to a root and from the root."""
    dtype = dtypes.BY_NAME[name]
    for mesh in boxing_cases.MESHES[len(ranks)]:
        boxing_cases.check(world_of(devices(mesh)), mesh, [dtype], "cuda")

    if dtype not in boxing_cases.REAL:
        return

    def run(name: str, rank: int, attrs: dict[str, Any], arrays: list[np.ndarray], shapes: list[Any]) -> list[Any]:
        gpus = nccl.gpus(mpi.world())
        made = [np.zeros(s, a.dtype) for s, a in zip(shapes, arrays, strict=True)]
        sides = [[CudaArray.of(np.ascontiguousarray(a), gpus.device) for a in side] for side in (arrays, made)]
        descs = [[TensorDesc(a.shape, dtype) for a in side] for side in sides]
        memory = [[as_array(a.address, TensorDesc(a.shape, dtype)) for a in side] for side in sides]
        transport = gpus.transport(rank, ranks)
        count = packing_bytes(name, transport, attrs, *descs) or 0
        buffer = CudaArray.of(np.zeros(count + 1, np.uint8), gpus.device)
        with transport.on_stream(int(buffer.stream.handle), buffer.address):
            run_collective(name, transport, attrs, *memory)
        return [a.numpy() for a in sides[1]]

    boxing_cases.check_roots(mpi.world(), dtype, run)
    boxing_cases.check_several(mpi.world(), dtype, run)


def training(name: str, ranks: list[int]) -> None:
    """Trains a small net under a layout."""
    training_cases.DEVICE = "cuda"
    training_cases.check(name, ranks)


def largest(name: str, ranks: list[int]) -> None:
    """Maxima over ranks, of NaN and of negative numbers; shards stay on the GPU between programs."""
    x = np.array([[-1, -8, -7, 2], [-3, np.nan, -9, np.inf], [-4, -2, -6, -np.inf]], np.float32)
    if name != "float32":
        x = np.nan_to_num(x, posinf=9, neginf=-9)
    x = x.astype(dtypes.BY_NAME[name].numpy)
    at = flow.placement("cuda", ranks)
    whole = flow.tensor(x).to_global(at, flow.sbp.split(0))
    assert isinstance(whole.storage.local(), CudaArray)
    rows = flow.compile(lambda x: flow.amax(x, 0))(whole)
    np.testing.assert_array_equal(rows.numpy(), x.max(0))


def precision(name: str, ranks: list[int]) -> None:
    """Products have the precision of `flow.cuda.set_matmul_precision` on the devices of ranks too."""
    flow.cuda.set_matmul_precision(name)
    x, w = (np.eye(32, dtype=np.float32) * k for k in (2, 3))
    at = flow.placement("cuda", ranks)
    product = flow.compile(lambda x, w: x.to_global(sbp=flow.sbp.split(0)) @ w, placement=at)
    np.testing.assert_array_equal(np.asarray(product(x, w)), x @ w)
    assert f'"{name}"' in product.ir("triton")


def stages(name: str, ranks: list[int]) -> None:
    """Tensors and gradients move between the GPUs of the stages; a rank without a part has empty tensors."""
    front, back = (flow.placement("cuda", [r]) for r in ranks[:2])
    x, w = (np.linspace(-1, 1, n, dtype=name).reshape(-1, 4) for n in (12, 16))

    def loss(x: Any, w: Any, v: Any, move: Any) -> Any:
        return (move(flow.tanh(x @ w), back) @ v).square().sum()

    wanted = flow.compile(flow.value_and_grad(lambda x, w, v: loss(x, w, v, lambda h, at: h), (1, 2)))(x, w, w)
    given = [flow.tensor(a).to_global(at, flow.sbp.broadcast) for a, at in ((x, front), (w, front), (w, back))]
    cross = lambda h, at: h.to_global(at, flow.sbp.broadcast)  # noqa: E731
    made = flow.compile(flow.value_and_grad(lambda x, w, v: loss(x, w, v, cross), (1, 2)))(*given)
    assert [g.placement for g in made[1]] == [front, back]
    for got, one in zip((made[0], *made[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(got.numpy(), one, rtol=1e-5)


def counted(what: str) -> int:
    """How often the device of host memory has done something; 0 of another."""
    return getattr(driver._cuda(), "log", []).count(what)


def graphs(name: str, ranks: list[int]) -> None:
    """Collectives are recorded in the graphs of a step, and not called again, also where results are held."""
    at = flow.placement("cuda", ranks)
    x = np.linspace(-1, 1, 60, dtype=name).reshape(10, 6)
    starts = [np.linspace(-1, 1, n, dtype=name).reshape(shape) for n, shape in ((30, (6, 5)), (5, (5,)))]

    def train(parameters: list[Any], x: Any) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
        @flow.compile
        def step(x: Any) -> Any:
            loss = flow.tanh(x @ parameters[0] + parameters[1]).square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        optimizer = flow.optim.SGD(parameters, lr=0.1)
        losses, counts = [], []
        for _ in range(7):
            losses.append(step(x))
            counts.append((counted("record"), counted("graph")))
        return [a.detach().numpy() for a in (*losses, *parameters)], counts

    wanted, _ = train([flow.tensor(a).requires_grad_() for a in starts], flow.tensor(x))
    whole = [flow.tensor(a).to_global(at, flow.sbp.broadcast).requires_grad_() for a in starts]
    made, counts = train(whole, flow.tensor(x).to_global(at, flow.sbp.split(0)))
    if counted("launch"):
        recorded, (_, first) = counts[3][0], counts[3]
        assert counts[4:] == [(recorded, first + n) for n in (1, 2, 3)] and recorded > 0, counts
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def moving(name: str, ranks: list[int]) -> None:
    """Results of collectives change address at each run: calls repeat, and recurring addresses have graphs."""
    target = driver.device().target
    at, elements = flow.placement("cuda", ranks), target.kernels.launches.max_staged_bytes // 2
    with using_gpu(replace(target, fitted={"launches": {"min_graph_commands": 1}})):
        _move(name, at, elements)


def _move(name: str, at: Any, elements: int) -> None:

    @flow.compile
    def program(x: Any) -> list[Any]:
        rows = flow.cumsum(x, 0)
        return [rows.to_global(sbp=flow.sbp.broadcast), (rows * 2).to_global(sbp=flow.sbp.broadcast)]

    held, recorded = list[Any](), list[Any]()
    for number in range(12):
        x = np.full((3, elements), number, name)
        made = program(flow.tensor(x).to_global(at, flow.sbp.split(1)))
        held += made if number < 5 else []
        recorded.append(counted("record"))
        for k, got in enumerate(made):
            np.testing.assert_array_equal(got.numpy(), x * np.array([[1], [2], [3]], name) * (k + 1))
    for number in range(5):
        assert held[2 * number].numpy()[2, 0] == 3 * number
    if counted("launch"):
        assert 0 < recorded[2] == recorded[3] < recorded[-1], recorded


CHECKS = {
    "graphs": graphs,
    "moving": moving,
    "stages": stages,
    "boxing": boxing,
    "training": training,
    "largest": largest,
    "precision": precision,
}
DEFAULTS: dict[str, Iterable[str]] = {
    "boxing": dtypes.BY_NAME, "training": training_cases.LAYOUTS, "largest": ("float32", "int32"),
    "precision": ("ieee", "tf32"), "stages": ("float32",),
    "graphs": ("float32",), "moving": ("float32",),
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
