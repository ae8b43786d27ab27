"""Compiled functions whose tensors go from placement to placement: values, gradients and training.

Run under mpirun, the script checks the four ranks of the job.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import oneflow as flow
from oneflow.dialect.sbp import B, P, S
from oneflow.runtime.collectives import mpi

#: Disjoint placements, permuted ones, placements with ranks in common, and meshes of one and two axes.
PLACEMENTS = [[0], [1], [0, 1], [3, 2], [[2, 3]], [[0, 1], [2, 3]], [2, 0, 1]]


def _layout(choose: random.Random, placement: Any) -> tuple[Any, ...]:
    return tuple(choose.choice([B, P, S(0), S(1)]) for _ in placement.mesh)


def program(seed: int, placed: bool) -> Any:
    """The loss of a chain of stages, each on random ranks if `placed`, with connections that skip stages."""

    def loss(x: Any, a: Any, b: Any) -> Any:
        choose = random.Random(seed)

        def move(value: Any) -> Any:
            at = flow.placement("cpu", choose.choice(PLACEMENTS))
            return value.to_global(at, _layout(choose, at)) if placed else value

        h, losses = move(x), []
        for _ in range(3):
            h = move(flow.tanh(h @ a) * 2.0 + 1.0)
            losses.append(move(h).square().mean(0, keepdim=True))
            h = move(flow.softmax(h @ b, dim=1))
        losses += [h.mean(0, keepdim=True)[:, :3], move(a * 2.0).sum(0, keepdim=True)]
        last = flow.placement("cpu", [1, 2])
        return sum(v.to_global(last, B) if placed else v for v in losses).sum()

    return loss


def check_stages(seed: int, strategy: str = "greedy") -> None:
    """Value and gradients on several ranks equal the value and gradients of one process."""
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(s) for s in ((5, 4), (4, 3), (3, 4))]
    wanted = flow.compile(flow.value_and_grad(program(seed, False), (0, 1, 2)))(*arrays)
    made = flow.compile(flow.value_and_grad(program(seed, True), (0, 1, 2)), strategy=strategy)(*arrays)
    for got, expected in zip((made[0], *made[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12, err_msg=f"seed {seed}, {strategy}")


class Stages(flow.nn.Module):
    """Two layers, on the placements that `at` names."""

    def __init__(self, at: Any) -> None:
        super().__init__()
        self.up, self.down, self.at = flow.nn.Linear(8, 6), flow.nn.Linear(6, 4), at

    def lie(self) -> None:
        """Moves the parameters to the placements of the layers."""
        self.up.to_global(self.at[0], {"weight": S(0), "bias": S(0)})
        self.down.to_global(self.at[1], (B, B))

    def forward(self, x: Any) -> Any:
        """The second layer reads the result that the first layer sends."""
        h = flow.relu(self.up(x))
        return self.down(h.to_global(self.at[1], (B, S(0))) if self.at else h)


def train(at: Any) -> list[float]:
    """The losses of some steps, in micro-batches whose gradients are added up."""
    rng, net = np.random.default_rng(0), Stages(at)
    net.load_state_dict({k: 0.3 * rng.standard_normal(v.shape) for k, v in net.state_dict().items()})
    if at:
        net.lie()
    x, y = rng.standard_normal((10, 8)).astype(np.float32), rng.integers(0, 4, 10)
    optimizer = flow.optim.Adam(net.parameters(), lr=1e-2)

    @flow.compile
    def step(x: Any, y: Any) -> Any:
        losses = [flow.nn.functional.cross_entropy(net(x[i::2]), y[i::2]) for i in range(2)]
        total: Any = sum(losses)
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        return sum(losses)

    return [step(x, y).item() for _ in range(6)]


def check_training() -> None:
    """A pipeline of two stages learns as one process does, and the parameters keep their placements."""
    at = flow.placement("cpu", [0, 1]), flow.placement("cpu", [[2, 3]])
    np.testing.assert_allclose(train(at), train(None), rtol=1e-4)


def main() -> None:
    """Checks the ranks of the MPI job."""
    for seed in (0, 3):
        check_stages(seed)
    check_training()
    print(f"rank {mpi.world().rank} is done", flush=True)


if __name__ == "__main__":
    main()
