"""Sums over long axes are as exact as NumPy's pairwise summation, in every layout."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.lowering.llvm.blocked_summation import Cascade, cascade

RNG = np.random.default_rng(5)
EPSILON = float(np.finfo(np.float32).eps)


def run(function, *args):
    return np.asarray(flow.compile(function)(*args), np.float64)


def error(got, want):
    return np.max(np.abs(got - want) / np.abs(want))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((5_000_003,), (0,)), ((3, 1_000_003), (1,)), ((1_000_003, 3), (0,)), ((200_003, 5, 3), (0, 2)),
     ((70_000, 3, 7), (0, 1, 2)), ((3, 70_001, 5), (1,)), ((1, 40_000, 20), (1,))],
)  # fmt: skip
def test_sums(shape, axes):
    x = np.full(shape, 0.1, np.float32)
    want = x.sum(axes, dtype=np.float64)
    assert error(run(lambda x: flow.sum(x, axes), x), want) < 4 * EPSILON


def test_random_numbers():
    x = RNG.random(3_000_000, dtype=np.float32)
    assert error(run(flow.sum, x), x.sum(dtype=np.float64)) <= 2 * EPSILON
    assert error(run(flow.mean, x), x.mean(dtype=np.float64)) <= 2 * EPSILON


def test_dynamic_sizes():
    module = flow.compile(lambda x: flow.sum(x, 0), specs=[flow.TensorSpec((None, None), flow.float32)])
    for shape in [(1_000_003, 2), (17, 3), (1, 1), (0, 4)]:
        x = np.full(shape, 0.1, np.float32)
        np.testing.assert_allclose(module(x), x.sum(0, dtype=np.float64), rtol=4 * EPSILON)


def test_f64_precision():
    x = np.full(3_000_000, 0.1)
    want = float(np.longdouble(0.1) * len(x))
    assert error(run(flow.sum, x), want) < 8 * np.finfo(np.float64).eps


@pytest.mark.parametrize("dtype", [np.float16, flow.bfloat16.numpy])
def test_16_bit_floats_are_summed_in_f32(dtype):
    x = np.full((400_000, 2), 0.1).astype(dtype)
    want = x.astype(np.float64).mean(0)
    np.testing.assert_array_equal(run(lambda x: flow.mean(x, 0), x).astype(dtype), want.astype(dtype))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_variance_with_a_large_mean(axis):
    x = (RNG.random((4000, 250), dtype=np.float32) + np.float32(1e4)).astype(np.float32)
    got = run(lambda x: flow.var(x) if axis is None else flow.var(x, axis), x)
    # The mean is an f32: an error of two ulp adds its square to the variance.
    bound = (2 * np.spacing(np.float32(1e4))) ** 2 / x.var(axis, dtype=np.float64).min() + 8 * EPSILON
    assert error(got, x.var(axis, dtype=np.float64, ddof=1)) < bound


def test_layer_norm_with_a_large_mean():
    x = (RNG.random((16, 20_000), dtype=np.float32) + np.float32(1e3)).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    mean_error = 2 * np.spacing(np.float32(1e3)) / wide.std(1).min()
    np.testing.assert_allclose(run(lambda x: flow.layer_norm(x, (20_000,)), x), want, atol=mean_error)


def test_long_dot_products():
    a = RNG.random((3, 1_000_000), dtype=np.float32)
    b = RNG.random((1_000_000, 20), dtype=np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert error(run(flow.matmul, a, b), want) < 4 * EPSILON
    assert error(run(flow.matmul, a[0], b[:, 0].copy()), want[0, 0]) < 4 * EPSILON
    assert error(run(flow.matmul, a, b[:, 0].copy()), want[:, 0]) < 4 * EPSILON


@pytest.mark.parametrize(
    ("values", "want"),
    [([np.inf], np.inf), ([-np.inf], -np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, np.inf], np.nan),
     ([3e38, 3e38], np.inf)],
)  # fmt: skip
def test_infinities(values, want):
    x = np.zeros(100_000, np.float32)
    x[5 : 5 + 64 * len(values) : 64] = values
    np.testing.assert_equal(run(flow.sum, x), want)


def test_cascade_of_loop_sizes():
    assert cascade([32], [1]) is None
    assert cascade([2048], [64]) is None
    assert cascade([4096], [64]) == Cascade(0, (16,), False)
    assert cascade([10**7], [64]) == Cascade(0, (16, 256), True)
    assert cascade([10**6, 4], [1, 1]) == Cascade(0, (4, 64), True)
    assert cascade(["%n"], [64]) == Cascade(0, (16, 256), True)


@pytest.mark.parametrize("negated", [False, True], ids=["sum", "negated"])
@pytest.mark.parametrize("function", [lambda x, y: x * y, lambda x, y: x / y], ids=["product", "quotient"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 5), 0), ((2, 4), 1), ((2, 128), 1)], ids=str)
def test_sums_of_elements_with_a_common_factor(shape, axis, function, negated):
    """The factor is not taken out of the sum: the sum of the other factors may overflow, or lose a NaN."""
    compiled = flow.compile(lambda x, y: flow.sum(-function(x, y) if negated else function(x, y), axis))
    for factor in (1e-10, 1e10, np.inf, 0.0):
        y = np.full([1 if i == axis else n for i, n in enumerate(shape)], factor, np.float32)
        x = np.full(shape, 2e38, np.float32)
        x[(1, 0) if axis == 0 else (0, 1)] = 0
        with np.errstate(all="ignore"):
            want = function(x, y).sum(axis) * (-1 if negated else 1)
        np.testing.assert_allclose(np.asarray(compiled(x, y)), want, 1e-6)


def test_negated_sums_are_sums():
    """MLIR writes the sum of negated elements as differences, which no vector operation reduces."""
    compiled = flow.compile(lambda x, y: flow.sum(-(x * y), 1))
    compiled(np.ones((4, 64), np.float32), np.ones((4, 64), np.float32))
    assert "arith.negf" in compiled.ir("kernels") and "arith.subf" not in compiled.ir("kernels")
    assert "vector.reduce.fadd" in compiled.ir("llvm")
