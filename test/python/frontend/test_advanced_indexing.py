"""Tensors of positions in an index, several at once: integers first, as in PyTorch, then NumPy's rules."""

import numpy as np
import pytest

import oneflow as flow

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
A, B = np.array([1, 0]), np.array([2, 0])
S = slice(None)
#: An index of two position vectors, and an equal index of integers with the remaining axes at the end.
KEYS = {
    "0,:,i": (lambda i, j: (0, S, i), (0,), lambda i, j: (S, i)),
    "i,:,0": (lambda i, j: (i, S, 0), (S, S, 0), lambda i, j: (i, S)),
    "-1,..,i": (lambda i, j: (-1, ..., i), (-1,), lambda i, j: (..., i)),
    "0,None,:,i": (lambda i, j: (0, None, S, i), (0,), lambda i, j: (None, S, i)),
    "i,0,j": (lambda i, j: (i, 0, j), (S, 0), lambda i, j: (i, j)),
    "i,j,-1": (lambda i, j: (i, j, -1), (S, S, -1), lambda i, j: (i, j)),
    "list,:,0": (lambda i, j: ([1, 0], S, 0), (S, S, 0), lambda i, j: ([1, 0], S)),
    "i,j": (lambda i, j: (i, j), (), lambda i, j: (i, j)),
    "i,:,j": (lambda i, j: (i, S, j), (), lambda i, j: (i, S, j)),
    ":,i,j": (lambda i, j: (S, i, j), (), lambda i, j: (S, i, j)),
    "i,None,j": (lambda i, j: (i, None, j), (), lambda i, j: (i, None, j)),
    "matrix,j": (lambda i, j: (i[:, None], j), (), lambda i, j: (i[:, None], j)),
    "i,j,1:3": (lambda i, j: (i, j, slice(1, 3)), (), lambda i, j: (i, j, slice(1, 3))),
    "from the last": (lambda i, j: (i - 2, j - 3), (), lambda i, j: (i - 2, j - 3)),
    "i,::2,j": (lambda i, j: (i, slice(None, None, 2), j), (), lambda i, j: (i, slice(None, None, 2), j)),
    "i,j,j": (lambda i, j: (i, j, j), (), lambda i, j: (i, j, j)),
    ":,None,i,j": (lambda i, j: (S, None, i, j), (), lambda i, j: (S, None, i, j)),
}
cases = pytest.mark.parametrize("name", KEYS)


def expected(name):
    """The elements, and the positions of the elements in X."""
    _, first, rest = KEYS[name]
    return X[first][rest(A, B)], np.arange(24).reshape(X.shape)[first][rest(A, B)]


def test_integers_take_their_dimension_first():
    assert flow.tensor(X)[0, :, flow.tensor(A)].tolist() == [[1, 0], [5, 4], [9, 8]]
    assert flow.compile(lambda x, i: x[0, :, i])(X, A).tolist() == [[1, 0], [5, 4], [9, 8]]


@cases
def test_indexing_with_tensors_reads_elements(name):
    key, (want, _) = KEYS[name][0], expected(name)
    for found in (
        flow.tensor(X)[key(flow.tensor(A), flow.tensor(B))].numpy(),
        flow.compile(lambda x, i, j: x[key(i, j)])(X, A, B),
        flow.compile(lambda x: x[key(A, B)])(X),
    ):
        np.testing.assert_array_equal(found, want)


@cases
def test_gradients_of_reads(name):
    key, (want, at) = KEYS[name][0], expected(name)
    grad = np.zeros(24, np.float32)
    np.add.at(grad, at, 2 * want)
    x = flow.tensor(X, requires_grad=True)
    (x[key(flow.tensor(A), flow.tensor(B))] ** 2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy().ravel(), grad)
    found = flow.compile(flow.grad(lambda x, i, j: (x[key(i, j)] ** 2).sum()))(X, A, B)
    np.testing.assert_array_equal(np.asarray(found).ravel(), grad)


@cases
def test_writes_and_their_gradients(name):
    key, (old, at) = KEYS[name][0], expected(name)
    value = -1 - np.arange(old.size, dtype=np.float32).reshape(old.shape)
    want = X.copy().ravel()
    want[at] = value

    def write(x, i, j, value):
        y = x * 1
        y[key(i, j)] = value
        return y

    x = flow.tensor(X.copy())
    x[key(flow.tensor(A), flow.tensor(B))] = flow.tensor(value)
    given = flow.tensor(value, requires_grad=True)
    written = write(flow.tensor(X), flow.tensor(A), flow.tensor(B), given)
    (written * written).sum().backward()
    np.testing.assert_array_equal(given.grad.numpy(), 2 * value)
    for found in (x, written.detach(), flow.compile(write)(X, A, B, value)):
        np.testing.assert_array_equal(np.asarray(found).ravel(), want)


def test_advanced_indexing_of_dynamic_sizes():
    def function(x, i, j):
        y = x * 1
        y[0, :, i] = x[i, j][:, :2].sum()
        return x[i, :, j], x[:, i, j], x[0, i], y

    positions = flow.TensorSpec((None,), flow.int64)
    run = flow.compile(function, specs=[flow.TensorSpec((None, 3, None)), positions, positions])
    want = X.copy()
    want[0][:, A] = X[A, B][:, :2].sum()
    for a, b in zip(run(X, A, B), (X[A, :, B], X[:, A, B], X[0][A], want), strict=True):
        np.testing.assert_array_equal(a, b)


def test_positions_that_do_not_fit():
    read = flow.compile(lambda x, i, j: x[i, j])
    with pytest.raises(flow.OneFlowError, match="expected axis 0 of in to be 1 or 3"):
        read(X, np.array([0, 1, 1]), B)
    with pytest.raises(Exception, match=r"expected an index in \[0, 3\), got 3"):
        read(X, A, np.array([3, 0]))
