"""Helpers of the tests of the frontend."""

import numpy as np
from reference_interpreter import interpret

import oneflow as flow


def specs_of(arrays, dynamic=False):
    """Specs of arrays; `dynamic` leaves every size open."""
    return [flow.TensorSpec([None] * a.ndim if dynamic else a.shape, a.dtype) for a in map(np.asarray, arrays)]


def run(fn, *arrays, dynamic=False):
    """The results of `fn` on arrays, traced and computed with the operators' references."""
    return interpret(flow.trace(fn, *specs_of(arrays, dynamic)), *arrays)


def assert_close(got, want):
    """Equal shapes and element types, and equal values within the precision of f32."""
    want = np.asarray(want)
    assert got.shape == want.shape, f"expected shape {want.shape}, got {got.shape}"
    assert got.dtype == want.dtype, f"expected dtype {want.dtype}, got {got.dtype}"
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-6)


def module_text(fn, *specs):
    """The program of `fn` as text."""
    return str(flow.trace(fn, *specs))
