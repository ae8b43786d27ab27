"""The element type that operands share: NumPy's rules for tensors, weak Python numbers, documented exceptions."""

import itertools

import ml_dtypes  # noqa: F401
import numpy as np
import pytest
from helpers import run

import oneflow as flow
from oneflow.dialect.dtypes import ALL, BY_NUMPY, COMPLEX, FLOAT8
from oneflow.frontend.core.promotion import common_dtype

#: Pairs of which NumPy makes float64 of integers and small floats (PyTorch keeps the float).
EXCEPTIONS = {frozenset((flow.float16, flow.bfloat16)): flow.float32}


def expected(a, b):
    if a.is_complex or b.is_complex:  # of integers NumPy makes complex128, PyTorch keeps the complex type
        wide = {flow.float64, flow.complex128} & {a, b}
        return flow.complex128 if wide else flow.complex64
    if frozenset((a, b)) in EXCEPTIONS:
        return EXCEPTIONS[frozenset((a, b))]
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if flow.bfloat16 in (a, b):
        return max(a, b, key=lambda d: d.bits)
    return BY_NUMPY[np.result_type(a.numpy, b.numpy)]


DTYPES = (*ALL, *COMPLEX)
PAIRS = [*itertools.combinations_with_replacement(DTYPES, 2)]
#: Integer types without a common integer type; NumPy promotes to float64.
APART = [(a, b) for a, b in PAIRS if flow.uint64 in (a, b) and "int" in (a.kind, b.kind)]


@pytest.mark.parametrize("a,b", [p for p in PAIRS if p not in APART], ids=str)
def test_common_dtype(a, b):
    assert common_dtype(a, b) == common_dtype(b, a) == expected(a, b)


