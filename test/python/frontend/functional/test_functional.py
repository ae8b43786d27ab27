"""Every function of the functional API against NumPy and SciPy, with static and with dynamic shapes."""

import numpy as np
import pytest
from helpers import assert_close, run
from reference_interpreter import interpret
from scipy import special

import oneflow as flow
from oneflow.runtime.failures import RunError

RNG = np.random.default_rng(5)
F32 = RNG.uniform(-2, 2, (3, 4)).astype(np.float32)
POSITIVE = RNG.uniform(0.2, 2, (3, 4)).astype(np.float32)
UNIT = RNG.uniform(-0.9, 0.9, (3, 4)).astype(np.float32)
OTHER = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
I32 = RNG.integers(-9, 9, (3, 4)).astype(np.int32)
U8 = RNG.integers(1, 9, (3, 4)).astype(np.uint8)
BOOL = RNG.integers(0, 2, (3, 4)).astype(np.bool_)
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 1.5, -2.5], np.float32)
CUBE = RNG.uniform(-1, 1, (2, 3, 4)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = [
    (flow.acos, np.arccos, UNIT),
    (flow.acosh, np.arccosh, POSITIVE + 1),
    (flow.asin, np.arcsin, UNIT),
    (flow.asinh, np.arcsinh, F32),
    (flow.atan, np.arctan, F32),
    (flow.atanh, np.arctanh, UNIT),
    (flow.cos, np.cos, F32),
    (flow.cosh, np.cosh, F32),
    (flow.erf, special.erf, F32),
    (flow.erfc, special.erfc, F32),
    (flow.exp, np.exp, F32),
    (flow.exp2, np.exp2, F32),
    (flow.expm1, np.expm1, F32),
    (flow.log, np.log, POSITIVE),
    (flow.log10, np.log10, POSITIVE),
    (flow.log1p, np.log1p, POSITIVE),
    (flow.log2, np.log2, POSITIVE),
    (flow.reciprocal, np.reciprocal, POSITIVE),
    (flow.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE),
    (flow.sigmoid, sigmoid, F32),
    (flow.sin, np.sin, F32),
    (flow.sinh, np.sinh, F32),
    (flow.sqrt, np.sqrt, POSITIVE),
    (flow.tan, np.tan, UNIT),
    (flow.tanh, np.tanh, F32),
    (flow.abs, np.abs, F32),
    (flow.abs, np.abs, I32),
    (flow.ceil, np.ceil, F32),
    (flow.floor, np.floor, F32),
    (flow.trunc, np.trunc, F32),
    (flow.round, np.round, F32),
    (flow.rint, np.rint, F32),
    (flow.isfinite, np.isfinite, ODD),
    (flow.isinf, np.isinf, ODD),
    (flow.isnan, np.isnan, ODD),
    (flow.logical_not, np.logical_not, BOOL),
    (flow.negative, np.negative, I32),
    (flow.neg, np.negative, F32),
    (flow.sign, np.sign, F32),
    (flow.square, np.square, I32),
    (flow.relu, lambda x: np.maximum(x, 0), F32),
    (flow.silu, lambda x: x * sigmoid(x), F32),
    (flow.logsigmoid, lambda x: np.log(sigmoid(x)), F32),
    (flow.mish, lambda x: x * np.tanh(np.log1p(np.exp(x))), F32),
    (flow.quick_gelu, lambda x: x * sigmoid(np.float32(1.702) * x), F32),
    (flow.softsign, lambda x: x / (1 + np.abs(x)), F32),
    (flow.square_relu, lambda x: np.maximum(x, 0) ** 2, F32),
    (flow.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, F32),
    (flow.hardsigmoid, lambda x: np.clip(x / 6 + np.float32(0.5), 0, 1), F32),
    (flow.relu6, lambda x: np.clip(x, 0, 6), F32 * 5),
    (flow.bitwise_not, np.invert, I32),
    (flow.bitwise_not, np.invert, BOOL),
    (flow.gelu, lambda x: (0.5 * x * special.erfc(-x / np.sqrt(2.0))).astype(x.dtype), F32),
    (
        lambda x: flow.gelu(x, "tanh"),
        lambda x: (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(x.dtype),
        F32,
    ),
    (flow.selu, lambda x: np.where(x > 0, x, np.float32(1.6732632) * np.expm1(x)) * np.float32(1.050701), F32),
    (lambda x: flow.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, np.float32(0.2) * x), F32),
    (lambda x: flow.celu(x, 0.5), lambda x: np.where(x > 0, x, np.float32(0.5) * np.expm1(2 * x)), F32),
    (flow.hardshrink, lambda x: np.where(np.abs(x) <= 0.5, np.float32(0), x), F32),
    (flow.softshrink, lambda x: np.sign(x) * np.maximum(np.abs(x) - np.float32(0.5), 0), F32),
    (lambda x: flow.elu(x, 0.5), lambda x: np.where(x > 0, x, np.float32(0.5) * np.expm1(x)), F32),
    (lambda x: flow.hardtanh(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), F32),
    (lambda x: flow.softplus(x, 2.0), lambda x: np.log1p(np.exp(2 * x)) / 2, F32),
    (lambda x: flow.threshold(x, 0.1, 7.0), lambda x: np.where(x > 0.1, x, np.float32(7)), F32),
    (lambda x: flow.clamp(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), F32),
    (lambda x: flow.clamp(x, min=0), lambda x: np.maximum(x, 0), I32),
    (lambda x: flow.clamp(x, max=3), lambda x: np.minimum(x, 3), U8),
    (
        lambda x: flow.clamp(x, max=flow.tensor([0.0, 1.0, 2.0, 3.0])),
        lambda x: np.minimum(x, np.array([0, 1, 2, 3], np.float32)),
        F32,
    ),
    (lambda x: x.to(flow.int64), lambda x: x.astype(np.int64), F32),
    (lambda x: x.bool(), lambda x: x != 0, I32),
    (flow.exp, lambda x: np.exp(x.astype(np.float32)), I32),
]

BINARY = [
    (flow.add, np.add, F32, OTHER),
    (flow.sub, np.subtract, F32, OTHER),
    (flow.mul, np.multiply, F32, OTHER),
    (flow.div, np.divide, F32, OTHER),
    (flow.pow, np.power, POSITIVE, OTHER),
    (flow.maximum, np.maximum, F32, OTHER),
    (flow.minimum, np.minimum, F32, OTHER),
    (flow.atan2, np.arctan2, F32, OTHER),
    (flow.fmod, np.fmod, F32, OTHER),
    (flow.remainder, np.remainder, F32, OTHER),
    (flow.floor_divide, np.floor_divide, I32, U8.astype(np.int32)),
    (flow.remainder, np.remainder, I32, U8.astype(np.int32)),
    (flow.fmod, np.fmod, I32, U8.astype(np.int32)),
    (flow.eq, np.equal, I32, I32.T.copy().reshape(3, 4)),
    (flow.ne, np.not_equal, F32, F32),
    (flow.lt, np.less, F32, OTHER),
    (flow.le, np.less_equal, I32, I32),
    (flow.gt, np.greater, F32, OTHER),
    (flow.ge, np.greater_equal, I32, I32),
    (flow.logical_and, np.logical_and, BOOL, ~BOOL),
    (flow.logical_or, np.logical_or, BOOL, I32),
    (flow.logical_xor, np.logical_xor, I32, BOOL),
    (flow.bitwise_and, np.bitwise_and, I32, I32 + 1),
    (flow.bitwise_or, np.bitwise_or, U8, U8 + np.uint8(1)),
    (flow.bitwise_xor, np.bitwise_xor, BOOL, ~BOOL),
    (flow.add, np.add, BOOL, ~BOOL),
    (flow.mul, np.multiply, BOOL, ~BOOL),
    (lambda a, b: a + b, np.add, F32, OTHER[0]),
    (lambda a, b: a - b, np.subtract, I32, U8),
    (lambda a, b: a @ b.T, lambda a, b: a @ b.T, F32, OTHER),
    (lambda a, b: a // b, np.floor_divide, I32, U8.astype(np.int32)),
    (lambda a, b: a & b, np.bitwise_and, I32, U8),
    (lambda a, b: flow.where(a > b, a, b), np.maximum, F32, OTHER),
    (lambda a, b: flow.where(b, a, 0.5), lambda a, b: np.where(b, a, np.float32(0.5)), F32, BOOL),
    (lambda a, b: a.masked_fill(b, -1), lambda a, b: np.where(b, np.int32(-1), a), I32, BOOL),
    (lambda a, b: flow.add_n([a, b, a]), lambda a, b: a + b + a, F32, OTHER),
    (lambda a, b: flow.addcmul(a, a, b, value=0.5), lambda a, b: a + a * b * np.float32(0.5), F32, OTHER),
    (lambda a, b: flow.cat([a, b], 1), lambda a, b: np.concatenate([a, b], 1), F32, OTHER),
    (lambda a, b: flow.cat([a, b]), lambda a, b: np.concatenate([a, b.astype(np.float32)]), F32, I32),
    (lambda a, b: flow.stack([a, b], 1), lambda a, b: np.stack([a, b], 1), F32, OTHER),
    (lambda a, b: a.reshape(4, 3).reshape_as(b), lambda a, b: a, F32, OTHER),
    (lambda a, b: a[0].expand_as(b), lambda a, b: np.broadcast_to(a[0], b.shape), F32, OTHER),
]

SCALARS = [
    (lambda x: x + 2, lambda x: x + 2),
    (lambda x: 2 + x, lambda x: x + 2),
    (lambda x: x - 3, lambda x: x - 3),
    (lambda x: 3 - x, lambda x: 3 - x),
    (lambda x: x * 4, lambda x: x * 4),
    (lambda x: x % 3, lambda x: x % 3),
    (lambda x: x // 2, lambda x: x // 2),
    (lambda x: 7 // x, lambda x: 7 // x),
    (lambda x: x**2, lambda x: x**2),
    (lambda x: x / 4, lambda x: (x / 4).astype(np.float32)),
    (lambda x: 4 / x, lambda x: (4 / x).astype(np.float32)),
    (lambda x: x < 5, lambda x: x < 5),
    (lambda x: x > 5, lambda x: x > 5),
    (lambda x: x == 4, lambda x: x == 4),
    (lambda x: x != 4, lambda x: x != 4),
    (lambda x: -x, np.negative),
    (lambda x: flow.maximum(x, 4), lambda x: np.maximum(x, 4)),
]

REDUCTIONS = [
    (lambda x: x.sum(), np.sum),
    (lambda x: x.sum(-1), lambda x: x.sum(-1)),
    (lambda x: flow.sum(x, [0, 2], keepdim=True), lambda x: x.sum((0, 2), keepdims=True)),
    (lambda x: x.prod(1), lambda x: x.prod(1)),
    (lambda x: x.mean(), np.mean),
    (lambda x: x.mean(-1), lambda x: x.mean(-1)),
    (lambda x: x.mean((0, 1), True), lambda x: x.mean((0, 1), keepdims=True)),
    (lambda x: x.var(), lambda x: x.var(ddof=1)),
    (lambda x: x.var(1, unbiased=False), lambda x: x.var(1)),
    (lambda x: x.std(-1, keepdim=True), lambda x: x.std(-1, ddof=1, keepdims=True)),
    (lambda x: x.amax((0, 1)), lambda x: x.max((0, 1))),
    (lambda x: x.amin(0), lambda x: x.min(0)),
    (lambda x: x.max(), np.max),
    (lambda x: x.max(1).values, lambda x: x.max(1)),
    (lambda x: x.max(0).indices, lambda x: x.argmax(0)),
    (lambda x: x.min(2, True).indices, lambda x: x.argmin(2)[..., None]),
    (lambda x: x.argmax(), np.argmax),
    (lambda x: x.argmin(1), lambda x: x.argmin(1)),
    (lambda x: (x > 0).any(1), lambda x: (x > 0).any(1)),
    (lambda x: flow.all(x > -5), lambda x: (x > -5).all()),
    (lambda x: x.cumsum(1), lambda x: x.cumsum(1)),
    (lambda x: x.cumprod(0), lambda x: x.cumprod(0)),
    (lambda x: flow.logsumexp(x, 1), lambda x: special.logsumexp(x, 1)),
    (lambda x: flow.softmax(x, 1), lambda x: special.softmax(x, 1)),
    (lambda x: x.softmax(-1), lambda x: special.softmax(x, -1)),
    (lambda x: flow.log_softmax(x, 0), lambda x: special.log_softmax(x, 0)),
]

SHAPES = [
    (lambda x: x.view(-1), lambda x: x.reshape(-1)),
    (lambda x: flow.flatten(x), np.ravel),
    (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    (lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, 2)),
    (lambda x: x.T, lambda x: x.T),
    (lambda x: x[0].t(), lambda x: x[0].T),
    (lambda x: x.movedim(0, 2), lambda x: np.moveaxis(x, 0, 2)),
    (lambda x: x.unsqueeze(1), lambda x: x[:, None]),
    (lambda x: x.unsqueeze(0).squeeze(0), lambda x: x),
    (lambda x: x.unsqueeze(-1).expand(-1, -1, -1, 5), lambda x: np.broadcast_to(x[..., None], (2, 3, 4, 5))),
    (lambda x: x.flip(1), lambda x: np.flip(x, 1)),
    (lambda x: x.roll(1, 2), lambda x: np.roll(x, 1, 2)),
    (lambda x: flow.roll(x, 5), lambda x: np.roll(x, 5)),
    (lambda x: x.tril(), np.tril),
    (lambda x: flow.triu(x, 1), lambda x: np.triu(x, 1)),
    (lambda x: x.narrow(1, 1, 2), lambda x: x[:, 1:3]),
    (lambda x: x.select(2, -1), lambda x: x[..., -1]),
    (lambda x: flow.slice(x, [[0, 1, 1], [None, None, 2]]), lambda x: x[:1, ::2]),
    (lambda x: flow.pad(x, (1, 2)), lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2)))),
    (
        lambda x: flow.pad(x, (0, 1, 2, 0), value=3.0),
        lambda x: np.pad(x, ((0, 0), (2, 0), (0, 1)), constant_values=3),
    ),
    (
        lambda x: flow.pad(x, (1, 0), value=-np.inf),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0)), constant_values=-np.inf),
    ),
    (lambda x: flow.pad(x, (1, 0), value=1e30), lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0)), constant_values=1e30)),
    (lambda x: flow.pad(x, (-1, -1)), lambda x: x[..., 1:-1]),
    (lambda x: x.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3))),
    (lambda x: flow.zeros_like(x), np.zeros_like),
    (lambda x: flow.ones_like(x, dtype=flow.int32), lambda x: np.ones_like(x, np.int32)),
    (lambda x: flow.full_like(x, 2.5), lambda x: np.full_like(x, 2.5)),
    (lambda x: x.contiguous(), lambda x: x),
]

