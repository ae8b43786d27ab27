"""Arguments by the names that OneFlow and PyTorch have for parameters."""

import inspect

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend import functional
from oneflow.nn import functional as F  # noqa: N812

X = np.array([1, -2], np.float32)


@pytest.mark.parametrize(
    "call, wanted",
    [
        (lambda x: F.relu(input=x), [1, 0]),
        (lambda x: flow.where(x > 0, input=x, other=x * 2), [1, -4]),
        (lambda x: flow.pow(input=x, exponent=2), [1, 4]),
        (lambda x: flow.split(tensor=x, split_size_or_sections=1)[1], [-2]),
        (lambda x: flow.concatenate([x, x], axis=0), [1, -2, 1, -2]),
        (lambda x: flow.sum(input=x, dim=0), -1),
        (lambda x: flow.abs(x=x), [1, 2]),
        (lambda x: flow.var(x, correction=0), 2.25),
        (lambda x: flow.cumsum(x, 0, dtype=flow.float64), [1, -1]),
    ],
)
def test_keyword_aliases(call, wanted):
    np.testing.assert_array_equal(call(flow.tensor(X)).numpy(), wanted)
    np.testing.assert_array_equal(flow.compile(call)(X), wanted)


def test_an_argument_is_given_once():
    with pytest.raises(TypeError, match="multiple values"):
        flow.abs(flow.tensor(X), input=X)  # type: ignore[call-overload]


def test_functions_of_one_tensor_take_the_keyword_input():
    functions = [getattr(functional, name) for name in functional.__all__]
    parameters = {f.__name__: [*inspect.signature(f).parameters] for f in functions if inspect.isroutine(f)}
    renamed = [name for name, names in parameters.items() if names[:1] == ["x"]]
    assert len(renamed) > 100
    for name in renamed:
        with pytest.raises(TypeError) as error:  # an argument is surplus, and this argument is not `input`
            getattr(functional, name)(input=X, nothing=1)
        assert "'input'" not in str(error.value)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: F.conv2d(flow.ones(1, 1, 4, 4), flow.ones(1, 1, 3, 3), stride=2, padding="same"), "a stride of 1"),
        (lambda: F.avg_pool2d(flow.ones(1, 1, 4, 4), 2, divisor_override=0), "a number other than 0"),
    ],
)
def test_arguments_that_are_refused(call, message):
    with pytest.raises(flow.OneFlowError, match=message):
        call()
