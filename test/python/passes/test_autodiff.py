"""`oneflow-autodiff` against finite differences: random compositions, second order, edges, speed."""

import functools

import numpy as np
import pytest
from call_counts import calls_of
from compositions import COMPOSITIONS, composed, differences, drawn, fits
from hypothesis import given, settings

from oneflow.dialect import dtypes, ops  # noqa: F401
from oneflow.dialect._mlir import func, ir
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.oneflow import create_context, verify
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.autodiff import Autodiff
from oneflow.testing.interpreter import interpret

CURVES = "tanh sin cos sigmoid softsign erf atan gelu relu softplus abs".split()
PAIRS = ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum", "broadcast_minimum", "atan2")


@pytest.fixture(scope="module")
def context():
    return create_context()


def _number(value):
    return {"has_float_operand": True, "float_operand": value}


def _curve(b, pick, x):
    name = pick(CURVES)
    return b.call(name, x, **({"beta": 1.0, "threshold": 20.0} if name == "softplus" else {}))[0]


def _pair(b, pick, x, y):
    return b.call(pick(PAIRS), x, y)[0]


def _ratio(b, pick, x, y):
    return b.broadcast_div(x, b.scalar_add(b.square(y), **_number(1.0)))


def _logarithm(b, pick, x, y):
    return b.broadcast_mul(y, b.log(b.scalar_add(b.square(x), **_number(0.5))))


def _power(b, pick, x, y):
    return b.broadcast_pow(b.scalar_add(b.sigmoid(x), **_number(0.5)), b.tanh(y))


def _choice(b, pick, x, y):
    return b.where(b.broadcast_greater(x, y), x, b.scalar_mul(y, **_number(0.5)))


def _reduced(b, pick, x):
    if not x.rank:
        return b.scalar_add(x, **_number(0.25))
    name = pick(["reduce_sum", "reduce_max", "softmax"])
    if name == "softmax":
        return b.softmax(x)
    return b.call(name, x, axis=[pick(range(x.rank))], keepdims=pick([False, True]))[0]


def _moved(b, pick, x):
    if x.rank != 2:
        return b.reshape(x, shape=(x.desc.element_count,))
    return b.reshape(b.transpose(x, perm=(1, 0)), shape=x.shape)


def _joined(b, pick, x, y):
    if x.rank != 2 or x.shape != y.shape:
        return b.scalar_pow(x, **_number(2.0))
    both = b.cat([x, y], axis=0)
    return b.narrow(both, dim=0, start=1, length=x.shape[0])


def _product(b, pick, x, y):
    if x.rank != 2 or y.rank != 2 or x.shape[1] != y.shape[1]:
        return _pair(b, pick, x, y) if fits(x, y) else b.tanh(x)
    return b.matmul(b.matmul(x, y, transpose_b=True), y)


ONE = (_curve, _reduced, _moved)
TWO = (_pair, _ratio, _logarithm, _power, _choice, _joined, _product)


def _loss_module(context, shapes, body):
    """A module with `@loss`, whose result `body(builder, arguments)` gives."""
    with context, ir.Location.unknown():
        module = ir.Module.create()
        types = [TensorDesc(s, dtypes.float64).to_mlir() for s in shapes]
        function = func.FuncOp("loss", (types, []), ip=ir.InsertionPoint(module.body))
        block = function.add_entry_block()
        builder = IRBuilder(REGISTRY, ir.InsertionPoint(block))
        loss = body(builder, [builder.wrap(a) for a in block.arguments]).handle
        func.ReturnOp([loss], ip=builder.ip)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [loss.type]))
        return module


def _total(b, x):
    return b.reduce_sum(x, axis=range(x.rank)) if x.rank else x


def _composed(numbers, b, arguments):
    """The loss of operators that `numbers` choose."""
    one, two = ([functools.partial(rule, b) for rule in rules] for rules in (ONE, TWO))
    values = composed(numbers, arguments, one, two)
    return _total(b, b.tanh(values[-1])) + _total(b, b.sin(values[-2]))


