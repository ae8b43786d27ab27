"""Tensors inserted into larger tensors: every kind of run, edge and element type, and dynamic sizes."""

import numpy as np
import pytest

import oneflow as flow

RNG = np.random.default_rng(4)
SHAPES = [(3, 5), (1, 1), (70, 300), (5, 1000), (40000, 2), (2, 0), (300, 256)]


def numbers(shape, dtype=np.float32):
    return RNG.random(shape) > 0.5 if dtype == np.bool_ else (RNG.normal(size=shape) * 50).astype(dtype)


def check(function, reference, *arrays, specs=None):
    compiled = flow.compile(function, specs=specs)
    np.testing.assert_array_equal(compiled(*arrays), reference(*arrays))
    assert "_mlir_memref_to_llvm_alloc" not in compiled.ir("llvm")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_cat_insertions(shape, axis):
    x, y = numbers(shape), numbers(shape)
    check(lambda x, y: flow.cat([x, y, x], axis), lambda x, y: np.concatenate([x, y, x], axis), x, y)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 5), (70, 300), (1, 1)])
def test_stack_insertions(shape, axis):
    x, y = numbers(shape), numbers(shape)
    check(lambda x, y: flow.stack([x, y], axis), lambda x, y: np.stack([x, y], axis), x, y)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(), (7,), (5, 16), (3, 6000)])
def test_stack_along_the_last_dimension(shape, count):
    arrays = [numbers(shape, np.float32) for _ in range(count)]
    check(lambda *xs: flow.stack(xs, len(shape)), lambda *xs: np.stack(xs, -1), *arrays)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.float64])
def test_stack_along_the_last_dimension_of_other_types(dtype):
    x, y = numbers((3, 37), dtype), numbers((3, 37), dtype)
    compiled = flow.compile(lambda x, y: flow.stack([x, y], 2))
    np.testing.assert_array_equal(compiled(x, y), np.stack([x, y], 2))
    assert "llvm.shufflevector" in compiled.ir("llvm")


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float16, np.float64])
def test_pad_insertions(dtype):
    x = numbers((4, 3, 70), dtype)
    check(lambda x: flow.pad(x, (1, 2, 3, 0)), lambda x: np.pad(x, ((0, 0), (3, 0), (1, 2))), x)


def test_pad_with_a_value():
    x = numbers((40, 1000))
    check(lambda x: flow.pad(x, (0, 5), value=2.5), lambda x: np.pad(x, ((0, 0), (0, 5)), constant_values=2.5), x)


@pytest.mark.parametrize(("start", "step"), [((0, 0), (1, 1)), ((2, 3), (1, 1)), ((1, 0), (3, 2)), ((0, 1), (1, 4))])
def test_slice_update(start, step):
    x, y = numbers((50, 300)), numbers((12, 70))
    stop = [s + 1 + d * (n - 1) for s, d, n in zip(start, step, y.shape, strict=True)]

    def reference(x, y):
        z = x.copy()
        z[start[0] : stop[0] : step[0], start[1] : stop[1] : step[1]] = y
        return z

    check(lambda x, y: flow.ops.slice_update(x, y, start=start, stop=stop, step=step), reference, x, y)


@pytest.mark.parametrize(
    "shapes", [((3, 5), (4, 5)), ((300, 70), (1, 70)), ((0, 4), (2, 4)), ((2, 30000), (3, 30000))]
)
def test_dynamic_sizes(shapes):
    x, y = (numbers(s) for s in shapes)
    specs = [flow.TensorSpec((None, None), flow.float32)] * 2
    check(lambda x, y: flow.cat([x, y], 0), lambda x, y: np.concatenate([x, y], 0), x, y, specs=specs)
    turned = x.T.copy(), y.T.copy()
    check(lambda x, y: flow.cat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), *turned, specs=specs)
