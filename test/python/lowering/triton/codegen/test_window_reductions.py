"""Reductions of windows: steps of a loop over single elements, in blocks of one image where that is large enough."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional


def normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def windows(x, kernel, stride=1):
    return sliding_window_view(x, kernel, (2, 3))[:, :, ::stride, ::stride]


#: The image and the kernel; whether a program stays in one image; the steps that are unrolled.
DEPTHWISE = [((24, 20), (3, 5), True, 15), ((30, 23), (7, 7), True, 7), ((9, 8), (2, 3), False, 6)]


@pytest.mark.parametrize(("image", "kernel", "separate", "unrolled"), DEPTHWISE, ids=str)
def test_depthwise_convolutions(image, kernel, separate, unrolled):
    """A filter's element is one number for a program that stays in an image."""
    x, w = normal(2, 3, *image), normal(3, 1, *kernel)
    program = program_of(lambda x, w: F.conv2d(x, w, groups=3), [x.shape, w.shape], flow.float32)
    (source,) = program.sources.values()
    assert f"loop_unroll_factor={unrolled}" in source.text and ("b1 = tl.program_id(0) //" in source.text) == separate
    want = np.einsum("nchwij,cij->nchw", windows(x.astype(np.float64), kernel), w[:, 0])
    np.testing.assert_allclose(interpret_program(program, x, w)[0], want, 1e-4, 1e-4)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pools(stride):
    """Threads read single elements; NaN stays."""
    x = normal(2, 3, 41, 38)
    x[1, 2, 7, 7] = np.nan
    program = program_of(
        lambda x: (F.max_pool2d(x, 3, stride), F.avg_pool2d(x, (2, 3), stride)), [x.shape], flow.float32
    )
    assert "tl.reduce" not in program.text
    largest, mean = interpret_program(program, x)
    np.testing.assert_array_equal(largest, windows(x, (3, 3), stride).max((-1, -2)))
    np.testing.assert_allclose(mean, windows(x, (2, 3), stride).mean((-1, -2)), 1e-5, 1e-6)


def test_filters_of_backward_windows():
    """The windows of a gradient move backwards."""
    x, w, g = normal(2, 3, 22, 20), normal(3, 1, 3, 3), normal(2, 3, 20, 18)

    def gradient(x, w, g):
        return flow.grad(lambda x: (F.conv2d(x, w, groups=3) * g).sum())(x)

    program = program_of(gradient, [x.shape, w.shape, g.shape], flow.float32)
    assert "loop_unroll_factor=9" in program.text and "* -1" in program.text
    padded = np.pad(g.astype(np.float64), [(0, 0), (0, 0), (2, 2), (2, 2)])
    want = np.einsum("nchwij,cij->nchw", windows(padded, (3, 3)), w[:, 0, ::-1, ::-1])
    np.testing.assert_allclose(interpret_program(program, x, w, g)[0], want, 1e-4, 1e-4)
