"""Insertions into a tensor: the slices that have separate programs, and values against NumPy, in the interpreter."""

import numpy as np
import pytest
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


#: Shapes along the joined dimension 1, and whether the slices have separate programs: rows of 128 bytes.
JOINED = [
    ([(3, 40), (3, 1030), (3, 32)], True), ([(5, 33, 7), (5, 64, 7)], True), ([(64, 8), (64, 31)], False),
    ([(2, 40)] * 9, True),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "separate"), JOINED, ids=str)
def test_joined_tensors(shapes, separate):
    program = program_of(lambda *x: flow.cat(x, 1), shapes, flow.float32)
    (source,) = program.sources.values()
    assert ("def insert0" in source.text) == separate and "arange" in source.text
    arrays = [normal(*shape) + index for index, shape in enumerate(shapes)]
    np.testing.assert_array_equal(interpret_program(program, *arrays)[0], np.concatenate(arrays, 1))


@pytest.mark.parametrize("whole", [True, False])
def test_gradients_of_parts(whole):
    """Slices that are inserted into zeros have separate programs if the slices cover all zeros."""

    def gradient(x):
        def loss(x):
            a, b, c = flow.split(x, [40, 64, 48], 1)
            total = flow.exp(a).sum() + (2 * b).sum()
            return total + flow.sin(c).sum() if whole else total

        return flow.grad(loss)(x)

    program, x = program_of(gradient, [(6, 152)], flow.float32), normal(6, 152)
    assert ("def insert2" in program.text) == whole
    want = np.concatenate([np.exp(x[:, :40]), np.full((6, 64), 2), np.cos(x[:, 104:]) * whole], 1)
    np.testing.assert_allclose(interpret_program(program, x)[0], want, 1e-5, 1e-6)


def test_slices_into_a_tensor():
    """Elements between the slices keep the values of the tensor."""

    def function(x, a, b):
        y = flow.exp(x)
        y[:, 32:96] = a
        y[:, 128:160] = b
        return y

    x, a, b = normal(4, 200), normal(4, 64), normal(4, 32)
    program = program_of(function, [x.shape, a.shape, b.shape], flow.float32)
    assert "def insert1" in program.text
    want = np.exp(x)
    want[:, 32:96], want[:, 128:160] = a, b
    got = interpret_program(program, x, a, b)
    np.testing.assert_allclose(got[0], want, 1e-6)


def test_whole_dimensions_have_no_masks():
    """Images and channels of a padded tensor are walked as one; rows and columns are compared with the border."""
    program, x = program_of(lambda x: F.pad(x, (1, 2, 3, 0)), [(2, 3, 5, 70)], flow.float32), normal(2, 3, 5, 70)
    (line,) = [line for line in program.text.splitlines() if "inside" in line.split(" = ")[0]]
    assert line.count(">=") == 2
    want = np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 2)])
    np.testing.assert_array_equal(interpret_program(program, x)[0], want)
