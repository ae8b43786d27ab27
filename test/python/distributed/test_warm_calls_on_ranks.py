"""Warm calls of compiled functions on global tensors: guards compare placements and layouts of all tensors."""

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.passes.base import PassError

X = np.arange(12, dtype=np.float32).reshape(4, 3)
W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
B, S0, S1 = flow.sbp.broadcast, flow.sbp.split(0), flow.sbp.split(1)


def placed(array, sbp=S0, ranks=(0, 1)):
    return flow.tensor(array.copy()).to_global(flow.placement("cpu", list(ranks)), sbp)


@pytest.fixture(params=[(0,), (0, 1)], ids=["one rank", "two ranks"])
def ranks(request):
    return request.param


def test_warm_calls_with_other_values_layouts_and_placements(ranks):
    weight = placed(W, B, ranks)
    function = flow.compile(lambda x: x * weight + 1.0)
    for step, sbp in enumerate((S0, S0, S0, S1, S0, B, S0, S1)):
        found = function(placed(X + step, sbp, ranks))
        np.testing.assert_array_equal(found.numpy(), (X + step) * W + 1)
        assert found.is_global and found.placement == weight.placement
    with pytest.raises(PassError, match="expected operands on one placement"):
        function(placed(X, S0, (0, 1, 2)))


def test_warm_calls_after_a_captured_tensor_changed(ranks):
    weight = placed(W, B, ranks)
    function = flow.compile(lambda x: x - weight)
    x = placed(X, S0, ranks)
    for value, sbp in ((W, B), (W + 1, B), (W + 2, S1), (W + 3, S0), (W + 4, B)):
        weight.data = placed(value, sbp, ranks)
        for _ in range(3):
            np.testing.assert_array_equal(function(x).numpy(), X - value)


def test_warm_calls_update_captured_tensors(ranks):
    total, x = placed(W, S0, ranks), placed(X, S0, ranks)

    @flow.compile
    def add(x):
        total.add_(x)
        return total * 2.0

    wanted = W
    for _ in range(5):
        wanted = wanted + X
        np.testing.assert_array_equal(add(x).numpy(), wanted * 2)
    np.testing.assert_array_equal(total.numpy(), wanted)
    with pytest.raises(flow.CallError, match="share memory"):
        add(total)
    np.testing.assert_array_equal(total.numpy(), wanted)


def test_gradients_of_warm_calls(ranks):
    flow.manual_seed(1)
    layer = nn.Linear(3, 2)
    weight = layer.weight.numpy().copy()
    layer.to_global(flow.placement("cpu", list(ranks)), B)
    forward = flow.compile(layer)
    for step in range(4):
        layer.zero_grad()
        x = placed(X + step, S0, ranks).requires_grad_()
        forward(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(weight.sum(0), X.shape), rtol=1e-6)
        np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile((X + step).sum(0), (2, 1)), rtol=1e-6)