STATIC_SHAPES = [
    (lambda x: x.reshape(x.shape[0], -1), lambda x: x.reshape(2, 12)),
    (lambda x: flow.flatten(x, 1), lambda x: x.reshape(2, 12)),
    (lambda x: flow.split(x, 2, 1)[1], lambda x: x[:, 2:]),
    (lambda x: flow.split(x, [1, 3], -1)[1], lambda x: x[..., 1:]),
    (lambda x: flow.chunk(x, 2, 2)[1], lambda x: x[..., 2:]),
    (lambda x: flow.unbind(x, 1)[2], lambda x: x[:, 2]),
    (lambda x: x.reshape(4, 6), lambda x: x.reshape(4, 6)),
    (lambda x: x.reshape(2, 12, 1).squeeze(), lambda x: x.reshape(2, 12)),
    (lambda x: flow.stack(list(x)), lambda x: x),
    (lambda x: x * len(x), lambda x: x * 2),
    (lambda x: x / x.numel(), lambda x: x / 24),
    (lambda x: flow.layer_norm(x, (3, 4)), lambda x: normal(x, (1, 2))),
    (lambda x: flow.layer_norm(x, 4, flow.full(4, 2.0), flow.ones(4)), lambda x: normal(x, (2,)) * 2 + 1),
    (
        lambda x: flow.rms_norm(x, 4, eps=1e-5),
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)),
    ),
]


