"""Quantization of tensors: observers of the range, and rounding to the integers of a few bits.

A scale is for the whole tensor, or for each slice along the first axis. The formula "google" divides by the scale,
"cambricon" by 2 to the power of the scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, Rule, no_grad, no_sbp
from oneflow.dialect.sbp import Factors, SbpSignature, all_broadcast, with_partial_shape_operands
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import TensorDesc

ATTRS = (
    "quantization_formula: string = 'google', quantization_bit: int32 = 8, quantization_scheme: string = 'symmetric'"
)


def _check_attributes(op: Call) -> None:
    if op.quantization_formula not in ("google", "cambricon") or op.quantization_scheme not in (
        "symmetric",
        "affine",
    ):
        raise op.error(
            "expected quantization_formula google or cambricon and quantization_scheme symmetric or affine, got "
            f"{op.quantization_formula!r} and {op.quantization_scheme!r}"
        )
    if not 1 < op.quantization_bit <= 8:
        raise op.error(f"expected quantization_bit from 2 to 8, got {op.quantization_bit}")
    expect_dtype(op, "in", op.in_, dtypes.FLOATS)
    expect_rank(op, "in", op.in_, 1, -1)


def _check_observer(op: Call) -> None:
    _check_attributes(op)
    if 0 in op.in_.shape[0 if _is_per_tensor(op.attrs) else 1 :]:
        raise op.error(f"expected at least one element in in, got {op.in_}")


def _check_scales(op: Call) -> None:
    _check_attributes(op)
    for name in ("scale", "zero_point"):
        expect_dtype(op, name, op[name], (op.in_.dtype,))
        expect_rank(op, name, op[name], 1)
        size = op[name].shape[0]
        if size is None:
            raise op.error(f"expected a static size of {name}, got {op[name]}")
        if size != 1:
            expect_dim(op, f"the size of {name}", size, op.in_.shape[0])


#: The scale of a range without extent; division by 0 would make every element NaN.
MIN_SCALE = 2.0**-23


def _is_per_tensor(attrs: Any) -> bool:
    """Whether the tensor has one scale."""
    return bool(attrs["per_layer_quantization"] or attrs["quantization_formula"] == "cambricon")


def _is_affine(attrs: Any) -> bool:
    return bool(attrs["quantization_formula"] == "google" and attrs["quantization_scheme"] == "affine")


def _range(ops: Builder, op: Call, per_layer: bool) -> tuple[Value, Value]:
    """The largest and the smallest element of `in`, or of each of its slices."""
    x = widen(ops, op.in_)
    axes = list(range(0 if per_layer else 1, x.rank))
    high, low = ((f(x, axis=axes) if axes else x) for f in (ops.reduce_max, ops.reduce_min))
    high, low = (ops.reshape(v, shape=[1]) if per_layer else v for v in (high, low))
    return high, low


def _positive(ops: Builder, op: Call, x: Value) -> Value:
    """`x`, MIN_SCALE where the value is 0 in the element type of `in`."""
    is_zero = ops.call("scalar_logical_equal", narrow(ops, x, op.in_.dtype), has_float_operand=True)[0]
    positive: Value = ops.where(is_zero, ops.zero_like(x) + MIN_SCALE, x)
    return positive


def _scaled(
    ops: Builder, op: Call, high: Value, low: Value, rounded: Callable[[Builder, Value], Value]
) -> list[Value]:
    """The scale and the zero point of a range; `high` is the largest absolute value but for the affine scheme."""
    bits = op.quantization_bit
    if _is_affine(op.attrs):
        scale = _positive(ops, op, (high - low) * (1 / (2**bits - 1)))
        return [scale, -rounded(ops, low / scale)]
    if op.quantization_formula == "cambricon":
        scale = ops.floor(ops.log2(_positive(ops, op, high))) - (bits - 2)
    else:
        scale = _positive(ops, op, high * (1 / (2 ** (bits - 1) - 1)))
    return [scale, ops.zero_like(scale)]


def _numpy_scaled(high: Any, low: Any, rounded: Any, dtype: Any, bits: int, attrs: Any) -> tuple[Any, Any]:
    """The same in NumPy."""

    def positive(x: Any) -> Any:
        return np.where(x.astype(dtype).astype(np.float64) == 0, MIN_SCALE, x)

    if _is_affine(attrs):
        scale = positive((high - low) / (2**bits - 1))
        return scale, -rounded(low / scale)
    if attrs["quantization_formula"] == "cambricon":
        scale = np.floor(np.log2(positive(high))) - (bits - 2)
    else:
        scale = positive(high / (2 ** (bits - 1) - 1))
    return scale, np.zeros_like(scale)


def _observe(ops: Builder, op: Call) -> tuple[Value, ...]:
    high, low = _range(ops, op, _is_per_tensor(op.attrs))
    if not _is_affine(op.attrs):
        high = ops.broadcast_maximum(ops.abs(high), ops.abs(low))
    found = _scaled(ops, op, high, low, lambda ops, x: ops.call("rint", x)[0])
    return tuple(narrow(ops, v, op.in_.dtype) for v in found)


def _numpy_observe(x: Any, *, quantization_bit: Any, per_layer_quantization: Any, **attrs: Any) -> Any:
    per_layer = per_layer_quantization or attrs["quantization_formula"] == "cambricon"
    rows = x.astype(np.float64).reshape((1, x.size) if per_layer else (x.shape[0], math.prod(x.shape[1:])))
    high = rows.max(1) if _is_affine(attrs) else np.abs(rows).max(1)
    scaled = _numpy_scaled(high, rows.min(1), np.rint, x.dtype, quantization_bit, attrs)
    return tuple(v.astype(x.dtype) for v in scaled)


def _observer_factors(op: Call) -> Factors:
    rest = " ".join("_" * (op.in_.rank - 1))
    return Factors(f"_ {rest} -> _, _" if _is_per_tensor(op.attrs) else f"c {rest} -> c, c")


composite(
    f"min_max_observer(in, {ATTRS}, per_layer_quantization: bool = True) -> scale, zero_point",
    "The scale and the zero point for the range of `in`, or of each of its slices along the first axis.\n\n"
    "A range without extent has the scale 2^-23 instead of 0: the least scale of PyTorch's observers.",
    write=_observe, reference=_numpy_observe, check=_check_observer, sbp=_observer_factors,
    grad=no_grad("a range is observed"),
)  # fmt: skip


def _check_moving(op: Call) -> None:
    _check_attributes(op)
    if op.stop_update_after_iters < 1:
        raise op.error(f"expected stop_update_after_iters of at least 1, got {op.stop_update_after_iters}")
    if 0 in op.in_.shape:
        raise op.error(f"expected at least one element in in, got {op.in_}")
    for name, dtype in (
        ("current_train_step", dtypes.int64), ("moving_max", op.in_.dtype), ("moving_min", op.in_.dtype),
    ):  # fmt: skip
        expect_type(op, name, TensorDesc((1,), dtype))


def _rounded(ops: Builder, x: Value) -> Value:
    """The nearest integers, halves away from zero, as C rounds."""
    negative = ops.scalar_logical_less(x, has_float_operand=True, float_operand=0.0)
    rounded: Value = ops.where(negative, ops.ceil(x - 0.5), ops.floor(x + 0.5))
    return rounded


def _averaged(ops: Builder, op: Call, old: Value, value: Value) -> Value:
    """A running average with one more `value`; an average of 0 has no values yet."""
    begun = ops.cast(old, dtype=dtypes.bool_)
    average: Value = ops.where(begun, old * op.momentum + value * (1.0 - op.momentum), value)
    return average


def _moving_range(ops: Builder, op: Call) -> list[Value]:
    """The running averages of the largest and the smallest element; one of both where the range is symmetric."""
    olds = [widen(ops, op[name]) for name in ("moving_max", "moving_min")]
    if not op.training:
        return olds
    high, low = _range(ops, op, True)
    if _is_affine(op.attrs):
        news = [_averaged(ops, op, old, value) for old, value in zip(olds, (high, low), strict=True)]
    else:
        news = [_averaged(ops, op, olds[0], ops.broadcast_maximum(ops.abs(high), ops.abs(low)))] * 2
    most = op.stop_update_after_iters
    goes_on = ops.scalar_logical_less_equal(op.current_train_step, has_int_operand=True, int_operand=most)
    return [ops.where(goes_on, new, old) for new, old in zip(news, olds, strict=True)]


def _write_moving(ops: Builder, op: Call) -> tuple[Value, ...]:
    high, low = _moving_range(ops, op)
    return tuple(narrow(ops, v, op.in_.dtype) for v in (*_scaled(ops, op, high, low, _rounded), high, low))


def _numpy_moving(x: Any, step: Any, moving_max: Any, moving_min: Any, **attrs: Any) -> tuple[Any, ...]:
    high, low = (float(v.reshape(())) for v in (moving_max, moving_min))
    affine = _is_affine(attrs)
    if attrs["training"] and int(step.reshape(())) <= attrs["stop_update_after_iters"]:
        top, bottom = (float(v) for v in (x.max(), x.min()))
        top = top if affine else max(abs(top), abs(bottom))
        share = attrs["momentum"]
        high = high * share + top * (1 - share) if high else top
        low = (low * share + bottom * (1 - share) if low else bottom) if affine else high
    ends = np.asarray([high]), np.asarray([low])
    found = _numpy_scaled(*ends, _numpy_rounded, x.dtype, attrs["quantization_bit"], attrs)
    return tuple(v.astype(x.dtype) for v in (*found, *ends))


def _numpy_rounded(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


composite(
    "moving_average_min_max_observer(in, current_train_step, moving_max, moving_min, training: bool = False,"
    f" stop_update_after_iters: int64 = 0, {ATTRS}, momentum: float = 0.95)"
    " -> scale, zero_point, moving_max_out, moving_min_out",
    "The scale and the zero point for running averages of the range of `in`, and the new averages.\n\n"
    "The averages change in training up to step `stop_update_after_iters`. The symmetric scheme and the formula"
    " `cambricon` read `moving_max` alone.",
    write=_write_moving, reference=_numpy_moving, check=_check_moving,
    sbp=no_sbp("needs the range of the whole tensor"), grad=no_grad("a range is observed"),
)  # fmt: skip


def _slices(ops: Builder, x: Value, like: Value) -> Value:
    """A scale for each slice of `like` along the first axis, or one for all."""
    return ops.call("reshape", widen(ops, x), shape=[x.shape[0], *[1] * (like.rank - 1)])[0]


def _write(restores: bool) -> Rule:
    def write(ops: Builder, op: Call) -> Value:
        scale = _slices(ops, op.scale, op.in_)
        if op.quantization_formula == "cambricon":
            scale = ops.exp2(ops.trunc(scale))
        bits, affine = op.quantization_bit, _is_affine(op.attrs)
        zero = ops.rint(_slices(ops, op.zero_point, op.in_)) if affine else None
        steps = widen(ops, op.in_) / scale
        low = 0 if affine else -(2 ** (bits - 1))
        rounded = ops.clip_by_scalar(
            ops.rint(steps if zero is None else steps + zero),
            floating_min=float(low),
            floating_max=float(low + 2**bits - 1),
        )
        if restores:
            rounded = (rounded if zero is None else rounded - zero) * scale
        return narrow(ops, rounded, op.in_.dtype)

    return write


def _reference(restores: bool) -> Rule:
    def reference(x: Any, scale: Any, zero_point: Any, *, quantization_bit: Any, **attrs: Any) -> Any:
        scale, zero = (v.astype(np.float64).reshape(-1, *[1] * (x.ndim - 1)) for v in (scale, zero_point))
        if attrs["quantization_formula"] == "cambricon":
            scale = np.exp2(np.trunc(scale))
        affine = _is_affine(attrs)
        zero, low = (np.rint(zero), 0) if affine else (0, -(2 ** (quantization_bit - 1)))
        rounded = np.clip(np.rint(x.astype(np.float64) / scale + zero), low, low + 2**quantization_bit - 1)
        return ((rounded - zero) * scale if restores else rounded).astype(x.dtype)

    return reference


def _signatures(op: Call) -> list[SbpSignature]:
    """Splits of every axis; the zero point is read by the affine scheme alone."""
    names = letters(op.in_.shape)
    sides = ("_" if op[name].shape[0] == 1 else names[0] for name in ("scale", "zero_point"))
    factors = Factors(f"{' '.join(names)}, {', '.join(sides)} -> {' '.join(names)}")
    signatures = [*factors.signatures([d.shape for d in op.operands]), all_broadcast(3, 1)]
    return signatures if _is_affine(op.attrs) else [*signatures, *with_partial_shape_operands(signatures, [2])]


composite(
    f"quantization(in, scale, zero_point, {ATTRS}) -> out",
    "`in` as integers of a few bits, in the element type of `in`.",
    write=_write(False), reference=_reference(False), check=_check_scales, sbp=_signatures,
    grad=no_grad("integers have no derivative"),
)  # fmt: skip
composite(
    f"fake_quantization(in, scale, zero_point, {ATTRS}) -> out",
    "`in` after quantization and dequantization. The gradient is that of the identity (straight-through estimator).",
    write=_write(True), reference=_reference(True), check=_check_scales, sbp=_signatures,
    grad=lambda ops, op, dout: {"in": dout},
)  # fmt: skip
