"""Random compositions of 3 to 12 operators, with broadcasting, diamonds and reuse: gradients in eager mode, compiled,
compiled as a training step and recomputed are equal, and match finite differences, all in f64."""

import numpy as np
from compositions import COMPOSITIONS, composed, differences, drawn
from hypothesis import given, settings

import oneflow as flow

CURVES = ("tanh", "sin", "cos", "sigmoid", "erf", "atan", "softplus", "gelu", "silu", "exp2")
PAIRS = ("add", "sub", "mul", "maximum", "minimum", "atan2")


def curve(pick, x):
    return getattr(flow.nn.functional if (name := pick(CURVES)) in ("gelu", "silu", "softplus") else flow, name)(x)


def reduced(pick, x):
    if not x.rank:
        return x * 0.5 + 0.25
    name, axis, keepdim = (
        pick(("sum", "mean", "amax", "logsumexp", "softmax")),
        pick(range(x.rank)),
        pick((True, False)),
    )
    return x.softmax(axis) if name == "softmax" else getattr(x, name)(axis, keepdim=keepdim)


def moved(pick, x):
    if x.rank != 2:
        return x.reshape(-1)
    return pick((lambda: x.t().reshape(x.shape), lambda: x[:, :1], lambda: x.flip(1), lambda: x.cumsum(1)))()


def pair(pick, x, y):
    return getattr(flow, pick(PAIRS))(x, y)


def ratio(pick, x, y):
    return x / (y.square() + 1)


def power(pick, x, y):
    return (x.sigmoid() + 0.5) ** y.tanh()


def choice(pick, x, y):
    return flow.where(x > y, x.sin(), y * 0.5)


def joined(pick, x, y):
    if x.shape != y.shape or not x.rank:
        return x * y
    return flow.cat([x, y, x], pick(range(x.rank))).narrow(0, 0, x.shape[0])


def product(pick, x, y):
    return x @ y.t() @ y if x.rank == y.rank == 2 and x.shape[1] == y.shape[1] else x - y


ONE, TWO = (curve, reduced, moved), (pair, ratio, power, choice, joined, product)


def leaves(arrays):
    return [flow.tensor(a, requires_grad=True) for a in arrays]


def backward(loss, arrays):
    xs = leaves(arrays)
    loss(*xs).backward()
    return [x.grad.numpy() for x in xs]


def training_step(loss, arrays):
    xs = leaves(arrays)

    @flow.compile
    def step():
        total = loss(*xs)
        total.backward()
        return total

    step()
    return [x.grad.numpy() for x in xs]


@given(**COMPOSITIONS)
@settings(max_examples=4, deadline=None)
def test_all_gradient_functions_agree(shapes, numbers, seed):
    arrays = drawn(shapes, seed)

    def loss(*xs):
        values = composed(numbers, xs, ONE, TWO)
        return values[-1].tanh().sum() + values[-2].sin().sum() + sum(x.sin().sum() for x in xs)

    want = differences(lambda *xs: loss(*map(flow.tensor, xs)).item(), arrays)
    gradient = flow.grad(loss, range(len(arrays)))
    methods = {
        "backward": backward(loss, arrays),
        "checkpoint": backward(flow.checkpoint(loss), arrays),
        "grad": gradient(*map(flow.tensor, arrays)),
        "compiled grad": flow.compile(gradient)(*arrays),
        "compiled checkpoint": flow.compile(flow.grad(flow.checkpoint(loss), range(len(arrays))))(*arrays),
        "compiled backward": training_step(loss, arrays),
    }
    for name, grads in methods.items():
        for got, first, expected in zip(grads, methods["backward"], want, strict=True):
            np.testing.assert_allclose(np.asarray(got), expected, 1e-5, 1e-6, err_msg=name)
            np.testing.assert_allclose(np.asarray(got), first, 1e-12, 1e-12, err_msg=name)
