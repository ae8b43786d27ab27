"""Gradients at corners, poles and gaps of functions equal PyTorch's gradients, eager and compiled."""

import math

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

INF, NAN = math.inf, math.nan
TIES = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]
SIGNED = [-2.0, -0.0, 0.0, 3.0]
BOUNDS = [0.0, 2.0, 1.0, 1.0, NAN]
#: A name, a function of a framework and tensors, and the values of the tensors.
EDGES = {
    "maximum, ties": (lambda f, x, y: f.maximum(x, y), [1.0, 2.0, 3.0], [1.0, 5.0, 3.0]),
    "minimum, ties": (lambda f, x, y: f.minimum(x, y), [1.0, 2.0, 3.0], [1.0, 5.0, 3.0]),
    "max along, ties": (lambda f, x: f.max(x, 1)[0], TIES),
    "min along, ties": (lambda f, x: f.min(x, 1)[0], TIES),
    "amax, ties": (lambda f, x: f.amax(x, 1), TIES),
    "amin, ties": (lambda f, x: f.amin(x, 1), TIES),
    "max of all, ties": (lambda f, x: f.max(x), TIES),
    "min of all, ties": (lambda f, x: f.min(x), TIES),
    "abs": (lambda f, x: f.abs(x), SIGNED),
    "relu": (lambda f, x: f.relu(x), SIGNED),
    "leaky_relu": (lambda f, x: f.nn.functional.leaky_relu(x, 0.1), SIGNED),
    "elu": (lambda f, x: f.nn.functional.elu(x), SIGNED),
    "hardtanh": (lambda f, x: f.nn.functional.hardtanh(x), [-1.0, 1.0, 0.0, 2.0]),
    "relu6": (lambda f, x: f.nn.functional.relu6(x), [0.0, 6.0, 3.0, 7.0]),
    "hardswish": (lambda f, x: f.nn.functional.hardswish(x), [-3.0, 3.0, 0.0]),
    "hardsigmoid": (lambda f, x: f.nn.functional.hardsigmoid(x), [-3.0, 3.0, 0.0]),
    "softshrink": (lambda f, x: f.nn.functional.softshrink(x), [-0.5, 0.5, 0.0, 1.0]),
    "hardshrink": (lambda f, x: f.nn.functional.hardshrink(x), [-0.5, 0.5, 0.0, 1.0]),
    "threshold": (lambda f, x: f.nn.functional.threshold(x, 0.0, 5.0), SIGNED),
    "sign": (lambda f, x: f.sign(x), SIGNED),
    "clamp at its bounds": (lambda f, x: f.clamp(x, -1.0, 1.0), [-2.0, -1.0, 0.0, 1.0, 2.0]),
    "clamp below": (lambda f, x: f.clamp(x, min=0.0), SIGNED),
    "clamp above": (lambda f, x: f.clamp(x, max=0.0), SIGNED),
    "clamp of NaN": (lambda f, x: f.clamp(x, -1.0, 1.0), [NAN, 0.0, INF]),
    "clamp of NaN below": (lambda f, x: f.clamp(x, min=0.0), [NAN, 0.0, INF]),
    "clamp of NaN above": (lambda f, x: f.clamp(x, max=0.0), [NAN, 0.0, INF]),
    "clamp at bounds of tensors": (
        lambda f, *t: f.clamp(*t), [-1.0, 0.0, 1.0, 2.0, 3.0, 1.0, NAN, 1.0],
        [0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, NAN], [2.0, 2.0, 1.0, 2.0, 2.0, 0.0, 1.0, 2.0],
    ),
    "clamp below by a tensor": (lambda f, x, y: f.clamp(x, min=y), [0.0, 1.0, 2.0, NAN, 1.0], BOUNDS),
    "clamp above by a tensor": (lambda f, x, y: f.clamp(x, max=y), [0.0, 1.0, 2.0, NAN, 1.0], BOUNDS),
    "clamp of rows": (
        lambda f, x, y: f.clamp(x, f.tensor(-1.0), y) * 2, [[0.0, 1.0], [-3.0, 2.0], [-1.0, 4.0]], [1.0, 2.0],
    ),
    "pow by 2 at 0": (lambda f, x: f.pow(x, 2), [0.0, 1.0]),
    "pow by 1 at 0": (lambda f, x: f.pow(x, 1.0), [0.0, 1.0]),
    "pow by 0 at 0": (lambda f, x: f.pow(x, 0), [0.0, 1.0]),
    "pow by 0.5 at 0": (lambda f, x: f.pow(x, 0.5), [0.0, 1.0]),
    "pow by -1 at 0": (lambda f, x: f.pow(x, -1.0), [0.0, 1.0]),
    "pow of tensors, base 0": (lambda f, x, y: f.pow(x, y), [0.0, 0.0, 0.0, 2.0], [2.0, 0.0, 1.0, 0.0]),
    "pow of tensors, base negative": (lambda f, x, y: f.pow(x, y), [-2.0, -1.0], [2.0, 3.0]),
    "pow of a number 0": (lambda f, x: f.pow(0.0, x), [0.0, 1.0, 2.0]),
    "norm at 0": (lambda f, x: f.norm(x), [0.0, 0.0]),
    "norm of a row 0": (lambda f, x: f.norm(x, dim=1), [[0.0, 0.0], [3.0, 4.0]]),
    "norm 1 at 0": (lambda f, x: f.norm(x, 1), [0.0, -2.0]),
    "norm inf, ties": (lambda f, x: f.norm(x, INF), [2.0, -2.0, 1.0]),
    "norm 3 at 0": (lambda f, x: f.norm(x, 3), [0.0, 0.0]),
    "sqrt at 0": (lambda f, x: f.sqrt(x), [0.0, 4.0]),
    "rsqrt at 0": (lambda f, x: f.rsqrt(x), [0.0, 4.0]),
    "log at 0": (lambda f, x: f.log(x), [0.0, 1.0]),
    "reciprocal at 0": (lambda f, x: f.reciprocal(x), [0.0, 1.0]),
    "div by 0": (lambda f, x, y: f.div(x, y), [1.0, 1.0], [0.0, 2.0]),
    "acos at 1": (lambda f, x: f.acos(x), [1.0, -1.0, 0.0]),
    "asin at 1": (lambda f, x: f.asin(x), [1.0, -1.0, 0.0]),
    "atanh at 1": (lambda f, x: f.atanh(x), [1.0, 0.0]),
    "softmax of -inf": (lambda f, x: f.softmax(x, 1), [[-INF, -INF], [-INF, 0.0]]),
    "log_softmax of -inf": (lambda f, x: f.log_softmax(x, 1)[:, 1], [[-INF, 0.0], [-INF, 1.0]]),
    "logsumexp of -inf": (lambda f, x: f.logsumexp(x, 1), [[-INF, 0.0], [1.0, 1.0]]),
    "prod with a 0": (lambda f, x: f.prod(x, 1), [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),
    "cumprod with a 0": (lambda f, x: f.cumprod(x, 1), [[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),
    "max of columns, ties": (lambda f, x: f.max(x, 0)[0], [[1.0, 2.0], [1.0, 1.0]]),
    "where, sqrt": (lambda f, x: f.where(x > 0, f.sqrt(x), x), [-1.0, 0.0, 4.0]),
    "where, log": (lambda f, x: f.where(x > 0, f.log(x), x * 0), [-1.0, 0.0, 4.0]),
    "where, log of a clamp": (lambda f, x: f.where(x > 0, f.log(f.clamp(x, min=1e-3)), x), [-1.0, 0.0, 4.0]),
    "maximum of NaN": (lambda f, x, y: f.maximum(x, y), [NAN, 1.0, 2.0], [1.0, NAN, 1.0]),
    "relu of NaN": (lambda f, x: f.relu(x), [NAN, 1.0]),
    "abs of inf": (lambda f, x: f.abs(x), [-INF, INF]),
    "std of equal": (lambda f, x: f.std(x, 1), [[2.0, 2.0], [1.0, 3.0]]),
    "fmod": (lambda f, x, y: f.fmod(x, y), [5.0, -5.0], [3.0, 3.0]),
    "remainder": (lambda f, x, y: f.remainder(x, y), [5.0, -5.0], [3.0, 3.0]),
    "atan2 at 0": (lambda f, x, y: f.atan2(x, y), [0.0, 1.0], [1.0, 0.0]),
    "max_pool, ties": (lambda f, x: f.nn.functional.max_pool1d(x, 2), [[[1.0, 1.0, 2.0, 3.0]]]),
    "smooth_l1 at its bend": (lambda f, x, y: f.nn.functional.smooth_l1_loss(x, y), [0.0, 1.0, 2.0], [0.0, 0.0, 0.0]),
    "l1 at 0": (lambda f, x, y: f.nn.functional.l1_loss(x, y), [0.0, 1.0], [0.0, 0.0]),
    "bce at 0 and 1": (
        lambda f, x: f.nn.functional.binary_cross_entropy(x, f.tensor([0.0, 1.0, 1.0])), [0.0, 1.0, 0.5],
    ),
    "round": (lambda f, x: f.round(x) + f.floor(x) + f.ceil(x) + f.trunc(x), SIGNED),
    "steps of others": (lambda f, x, y: f.floor(x * y).reshape(-1) + f.sign(f.round(x)), SIGNED, SIGNED),
    "steps with a detached tensor": (lambda f, x, y: f.sign(x.detach() * y) * x, SIGNED, SIGNED),
}  # fmt: skip
#: At a zero cotangent and an infinite slope the gradient is NaN in PyTorch, and 0 here: issue, rules.
ZERO_WINS = {"where, sqrt": [1.0, 1.0, 0.25], "where, log": [0.0, 0.0, 0.25]}


def theirs(function, values):
    leaves = [torch.tensor(v, requires_grad=True) for v in values]
    function(torch, *leaves).sum().backward()
    return [leaf.grad.numpy() for leaf in leaves]


def ours(function, values):
    leaves = [flow.tensor(v, requires_grad=True) for v in values]
    function(flow, *leaves).sum().backward()
    return [leaf.grad.numpy() for leaf in leaves]


def compiled(function, values):
    arrays = [np.array(v, np.float32) for v in values]
    gradient = flow.grad(lambda *xs: function(flow, *xs).sum(), range(len(arrays)))
    return [np.asarray(g) for g in flow.compile(gradient)(*arrays)]


def test_step_functions_have_zero_gradients_and_stopped_gradients_are_none():
    def run(f):
        x, y, z = (f.tensor([-1.5, 2.0], requires_grad=True) for _ in range(3))
        (f.sign(x) * y.detach() + f.floor(z.to(f.int64).to(f.float32) * y)).sum().backward()
        (by_sign,) = f.autograd.grad(f.sign(x).sum(), x)
        return [None if g is None else g.tolist() for g in (x.grad, y.grad, z.grad, by_sign)]

    assert run(flow) == run(torch) == [[0, 0], [0, 0], None, [0, 0]]


@pytest.mark.parametrize("run", [ours, compiled])
@pytest.mark.parametrize("name", EDGES)
def test_gradients_at_edges_equal_pytorch(name, run):
    function, *values = EDGES[name]
    want = [np.array(ZERO_WINS[name], np.float32)] if name in ZERO_WINS else theirs(function, values)
    for got, expected in zip(run(function, values), want, strict=True):
        np.testing.assert_allclose(got, expected, 1e-6, 1e-7)


def derivatives(f, function, values, count=3):
    """The first derivatives of a function by a tensor, along 1, 2, 3, .. from the second on."""
    x = f.tensor(values, requires_grad=True)
    along = f.arange(1, x.numel() + 1).to(f.float32).reshape(tuple(x.shape))
    found = [function(f, x).sum()]
    for number in range(count):
        total = found[-1] if number == 0 else (found[-1] * along).sum()
        found += f.autograd.grad(total, [x], create_graph=True)
    return [d.detach().numpy() for d in found]


PRODUCTS = {
    "all": (lambda f, x: f.prod(x), [0.0, 2.0, 3.0]),
    "two zeros": (lambda f, x: f.prod(x), [0.0, 2.0, 0.0]),
    "rows, columns": (lambda f, x: f.prod(x, 1) * f.prod(x, 0), [[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 4.0]]),
    "both axes": (lambda f, x: f.prod(x), [[1.0, 2.0], [0.0, 3.0]]),
}


@pytest.mark.parametrize("function,values", PRODUCTS.values(), ids=PRODUCTS)
def test_higher_derivatives_of_products_with_zeros(function, values):
    for got, want in zip(derivatives(flow, function, values), derivatives(torch, function, values), strict=True):
        np.testing.assert_allclose(got, want, 1e-6)


PIECEWISE_LINEAR = {
    "relu": lambda x: flow.relu(x).sum(),
    "amax": lambda x: flow.amax(x * 1),
    "where": lambda x: flow.where(x > 0, x * 1, -x).sum(),
    "maximum": lambda x: flow.maximum(x, x * 0.5).sum(),
    "clamp": lambda x: flow.clamp(x, -1.0, 1.0).sum(),
    "max_pool": lambda x: flow.nn.functional.max_pool1d(x.reshape(1, 1, 3), 2).sum(),
    "max along": lambda x: flow.max(x, 0)[0],
}


@pytest.mark.parametrize("wrap", [lambda f: f, flow.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
def test_second_derivatives_of_piecewise_linear_functions_are_zeros(name, wrap):
    second = wrap(flow.grad(lambda x: flow.grad(PIECEWISE_LINEAR[name])(x).sum()))
    np.testing.assert_array_equal(np.asarray(second(np.array([1.0, -2.0, 0.5], np.float32))), [0, 0, 0])


@pytest.mark.parametrize("name", [*PIECEWISE_LINEAR, "abs", "leaky_relu", "hardtanh", "prelu", "l1_loss"])
def test_second_gradients_of_piecewise_linear_functions_are_zeros_in_eager_mode(name):
    function = (
        PIECEWISE_LINEAR.get(name)
        or {
            "abs": lambda x: x.abs().sum(),
            "leaky_relu": lambda x: flow.nn.functional.leaky_relu(x).sum(),
            "hardtanh": lambda x: flow.nn.functional.hardtanh(x).sum(),
            "prelu": lambda x: flow.nn.functional.prelu(x, flow.tensor([0.25])).sum(),
            "l1_loss": lambda x: flow.nn.functional.l1_loss(x, flow.zeros(3)),
        }[name]
    )
    x, other = flow.tensor([1.0, -2.0, 0.5], requires_grad=True), flow.ones(3).requires_grad_()
    (first,) = flow.autograd.grad(function(x), [x], create_graph=True)
    second, none = flow.autograd.grad((first * flow.ones(3)).sum(), [x, other], allow_unused=True)
    assert second.tolist() == [0, 0, 0] and none is None


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_variance_of_few_elements(shape, unbiased):
    for name in ("var", "std"):
        got, want = (getattr(f, name)(f.zeros(*shape), 0, unbiased=unbiased).numpy() for f in (flow, torch))
        np.testing.assert_array_equal(got, want)
