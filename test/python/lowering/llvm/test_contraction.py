"""Contractions in every layout of operands, with few and many rows, columns and steps of the depth."""

import numpy as np
import pytest

import oneflow as flow

RNG = np.random.default_rng(11)
SHAPES = [
    (1, 1, 1), (1, 40, 70), (2, 17, 33), (3, 300, 5), (5, 64, 66), (7, 100, 31), (8, 1100, 10), (9, 33, 17),
    (0, 3, 4), (13, 20, 130), (64, 48, 64), (61, 37, 90), (250, 5, 3),
]  # fmt: skip


def transposed_in_memory(x):
    return flow.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


LAYOUTS = {
    "plain": flow.matmul,
    "right": lambda a, b: flow.matmul(a, transposed_in_memory(b)),
    "left": lambda a, b: flow.matmul(transposed_in_memory(a), b),
    "both": lambda a, b: flow.matmul(transposed_in_memory(a), transposed_in_memory(b)),
}


def operands(layout, rows, depth, columns, dtype=np.float32, batch=()):
    a = (RNG.normal(size=(*batch, rows, depth)) * 4).astype(dtype)
    b = (RNG.normal(size=(*batch, depth, columns)) * 4).astype(dtype)
    wide = np.int64 if np.issubdtype(dtype, np.integer) else np.float64
    want = a.astype(wide) @ b.astype(wide)
    left = np.swapaxes(a, -1, -2) if layout in ("left", "both") else a
    right = np.swapaxes(b, -1, -2) if layout in ("right", "both") else b
    return np.ascontiguousarray(left), np.ascontiguousarray(right), want


def tolerance(dtype, depth):
    if np.issubdtype(dtype, np.integer):
        return {"rtol": 0, "atol": 0}
    # The square root of `depth` roundings, each of a sum of that many products of about 16.
    summed = np.float32 if dtype == np.float16 else dtype
    return {"rtol": 2 * np.finfo(dtype).eps, "atol": 16 * depth * np.finfo(summed).eps}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_contraction_shapes(layout, shape):
    a, b, want = operands(layout, *shape)
    np.testing.assert_allclose(flow.compile(LAYOUTS[layout])(a, b), want, **tolerance(np.float32, shape[1]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
@pytest.mark.parametrize("rows", [3, 30])
def test_contraction_element_types(layout, dtype, rows):
    a, b, want = operands(layout, rows, 37, 21, dtype)
    np.testing.assert_allclose(flow.compile(LAYOUTS[layout])(a, b), want, **tolerance(dtype, 37))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [2, 20])
def test_batches(layout, rows):
    a, b, want = operands(layout, rows, 18, 35, batch=(3, 2))
    np.testing.assert_allclose(flow.compile(LAYOUTS[layout])(a, b), want, **tolerance(np.float32, 18))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 40, 70), (7, 33, 20), (30, 600, 70), (0, 3, 4), (3, 0, 4)])
def test_dynamic_sizes(layout, shape):
    a, b, want = operands(layout, *shape)
    compiled = flow.compile(LAYOUTS[layout], specs=[flow.TensorSpec((None, None), flow.float32)] * 2)
    np.testing.assert_allclose(compiled(a, b), want, **tolerance(np.float32, shape[1]))


@pytest.mark.parametrize("rows", [1, 6, 40])
def test_epilogue(rows):
    a, b, want = operands("right", rows, 50, 45)
    c = RNG.normal(size=45).astype(np.float32)
    got = flow.compile(lambda a, b, c: flow.relu(flow.linear(a, b, c)) * 2.0)(a, b, c)
    np.testing.assert_allclose(got, np.maximum(want + c, 0) * 2, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("shape", [(13, 20, 70), (3, 33, 37), (2, 5, 3, 37)], ids=str)
def test_long_epilogue(shape):
    *rows, depth, columns = shape
    a, b, product = operands("plain", int(np.prod(rows)), depth, columns)
    bias = RNG.normal(size=columns).astype(np.float32)

    def layer(x, w, c):
        y = flow.matmul(x, w) + c
        return flow.clamp(y, -3, 5) * flow.tanh(y) / 8 + y * flow.sigmoid(y)

    y = (product + bias).reshape(*rows, columns)
    want = np.clip(y, -3, 5) * np.tanh(y) / 8 + y / (1 + np.exp(-y))
    got = flow.compile(layer)(a.reshape(*rows, depth), b, bias)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2 * tolerance(np.float32, depth)["atol"])


def test_infinities_beyond_the_end_of_the_depth():
    a, b, _ = operands("right", 2, 19, 5)
    a[1, 18], b[3, 18] = np.inf, np.inf
    with np.errstate(invalid="ignore"):
        want = a @ b.T
    np.testing.assert_array_equal(np.isinf(flow.compile(LAYOUTS["right"])(a, b)), np.isinf(want))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("value", [0.0, 0.5])
def test_constant_factor(value, left):
    """In a program of one rank, partial sums are made of zero constants that are factors of the product."""
    x, w = np.ones((5, 2)), RNG.normal(size=(4, 3))

    def product(x, w):
        constant = flow.zeros_like(x) + value if value else flow.zeros_like(x)
        return constant @ w[1:3] if left else w[1:3].t() @ constant.t()

    want = np.full((5, 2), value) @ w[1:3]
    np.testing.assert_allclose(flow.compile(product)(x, w), want if left else want.T, rtol=1e-12)
