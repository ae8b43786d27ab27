"""Element-wise operators of a tensor and a number, or of a tensor and a tensor of one element; a row each.

The number is OneFlow's quadruple of attributes: `int_operand` with `has_int_operand`, or `float_operand` with
`has_float_operand`; for bitwise operators it is `operand`. The number has the tensor's type: integers accept whole
floats only; the number wraps in sums and products of integers and must fit elsewhere.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.complex_parts import by_body
from oneflow.dialect.dtypes import DType
from oneflow.dialect.elementwise import elementwise, flat_gradient, in_double, neutral
from oneflow.dialect.ops import binary as b
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.scalar import Expr, Number
from oneflow.dialect.shapes import expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc

#: The attributes that hold the number.
QUADRUPLE = (
    "has_int_operand: bool = False, has_float_operand: bool = False,"
    " int_operand: int64 = 0, float_operand: double = 0.0"
)  # fmt: skip


def number_of(attrs: Mapping[str, Any], dtype: DType) -> Number:
    """The number of a call as a value of `dtype`; integers wrap."""
    value = attrs["int_operand"] if attrs["has_int_operand"] else attrs["float_operand"]
    if dtype.is_inexact:
        return float(value)
    if dtype.kind == "bool":
        return bool(value)
    low, _ = integer_range(dtype)
    return (int(value) - low) % (1 << dtype.bits) + low


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of a type; bool holds 0 and 1."""
    if dtype.kind in ("bool", "uint"):
        return 0, (1 << dtype.bits) - 1
    half = 1 << (dtype.bits - 1)
    return -half, half - 1


def expect_number(op: Call, dtype: DType, wraps: bool) -> None:
    """Checks that a call gives exactly one number, and that `dtype` can hold the number.

    Raises:
        OperatorError: the call violates this.
    """
    if op.has_int_operand == op.has_float_operand:
        given = "both" if op.has_int_operand else "none"
        raise op.error(f"expected exactly one of has_int_operand and has_float_operand to be true, got {given}")
    if dtype.is_inexact:
        return
    value = op.int_operand if op.has_int_operand else op.float_operand
    expect_whole(op, "a", value, dtype, wraps)


def expect_whole(op: Call, name: str, value: float, dtype: DType, wraps: bool) -> None:
    """Checks that a number is whole, and in the range of the integers `dtype` unless the operator `wraps` around.

    Raises:
        OperatorError: the number is not.
    """
    if not math.isfinite(value) or value != int(value):
        raise op.error(f"expected {name} whole number for a tensor of {dtype.mlir}, got {value}: cast the tensor")
    low, high = integer_range(dtype)
    if not wraps and not low <= value <= high:
        raise op.error(f"expected {name} number in [{low}, {high}] for a tensor of {dtype.mlir}, got {value}")


def number_types(allowed: tuple[DType, ...], result: DType | None, wraps: bool) -> Rule:
    """The types rule of an operator of `in` and a number."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, allowed)
        expect_number(op, op.in_.dtype, wraps)
        return TensorDesc(op.in_.shape, result or op.in_.dtype)

    return types


def scalar_operator(
    name: str,
    doc: str,
    body: Callable[[Expr, Any], Expr],
    reference: Rule,
    *,
    allowed: tuple[DType, ...] = dtypes.NUMERIC,
    result: DType | None = None,
    wraps: bool = False,
    **slots: Any,
) -> None:
    """A row: `body(x, number)`, and `reference(x, number)` with arrays."""

    def scalar(x: Expr, **attrs: Any) -> Expr:
        return body(x, s.const(number_of(attrs, x.dtype), x.dtype))

    def computed(x: np.ndarray, **attrs: Any) -> Any:
        wide = dtypes.from_numpy(x.dtype).accumulator
        return reference(x, np.asarray(number_of(attrs, wide), wide.numpy))

    elementwise(
        f"{name}(in, {QUADRUPLE}) -> out", doc, scalar=scalar, reference=computed,
        types=number_types(allowed, result, wraps), allowed=allowed, result=result, depth=2, **slots,
    )  # fmt: skip


def _bitwise_operator(kind: str, reference: Rule) -> None:
    """A row of a tensor and an integer, `operand`."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, b.BITS)
        expect_whole(op, "a", op.operand, op.in_.dtype, wraps=False)
        return TensorDesc(op.in_.shape, op.in_.dtype)

    def scalar(x: Expr, *, operand: int) -> Expr:
        element: Expr = b.node(kind)(x, s.const(bool(operand) if x.dtype is dtypes.bool_ else operand, x.dtype))
        return element

    elementwise(
        f"scalar_bitwise_{kind}(in, operand: int64 = 0) -> out", f"in {kind} operand, bit by bit.", scalar=scalar,
        reference=lambda x, *, operand: reference(x, np.asarray(operand, x.dtype)), types=types, allowed=b.BITS,
        depth=2,
    )  # fmt: skip