@pytest.mark.parametrize("a,b", APART, ids=str)
def test_no_common_dtype(a, b):
    with pytest.raises(
        flow.OneFlowError, match=r"no integer type holds oneflow.uint64 and oneflow.int.*; convert one with x\.to\("
    ):
        common_dtype(a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", [True, 2, 2.5], ids=["bool", "int", "float"])
def test_python_numbers_are_weakly_typed(dtype, number):
    spec = flow.TensorSpec((2,), dtype)
    found = flow.trace(lambda x: x * number, spec)
    kinds = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
    raised = {bool: 0, int: 1, float: 2}[type(number)] > kinds[dtype.kind]
    want = {int: flow.int64, float: flow.float32}[type(number)] if raised else dtype
    assert f"-> tensor<2x{want.mlir}>" in str(found)


#: The results of `torch.promote_types`: a row for each type, with a column for each in the same order; `-` where
#: PyTorch refuses. Abbreviated to a letter (b, u, i, f, B for bfloat16, c, and e4, e5 for floats of 8 bits) and the
#: bits.
PYTORCH = """
    b   u8  u16 u32 u64 i8  i16 i32 i64 f16 B16 f32 f64 c64 c128 e4 e5
    b   u8  -   -   -   i8  i16 i32 i64 f16 B16 f32 f64 c64 c128 -  -
    u8  u8  -   -   -   i16 i16 i32 i64 f16 B16 f32 f64 c64 c128 -  -
    -   -   u16 -   -   -   -   -   -   f16 B16 f32 f64 -   -    -  -
    -   -   -   u32 -   -   -   -   -   f16 B16 f32 f64 -   -    -  -
    -   -   -   -   u64 -   -   -   -   f16 B16 f32 f64 -   -    -  -
    i8  i16 -   -   -   i8  i16 i32 i64 f16 B16 f32 f64 c64 c128 -  -
    i16 i16 -   -   -   i16 i16 i32 i64 f16 B16 f32 f64 c64 c128 -  -
    i32 i32 -   -   -   i32 i32 i32 i64 f16 B16 f32 f64 c64 c128 -  -
    i64 i64 -   -   -   i64 i64 i64 i64 f16 B16 f32 f64 c64 c128 -  -
    f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64 c128 -  -
    B16 B16 B16 B16 B16 B16 B16 B16 B16 f32 B16 f32 f64 c64 c128 -  -
    f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128 -  -
    f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 -  -
    c64 c64 -   -   -   c64 c64 c64 c64 c64 c64 c64 c128 c64 c128 -  -
    c128 c128 - -   -   c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 -  -
    -   -   -   -   -   -   -   -   -   -   -   -   -   -   -    e4 -
    -   -   -   -   -   -   -   -   -   -   -   -   -   -   -    -  e5
"""
_ROWS = [line.split() for line in PYTORCH.strip().splitlines()]
_TYPES = dict(zip(_ROWS[0], (*DTYPES, *FLOAT8), strict=True))
PROMOTED = {
    (_TYPES[a], _TYPES[b]): _TYPES.get(text)
    for a, row in zip(_ROWS[0], _ROWS[1:], strict=True)
    for b, text in zip(_ROWS[0], row, strict=True)
}


def test_types_promote_as_in_pytorch():
    """If PyTorch refuses unsigned integers of more than 8 bits, this project promotes as NumPy."""
    for (a, b), want in PROMOTED.items():
        if want is not None:
            assert common_dtype(a, b) == want, (a, b)
        elif {a, b} & set(FLOAT8):
            with pytest.raises(flow.OneFlowError, match="floats of 8 bits are not promoted"):
                common_dtype(a, b)


def test_the_table_is_that_of_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

    def promoted(a, b):
        try:
            return getattr(
                flow, str(torch.promote_types(*(getattr(torch, d.name) for d in (a, b)))).partition(".")[2]
            )
        except RuntimeError:
            return None

    assert {(a, b): promoted(a, b) for a, b in PROMOTED} == PROMOTED


CASES = [
    (lambda x, y: x + y, np.int32, np.float16, np.float16),
    (lambda x, y: x / y, np.int32, np.int8, np.float32),
    (lambda x, y: x // y, np.uint8, np.int64, np.int64),
    (lambda x, y: x @ y, np.int32, np.float64, np.float64),
    (lambda x, y: x < y, np.int32, np.float32, np.bool_),
    (lambda x, y: flow.where(x > 0, x, y), np.int8, np.float32, np.float32),
    (lambda x, y: flow.stack([x, y]), np.bool_, np.int32, np.int32),
    (lambda x, y: flow.logical_and(x, y), np.float32, np.int32, np.bool_),
    (lambda x, y: x**y, np.int32, np.int64, np.int64),
    (lambda x, y: np.float64(2.5) * x + y, np.float32, np.float32, np.float32),
]


@pytest.mark.parametrize("function,a,b,want", CASES)
def test_operators(function, a, b, want):
    x, y = np.ones((2, 2)).astype(a), np.ones((2, 2)).astype(b)
    assert run(function, x, y)[0].dtype == want


def test_array_on_the_left():
    a = np.arange(3, dtype=np.float32)
    (got,) = run(lambda x: a - x, np.ones(3, np.float32))
    np.testing.assert_array_equal(got, a - 1)
    (got,) = run(lambda x: a @ x, np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(got, [3, 3])


WRAPPING = {
    "sub": lambda _, x: x - 1, "add": lambda _, x: x + (-1), "left": lambda _, x: -1 - x, "mul": lambda _, x: x * -1,
    "floordiv": lambda _, x: x // -1, "mod": lambda _, x: x % -3, "and": lambda _, x: x & -1,
    "or": lambda _, x: x | -2, "xor": lambda _, x: x ^ -2, "eq": lambda _, x: x == -1, "ne": lambda _, x: x != -1,
    "lt": lambda _, x: x < -1, "le": lambda _, x: x <= -251, "gt": lambda _, x: x > -5, "ge": lambda _, x: x >= -1,
    "where": lambda f, x: f.where(x > 3, x, -1), "full_like": lambda f, x: f.full_like(x, -1),
    "masked_fill": lambda _, x: x.masked_fill(x > 3, -2),
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPING)
def test_negative_numbers_with_unsigned_tensors_wrap(name):
    """Values equal PyTorch's, in eager mode and compiled; numbers out of the range even with wrapping are errors."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    array = np.array([0, 5, 255], np.uint8)
    want = WRAPPING[name](torch, torch.from_numpy(array))
    eager = WRAPPING[name](flow, flow.tensor(array)).numpy()
    compiled = flow.compile(lambda x: WRAPPING[name](flow, x))(array)
    assert eager.dtype == compiled.dtype == want.numpy().dtype
    assert eager.tolist() == compiled.tolist() == want.tolist()


FILLING = {
    "full": lambda f, x, n: f.full((2,), n, dtype=x.dtype), "full_like": lambda f, x, n: f.full_like(x, n),
    "fill_": lambda _, x, n: x.clone().fill_(n), "masked_fill": lambda _, x, n: x.masked_fill(~x, n),
    "setitem": lambda f, x, n: assigned(x.clone(), n), "where": lambda f, x, n: f.where(~x, bool(n), x),
}  # fmt: skip


def assigned(x, number):
    x[:1] = number
    return x


@pytest.mark.parametrize("number", [0.5, 2, -0.25, 0.0, float("nan")])
@pytest.mark.parametrize("name", FILLING)
def test_nonzero_numbers_become_true(name, number):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    array = np.array([False, True])
    want = FILLING[name](torch, torch.tensor(array), number)
    eager = FILLING[name](flow, flow.tensor(array), number).numpy()
    compiled = flow.compile(lambda x: FILLING[name](flow, x, number))(array)
    assert eager.dtype == compiled.dtype == np.bool_
    assert eager.tolist() == compiled.tolist() == want.tolist()


@pytest.mark.parametrize("number", [-256, 256])
def test_numbers_that_an_unsigned_tensor_cannot_hold(number):
    with pytest.raises(ValueError, match=rf"expected a number in \[0, 255\] with a tensor of ui8, got {number}"):
        flow.lt(flow.tensor(np.array([1], np.uint8)), number)
