"""`x[..]` against NumPy, and refused indices."""

import numpy as np
import pytest
from helpers import assert_close, run

import oneflow as flow

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ROWS = np.array([2, 0, 2])

INDICES = [
    np.s_[0], np.s_[-1], np.s_[1, 2, 3], np.s_[1:], np.s_[:, 1], np.s_[..., 0], np.s_[:, ::2], np.s_[:, -2:, 1:3],
    np.s_[None], np.s_[:, None, 1], np.s_[..., None], np.s_[0, ..., None, 1], np.s_[None, ..., 0, None], np.s_[:, 5:],
    np.s_[:, -9:2], np.s_[()], np.s_[...], np.s_[:, ROWS], np.s_[..., ROWS], np.s_[:, [0, -1]], np.s_[1, ROWS],
    np.s_[:, np.array([[0, 1], [2, 0]])], np.s_[:, ROWS, 1:], np.s_[None, :, ROWS, None],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_indexing_equals_numpy(index, dynamic):
    if dynamic and isinstance(index, tuple) and [0, -1] in [i for i in index if isinstance(i, list)]:
        index = np.s_[:, [0, 2]]
    (got,) = run(lambda x: x[index], X, dynamic=dynamic)
    assert_close(got, X[index])


def test_tensor_of_positions():
    (got,) = run(lambda x, i: x[:, i, 1], X, ROWS)
    assert_close(got, X[:, ROWS, 1])


def test_loop_over_a_static_dimension():
    (got,) = run(lambda x: sum(row * i for i, row in enumerate(x, 1)), X)
    assert_close(got, X[0] + 2 * X[1])


MASKS = [
    True, False, (None, True), (True, 1), (slice(None), False, 1), np.True_, np.array(False), [], (slice(None), []),
    [True, False], [False, False], X > 0, (1, X[1] > 0), (slice(None), X[0] > 0), (Ellipsis, X[0, 0] > 0, None),
]  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("key", MASKS, ids=range(len(MASKS)))
def test_bools_known_masks_and_empty_indices(key, device, cuda):
    """Reads and writes equal NumPy's, in eager mode and in compiled functions."""
    wanted = X.copy()
    wanted[key] = 7
    x = flow.tensor(X).to(device)
    for got in (x[key], flow.compile(lambda x: x[key])(x)):
        np.testing.assert_array_equal(got.cpu().numpy(), X[key])
    for update in (lambda x: x.__setitem__(key, 7), flow.compile(lambda x: x.__setitem__(key, 7))):
        y = x.clone()
        update(y)
        np.testing.assert_array_equal(y.cpu().numpy(), wanted)


REFUSED = [
    (lambda x: x[2], "expected an index in [-2, 2) for dimension 0 of tensor<2x3x4xf32>, got 2"),
    (lambda x: x[0, 0, 0, 0], "expected at most 3 indices"),
    (lambda x: x[..., ...], "at most one Ellipsis"),
    (lambda x: x[::-1], "write flow.flip(x, [dim]) to reverse"),
    (lambda x: x[x > 0], "write flow.where(mask, x, 0)"),
    (lambda x: x[: x[0, 0, 0].to(flow.int64)], "a slice bounded by a tensor"),
    (lambda x: x[1.0], "expected an integer, slice, None, Ellipsis or tensor"),
    (lambda x: x[x], "expected integers as an index"),
    (lambda x: x[np.array([])], "expected integers as an index"),
    (lambda x: x[:, np.ones(2, bool)], "expected a mask of the sizes of tensor<2x3x4xf32> from dimension 1 on"),
    (lambda x: x[:, [0, 3]], "expected an index in [-3, 3) for dimension 1 of tensor<2x3x4xf32>, got 3"),
    (lambda x: x[ROWS, ROWS], "expected an index in [-2, 2) for dimension 0 of tensor<2x3x4xf32>, got 2"),
]


@pytest.mark.parametrize("function,text", REFUSED)
def test_refused_indices(function, text):
    with pytest.raises(flow.TraceError) as info:
        run(function, X)
    assert text in str(info.value)
    assert info.value.location and "test_indexing.py" in info.value.location.file


@pytest.mark.parametrize("use", [lambda x, key: x[key], lambda x, key: x.clone().__setitem__(key, 0.0)])
def test_a_mask_with_known_values_needs_known_sizes(use):
    """Positions of the mask would be valid in a longer tensor, too."""
    with pytest.raises(flow.TraceError, match="expected a mask of the sizes of tensor<\\?x3xf32> from dimension 0"):
        flow.trace(lambda x: use(x, np.array([True, False])), flow.TensorSpec((None, 3)))


@pytest.mark.parametrize("dtype", [flow.bool, flow.uint8, flow.int8])
@pytest.mark.parametrize("as_array", [False, True], ids=["tensor", "array"])
def test_a_tensor_of_bytes_is_a_mask(dtype, as_array):
    values = np.array([2, 0, 1])
    mask = flow.tensor(values).to(dtype)
    key = mask.numpy() if as_array else mask
    x = flow.arange(9, dtype=flow.float32).reshape(3, 3).requires_grad_()
    assert x[key].tolist() == [[0, 1, 2], [6, 7, 8]]
    assert x[1:, key].tolist() == [[3, 5], [6, 8]]
    x[:, key].sum().backward()
    assert x.grad.tolist() == [[1, 0, 1]] * 3

    def update(x, key):
        x[key] = -1.0
        return x

    for function in (update, flow.compile(update)):
        assert function(flow.arange(3, dtype=flow.float32), mask).tolist() == [-1, 1, -1]