def _differentiate(module, **options):
    with module.context:
        Autodiff(**options).run(module, REGISTRY)
        assert module.operation.verify() and verify(module.operation)


@given(**COMPOSITIONS)
@settings(max_examples=60, deadline=None)
def test_compositions_equal_finitedifferences(context, shapes, numbers, seed):
    module = _loss_module(context, shapes, functools.partial(_composed, numbers))
    _differentiate(module, value_and_grad=True)
    arrays = drawn(shapes, seed)
    value, *grads = interpret(module, "loss_grad", *arrays)
    assert value == interpret(module, "loss", *arrays)[0]
    wanted = differences(lambda *xs: interpret(module, "loss", *xs)[0], arrays)
    for grad, want in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(grad, want, 1e-5, 1e-6)


@given(**COMPOSITIONS)
@settings(max_examples=30, deadline=None)
def test_second_derivatives_equal_finitedifferences(context, shapes, numbers, seed):
    module = _loss_module(context, shapes, functools.partial(_composed, numbers))
    _differentiate(module, func="loss")
    _differentiate(module, func="loss_grad", cotangents=True, wrt=tuple(str(i) for i in range(len(shapes))))
    arrays, weights = drawn(shapes, seed), drawn(shapes, seed + 1)

    def slope(*xs):
        return sum(np.sum(w * g) for w, g in zip(weights, interpret(module, "loss_grad", *xs), strict=True))

    seconds = interpret(module, "loss_grad_grad", *arrays, *weights)
    for second, want in zip(seconds, differences(slope, arrays), strict=True):
        np.testing.assert_allclose(second, want, 1e-5, 1e-6)


def _scalar_function(context, body):
    module = _loss_module(context, [(4,)], lambda b, xs: _total(b, body(b, xs[0])))
    _differentiate(module)
    return lambda x: interpret(module, "loss_grad", np.asarray(x, np.float64))[0]


