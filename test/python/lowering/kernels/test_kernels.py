"""Kernels: which are formed and shared; accuracy of polynomial approximations; offsets of buffers."""

import math
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.lowering.buffer_assignment import ALIGNMENT, Buffer, assign_offsets
from oneflow.lowering.pipelines import STAGES, pipeline_between
from oneflow.passes.pipeline import Pipeline

LINEAR = """
func.func @main(%x: tensor<32x48xf32>, %w: tensor<48x64xf32>, %b: tensor<64xf32>) -> tensor<32x64xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<32x48xf32>, tensor<48x64xf32>) -> tensor<32x64xf32>
  %1 = "oneflow.broadcast_add"(%0, %b) : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>
  %2 = "oneflow.gelu"(%1) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}
"""


def at_stage(text, stage):
    context = create_context()
    with context, ir.Location.unknown():
        module = read_module(text, context)
        Pipeline.parse(pipeline_between(None, stage), context).run(module)
        return str(module)


def kinds(text):
    lines = at_stage(text, "kernels").splitlines()
    return [line.partition('oneflow.kernel = "')[2].partition('"')[0] for line in lines if "oneflow.kernel" in line]


def one(name, kind, result=None, attributes=""):
    result = result or kind
    return f"""func.func @main(%x: {kind}) -> {result} {{
      %0 = "oneflow.{name}"(%x) {attributes} : ({kind}) -> {result}
      return %0 : {result}
    }}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LINEAR, ["contraction"]),
        (one("softmax", "tensor<64x32xf32>"), ["row"]),
        (one("softmax", "tensor<?x?xf32>"), ["row"]),
        (one("log_softmax", "tensor<4x8x32xf16>"), ["row"]),
        (one("gelu", "tensor<64x32xf32>"), ["pointwise"]),
        (one("transpose", "tensor<4x8xf32>", "tensor<8x4xf32>", "{perm = [1, 0]}"), ["movement"]),
    ],
)
def test_kinds_of_kernels(text, expected):
    assert kinds(text) == expected


def test_layer_norm_is_one_kernel():
    kind, row = "tensor<64x32xf32>", "tensor<32xf32>"
    text = f"""func.func @main(%x: {kind}, %g: {row}, %b: {row}) -> {kind} {{
      %y, %m, %i = "oneflow.layer_norm"(%x, %b, %g) {{begin_norm_axis = 1 : i64, begin_params_axis = 1 : i64,
        center = true, scale = true}} : ({kind}, {row}, {row}) -> ({kind}, tensor<64xf32>, tensor<64xf32>)
      return %y : {kind}
    }}"""
    assert kinds(text) == ["row"]


def test_order_of_stages():
    assert list(STAGES)[:4] == ["oneflow", "linalg", "kernels", "llvm"]


def ulps(got, want):
    with np.errstate(over="ignore"):
        spacing = np.spacing(np.abs(want.astype(got.dtype))).astype(want.dtype)
    return np.max(np.abs(got.astype(want.dtype) - want) / spacing)


FUNCTIONS = pytest.mark.parametrize(
    ("name", "reference", "limit"),
    [("exp", np.exp, 1.5), ("exp2", np.exp2, 1.5), ("expm1", np.expm1, 2.5), ("log", np.log, 1.5),
     ("log2", np.log2, 2), ("log10", np.log10, 2), ("log1p", np.log1p, 2), ("tanh", np.tanh, 2),
     ("sinh", np.sinh, 2), ("cosh", np.cosh, 2), ("asinh", np.arcsinh, 3),
     ("acosh", np.arccosh, 3), ("atanh", np.arctanh, 3), ("sin", np.sin, 2), ("cos", np.cos, 2), ("tan", np.tan, 3),
     ("asin", np.arcsin, 2), ("acos", np.arccos, 2), ("atan", np.arctan, 3)],
)  # fmt: skip
OF_TWO = pytest.mark.parametrize(
    ("function", "reference", "limit"), [(flow.atan2, np.arctan2, 3), (flow.pow, np.power, 1.5)]
)
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@TYPES
@FUNCTIONS
def test_polynomials(name, reference, limit, dtype):
    check_function(getattr(flow, name), reference, limit, numbers(0, dtype))


@TYPES
def test_the_error_function(dtype):
    check_function(flow.erf, lambda x: np.vectorize(math.erf)(x).astype(x.dtype), 2, numbers(0, dtype))


@TYPES
@OF_TWO
def test_binary_functions(function, reference, limit, dtype):
    x, y = numbers(1, dtype), numbers(2, dtype)
    rng = np.random.default_rng(3)
    whole = rng.integers(-9, 10, x.size).astype(dtype)
    # Large powers of numbers near 1 need a logarithm of many digits.
    near, large = rng.uniform(0.9, 1.1, x.size).astype(dtype), rng.uniform(-7000, 7000, x.size).astype(dtype)
    least, most = (getattr(np.finfo(dtype), name) for name in ("smallest_subnormal", "max"))
    edges = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, least, most, 2, -3, 0.5, -1.5], dtype)
    crossed = [g.ravel() for g in np.meshgrid(edges, edges)]
    for pair in ((x, y), (x, whole), (whole, y), (near, large), (np.abs(x), y), crossed):
        check_function(function, reference, limit, *pair)


#: Arguments where exp overflows, underflows to 0, and becomes denormal.
EDGES_OF_EXP = {np.float32: (88.72, 88.73, -103.9, -87.4), np.float64: (709.78, 709.79, -745.1, -708.4)}


def numbers(seed, dtype):
    """Numbers of every magnitude, numbers around 0 and 1, and edge cases."""
    rng = np.random.default_rng(seed)
    bits: Any = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    anything = rng.integers(0, np.iinfo(bits).max, 200_000, dtype=bits, endpoint=True).view(dtype)
    least, bounds = np.finfo(dtype).smallest_subnormal, EDGES_OF_EXP[dtype]
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, least, *bounds, 1e5, 2e5], dtype)
    ranges = (min(bounds) - 1, max(bounds) + 1), (-5, 5), (0.99, 1.01), (-1e-3, 1e-3), (-1e5, 1e5)
    near = [rng.uniform(low, high, 100_000).astype(dtype) for low, high in ranges]
    return rng.permutation(np.concatenate([anything, *near, edges]))


def check_function(function, reference, limit, *arrays):
    got = flow.compile(function)(*arrays)
    wider = np.float64 if got.dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        want = reference(*(a.astype(wider) for a in arrays))
        narrow = want.astype(got.dtype)
    special_values = ~np.isfinite(narrow)
    np.testing.assert_array_equal(got[special_values], narrow[special_values])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    assert ulps(got[~special_values], want[~special_values]) <= limit


@pytest.mark.parametrize(("end", "longest"), [(40, 12), (1000, 12), (1000, 400)])
def test_live_buffers_do_not_overlap(end, longest):
    rng = np.random.default_rng(3)
    buffers = []
    for number in range(60):
        first = int(rng.integers(0, end))
        last = first + int(rng.integers(0, longest))
        buffers.append(Buffer(number, "temporary", int(rng.integers(0, 500)), first, last))
    total = assign_offsets(buffers)
    ends = {a.number: (a.offset or 0) + (a.bytes or 0) for a in buffers}
    for a in buffers:
        assert a.offset is not None and a.offset % ALIGNMENT == 0 and ends[a.number] <= total
        for b in buffers:
            together = a is not b and a.first <= b.last and b.first <= a.last and a.bytes and b.bytes
            assert b.offset is not None
            assert not together or ends[a.number] <= b.offset or ends[b.number] <= a.offset
    assert total < sum(b.bytes or 0 for b in buffers)


@pytest.mark.parametrize(("shape", "dim"), [((300, 70), 0), ((5, 40, 33), 1), ((2, 3, 4, 5), 1), ((4000, 3), 0)])
def test_softmax_over_columns_is_one_kernel(shape, dim):
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    compiled = flow.compile(lambda x: flow.softmax(x, dim))
    got = compiled(x)
    shifted = np.exp(x - x.max(dim, keepdims=True, initial=-np.inf), dtype=np.float64)
    np.testing.assert_allclose(got, shifted / shifted.sum(dim, keepdims=True), rtol=2e-6)
    assert compiled.ir("kernels").count("oneflow.kernel =") == 1


def test_kernels_that_differ_in_constants_are_shared():
    @flow.compile
    def f(x, w):
        for i in range(6):
            x = (x @ w) * (0.5 + i) + 2.0**-i
        return x

    x, w = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32) / 4
    wanted = x.astype(np.float64)
    for i in range(6):
        wanted = (wanted @ w) * (0.5 + i) + 2.0**-i
    np.testing.assert_allclose(f(x, w), wanted, rtol=1e-3, atol=1e-4)
    assert f.ir("kernels").count("oneflow.kernel") == 1
