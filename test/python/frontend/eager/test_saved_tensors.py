"""Hooks on saved tensors: what calls keep, the gradients of both orders, freed memory, and misuse."""

import weakref

import numpy as np
import pytest

import oneflow as flow
from oneflow.autograd.graph import saved_tensors_hooks

X = np.linspace(0.2, 1.4, 12).reshape(3, 4)
W = np.linspace(-0.5, 0.7, 8).reshape(4, 2)


class Product(flow.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def network(x, w):
    h = flow.exp(x @ w)
    h = Product.apply(flow.tanh(h), h.sum())
    return (flow.cat([h.reshape(2, 3), flow.zeros(2, 3, dtype=h.dtype)]) ** 2).sum()


def gradients(hooks=None):
    x, w = (flow.tensor(a, requires_grad=True) for a in (X, W))
    with hooks or flow.enable_grad():
        y = network(x, w)
    first = flow.autograd.grad(y, [x, w], create_graph=True)
    return [g.numpy() for g in (*first, *flow.autograd.grad(first[0].sum(), [x, w]))]


def test_gradients_read_what_hooks_return():
    kept = []

    def pack(tensor):
        kept.append(tensor.numpy().copy())
        return len(kept) - 1

    found = gradients(saved_tensors_hooks(pack, lambda number: flow.tensor(kept[number])))
    for got, want in zip(found, gradients(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    product = np.exp(X @ W)
    for got, want in zip(kept, [X, W, product, np.tanh(product), np.tanh(product), product.sum()], strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_the_inner_context_applies():
    names = []
    x = flow.ones(2, requires_grad=True)

    def named(name):
        def pack(tensor):
            names.append(name)
            return tensor

        return saved_tensors_hooks(pack, lambda tensor: tensor)

    outer, inner = named("outer"), named("inner")
    with outer:
        x.exp()
        with inner:
            x.exp()
        x.exp()
    x.exp()
    assert names == ["outer", "inner", "outer"]


def test_elements_that_hooks_do_not_keep_are_freed():
    x = flow.ones(3, 3, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), flow.tensor):
        h = x.exp()
        elements = weakref.ref(h.variable.handle)
        y = (h @ h + h).sum()
        del h
    assert elements() is None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full((3, 3), np.e * (1 + 6 * np.e)), rtol=1e-6)
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_misuse_of_hooks_is_refused():
    x = flow.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="expected two functions for saved_tensors_hooks, got 1"):
        saved_tensors_hooks(1, lambda t: t)  # type: ignore[arg-type]
    with saved_tensors_hooks(lambda t: t, lambda t: t.double()):
        y = x.exp()
    with pytest.raises(RuntimeError, match=r"expected unpack_hook to return .*tensor<2xf32>, got tensor<2xf64>"):
        y.sum().backward()
    h = x * 2
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = h * h
    h.add_(1)
    with pytest.raises(RuntimeError, match="updated it in place"):
        y.sum().backward()
