"""Convolutions with channels last, and tensors between them that lie as they want."""

import re

import numpy as np
import pytest
from test_larger import check, floats

import oneflow as flow

F = flow.nn.functional


def network(x, first, second, third, scale, shift):
    """Convolutions, a normalization over the batch, a residual, a pool and a sum over places."""
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
def test_a_network_gives_the_same_numbers(function):
    program = check(traced(function), *arrays(SHAPES), rtol=2e-4, atol=2e-3)
    sources = "".join(s.text for s in program.sources.values())
    assert "conv" in sources


def test_tensors_between_convolutions_have_their_channels_last():
    program = check(traced(network), *arrays(SHAPES), rtol=1e-4, atol=1e-4)
    moved = [s for s in program.sources.values() if re.match(r"(# oneflow\.transpose.*\n)+import", s.text)]
    # The images and the weights of 3 x 3, which are given with channels first.
    assert len(moved) == 3, [s.text for s in moved]


def test_few_channels_stay_first():
    shapes = [(2, 3, 12, 10), (16, 3, 3, 3)]
    text = traced(lambda x, w: F.conv2d(x, w), shapes)
    program = check(text, *arrays(shapes), rtol=1e-4, atol=1e-4)
    assert not any("oneflow.transpose" in s.text for s in program.sources.values())


def test_positions_follow_their_loops():
    """A body that asks for a position has it along the same dimension as before."""
    shapes = [(2, 8, 6, 5), (8, 8, 1, 1)]

    def function(x, w):
        y = F.conv2d(x, w)
        return F.conv2d(flow.triu(y) + flow.flip(y, [1]), w)

    check(traced(function, shapes), *arrays(shapes), rtol=1e-4, atol=1e-4)


def test_integers_stay_as_they_are():
    ids = np.arange(24).reshape(2, 3, 4, 1)
    check(traced(lambda x: flow.transpose(x * 2, 1, 2), [ids.shape]), ids.astype(np.float32))
