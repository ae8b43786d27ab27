"""Constant tensors of a program have their values, for every element type and rank."""

import ml_dtypes
import numpy as np
import pytest

import oneflow as flow


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.uint8, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("values", [[[1, 0, 3], [0, 5, 1]], [[1, 1], [1, 1]]])
def test_constants_of_several_dimensions(values, dtype):
    constant = np.array(values).astype(dtype)
    found = flow.compile(lambda x: flow.cat([constant, x]))(constant)
    np.testing.assert_array_equal(found, np.concatenate([constant, constant]))
