"""Kernels without vector lanes: static and dynamic loop lengths around the length of a chunk."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812

SIZES = (1, 500, 512, 513, 1500)


def upsampled(x):
    """Each element between its neighbours, at its position in an image of twice the size."""
    size = x.shape[-1]
    position = np.clip((np.arange(2 * size) + 0.5) / 2 - 0.5, 0, size - 1)
    return np.stack([np.interp(position, np.arange(size), row) for row in x.reshape(-1, size)]).reshape(
        *x.shape[:-1], -1
    )


def drawn(size):
    return np.random.default_rng(size).standard_normal((2, 3, size)).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_loop_lengths_around_a_chunk(size):
    compiled = flow.compile(lambda x: F.interpolate(x, scale_factor=2, mode="linear"))
    np.testing.assert_allclose(compiled(drawn(size)), upsampled(drawn(size)), 1e-5, 1e-5)


def test_dynamic_loop_lengths():
    spec = flow.TensorSpec((None, 3, None), flow.float32)
    compiled = flow.compile(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), spec)
    for size in SIZES:
        np.testing.assert_allclose(compiled(drawn(size)), upsampled(drawn(size)), 1e-5, 1e-5)
    assert compiled(drawn(4)[:0]).shape == (0, 3, 8)
