"""Training of a module by annotation alone: every layout gives the losses and parameters of one process.

Run under mpirun, the script checks the ranks of the job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import oneflow as flow
from oneflow import nn
from oneflow.nn.parallel import DistributedDataParallel
from oneflow.runtime.collectives import mpi

B, split = flow.sbp.broadcast, flow.sbp.split
STEPS = 4
#: The device of the ranks; jobs with GPUs say "cuda".
DEVICE = "cpu"


class Net(nn.Module):
    """Two layers, whose sizes ranks do not divide evenly."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 9), nn.Linear(9, 5)

    def forward(self, x: Any) -> Any:
        """Scores of five classes."""
        return self.second(nn.functional.relu(self.first(x)))


def one_axis(ranks: list[int]) -> Any:
    """A placement along one axis."""
    return flow.placement(DEVICE, ranks)


def data_parallel(net: Net, optimizer: Any, ranks: list[int]) -> Any:
    """The batch is split."""
    return DistributedDataParallel(net, one_axis(ranks))


def tensor_parallel(net: Net, optimizer: Any, ranks: list[int]) -> Any:
    """The layers are split, by outputs and by inputs."""
    return net.to_global(
        one_axis(ranks), {"first.weight": split(0), "first.bias": split(0), "second.weight": split(1)}
    )


def zero(net: Net, optimizer: Any, ranks: list[int]) -> Any:
    """The batch and the states of the optimizer are split."""
    model = data_parallel(net, optimizer, ranks)
    optimizer.to_global(split(0))
    return model


def mixed(net: Net, optimizer: Any, ranks: list[int]) -> Any:
    """The batch along one axis of the mesh, the layers along the other."""
    placement = flow.placement(DEVICE, np.reshape(ranks, (2, -1)))
    rows = {"first.weight": (B, split(0)), "first.bias": (B, split(0)), "second.weight": (B, split(1))}
    net.to_global(placement, rows)
    return lambda x: net(x.to_global(placement, (split(0), B)))


def grid(net: Net, optimizer: Any, ranks: list[int]) -> Any:
    """The weights along both axes of the mesh."""
    placement = flow.placement(DEVICE, np.reshape(ranks, (2, -1)))
    return net.to_global(placement, {"first.weight": (split(0), split(1)), "second.weight": (split(1), split(0))})


LAYOUTS: dict[str, Callable[..., Any]] = {
    "data": data_parallel, "tensor": tensor_parallel, "zero": zero, "mixed": mixed, "grid": grid,
}  # fmt: skip


def train(
    layout: Callable[..., Any] | None, ranks: list[int], compiled: bool = True
) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses of a few steps, and the parameters after the steps."""
    rng = np.random.default_rng(3)
    net = Net().double()
    net.load_state_dict({k: rng.standard_normal(v.shape) * 0.3 for k, v in net.state_dict().items()})
    x, y = rng.standard_normal((7, 6)), rng.integers(0, 5, 7)
    optimizer = flow.optim.Adam(net.parameters(), lr=1e-2)
    model = net if layout is None else layout(net, optimizer, ranks)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    run, given = (flow.compile(step), (x, y)) if compiled else (step, (flow.tensor(x), flow.tensor(y)))
    losses = [run(*given).item() for _ in range(STEPS)]
    return losses, {k: p.detach().numpy() for k, p in net.named_parameters()}


def check(name: str, ranks: list[int], compiled: bool = True) -> None:
    """Compares training in one layout with training in one process, compiled and in eager mode."""
    wanted, got = train(None, ranks), train(LAYOUTS[name], ranks, compiled)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-9)
    assert wanted[0][-1] < wanted[0][0], "it learns"
    for key, parameter in wanted[1].items():
        np.testing.assert_allclose(got[1][key], parameter, rtol=1e-7, atol=1e-9, err_msg=f"{name}: {key}")


def main() -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    for name in LAYOUTS:
        check(name, list(range(world.size)))
    check("data", list(range(world.size)), compiled=False)
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main()
