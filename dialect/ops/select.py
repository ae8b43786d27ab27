"""Operators that select or convert values: where, masked_fill, clipping, cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder, by_body
from oneflow.dialect.dtypes import DType
from oneflow.dialect.elementwise import elementwise, neutral
from oneflow.dialect.ops.scalar_ops import QUADRUPLE, expect_number, integer_range, number_of
from oneflow.dialect.record import Call, Law
from oneflow.dialect.sbp import Factors, broadcast_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import broadcast_shapes, expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc

#: The types of a condition: a number is true unless it is 0.
CONDITIONS = (dtypes.bool_, *dtypes.INTEGERS)


def _where_types(op: Call) -> TensorDesc:
    expect_dtype(op, "condition", op.condition, CONDITIONS)
    same_dtype(op, [op.x, op.y])
    return TensorDesc(broadcast_shapes(op, [d.shape for d in op.operands]), op.x.dtype)


def _where_sbp(op: Call) -> Factors:
    """Splits, and partial sums of both values under a whole condition."""
    return broadcast_factors([d.shape for d in op.operands], op.results[0].rank).linear_in(op, "x", "y")


elementwise(
    "where(condition, x, y) -> out", "x where condition is not 0, else y.",
    scalar=lambda condition, x, y: s.where(s.cast(condition, dtypes.bool_), x, y),
    reference=lambda condition, x, y: np.where(condition != 0, x, y),
    types=_where_types, sbp=_where_sbp, parts=by_body,
)  # fmt: skip


def _fill_types(op: Call) -> TensorDesc:
    expect_dtype(op, "mask", op.mask, CONDITIONS)
    if op.has_bool_operand:
        if op.has_int_operand or op.has_float_operand:
            raise op.error(
                "expected one of has_int_operand, has_float_operand and has_bool_operand to be true, got several"
            )
    else:
        expect_number(op, op.x.dtype, wraps=False)
    return TensorDesc(broadcast_shapes(op, [op.x.shape, op.mask.shape]), op.x.dtype)


def _fill_value(attrs: dict[str, Any], dtype: DType) -> Any:
    return s.const(attrs["bool_operand"], dtype).value if attrs["has_bool_operand"] else number_of(attrs, dtype)


def _fill(x: Expr, mask: Expr, **attrs: Any) -> Expr:
    return s.where(s.cast(mask, dtypes.bool_), _fill_value(attrs, x.dtype), x)


def _fill_reference(x: np.ndarray, mask: np.ndarray, **attrs: Any) -> np.ndarray:
    kinds = [k for k in ("bool", "int", "float") if attrs[f"has_{k}_operand"]]
    return np.where(mask != 0, np.asarray(attrs[f"{kinds[0]}_operand"]).astype(x.dtype), x)


elementwise(
    f"masked_fill(x, mask, {QUADRUPLE}, has_bool_operand: bool = False, bool_operand: bool = False) -> out",
    "The number where mask is not 0, else x.", scalar=_fill, reference=_fill_reference, types=_fill_types,
    parts=by_body,
)  # fmt: skip

#: The attributes of bounds: the integral attributes are for integers.
LOW = "floating_min: double = 0.0, integral_min: int64 = 0"
HIGH = "floating_max: double = 0.0, integral_max: int64 = 0"


def _bound(attrs: dict[str, Any], end: str, dtype: DType) -> int | float:
    """The bound of a call in a type: a bound outside an integer's range is replaced by the end of the range."""
    if dtype.is_float:
        return float(attrs[f"floating_{end}"])
    low, high = integer_range(dtype)
    return int(min(max(attrs[f"integral_{end}"], low), high))


def _clip(x: Expr, **attrs: Any) -> Expr:
    """`x` clipped to the present bounds; NaN stays."""
    if "floating_min" in attrs:
        low = _bound(attrs, "min", x.dtype)
        x = s.where(x < low, low, x)
    if "floating_max" in attrs:
        high = _bound(attrs, "max", x.dtype)
        x = s.where(x > high, high, x)
    return x


