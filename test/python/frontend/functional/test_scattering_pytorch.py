"""Functions that write at positions or read along diagonals and strides, against PyTorch: values and gradients."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(3)
X, SRC, CUBE = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 3), (2, 3), (3, 4, 5)))
ONE, OTHER = np.array(0.5, np.float32), np.array([1.5], np.float32)
FIRST = np.array(0, np.int64)
ONCE, TWICE = np.array([[0, 2, 0], [1, 0, 3]], np.int64), np.array([[0, 2, 0], [0, 2, 3]], np.int64)
#: A function of a framework and its tensors, and their values; integers are positions.
CASES: dict[str, Any] = {
    "scatter": (lambda f, x, i, s: f.scatter(x, 0, i, s), X, ONCE, SRC),
    "scatter of a number": (lambda _, x, i: x.scatter(0, i, 2.5), X, ONCE),
    "scatter_add": (lambda f, x, i, s: f.scatter_add(x, 0, i, s), X, TWICE, SRC),
    **{
        f"scatter_reduce, {r}, {own}": (
            lambda f, x, i, s, r=r, own=own: f.scatter_reduce(x, 0, i, s, r, include_self=own), X, TWICE, SRC)
        for r in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)
    },
    "scatter_reduce of equals": (lambda f, x, i, s: f.scatter_reduce(x, 0, i, s, "amax"), 0 * X, TWICE, 0 * SRC),
    "gather of a scalar": (lambda f, x, i: f.gather(x, 0, i), ONE, FIRST),
    "gather of a scalar at a vector": (lambda f, x, i: f.gather(x, -1, i), ONE, FIRST.reshape(1)),
    "gather of a vector at a scalar": (lambda f, x, i: f.gather(x, 0, i), OTHER, FIRST),
    "scatter to a scalar": (lambda f, x, i, s: f.scatter(x, 0, i, s), ONE, FIRST, OTHER[0]),
    "scatter of a number to a scalar": (lambda _, x, i: x * x.scatter(0, i, 2.5), ONE, FIRST.reshape(1)),
    "scatter_add to a scalar": (lambda f, x, i, s: f.scatter_add(x, -1, i, s), ONE, FIRST.reshape(1), OTHER),
    "scatter_reduce to a scalar": (
        lambda f, x, i, s: f.scatter_reduce(x, 0, i, s, "mean"), ONE, FIRST, OTHER[0]),
    "index_add": (lambda f, x, i, s: f.index_add(x, 0, i, s, alpha=2), X, np.array([3, 3], np.int64), SRC),
    "diag of a vector": (lambda f, x: f.diag(x, -1), X[:, 0].copy()),
    "diag of a matrix": (lambda _, x: x.diag(1), X),
    "diagonal": (lambda f, x: f.diagonal(x, 1, 2, 0), CUBE),
    "as_strided": (lambda f, x: f.as_strided(x, (3, 2), (2, 3), 1), CUBE),
    "unfold": (lambda _, x: x.unfold(-1, 3, 2), CUBE),
    "repeat_interleave": (lambda f, x: f.repeat_interleave(x, 2), X),
    "repeat_interleave along": (lambda f, x: f.repeat_interleave(x, 3, dim=1), X),
    "repeat_interleave by each": (lambda f, x, i: f.repeat_interleave(x, i, dim=1), X, np.array([2, 0, 3], np.int64)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    function, *values = CASES[name]
    found = []
    for f in (torch, flow):
        tensors = [f.tensor(v, requires_grad=v.dtype == np.float32) for v in values]
        result = function(f, *tensors)
        (result * result).sum().backward()
        found.append([result.detach(), *(t.grad for t in tensors if t.requires_grad)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", [n for n in CASES if "sum" in n or n in ("scatter", "diagonal", "unfold", "as_strided")]
)
def test_compiled_scatters(name):
    function, *values = CASES[name]
    want = function(torch, *map(torch.tensor, values))
    got = flow.compile(lambda *tensors: function(flow, *tensors))(*values)
    np.testing.assert_allclose(np.asarray(got), want.numpy(), rtol=1e-6)


def strided_updates(f, x):
    """Values after updates of memory that is read with strides: of a tensor, of a view, of a view of a view."""
    windows = f.as_strided(x, (2, 2), (5, 2), 1)
    windows.mul_(10)
    found = [x.clone()]
    x.add_(1)
    part = x[1:, 1:]
    f.as_strided(part, (3,), (4,), 2).zero_()
    found += [windows.clone(), x.clone(), part.clone()]
    turned = f.as_strided(part.t(), (2, 2), (1, 4), 5)
    turned.add_(100)
    return (*found, x.clone(), part.clone(), turned.clone())


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_strides_in_the_same_memory(compiled):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    run = flow.compile(lambda x: strided_updates(flow, x)) if compiled else lambda x: strided_updates(flow, x)
    for ours, theirs in zip(run(flow.tensor(values)), strided_updates(torch, torch.tensor(values)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_strides_from_the_first_element_of_a_view():
    def corner(x):
        return flow.as_strided(x[1:, 1:], (2,), (4,), None)

    x = flow.arange(12).reshape(3, 4)
    assert corner(x).tolist() == flow.compile(corner)(x).tolist() == [5, 9]


def test_strides_over_one_element_twice_are_not_updated():
    with pytest.raises(RuntimeError, match="several elements are one in memory"):
        flow.as_strided(flow.zeros(2, 3), (2, 2), (1, 1)).add_(1)


def test_inplace_scatters():
    x = flow.tensor(X)
    assert x.scatter_(0, flow.tensor(ONCE), 1.0) is x
    np.testing.assert_array_equal(x.numpy(), torch.tensor(X).scatter_(0, torch.tensor(ONCE), 1.0).numpy())


def test_means_of_integers_round_down():
    x, i, s = np.array([[1, -4, 5]], np.int64), np.array([[0, 1, 1]], np.int64), np.array([[2, 2, -4]], np.int64)
    want = torch.tensor(x).scatter_reduce(1, torch.tensor(i), torch.tensor(s), "mean")
    np.testing.assert_array_equal(flow.scatter_reduce(x, 1, i, s, "mean").numpy(), want.numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: x.scatter(0, i, 1.0, reduce="mean"), 'expected reduce to be None, "add" or "multiply"'),
        (lambda x, i: x.scatter_reduce(0, i, x, "max"), "expected reduce to be one of sum, mean, prod, amax, amin"),
        (lambda x, i: x.scatter(0, i + 4, 1.0), r"index: expected an index in \[0, 4\), got 4"),
        (lambda x, i: x.diagonal(0, 1, 1), "expected two dimensions for diagonal, got 1 and 1"),
        (lambda x, i: x.repeat_interleave(-1), "expected repeats of at least 0, got -1"),
        (lambda x, i: x.unfold(1, 4, 1), "expected size from 1 to the 3 elements along dimension 1"),
    ],
)
def test_refused_scatters(call, message):
    with pytest.raises((flow.OneFlowError, RuntimeError), match=message):
        call(flow.tensor(X), flow.tensor(ONCE))