def normal(x, axes):
    return ((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)).astype(x.dtype)


PRODUCTS = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
]

SOURCES = [
    (lambda: flow.zeros(2, 3), np.zeros((2, 3), np.float32)),
    (lambda: flow.ones([2], dtype=flow.int8), np.ones(2, np.int8)),
    (lambda: flow.full((2, 2), 1.5), np.full((2, 2), 1.5, np.float32)),
    (lambda: flow.full((2,), 3), np.full(2, 3)),
    (lambda: flow.full((2,), True), np.full(2, True)),
    (lambda: flow.arange(5), np.arange(5)),
    (lambda: flow.arange(1, 10, 3), np.arange(1, 10, 3)),
    (lambda: flow.arange(0, 1, 0.25), np.arange(0, 1, 0.25, dtype=np.float32)),
    (lambda: flow.arange(3, dtype=flow.float64), np.arange(3.0)),
    (lambda: flow.eye(3, 2), np.eye(3, 2, dtype=np.float32)),
    (lambda: flow.tensor([[1.0, 2.0]]), np.array([[1, 2]], np.float32)),
    (lambda: flow.tensor(7), np.asarray(7)),
    (lambda: flow.tensor([1, 2], dtype=flow.uint8), np.array([1, 2], np.uint8)),
    (lambda: flow.full((), float("inf")), np.float32(np.inf)),
]