def _power(x: Expr, exponent: Expr) -> Expr:
    """x to a known power: products for the small ones; a half is the square root, as in NumPy and PyTorch."""
    if exponent.value in (0, 1, 2, 3):
        return (s.const(1, x.dtype), x, x * x, x * x * x)[int(exponent.value)]
    if exponent.value == -1 and x.dtype.is_inexact:
        return 1.0 / x
    return s.sqrt(x) if exponent.value == 0.5 else b.power(x, exponent)


def leaves_unchanged(value: int, only_integers: bool = False) -> Callable[[Call], bool]:
    """Whether the number of a call is `value`, which its operator leaves its operand unchanged by."""

    def holds(op: Call) -> bool:
        return number_of(op.attrs, op.in_.dtype) == value and not (only_integers and op.in_.dtype.is_inexact)

    return holds


def _linear_for_floats(op: Call) -> str | None:
    return "joint" if op.in_.dtype.is_inexact else None


scalar_operator(
    "scalar_add", "in + number.", python.add, in_double(np.add), wraps=True, parts=by_body,
    laws=(neutral("add-zero", "in + 0 = in, for integers (-0.0 + 0.0 is 0.0)", leaves_unchanged(0, True)),),
)  # fmt: skip
scalar_operator(
    "scalar_mul", "in * number.", python.mul, in_double(np.multiply), wraps=True, linear="joint", parts=by_body,
    laws=(neutral("multiply-by-one", "in * 1 = in", leaves_unchanged(1)),),
)  # fmt: skip
scalar_operator(
    "scalar_div", "in / number; integers are divided towards 0.", b.divide, in_double(b.ratio(np.divide)),
    linear=_linear_for_floats, parts=by_body, laws=(neutral("divide-by-one", "in / 1 = in", leaves_unchanged(1)),),
)  # fmt: skip
scalar_operator(
    "scalar_pow", "in to the power number; integer powers are exact and wrap.", _power, in_double(b.powers),
    parts=by_body,
    laws=(neutral("first-power", "in ** 1 = in", leaves_unchanged(1)),),
)  # fmt: skip
scalar_operator(
    "scalar_reverse_pow", "number to the power in.", lambda x, number: b.power(number, x),
    in_double(lambda x, number: b.powers(number, x)),
)  # fmt: skip
scalar_operator(
    "scalar_floordiv", "in / number rounded down.", b.floor_divide, in_double(np.floor_divide), grad=flat_gradient,
)  # fmt: skip
scalar_operator("scalar_truncdiv", "in / number rounded towards 0.", s.truncdiv, in_double(b.truncated))
scalar_operator(
    "scalar_fmod", "The remainder of in / number towards 0: the sign of in.", s.remainder, in_double(np.fmod),
)  # fmt: skip

for _name, _kind, _reference in (
    ("equal", "eq", np.equal),
    ("not_equal", "ne", np.not_equal),
    ("greater", "gt", np.greater),
    ("greater_equal", "ge", np.greater_equal),
    ("less", "lt", np.less),
    ("less_equal", "le", np.less_equal),
):
    scalar_operator(
        f"scalar_logical_{_name}", f"Whether in is {_name.replace('_', ' ')} number.", b.node(_kind), _reference,
        allowed=dtypes.ALL, result=dtypes.bool_, parts=by_body if _kind in ("eq", "ne") else None,
    )  # fmt: skip
for _kind, _logical, _bitwise in b.CONNECTIVES:
    scalar_operator(
        f"scalar_logical_{_kind}", f"in {_kind} number: a value is true unless it is 0.", b.truth(_kind), _logical,
        allowed=dtypes.ALL, result=dtypes.bool_,
    )  # fmt: skip
    _bitwise_operator(_kind, _bitwise)


def _tensor_types(op: Call) -> TensorDesc:
    expect_dtype(op, "x", op.x, dtypes.NUMERIC)
    same_dtype(op, op.operands)
    if op.scalar.element_count != 1 or op.scalar.rank > op.x.rank:
        raise op.error(f"expected scalar of one element, static, of rank {op.x.rank} at most, got {op.scalar}")
    return TensorDesc(op.x.shape, op.x.dtype)


BY_TENSOR: tuple[tuple[str, Rule, Rule, dict[str, Any]], ...] = (
    ("add", python.add, np.add, {"linear": "joint"}),
    ("sub", python.sub, np.subtract, {"linear": "joint"}),
    ("mul", python.mul, np.multiply, {"linear": "each"}),
    ("div", b.divide, b.ratio(np.divide), {"sbp": b.numerator}),
)
for _name, _body, _exact, _slots in BY_TENSOR:
    for _place in ("", "host_") if _name == "add" else ("",):
        elementwise(
            f"{_place}scalar_{_name}_by_tensor(x, scalar) -> y", f"broadcast_{_name} with a tensor of one element.",
            scalar=_body, reference=in_double(_exact), types=_tensor_types, parts=by_body,
            **_slots,
        )  # fmt: skip
