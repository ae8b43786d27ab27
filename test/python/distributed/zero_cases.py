"""Training by graphs with ZeRO: each stage gives the losses of data parallelism.

Run under mpirun, the script checks the ranks of the job.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import oneflow as flow
from oneflow import nn
from oneflow.runtime.collectives import mpi

split = flow.sbp.split


class Training(nn.Graph):
    """Steps of data-parallel training of two layers without biases; `stage` 0 is without ZeRO."""

    def __init__(self, ranks: list[int], stage: int, parts: int = 1, scaler: Any = None, **options: Any) -> None:
        super().__init__()
        rng, self.placement = np.random.default_rng(3), flow.placement("cpu", ranks)
        self.net = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 4, bias=False)).double()
        self.net.load_state_dict({k: rng.standard_normal(v.shape) for k, v in self.net.state_dict().items()})
        self.model = nn.parallel.DistributedDataParallel(self.net, self.placement)
        self.optimizer = flow.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.add_optimizer(self.optimizer)
        self.config.set_gradient_accumulation_steps(parts)
        if scaler is not None:
            self.set_grad_scaler(scaler)
        if stage:
            self.config.enable_zero(stage=stage, **{"shard_min_size": 1, **options})

    def build(self, x: Any, y: Any) -> Any:
        """The loss of a batch, whose gradients are added up."""
        loss = (self.model(x) - y.to_global(self.placement, split(0))).square().mean()
        loss.backward()
        return loss

    def losses(self, steps: int = 3) -> list[Any]:
        """The losses of the first steps."""
        rng = np.random.default_rng(5)
        batch = flow.tensor(rng.standard_normal((8, 6))), flow.tensor(rng.standard_normal((8, 4)))
        return [self(*batch).numpy().tolist() for _ in range(steps)]

    def local_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the shards of the parameters on this rank, then of the shards of the momenta."""
        states = [s for kept in self.optimizer.state.values() for s in kept.values()]
        return [tuple(t.to_local().shape) for t in (*self.net.parameters(), *states)]


def main() -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    ranks = list(range(world.size))
    plain, training = Training(ranks, 0, 2), Training(ranks, 3, 2)
    np.testing.assert_allclose(training.losses(), plain.losses(), rtol=1e-12)
    assert training.local_shapes() == 2 * [(8 // world.size, 6), (4 // world.size, 8)]
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main()
