"""Code that cannot be traced is an error at the user's line, with a traceable replacement."""

import inspect
from typing import Any

import numpy as np
import pytest
from call_counts import recorded

import oneflow as flow

X = flow.TensorSpec((2, 3), flow.float32)
EMPTY = flow.TensorSpec((0, 3), flow.float32)
ANY = flow.TensorSpec((None, 3), flow.float32)
I32 = flow.TensorSpec((2, 3), flow.int32)
BOOL = flow.TensorSpec((2, 3), flow.bool)


def branch(x):
    y = x * 2
    if y.sum() > 0:  # HERE
        return y
    return x


def loop(x):
    total = 0
    for row in x:  # HERE
        total = total + row
    return total


def operator_rules(x):
    y = flow.relu(x)
    z = flow.matmul(
        y, x  # HERE
    )  # fmt: skip
    return z


def inside_a_helper(x):
    def helper(v):
        return v + np.ones(7, np.float32)  # HERE

    return helper(x)


CASES = [
    (branch, X, "write flow.where(condition, a, b)"),
    (loop, ANY, "dimension 0 of tensor<?x3xf32> is only known at run time"),
    (inside_a_helper, X, "oneflow.broadcast_add: expected operands that broadcast, got shapes 2x3, 7"),
]


@pytest.mark.parametrize("function,spec,text", CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_line_of_the_user(function, spec, text):
    with pytest.raises(flow.TraceError) as info:
        flow.trace(function, spec)
    lines, first = inspect.getsourcelines(function)
    line = first + next(i for i, source in enumerate(lines) if "HERE" in source)
    assert str(info.value).startswith(f"{__file__}:{line}: ")
    assert text in str(info.value)


def test_line_of_a_call_over_several_lines():
    with pytest.raises(flow.TraceError) as info:
        flow.trace(operator_rules, X)
    lines, first = inspect.getsourcelines(operator_rules)
    assert info.value.location and first + 2 <= info.value.location.line <= first + len(lines)
    assert "oneflow.matmul: expected the contracted dimension of b to be 3, got 2" in str(info.value)


REFUSED = [
    (lambda x: int(x.sum()), X, "int() of a tensor needs its value"),
    (lambda x: float(x.sum()), X, "float() of a tensor needs its value"),
    (lambda x: [1, 2][x.sum()], X, "an index or size of a tensor needs its value"),
    (lambda x: x.sum().item(), X, "return the tensor and read the number"),
    (lambda x: f"{x.sum():.2f}", X, "return the tensor and read the number"),
    (lambda x: x.numpy(), X, "the compiled function returns NumPy arrays"),
    (lambda x: x.tolist(), X, "return the tensor"),
    (lambda x: np.asarray(x), X, "use the functions of oneflow"),
    (lambda x: np.exp(x), X, "write flow.exp"),
    (lambda x: np.concatenate([x, x]), X, "write flow.concatenate or its like"),
    (lambda x: x and x, X, "write flow.where"),
    (lambda x: 1.0 in x, X, "write flow.any(x == value)"),
    (lambda x: x.__setitem__(0, 1), X, "only flow.compile updates arguments"),
    (lambda x: len(x), ANY, "len() needs a static size"),
    (lambda x: range(x.size(0)), ANY, "write -1 in reshape"),
    (lambda x: int(x.numel()), ANY, "expected a Python int, got ((1 * dimension 0 of tensor<?x3xf32>) * 3)"),
    (lambda x: x.nonzero(), X, "depends on values"),
    (lambda x: x.masked_select(x > 0), X, "write flow.where(mask, x, 0)"),
    (lambda x: flow.unique(x), X, "depends on values"),
    (lambda x: x.mean(), I32, "expected floating-point elements for mean, got i32; write x.float().mean(..)"),
    (lambda x: x.sum(2), X, "expected a dimension in [-2, 2) of tensor<2x3xf32>, got 2"),
    (lambda x: flow.softmax(x, 5), X, "expected a dimension in [-2, 2)"),
    (lambda x: x - x, BOOL, "expected numbers for broadcast_sub, got bools"),
    (lambda x: x & x, X, "expected integers or bools for broadcast_bitwise_and, got f32"),
    (lambda x: flow.clamp(x), X, "expected min, max or both"),
    (lambda x: flow.gelu(x, "fast"), X, 'expected approximate to be "none" or "tanh"'),
    (lambda x: flow.split(x, 2), ANY, "split needs a static size"),
    (lambda x: flow.split(x, [1, 1], 1), X, "expected sizes that add up to 3"),
    (lambda x: flow.cat([]), X, "expected at least one tensor"),
    (lambda x: x.reshape(-1, -1), X, "expected at most one unknown size"),
    (lambda x: x.reshape(4), X, "expected a shape of 6 elements"),
    (lambda x: flow.arange(x.sum()), X, "expected Python numbers for arange"),
    (lambda x: flow.arange(0, 5, 0), X, "expected a step other than 0"),
    (lambda x: flow.layer_norm(x, 4), X, "expected layer_norm over the last dimensions"),
    (lambda x: flow.one_hot(x.to(flow.int64), -1), X, "expected the number of classes"),
    (lambda x: flow.matmul(x, 2.0), X, "expected at least one dimension for matmul"),
    (lambda x: flow.pad(x, (1, 1), mode="edge"), X, 'expected mode "constant"'),
    (lambda x: flow.relu("x"), X, "expected a tensor, got 'x'"),
    (lambda x: x.to(np.float32), X, "expected an element type such as flow.float32"),
    (lambda x: x.max(0), EMPTY, "expected at least one element along dimension 0 for max, got tensor<0x3xf32>"),
    (lambda x: x.min(0)[0], EMPTY, "expected at least one element along dimension 0 for min, got tensor<0x3xf32>"),
    (lambda x: x.argmax(-2), EMPTY, "expected at least one element along dimension -2 for argmax"),
    (lambda x: x.argmin(), EMPTY, "expected at least one element for argmin, got tensor<0x3xf32>"),
    (lambda x: x + 300, flow.TensorSpec((2,), flow.int8), "expected a number in [-128, 127]"),
    (lambda x: x + np.zeros(2, "M8[s]"), X, "got dtype datetime64"),
    (lambda x: None, X, "returned no tensor; return a computed tensor"),
    (lambda x: "abc", X, "returned no tensor; it returned 'abc': strings and numbers that it is called with are no"),
]  # fmt: skip


@pytest.mark.parametrize("function,spec,text", REFUSED)
def test_refused_calls_in_traces(function, spec, text):
    with pytest.raises(flow.TraceError) as info:
        flow.trace(function, spec)
    assert text in str(info.value)
    assert info.value.location and info.value.location.file == __file__
    assert info.value.location.line == function.__code__.co_firstlineno


def test_outside_of_a_trace():
    kept: list[Any] = []
    flow.trace(recorded(lambda x: x, kept, lambda x: x), X)
    with pytest.raises(flow.OneFlowError, match="no tensor of a trace outside of that trace"):
        flow.relu(kept[0])


def test_tensor_of_another_trace():
    kept: list[Any] = []
    flow.trace(recorded(lambda x: x, kept, lambda x: x), X)
    with pytest.raises(flow.TraceError, match="a tensor of another trace"):
        flow.trace(lambda x: x + kept[0], X)


def test_missing_argument():
    with pytest.raises(flow.CallError, match=r"branch\(x\): missing a required argument: 'x'"):
        flow.trace(branch)


def test_error_shows_the_source_line(source_lines):
    with pytest.raises(flow.TraceError) as info:
        flow.trace(branch, X)
    assert str(info.value).splitlines()[-1].strip() == "if y.sum() > 0:  # HERE"


@pytest.mark.parametrize("shape,dtype,text", [((-1,), flow.float32, "expected sizes from 0"), ((1,), "M8[s]", "M8")])
def test_bad_spec(shape, dtype, text):
    with pytest.raises((ValueError, TypeError), match=text):
        flow.TensorSpec(shape, dtype)


def test_error_classes():
    """An invalid call is a `TraceError` in a traced function, and another error in eager mode."""

    def wrong(x):
        return flow.relu(x).reshape(5)

    with pytest.raises(flow.OneFlowError, match=r"test_trace_errors\.py:[0-9]+: oneflow\.reshape") as info:
        wrong(flow.ones(2, 3))
    assert type(info.value) is flow.OneFlowError
    with pytest.raises(flow.TraceError, match=r"test_trace_errors\.py:[0-9]+: oneflow\.reshape"):
        flow.compile(wrong)(np.ones((2, 3), np.float32))
    assert issubclass(flow.TraceError, flow.OneFlowError) and issubclass(flow.CallError, flow.OneFlowError)
