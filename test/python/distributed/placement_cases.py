"""Tensors that go from one placement to another, and a pipeline of two stages on disjoint ranks.

Run under mpirun, the script checks the four ranks of the job.
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
    layouts_of_placements = [(p, nd) for p in placements for nd in layouts(p)]
    for (one, source), (other, target) in itertools.product(layouts_of_placements, repeat=2):
        moved = flow.tensor(array).to_global(one, source).to_global(other, target)
        assert (moved.placement, moved.sbp) == (other, target)
        np.testing.assert_array_equal(moved.numpy(), array, err_msg=f"{one} {source} -> {other} {target}")


def check_pipeline() -> None:
    """Two stages on disjoint ranks, forward and backward."""
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


def check_eager_pipeline() -> None:
    """Two stages in one function of eager mode: tensors move in the forward part, gradients in the backward part."""
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(s) for s in ((5, 4), (4, 6), (6, 3)))
    front, back = flow.placement("cpu", [0, 1]), flow.placement("cpu", [[2, 3]])

    def loss(x: Any, a: Any, b: Any, move: Any) -> Any:
        return (move(flow.tanh(x @ a)) @ b).square().sum()

    alone = [flow.tensor(v, requires_grad=True) for v in (x, a, b)]
    wanted = loss(*[*alone, lambda h: h])
    pipeline_layouts = [{"placement": p, "sbp": s} for p, s in ((front, S(0)), (front, S(1)), (back, (B, S(0))))]
    given = [flow.tensor(v, requires_grad=True, **at) for v, at in zip((x, a, b), pipeline_layouts, strict=True)]
    got = loss(*[*given, lambda h: h.to_global(back, (B, S(0)))])
    wanted.backward()
    got.backward()
    np.testing.assert_allclose(got.detach().numpy(), wanted.item(), rtol=1e-9)
    for one, other, at in zip(given, alone, pipeline_layouts, strict=True):
        assert one.grad.placement == at["placement"]
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), rtol=1e-9)


def check_gradient_of_a_tensor_of_the_process() -> None:
    """The gradient is a whole tensor of the process, also to the second order."""
    x = flow.tensor(np.arange(1.0, 6.0), requires_grad=True)
    global_x = x.to_global(flow.placement("cpu", [0, 1]), S(0))
    (slope,) = flow.autograd.grad((global_x * global_x * global_x).sum(), x, create_graph=True)
    (curve,) = flow.autograd.grad(slope.sum(), x)
    assert not slope.is_global and not curve.is_global
    np.testing.assert_allclose(slope.detach().numpy(), 3 * np.arange(1.0, 6.0) ** 2)
    np.testing.assert_allclose(curve.numpy(), 6 * np.arange(1.0, 6.0))


def check_gradients_of_shards() -> None:
    """Gradients of shards flow back to the tensor; of the simulated ranks only the first has a shard."""
    real, array = mpi.launched(), np.arange(1.0, 16.0).reshape(5, 3)
    every = flow.placement.all() if real else flow.placement("cpu", [0, 1])
    for sbp in (S(0), S(1), B, P):
        x = flow.tensor(array).to_global(every, sbp).requires_grad_()
        shard = (x * 2.0).to_global(sbp=sbp).to_local()
        (shard * shard).sum().backward()
        first = np.zeros_like(array)
        held: Any = {S(0): np.s_[:3], S(1): np.s_[:, :2]}.get(sbp, ...)
        first[held] = 1.0
        np.testing.assert_allclose(x.grad.numpy(), 8.0 * array * (1.0 if real else first), err_msg=str(sbp))


def check_layouts_of_gradients() -> None:
    """Gradients have the layout `grad_sbp`, or the layout of the tensor."""
    pair, array = flow.placement("cpu", [0, 1]), np.arange(1.0, 7.0).reshape(3, 2)
    for back in (None, B, S(1), P):
        x = flow.tensor(array).to_global(pair, S(0)).requires_grad_()
        x.to_global(sbp=B, grad_sbp=back).square().sum().backward()
        assert x.grad.sbp == (S(0) if back is None else back,)
        np.testing.assert_allclose(x.grad.numpy(), 2 * array)


def main() -> None:
    """Checks the ranks of the MPI job."""
    check_moves()
    check_pipeline()
    check_eager_pipeline()
    check_gradient_of_a_tensor_of_the_process()
    check_gradients_of_shards()
    check_layouts_of_gradients()
    print(f"rank {mpi.world().rank} is done", flush=True)


if __name__ == "__main__":
    main()