def both(function, numpy, *arrays, dynamic=(False, True)):
    """Compares `function` with `numpy` on arrays, traced with static shapes and with dynamic shapes."""
    with np.errstate(all="ignore"):
        want = numpy(*arrays)
    for kind in dynamic:
        (got,) = run(function, *arrays, dynamic=kind)
        assert_close(got, want)


@pytest.mark.parametrize("function,numpy,x", UNARY)
def test_unary_functions(function, numpy, x):
    both(function, numpy, x)


@pytest.mark.parametrize("function,numpy,x,y", BINARY)
def test_binary_functions(function, numpy, x, y):
    both(function, numpy, x, y)


@pytest.mark.parametrize("function,numpy", SCALARS)
@pytest.mark.parametrize("x", [POSITIVE * 3, U8.astype(np.int32) + 1], ids=["f32", "i32"])
def test_binary_functions_with_numbers(function, numpy, x):
    both(function, numpy, x)


@pytest.mark.parametrize("function,numpy", REDUCTIONS)
def test_reductions(function, numpy):
    both(function, numpy, CUBE)


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", [
    "sum", "prod", "amax", "amin", "mean", "logsumexp", "cumsum", "cumprod", "flip", "squeeze", "select_max",
])  # fmt: skip
def test_a_scalar_has_the_dimension_of_a_vector(name, dim):
    x = np.float32(2.5)
    function = (lambda x, d: x.max(d).values) if name == "select_max" else getattr(flow, name)
    assert_close(run(lambda x: function(x, dim), x)[0], x)


