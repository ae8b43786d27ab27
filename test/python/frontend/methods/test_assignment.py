"""`x[key] = value` in eager mode, on captured tensors and in traces, against NumPy; gradients against a mapping of
positions.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import oneflow as flow
from oneflow.testing.host_cuda import host_cuda

F32 = np.float32
ROWS, TWICE = np.array([2, 0]), np.array([1, -1, 1])
GRID = np.array([[0, 1], [2, 0]])
MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, False, False]])

#: Shapes of a target, indices, and the shapes of values; None is a number.
BASIC = {
    "one": ((5,), 3, ()), "from the end": ((5,), -2, None), "a row": ((3, 4), 1, (4,)),
    "an element": ((3, 4), (1, -1), ()),
    "rows": ((5, 2), slice(1, 3), (2, 2)), "steps": ((7, 3), slice(1, None, 2), (3, 3)),
    "to the end": ((5,), slice(-2, None), (2,)), "too far": ((5,), slice(3, 9), (2,)),
    "nothing": ((5,), slice(3, 1), (0,)),
    "a column": ((3, 4), (slice(None), 2), (3,)), "broadcast": ((3, 4), slice(1, None), (4,)),
    "dots": ((2, 3, 4), (..., 1), (2, 3)), "dots between": ((2, 3, 4), (0, ..., 2), (3,)),
    "everything": ((3, 4), ..., (3, 4)),
    "colon": ((3, 4), slice(None), ()), "new": ((3, 4), (slice(None), None, 1), (3, 1)),
    "new first": ((3, 4), (None, 2), (1, 4)),
    "backwards": ((5, 2), slice(None, None, -1), (5, 2)), "backwards in steps": ((7,), slice(5, 0, -2), (3,)),
    "leading ones": ((3, 4), 1, (1, 1, 4)), "of no dimension": ((), ..., ()), "no parts": ((2,), (), (2,)),
    "negative bounds": ((6, 5), (slice(-5, -1, 2), slice(-3, -1)), (2, 2)),
}  # fmt: skip
POSITIONS = {
    "rows": ((4, 3), ROWS, (2, 3)), "rows, a number": ((4, 3), ROWS, None), "a list": ((4, 3), [3, 1], (3,)),
    "twice": ((4, 3), TWICE, (3, 3)), "columns": ((3, 4), (slice(None), ROWS), (3, 2)),
    "pairs": ((3, 4), (ROWS, np.array([-1, 1])), (2,)), "crossed": ((3, 4), (ROWS[:, None], TWICE), (2, 3)),
    "a grid": ((3, 4), GRID, (2, 2, 4)), "with a slice": ((5, 4), (ROWS, slice(1, 3)), (2, 2)),
    "with a step": ((5, 6), (slice(None, None, 2), ROWS), (3, 2)),
    "around a slice": ((3, 4, 5), (ROWS, slice(1, 3), ROWS), (2, 2)),
    "with a number": ((3, 4, 5), (1, ROWS), (2, 5)),
    "apart from a number": ((3, 4, 5), (1, slice(None), ROWS), (4, 2)),
    "in the middle": ((2, 4, 3), (slice(None), TWICE, slice(0, 2)), (2, 3, 2)),
    "dots": ((2, 3, 4), (..., ROWS), (2,)),
    "new": ((3, 4), (None, ROWS), (1, 2, 4)), "new between": ((3, 4), (ROWS, None, TWICE[:2]), (2, 1)),
    "none": ((3, 4), np.zeros(0, np.int64), (0, 4)), "backwards": ((3, 4), (ROWS, slice(None, None, -1)), (2, 4)),
    "of no dimension": ((3, 4), (np.array(2), slice(1, 3)), (2,)), "one of a row": ((4, 3), ROWS, (2, 1)),
    "short integers": ((40000,), np.array([7, 32767], np.int16), (2,)),
    "short integers from the end": ((40000,), np.array([-1, 7], np.int16), ()),
}  # fmt: skip
MASKS = {
    "a number": ((3, 4), MASK, None), "one value": ((3, 4), MASK, ()), "of one element": ((3, 4), MASK, (1,)),
    "rows": ((3, 4), MASK[:, 0], (4,)), "rows, a number": ((3, 4), MASK[:, 0], None),
    "columns": ((3, 4), (slice(None), MASK[0]), (3, 1)),
    "with a number": ((2, 3, 4), (1, MASK), ()), "with a slice": ((3, 4), (MASK[:, 1], slice(1, 3)), (2,)),
    "nothing": ((3, 4), np.zeros((3, 4), bool), None), "everything": ((3, 4), np.ones((3, 4), bool), ()),
    "dots": ((2, 3, 4), (..., MASK), (2, 1)), "of no dimension": ((3, 4), np.array(True), None),
    "of no dimension, not": ((3, 4), np.array(False), ()),
}  # fmt: skip
KNOWN_MASKS = {
    "each its own": ((3, 4), MASK, (6,)), "rows of their own": ((3, 4), MASK[:, 0], (2, 4)),
    "with positions": ((3, 4), (MASK[:, 0], np.array([1, 2])), (2,)),
    "with one position": ((3, 4), (MASK[:, 0], 1), (2,)),
}  # fmt: skip
CASES = {
    f"{kind}: {name}": case
    for kind, cases in (("basic", BASIC), ("positions", POSITIONS), ("masks", MASKS), ("known masks", KNOWN_MASKS))
    for name, case in cases.items()
}


@pytest.fixture(scope="module")
def cuda(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with host_cuda() as made:
            yield made


def counted(shape, start=0):
    return np.arange(start, start + np.prod(shape), dtype=F32).reshape(shape)


def drawn(shape, index, value):
    """A target, a value and weights of the result."""
    rng = np.random.default_rng(5)
    given = 7.0 if value is None else -1 - counted(value)
    return counted(shape), given, rng.standard_normal(shape).astype(F32)


def put(array, index, value):
    """Assigns as PyTorch does: an integer takes its dimension before positions take theirs."""
    parts = index if isinstance(index, tuple) else (index,)
    if arrays_of(index) and any(isinstance(p, int) for p in parts):
        widths = [p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else 1 for p in parts]
        whole = [[p] if isinstance(p, int) else [slice(None)] * n for p, n in zip(parts, widths, strict=True)]
        array, index = array[sum(map(tuple, whole), ())], tuple(p for p in parts if not isinstance(p, int))
    array[index] = value


def wanted(x, index, value, weights):
    """The assigned array, and the gradients of its weighted sum by the array and by the value."""
    y, last_writer = x.copy(), np.full(x.shape, -1)
    put(y, index, value)
    indices = np.arange(np.size(value)).reshape(np.shape(value))
    put(last_writer, index, indices)
    by_value = np.zeros(np.size(value))
    np.add.at(by_value, last_writer[last_writer >= 0], weights[last_writer >= 0])
    return y, np.where(last_writer < 0, weights, 0), by_value.reshape(np.shape(value))


def mapped(index, function):
    """An index with arrays exchanged."""
    if isinstance(index, tuple):
        return tuple(mapped(part, function) for part in index)
    return function(index) if isinstance(index, np.ndarray) else index


def arrays_of(index):
    found: list[Any] = []
    mapped(index, found.append)
    return found


def tensors(index, *, device="cpu"):
    return mapped(index, lambda a: flow.tensor(a).to(device))


def given_tensor(value, device="cpu"):
    return flow.tensor(value).to(device) if isinstance(value, np.ndarray) else value


def in_eager_mode(x, index, value, device):
    y = flow.tensor(x).to(device)
    y[index] = given_tensor(value, device)
    return y


def of_outside(x, index, value, device):
    y = flow.tensor(x).to(device)

    @flow.compile
    def f(v):
        y[index] = v
        return y.sum()

    total = f(given_tensor(value, device))
    np.testing.assert_allclose(total.cpu().numpy(), y.cpu().numpy().sum(), 1e-5)
    return y


def made_inside(x, index, value, device):
    @flow.compile
    def f(x, v):
        y, z = x * 1, x.clone()
        y[index] = z[index] = v
        return y, z - y

    y, zeros = f(flow.tensor(x).to(device), given_tensor(value, device))
    assert not zeros.cpu().numpy().any()
    return y


ORIGINS = {"eager": in_eager_mode, "outside": of_outside, "inside": made_inside}


@pytest.mark.parametrize("as_tensors", [False, True], ids=["arrays", "tensors"])
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_assignment_equals_numpy(name, origin, as_tensors, device, request):
    if device == "cuda":
        request.getfixturevalue("cuda")
    shape, index, value = CASES[name]
    if as_tensors and (not arrays_of(index) or (name.startswith("known") and origin != "eager")):
        return
    x, value, weights = drawn(shape, index, value)
    key = tensors(index, device=device) if as_tensors else index
    np.testing.assert_array_equal(
        ORIGINS[origin](x, key, value, device).cpu().numpy(), wanted(x, index, value, weights)[0]
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_of_assignment(name, compiled):
    shape, index, value = CASES[name]
    x, value, weights = drawn(shape, index, value)
    y, by_x, by_value = wanted(x, index, value, weights)

    def loss(x, v):
        z = x * 1
        z[index] = v
        return (z * weights).sum()

    numbers = 0 if isinstance(value, float) else (0, 1)
    function = flow.value_and_grad(loss, numbers)
    function = flow.compile(function) if compiled else function
    total, grads = function(flow.tensor(x), given_tensor(value))
    found = [grads] if isinstance(value, float) else list(grads)
    np.testing.assert_allclose(total.numpy(), (y * weights).sum(), 1e-4, 1e-4)
    for got, want in zip(found, (by_x, by_value), strict=False):
        np.testing.assert_allclose(got.numpy(), want, 1e-5, 1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if arrays_of(CASES[n][1]) and not n.startswith("known")])
def test_assignment_at_positions_and_masks_that_are_arguments(name):
    shape, index, value = CASES[name]
    x, value, weights = drawn(shape, index, value)
    indices = iter(range(len(arrays_of(index))))
    numbered = mapped(index, lambda a: np.array(next(indices)))

    @flow.compile
    def f(x, parts, v):
        y = x * 1
        y[mapped(numbered, lambda n: parts[int(n)])] = v
        return y

    got = f(x, arrays_of(index), value)
    np.testing.assert_array_equal(got, wanted(x, index, value, weights)[0])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_basic_index(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    index = data.draw(basic_indices(shape, allow_newaxis=True, max_dims=6))
    x = counted(shape)
    value = -1 - counted(x[index].shape)
    sizes = [n if data.draw(st.booleans()) else min(n, 1) for n in value.shape]
    value = value[tuple(map(slice, sizes))]
    want, by_x, by_value = wanted(x, index, value, x + 1)
    plain = flow.tensor(x)
    plain[index] = flow.tensor(value)
    w, v = flow.tensor(x).requires_grad_(), flow.tensor(value).requires_grad_()
    y = w * 1
    y[index] = v
    (y * (w.detach() + 1)).sum().backward()
    np.testing.assert_array_equal(plain.numpy(), want)
    np.testing.assert_array_equal(y.detach().numpy(), want)
    np.testing.assert_array_equal(w.grad.numpy(), by_x)
    np.testing.assert_allclose(v.grad.numpy(), by_value)


@pytest.mark.parametrize("origin", ORIGINS)
def test_one_element_of_several_dimensions(origin):
    """PyTorch accepts a tensor of one element and any rank as an element; NumPy does not."""
    x = np.zeros((2, 2), F32)
    found = ORIGINS[origin](x, (0, 1), np.full((1, 1), 3, F32), "cpu").numpy()
    np.testing.assert_array_equal(found, [[0, 3], [0, 0]])
