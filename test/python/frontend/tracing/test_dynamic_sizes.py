"""Dynamic sizes: numbers of the program, to compute with and to pass on as sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oneflow as flow

X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = flow.TensorSpec((None, 3))
IMAGES = flow.TensorSpec((None, None))


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lambda x: x.sum(0) / x.shape[0], lambda x: x.mean(0)),
        (lambda x: x.sum(0) / x.size(0), lambda x: x.mean(0)),
        (lambda x: x.sum() / x.numel(), lambda x: x.mean()),
        (lambda x: x * math.prod(x.shape), lambda x: x * x.size),
        (lambda x: x * (2 * x.shape[0] - 1), lambda x: x * (2 * x.shape[0] - 1)),
        (lambda x: x / flow.sqrt(x.shape[-2]), lambda x: x / np.sqrt(np.float32(x.shape[-2]))),
        (lambda x: flow.where(x.shape[0] > 3, x, -x), lambda x: np.where(x.shape[0] > 3, x, -x)),
        (lambda x: x.reshape(x.shape[0], 3, 1), lambda x: x.reshape(-1, 3, 1)),
        (lambda x: x.view(*x.shape[::-1]), lambda x: x.reshape(x.shape[::-1])),
        (lambda x: x[x.shape[0] - 1], lambda x: x[-1]),
    ],
)
def test_values_for_two_sizes(function: Callable[..., Any], reference: Callable[..., Any]) -> None:
    """Against NumPy, for two sizes of one program."""
    program = flow.compile(function, ROWS)
    for array in (X, Y):
        np.testing.assert_allclose(program(array), reference(array), rtol=1e-6)


def test_two_dynamic_dimensions() -> None:
    """The two dimensions are independent."""
    program = flow.compile(lambda x: x.sum() / x.shape[0] + x.shape[1], IMAGES)
    for array in (X, Y):
        np.testing.assert_allclose(program(array), array.sum() / len(array) + 3, rtol=1e-6)


def test_the_gradient_of_a_mean_by_size() -> None:
    """A size is a constant to gradients."""
    program = flow.compile(flow.grad(lambda x: (x * x).sum() / x.shape[0]), ROWS)
    for array in (X, Y):
        np.testing.assert_allclose(program(array), 2 * array / len(array), rtol=1e-6)


def test_unused_sizes_leave_no_operations() -> None:
    """Looking at a shape builds nothing."""
    assert "dim_size" not in str(flow.trace(lambda x: (x.shape, x.reshape(x.shape[0], -1))[1], ROWS))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x if x.shape[0] > 1 else -x, "a branch on a tensor's value.* branch on static sizes"),
        (lambda x: x if x.shape[0] == 1 else -x, "a branch on a tensor's value"),
        (lambda x: x if x.shape[0] else -x, "expected a Python value to branch on, got dimension 0 of"),
        (lambda x: [x for _ in range(x.shape[0])], "expected a Python int, got dimension 0 of tensor<.x3xf32>"),
        (lambda x: x * float(x.shape[0]), "expected a Python float, got dimension 0 of"),
        (lambda x: x / math.sqrt(x.shape[0]), "expected a Python float, got dimension 0 of"),
        (
            lambda x: x if x.shape[0] * 2 else -x,
            r"expected a Python value to branch on, got \(dimension 0 of .* \* 2\)",
        ),
        (lambda x: x.reshape((x.sum() * 3).long()), "an index or size of a tensor needs its value"),
        (lambda x: flow.split(x, 2), "split needs a static size, got dimension 0 of .*: the number of chunks"),
        (lambda x: flow.split(x, x.shape[0], 1), "expected chunks of at least 1 element, of a number that is known"),
        (lambda x: flow.arange(0, x.shape[0], 0), "expected numbers, and a static step other than 0"),
        (
            lambda x: flow.ops.normal(dtype=flow.float32, shape=x.shape),
            "oneflow.normal: attribute shape: expected an integer, got .*only known",
        ),
        (lambda x: x.reshape(x.shape[0] * 2, -1, -1), "expected at most one -1 in a shape"),
        (lambda x: x * len(x), "dimension 0 of .* is only known at run time"),
    ],
)
def test_python_numbers_of_dynamic_sizes_are_refused(function: Callable[..., Any], text: str) -> None:
    """An error at the user's line, with a replacement."""
    with pytest.raises(flow.TraceError, match=f"test_dynamic_sizes.py:[0-9]+: {text}"):
        flow.compile(function, ROWS)(X)


def _n(x: Any) -> Any:
    return x.shape[0]


