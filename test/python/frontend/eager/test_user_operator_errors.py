"""Failures in users' operators in eager mode: errors name the line of the call, as in compiled mode."""

import itertools
import linecache
import re

import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime.failures import KernelError

X = np.ones((2, 3), np.float32)
NUMBERS = itertools.count()


def defined(**slots):
    """The function of a new operator with these slots."""
    name = f"teager_{next(NUMBERS)}"
    flow.operator(f"{name}(x) -> y")(type("Slip", (), {"types": "x"} | slots))
    return getattr(flow.ops, name)


def at_line_of(caught, text):
    """Checks that an error names a line of this file that has the text."""
    named = [int(n) for n in re.findall(re.escape(__file__) + r":(\d+)", str(caught.value))]
    assert any(text in linecache.getline(__file__, line) for line in named), str(caught.value)


FAILING = {
    "decompose": {"decompose": lambda ops, op: ops.relu(op.x, nothing=1)},
    "numpy": {"kernel": flow.numpy_kernel(lambda x: 1 / 0)},
    "triton": {"kernel": flow.triton_kernel("def f(x, y):\n    tl.nothing()", grid="1")},
    "c": {"kernel": flow.c_kernel('return "not today";')},
    "c source": {"kernel": flow.c_kernel("not C")},
}


@pytest.mark.parametrize("slots", FAILING.values(), ids=FAILING)
def test_errors_of_compilation_and_runs_name_the_line(slots):
    function = defined(**slots)
    for _ in range(2):
        with pytest.raises(Exception, match=r"oneflow\.teager_") as caught:
            function(X)
        at_line_of(caught, "function(X)")
        with pytest.raises(Exception, match=r"oneflow\.teager_") as caught:
            flow.compile(lambda x: function(x))(X)
        at_line_of(caught, "flow.compile(lambda x: function(x))")


def floats():
    return flow.tensor(X, requires_grad=True)


REFUSED = {
    "a leaf": lambda: floats().add_(1), "no scalar": lambda: (floats() * 2).backward(),
    "no gradient": lambda: flow.tensor(X).sum().backward(),
    "twice": lambda: [y := floats().exp().sum(), y.backward(), y.backward()],
    "overwritten": lambda: [x := flow.tensor(X), y := (floats() * x).sum(), x.zero_(), y.backward()],
    "expanded": lambda: flow.tensor(X[:1]).expand(2, 3).add_(1),
    "out of range": lambda: flow.gather(flow.tensor(X), 0, flow.tensor([[5, 0, 0]])),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_errors_of_eager_tensors_name_the_line(name):
    with pytest.raises(RuntimeError) as caught:
        REFUSED[name]()
    at_line_of(caught, f'"{name}": lambda')


def test_asynchronous_device_errors_name_the_line(cuda):
    x = flow.tensor(X).cuda()
    found = flow.gather(x, 0, flow.tensor([[5, 0, 0]]).cuda())
    with pytest.raises(IndexError, match=r"got 5 \(found at ") as caught:
        found.numpy()
    at_line_of(caught, "found.numpy()")
    with pytest.raises(RuntimeError, match="expected all tensors on one device") as refused:
        x + flow.tensor(X)
    at_line_of(refused, "x + flow.tensor(X)")


def test_errors_of_a_scalar_body():
    name = f"teager_{next(NUMBERS)}"
    flow.elementwise(f"{name}(x) -> y")(lambda x: x if x > 0 else -x)
    with pytest.raises(flow.OneFlowError, match="cannot branch") as caught:
        getattr(flow.ops, name)(X)
    at_line_of(caught, "getattr(flow.ops, name)(X)")


def test_errors_of_a_kernel_in_backward():
    failing = defined(kernel=flow.numpy_kernel(lambda x: 1 / 0)).__name__
    same = flow.numpy_kernel(lambda x: x)
    function = defined(kernel=same, grad=lambda ops, op, dy: {"x": getattr(ops, failing)(dy)})
    result = function(flow.tensor(X, requires_grad=True)).sum()
    with pytest.raises(Exception, match=f"oneflow.{failing}: ZeroDivisionError") as caught:
        result.backward()
    at_line_of(caught, "getattr(ops, failing)(dy)")


def test_each_call_of_one_kernel_has_its_own_line():
    x, index = flow.tensor(X), flow.tensor(np.array([[7]]))
    with pytest.raises(IndexError, match=r"expected an index in \[0, 2\), got 7 \(") as first:
        flow.gather(x, 0, index)
    with pytest.raises(IndexError, match=r"expected an index in \[0, 2\), got 7 \(") as second:
        flow.gather(x, 0, index).sum()
    at_line_of(first, "flow.gather(x, 0, index)\n")
    at_line_of(second, "flow.gather(x, 0, index).sum()")


def test_errors_of_runs_keep_their_kind():
    with pytest.raises(KernelError, match=r"ZeroDivisionError: division by zero \(.*:\d+:\d+\)$"):
        defined(kernel=flow.numpy_kernel(lambda x: 1 / 0))(X)
