"""Functions over tensors from a C++ library, and gradients as classes."""

import numpy as np
import pytest

from oneflow.dialect import dtypes as dt
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.record import Call, OperatorError
from oneflow.runtime.user_ops.functions import Argument, call_function
from oneflow.testing import checks
from oneflow.testing.gradients import check_gradient
from oneflow.testing.sample import Sample, t

X = np.array([[-1.0, 2.0], [3.0, -4.0]])


@pytest.fixture
def registry(with_functions):
    return with_functions


@pytest.fixture
def call(registry):
    """`call(name, ..)` with arrays and (kind, value) pairs."""
    ops = NumpyBuilder(registry)

    def wrap(argument):
        if isinstance(argument, tuple):
            return Argument(*argument)
        if isinstance(argument, list):
            return Argument(None, [ops.wrap(x) for x in argument])
        return Argument(None, None if argument is None else ops.wrap(argument))

    return lambda name, *args: [v.handle for v in call_function(ops, name, [wrap(a) for a in args])]


def test_a_functor_calls_its_operator(call):
    np.testing.assert_array_equal(call("Leaky", X, ("float", 0.5))[0], np.where(X > 0, X, X / 2))
    np.testing.assert_array_equal(call("Leaky", X, ("int64", 2))[0], np.where(X > 0, X, X * 2))


def test_overloads(call):
    np.testing.assert_array_equal(call("Times", X, ("double", 1.5))[0], X * 1.5)
    np.testing.assert_array_equal(call("Times", X, X)[0], X * X)


def test_every_kind_of_argument(call):
    rest = [
        ("list_int32", (1, 2)), ("list_float", (0.5,)), ("shape", (2, 3)), ("string", "four"), ("bool", True),
        ("data_type", dt.int8), ("double", 0.25),
    ]  # fmt: skip
    total = 3 + 0.5 + 6 + 4 + 1000 + 0.25
    first, second = call("Everything", [X, X + 1], X, ("int64", 7), *rest)
    np.testing.assert_allclose(first, X * X * (total + 7))
    np.testing.assert_allclose(second, (X + 1) * X * (total + 7))
    np.testing.assert_allclose(call("Everything", [X], None, ("int64", None), *rest)[0], X * total)


def test_gradient_as_a_class(registry):
    sample = Sample(
        "t_leaky", [t(3, 4)], {"alpha": 0.25}, dtypes=[dt.float64], second_order=False, why="no t_leaky_grad"
    )
    checks.check_types(sample, dt.float64, registry)
    checks.check_sbp(sample, registry)
    check_gradient(sample, registry)


@pytest.mark.parametrize(
    "alpha, message",
    [(7.0, "gradient function .*functions.cpp:.* failed: .*seven is no slope"), (8.0, "no attribute named beta")],
)
def test_failures_of_a_gradient_class(registry, alpha, message):
    ops = NumpyBuilder(registry)
    x = ops.wrap(X)
    op = Call(registry["t_leaky"], {"x": x}, {"alpha": alpha}, {"y": ops.t_leaky(x, alpha=alpha)})
    with pytest.raises(OperatorError, match=message):
        registry["t_leaky"].grad(ops, op, x)


@pytest.mark.parametrize(
    "how, message",
    [
        (1, "thrown by the functor"),
        (2, r'registered the function NoSuchFunction; add m.add_functor<..>\("NoSuchFunction"\)'),
        (3, "the function Leaky takes 2 arguments, got 1"),
        (4, "the function Leaky: .*expected an argument of the kind float"),
        (5, "unknown operator oneflow.t_no_such_op"),
        (7, "oneflow.matmul: operands: expected 1 for b, got 2"),
        (8, r"\(3 vs 2\)"),
        (9, "oneflow.matmul"),
    ],
)
def test_failures_of_a_functor(call, how, message):
    with pytest.raises(OperatorError, match=message):
        call("Fail", np.ones((3, 3)), ("int64", how))


def test_failures_have_the_cause_of_the_builder(call):
    np.testing.assert_array_equal(call("Fail", np.ones((3, 3)), ("int64", 6))[0], np.full((3, 3), 3.0))
    with pytest.raises(OperatorError) as error:
        call("Fail", np.ones((2, 3)), ("int64", 6))
    assert isinstance(error.value.__cause__, OperatorError)
