"""Hooks on tensors and modules: the same scenarios in PyTorch, with the arguments of the hooks, in order."""

import copy
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

SCENARIOS: list[Any] = []


def scenario(function):
    """Adds a scenario: a function of a library, the library's `nn` and a list of events."""
    SCENARIOS.append(function)
    return function


def values(x):
    """Nested tuples of tensors as lists of numbers."""
    if isinstance(x, tuple):
        return tuple(map(values, x))
    return None if x is None else np.round(x.detach().numpy().astype(np.float64), 4).tolist()


def leaf(m, *numbers):
    return m.tensor([float(n) for n in numbers], requires_grad=True)


def linear(m, nn):
    layer = nn.Linear(2, 2, bias=False)
    with m.no_grad():
        layer.weight.copy_(m.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return layer


@scenario
def order_at_leaves_and_others(m, nn, log):
    x = leaf(m, 1, 2)
    h = x * 2
    y = h * h
    for name, tensor in [("x", x), ("h", h), ("y", y), ("second of h", h), ("second of x", x)]:
        tensor.register_hook(lambda g, name=name: log.append((name, values(g))))
    y.sum().backward()
    log.append(values(x.grad))


@scenario
def gradients_are_replaced_until_removed(m, nn, log):
    x = leaf(m, 1, 2)
    h = x * 2
    first = h.register_hook(lambda g: g * 10)
    h.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: -g)
    y = (h * h).sum()
    y.backward(retain_graph=True)
    log.append(values(x.grad))
    first.remove()
    first.remove()
    y.backward()
    log.append(values(x.grad))


@scenario
def a_handle_is_a_context(m, nn, log):
    x = leaf(m, 1, 2)
    with x.register_hook(lambda g: g * 2):
        x.sum().backward()
    x.sum().backward()
    log.append(values(x.grad))


@scenario
def retained_gradients(m, nn, log):
    x = leaf(m, 1, 2)
    h = x * 2
    h.register_hook(lambda g: g * 10)
    h.retain_grad()
    h.register_hook(lambda g: g + 1)
    (h * h).sum().backward()
    log.append((values(h.grad), values(x.grad)))


@scenario
def second_derivatives(m, nn, log):
    x = leaf(m, 1, 2)
    x.register_hook(lambda g: g * 2)
    (slope,) = m.autograd.grad((x * x * x).sum(), x, create_graph=True)
    log.append(values(slope))
    slope.sum().backward()
    log.append(values(x.grad))


@scenario
def updates_in_place(m, nn, log):
    h = leaf(m, 1, 2) * 2
    h.register_hook(lambda g: log.append(("before", values(g))))
    h.add_(1)
    h.register_hook(lambda g: log.append(("after", values(g))))
    h.mul_(3).sum().backward()


@scenario
def once_for_all_uses(m, nn, log):
    x = leaf(m, 1, 2)
    h = x * 2
    h.register_hook(lambda g: log.append(values(g)))
    (h * h + h * 3).sum().backward()


@scenario
def only_on_the_way(m, nn, log):
    x, w = leaf(m, 1, 2), leaf(m, 3, 4)
    h, k = x * 2, w * 2
    for name, tensor in [("w", w), ("h", h), ("k", k)]:
        tensor.register_hook(lambda g, name=name: log.append(name))
    m.autograd.grad((h * k).sum(), x)


@scenario
def what_is_no_gradient(m, nn, log):
    x = leaf(m, 1)
    x.register_hook(lambda g: 3)
    with pytest.raises((RuntimeError, TypeError)):
        (x * 2).sum().backward()
    with pytest.raises(RuntimeError):
        m.tensor([1.0]).register_hook(print)


@scenario
def modules(m, nn, log):
    layer, x = linear(m, nn), m.tensor([[1.0, 2.0]], requires_grad=True)
    layer.register_forward_pre_hook(lambda module, args: log.append(("before", values(args))))
    layer.register_forward_pre_hook(
        lambda module, args, kwargs: log.append(("first", values(args), kwargs)), with_kwargs=True, prepend=True
    )
    layer.register_forward_pre_hook(lambda module, args: args[0] * 2)
    layer.register_forward_hook(lambda module, args, y: log.append(("after", values(args), values(y))))
    handle = layer.register_forward_hook(lambda module, args, y: y * 3)
    layer.register_forward_hook(
        lambda module, args, kwargs, y: log.append(("last", values(args), kwargs, values(y))), with_kwargs=True
    )
    layer.register_full_backward_hook(lambda module, *grads: log.append(("back", values(grads))))
    layer(x).sum().backward()
    log.append((values(x.grad), values(layer.weight.grad)))
    handle.remove()
    layer(x).sum().backward()
    log.append(values(x.grad))


