"""Channels-last convolutions, and the layouts of the tensors between convolutions."""

import re

import numpy as np
import pytest
from test_tiled_kernels import check, floats

import oneflow as flow


@pytest.fixture(autouse=True)
def without_horizontal_fusion(change_gpu):
    """Without horizontal fusion, so that kernels can be counted as launches."""
    change_gpu(launches={"max_fused_entry_calls": 0})


F = flow.nn.functional


def network(x, first, second, third, scale, shift):
    """Convolutions, a batch normalization, a residual, a pool and a sum over positions."""
    y = F.conv2d(x, first, padding=1)
    mean = flow.mean(y, (0, 2, 3), keepdim=True)
    y = F.relu((y - mean) * scale.reshape(1, 16, 1, 1) + shift.reshape(1, 16, 1, 1))
    y = F.conv2d(y, second, stride=2, padding=1) + F.max_pool2d(y, 2)
    return F.conv2d(F.relu(y), third).sum((2, 3))


SHAPES = [(2, 8, 12, 10), (16, 8, 3, 3), (16, 16, 3, 3), (24, 16, 1, 1), (16,), (16,)]


def traced(function, shapes=SHAPES):
    def main(*arrays):
        return function(*arrays)

    return str(flow.trace(main, *(flow.TensorSpec(s, flow.float32) for s in shapes)))


def arrays(shapes):
    return [floats(*s) / 4 for s in shapes]


def gradients(*arrays):
    return flow.value_and_grad(lambda *a: (network(*a) ** 2).sum(), tuple(range(len(SHAPES))))(*arrays)


@pytest.mark.parametrize("function", [network, gradients])
def test_results_of_a_network(function):
    program = check(traced(function), *arrays(SHAPES), rtol=2e-4, atol=2e-3)
    sources = "".join(s.text for s in program.sources.values())
    assert "conv" in sources


def test_tensors_between_convolutions_are_channels_last():
    program = check(traced(network), *arrays(SHAPES), rtol=1e-4, atol=1e-4)
    moved = [s for s in program.sources.values() if re.match(r"(# oneflow\.transpose.*\n)+import", s.text)]
    # The images and the weights of 3 x 3, which are given with channels first.
    assert len(moved) == 3, [s.text for s in moved]


def test_few_channels_are_padded():
    """Images of 3 channels and their filters are loaded in vectors; gradients have 3 channels."""
    shapes = [(2, 3, 12, 10), (16, 3, 3, 3)]

    def main(x, w):
        return flow.value_and_grad(lambda x, w: (F.conv2d(x, w, stride=2, padding=1) ** 2).sum(), (0, 1))(x, w)

    program = check(traced(main, shapes), *arrays(shapes), rtol=1e-4, atol=1e-3)
    products = [s.text for s in program.sources.values() if "tl.dot" in s.text]
    assert len(products) == 6 and any("oneflow.pad" in s.text for s in program.sources.values())


def test_padded_images_have_the_layout_of_their_users():
    """The padded images of a pool and of the pool's gradient are channels-last."""
    shapes = [(2, 8, 12, 10), (8, 8, 3, 3), (8, 8, 1, 1)]

    def loss(x, first, second):
        y = F.max_pool2d(F.relu(F.conv2d(x, first, padding=1)), 3, stride=2, padding=1)
        return (F.conv2d(y, second) ** 2).sum()

    text = traced(lambda *a: flow.value_and_grad(loss, (0, 1, 2))(*a), shapes)
    program = check(text, *arrays(shapes), rtol=1e-4, atol=1e-3)
    # The result of relu is computed in the padded images, which the gradient of relu reads too.
    assert "tl.maximum(" in next(s.text for s in program.sources.values() if "oneflow.relu" in s.text)


def test_padded_arguments_are_transposed():
    shapes = [(2, 8, 12, 10), (8, 8, 1, 1)]
    text = traced(lambda x, w: F.conv2d(F.max_pool2d(x, 3, stride=2, padding=1), w), shapes)
    check(text, *arrays(shapes), rtol=1e-4, atol=1e-4)


def test_indices_follow_their_loops():
    """The index of a body is along the same dimension as before."""
    shapes = [(2, 8, 6, 5), (8, 8, 1, 1)]

    def function(x, w):
        y = F.conv2d(x, w)
        return F.conv2d(flow.triu(y) + flow.flip(y, [1]), w)

    check(traced(function, shapes), *arrays(shapes), rtol=1e-4, atol=1e-4)


