"""Gradients of element-wise functions at NaN, infinities, zeros, bounds, against PyTorch on one element.

The tensors have one element, since PyTorch's vectorized kernels differ at NaN from the scalar kernels.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

INF, NAN = math.inf, math.nan
POINTS = [
    NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0, -10.0, 1e4, -1e4, 1e30, -1e30,
]  # fmt: skip
PAIRS = list(itertools.product([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0], repeat=2))
NAMES = """abs acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh erf erfc exp exp2 expm1 log log10 log1p
    log2 rsqrt sqrt reciprocal neg sign ceil floor round trunc square relu sigmoid""".split()
ACTIVATIONS = """elu celu selu silu mish gelu softplus softsign logsigmoid hardsigmoid hardswish hardtanh relu6
    hardshrink softshrink leaky_relu""".split()
UNARY: dict[str, Any] = {
    **{name: (lambda f, x, name=name: getattr(f, name)(x)) for name in NAMES},
    **{name: (lambda f, x, name=name: getattr(f.nn.functional, name)(x)) for name in ACTIVATIONS},
    "elu, alpha": lambda f, x: f.nn.functional.elu(x, 2.0),
    "celu, alpha": lambda f, x: f.nn.functional.celu(x, 2.0),
    "gelu, tanh": lambda f, x: f.nn.functional.gelu(x, approximate="tanh"),
    "softplus, beta": lambda f, x: f.nn.functional.softplus(x, 2.0, 5.0),
    "threshold": lambda f, x: f.nn.functional.threshold(x, 0.5, 7.0),
    "clamp": lambda f, x: f.clamp(x, -1.0, 1.0),
    "clamp below": lambda f, x: f.clamp(x, min=-1.0),
    "clamp above": lambda f, x: f.clamp(x, max=1.0),
    **{f"pow {p}": (lambda f, x, p=p: x**p) for p in (-2.0, -1, 0, 1.0, 2, 3)},
    **{f"power of {b}": (lambda f, x, b=b: f.pow(b, x)) for b in (-2.0, 0.0, 1.0, 2.0)},
    "times 0": lambda f, x: x * 0,
    "1 / x": lambda f, x: 1 / x,
    "x % 2": lambda f, x: x % 2,
    "fmod": lambda f, x: f.fmod(x, 2.0),
    "where": lambda f, x: f.where(x > 0, x, -x),
    "masked_fill": lambda f, x: x.masked_fill(x > 0, 3.0),
    "max": lambda f, x: f.max(x.reshape(-1, 1), 1)[0],
    "smooth_l1": lambda f, x: f.nn.functional.smooth_l1_loss(x, x.detach() * 0 + 1, reduction="sum"),
    "mse": lambda f, x: f.nn.functional.mse_loss(x, x.detach() * 0 + 1, reduction="sum"),
    "l1": lambda f, x: f.nn.functional.l1_loss(x, x.detach() * 0 + 1, reduction="sum"),
    "bce with logits": lambda f, x: f.nn.functional.binary_cross_entropy_with_logits(
        x, x.detach() * 0 + 1, reduction="sum"
    ),
}
BINARY = {
    "add": lambda f, x, y: x + y,
    "sub": lambda f, x, y: x - y,
    "mul": lambda f, x, y: x * y,
    "div": lambda f, x, y: x / y,
    "pow": lambda f, x, y: f.pow(x, y),
    "fmod": lambda f, x, y: f.fmod(x, y),
    "remainder": lambda f, x, y: f.remainder(x, y),
    "maximum": lambda f, x, y: f.maximum(x, y),
    "minimum": lambda f, x, y: f.minimum(x, y),
    "atan2": lambda f, x, y: f.atan2(x, y),
    "where": lambda f, x, y: f.where(x > y, x, y),
}
#: At an infinite quotient the gradient of the remainder follows the quotient here and is unknown in PyTorch.
APART = {"remainder": lambda x, y: math.isinf(x)}


def theirs(function, *values):
    leaves = [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in values]
    function(torch, *leaves).sum().backward()
    return [leaf.grad.item() for leaf in leaves]


def eager(function, *columns):
    leaves = [flow.tensor(c, requires_grad=True) for c in columns]
    return flow.autograd.grad(function(flow, *leaves).sum(), leaves)


def compiled(function, *columns):
    return flow.compile(flow.grad(lambda *xs: function(flow, *xs).sum(), range(len(columns))))(*columns)


@pytest.mark.parametrize("run", [eager, compiled])
@pytest.mark.parametrize("name,function,points", [
    *(pytest.param(name, function, [(p,) for p in POINTS], id=name) for name, function in UNARY.items()),
    *(pytest.param(name, function, PAIRS, id=name) for name, function in BINARY.items()),
])  # fmt: skip
def test_gradients_at_points(name, function, points, run):
    differs_from_pytorch = APART.get(name, lambda *_: False)
    points = [p for p in points if not differs_from_pytorch(*p)]
    want = np.transpose([theirs(function, *p) for p in points])
    got = run(function, *np.transpose(points))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, 1e-6, 1e-12, err_msg=f"at {points}")


ROWS = [[NAN, 1.0, 2.0], [1.0, NAN, NAN], [3.0, 1.0, 3.0], [INF, INF, 1.0]]


@pytest.mark.parametrize("name", ["max", "min"])
def test_gradients_of_a_nan_extreme_are_shared(name):
    for rows in (ROWS, ROWS[2:]):
        x, y = (f.tensor(rows, requires_grad=True) for f in (flow, torch))
        getattr(flow, name)(x).backward()
        getattr(torch, name)(y).backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-6)
