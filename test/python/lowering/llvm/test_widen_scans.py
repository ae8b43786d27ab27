"""Running sums and products of long rows on the CPU: each is computed in f64 and rounded once."""

import numpy as np
import pytest

import oneflow as flow

SHAPES = [((1, 70000), 1), ((70000, 3), 0), ((2, 3000, 40), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_running_sums_are_rounded_once(shape, axis):
    x = np.random.default_rng(1).random(shape).astype(np.float32)
    want = np.cumsum(x.astype(np.float64), axis).astype(np.float32)
    np.testing.assert_array_equal(flow.compile(lambda a: flow.cumsum(a, axis))(x), want)


def test_running_products_are_rounded_once():
    x = np.exp(np.random.default_rng(2).standard_normal((3, 5000)) / 100).astype(np.float32)
    want = np.cumprod(x.astype(np.float64), 1).astype(np.float32)
    np.testing.assert_array_equal(flow.compile(lambda a: flow.cumprod(a, 1))(x), want)