@pytest.mark.parametrize("keepdim", [False, True])
def test_other_functions_of_a_scalar(keepdim):
    x = np.float32(2.5)
    assert_close(run(lambda x: flow.softmax(x, 0), x)[0], np.float32(1))
    assert_close(run(lambda x: flow.log_softmax(x, -1), x)[0], np.float32(0))
    assert_close(run(lambda x: x.transpose(0, -1), x)[0], x)
    assert_close(run(lambda x: flow.argmax(x, 0, keepdim), x)[0], np.int64(0))
    assert_close(run(lambda x: flow.var(x, 0, False, keepdim), x)[0], np.float32(0))
    for refused in (lambda x: flow.softmax(x, 1), lambda x: flow.sum(x, -2)):
        with pytest.raises(flow.TraceError, match="expected a dimension in"):
            run(refused, x)
    with pytest.raises(flow.TraceError, match="expected a tensor of at least one dimension for dimension 0"):
        run(lambda x: flow.unbind(x, 0), x)


@pytest.mark.parametrize("function,numpy", SHAPES)
def test_shape_functions(function, numpy):
    both(function, numpy, CUBE)


@pytest.mark.parametrize("function,numpy", STATIC_SHAPES)
def test_static_shapes(function, numpy):
    both(function, numpy, CUBE, dynamic=(False,))


@pytest.mark.parametrize("shape", [(None, 3, 4), (2, None, 4), (2, 3, None)], ids=str)
def test_a_dynamic_size_is_kept_by_reshape(shape):
    spec = flow.TensorSpec(shape)
    (got,) = interpret(flow.trace(lambda x: x.reshape(x.shape[0], -1, x.shape[2]), spec), CUBE)
    assert_close(got, CUBE)
    (got,) = interpret(flow.trace(lambda x: flow.flatten(x, 1), spec), CUBE)
    assert_close(got, CUBE.reshape(2, 12))


@pytest.mark.parametrize("a,b", PRODUCTS)
def test_matmul(a, b):
    x, y = RNG.normal(size=a).astype(np.float32), RNG.normal(size=b).astype(np.float32)
    both(flow.matmul, np.matmul, x, y)


def test_named_products():
    a, b = CUBE, CUBE.swapaxes(1, 2).copy()
    both(flow.bmm, np.matmul, a, b)
    both(flow.mm, np.matmul, a[0], b[0])
    both(flow.dot, np.dot, a[0, 0], a[0, 1])
    both(
        lambda c, x, y: flow.addmm(c, x, y, beta=2, alpha=0.5),
        lambda c, x, y: 2 * c + x @ y * np.float32(0.5),
        a[0, :, 0],
        a[0],
        b[0],
    )


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_linear(shape):
    x, w, b = (RNG.normal(size=s).astype(np.float32) for s in (shape, (5, 4), (5,)))
    both(flow.nn.functional.linear, lambda x, w, b: x @ w.T + b, x, w, b)
    both(flow.linear, lambda x, w: x @ w.T, x, w)


