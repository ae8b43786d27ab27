"""Functions that read images at computed positions, against PyTorch: values and gradients."""

import numpy as np
import pytest

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(3)
IMAGES, GRID = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32), RNG.uniform(-2, 2, (2, 3, 3, 2)).astype(np.float32)
THETA = RNG.normal(size=(2, 2, 3)).astype(np.float32)
MODES = [
    ("bilinear", "reflection", True), ("nearest", "border", False), ("nearest", "zeros", True),
    ("bicubic", "zeros", True), ("bicubic", "reflection", False),
]  # fmt: skip


def zeros(x):
    return 0 * x.detach()


def check(function, *arrays):
    """Compares the value and gradients of a function of F and tensors."""
    found = []
    for f, functional in ((torch, torch.nn.functional), (flow, F)):
        tensors = [f.tensor(a, requires_grad=True) for a in arrays]
        result = function(functional, *tensors)
        (result * result).sum().backward()
        found.append([result.detach(), *(zeros(t) if t.grad is None else t.grad for t in tensors)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mode", "padding", "align"), MODES)
def test_grid_sample(mode, padding, align):
    check(lambda f, x, g: f.grid_sample(x, g, mode, padding, align), IMAGES, GRID)


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align):
    check(lambda f, t: f.affine_grid(t, (2, 3, 4, 2), align), THETA)


def test_deform_conv2d_without_offset_is_a_convolution():
    weight, bias = RNG.normal(size=(4, 3, 2, 2)).astype(np.float32), np.array([1, 2, 3, 4], np.float32)
    got = F.deform_conv2d(IMAGES, np.zeros((2, 8, 5, 3), np.float32), weight, bias, (1, 2), 1)
    np.testing.assert_allclose(got.numpy(), F.conv2d(IMAGES, weight, bias, (1, 2), 1).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_all_elements_unpooled_to_one_position_get_gradients(mode):
    x, at, weights = (
        np.array([[[1, 2, 2]]], np.float32),
        np.array([[[0, 3, 3]]], np.int64),
        np.arange(6, dtype=np.float32),
    )

    def by(f, x, at):
        return (f.nn.functional.max_unpool1d(x, at, 2) * f.tensor(weights)).sum()

    theirs = torch.tensor(x, requires_grad=True)
    by(torch, theirs, torch.tensor(at)).backward()
    found = flow.grad(lambda x: by(flow, x, flow.tensor(at)))
    found = found if mode == "eager" else flow.compile(found)
    np.testing.assert_array_equal(found(flow.tensor(x)).numpy(), theirs.grad.numpy())
