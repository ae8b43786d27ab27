"""Modules and functions with `inplace`: the argument becomes the result of the plain form, gradients included."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

X = np.array([[-4.0, -0.3, 0.3, 2.0], [7.0, -1.0, 0.0, 1.0]], np.float32)
#: Modules, the functions of the modules, and the arguments of both.
LAYERS = [
    ("ReLU", "relu", ()), ("ReLU6", "relu6", ()), ("LeakyReLU", "leaky_relu", (0.2,)), ("ELU", "elu", (0.7,)),
    ("CELU", "celu", (0.7,)), ("SELU", "selu", ()), ("SiLU", "silu", ()), ("Mish", "mish", ()),
    ("Hardtanh", "hardtanh", (-0.5, 1.5)), ("Hardswish", "hardswish", ()), ("Hardsigmoid", "hardsigmoid", ()),
    ("Threshold", "threshold", (0.1, 3.0)), ("Hardshrink", "hardshrink", (0.5,)),
    ("Softshrink", "softshrink", (0.5,)),
]  # fmt: skip
DROPOUTS = [
    ("Dropout", (8,)), ("Dropout1d", (3, 4)), ("Dropout1d", (2, 3, 4)), ("Dropout2d", (2, 3, 2, 2)),
    ("Dropout3d", (3, 2, 2, 2)),
]  # fmt: skip


def run(apply, part, compiled):
    """A computed tensor after `apply` to a part of the tensor, and the gradient of the sum of squares."""
    w = flow.tensor(X, requires_grad=True)

    def step():
        h = w * 1.5
        apply(h, part)
        (h * h).sum().backward()
        return h

    h = flow.compile(step)() if compiled else step()
    return h.detach().numpy(), w.grad.numpy()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("part", [slice(None), (slice(None), slice(1, 3))], ids=["whole", "view"])
@pytest.mark.parametrize("module,function,options", LAYERS, ids=[layer[0] for layer in LAYERS])
def test_activations(module, function, options, part, compiled):
    plain = getattr(nn, module)(*options)

    def assigned(h, part):
        h[part] = plain(h[part])

    def updated(update):
        def apply(h, part):
            x = h[part]
            assert update(x) is x

        return apply

    want = run(assigned, part, compiled)
    assert not np.array_equal(want[0], X * 1.5)
    by_name = updated(lambda x: getattr(nn.functional, function)(x, *options, inplace=True))
    for apply in (updated(getattr(nn, module)(*options, inplace=True)), by_name):
        for a, b in zip(run(apply, part, compiled), want, strict=True):
            np.testing.assert_allclose(a, b, 1e-6)


def test_values_and_views():
    x = flow.tensor([-1.0, 2.0, -3.0])
    y = x[1:]
    held: Any = x.numpy()
    assert nn.ReLU(True)(x) is x
    assert x.tolist() == [0, 2, 0] and y.tolist() == [2, 0] and held.tolist() == [0, 2, 0]
    assert repr(nn.LeakyReLU(0.1, inplace=True)) == "LeakyReLU(negative_slope=0.1, inplace=True)"
    x = flow.tensor([-1.0, 2.0])
    assert nn.functional.relu(x, False).tolist() == [0, 2] and x.tolist() == [-1, 2]


def test_arguments_of_compiled_functions():
    x = flow.tensor([-1.0, 2.0])
    assert flow.compile(lambda x: nn.functional.relu(x, inplace=True) + 1)(x).tolist() == [1, 3]
    assert x.tolist() == [0, 2]


@pytest.mark.parametrize("name,shape", DROPOUTS)
def test_dropout(name, shape):
    flow.manual_seed(2)
    layer = getattr(nn, name)(0.5, inplace=True)
    w = flow.ones(*shape).requires_grad_()
    h = w * 3
    assert layer(h) is h
    assert {0.0, 6.0} == set(h.detach().numpy().ravel().tolist())
    h.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), h.detach().numpy())
    layer.eval()
    before = h.detach().numpy().copy()
    assert layer(h) is h
    np.testing.assert_array_equal(h.detach().numpy(), before)


def test_refused_inplace_layers():
    with pytest.raises(TypeError, match=r"unexpected arguments \['inplace'\] for Sigmoid"):
        nn.Sigmoid(inplace=True)
    with pytest.raises(flow.OneFlowError, match="expected a tensor to update in place, got ndarray"):
        nn.functional.relu(X, inplace=True)
    with pytest.raises(RuntimeError, match="relu_ would update a leaf that requires grad"):
        nn.functional.relu(flow.tensor(X, requires_grad=True), inplace=True)
