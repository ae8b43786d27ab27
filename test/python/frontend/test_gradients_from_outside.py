"""Gradients through compiled functions that are called with tensors which require grad."""

import numpy as np
import pytest

import oneflow as flow


def leaf():
    return flow.tensor([1.0, 2.0], requires_grad=True)


def test_gradient_of_a_loss_that_is_partly_compiled():
    double, w = flow.compile(lambda v: v * 2), leaf()
    for _ in range(2):
        (double(w) + w).sum().backward()
    assert w.grad.tolist() == [6, 6]


def test_nested_arguments_and_second_derivatives():
    power = flow.compile(lambda given, k=2, *rest: {"y": given["x"] ** k * rest[0], "k": k})
    w, c = leaf(), flow.tensor([3.0, 4.0])
    (first,) = flow.autograd.grad(power({"x": w}, 3, c)["y"].sum(), [w], create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [9, 48])
    (second,) = flow.autograd.grad(first.sum(), [w])
    np.testing.assert_allclose(second.numpy(), [18, 48])


def test_several_arguments_and_results():
    both = flow.compile(lambda a, b: (a * b, a.sum(), (a > 1)))
    a, b = leaf(), flow.tensor([5.0, 7.0], requires_grad=True)
    product, total, _ = both(a, b)
    (product.sum() + total * 2).backward()
    assert a.grad.tolist() == [7, 9] and b.grad.tolist() == [1, 2]


def test_nothing_is_recorded_where_nothing_wants_a_gradient():
    double = flow.compile(lambda v: v * 2)
    with flow.no_grad():
        assert not double(leaf()).requires_grad
    assert not double(leaf().detach()).requires_grad and type(double(np.ones(2))) is np.ndarray


def test_what_cannot_be_run_again_is_refused():
    layer, count = flow.nn.Linear(2, 2), flow.zeros(1)
    cases = {
        "uses tensors from outside that require grad": lambda v: layer(v),
        "updates tensors from outside": lambda v: v * count.add_(1),
        "uses random or changing numbers": lambda v: flow.nn.functional.dropout(v, 0.5),
    }
    for reason, function in cases.items():
        w = leaf()
        result = flow.compile(function)(w)
        message = f"outside.py:.* oneflow.compiled has no gradient: it {reason}.*inside of the"
        with pytest.raises(flow.TraceError, match=message):
            (result.sum() + w.sum()).backward()


def test_a_spoiled_argument_is_found():
    w = leaf() * 1
    result = flow.compile(lambda v: v * v)(w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="as it was, but add_ has updated it"):
        result.sum().backward()
