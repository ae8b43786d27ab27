"""argmax in vector lanes: the first of equal elements wins, and NaN beats everything, in any lane."""

import numpy as np
import pytest

import oneflow as flow

RNG = np.random.default_rng(2)


def check(x, specs=None):
    got = flow.compile(lambda x: flow.argmax(x, -1), specs=specs)(x)
    np.testing.assert_array_equal(got, np.argmax(x, -1))


@pytest.mark.parametrize("size", [1, 2, 31, 64, 65, 1000, 4099])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64])
def test_argmax_of_random_rows(size, dtype):
    check((RNG.normal(size=(7, size)) * 40).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("positions", [(0, 999), (63, 64), (500, 437), (1, 2, 3), (998, 999)])
def test_argmax_of_equal_elements(dtype, positions):
    x = np.zeros((2, 1000), dtype)
    x[1, list(positions)] = 5
    check(x)


@pytest.mark.parametrize("positions", [(0,), (999,), (64, 65, 3), (500, 12)])
def test_argmax_of_nan(positions):
    x = RNG.normal(size=(3, 1000)).astype(np.float32)
    x[1, list(positions)], x[2, 700] = np.nan, np.inf
    check(x)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, 0.0])
def test_constant_input(value):
    check(np.full((2, 200), value, np.float32))
    check(np.full((2, 200), np.iinfo(np.int32).min, np.int32))


@pytest.mark.parametrize("shape", [(3, 1000), (1, 1), (4, 33)])
def test_dynamic_sizes(shape):
    check(RNG.normal(size=shape).astype(np.float32), [flow.TensorSpec((None, None), flow.float32)])
