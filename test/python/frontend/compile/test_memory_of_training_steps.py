"""The memory of compiled functions: parameters updated in place, and memory that checkpoints save."""

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

RNG = np.random.default_rng(0)


def training(optimizer):
    flow.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.LayerNorm(30), nn.Linear(30, 5))
    updates = optimizer(model.parameters())

    def step(x, labels):
        updates.zero_grad()
        loss = flow.cross_entropy(model(x), labels)
        loss.backward()
        updates.step()
        return loss

    return model, updates, step


OPTIMIZERS = {
    "sgd": lambda p: flow.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: flow.optim.AdamW(p, lr=0.01),
}
X, LABELS = RNG.standard_normal((16, 20)).astype(np.float32), RNG.integers(0, 5, 16)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_are_updated_in_their_memory(name):
    eager_model, _, eager = training(OPTIMIZERS[name])
    model, _, step = training(OPTIMIZERS[name])
    compiled = flow.compile(step)
    before = [p.detach().numpy().ctypes.data for p in model.parameters()]
    for _ in range(3):
        eager(flow.tensor(X), flow.tensor(LABELS))
        compiled(X, LABELS)
    assert [p.detach().numpy().ctypes.data for p in model.parameters()] == before
    for got, wanted in zip(model.parameters(), eager_model.parameters(), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=2e-5, atol=2e-6)
    parameters = sum(p.detach().numpy().nbytes for p in model.parameters())
    states = {"sgd": 1, "adamw": 2}[name]
    assert compiled.memory.in_place >= (1 + states) * parameters
    assert f"and {compiled.memory.in_place / 1024:.4g} KiB in arguments" in str(compiled.memory)


def test_a_failing_step_leaves_parameters_unchanged():
    model, _, step = training(OPTIMIZERS["adamw"])
    compiled = flow.compile(step)
    before = [p.detach().numpy().copy() for p in model.parameters()]
    with pytest.raises(IndexError, match=r"expected an index in \[0, 5\), got 7$"):
        compiled(X, np.full(16, 7))
    for p, kept in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), kept)


def deep(depth, part):
    """The gradient of a deep network by its weights, whose layers are computed in segments of four by `part`."""

    def segment(x, *weights):
        for w in weights:
            x = flow.tanh(x @ w)
        return x

    def loss(x, weights):
        for first in range(0, depth, 4):
            x = part(segment)(x, *weights[first : first + 4])
        return (x * x).sum()

    return flow.compile(flow.value_and_grad(loss, argnums=1))


def test_checkpoints_lower_the_memory_of_a_compiled_function():
    depth, width, rows = 32, 8, 512
    x = RNG.standard_normal((rows, width)).astype(np.float32)
    weights = [RNG.standard_normal((width, width)).astype(np.float32) / 3 for _ in range(depth)]
    kept, again = deep(depth, lambda f: f), deep(depth, flow.checkpoint)
    wanted, got = kept(x, weights), again(x, weights)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5)
    for one, other in zip(got[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    activation = rows * width * 4
    assert kept.memory.workspace >= depth * activation
    assert again.memory.workspace <= (depth // 4 + 8) * activation
