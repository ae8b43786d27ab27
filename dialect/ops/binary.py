"""Element-wise operators of two or more operands that broadcast; a row each.

Integer division and remainder by 0 give 0. `pow`, `floordiv` and similar names are OneFlow's for operands of
equal shape; here these operators broadcast too.
"""

from __future__ import annotations

import functools
import math
import operator as python
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import by_body
from oneflow.dialect.elementwise import elementwise, flat_gradient, in_double, neutral, sum_to
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors, broadcast_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc

BITS = (dtypes.bool_, *dtypes.INTEGERS)


def node(kind: str) -> Any:
    """The body that is one node of the scalar algebra."""
    return functools.partial(s.binary, kind)


def divide(x: Expr, y: Any) -> Expr:
    """x / y; integers are divided towards 0, as in OneFlow's kernels."""
    return x / y if x.dtype.is_inexact else s.truncdiv(x, y)


def floor_divide(x: Expr, y: Any) -> Expr:
    """x / y rounded down."""
    return s.floor_div_float(x, y) if x.dtype.is_float else x // y


def power(x: Expr, y: Expr) -> Expr:
    """x to the power y; integer powers are exact."""
    return s.power(x, y) if x.dtype.is_inexact else s.integer_power(x, y)


def _exactly(function: Callable[[int, int], int], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`function` of Python's integers for each pair of elements, wrapped to the width."""
    x, y = np.broadcast_arrays(x, y)
    bits = 8 * x.dtype.itemsize
    results = [function(int(a), int(b)) % (1 << bits) for a, b in zip(x.flat, y.flat, strict=True)]
    return np.array(results, np.uint64).astype(f"u{x.dtype.itemsize}").view(x.dtype).reshape(x.shape)


def truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The reference of division towards 0."""

    def one(a: int, b: int) -> int:
        quotient = abs(a) // abs(b) if b else 0
        return quotient if (a < 0) == (b < 0) else -quotient

    return _exactly(one, x, y) if x.dtype.kind in "iu" else np.trunc(x / y)


def powers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The reference of powers; 1 / a ** -b rounds towards 0 for integers."""

    def one(a: int, b: int) -> int:
        if b >= 0:
            return pow(a, b, 1 << 64)
        return a ** (b % 2) if abs(a) == 1 else 0

    return _exactly(one, x, y) if x.dtype.kind in "iu" else np.power(x, y)


def ratio(of_floats: Any) -> Any:
    """The reference of division: `of_floats`, and towards 0 for integers."""
    return lambda x, y: of_floats(x, y) if x.dtype.kind not in "iu" else truncated(x, y)


def numerator(op: Call) -> Factors:
    """Splits of every dimension, and partial sums of the dividend (not of integers, which are rounded)."""
    split = broadcast_factors([d.shape for d in op.operands], op.results[0].rank)
    return split.linear_in(op, next(iter(op.inputs))) if op.operands[0].dtype.is_inexact else split


NUMBERS: dict[str, Any] = {"allowed": dtypes.NUMERIC}
#: Of operators that are defined on complex numbers too.
COMPLEX: dict[str, Any] = {"allowed": dtypes.NUMERIC, "parts": by_body}

elementwise(
    "broadcast_add(x, y) -> z", "x + y.", scalar=python.add, reference=in_double(np.add), linear="joint", **COMPLEX,
)  # fmt: skip
elementwise(
    "broadcast_sub(x, y) -> z", "x - y.", scalar=python.sub, reference=in_double(np.subtract), linear="joint",
    **COMPLEX,
)  # fmt: skip
elementwise(
    "broadcast_mul(x, y) -> z", "x * y.", scalar=python.mul, reference=in_double(np.multiply), linear="each",
    **COMPLEX,
)  # fmt: skip


def _product_gradient(ops: Builder, op: Call, dz: Value) -> dict[str, Any]:
    return {
        "x": lambda: sum_to(ops, ops.broadcast_mul_no_nan(dz, op.y), op.x),
        "y": lambda: sum_to(ops, ops.broadcast_mul_no_nan(dz, op.x), op.y),
    }


elementwise(
    "broadcast_mul_no_nan(x, y) -> z", "x * y, and 0 where x is 0 for any y: a cotangent times a derivative.",
    scalar=lambda x, y: s.where(x.eq(0), 0, x * y),
    reference=in_double(lambda x, y: np.where(x == 0, 0, x * y).astype(x.dtype)),
    linear="each", grad=_product_gradient, **NUMBERS,
)  # fmt: skip
elementwise(
    "broadcast_div(x, y) -> z", "x / y; integers are divided towards 0.", scalar=divide,
    reference=in_double(ratio(np.divide)), sbp=numerator, **COMPLEX,
)  # fmt: skip
for _name in ("broadcast_pow", "pow"):
    elementwise(
        f"{_name}(x, y) -> z", "x to the power y; integer powers are exact and wrap.", scalar=power,
        reference=in_double(powers), **COMPLEX,
    )  # fmt: skip
elementwise(
    "broadcast_floor_mod(x, y) -> z", "The remainder of floor division: the sign of y.", scalar=s.floormod,
    reference=in_double(np.mod), **NUMBERS,
)  # fmt: skip
elementwise(
    "broadcast_fmod(x, y) -> z", "The remainder of division towards 0: the sign of x.", scalar=s.remainder,
    reference=in_double(np.fmod), **NUMBERS,
)  # fmt: skip
elementwise(
    "floordiv(x, y) -> z", "x / y rounded down.", scalar=floor_divide, reference=in_double(np.floor_divide),
    grad=flat_gradient, **NUMBERS,
)  # fmt: skip
elementwise(
    "truncdiv(x, y) -> z", "x / y rounded towards 0.", scalar=s.truncdiv, reference=in_double(truncated), **NUMBERS,
)  # fmt: skip
elementwise(
    "broadcast_maximum(x, y) -> z", "The larger of x and y; NaN if one is NaN.", scalar=s.maximum,
    reference=np.maximum, **NUMBERS,
)  # fmt: skip
elementwise(
    "broadcast_minimum(x, y) -> z", "The smaller of x and y; NaN if one is NaN.", scalar=s.minimum,
    reference=np.minimum, **NUMBERS,
)  # fmt: skip
elementwise("atan2(x, y) -> z", "The angle of the point (y, x).", scalar=s.atan2, reference=in_double(np.arctan2))


def _xlogy(x: Expr, y: Expr) -> Expr:
    nothing = x.eq(0) & ((y <= 0) | y.eq(float("inf")))
    return x * s.log(s.where(nothing, 1.0, y))


def _xdivy(x: Expr, y: Expr) -> Expr:
    return x / s.where(x.eq(0) & (y.eq(0) | s.isnan(y)), 1.0, y)


#: Why partial sums do not pass through x.
ONLY_WHOLE = "partial sums of x, which give NaN where y is 0 and x is 0 as a whole only"

elementwise(
    "xlogy(x, y) -> z", "x * log(y), and 0 where x is 0 unless y is NaN.", scalar=_xlogy,
    reference=in_double(lambda x, y: scipy.special.xlogy(x, y)), unoffered=ONLY_WHOLE,
)  # fmt: skip
elementwise(
    "xdivy(x, y) -> z", "x / y, and 0 where x is 0.", scalar=_xdivy,
    reference=in_double(lambda x, y: np.where(x == 0, 0, x / y)), unoffered=ONLY_WHOLE,
)  # fmt: skip

for _name, _doc, _kind, _reference in (
    ("equal", "Whether x is y.", "eq", np.equal),
    ("not_equal", "Whether x is not y.", "ne", np.not_equal),
    ("greater", "Whether x > y.", "gt", np.greater),
    ("greater_equal", "Whether x >= y.", "ge", np.greater_equal),
    ("less", "Whether x < y.", "lt", np.less),
    ("less_equal", "Whether x <= y.", "le", np.less_equal),
):
    elementwise(
        f"broadcast_{_name}(x, y) -> z", _doc, scalar=node(_kind), reference=_reference,
        allowed=dtypes.ALL, result=dtypes.bool_, parts=by_body if _kind in ("eq", "ne") else None,
    )  # fmt: skip


def truth(kind: str) -> Any:
    """The body that combines whether x and y are not 0."""
    return lambda x, y: s.binary(kind, s.cast(x, dtypes.bool_), s.cast(y, dtypes.bool_))


#: Kind, reference on truth values, reference on bits.
CONNECTIVES = (
    ("and", np.logical_and, np.bitwise_and),
    ("or", np.logical_or, np.bitwise_or),
    ("xor", np.logical_xor, np.bitwise_xor),
)
for _kind, _logical, _bitwise in CONNECTIVES:
    elementwise(
        f"broadcast_logical_{_kind}(x, y) -> z", f"x {_kind} y, where a number is true unless it is 0.",
        scalar=truth(_kind), reference=_logical, allowed=dtypes.ALL, result=dtypes.bool_,
    )  # fmt: skip
    elementwise(
        f"broadcast_bitwise_{_kind}(x, y) -> z", f"x {_kind} y, bit by bit.",
        scalar=node(_kind), reference=_bitwise, allowed=BITS,
    )  # fmt: skip


def _same_shapes(op: Call) -> TensorDesc:
    descs: Sequence[TensorDesc] = op.operands
    for desc in descs:
        expect_dtype(op, "in", desc, dtypes.NUMERIC)
    same_dtype(op, descs)
    total = descs[0]
    for desc in descs[1:]:
        if not total.compatible(desc):
            raise op.error(f"expected operands of one shape, got {', '.join(map(str, descs))}")
        total = total.meet(desc)
    return total


def _sum_reference(arrays: Sequence[np.ndarray]) -> np.ndarray:
    array: np.ndarray = in_double(lambda *xs: functools.reduce(np.add, xs))(*arrays)
    return array


elementwise(
    "add_n(in+) -> out", "The sum of all operands, which have one shape.",
    scalar=lambda *xs: functools.reduce(python.add, xs), reference=_sum_reference,
    types=_same_shapes, linear="joint", parts=by_body,
    laws=(neutral("add-one", "add_n(x) = x", lambda op: len(op.operands) == 1),),
)  # fmt: skip


def _is_close(x: Any, y: Any, atol: float, rtol: float, equal_nan: bool) -> Any:
    """|x - y| <= atol + rtol * |y|, or equal; differences of infinities are not close."""
    same = x.eq(y)
    if x.dtype.is_float:
        a, b = x, y
    else:
        wide = dtypes.float64 if x.dtype.bits > 16 else dtypes.float32
        a, b = s.cast(x, wide), s.cast(y, wide)
    difference = abs(a - b)
    close = same | ((difference <= abs(b) * rtol + atol) & (difference < math.inf))
    return close | (s.isnan(x) & s.isnan(y)) if equal_nan else close


for _suffix, _equal_nan in (("eq_nan", True), ("neq_nan", False)):
    elementwise(
        f"broadcast_isclose_{_suffix}(x, y, atol: float = 1e-08, rtol: float = 1e-05) -> z",
        f"Whether |x - y| is at most atol + rtol * |y|; NaN is {'' if _equal_nan else 'not '}close to NaN.",
        scalar=lambda x, y, *, atol, rtol, equal_nan=_equal_nan: _is_close(x, y, atol, rtol, equal_nan),
        reference=lambda x, y, *, atol, rtol, equal_nan=_equal_nan: np.isclose(
            x.astype(np.float64), y.astype(np.float64), rtol, atol, equal_nan
        ),
        allowed=dtypes.NUMERIC, result=dtypes.bool_,
    )  # fmt: skip
