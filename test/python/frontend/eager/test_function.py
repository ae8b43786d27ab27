"""`flow.autograd.Function`: gradients written by hand."""

import numpy as np
import pytest

import oneflow as flow


class Cube(flow.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * x * x * (3 * ctx.scale), None


class Both(flow.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        assert ctx.needs_input_grad == (True, False)
        return x + y, x * y

    @staticmethod
    def backward(ctx, first, second):
        return first + second * 10, None


def test_gradient():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(x, 2.0)
    assert y.tolist() == [2, 16] and y.requires_grad
    (y * y).sum().backward()
    assert x.grad.tolist() == [24, 768]


def test_second_order():
    x = flow.tensor([2.0], requires_grad=True)
    (dx,) = flow.autograd.grad(Cube.apply(x, 1.0), x, create_graph=True)
    dx.sum().backward()
    assert x.grad.tolist() == [12]


def test_results_that_are_not_used_have_zero_gradients():
    x = flow.tensor([1.0], requires_grad=True)
    first, second = Both.apply(x, flow.tensor([3.0]))
    first.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [1]
    second.sum().backward()
    assert x.grad.tolist() == [11]


def test_spoiled_saved_tensor():
    x = flow.tensor([1.0], requires_grad=True)
    h = x * 2
    y = Cube.apply(h, 1.0)
    h.add_(1)
    with pytest.raises(RuntimeError, match=r"the gradient of Cube needs .* but add_ has updated it in place"):
        y.sum().backward()


def test_without_a_gradient():
    assert not Cube.apply(flow.tensor([1.0]), 1.0).requires_grad
    with flow.no_grad():
        assert not Cube.apply(flow.tensor([1.0], requires_grad=True), 1.0).requires_grad


def test_wrong_number_of_gradients():
    class Wrong(Cube):
        @staticmethod
        def backward(ctx, dy):
            return dy

    with pytest.raises(RuntimeError, match="expected backward of Wrong to give 2 gradients, got 1"):
        Wrong.apply(flow.tensor([1.0], requires_grad=True), 1.0).sum().backward()


def test_refused_in_a_trace():
    with pytest.raises(flow.TraceError, match="is for eager mode"):
        flow.trace(lambda x: Cube.apply(x, 1.0), flow.TensorSpec((2,), np.float32))
