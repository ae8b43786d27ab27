"""Results whose last dimension has two elements: gradients of max pooling, repeated elements, comparisons."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow as flow

RNG = np.random.default_rng(7)
SIZES = [2, 5, 7, 8, 16, 17, 33]


def windows(x: np.ndarray) -> np.ndarray:
    """Windows of 2 x 2 with their elements in the last dimension."""
    n, c, height, width = x.shape
    return x.reshape(n, c, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, -1, width // 2, 4)


def images(seen: np.ndarray) -> np.ndarray:
    """The inverse of `windows`."""
    n, c, height, width, _ = seen.shape
    return seen.reshape(n, c, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * height, 2 * width)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_max_pooling_gradients_with_two_columns(size, kind):
    pool = getattr(flow.nn.functional, f"{kind}_pool2d")
    grad = flow.compile(lambda x, dy: flow.grad(lambda x: flow.sum(pool(x, 2, 2) * dy))(x))
    x = RNG.normal(size=(2, 3, 4, 2 * size)).astype(np.float32)
    dy = RNG.normal(size=(2, 3, 2, size)).astype(np.float32)
    best = np.arange(4) == windows(x).argmax(-1)[..., None]
    expected = (best if kind == "max" else 0.25 * np.ones_like(best)) * dy[..., None]
    np.testing.assert_array_equal(np.asarray(grad(x, dy)), images(expected).astype(np.float32))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_interleaved_elements(size, dtype):
    x = RNG.integers(0, 9, size=(3, size)).astype(dtype)
    y = RNG.integers(0, 9, size=(3, size, 2)).astype(dtype)
    z = RNG.integers(0, 9, size=2).astype(dtype)
    f = flow.compile(lambda x, y, z: (x.unsqueeze(-1) * y + z, x.unsqueeze(-1) > y))
    product, larger = map(np.asarray, f(x, y, z))
    np.testing.assert_array_equal(product, x[..., None] * y + z)
    np.testing.assert_array_equal(larger, x[..., None] > y)
