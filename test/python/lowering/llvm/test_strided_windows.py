"""Windows that see a part of a dimension, at one position or many, and elements with stride 2."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import oneflow as flow

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("size", [5, 7, 9, 28, 64, 67, 130])
@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2), (3, 3), (5, 4)])
def test_pooling_and_convolution(size, window, stride):
    x = RNG.normal(size=(2, 3, size, size)).astype(np.float32)
    w = RNG.normal(size=(4, 3, window, window)).astype(np.float32)
    seen = sliding_window_view(x, (window, window), (2, 3))[:, :, ::stride, ::stride]
    pooled = flow.compile(lambda x: flow.nn.functional.max_pool2d(x, window, stride))(x)
    np.testing.assert_array_equal(np.asarray(pooled), seen.max((-1, -2)))
    convolved = flow.compile(lambda x, w: flow.conv2d(x, w, stride=stride))(x, w)
    expected = np.einsum("nihwyx,oiyx->nohw", seen.astype(np.float64), w)
    np.testing.assert_allclose(np.asarray(convolved), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("height", "width", "stride"), [(7, 7, 1), (3, 35, 2), (70, 5, 2)])
def test_blocks_of_columns_end_within_rows(height, width, stride):
    x = RNG.normal(size=(2, 8, (height - 1) * stride + 3, (width - 1) * stride + 3)).astype(np.float32)
    w = RNG.normal(size=(40, 4, 3, 3)).astype(np.float32)
    bias, residual = (RNG.normal(size=s).astype(np.float32) for s in (40, (2, 40, height, width)))
    f = flow.compile(lambda x, w, b, y: flow.relu(flow.conv2d(x, w, b, stride=stride, groups=2) + y))
    seen = sliding_window_view(x, (3, 3), (2, 3))[:, :, ::stride, ::stride].astype(np.float64)
    seen = seen.reshape(2, 2, 4, height, width, 3, 3)
    expected = np.einsum("ngihwyx,goiyx->ngohw", seen, w.reshape(2, 20, 4, 3, 3)).reshape(residual.shape)
    expected = np.maximum(expected + bias[:, None, None] + residual, 0)
    np.testing.assert_allclose(np.asarray(f(x, w, bias, residual)), expected, rtol=1e-4, atol=1e-4)


def test_rows_of_volumes_are_one_loop_of_columns():
    x, w = RNG.normal(size=(1, 4, 5, 8, 9)), RNG.normal(size=(24, 4, 3, 3, 3))
    seen = sliding_window_view(x, (3, 3, 3), (2, 3, 4))
    expected = np.einsum("nidhwzyx,oizyx->nodhw", seen, w)
    np.testing.assert_allclose(np.asarray(flow.compile(flow.conv3d)(x, w)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [3, 4, 31, 33, 1025])
def test_stride_two(size):
    x = RNG.normal(size=(3, size)).astype(np.float32)
    got = flow.compile(lambda x: flow.relu(x[:, ::2]) + 1)(x)
    np.testing.assert_array_equal(np.asarray(got), np.maximum(x[:, ::2], 0) + 1)


@pytest.mark.parametrize("channels", [3, 16, 33, 96])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_convolution(channels, stride):
    x = RNG.normal(size=(2, 30, 31, channels)).astype(np.float32)
    w = RNG.normal(size=(channels, 3, 3, 1)).astype(np.float32)
    seen = sliding_window_view(x, (3, 3), (1, 2))[:, ::stride, ::stride]
    f = flow.compile(lambda x, w: flow.conv2d(x, w, stride=stride, groups=x.shape[-1], data_format="channels_last"))
    expected = np.einsum("nhwcyx,cyx->nhwc", seen.astype(np.float64), w[..., 0])
    np.testing.assert_allclose(np.asarray(f(x, w)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("window", "stride", "dilation"), [(1, 2, 1), (3, 2, 1), (2, 3, 1), (3, 2, 2), (4, 4, 6), (2, 1, 3)]
)
@pytest.mark.parametrize(("size", "padding"), [(20, 0), (19, 1), (22, 3)])
def test_gradients_of_images(size, padding, window, stride, dilation):
    x = RNG.normal(size=(2, 3, size, 20)).astype(np.float32)
    w = RNG.normal(size=(4, 3, window, window)).astype(np.float32)
    options = {"stride": stride, "dilation": dilation, "padding": padding}
    dy = RNG.normal(size=flow.conv2d(flow.tensor(x), flow.tensor(w), **options).shape).astype(np.float32)
    grad = flow.compile(lambda x, w, dy: flow.grad(lambda x: flow.sum(flow.conv2d(x, w, **options) * dy))(x))
    padded = np.zeros((2, 3, size + 2 * padding, 20 + 2 * padding))
    for i, k in np.ndindex(window, window):
        spans = [
            slice(d * dilation, d * dilation + stride * n, stride) for d, n in zip((i, k), dy.shape[2:], strict=True)
        ]
        padded[:, :, *spans] += np.einsum("nohw,oc->nchw", dy, w[..., i, k])
    inside = padded[:, :, padding : padding + size, padding : padding + 20]
    np.testing.assert_allclose(np.asarray(grad(x, w, dy)), inside, rtol=1e-4, atol=1e-4)