@pytest.mark.parametrize("source,want", SOURCES)
def test_creation_functions(source, want):
    assert_close(run(source)[0], want)


def test_integer_reductions_widen():
    both(lambda x: x.sum(0), lambda x: x.sum(0, dtype=np.int64), I32)
    both(lambda x: x.sum(), lambda x: x.sum(dtype=np.int64), BOOL)
    both(lambda x: x.sum(dtype=flow.float32), lambda x: x.sum(dtype=np.float32), I32)
    both(lambda x: x.cumsum(0), lambda x: x.cumsum(0, dtype=np.int64), I32)


def test_means_of_16_bits_are_computed_in_f32():
    x = np.full((3000,), 60.0, np.float16)
    both(lambda x: x.mean(), lambda x: np.float16(60), x)


def test_extremes_of_integers_reach_their_bounds():
    x = np.array([[-128, 127, -128], [0, 0, 0]], np.int8)
    both(lambda x: x.argmin(1), lambda x: x.argmin(1), x)
    both(lambda x: x.argmin(1), lambda x: x.argmin(1), x.astype(np.uint8))


def test_gather_functions():
    index = np.array([2, 0, 1, 2])
    both(lambda x, i: x.index_select(1, i), lambda x, i: x[:, i], CUBE, index)
    both(lambda x, i: flow.embedding(i, x), lambda x, i: x[i], F32, index.reshape(2, 2))
    both(lambda x, i: flow.gather(x, 1, i), lambda x, i: np.take_along_axis(x, i, 1), F32, np.array([[0], [3], [1]]))
    both(lambda i: flow.one_hot(i, 3), lambda i: np.eye(3, dtype=np.int64)[i], index)


def test_every_function_is_documented():
    bare = [name for name in flow.nn.functional.__all__ if not getattr(flow.nn.functional, name).__doc__]
    assert not bare


NORMALIZED = [
    (lambda x, w, b: flow.group_norm(x, 2, w, b), lambda x, w, b: grouped(x) * per_channel(w) + per_channel(b)),
    (lambda x, w, b: flow.group_norm(x, 2), lambda x, w, b: grouped(x)),
    (lambda x, w, b: flow.group_norm(x, 2, bias=b), lambda x, w, b: grouped(x) + per_channel(b)),
    (lambda x, w, b: flow.batch_norm(x, b, w), lambda x, w, b: batched(x, w, b)),
    (
        lambda x, w, b: flow.batch_norm(x, b, w, w, b, eps=1e-5),
        lambda x, w, b: batched(x, w, b) * per_channel(w) + per_channel(b),
    ),
]


def per_channel(param):
    return param[:, None, None]


def grouped(x):
    return normal(x.reshape(2, 2, 2, 3, 5), (2, 3, 4)).reshape(x.shape)


def batched(x, variance, mean):
    return (x - per_channel(mean)) / np.sqrt(per_channel(variance) + np.float32(1e-5))


@pytest.mark.parametrize("function,numpy", NORMALIZED)
def test_normalization(function, numpy):
    x, w, b = (RNG.uniform(0.5, 2, s).astype(np.float32) for s in ((2, 4, 3, 5), (4,), (4,)))
    both(function, numpy, x, w, b, dynamic=(False,))


def test_random_numbers_follow_the_seed():
    def draw():
        return flow.rand(50), flow.randn([50]), flow.randint(0, 9, (50,)), flow.rand(50, dtype=flow.float16)

    flow.manual_seed(3)
    first = run(draw)
    second = run(draw)
    flow.manual_seed(3)
    again = run(draw)
    for a, b, c in zip(first, second, again, strict=True):
        np.testing.assert_array_equal(a, c)
        assert (a != b).any()
    assert [a.dtype for a in first] == [np.float32, np.float32, np.int64, np.float16]
    assert first[0].min() >= 0 and first[0].max() < 1 and set(first[2]) <= set(range(9))


def test_each_random_call_differs():
    a, b = run(lambda: (flow.rand(20), flow.rand(20)))
    assert (a != b).any()


