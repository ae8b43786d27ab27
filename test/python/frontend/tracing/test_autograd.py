"""grad, value_and_grad, vjp, jvp, stop_gradient and checkpoint on traced functions."""

from typing import Any

import numpy as np
import pytest
from helpers import assert_close, module_text, run

import oneflow as flow
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.tracing.activation_checkpointing import unsaved

X = np.array([0.5, -1.0, 2.0], np.float32)
W = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], np.float32)


def sine(x):
    return (flow.sin(x) * x).sum()


def test_grad():
    assert_close(run(flow.grad(sine), X)[0], np.cos(X) * X + np.sin(X))


def test_value_and_grad_of_several_arguments():
    def loss(w, x):
        return (w @ x).tanh().sum()

    value, dw, dx = run(flow.value_and_grad(loss, argnums=(0, 1)), W, X)
    slope = 1 - np.tanh(W @ X) ** 2
    assert_close(value, np.tanh(W @ X).sum())
    assert_close(dw, np.outer(slope, X))
    assert_close(dx, W.T @ slope)


def test_one_argument_of_several():
    assert_close(run(flow.grad(lambda w, x: (w @ x).sum(), argnums=1), W, X)[0], W.sum(0))
    (only,) = run(lambda w, x: flow.grad(lambda w, x: (w @ x).sum(), argnums=(1,))(w, x)[0], W, X)
    assert_close(only, W.sum(0))


def test_nested_arguments_have_nested_gradients():
    def loss(params, x):
        return ((params["layer"][0] @ x + params["bias"]) * params["scale"]).sum()

    def step(w, b, x):
        params = {"layer": [w, None], "bias": b, "scale": 3, "index": flow.arange(2)}
        grads = flow.grad(loss)(params, x)
        assert grads["layer"][1] is None and grads["scale"] is None and grads["index"] is None
        return grads["layer"][0], grads["bias"]

    dw, db = run(step, W, W[:, 0], X)
    assert_close(dw, 3 * np.stack([X, X]))
    assert_close(db, np.full(2, 3, np.float32))


def test_python_numbers_and_arrays_as_arguments():
    (dx,) = run(lambda x: flow.grad(lambda a: (a * x).sum())(2.0), X)
    assert_close(dx, X.sum())
    (dx,) = run(lambda x: flow.grad(lambda a: (a * x).sum())(X), X)
    assert_close(dx, X)


def test_second_derivative():
    (second,) = run(flow.grad(lambda x: flow.grad(sine)(x).sum()), X)
    assert_close(second, 2 * np.cos(X) - X * np.sin(X))


def test_third_derivative():
    def power(x):
        return (x * x * x * x).sum()

    def order(n):
        return power if n == 0 else lambda x: flow.grad(order(n - 1))(x).sum()

    assert_close(run(lambda x: order(3)(x), X)[0], (24 * X).sum())


def test_grad_inside_a_differentiated_function():
    """A loss that contains a gradient, as in a gradient penalty."""

    def loss(x):
        return (flow.grad(sine)(x) ** 2).sum()

    first, second = np.cos(X) * X + np.sin(X), 2 * np.cos(X) - X * np.sin(X)
    assert_close(run(flow.grad(loss), X)[0], 2 * first * second)


def test_captured_tensors_are_constants():
    """Captured are also the argument tensor and a tensor that is computed from the argument outside."""

    def f(x):
        y = x * 2
        return flow.grad(lambda z: (z * x * y).sum())(x)

    assert_close(run(f, X)[0], 2 * X * X)


def test_an_unused_argument_has_zeros():
    dx, dy = run(flow.grad(lambda x, y: x.sum(), argnums=(0, 1)), X, W)
    assert_close(dx, np.ones(3, np.float32))
    assert_close(dy, np.zeros((2, 3), np.float32))


def test_the_argument_itself_as_result():
    assert_close(run(flow.grad(lambda x: x), np.float32(3.0))[0], np.float32(1))


def test_dynamic_sizes():
    (dx,) = run(flow.grad(lambda x: flow.grad(lambda x: (x * x * x).sum())(x).sum()), W, dynamic=True)
    assert_close(dx, 6 * W)


def test_dropout_has_one_mask():
    def f(x):
        return flow.grad(lambda x: flow.dropout(x, 0.5).sum())(x)

    (dx,) = run(f, np.ones(1000, np.float32))
    assert set(np.unique(dx)) == {0.0, 2.0}


def test_vjp():
    def step(w, x):
        value, pull = flow.vjp(lambda w, x: w @ x, w, x)
        return value, pull(value * 2)

    value, dw, dx = run(step, W, X)
    assert_close(value, W @ X)
    assert_close(dw, np.outer(2 * (W @ X), X))
    assert_close(dx, W.T @ (2 * (W @ X)))


def test_vjp_of_one_primal_and_several_results():
    def step(x):
        (_, (_, b)), pull = flow.vjp(lambda x: (x.sin(), [x.argmax(), x.exp()]), x)
        return pull((b, [None, None])), pull((None, [None, b]))

    first, second = run(step, X)
    assert_close(first, np.cos(X) * np.exp(X))
    assert_close(second, np.exp(X) ** 2)


