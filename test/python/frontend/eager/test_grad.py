"""`flow.grad` and its like in eager mode, and `checkpoint` in both modes."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

X = np.array([0.3, -0.7, 1.1])


def cube(x):
    return (x**3).sum()


def test_grad():
    got = flow.grad(cube)(X)
    np.testing.assert_allclose(got.numpy(), 3 * X**2)
    value, (by_x, by_y) = flow.value_and_grad(lambda x, y: (x * y).sum(), (0, 1))(X, flow.tensor(2 * X))
    np.testing.assert_allclose([float(value), *by_x.numpy(), *by_y.numpy()], [2 * (X**2).sum(), *(2 * X), *X])
    assert not value.requires_grad and not by_x.requires_grad
    assert flow.grad(lambda x: (x * 0).sum() + 1)(X).tolist() == [0, 0, 0]
    assert flow.grad(lambda x, y: y.sum())(X, flow.tensor(X)).tolist() == [0, 0, 0]


def test_arguments_keep_their_gradients():
    leaf = flow.tensor(X, requires_grad=True)
    got = flow.grad(cube)(leaf)
    assert leaf.grad is None and got.requires_grad
    got.sum().backward()
    np.testing.assert_allclose(np.asarray(leaf.grad), 6 * X)


def test_nesting():
    third = flow.grad(lambda x: flow.grad(lambda y: flow.grad(cube)(y).sum())(x).sum())
    np.testing.assert_allclose(third(X).numpy(), [6, 6, 6])
    outer = flow.grad(lambda x: flow.grad(lambda y: (x * x * y).sum())(flow.tensor(X)).sum())
    np.testing.assert_allclose(outer(X).numpy(), 2 * X)


def test_vjp_and_jvp():
    value, pull = flow.vjp(lambda x: x * x, flow.tensor(X))
    np.testing.assert_allclose(value.numpy(), X**2)
    for weight in (1.0, 2.0):
        np.testing.assert_allclose(pull(flow.tensor(weight * np.ones(3))).numpy(), 2 * weight * X)
    value, change = flow.jvp(lambda x: x.sin() * x, (flow.tensor(X),), (flow.tensor(np.ones(3)),))
    np.testing.assert_allclose(change.numpy(), np.cos(X) * X + np.sin(X))


def test_inputs_without_a_gradient_path():
    with pytest.raises(flow.OneFlowError, match=r"oneflow\.bernoulli has no gradient"):
        flow.grad(lambda x: flow.bernoulli(x * 0 + 0.5).sum())(X)


def training(block, x):
    def step():
        loss = block(flow.tensor(x)).square().sum()
        loss.backward()
        return loss.detach()

    return step


@pytest.mark.parametrize("compiled", [False, True])
def test_checkpoint_gives_the_same_gradients(compiled):
    x = np.random.default_rng(0).uniform(-1, 1, (4, 3)).astype(np.float32)
    layer = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 2))
    found = []
    for block in (layer, flow.checkpoint(layer)):
        flow.manual_seed(3)
        layer.zero_grad()
        step = training(block, x)
        loss = flow.compile(step)() if compiled else step()
        found.append([float(loss), *(p.grad.numpy().copy() for p in layer.parameters())])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, 1e-6)


def test_checkpoint_keeps_no_intermediate_tensors():
    calls = []

    def block(x):
        calls.append(x)
        return (x.exp() * 2).sin()

    x = flow.tensor(X, requires_grad=True)
    y = flow.checkpoint(block, x * 1.0)
    assert y.grad_fn == "oneflow.checkpoint" and len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(x.grad.numpy(), np.cos(2 * np.exp(X)) * 2 * np.exp(X))


W = flow.tensor([2.0, 3.0], requires_grad=True)
CONSTANT, POSITIONS = flow.tensor([2.0, 3.0]), flow.tensor([1, 1])
#: A function of `x * 1` and a second tensor, and the second tensor.
READ_AGAIN = {
    "an argument": (lambda x, other: flow.checkpoint(lambda a, b: a * b)(x, other), CONSTANT),
    "positions": (lambda x, other: flow.checkpoint(lambda a, b: a[b] * 2)(x, other), POSITIONS),
    "a leaf from outside": (lambda x, other: flow.checkpoint(lambda a: (a * other).exp())(x), W),
    "a constant from outside": (lambda x, other: flow.checkpoint(lambda a: (a * other).exp())(x), CONSTANT),
}


@pytest.mark.parametrize("function,other", READ_AGAIN.values(), ids=READ_AGAIN)
def test_a_checkpoint_that_reads_stale_values_is_an_error(function, other):
    total = function(flow.tensor([1.0, 2.0], requires_grad=True) * 1, other).sum()
    total.backward(retain_graph=True)
    other.data.zero_()
    with pytest.raises(
        RuntimeError, match=r"oneflow\.checkpoint needs tensor<2x.*as it was, but zero_ has updated it"
    ):
        total.backward()


def test_a_checkpoint_reads_a_view_as_it_was_and_may_update_tensors():
    x, norm = flow.tensor(X, requires_grad=True), nn.BatchNorm1d(2)
    whole = x * 1
    total = flow.checkpoint(flow.exp)(whole[:2]).sum()
    whole.zero_()
    total.backward()
    np.testing.assert_allclose(x.grad.numpy(), [*np.exp(X[:2]), *np.zeros_like(X[2:])], 1e-6)
    moved = flow.checkpoint(norm)(flow.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)).sum()
    moved.backward(retain_graph=True)
    moved.backward()
    assert norm.weight.grad.shape == (2,)


@pytest.mark.parametrize("again", [False, True], ids=["added in place", "with a graph"])
def test_threads_accumulate_gradients_at_one_leaf(again):
    w, interval = flow.tensor([1.0, 2.0], requires_grad=True), sys.getswitchinterval()

    def work(_):
        for _ in range(50):
            (w * 2).sum().backward(create_graph=again)

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert w.grad.tolist() == [400, 400]


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_gradients_of_tensors_updated_in_a_checkpoint(early, recorded):
    """Values equal those without a checkpoint; eager mode, like PyTorch, updates again at the gradient."""

    def run(kept):
        c = flow.tensor(np.arange(3, dtype=np.float32))
        v = c[1:]

        def part(x):
            row = c[:2]
            if early:
                v.mul_(x)

            def segment(y):
                with flow.set_grad_enabled(recorded):
                    v.add_(y)
                total = row.sum()
                return (y * c * c).sum() + total

            value = segment(x) if kept else flow.checkpoint(segment, x)
            return value + (c * x).sum() + row.sum()

        found = flow.compile(flow.value_and_grad(part))(flow.tensor(np.float32(3)))
        return [*(t.item() for t in found), *c.tolist()]

    assert run(False) == run(True)