POSITIVE = _number(0.0)
#: Functions that are not defined for x <= 0 (the last two: |x| >= 1), and their derivatives.
SINGULAR = {
    "sqrt": (lambda b, x: b.sqrt(x), lambda x: 0.5 / np.sqrt(x)),
    "rsqrt": (lambda b, x: b.rsqrt(x), lambda x: -0.5 * x**-1.5),
    "log": (lambda b, x: b.log(x), lambda x: 1 / x),
    "entropy": (lambda b, x: b.broadcast_mul(x, b.log(x)), lambda x: np.log(x) + 1),
    "ratio": (lambda b, x: b.broadcast_div(b.sin(x), x), lambda x: np.cos(x) / x - np.sin(x) / x**2),
    "pow": (lambda b, x: b.scalar_pow(x, **_number(0.3)), lambda x: 0.3 * x**-0.7),
    "pow_pair": (lambda b, x: b.broadcast_pow(x, x), lambda x: x**x * (np.log(x) + 1)),
    "reciprocal": (lambda b, x: b.reciprocal(x), lambda x: -(x**-2)),
    "through_reshape": (
        lambda b, x: b.broadcast_mul(x, b.reshape(b.log(b.reshape(x, shape=(2, 2))), shape=(4,))),
        lambda x: np.log(x) + 1,
    ),
    "acos": (lambda b, x: b.acos(b.scalar_add(x, **_number(-1.0))), lambda x: -1 / np.sqrt(1 - (x - 1) ** 2)),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_branches_that_where_did_not_take_leave_no_trace(context, name):
    """where(x > 0, f(x), x): at x <= 0 the slope is 1, however infinite f is there."""
    function, slope = SINGULAR[name]

    def body(b, x):
        return b.where(b.scalar_logical_greater(x, **POSITIVE), function(b, x), x)

    got = _scalar_function(context, body)([0.5, 0.0, -1.0, 0.25])
    np.testing.assert_allclose(got, [slope(0.5), 1.0, 1.0, slope(0.25)], 1e-12)


def test_an_infinite_slope_of_the_selected_branch_stays_infinite(context):
    got = _scalar_function(context, lambda b, x: b.sqrt(x))([0.0, 0.25, 1.0, 4.0])
    np.testing.assert_array_equal(got, [np.inf, 1.0, 0.5, 0.25])


def test_mixed_second_derivative_where_the_cotangent_is_zero(context):
    """d2 (w * sqrt(x)) / dw dx is 1 / (2 * sqrt(x)) at w = 0 too."""
    module = _loss_module(context, [(), ()], lambda b, a: b.broadcast_mul(a[0], b.sqrt(a[1])))
    _differentiate(module, func="loss", wrt=("1",))
    _differentiate(module, func="loss_grad", wrt=("0",))
    assert interpret(module, "loss_grad_grad", 0.0, 4.0)[0] == 0.25


def test_dynamic_sizes(context):
    text = """
    func.func @loss(%x: tensor<?x3xf64>, %w: tensor<3xf64>) -> tensor<f64> {
      %0 = "oneflow.broadcast_mul"(%x, %w) : (tensor<?x3xf64>, tensor<3xf64>) -> tensor<?x3xf64>
      %1 = "oneflow.tanh"(%0) : (tensor<?x3xf64>) -> tensor<?x3xf64>
      %2 = "oneflow.reduce_sum"(%1) {axis = array<i32: 0, 1>} : (tensor<?x3xf64>) -> tensor<f64>
      return %2 : tensor<f64>
    }"""
    module = read_module(text, context)
    _differentiate(module)
    x, w = drawn([(5, 3), (3,)], 0)
    dx, dw = interpret(module, "loss_grad", x, w)
    slope = 1 - np.tanh(x * w) ** 2
    np.testing.assert_allclose(dx, slope * w, 1e-12)
    np.testing.assert_allclose(dw, (slope * x).sum(0), 1e-12)


def test_embedding_gradient_with_a_dynamic_table(context):
    """The rows of dy by which the gradient of `embedding` is linear; the row of the padding has none."""
    text = """
    func.func @loss(%dy: tensor<3x2xf64>, %w: tensor<?x2xf64>, %i: tensor<3xi64>) -> tensor<f64> {
      %0 = "oneflow.embedding_grad"(%dy, %w, %i) {padding_idx = 1 : i64}
        : (tensor<3x2xf64>, tensor<?x2xf64>, tensor<3xi64>) -> tensor<?x2xf64>
      %1 = "oneflow.broadcast_mul"(%0, %w) : (tensor<?x2xf64>, tensor<?x2xf64>) -> tensor<?x2xf64>
      %2 = "oneflow.reduce_sum"(%1) {axis = array<i32: 0, 1>} : (tensor<?x2xf64>) -> tensor<f64>
      return %2 : tensor<f64>
    }"""
    module = read_module(text, context)
    _differentiate(module, wrt=("0",))
    dy, w = drawn([(3, 2), (4, 2)], 0)
    (found,) = interpret(module, "loss_grad", dy, w, np.array([3, 1, 0]))
    np.testing.assert_array_equal(found, [w[3], [0, 0], w[0]])


def _calls_for(context, count):
    """The number of function calls for the differentiation of `count` layers of four operators."""

    def body(b, xs):
        x, w = xs
        y = x
        for _ in range(count):
            y = b.scalar_mul(b.tanh(b.broadcast_add(b.matmul(y, w), x)), **_number(0.5))
        return _total(b, y)

    module = _loss_module(context, [(2, 3), (3, 3)], body)
    with module.context:
        return calls_of(Autodiff().run, module, REGISTRY)


def test_work_grows_with_the_number_of_operators(context):
    """Twice the operators take twice the calls, and each takes no more than 1000: 10,000 are a matter of seconds."""
    once, twice = (_calls_for(context, count) for count in (200, 400))
    assert twice < 2.05 * once
    assert twice < 1000 * 4 * 400