def test_jvp():
    def step(w, x):
        return flow.jvp(lambda w, x: (flow.tanh(w @ x), x * x), (w, x), (w * 0 + 1, x))

    value, square, change, change_of_square = run(step, W, X)
    assert_close(value, np.tanh(W @ X))
    assert_close(square, X * X)
    assert_close(change, (1 - np.tanh(W @ X) ** 2) * (X.sum() + W @ X))
    assert_close(change_of_square, 2 * X * X)


def test_jvp_of_where_ignores_the_unselected_branch():
    def f(x):
        return flow.where(x > 0, flow.sqrt(x), x)

    (change,) = run(lambda x: flow.jvp(f, (x,), (flow.ones_like(x),))[1], np.array([4.0, 0.0, -1.0], np.float32))
    assert_close(change, np.array([0.25, 1.0, 1.0], np.float32))


def test_hessian_vector_product_forward_over_reverse():
    def product(x):
        return flow.jvp(flow.grad(lambda x: (x * x * x).sum()), (x,), (x,))[1]

    assert_close(run(product, X)[0], 6 * X * X)


def test_stop_gradient():
    assert_close(run(flow.grad(lambda x: (flow.stop_gradient(x) * x).sum()), X)[0], X)
    nested = flow.grad(lambda x: (flow.stop_gradient({"a": [x, 2]})["a"][0] * x).sum())
    assert_close(run(nested, X)[0], X)


def _block(x):
    return flow.tanh(flow.sin(x) * x)


def test_checkpoint_recomputes_and_gives_equal_gradients():
    plain = run(flow.grad(lambda x: _block(_block(x)).sum()), X)[0]
    again = flow.grad(lambda x: flow.checkpoint(_block)(flow.checkpoint(_block, x)).sum())
    np.testing.assert_array_equal(run(again, X)[0], plain)
    text = module_text(again, flow.TensorSpec((3,), flow.float32))
    assert text.count('"oneflow.depend"') == 2
    assert text.count('"oneflow.sin"') == 4


@pytest.mark.parametrize("block", [lambda f: f, flow.checkpoint])
def test_results_that_are_not_saved_are_computed_again_once_for_all_users(block):
    def f(x):
        builder: Any = current_builder()
        big = unsaved(builder, flow.exp, x)
        return (block(lambda x: x * big)(x) * big).sum()

    assert_close(run(flow.grad(f), X)[0], np.exp(2 * X) * (1 + 2 * X))
    text = module_text(flow.grad(f), flow.TensorSpec((3,), flow.float32))
    results = [line.split(" = ")[0].strip() for line in text.splitlines() if '"oneflow.exp"' in line]
    users = [sum(f"{r}," in line or f"{r})" in line for line in text.splitlines()) for r in results]
    assert len(results) == 2, "the forward part and the backward part"
    assert min(users) >= 2, text


def test_checkpoint_differentiates_by_captured_tensors():
    def loss(w, x):
        return flow.checkpoint(lambda x: flow.tanh(w @ x))(x).sum()

    plain = flow.grad(lambda w, x: flow.tanh(w @ x).sum(), argnums=(0, 1))
    for got, want in zip(run(flow.grad(loss, argnums=(0, 1)), W, X), run(plain, W, X), strict=True):
        assert_close(got, want)


def test_checkpoint_repeats_random_numbers():
    def f(x):
        block = flow.checkpoint(lambda x: flow.dropout(x * 2, 0.5))
        value, dx = flow.value_and_grad(lambda x: block(x).sum())(x)
        return value, dx.sum()

    value, total = run(f, np.ones(100, np.float32))
    assert value == total


def test_checkpoints_in_checkpoints_and_twice_differentiated():
    block = flow.checkpoint(lambda x: flow.checkpoint(_block)(x) * x)

    def twice(f):
        return flow.grad(lambda x: flow.grad(lambda x: f(x).sum())(x).sum())

    assert_close(run(twice(block), X)[0], run(twice(lambda x: _block(x) * x), X)[0])


def test_checkpoint_passes_arguments_through():
    def loss(x):
        a, b = flow.checkpoint(lambda x: (x, x.sin()))(x)
        return (a * b).sum()

    assert_close(run(flow.grad(loss), X)[0], np.cos(X) * X + np.sin(X))


def test_checkpoint_of_where_ignores_the_unselected_branch():
    def loss(x):
        y = flow.checkpoint(lambda x: flow.log(x))(x)
        return flow.where(x > 0, x * y, x).sum()

    x = np.array([1.0, 0.0], np.float32)
    assert_close(run(flow.grad(loss), x)[0], np.array([1.0, 1.0], np.float32))


def test_checkpoint_outside_of_gradients_is_the_function():
    assert "depend" not in module_text(flow.checkpoint(_block), flow.TensorSpec((3,), flow.float32))


def test_compiled_gradients():
    step = flow.compile(flow.value_and_grad(sine))
    value, dx = step(X)
    assert_close(value, (np.sin(X) * X).sum())
    assert_close(dx, np.cos(X) * X + np.sin(X))
    assert step.__name__ == "sine_grad"


