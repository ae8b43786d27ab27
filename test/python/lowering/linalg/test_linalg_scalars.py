"""All kinds of scalar nodes in arith and math against NumPy, at edge cases of all types."""

import numpy as np
import pytest
from linalg_runner import Runner

from oneflow.dialect import dtypes, evaluate
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import FLOATS
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import Registry, define, no_grad, no_sbp
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.convert_oneflow_to_linalg import ConvertOneflowToLinalg
from oneflow.testing.sample import INTEGERS as COMMON

#: Signed integers, and unsigned integers, whose rules depend on the width.
INTEGERS = (*COMMON, dtypes.uint32, dtypes.uint64)
BITWISE = ("and", "or", "xor", "shl", "shr", "shru")
ONLY_FLOAT = ("div", "atan2")
ONLY_INTEGER = ("floordiv", *BITWISE)
FLOAT_UNARY = sorted(s.UNARY - {"not"})
INTEGER_UNARY = ("neg", "abs", "not", "ceil", "floor", "trunc", "rint")
WIDE_FLOATS = (dtypes.float32, dtypes.float64)


def edges(dtype):
    """Edge cases of a type."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        small = [0, 1, 2, 3, 7, 8, 31, 33, 63, 64, 65, 100, -1, -2, -3, -8, -64, -100]
        edges = {info.min, info.min + 1, info.max, info.max - 1, *small}
        return np.array(sorted(v for v in edges if info.min <= v <= info.max), dtype.numpy)
    values = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.7, -3.7, 20.0, -20.0, np.inf, -np.inf, np.nan]
    return np.array(values).astype(dtype.numpy)


def pairs(dtype):
    grid = np.meshgrid(edges(dtype), edges(dtype))
    return [np.ascontiguousarray(g.ravel()) for g in grid]


def run(body, arrays, result):
    """The results of a scalar body on arrays, at the linalg stage."""
    registry = Registry()
    names = ", ".join("ab"[: len(arrays)])
    define(
        f"probe({names}) -> out",
        registry=registry,
        doc="A body under test.",
        types=lambda op: TensorDesc(op.a.shape, result),
        sbp=no_sbp("a test"),
        grad=no_grad("a test"),
        reference=lambda *operands: operands[0],
        scalar=body,
    )
    operands = [
        f"%{n}: tensor<{len(a)}x{dtypes.from_numpy(a.dtype).mlir}>" for n, a in zip("ab", arrays, strict=False)
    ]
    types = ", ".join(o.partition(": ")[2] for o in operands)
    values = ", ".join(o.partition(":")[0] for o in operands)
    out = f"tensor<{len(arrays[0])}x{result.mlir}>"
    text = f"""func.func @f({", ".join(operands)}) -> {out} {{
      %0 = "oneflow.probe"({values}) : ({types}) -> {out}
      return %0 : {out} }}"""
    with create_context(registry), ir.Location.unknown():
        module = ir.Module.parse(text)
        ConvertOneflowToLinalg().run(module, registry)
        (got,) = Runner(module).run("f", arrays)
    return got.view(result.numpy)


def compare(got, want, dtype):
    if dtype.is_float:
        rtol = 3e-6 if dtype is dtypes.float32 else 1e-13
        np.testing.assert_allclose(got, want, rtol=rtol, atol=np.finfo(dtype.numpy).tiny)
    else:
        np.testing.assert_array_equal(got, want)


UNARY = [*[(k, d) for k in FLOAT_UNARY for d in WIDE_FLOATS], *[(k, d) for k in INTEGER_UNARY for d in INTEGERS]]
CASES = [
    *[(k, d) for k in sorted(s.BINARY - {*ONLY_INTEGER, "pow"}) for d in WIDE_FLOATS],
    *[(k, d) for k in sorted(s.BINARY - {*ONLY_FLOAT, "pow"}) for d in INTEGERS],
    *[(k, dtypes.bool_) for k in ("and", "or", "xor", "max", "min")],
]


@pytest.mark.parametrize("kind,dtype", CASES, ids=str)
def test_binary_scalars(kind, dtype):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        want = evaluate.BINARY[kind](a, b)
    compare(run(lambda x, y: s.binary(kind, x, y), [a, b], dtype), want.astype(dtype.numpy), dtype)


@pytest.mark.parametrize("kind", sorted(s.COMPARE))
@pytest.mark.parametrize("dtype", [dtypes.bool_, *INTEGERS, *WIDE_FLOATS], ids=str)
def test_scalar_comparisons(kind, dtype):
    a, b = pairs(dtype)
    got = run(lambda x, y: s.binary(kind, x, y), [a, b], dtypes.bool_)
    np.testing.assert_array_equal(got, evaluate.BINARY[kind](a, b))


@pytest.mark.parametrize("kind,dtype", UNARY, ids=str)
def test_unary_scalars(kind, dtype):
    a = edges(dtype)
    with np.errstate(all="ignore"):
        want = np.asarray(evaluate.UNARY[kind](a)).astype(dtype.numpy)
    compare(run(lambda x: s.unary(kind, x), [a], dtype), want, dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_power(dtype):
    a, b = pairs(dtype)
    a, b = a[b >= 0], b[b >= 0]
    powers = [pow(int(x), int(y), 1 << dtype.bits) for x, y in zip(a, b, strict=True)]
    want = np.array(powers, np.uint64).astype(f"u{dtype.bits // 8}").view(dtype.numpy)
    np.testing.assert_array_equal(run(lambda x, y: s.power(x, y), [a, b], dtype), want)
    for exponent in (0, 1, 5):
        want = np.array([pow(int(x), exponent, 1 << dtype.bits) for x in a], np.uint64)
        got = run(lambda x, e=exponent: s.power(x, e), [a], dtype)
        np.testing.assert_array_equal(got, want.astype(f"u{dtype.bits // 8}").view(dtype.numpy))


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_float_power(dtype):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        want = np.power(a, b)
    compare(run(lambda x, y: s.power(x, y), [a, b], dtype), want, dtype)


def fits(x, dtype):
    with np.errstate(invalid="ignore"):
        info = np.iinfo(dtype.numpy)
        return (np.trunc(x) >= info.min) & (np.trunc(x) <= info.max)


@pytest.mark.parametrize("source", [dtypes.bool_, *INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("target", [dtypes.bool_, *INTEGERS, *FLOATS], ids=str)
def test_scalar_casts(source, target):
    a = edges(source)
    if source.is_float and target.is_integer:
        a = a[fits(a.astype(np.float64), target)]
    with np.errstate(all="ignore"):
        want = a != 0 if target is dtypes.bool_ else a.astype(target.numpy)
    got = run(lambda x: s.cast(x, target), [a], target)
    assert got.dtype == want.dtype
    wide = np.float64 if target.is_float else want.dtype
    np.testing.assert_array_equal(got.astype(wide), want.astype(wide))


@pytest.mark.parametrize("source", WIDE_FLOATS, ids=str)
def test_floats_out_of_range_become_the_smallest_integer(source):
    a = np.array([np.nan, np.inf, -np.inf, 1e10, -1e10, 1e20], source.numpy)
    small = run(lambda x: s.cast(x, dtypes.int32), [a], dtypes.int32)
    np.testing.assert_array_equal(small, np.full(6, -(2**31)))
    large = run(lambda x: s.cast(x, dtypes.int64), [a], dtypes.int64)
    np.testing.assert_array_equal(large, [-(2**63)] * 3 + [int(a[3]), int(a[4]), -(2**63)])
    wrapped = run(lambda x: s.cast(x, dtypes.uint8), [np.array([300.0, -1.0, 1e10], source.numpy)], dtypes.uint8)
    np.testing.assert_array_equal(wrapped, [44, 255, 0])
    wrapped = run(lambda x: s.cast(x, dtypes.uint32), [np.array([2.0**32 + 512, -1.0], source.numpy)], dtypes.uint32)
    np.testing.assert_array_equal(wrapped, [512, 2**32 - 1])
    large = np.array([2.0**63, 1.5 * 2.0**63, -1.0, np.nan], source.numpy)
    wrapped = run(lambda x: s.cast(x, dtypes.uint64), [large], dtypes.uint64)
    np.testing.assert_array_equal(wrapped, np.array([2**63, 3 * 2**62, 2**64 - 1, 2**63], np.uint64))


def test_f64_to_f16_is_rounded_once():
    rng = np.random.default_rng(0)
    halves = rng.uniform(-4, 4, 500).astype(np.float16).astype(np.float64)
    near = np.nextafter(halves + np.spacing(halves.astype(np.float16)) / 2, [[np.inf], [-np.inf], [0.0]]).ravel()
    a = np.concatenate([near, rng.uniform(-70000, 70000, 500), rng.uniform(-1e-7, 1e-7, 500), edges(dtypes.float64)])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            run(lambda x: s.cast(x, dtypes.float16), [a], dtypes.float16), a.astype(np.float16)
        )


def test_maximum_and_minimum_propagate_nan():
    a = np.array([np.nan, 1.0, np.nan], np.float32)
    b = np.array([1.0, np.nan, np.nan], np.float32)
    for function in (s.maximum, s.minimum):
        assert np.isnan(run(function, [a, b], dtypes.float32)).all()
    assert run(lambda x, y: s.isnan(x), [a, b], dtypes.bool_).tolist() == [True, False, True]


def test_shared_nodes_are_written_once():
    def body(x):
        for _ in range(3000):
            x = x * 0.5 + x
        return x

    got = run(body, [np.zeros(3, np.float32)], dtypes.float32)
    np.testing.assert_array_equal(got, np.zeros(3))
