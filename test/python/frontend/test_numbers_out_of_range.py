"""Numbers that an element type does not hold or rounds, and inputs without a result: PyTorch's values, or errors."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow

F = flow.nn.functional
NAN = float("nan")
RANGE = r"expected a number in \[-128, 127\] with a tensor of i8, got"
REFUSED = {
    "a filling float beyond the range": (lambda: small().fill_(1e10), f"{RANGE} 1"),
    "a filling NaN": (lambda: small().fill_(NAN), f"{RANGE} nan"),
    "an infinite number in full": (lambda: flow.full((2,), float("inf"), dtype=flow.int8), f"{RANGE} inf"),
    "a number of a list": (lambda: flow.tensor([1, 300], dtype=flow.int8), f"{RANGE} 300"),
    "a NaN of a list": (lambda: flow.tensor([1.0, NAN], dtype=flow.int8), f"{RANGE} nan"),
    "a class below 0": (lambda: F.one_hot(flow.tensor([0, -1])), "expected positions of at least 0 for one_hot"),
    "one element per channel": (
        lambda: F.batch_norm(flow.ones(1, 3), None, None, training=True), "expected more than one element per",
    ),
    "one element of an image": (
        lambda: F.instance_norm(flow.ones(2, 3, 1)), "expected more than one element per channel of an image",
    ),
}  # fmt: skip


def small():
    return flow.tensor([-128, 1, 127], dtype=flow.int8)


def bf16(number):
    return flow.full((1,), number, dtype=flow.bfloat16)


@pytest.mark.parametrize("what", REFUSED)
def test_numbers_out_of_range_are_refused(what):
    call, message = REFUSED[what]
    with pytest.raises(flow.OneFlowError, match=message):
        call()


RESULTS = {
    "a number as an element of f16": (lambda: flow.full((1,), 0.3, dtype=flow.float16) == 0.3, [True]),
    "a number as an element of bf16": (lambda: bf16(1.0) < 1.0005, [False]),
    "a divisor as an element": (lambda: flow.fmod(bf16(0.3), 0.3).float(), [0.0]),
    "one rounding": (lambda: flow.addcmul(*[bf16(2.7)] * 3, value=0.5).float(), [6.34375]),
    "running sums of a type": (lambda: flow.cumsum(flow.tensor([100, 100]), 0, dtype=flow.int8), [100, -56]),
    "a summand that is not read": (
        lambda: flow.addmm(flow.full((2,), NAN), flow.ones(1, 3), flow.ones(3, 2), beta=0),
        [[3.0, 3.0]],
    ),
    "a list wraps negative numbers of unsigned types": (lambda: flow.tensor([-1, 3.7], dtype=flow.uint8), [255, 3]),
    "a bound that is NaN": (lambda: flow.clamp(flow.ones(2), NAN, 3.0), [NAN] * 2),
    "an upper bound that is NaN": (lambda: flow.clamp(flow.ones(2), max=NAN), [NAN] * 2),
    "the median of nothing": (lambda: flow.median(flow.ones(0, 2)), NAN),
    "the sign of NaN": (lambda: flow.sign(flow.tensor([NAN, -0.0, -2.0])), [0.0, 0.0, -1.0]),
}


@pytest.mark.parametrize("what", RESULTS)
def test_numbers_are_rounded_to_the_type_of_the_tensor(what):
    call, wanted = RESULTS[what]
    np.testing.assert_array_equal(call().numpy(), np.array(wanted))
    np.testing.assert_array_equal(np.asarray(flow.compile(call)()), np.array(wanted))


def test_objects_without_elements_are_not_compared_by_elements():
    x: Any = flow.ones(2)
    assert (x == "a") is False
    assert (x != "a") is True
    with pytest.raises(TypeError, match="not supported between"):
        sorted([x, "a"])
