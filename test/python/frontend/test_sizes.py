"""Sizes that are only known at run time: numbers of the program, to compute with and to pass on as sizes."""

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
        (lambda x: x[:1].expand(x.shape), None),
        (lambda x: x[x.shape[0] - 1], lambda x: x[-1]),
    ],
)
def test_values(function: Callable[..., Any], reference: Callable[..., Any] | None) -> None:
    """Against NumPy, for two sizes of one program."""
    program = flow.compile(function, ROWS)
    if reference is None:
        return
    for array in (X, Y):
        np.testing.assert_allclose(program(array), reference(array), rtol=1e-6)


def test_two_dynamic_dimensions() -> None:
    """Each is its own."""
    program = flow.compile(lambda x: x.sum() / x.shape[0] + x.shape[1], IMAGES)
    for array in (X, Y):
        np.testing.assert_allclose(program(array), array.sum() / len(array) + 3, rtol=1e-6)


def test_the_gradient_of_a_mean_by_size() -> None:
    """A size is a constant to gradients."""
    program = flow.compile(flow.grad(lambda x: (x * x).sum() / x.shape[0]), ROWS)
    for array in (X, Y):
        np.testing.assert_allclose(program(array), 2 * array / len(array), rtol=1e-6)


def test_sizes_that_are_not_used_leave_nothing() -> None:
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
        (lambda x: x.reshape(x.shape[0] * 3), "expected numbers as sizes, got one computed at run time; write -1"),
        (lambda x: x * len(x), "dimension 0 of .* is only known at run time"),
    ],
)
def test_what_needs_a_number_now(function: Callable[..., Any], text: str) -> None:
    """An error at the user's line that says what to write."""
    with pytest.raises(flow.TraceError, match=f"test_sizes.py:[0-9]+: {text}"):
        flow.compile(function, ROWS)(X)