#: Functions of the library, oneflow or torch, and a matrix.
AS_SIZES: list[Callable[[Any, Any], Any]] = [
    lambda _, x: x.reshape(_n(x) * x.shape[1]),
    lambda f, x: f.cat([x, x]).reshape(2, _n(x) * 2 // 2, x.shape[1]),
    lambda _, x: x.reshape(_n(x) * 3, -1),
    lambda _, x: x.reshape(x.shape[1], _n(x)),
    lambda _, x: x.view(*x.shape[::-1], 1),
    lambda _, x: x.reshape(x.numel()),
    lambda _, x: x.unsqueeze(0).flatten(0, 1),
    lambda f, x: f.cat([x, x]).reshape(_n(x), -1),
    lambda f, x: f.ones(x.shape) + x,
    lambda f, x: f.zeros(_n(x) + 1, 2),
    lambda f, x: f.full((2, _n(x) - 1), 3.5),
    lambda f, x: f.zeros_like(f.randn(x.shape)) + f.rand(2, _n(x), 1).ceil() * f.randint(5, 6, x.shape),
    lambda f, x: f.sort(f.randperm(_n(x)))[0] * (f.randint(_n(x), (_n(x),)) < _n(x)),
    lambda f, x: f.arange(_n(x)),
    lambda f, x: f.arange(_n(x), dtype=f.float32) * x[:, 0],
    lambda f, x: f.arange(1, _n(x), 2),
    lambda f, x: f.arange(_n(x) - 1, -1, -1),
    lambda f, x: f.arange(_n(x), 0, -2),
    lambda f, x: f.eye(_n(x), 3),
    lambda f, x: f.tril(f.ones(_n(x), _n(x))),
    lambda f, x: f.chunk(x, 2, 0),
    lambda f, x: f.split(x, [1, _n(x) - 1], 0),
    lambda f, x: f.split(x, [_n(x) // 2, _n(x) - _n(x) // 2]),
    lambda f, x: f.topk(x, 2, 0),
    lambda f, x: f.topk(-x, 3, 1, largest=False),
    lambda _, x: x.unfold(0, 3, 2),
    lambda f, x: f.narrow(x, 0, 1, _n(x) - 1),
    lambda f, x: f.narrow(x, 0, _n(x) - 2, 2),
    lambda f, x: f.narrow(x, 0, -2, _n(x) // 3),
    lambda _, x: x[: _n(x) // 2],
    lambda _, x: x[_n(x) // 2 :],
    lambda _, x: x[_n(x) - 5 :],
    lambda _, x: x[1 : _n(x) - 5],
    lambda _, x: x[_n(x) - 3 : _n(x) + 7 : 2, 1:],
    lambda _, x: x[:, : _n(x)],
    lambda _, x: x[-2 : _n(x) - 1, None, 0],
    lambda f, x: f.ones(1, 3).expand(_n(x), 3) + x,
    lambda _, x: x.unsqueeze(1).expand(_n(x), _n(x), x.shape[1]),
    lambda _, x: x[0].expand(_n(x), -1),
    lambda f, x: f.broadcast_to(f.ones(3), x.shape) * x,
    lambda _, x: x.repeat(_n(x), 1),
    lambda _, x: x.repeat(2, _n(x)),
    lambda _, x: x * (2 * _n(x) - 1) + (7 - _n(x)) // 2 + _n(x) % 3 + (-_n(x)),
]


@pytest.mark.parametrize("function", AS_SIZES, ids=map(str, range(len(AS_SIZES))))
@pytest.mark.parametrize("spec", [ROWS, IMAGES], ids=["rows", "images"])
def test_computed_sizes(function: Callable[[Any, Any], Any], spec: flow.TensorSpec) -> None:
    """One program has PyTorch's results for all sizes."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    program = flow.compile(lambda x: function(flow, x), spec)
    for rows in (4, 6, 7):
        array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        wanted = function(torch, torch.from_numpy(array))
        several = isinstance(wanted, (tuple, list))
        for got, value in zip(*[(g if several else [g]) for g in (program(array), wanted)], strict=True):
            np.testing.assert_array_equal(got, value.numpy())


def test_sizes_of_several_tensors() -> None:
    """A size may be computed from sizes of tensors of any ranks and types."""
    program = flow.compile(
        lambda x, y: flow.zeros(x.shape[0] * y.shape[0], x.shape[1]) + y.shape[0], IMAGES,
        flow.TensorSpec((None,), flow.int64),
    )  # fmt: skip
    np.testing.assert_array_equal(program(X, np.arange(2)), np.full((8, 3), 2.0, np.float32))


def test_gradients_through_computed_sizes() -> None:
    """Against PyTorch."""

    def loss(x: Any) -> Any:
        rest = x[1:].reshape(x.shape[0] * 3 - 3)
        return (rest**2).sum() + (x[x.shape[0] - 2 :] * x.unsqueeze(1).expand(x.shape[0], x.shape[0], 3)[0, 0]).sum()

    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    given = torch.tensor(X, requires_grad=True)
    loss(given).backward()
    np.testing.assert_allclose(flow.compile(flow.grad(loss), ROWS)(X), given.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: flow.cat([x, x]).reshape(_n(x), 3), "expected 6, got 12"),
        (lambda x: x.reshape(_n(x), 2), "expected 4, got 6"),
        (lambda x: flow.zeros(_n(x) - 3), "expected 3, got 2"),
        (lambda x: flow.ones(2, 3).expand(_n(x) + 1, 3), "expected 2, got 3"),
        (lambda x: flow.split(x, [1, _n(x)]), "expected 3, got 2"),
        (lambda x: flow.narrow(x, 0, _n(x) - 1, 2), "expected 2, got 1"),
        (lambda x: flow.zeros(4 // (_n(x) - 2)), "expected 1, got 0"),
    ],
)
def test_sizes_that_do_not_fit(function: Callable[..., Any], text: str) -> None:
    """An error of the run that names the user's line."""
    program = flow.compile(function, ROWS)
    with pytest.raises(RuntimeError, match=f"test_dynamic_sizes.py:[0-9]+:.*{text}"):
        program(Y)
