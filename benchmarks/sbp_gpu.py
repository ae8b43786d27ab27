"""Measures programs of two GPUs: bandwidth of collectives against NCCL's own, training on two against one.

    python benchmarks/sbp_gpu.py [--groups reduce,mlp,gpt] [--limit SECONDS] [--output FILE]

Every group is a job of two ranks, which the script starts. Participants are called in turn in the same processes, and
medians are reported: while one GPU is measured, the other runs the same program independently. With `--host` devices
and NCCL are simulated in host memory and sizes are tiny, to test the script without GPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_models as models
import numpy as np
from steps import step_of

import oneflow as flow
from oneflow.runtime.collectives import mpi, nccl
from oneflow.runtime.cuda.array import CudaArray
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.host_nccl import host_nccl
from oneflow.tools.ranks import launcher

RANKS = 2
GOAL = 1.8
Action = Callable[[], object]
#: The loss of a model for a batch.
Loss = Callable[..., flow.Tensor]
#: A model on the ranks of a placement.
Layout = Callable[[flow.nn.Module, flow.placement], flow.nn.Module]


@dataclass(frozen=True)
class Sizes:
    """The measured sizes: bytes of all-reduces, batches of each rank, the model, consecutive calls and repeats."""

    bytes: tuple[int, ...] = (1 << 16, 1 << 20, 1 << 24, 1 << 28)
    rows: int = 8192
    batch: int = 8
    context: int = 1024
    block: int = 10
    rounds: int = 7


TINY = Sizes((1 << 8,), 4, 2, 4, 1, 1)


@dataclass(frozen=True)
class Rank:
    """This rank of the job, and the GPU of the rank."""

    sizes: Sizes

    @property
    def placement(self) -> flow.placement:
        """All GPUs of the job."""
        return flow.placement("cuda", list(range(RANKS)))

    @property
    def world(self) -> mpi.MpiWorld:
        """The job."""
        return mpi.world()

    @property
    def gpu(self) -> Any:
        """The GPU of this rank."""
        return nccl.gpus(self.world).device

    def block(self, action: Action) -> float:
        """The seconds of a call on the slowest rank, from many consecutive calls that all ranks begin together."""
        flow.cuda.synchronize(self.gpu.ordinal)
        self.world.comm.Barrier()
        start = time.perf_counter()
        for _ in range(self.sizes.block):
            action()
        flow.cuda.synchronize(self.gpu.ordinal)
        took = (time.perf_counter() - start) / self.sizes.block
        return max(map(float, self.world.comm.allgather(took)))

    def medians(self, *actions: Action) -> list[float]:
        """The median seconds of each action, called in turn after a block that counts for nothing."""
        for action in actions:
            self.block(action)
        rounds = [[self.block(a) for a in actions] for _ in range(self.sizes.rounds)]
        return [statistics.median(column) for column in zip(*rounds, strict=True)]


def reduce(rank: Rank) -> Iterator[str]:
    """All-reduces of a compiled program, and NCCL's alone on the same communicator."""
    yield "| all-reduce | program | NCCL | bus bandwidth | NCCL's time / ours |\n| --- | --- | --- | --- | --- |"
    program = flow.compile(lambda x: x.to_global(sbp=flow.sbp.broadcast))
    transport = nccl.gpus(rank.world).transport(rank.world.rank, tuple(range(RANKS)))
    stream = int(flow.cuda.current_stream(rank.gpu.ordinal).handle)
    for size in rank.sizes.bytes:
        tensor = flow.tensor(np.ones(size // 4, np.float32)).to_global(rank.placement, flow.sbp.partial_sum)
        source = CudaArray.of(np.ones(size // 4, np.float32), rank.gpu)
        target = CudaArray.of(np.zeros(size // 4, np.float32), rank.gpu)

        def alone(pair: tuple[int, int] = (source.address, target.address), count: int = size // 4) -> None:
            kinds = nccl.TYPES["float32"], nccl.REDUCTIONS["sum"]
            nccl.call("ncclAllReduce", *pair, count, *kinds, transport._communicator, stream)

        ours, theirs = rank.medians(functools.partial(program, tensor), alone)
        bandwidth = 2 * (RANKS - 1) / RANKS * size / ours / 1e9
        yield (
            f"| {size:,} bytes | {ours * 1e6:.1f} us | {theirs * 1e6:.1f} us | {bandwidth:.1f} GB/s"
            f" | {theirs / ours:.2f} |"
        )


def training(model: flow.nn.Module, optimizer: flow.optim.Optimizer, loss: Loss) -> Callable[..., flow.Tensor]:
    """A compiled step of training."""
    return flow.compile(step_of(functools.partial(loss, model), optimizer))


def steps(rank: Rank, make: Callable[[], flow.nn.Module], loss: Loss, batch: Callable[[int], list[np.ndarray]],
          layout: Layout, count: int) -> tuple[Action, Action]:  # fmt: skip
    """A step on this GPU alone with one batch, and one on all GPUs with `count` batches, each of which has one."""
    alone, together = make().to(f"cuda:{rank.gpu.ordinal}"), make()
    model = layout(together, rank.placement)
    tensors = [flow.from_numpy(a).to(f"cuda:{rank.gpu.ordinal}") for a in batch(1)]
    batch_sbp = flow.sbp.split(0) if count > 1 else flow.sbp.broadcast
    shared = [flow.from_numpy(a).to_global(rank.placement, batch_sbp) for a in batch(count)]
    one = training(alone, flow.optim.AdamW(alone.parameters(), lr=1e-4), loss)
    many = training(model, flow.optim.AdamW(together.parameters(), lr=1e-4), loss)
    return lambda: one(*tensors), lambda: many(*shared)


def scaling(name: str, rank: Rank, pair: tuple[Action, Action], count: int, goal: str = "") -> str:
    """A row: seconds on one GPU and on all, and how many times as many batches a second all do."""
    alone, together = rank.medians(*pair)
    return f"| {name} | {alone * 1e3:.2f} ms | {together * 1e3:.2f} ms | {count * alone / together:.2f}{goal} |"


HEAD = "| step of training | one GPU | two GPUs | speed-up |\n| --- | --- | --- | --- |"


def data_parallel(net: flow.nn.Module, placement: flow.placement) -> flow.nn.Module:
    """The batch is split."""
    return flow.nn.parallel.DistributedDataParallel(net, placement)


def tensor_parallel(net: flow.nn.Module, placement: flow.placement) -> flow.nn.Module:
    """Heads, hidden units and the vocabulary are split."""
    rows = ("query.", "key.", "value.", "up.", "tokens.")
    split = {n: flow.sbp.split(0) for n, _ in net.named_parameters() if any(r in n for r in rows)}
    columns = {n: flow.sbp.split(1) for n, _ in net.named_parameters() if n.endswith(("out.weight", "down.weight"))}
    return net.to_global(placement, split | columns)


def mlp(rank: Rank) -> Iterator[str]:
    """A classifier of digits."""
    yield HEAD

    def batch(count: int) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        rows = rank.sizes.rows * count
        return [rng.standard_normal((rows, 784)).astype(np.float32), rng.integers(0, 10, rows)]

    def loss(model: flow.nn.Module, x: flow.Tensor, y: flow.Tensor) -> flow.Tensor:
        mean: flow.Tensor = flow.nn.functional.cross_entropy(model(x), y)
        return mean

    pair = steps(rank, functools.partial(models.mlp, flow), loss, batch, data_parallel, RANKS)
    yield scaling(f"MLP, {rank.sizes.rows} rows a GPU, f32, data-parallel", rank, pair, RANKS)


def gpt(rank: Rank) -> Iterator[str]:
    """GPT-2 small in bf16."""
    yield HEAD
    size = rank.sizes.context

    def batch(count: int) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        ids, labels = (rng.integers(0, models.VOCABULARY, (rank.sizes.batch * count, size)) for _ in range(2))
        return [ids, np.broadcast_to(np.arange(size), ids.shape).copy(), labels]

    def loss(model: flow.nn.Module, ids: flow.Tensor, positions: flow.Tensor, labels: flow.Tensor) -> flow.Tensor:
        logits = model(ids, positions).reshape(-1, models.VOCABULARY)
        mean: flow.Tensor = flow.nn.functional.cross_entropy(logits, labels.reshape(-1))
        return mean

    def make() -> flow.nn.Module:
        model: flow.nn.Module = models.gpt2(flow, size)
        return model.to(flow.bfloat16)

    name = f"GPT-2 small, {rank.sizes.batch} x {size}"
    pair = steps(rank, make, loss, batch, data_parallel, RANKS)
    yield scaling(f"{name} a GPU, bf16, data-parallel", rank, pair, RANKS, f" (goal {GOAL})")
    pair = steps(rank, make, loss, batch, tensor_parallel, 1)
    yield scaling(f"{name}, bf16, tensor-parallel", rank, pair, 1)


GROUPS: dict[str, Callable[[Rank], Iterator[str]]] = {"reduce": reduce, "mlp": mlp, "gpt": gpt}


def run_rank(group: str, host: bool) -> None:
    """Measures a group as one rank of the job; the first prints."""
    with contextlib.ExitStack() as stack:
        if host:
            models.LAYERS, models.HEADS, models.WIDTH, models.VOCABULARY = 1, 2, 8, 16
            stack.enter_context(host_nccl(stack.enter_context(host_cuda(devices=RANKS))))
        for line in GROUPS[group](Rank(TINY if host else Sizes())):
            if mpi.world().rank == 0:
                print(line, flush=True)


def run_group(group: str, host: bool, seconds: float) -> tuple[str, bool]:
    """The output of a group, which a separate job measures, and whether the job succeeded in time."""
    line = [*launcher(), "-n", str(RANKS), sys.executable, __file__, "--rank", group, *(["--host"] if host else [])]
    # Multicast over NVLink needs privileges that many containers lack.
    known = {"NCCL_NVLS_ENABLE": "0", **os.environ}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known) as job:
        try:
            output, errors = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            job.terminate()
            output, errors = job.communicate()
            errors += f"ended after {seconds:.0f} s"
    if job.returncode:
        sys.stderr.write(errors)
        output += f"\n{(errors.strip().splitlines() or ['failed'])[-1]}"
    return output.rstrip(), not job.returncode


def main() -> int:
    """Measures, prints and writes; 1 if a group failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default=",".join(GROUPS), help="what to measure")
    parser.add_argument("--limit", type=float, default=460, help="the seconds that all may take")
    parser.add_argument("--output", type=Path, help="a file to write the results to as well")
    parser.add_argument("--host", action="store_true", help="tiny sizes on devices made of host memory")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        run_rank(options.rank, options.host)
        return 0
    parts = [f"# Measured figures on {RANKS} GPUs\n\nBy `python benchmarks/sbp_gpu.py`; medians."]
    end, good = time.monotonic() + options.limit, True
    for group in options.groups.split(","):
        text, ended = run_group(group, options.host, max(end - time.monotonic(), 1))
        parts.append(f"## {group}\n\n{text}")
        good &= ended
        print(parts[-1], flush=True)
    if options.output:
        options.output.write_text("\n\n".join(parts) + "\n")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
