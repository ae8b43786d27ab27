"""Backward ahead of time: gradients of compiled functions that are called with tensors which require grad."""

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn


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


def test_nothing_is_recorded_where_nothing_requires_grad():
    double = flow.compile(lambda v: v * 2)
    with flow.no_grad():
        assert not double(leaf()).requires_grad
    assert not double(leaf().detach()).requires_grad and type(double(np.ones(2))) is np.ndarray


def test_functions_that_cannot_run_again_are_refused():
    layer = flow.nn.Linear(2, 1)

    def trained(v):
        layer(v).sum().backward()
        return v * 2

    def updated(v):
        with flow.no_grad():
            layer.weight.mul_(2)
        return layer(v)

    cases = {"the function computes or sets gradients": trained, "the function updates captured tensors": updated}
    for reason, function in cases.items():
        w = leaf()
        result = flow.compile(function)(w)
        message = f"test_ahead_of_time_backward.py:.* oneflow.compiled has no gradient: {reason}.*inside of the"
        with pytest.raises(flow.OneFlowError, match=message):
            (result.sum() + w.sum()).backward()
        assert not flow.compile(function)(w.detach()).requires_grad


def test_a_stale_argument_is_an_error():
    w = leaf() * 1
    result = flow.compile(lambda v: v * v)(w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="as it was, but add_ has updated it"):
        result.sum().backward()


def test_captured_parameters_get_gradients():
    """Of a model that is compiled, called with data alone: as in eager mode, at the second call too."""
    x = flow.tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3))
    for layers in (
        lambda: [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)],
        lambda: [nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()],
        lambda: [nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)],
    ):
        seen = []
        for wrap in (lambda model: model, flow.compile):
            flow.manual_seed(3)
            model = nn.Sequential(*layers())
            called = wrap(model)
            outputs = [called(x * scale) for scale in (1.0, 2.0)]
            sum(y.square().sum() for y in outputs).backward()
            (called(x)[:, 0].sum() + model[0].weight.sum()).backward()
            seen.append([p.grad.numpy() for p in model.parameters()] + [b.numpy() for b in model.buffers()])
        for expected, got in zip(*seen, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_second_derivatives_by_captured_parameters():
    w = leaf()
    cubed = flow.compile(lambda x: (w**3 * x).sum())
    (first,) = flow.autograd.grad(cubed(flow.tensor([1.0, 1.0])), [w], create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [3, 12])
    (second,) = flow.autograd.grad(first.sum(), [w])
    np.testing.assert_allclose(second.numpy(), [6, 12])


def test_activity_analysis():
    a, b, c = leaf(), leaf(), leaf()

    def function(x):
        with flow.no_grad():
            fixed = b * x
        return (a * x).sum(), (fixed + c.detach()).sum(), (c * x).detach()

    loss, number, constant = flow.compile(function)(flow.tensor([3.0, 4.0]))
    assert (loss.requires_grad, number.requires_grad, constant.requires_grad) == (True, False, False)
    loss.backward()
    assert a.grad.tolist() == [3, 4] and b.grad is None and c.grad is None


def test_captured_calls_without_gradients():
    """Under no_grad, with frozen parameters, and for a whole training step nothing is recorded."""
    model = nn.Linear(2, 1)
    called, optimizer = flow.compile(model), flow.optim.SGD(model.parameters(), lr=0.1)

    @flow.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = flow.ones(3, 2)
    for _ in range(2):
        with flow.no_grad():
            assert not called(x).requires_grad
        assert called(x).requires_grad
    assert not step(x).requires_grad
    model.requires_grad_(False)
    assert not called(x).requires_grad


def test_a_detached_alias_of_a_captured_leaf():
    w = leaf()
    d = w.detach()
    flow.compile(lambda: (d * d * w).sum())().backward()
    assert w.grad.tolist() == [1, 4]


def test_changes_before_the_gradient_are_errors():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    called = flow.compile(model)
    result = called(flow.ones(1, 2))
    model.eval()
    with pytest.raises(RuntimeError, match="got other settings or hooks: call backward before"):
        result.sum().backward()
    result = called(flow.ones(1, 2))
    with flow.no_grad():
        model[0].weight.mul_(2)
    with pytest.raises(RuntimeError, match=r"as it was, but .* has updated it"):
        result.sum().backward()


def test_gradients_read_tensors_as_before_their_update():
    """The gradient runs the function again on the values read before, and updates nothing."""
    w, count = leaf(), flow.zeros(1)

    def counted(v):
        count.add_(1)
        return v * count

    for way in (lambda: flow.compile(counted)(w), flow.compile(lambda: counted(w))):
        count.zero_()
        w.grad = None
        first, second = way(), way()
        (first + second).sum().backward()
        assert w.grad.tolist() == [3, 3] and count.item() == 2


def test_compiled_gradients_are_recorded_as_eager_gradients():
    def function(x):
        with flow.no_grad():
            y = x * x
        return (y * x).sum()

    x = flow.tensor([3.0])
    for gradient in (flow.grad(function), flow.compile(flow.grad(function))):
        assert gradient(x).item() == 9
        with flow.no_grad():
            assert gradient(x).item() == 9
