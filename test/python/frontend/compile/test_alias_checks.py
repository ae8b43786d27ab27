"""Alias checks: arguments and results of compiled functions that share memory with updated tensors, and refused
calls.
"""

import numpy as np
import pytest
from shared_memory import OnDevice, OnHost, counted

import oneflow as flow
from oneflow.frontend.core.errors import CallError, TraceError


def refused(f, match):
    with pytest.raises(TraceError, match=rf"(?s)test_alias_checks.py:\d+: .*{match}"):
        flow.compile(f)()


def test_elements_of_another_type_are_refused():
    array = counted(12)
    a, b = flow.from_numpy(array), flow.from_numpy(array.view(np.int32)[2:])

    def read():
        a.add_(1)
        return b * 2

    def update():
        a.add_(1)
        b.add_(1)

    for f in (read, update):
        refused(f, "tensor<10xi32>, which is read or updated after tensor<12xf32> in its memory was updated")
    np.testing.assert_array_equal(array, counted(12))


def test_an_update_of_an_expanded_view_is_refused_before_anything_runs():
    c, d = flow.tensor(counted(3, 1)), flow.tensor(counted(3))
    v = c.expand(3, 4)

    def f():
        d.add_(1)
        v.add_(1)

    refused(f, r"add_ would update an expanded tensor.*write x.clone\(\) before")
    assert d.tolist() == [0, 1, 2] and v.tolist() == c.expand(3, 4).tolist()


def argument_cases():
    array = counted(12)
    c, d = flow.tensor(counted(12)), flow.from_numpy(array[4:])
    yield "a view", c, c[1:], True
    yield "the tensor", c, c.detach(), True
    yield "a view of a view", c.reshape(3, 4).T[1], c.reshape(3, 4)[1], True
    yield "the root of a view", c[3:], c, True
    yield "an array", d, array[:5], True
    yield "an array with gaps", d, array[::3], True
    yield "a tensor of the array", d, flow.from_numpy(array[5:6]), True
    yield "other columns", c.reshape(3, 4)[:, 1], c.reshape(3, 4)[:, 2], False
    yield "another part", c[:4], c[4:], False
    yield "another part of the array", d, array[:4], False
    yield "a copy", c, c.clone(), False


@pytest.mark.parametrize("name", [name for name, *_ in argument_cases()])
def test_arguments_must_not_alias_updated_tensors(name):
    _, state, given, shares = next(case for case in argument_cases() if case[0] == name)

    @flow.compile
    def f(x):
        state.add_(1)
        return x * 2

    f(flow.ones(*given.shape))
    before, wanted = state.tolist(), (given * 2).tolist()
    if shares:
        with pytest.raises(
            CallError, match=r"test_alias_checks.py:\d+: f: expected argument .* not to share memory .*\.clone()"
        ):
            f(given)
        assert state.tolist() == before
    else:
        assert f(given).tolist() == wanted
        assert state.tolist() == [v + 1 for v in before]


def test_arguments_may_alias_each_other_and_tensors_that_are_read():
    c = flow.tensor(counted(6))
    f = flow.compile(lambda x, y: x.sum() + y * c.sum())
    for _ in range(2):
        assert f(c, c[2:4]).tolist() == [15 + 2 * 15, 15 + 3 * 15]
        c.add_(0)


@pytest.mark.parametrize("on", [OnHost(), OnDevice()])
def test_returned_tensors_are_copies(cuda, on):
    """Results are copies of updated captured tensors and of arguments."""
    c, x = on.tensor(counted(4, 6)), on.tensor(counted(6))
    v, results = c[1:3], []

    @flow.compile
    def f(x):
        v.add_(x)
        return c, v, x

    for _ in range(4):
        results.append(f(x))
        results[-1][1].fill_(-1)
        results[-1][2].fill_(-1)
    rows = np.arange(4)[:, None]
    for call, (whole, part, given) in enumerate(results, 1):
        wanted = counted(4, 6) + call * counted(6) * ((rows == 1) | (rows == 2))
        assert whole.tolist() == wanted.tolist() and {*part.numpy().ravel(), *given.tolist()} == {-1}
    assert c.tolist() == wanted.tolist() and x.tolist() == counted(6).tolist()
