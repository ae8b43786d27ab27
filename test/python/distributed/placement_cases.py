"""Tensors that go from one placement to another, and a pipeline of two stages on ranks of their own.

Run under mpirun it checks the job's own ranks, of which there are four.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import oneflow as flow
from oneflow.dialect.sbp import B, P, S
from oneflow.runtime.collectives import mpi

PLACEMENTS = [[0, 1], [3, 2], [1], [[0, 1], [2, 3]], [2, 0, 1]]


def layouts(placement: Any) -> list[tuple[Any, ...]]:
    """Some layouts on a placement."""
    return [(B,), (S(0),), (S(1),), (P,)] if len(placement.mesh) == 1 else [(S(0), B), (S(0), S(0)), (B, P)]


def check_moves() -> None:
    """Between all layouts of all placements."""
    array = np.arange(15, dtype=np.float32).reshape(5, 3) - 7
    placements = [flow.placement("cpu", r) for r in PLACEMENTS]
    lying = [(p, nd) for p in placements for nd in layouts(p)]
    for (one, source), (other, target) in itertools.product(lying, repeat=2):
        moved = flow.tensor(array).to_global(one, source).to_global(other, target)
        assert (moved.placement, moved.sbp) == (other, target)
        np.testing.assert_array_equal(moved.numpy(), array, err_msg=f"{one} {source} -> {other} {target}")


def check_pipeline() -> None:
    """Two stages, each on ranks of its own, forward and backward."""
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(s) for s in ((5, 4), (4, 6), (6, 3)))
    front, back = flow.placement("cpu", [0, 1]), flow.placement("cpu", [2, 3])
    hidden = lambda x, a: flow.tanh(x @ a)  # noqa: E731
    loss = lambda h, b: ((h @ b) ** 2).sum()  # noqa: E731
    wanted = flow.compile(flow.value_and_grad(lambda x, a, b: loss(hidden(x, a), b), (1, 2)))(x, a, b)

    first = flow.compile(hidden, placement=front)
    last = flow.compile(flow.value_and_grad(loss, (0, 1)), placement=back)
    again = flow.compile(lambda x, a, dh: flow.vjp(lambda a: hidden(x, a), a)[1](dh), placement=front)
    weight = flow.tensor(a).to_global(front, S(1))
    value, (dh, db) = last(first(x, weight).to_global(back, S(0)), b)
    da = again(x, weight, dh.to_global(front, S(1)))
    da = da[0] if isinstance(da, (tuple, list)) else da
    for got, expected in zip((value, da, db), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9)


def main() -> None:
    """Checks the ranks of the MPI job."""
    check_moves()
    check_pipeline()
    print(f"rank {mpi.world().rank} is done", flush=True)


if __name__ == "__main__":
    main()
