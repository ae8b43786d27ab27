"""Split reductions give the values of whole reductions, and partial sums lose no digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.runtime.executable import Options, compile_module

RNG = np.random.default_rng(11)
X = RNG.normal(size=(4096, 48)).astype(np.float32)
Y = RNG.normal(size=(4096, 48)).astype(np.float32)


@pytest.mark.parametrize(
    ("fn", "reference"),
    [
        (lambda x, y: flow.sum(x * y), lambda x, y: (x * y).sum()),
        (lambda x, y: flow.sum(x - y, dim=0), lambda x, y: (x - y).sum(0)),
        (lambda x, y: flow.max(x * y), lambda x, y: (x * y).max()),
        (lambda x, y: flow.any(x > y + 100), lambda x, y: (x > y + 100).any()),
        (lambda x, y: flow.all(x < y + 100), lambda x, y: (x < y + 100).all()),
        (lambda x, y: flow.min(flow.cast(x * 100, flow.int32)), lambda x, y: (x * 100).astype(np.int32).min()),
        (lambda x, y: x.T @ y, lambda x, y: x.T @ y),
        (lambda x, y: flow.relu(x[:, 0] @ y), lambda x, y: np.maximum(x[:, 0] @ y, 0)),
    ],
)
def test_values_of_split_reductions(fn, reference):
    compiled = flow.compile(fn)
    got = np.asarray(compiled(X, Y))
    assert "oneflow.parts" in compiled.ir("kernels")
    wide = reference(X.astype(np.float64), Y.astype(np.float64))
    np.testing.assert_allclose(got, wide, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(("batch", "parts"), [(24, 8), (1, 1)])
def test_gradient_of_a_filter(batch, parts):
    x, dy = RNG.normal(size=(batch, 3, 16, 15)), RNG.normal(size=(batch, 20, 14, 14))

    def gradient(x, dy, w):
        return flow.vjp(lambda w: flow.conv2d(x, w), w)[1](dy)

    compiled = flow.compile(gradient)
    got = compiled(*(a.astype(np.float32) for a in (x, dy, np.zeros((20, 3, 3, 2)))))
    # The last dimension of the partial results fills vectors, for any number of parts.
    assert f"tensor<{parts}x3x3x2x20xf32>" in compiled.ir("kernels")
    expected = [
        [sum(scipy.signal.correlate(a[i], b[o], "valid") for a, b in zip(x, dy, strict=True)) for i in range(3)]
        for o in range(20)
    ]
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-3)


def test_partial_sums_are_compensated():
    x = (10000 + RNG.random((4000, 250))).astype(np.float32)
    got = np.asarray(flow.compile(lambda x: flow.sum(x, dim=0))(x))
    wide = x.astype(np.float64).sum(0)
    assert np.abs(got - wide).max() <= np.spacing(np.float32(wide.max()))


UNKNOWN_IMAGES = """
func.func @main(%x: tensor<?x3x16x16xf32>, %w: tensor<8x3x8x8xf32>) -> tensor<?x8x2x2xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {filters = 8 : si32, kernel_size = array<i32: 8, 8>, strides = array<i32: 8, 8>,
    padding_before = array<i32: 0, 0>, dilation_rate = array<i32: 1, 1>, data_format = "channels_first",
    groups = 1 : si32} : (tensor<?x3x16x16xf32>, tensor<8x3x8x8xf32>) -> tensor<?x8x2x2xf32>
  return %0 : tensor<?x8x2x2xf32>
}
"""


def compiled(text):
    context = create_context()
    with context, ir.Location.unknown():
        return compile_module(read_module(text, context), options=Options(cached=False))


@pytest.mark.parametrize("images", [1, 3])
def test_dynamic_number_of_images(images):
    """A product of few results with reordered partial results, for a dynamic number of images."""
    executable = compiled(UNKNOWN_IMAGES)
    x, w = RNG.normal(size=(images, 3, 16, 16)), RNG.normal(size=(8, 3, 8, 8))
    (got,) = executable(x.astype(np.float32), w.astype(np.float32))
    want = np.einsum("ncikjl,ockl->noij", x.reshape(images, 3, 2, 8, 2, 8), w)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


#: The type of the labels has the number of classes, and the type of the prediction has the number of rows.
PARTLY_KNOWN = """
func.func @main(%x: tensor<2x?xf32>, %y: tensor<?x65536xf32>) -> tensor<2xf32> {
  %0:2 = "oneflow.softmax_cross_entropy"(%x, %y)
    : (tensor<2x?xf32>, tensor<?x65536xf32>) -> (tensor<*xf32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}
"""


def test_operands_that_know_different_sizes():
    x, y = RNG.normal(size=(2, 65536)), RNG.random((2, 65536))
    executable = compiled(PARTLY_KNOWN)
    (got,) = executable(x.astype(np.float32), y.astype(np.float32))
    want = (y * (np.log(np.exp(x).sum(1, keepdims=True)) - x)).sum(1)
    np.testing.assert_allclose(got, want, rtol=1e-5)
