"""Computed positions whose lanes are consecutive from one of two starts: rolled arrays as vector loads."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow as flow


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
@pytest.mark.parametrize(("size", "shift"), [(100, 5), (16, -1), (33, 32)])
def test_rolled_rows(size, shift, dtype):
    x = np.arange(3 * size).reshape(3, size).astype(dtype)
    compiled = flow.compile(lambda x: flow.roll(x, shift, 1))
    np.testing.assert_array_equal(compiled(x), np.roll(x, shift, 1))


def test_rolled_rows_of_dynamic_size():
    compiled = flow.compile(lambda x: flow.roll(x, 7, 1) * 2.0, flow.TensorSpec((None, None), flow.float32))
    for size in (1, 7, 16, 50):
        x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        np.testing.assert_array_equal(compiled(x), np.roll(x, 7, 1) * 2)


def test_rolled_rows_are_vector_loads():
    compiled = flow.compile(lambda x: flow.roll(x, 5, 1))
    compiled(np.zeros((4, 100), np.float32))
    assert "llvm.intr.masked.load" in compiled.ir("llvm")


def test_sums_of_rolled_rows():
    x = np.random.default_rng(0).standard_normal((5, 70), dtype=np.float32)
    got = flow.compile(lambda x: flow.sum(flow.roll(x, 3, 1) * x, 1))(x)
    np.testing.assert_allclose(got, (np.roll(x, 3, 1) * x).sum(1), rtol=1e-5, atol=1e-5)
