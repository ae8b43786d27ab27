"""Random programs under random annotations: ranks compute the values and gradients of one process.

Run under mpirun, the script checks the ranks of the job.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import oneflow as flow
from oneflow.dialect.sbp import B, P, S
from oneflow.runtime.collectives import mpi

Tensors = list[Any]
SIZES: dict[int, list[Any]] = {2: [[0, 1]], 3: [[0, 1, 2]], 4: [[0, 1, 2, 3], [[0, 1], [2, 3]], [[3, 1], [0, 2]]]}
#: Shapes of the arguments: sizes that the ranks divide, that the ranks do not divide, and less than the ranks.
SHAPES = [(6, 4), (5, 4), (4, 3), (3,)]


def _steps(choose: random.Random) -> list[Callable[[Tensors], Any]]:
    """The steps of a program; each step computes a tensor from the tensors so far."""
    unary = [
        lambda x: flow.relu(x), lambda x: flow.tanh(x), lambda x: -x, lambda x: x * 0.5 + 1.0, lambda x: x.t(),
        lambda x: flow.softmax(x, dim=1), lambda x: x.reshape(-1, 2) if x.numel() % 2 == 0 else x,
        lambda x: x - x.sum(0, keepdim=True), lambda x: x[1:], lambda x: flow.cat([x, x], dim=0),
        lambda x: x / (1.0 + x.abs().max()), lambda x: flow.cumsum(x, dim=0),
    ]  # fmt: skip

    def apply(tensors: Tensors) -> Any:
        x = choose.choice([t for t in tensors if t.ndim == 2])
        return choose.choice(unary)(x)

    def multiply(tensors: Tensors) -> Any:
        x = choose.choice([t for t in tensors if t.ndim == 2])
        fitting = [t for t in tensors if t.ndim == 2 and t.shape[0] == x.shape[1]]
        return x @ choose.choice(fitting) if fitting else x

    def add(tensors: Tensors) -> Any:
        x = choose.choice([t for t in tensors if t.ndim == 2])
        fitting = [t for t in tensors if t.shape in (x.shape, x.shape[1:])]
        return x + choose.choice(fitting)

    return [choose.choice([apply, apply, multiply, add]) for _ in range(8)]


def _layout(choose: random.Random, rank: int, axes: int) -> tuple[Any, ...]:
    return tuple(choose.choice([B, P, *(S(i) for i in range(rank))]) for _ in range(axes))


def build(seed: int, placement: Any) -> Callable[..., Any]:
    """The loss that a random program computes; with a placement, under random annotations."""

    def loss(*arguments: Any) -> Any:
        choose, notes = random.Random(seed), random.Random(seed + 1)
        tensors = list(arguments)
        for step in _steps(choose):
            made = step(tensors)
            if notes.random() < 0.5 and placement is not None:
                made = made.to_global(placement, _layout(notes, made.ndim, len(placement.mesh)))
            tensors.append(made)
        return sum((t * t).mean() for t in tensors[-3:])

    return loss


def check(seed: int, ranks: Any) -> None:
    """Compares value and gradients of one program, on ranks and alone."""
    placement = flow.placement("cpu", ranks)
    rng, choose = np.random.default_rng(seed), random.Random(seed + 2)
    arrays = [rng.standard_normal(s) for s in SHAPES]
    numbers = tuple(range(len(arrays)))
    wanted = flow.compile(flow.value_and_grad(build(seed, None), numbers))(*arrays)
    given = [
        flow.tensor(a).to_global(placement, _layout(choose, a.ndim, len(placement.mesh)))
        if choose.random() < 0.7 else a
        for a in arrays
    ]  # fmt: skip
    strategy = choose.choice(["greedy", "greedy", "auto"])
    got = flow.compile(flow.value_and_grad(build(seed, placement), numbers), placement=placement, strategy=strategy)(
        *given
    )
    for one, other in zip([got[0], *got[1]], [wanted[0], *wanted[1]], strict=True):
        whole = one.numpy() if isinstance(one, flow.Tensor) else one
        np.testing.assert_allclose(whole, other, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed} on {ranks}")


def check_eager(seed: int, ranks: Any) -> None:
    """Compares the loss and the gradients at the arguments in eager mode, on ranks and alone."""
    placement = flow.placement("cpu", ranks)
    rng, choose = np.random.default_rng(seed), random.Random(seed + 2)
    arrays = [rng.standard_normal(s) for s in SHAPES]
    alone = [flow.tensor(a, requires_grad=True) for a in arrays]
    wanted = build(seed, None)(*alone)
    wanted.backward()
    layouts = [_layout(choose, a.ndim, len(placement.mesh)) for a in arrays]
    given = [
        flow.tensor(a, requires_grad=True, placement=placement, sbp=nd) for a, nd in zip(arrays, layouts, strict=True)
    ]
    got = build(seed, placement)(*given)
    got.backward()
    assert got.is_global and all(x.grad is None or x.grad.placement == placement for x in given)
    for one, other in zip([got, *(x.grad for x in given)], [wanted, *(x.grad for x in alone)], strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            pair = (one.detach().numpy(), other.detach().numpy())
            np.testing.assert_allclose(*pair, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed} on {ranks}")


def main() -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    for ranks in SIZES[world.size]:
        for seed in range(int(sys.argv[1])):
            check(seed, ranks)
    check_eager(0, SIZES[world.size][-1])
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main()
