"""`backward(inputs=..)`: only the named leaves get gradients; compared with PyTorch."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import OneFlowError, TraceError

torch = pytest.importorskip("torch")

A, B = np.array([1.0, 2.0], np.float32), np.array([3.0, -1.0], np.float32)


def leaves(lib):
    return [lib.tensor(x, requires_grad=True) for x in (A, B, A + B)]


def plain(lib, a, b, c):
    ((a * b).sum() + (b * c).exp().sum()).backward(inputs=[a, c])


def one(lib, a, b, c):
    (a * b * c).sum().backward(inputs=b)


def not_behind(lib, a, b, c):
    (a * a).sum().backward(inputs=[a, c])


def added_up(lib, a, b, c):
    for inputs in ([a], [a, b], None):
        (a * b * c).sum().backward(inputs=inputs)


def several(lib, a, b, c):
    lib.autograd.backward([a * b, b * c], [lib.ones(2), lib.ones(2) * 2], inputs=[b])


def again(lib, a, b, c):
    y = (a * b * c).sum()
    y.backward(retain_graph=True, inputs=[a])
    y.backward(inputs=[b])


def twice(lib, a, b, c):
    (a * a * b).sum().backward(create_graph=True, inputs=[a])
    grad, a.grad = a.grad, None
    (grad * c).sum().backward(inputs=[a, c])


@pytest.mark.parametrize("run", [plain, one, not_behind, added_up, several, again, twice])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_of_named_inputs_equal_pytorch(run, compiled):
    def grads(lib):
        given = leaves(lib)

        def step():
            run(lib, *given)
            return given[0].detach() * 1

        (flow.compile(step) if compiled and lib is flow else step)()
        return [None if x.grad is None else x.grad.detach().numpy() for x in given]

    for got, want in zip(grads(flow), grads(torch), strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(got, want, 1e-6)


def test_hooks_of_other_leaves_are_not_called():
    (a, b, _), seen = leaves(flow), list[Any]()
    a.register_hook(lambda grad: grad * 2)
    b.register_hook(seen.append)
    (a * b).sum().backward(inputs=[a])
    assert a.grad.tolist() == (2 * B).tolist() and b.grad is None and not seen


def test_a_tensor_that_keeps_its_gradient():
    a, b, _ = leaves(flow)
    y = a * b
    y.retain_grad()
    (y * y).sum().backward(inputs=[y])
    assert y.grad.tolist() == (2 * A * B).tolist() and a.grad is None and b.grad is None


def test_unneeded_gradients_are_not_computed():
    seen = []

    class Seen(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            seen.append(dy)
            return dy * 2

    a, b, _ = leaves(flow)
    (Seen.apply(a) * b).sum().backward(inputs=[b])
    assert b.grad.tolist() == (2 * A).tolist() and not seen and a.grad is None


def test_inputs_are_leaves():
    a, b, _ = leaves(flow)
    y = a * b
    for inputs in ([y], y, [b.detach()], [3]):
        with pytest.raises(OneFlowError, match=r"test_backward_inputs.py:\d+: expected leaves that require grad"):
            (y * y).sum().backward(inputs=inputs)
    with pytest.raises(OneFlowError, match="expected at least one tensor as inputs of backward, got none"):
        (y * y).sum().backward(inputs=[])
    with pytest.raises(TraceError, match="expected leaves that require grad as inputs of backward"):
        flow.compile(lambda x: (x * a).sum().backward(inputs=[x]))(A)
    assert a.grad is None and b.grad is None