def test_integers_keep_their_layout():
    ids = np.arange(24).reshape(2, 3, 4, 1)
    check(traced(lambda x: flow.transpose(x * 2, 1, 2), [ids.shape]), ids.astype(np.float32))


RESIDUAL = [(2, 3, 18, 14), (8, 3, 3, 3), (8, 8, 1, 1), (16, 8, 3, 3), (16, 8, 1, 1), (8,), (16,)]


def residual(x, stem, narrow, wide, short, small, large):
    """The beginning of a residual network in training: batch normalizations, a pool, a block of stride 2."""

    def unit(x, w, scale, **options):
        return F.batch_norm(F.conv2d(x, w, **options), None, None, scale, scale * 0.5, training=True)

    x = F.max_pool2d(F.relu(unit(x, stem, small, stride=2, padding=1)), 3, stride=2, padding=1)
    y = F.relu(unit(x, narrow, small))
    y = unit(y, wide, large, stride=2, padding=1) + unit(x, short, large, stride=2)
    return (F.relu(y).mean((2, 3)) ** 2).sum()


def test_a_residual_block_in_training():
    """The loss and all gradients; padded images are computed in place."""
    program = check(
        traced(lambda *a: flow.value_and_grad(residual, tuple(range(1, 7)))(*a), RESIDUAL),
        *(np.abs(a) + 0.5 if a.ndim == 1 else a for a in arrays(RESIDUAL)), rtol=1e-3, atol=2e-3,
    )  # fmt: skip
    assert sum("tl.maximum(" in s.text and "tl.dot" not in s.text for s in program.sources.values()) >= 2


@pytest.mark.parametrize("channels", [1, 2, 3, 17], ids=str)
@pytest.mark.parametrize("made", [1, 3, 8], ids=str)
def test_transposed_convolutions_of_any_channels(channels, made):
    """The reduced channels are padded in both operands; the gradients are other convolutions of these."""
    shapes = [(2, channels, 5, 4), (channels, made, 3, 3), (made,)]

    def gradients(x, w, b):
        def loss(x, w, b):
            return (F.conv_transpose2d(x, w, b, stride=2, padding=1) ** 2).sum()

        return flow.value_and_grad(loss, (0, 1, 2))(x, w, b)

    check(traced(gradients, shapes), *arrays(shapes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_of_other_ranks(rank):
    """One and three spatial dimensions, with gradients; tensors between convolutions are not transposed."""
    convolve, transposed = getattr(F, f"conv{rank}d"), getattr(F, f"conv_transpose{rank}d")
    shapes = [(2, 8, *(9, 6, 5)[:rank]), (16, 8, *[3] * rank), (16, 16, *[2] * rank), (16, 3, *[2] * rank), (3,)]

    def loss(x, first, second, third, bias):
        y = F.relu(convolve(F.gelu(convolve(x, first, padding=1)), second, stride=2))
        return (transposed(y, third, bias, stride=2) ** 2).sum()

    text = traced(lambda *a: flow.value_and_grad(loss, tuple(range(5)))(*a), shapes)
    program = check(text, *arrays(shapes), rtol=5e-4, atol=2e-3)
    products = [s.text for s in program.sources.values() if "tl.dot" in s.text]
    assert len(products) >= 8 and sum("oneflow.gelu" in s.text for s in program.sources.values()) <= 3


def test_grouped_convolutions_are_rounded_in_their_epilogue():
    """The bias is added, and the sum is rounded, before groups and channels become one dimension."""
    shapes = [(2, 16, 6, 5), (24, 4, 3, 3), (24,)]
    program = check(traced(lambda x, w, b: F.conv2d(x, w, b, groups=4), shapes), *arrays(shapes), atol=1e-4)
    assert program.plan.count("run.launch") == 1


@pytest.mark.parametrize(("channels", "made"), [(16, 32), (12, 24)], ids=["whole vectors", "parts of vectors"])
def test_grouped_convolutions_and_their_gradients(channels, made):
    """Channels last where the channels of a group are whole vectors."""
    shapes = [(2, channels, 7, 6), (made, channels // 2, 3, 3), (made,)]

    def gradients(x, w, b):
        return flow.value_and_grad(lambda x, w, b: (F.conv2d(x, w, b, padding=1, groups=2) ** 2).sum(), (0, 1, 2))(
            x, w, b
        )

    program = check(traced(gradients, shapes), *arrays(shapes), rtol=5e-4, atol=2e-3)
    assert ("oneflow.transpose" in "".join(s.text for s in program.sources.values())) == (channels == 16)
