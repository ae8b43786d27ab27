"""Clipping of gradients: norms of every kind, and gradients that stay the same tensors."""

import math

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

GRADS = [[1.0, -3.0, 0.0, 2.0], [], 2.0, [0.0, 4.0]]
#: Kinds of norm, and PyTorch's norm of the gradients that have elements.
NORMS = [
    (0.0, 3.0), (1, 12.0), (2, math.sqrt(34)), (3, 108 ** (1 / 3)), (math.inf, 4.0), (-math.inf, 0.0), (-1.0, 0.0),
    (0.5, (1 + math.sqrt(3) + 2 * math.sqrt(2) + 2) ** 2),
]  # fmt: skip


def parameters(grads):
    arrays = [np.asarray(g, np.float32) for g in grads]
    made = [nn.Parameter(np.ones_like(a)) for a in arrays]
    for p, a in zip(made, arrays, strict=True):
        p.grad = flow.tensor(a)
    return made


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind,norm", NORMS)
def test_norms(kind, norm, compiled):
    made = parameters(GRADS)
    held = [p.grad for p in made]

    def clip():
        return nn.utils.clip_grad_norm_(made, 1.0, kind)

    np.testing.assert_allclose(float((flow.compile(clip) if compiled else clip)()), norm, 1e-6)
    for p, grad, g in zip(made, held, GRADS, strict=True):
        assert p.grad is grad
        np.testing.assert_allclose(grad.numpy(), np.asarray(g, np.float32) / max(norm + 1e-6, 1), 1e-6)


def test_norms_of_nothing():
    for kind in (0.0, 2.0, math.inf):
        assert nn.utils.clip_grad_norm_(parameters([[], []]), 1.0, kind).item() == 0
        assert nn.utils.clip_grad_norm_([], 1.0, kind).item() == 0
    made = parameters([[-2.0, 4.0]])
    assert nn.utils.clip_grad_norm_(made, 1.0, -math.inf).item() == 2
    np.testing.assert_allclose(made[0].grad.numpy(), [-1, 2], 1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_clipping_by_value(compiled):
    w = nn.Parameter(np.ones(3, np.float32))
    optimizer = flow.optim.SGD([w], lr=0.5)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        grad = w.grad
        nn.utils.clip_grad_value_([w], 2)
        optimizer.step()
        return grad

    run = flow.compile(step) if compiled else step
    for x in ([1.0, 5.0, -9.0], [0.0, -3.0, 1.0]):
        assert run(flow.tensor(x)).tolist() == np.clip(x, -2, 2).tolist() == w.grad.tolist()
    assert w.detach().tolist() == [0.5, 1.0, 1.5]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_of_one_value_are_updated_one_by_one(compiled):
    a, b = (nn.Parameter(np.zeros(2, np.float32)) for _ in range(2))

    def step(x):
        ((a + b) * x).sum().backward()
        first = a.grad
        nn.utils.clip_grad_norm_([a, b], 4.0)
        a.grad.mul_(2)
        ((a + b) * x).sum().backward()
        return first

    run = flow.compile(step) if compiled else step
    first = run(flow.tensor([4.0, 4.0]))
    np.testing.assert_allclose(first.numpy(), [8, 8], 1e-5)
    np.testing.assert_allclose(a.grad.numpy(), [8, 8], 1e-5)
    np.testing.assert_allclose(b.grad.numpy(), [6, 6], 1e-5)