def _clip_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    return {"x": lambda: ops.call(f"{op.record.name}_grad", dy, op.x, **op.attrs)[0]}


def _clip_reference(x: np.ndarray, **attrs: Any) -> np.ndarray:
    kind = "integral" if x.dtype.kind in "iu" else "floating"
    wide = object if kind == "integral" else np.float64
    y = x.astype(wide)
    if f"{kind}_min" in attrs:
        y = np.maximum(y, attrs[f"{kind}_min"], dtype=wide)
    if f"{kind}_max" in attrs:
        y = np.minimum(y, attrs[f"{kind}_max"], dtype=wide)
    return np.asarray(y).astype(x.dtype)


for _suffix, _attrs, _doc in (
    ("", f"{LOW}, {HIGH}", "x, at least min and at most max."),
    ("_min", LOW, "x, at least min."),
    ("_max", HIGH, "x, at most max."),
):
    elementwise(
        f"clip_by_scalar{_suffix}(x, {_attrs}) -> y", f"{_doc} The integral bounds are for integers.",
        scalar=_clip, reference=_clip_reference, allowed=dtypes.NUMERIC, grad=_clip_gradient,
    )  # fmt: skip


def _cast_linear(op: Call) -> str | None:
    """Partial sums pass between floats only: rounding them to integers first would change the sum."""
    return "joint" if op.in_.dtype.is_inexact and op.dtype.is_inexact else None


def _cast_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    both = op.in_.dtype.is_inexact and op.dtype.is_inexact
    return {"in": ops.cast(dy, dtype=op.in_.dtype) if both else None}


def _cast_parts(ops: PartsBuilder, op: Call) -> Value:
    """A real number has no imaginary part; of a complex number that becomes real the imaginary part is lost."""
    part = op.dtype.part
    if not op.in_.dtype.is_complex:
        re = ops.call("cast", op.in_, dtype=part)[0]
        return ops.pair(re, ops.zero_like(re))
    re, im = (ops.call("cast", x, dtype=part)[0] for x in ops.parts(op.in_))
    if op.dtype.is_complex:
        return ops.pair(re, im)
    return ops.broadcast_logical_or(re, im) if part is dtypes.bool_ else re


def _cast_reference(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    if dtype is dtypes.bool_:
        array: np.ndarray = x != 0
        return array
    return dtypes.convert(x if dtype.is_complex or x.dtype.kind != "c" else x.real, dtype)


def is_lossless(source: DType, through: DType) -> bool:
    """Whether every value of `source` is one of `through`."""
    if source == through or source.kind == "bool":
        return True
    if source.is_float:
        return through.is_float and source.bits < through.bits
    if source.kind == "uint":
        return through.is_integer and source.bits < through.bits
    return through.kind == "int" and source.bits < through.bits


def _there_and_back(ops: Any, op: Call) -> Value | None:
    inner = ops.producer(op.in_, "cast")
    if inner is None or inner.in_.dtype != op.dtype or not is_lossless(op.dtype, inner.dtype):
        return None
    original: Value = inner.in_
    return original


elementwise(
    "cast(in, dtype: data_type, pin_memory: bool = False) -> out",
    "Elements converted: to bool by != 0, from float to integer towards 0, between integers by wrapping, from"
    " complex to real without the imaginary part.",
    scalar=lambda x, *, dtype: s.cast(x, dtype),
    reference=_cast_reference, parts=_cast_parts,
    types=lambda op: TensorDesc(op.in_.shape, op.dtype), linear=_cast_linear, grad=_cast_gradient,
    laws=(
        neutral("cast-to-same", "cast to the present type", lambda op: op.in_.dtype == op.dtype),
        Law("cast-there-and-back", "a cast to a type that holds every value, and back", _there_and_back),
    ),
)  # fmt: skip
