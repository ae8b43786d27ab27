"""`flow.autograd.Function`: user-defined gradients."""

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


def test_a_stale_saved_tensor_is_an_error():
    x = flow.tensor([1.0], requires_grad=True)
    h = x * 2
    y = Cube.apply(h, 1.0)
    h.add_(1)
    with pytest.raises(RuntimeError, match=r"the gradient of Cube needs .* but add_ has updated it in place"):
        y.sum().backward()


def test_results_require_grad_only_if_an_input_does():
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


class Scaled(flow.autograd.Function):
    """Returns non-tensors too; the gradients are of another shape and element type, and too many."""

    @staticmethod
    def forward(ctx, x, y):
        return None, x * y, 3

    @staticmethod
    def backward(ctx, *grads):
        assert [g is None for g in grads] == [True, False, True]
        return grads[1].to(flow.float64) * flow.arange(6).reshape(3, 2), grads[1], None, None


@pytest.mark.parametrize("wrap", [lambda f: f, flow.compile], ids=["eager", "compiled"])
def test_other_arguments_are_passed_on_and_gradients_are_cast(wrap):
    def loss(x, y):
        first, product, three = Scaled.apply(x, y)
        assert first is None and three == 3
        return (product * 2).sum()

    by_x, by_y = wrap(flow.grad(loss, (0, 1)))(flow.tensor([1.0, 2.0]), flow.tensor(2.0))
    assert by_x.tolist() == [2 * (0 + 2 + 4), 2 * (1 + 3 + 5)] and by_x.dtype == flow.float32
    assert by_y.tolist() == 4


def test_refused_results():
    class Listed(Cube):
        @staticmethod
        def forward(ctx, x):  # type: ignore[override]
            return [x * 1]

    with pytest.raises(flow.OneFlowError, match=r"Listed: expected forward to return a tensor or a tuple .* got \["):
        Listed.apply(flow.tensor([1.0], requires_grad=True))


class Sign(flow.autograd.Function):
    """The mask of elements above 0 has no gradient; `setup_context` is a method of its own."""

    @staticmethod
    def forward(x, scale):
        return x * scale, x > 0, x * 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]
        ctx.mark_non_differentiable(output[1], output[2])

    @staticmethod
    def backward(ctx, dy, *_):
        return dy * ctx.scale, None


def test_results_without_a_gradient_and_setup_context():
    x = flow.tensor([1.0, -2.0], requires_grad=True)
    y, above, none = Sign.apply(x, 3.0)
    assert (y.requires_grad, above.requires_grad, none.requires_grad) == (True, False, False)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


class Doubled(flow.autograd.Function):
    """Updates the argument in place."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


def test_an_argument_that_is_updated_is_the_result():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = Doubled.apply(y)
    assert z is y and y.tolist() == [2, 4]
    (z * y).sum().backward()
    assert x.grad.tolist() == [8, 16]
    with pytest.raises(RuntimeError, match="Doubled updates a leaf that requires grad"):
        Doubled.apply(flow.tensor([1.0], requires_grad=True))


def test_once_differentiable():
    class Once(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @flow.autograd.function.once_differentiable
        def backward(ctx, dy):
            return dy * ctx.saved_tensors[0] * 2

    x = flow.tensor([3.0], requires_grad=True)
    Once.apply(x).sum().backward()
    assert x.grad.tolist() == [6]
    (slope,) = flow.autograd.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(Exception, match="once_differentiable"):
        slope.sum().backward()


def test_gradients_of_unused_results_are_zeros_if_asked():
    x, y = (flow.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    by_x, by_y = flow.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)
    assert by_x.tolist() == [2, 2] and by_y.tolist() == [0, 0]


@pytest.mark.parametrize("keep", [True, False])
def test_second_order_through_a_result_that_was_kept(keep):
    class Product(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, dy):
            x, y = ctx.saved_tensors
            return dy * (x.exp() + y)

    x = flow.tensor([0.0, 1.0], requires_grad=True)
    y = Product.apply(x)
    loss = y.sum()
    y = y if keep else None
    (first,) = flow.autograd.grad(loss, [x], create_graph=True)
    (second,) = flow.autograd.grad(first.sum(), [x])
    np.testing.assert_allclose(second.numpy(), (2 + x.detach().numpy()) * np.exp(x.detach().numpy()), rtol=1e-6)


@pytest.mark.parametrize("saves", [False, True])
def test_functions_that_save_nothing_are_passed_twice(saves):
    class Doubled(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if saves:
                ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            return dy * 2

    x = flow.ones(3).requires_grad_()
    y = Doubled.apply(x)
    y.sum().backward()
    if saves:
        with pytest.raises(RuntimeError, match="a second time"):
            y.sum().backward()
    else:
        (y + 1).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), 4)
