"""Hooks on gradients and `autograd.Function` in traced functions: as in eager mode."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.autograd import Function

X = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], np.float32)


class Cube(Function):
    """x ** 3 with a scaled gradient that reads the argument and a result."""

    @staticmethod
    def forward(ctx, x, scale):
        y = x * x * x
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return y, x.sum()

    @staticmethod
    def backward(ctx, dy, dsum):
        x, y = ctx.saved_tensors
        return dy * (y / x) * 3 * ctx.scale + dsum, None


class Reversed(Function):
    """The identity with a negated gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x

    @staticmethod
    def backward(ctx, dy):
        return None if dy is None else -dy


class Signs(Function):
    """A result without a gradient and a result with a gradient."""

    @staticmethod
    def forward(ctx, x):
        signs = flow.sign(x)
        ctx.mark_non_differentiable(signs)
        return x * 2, signs

    @staticmethod
    def backward(ctx, dy, dsigns):
        return dy * 2


def hooked_tensor(x):
    y = x * x
    handle = y.register_hook(lambda grad: grad * 3)
    y.register_hook(lambda grad: None).remove()
    z = y * x
    z.register_hook(lambda grad: grad + 1)
    assert handle
    return z.sum()


def hooked_module(x):
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * outputs[0] * 2,))
    return (layer(x * 2) * x).sum()


FUNCTIONS = {
    "function": lambda x: Cube.apply(x, 2.0)[0].sum() + Cube.apply(x * x, 0.5)[1],
    "identity": lambda x: (Reversed.apply(x) * x).sum(),
    "without a gradient": lambda x: (Signs.apply(x)[0] * Signs.apply(x)[1]).sum(),
    "hooks on tensors": hooked_tensor,
    "a hook on a module": hooked_module,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_to_second_order(name):
    function = FUNCTIONS[name]
    first = flow.grad(function)
    second = flow.grad(lambda x: (flow.grad(function)(x) * flow.tensor(X)).sum())
    for gradient in (first, second):
        expected = gradient(flow.tensor(X)).numpy()
        np.testing.assert_allclose(np.asarray(flow.compile(gradient)(X)), expected, 1e-5, 1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_leaves(name):
    """`backward` runs inside of the compiled function, and outside through a call of the compiled function."""

    def gradient(way):
        w = flow.tensor(X, requires_grad=True)

        def loss():
            return FUNCTIONS[name](w * 2)

        def run():
            value = loss()
            value.backward()
            return value

        ways: dict[str, Any] = {
            "eager": run, "inside": flow.compile(run), "outside": lambda: flow.compile(loss)().backward()
        }  # fmt: skip
        ways[way]()
        return w.grad.numpy()

    for way in ("inside", "outside"):
        np.testing.assert_allclose(gradient(way), gradient("eager"), 1e-5, 1e-6, err_msg=way)


def test_module_hooks_without_arguments_that_require_grad():
    """Module hooks are called with None for data, and see the gradients of results."""
    found = []
    for wrap in (lambda f: f, flow.compile):
        flow.manual_seed(0)
        seen: list[Any] = []

        class Scaled(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x)

        model = nn.Sequential(Scaled(nn.Linear(3, 2)), Scaled(nn.Linear(2, 1)))
        for layer in model:
            layer.register_full_backward_hook(
                lambda module, inputs, outputs, seen=seen: seen.append([x is None for x in (*inputs, *outputs)])
            )
        model[1].inner.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 5,))

        def step(x, model=model):
            loss = model(x).sum()
            loss.backward()
            return loss

        wrap(step)(flow.tensor(X))
        found.append((seen, [p.grad.numpy() for p in model.parameters()]))
    (eager, expected), (traced, got) = found
    assert eager == traced == [[False, False], [True, False]]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-5)


def test_gradients_that_are_taken_once():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @flow.autograd.function.once_differentiable
        def backward(ctx, dy):
            return dy * 2

    def first(x):
        return flow.grad(lambda x: (Once.apply(x) * x).sum())(x)

    np.testing.assert_allclose(flow.compile(first)(X), 4 * X)
    with pytest.raises(flow.TraceError, match="its backward is once_differentiable"):
        flow.compile(flow.grad(lambda x: first(x).sum()))(X)


def test_refused_backward_calls():
    @flow.checkpoint
    def kept(x):
        return Reversed.apply(x)

    @flow.checkpoint
    def hooked(x):
        y = x * 2
        y.register_hook(print)
        return y

    class Dirty(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x

    w = flow.ones(2).requires_grad_()
    cases = {
        "Reversed: expected no autograd.Function within flow.checkpoint": lambda x: kept(x).sum(),
        "expected register_hook on a tensor that the function computes, outside of flow.checkpoint": hooked,
        "Dirty: mark_dirty is for eager mode; return a new tensor": Dirty.apply,
        "hooks on parameters are registered before the function is called": lambda x: w.register_hook(print),
    }
    for message, function in cases.items():
        with pytest.raises(flow.TraceError, match=message):
            flow.compile(function)(X)


SPARE = flow.tensor([1.0, 2.0], requires_grad=True)


def penalized(model, x):
    """A loss, after `backward` of the loss with a gradient penalty, and gradients by a tensor that is not read."""
    loss = model(x).square().mean()
    grads = flow.autograd.grad(loss, [*model.parameters()], create_graph=True)
    (loss + sum(g.square().sum() for g in grads if g is not None)).backward()
    return loss, *flow.autograd.grad(model(x).sum(), [SPARE], materialize_grads=True)


def test_gradients_by_leaves_are_those_of_eager_mode():
    found = []
    for wrap in (lambda f: f, flow.compile):
        flow.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        loss, spare = wrap(lambda x, model=model: penalized(model, x))(flow.tensor(X))
        found.append([loss.detach().numpy(), spare.numpy(), *(p.grad.numpy() for p in model.parameters())])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_gradients_by_what_a_compiled_function_computes_are_refused():
    ones, other = np.ones(2, np.float32), flow.ones(2).requires_grad_()
    refused = r"expected leaves from outside as inputs .* flow\.grad\(fn\)"
    with pytest.raises(flow.TraceError, match=refused):
        flow.compile(lambda x: flow.autograd.grad((x * SPARE).sum(), [x])[0])(ones)
    with pytest.raises(flow.TraceError, match=r"requires_grad_ is for tensors from outside .* flow\.grad\(fn\)"):
        flow.compile(lambda x: x.requires_grad_())(ones)
    with pytest.raises(RuntimeError, match="do not depend on input 0; pass allow_unused=True"):
        flow.compile(lambda x: flow.autograd.grad((x * SPARE).sum(), [other]))(ones)
