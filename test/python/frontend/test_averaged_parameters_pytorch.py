"""Running averages of parameters and parameters as one vector: PyTorch's values and gradients."""

import copy

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

X, Y, W = np.random.default_rng(4).normal(size=(3, 2, 3))
SUMS = {
    "add": lambda f, x, y, w: f.add(x, y, alpha=0.5) + x.add(y, alpha=-2) + f.add(x, 3, alpha=2),
    "sub": lambda f, x, y, w: f.sub(x, y, alpha=0.5) * x.sub(y * w, alpha=2) - f.sub(x, 1.5, alpha=2),
    "lerp": lambda f, x, y, w: f.lerp(x, y, 0.25) * x.lerp(y, w) + f.lerp(y, x, 0.75),
}


@pytest.mark.parametrize("name", SUMS)
def test_values_and_gradients(name):
    found = []
    for f in (flow, torch):
        leaves = [f.tensor(a, requires_grad=True) for a in (X, Y, W)]
        result = SUMS[name](f, *leaves)
        grads = f.autograd.grad((result * result).sum(), leaves, allow_unused=True)
        found.append([result.detach().numpy(), *(np.zeros(1) if g is None else g.numpy() for g in grads)])
    compiled = flow.compile(lambda *xs: SUMS[name](flow, *xs))(X, Y, W)
    np.testing.assert_allclose(compiled, found[1][0], 1e-9)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-9)


def test_running_averages():
    found = []
    for f in (flow, torch):
        net = f.nn.Linear(3, 2)
        with f.no_grad():
            for p, value in zip(net.parameters(), (X, Y[:, 0]), strict=True):
                p.copy_(f.tensor(value))
        first, second = (copy.deepcopy(net).requires_grad_(False) for _ in range(2))
        with f.no_grad():
            for p, q, r in zip(net.parameters(), first.parameters(), second.parameters(), strict=True):
                p.mul_(3).sub_(p, alpha=0.5)
                q.mul_(0.9).add_(p, alpha=0.1)
                r.lerp_(p, 0.25)
        found.append([t.detach().numpy() for m in (first, second) for t in m.parameters()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


def test_parameters_as_one_vector():
    net = flow.nn.Linear(3, 2)
    vector = flow.nn.utils.parameters_to_vector(net.parameters())
    (vector * flow.arange(8)).sum().backward()
    assert net.weight.grad.tolist() == [[0, 1, 2], [3, 4, 5]] and net.bias.grad.tolist() == [6, 7]
    flow.nn.utils.vector_to_parameters(flow.arange(8).float(), net.parameters())
    assert net.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and net.bias.tolist() == [6, 7]
    with pytest.raises(ValueError, match="expected a vector of 8 elements for the parameters, got tensor<7xf32>"):
        flow.nn.utils.vector_to_parameters(flow.zeros(7), net.parameters())