def _refused(function, *arrays):
    with pytest.raises(flow.TraceError) as caught:
        run(function, *arrays)
    return str(caught.value)


def test_errors_name_the_operator_its_path_and_line(source_lines):
    def loss(x):
        y = flow.bernoulli(x * x)
        return y.exp().sum()

    text = _refused(flow.grad(loss), X)
    assert "y = flow.bernoulli(x * x)" in text
    assert "oneflow.bernoulli has no gradient: jumps between 0 and 1" in text
    path = "input 0 -> oneflow.broadcast_mul -> oneflow.bernoulli -> oneflow.exp -> oneflow.reduce_sum -> result"
    assert path in text


def test_positions_of_arguments_from_the_end():
    products = flow.grad(lambda a, b, c: (a * b * b * c).sum(), argnums=(-1, -2))
    by_c, by_b = flow.compile(products)(*np.array([[2], [3], [5]], np.float32))
    assert by_c == [18] and by_b == [60]


def test_refused_gradient_calls():
    assert "expected sin to return one tensor of floats" in _refused(flow.grad(flow.sin), X)
    assert "got (" in _refused(flow.grad(lambda x: (x.sum(), x)), X)
    assert "expected argument 0 to have tensors of floats" in _refused(flow.grad(lambda n: n.sum()), np.arange(3))
    assert "expected argnums in [-1, 1) for 1 arguments, got 1" in _refused(flow.grad(sine, argnums=1), X)
    assert "expected argnums in [-1, 1) for 1 arguments, got -2" in _refused(flow.grad(sine, argnums=-2), X)
    assert "expected each argument once in argnums, got [0, -1]" in _refused(flow.grad(sine, argnums=(0, -1)), X)
    assert "expected the structure of the result" in _refused(lambda x: flow.vjp(flow.sin, x)[1]((x, x)), X)
    assert "expected a cotangent of type tensor<3xf32>" in _refused(lambda x: flow.vjp(flow.sin, x)[1](x.sum()), X)
    assert "expected a tangent of type tensor<3xf32>" in _refused(lambda x: flow.jvp(flow.sin, (x,), (x[0],)), X)


THROUGH_INTEGERS = {
    "a cast": (lambda x: x.long().float().sum(), r"oneflow\.cast gives i64", "cast -> oneflow.cast -> oneflow.red"),
    "positions": (lambda x: (x * 2).argmax().float(), r"oneflow\.argmax gives i64", "oneflow.cast -> result"),
    "a comparison": (lambda x: (x > 0).float().sum(), "greater gives i1", "greater -> oneflow.cast"),
}  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda f: f, flow.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", THROUGH_INTEGERS)
def test_a_path_through_integers_is_an_error(name, wrap):
    function, text, path = THROUGH_INTEGERS[name]
    with pytest.raises(flow.OneFlowError, match=text) as error:
        wrap(flow.grad(function))(np.array([1.5, -2.0], np.float32))
    assert path in str(error.value) and "leave the input out, or stop its gradient before" in str(error.value)


def test_a_path_through_integers_of_a_checkpoint_is_an_error():
    with pytest.raises(flow.TraceError, match="greater gives i1"):
        flow.compile(flow.grad(lambda x: flow.checkpoint(lambda z: (z > 0).float())(x).sum()))(np.ones(2, np.float32))


@pytest.mark.parametrize("wrap", [lambda f: f, flow.compile], ids=["eager", "compiled"])
def test_integer_operands_have_no_gradient_path(wrap):
    x, y = np.array([1.5, -2.0], np.float32), np.array([3.0, 4.0], np.float32)
    for function, want in (
        (lambda x, y: (x * (x > 0) + y).sum(), ([1, 0], [1, 1])),
        (lambda x, y: (y * (flow.stop_gradient(x) > 0)).sum(), ([0, 0], [1, 0])),
        (lambda x, y: (flow.sign(x) * y).sum(), ([0, 0], [1, -1])),
        (lambda x, y: flow.max(x * y, 0)[0], ([3, 0], [1.5, 0])),
    ):
        for got, expected in zip(wrap(flow.grad(function, (0, 1)))(x, y), want, strict=True):
            np.testing.assert_array_equal(np.asarray(got), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_jvp_of_one_argument(compiled):
    x, t = np.array([[1.0, 2.0, 3.0]], np.float32), np.array([[1.0, 0.0, 2.0]], np.float32)
    for given in (lambda x, t: (x, t), lambda x, t: ((x,), (t,)), lambda x, t: ([x], [t])):
        run = flow.compile(lambda x, t: flow.jvp(flow.sin, *given(x, t))) if compiled else None  # noqa: B023
        value, change = run(x, t) if run else flow.jvp(flow.sin, *given(flow.tensor(x), flow.tensor(t)))
        np.testing.assert_allclose(value if compiled else value.numpy(), np.sin(x), 1e-5)
        np.testing.assert_allclose(change if compiled else change.numpy(), np.cos(x) * t, 1e-5)
    with pytest.raises(flow.CallError, match="too many positional arguments"):
        flow.jvp(lambda x: x * 2, [1.0, 2.0], [1.0, 0.0])
