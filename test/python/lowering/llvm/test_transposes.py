"""Transposes in register tiles: edges of every shape, element types, fused operations."""

import numpy as np
import pytest

import oneflow as flow

RNG = np.random.default_rng(3)


def check(function, reference, *arrays, specs=None):
    got = flow.compile(function, specs=specs)(*arrays)
    np.testing.assert_array_equal(got, reference(*arrays))


@pytest.mark.parametrize("shape", [(16, 16), (64, 1024), (65, 1100), (3, 100), (100, 3), (1, 7), (17, 15), (5, 4)])
def test_transposes_of_all_shapes(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    check(lambda x: flow.permute(x, (1, 0)), np.transpose, x)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float16, np.float64])
def test_transposes_of_element_types(dtype):
    x = (RNG.normal(size=(37, 50)) * 50).astype(dtype) if dtype != np.bool_ else RNG.random((37, 50)) > 0.5
    check(lambda x: flow.permute(x, (1, 0)), np.transpose, x)


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_three_dimensions(perm):
    x = RNG.normal(size=(9, 33, 18)).astype(np.float32)
    check(lambda x: flow.permute(x, perm), lambda x: x.transpose(perm), x)


@pytest.mark.parametrize("shape", [(70, 1030), (16, 32), (2, 3), (0, 4), (4, 0)])
def test_dynamic_sizes(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    specs = [flow.TensorSpec((None, None), flow.float32)]
    check(lambda x: flow.permute(x, (1, 0)), np.transpose, x, specs=specs)


def test_fused_consumers():
    x, y = (RNG.normal(size=s).astype(np.float32) for s in ((40, 70), (70, 40)))
    row, column = (RNG.normal(size=s).astype(np.float32) for s in ((40,), (70, 1)))

    def function(x, y, row, column):
        return (flow.permute(x, (1, 0)) + y) * row - column

    check(function, lambda x, y, row, column: (x.T + y) * row - column, x, y, row, column)


def test_two_strided_operands():
    x, y = RNG.normal(size=(2, 40, 70)).astype(np.float32)
    check(lambda x, y: flow.permute(x * y, (1, 0)), lambda x, y: (x * y).T, x, y)


def test_computed_positions():
    x, rows = RNG.normal(size=(40, 33)).astype(np.float32), RNG.integers(0, 33, 70)
    check(lambda x, i: flow.permute(flow.index_select(x, 1, i), (1, 0)), lambda x, i: x[:, i].T, x, rows)