@pytest.mark.parametrize("dynamic", [False, True])
def test_dropout(dynamic):
    x = np.ones((40, 50), np.float32)
    (got,) = run(lambda x: flow.dropout(x, 0.25), x, dynamic=dynamic)
    assert set(np.unique(got)) == {np.float32(0), np.float32(1 / 0.75)}
    assert 0.2 < (got == 0).mean() < 0.3
    np.testing.assert_array_equal(run(lambda x: flow.dropout(x, 0.25, training=False), x)[0], x)
    (drawn,) = run(lambda x: flow.bernoulli(x, 0.5), x, dynamic=dynamic)
    assert 0.45 < drawn.mean() < 0.55


IMAGES = RNG.uniform(-1, 1, (2, 4, 6, 5)).astype(np.float32)
FILTERS = RNG.uniform(-1, 1, (6, 4, 3, 2)).astype(np.float32)


def windows(x, kernel, stride=(1, 1), padding=(0, 0), dilation=(1, 1), fill=0.0):
    """(n, c, rows, columns, kernel rows, kernel columns) of padded images."""
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=fill)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return view[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def convolved(x, w, **options):
    return np.einsum("ncijkl,fckl->nfij", windows(x, w.shape[2:], **options), w)


CONVOLUTIONS = [
    ({}, {}),
    ({"stride": 2, "padding": 1}, {"stride": (2, 2), "padding": (1, 1)}),
    ({"stride": (1, 2), "padding": (2, 0)}, {"stride": (1, 2), "padding": (2, 0)}),
    ({"dilation": (2, 1), "padding": "valid"}, {"dilation": (2, 1)}),
]


@pytest.mark.parametrize("options,want", CONVOLUTIONS)
def test_conv2d(options, want):
    both(
        lambda x, w: flow.conv2d(x, w, **options),
        lambda x, w: convolved(x, w, **want),
        IMAGES,
        FILTERS,
        dynamic=(False,),
    )


def test_same_padding_pads_the_end_more():
    want = convolved(np.pad(IMAGES, ((0, 0), (0, 0), (1, 1), (0, 1))), FILTERS)
    both(lambda x, w: flow.conv2d(x, w, padding="same"), lambda x, w: want, IMAGES, FILTERS, dynamic=(False,))

    def last(x, w):
        x, w = x.permute(0, 2, 3, 1), w.permute(0, 2, 3, 1)
        return flow.conv2d(x, w, padding="same", data_format="channels_last").permute(0, 3, 1, 2)

    both(last, lambda x, w: want, IMAGES, FILTERS, dynamic=(False,))


def test_conv_groups_bias_and_ranks():
    bias = RNG.normal(size=6).astype(np.float32)
    want = np.concatenate([convolved(IMAGES[:, :2], FILTERS[:3, :2]), convolved(IMAGES[:, 2:], FILTERS[3:, :2])], 1)
    both(
        lambda x, w, b: flow.conv2d(x, w, b, groups=2),
        lambda x, w, b: want + per_channel(b),
        IMAGES,
        FILTERS[:, :2].copy(),
        bias,
        dynamic=(False,),
    )
    line = convolved(IMAGES[:, :, :1], FILTERS[:, :, :1])[:, :, 0]
    both(flow.conv1d, lambda x, w: line, IMAGES[:, :, 0].copy(), FILTERS[:, :, 0].copy(), dynamic=(False,))
    both(
        lambda x, w: flow.conv3d(x.unsqueeze(2), w.unsqueeze(2)).squeeze(2),
        convolved,
        IMAGES,
        FILTERS,
        dynamic=(False,),
    )


def test_pooling():
    def best(x, **options):
        return windows(x, **options, fill=-np.inf).max((4, 5))

    both(lambda x: flow.max_pool2d(x, 2), lambda x: best(x, kernel=(2, 2), stride=(2, 2)), IMAGES)
    both(
        lambda x: flow.max_pool2d(x, (3, 2), 1, (1, 0), dilation=(1, 2)),
        lambda x: best(x, kernel=(3, 2), padding=(1, 0), dilation=(1, 2)),
        IMAGES,
    )
    both(
        lambda x: flow.max_pool2d(x, 2, return_indices=True)[1].amax(),
        lambda x: np.int64(
            (np.arange(30).reshape(6, 5)[:, :4][4:, 2:]).ravel()[x[..., 4:, 2:4].reshape(8, 4).argmax(1)].max()
        ),
        IMAGES,
    )
    both(lambda x: flow.avg_pool2d(x, 2, 1), lambda x: windows(x, (2, 2)).mean((4, 5)), IMAGES)
    both(
        lambda x: flow.avg_pool2d(x, 2, 1, 1, count_include_pad=False),
        lambda x: (
            windows(x, (2, 2), padding=(1, 1)).sum((4, 5))
            / windows(np.ones_like(x), (2, 2), padding=(1, 1)).sum((4, 5))
        ),
        IMAGES,
    )
    both(
        lambda x: flow.avg_pool2d(x, 2, divisor_override=3),
        lambda x: windows(x, (2, 2), (2, 2)).sum((4, 5)) / 3,
        IMAGES,
    )


def test_adaptive_pools():
    both(lambda x: flow.adaptive_avg_pool2d(x, 1), lambda x: x.mean((2, 3), keepdims=True), IMAGES)
    both(lambda x: flow.adaptive_avg_pool2d(x, (3, 1)), lambda x: windows(x, (2, 5), (2, 1)).mean((4, 5)), IMAGES)


TARGET = np.array([2, 0, -100, 1])
LOGITS = RNG.normal(size=(4, 3)).astype(np.float32)
WEIGHT = np.array([0.5, 1.0, 2.0], np.float32)
KEPT = [0, 1, 3]


def picked(x):
    return -special.log_softmax(x, 1)[KEPT, TARGET[KEPT]]


def with_ignored(values):
    return np.insert(values, 2, 0)


LOSSES = [
    (lambda x, t: flow.cross_entropy(x, t), lambda x, t: picked(x).mean()),
    (lambda x, t: flow.cross_entropy(x, t, reduction="sum"), lambda x, t: picked(x).sum()),
    (lambda x, t: flow.cross_entropy(x, t, reduction="none"), lambda x, t: with_ignored(picked(x))),
    (
        lambda x, t: flow.cross_entropy(x, t, WEIGHT),
        lambda x, t: (picked(x) * WEIGHT[t[KEPT]]).sum() / WEIGHT[t[KEPT]].sum(),
    ),
    (lambda x, t: flow.cross_entropy(x, x), lambda x, t: -(x * special.log_softmax(x, 1)).sum(1).mean()),
    (lambda x, t: flow.nn.functional.mse_loss(x, 0.5), lambda x, t: ((x - np.float32(0.5)) ** 2).mean()),
    (lambda x, t: flow.l1_loss(x, t.unsqueeze(1), "sum"), lambda x, t: np.abs(x - t[:, None]).sum(dtype=np.float32)),
    (
        lambda x, t: flow.smooth_l1_loss(x, 0.0, "none"),
        lambda x, t: np.where(np.abs(x) < 1, x * x / 2, np.abs(x) - np.float32(0.5)),
    ),
    (
        lambda x, t: flow.binary_cross_entropy_with_logits(x, x > 0, reduction="none"),
        lambda x, t: np.log1p(np.exp(-np.abs(x))),
    ),
    (
        lambda x, t: flow.binary_cross_entropy_with_logits(x, x > 0, 0.5, "sum", WEIGHT),
        lambda x, t: (np.log1p(np.exp(-np.abs(x))) * np.where(x > 0, WEIGHT, 1) * np.float32(0.5)).sum(),
    ),
    (
        lambda x, t: flow.kl_div(x, x.softmax(1), "sum"),
        lambda x, t: (special.softmax(x, 1) * (special.log_softmax(x, 1) - x)).sum(),
    ),
    (lambda x, t: flow.binary_cross_entropy(x.sigmoid(), x > 0), lambda x, t: np.log1p(np.exp(-np.abs(x))).mean()),
]


@pytest.mark.parametrize("function,numpy", LOSSES)
def test_losses(function, numpy):
    both(function, numpy, LOGITS, TARGET)


def test_integers_are_padded_with_finite_numbers():
    assert flow.pad(flow.tensor([1, 2]), (1, 1), value=7.0).tolist() == [7, 1, 2, 7]
    for value in (np.inf, -np.inf, np.nan):
        with pytest.raises(flow.OneFlowError, match="expected a finite value for pad of tensor<2xi64>, got"):
            flow.pad(flow.tensor([1, 2]), (1, 1), value=value)


def test_kernels_with_checks_only():
    """Every row of the table is the same number, and only the position checks of the lookup remain."""
    lookup = flow.compile(lambda i: flow.embedding(flow.cumsum(i, 1), flow.ones(9, 4)))
    assert np.array_equal(lookup(np.ones((2, 3), np.int64)), np.ones((2, 3, 4), np.float32))
    with pytest.raises(RunError, match="got 9"):
        lookup(np.full((2, 3), 3))