@scenario
def modules_get_other_arguments(m, nn, log):
    class Scaled(nn.Module):  # type: ignore[name-defined]
        def forward(self, x, *, by):
            return x * by

    layer = Scaled()
    layer.register_forward_pre_hook(lambda module, args, kwargs: (args, {"by": 5.0}), with_kwargs=True)
    log.append(values(layer(m.tensor([2.0]), by=1.0)))
    layer.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError):
        layer(m.tensor([2.0]), by=1.0)


@scenario
def no_argument_has_a_gradient(m, nn, log):
    layer = linear(m, nn)
    layer.register_full_backward_hook(lambda module, *grads: log.append(values(grads)))
    layer(m.tensor([[1.0, 2.0]])).sum().backward()
    log.append(values(layer.weight.grad))
    with m.no_grad():
        layer(m.tensor([[1.0, 2.0]]))


@scenario
def gradients_of_arguments_are_replaced(m, nn, log):
    layer, x = linear(m, nn), m.tensor([[1.0, 2.0]], requires_grad=True)
    layer.register_full_backward_hook(lambda module, before, after: (before[0] * 2,))
    layer.register_full_backward_hook(lambda module, *grads: log.append(values(grads)))
    layer.register_full_backward_hook(lambda module, before, after: (before[0] + 1,), prepend=True)
    layer(x).sum().backward()
    log.append((values(x.grad), values(layer.weight.grad)))


@scenario
def several_arguments_and_results(m, nn, log):
    class Several(nn.Module):  # type: ignore[name-defined]
        def forward(self, a, b, c, d):
            return a * 2 * c, b * 3, c.to(m.int64)

    layer, a, b = Several(), leaf(m, 2), leaf(m, 3)
    handle = layer.register_full_backward_hook(lambda module, *grads: log.append(values(grads)))
    layer(a, b, m.tensor([4.0]), "d")[0].sum().backward()
    log.append((values(a.grad), values(b.grad)))
    handle.remove()
    layer.register_full_backward_hook(lambda module, before, after: before[:1])
    with pytest.raises(RuntimeError):
        layer(a, b, m.tensor([4.0]), "d")[0].sum().backward()


@scenario
def a_graph_through_backward_hooks(m, nn, log):
    layer, x = linear(m, nn), m.tensor([[1.0, 2.0]], requires_grad=True)
    layer.register_full_backward_hook(lambda module, before, after: (before[0] * after[0].sum(),))
    (slope,) = m.autograd.grad((layer(x) ** 2).sum(), x, create_graph=True)
    log.append(values(slope))
    slope.sum().backward()
    log.append((values(x.grad), values(layer.weight.grad)))


@scenario
def nested_modules_and_copies(m, nn, log):
    model = nn.Sequential(linear(m, nn), nn.ReLU(), linear(m, nn))
    for index, layer in enumerate([model, *model]):
        layer.register_forward_pre_hook(lambda module, args, n=index: log.append(("before", n)))
        layer.register_forward_hook(lambda module, args, y, n=index: log.append(("after", n)))
        layer.register_full_backward_hook(lambda module, *grads, n=index: log.append((n, values(grads))))
    x = m.tensor([[1.0, 2.0]], requires_grad=True)
    model(x).sum().backward(retain_graph=True)
    copy.deepcopy(model)(x).sum().backward()


@scenario
def backward_twice(m, nn, log):
    layer, x = linear(m, nn), m.tensor([[1.0, 2.0]], requires_grad=True)
    layer.register_full_backward_hook(lambda module, *grads: log.append(values(grads)))
    y = layer(layer(x))
    y.sum().backward(retain_graph=True)
    (y * 2).sum().backward()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("fn", SCENARIOS, ids=lambda fn: fn.__name__)
def test_hook_scenarios_equal_pytorch(fn):
    want, got = list[Any](), list[Any]()
    fn(torch, torch.nn, want)
    fn(flow, nn, got)
    assert got == want
