"""Quantization by observed ranges."""

import numpy as np
import pytest

import oneflow as flow

FORMULAS = [("google", "symmetric"), ("google", "affine"), ("cambricon", "symmetric")]


@pytest.mark.parametrize(("formula", "scheme"), FORMULAS)
@pytest.mark.parametrize("dtype", [flow.float32, flow.float16])
def test_zeros_stay_zeros(formula, scheme, dtype):
    x = flow.zeros(4, dtype=dtype)
    scale, zero = flow.min_max_observer(x, formula, 8, scheme)
    for restored in (flow.fake_quantization, flow.quantization):
        np.testing.assert_array_equal(restored(x, scale, zero, formula, 8, scheme).numpy(), np.zeros(4))


def test_one_number_is_kept_by_the_affine_scheme():
    x = flow.full((4,), 3.0)
    scale, zero = flow.min_max_observer(x, quantization_scheme="affine")
    np.testing.assert_allclose(
        flow.fake_quantization(x, scale, zero, quantization_scheme="affine").numpy(), 3.0, 1e-6
    )
