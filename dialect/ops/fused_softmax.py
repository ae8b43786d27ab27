"""Fused softmaxes: of scaled, masked or triangular scores, with a bias before and dropout after.

The mask of dropout is an operand; `random_mask_like` draws masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite, gradient_operator
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import last_axis_whole, narrow, widen
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import broadcast_shapes, expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def _masked(ops: Builder, op: Call) -> Value:
    """softmax of scaled elements, those where the mask is 0 replaced by `mask_fill_value`; in f32 at least."""
    total = widen(ops, op.x) if op.inputs.get("bias") is None else widen(ops, op.x) + widen(ops, op.bias)
    gone = ops.logical_not(ops.cast(op.mask, dtype=dtypes.bool_))
    filled = ops.masked_fill(total * op.scale_value, gone, has_float_operand=True, float_operand=op.mask_fill_value)
    value: Value = ops.softmax(filled)
    return value


def _tril(ops: Builder, x: Value, diagonal: int, fill: float) -> Value:
    value: Value = ops.tril(x, diagonal=diagonal, floating_fill_value=fill, is_floating_fill_value=True)
    return value


def _lower(ops: Builder, op: Call) -> Value:
    """softmax of the scaled lower triangle, above which elements are `tril_fill_value`; in f32 at least."""
    value: Value = ops.softmax(_tril(ops, widen(ops, op.x) * op.tril_scale_value, op.diagonal, op.tril_fill_value))
    return value


def _check_mask(op: Call) -> None:
    x = op.x if "x" in op.inputs else op.dy
    expect_dtype(op, "the first operand", op.operands[0], dtypes.FLOATS)
    expect_dtype(op, "mask", op.mask, (dtypes.bool_,))
    for name in ("softmax_y", "dropout_mask"):
        if name in op.inputs:
            expect_type(op, name, TensorDesc(x.shape, x.dtype if name == "softmax_y" else dtypes.bool_))
    expect_rank(op, "mask", op.mask, x.rank)
    for i, size in enumerate(op.mask.shape):
        if size != 1:
            expect_dim(op, f"axis {i} of mask", size, x.shape[i])


def _numpy_softmax(x: Any) -> Any:
    return scipy.special.softmax(x, -1) if x.size else x


def _numpy_masked_softmax(x: Any, mask: Any, *, scale_value: Any, mask_fill_value: Any) -> Any:
    scaled = np.where(mask, x.astype(np.float64) * np.float32(scale_value), np.float32(mask_fill_value))
    return _numpy_softmax(scaled).astype(x.dtype)


def _rows(op: Call) -> Factors:
    """Every axis but the last can be split."""
    rank = op.results[0].rank
    row = [f"d{i}" for i in range(rank - 1)] + ["_"]
    sides = (" ".join(row) for _ in op.operands)
    return Factors(f"{', '.join(sides)} -> {', '.join([' '.join(row)] * len(op.results))}")


composite(
    "fused_scale_mask_softmax(x, mask, scale_value: float = 1.0, mask_fill_value: float = 0.0) -> y",
    "softmax(x * scale_value), where the mask is false of mask_fill_value instead.",
    write=lambda ops, op: narrow(ops, _masked(ops, op), op.x.dtype), reference=_numpy_masked_softmax,
    check=_check_mask, sbp=_rows,
)  # fmt: skip


def _write_masked_softmax_grad(ops: Builder, op: Call) -> Value:
    grad = ops.softmax_grad(widen(ops, op.y), widen(ops, op.dy)) * op.scale_value
    kept = ops.where(op.mask, grad, ops.zero_like(grad))
    return narrow(ops, kept, op.dy.dtype)


def _numpy_softmax_grad(y: Any, dy: Any) -> Any:
    y, dy = y.astype(np.float64), dy.astype(np.float64)
    return y * (dy - (y * dy).sum(-1, keepdims=True))


composite(
    "fused_scale_mask_softmax_grad(y, dy, mask, scale_value: float = 0.0) -> dx",
    "The gradient of `fused_scale_mask_softmax`.", write=_write_masked_softmax_grad, check=_check_mask,
    sbp=lambda op: _rows(op).linear_in(op, "dy"),
    reference=lambda y, dy, mask, *, scale_value: np.where(
        mask, _numpy_softmax_grad(y, dy) * np.float32(scale_value), 0
    ).astype(dy.dtype),
)  # fmt: skip


def _write_bias_softmax(ops: Builder, op: Call) -> Value:
    total = widen(ops, op.x) * op.scale + widen(ops, op.mask)
    total = total if op.bias is None else total + widen(ops, op.bias)
    return narrow(ops, ops.softmax(total), op.x.dtype)


def _numpy_bias_softmax(x: Any, mask: Any, bias: Any, *, scale: Any) -> Any:
    total = x.astype(np.float64) * np.float32(scale) + mask
    return _numpy_softmax(total if bias is None else total + bias).astype(x.dtype)


def _broadcast_rows(op: Call) -> Factors:
    """Every axis but the last can be split; the operands are aligned at the last axis."""
    names = [*(f"d{i}" for i in range(op.results[0].rank - 1)), "_"]
    sides = [" ".join(names[len(names) - d.rank :]) for d in op.operands]
    return Factors(f"{', '.join(sides)} -> {' '.join(names)}")


composite(
    "fused_scale_mask_bias_softmax(x, mask, bias?, scale: float = 0.125, inplace: bool = False) -> out",
    "softmax(x * scale + mask + bias).", write=_write_bias_softmax, reference=_numpy_bias_softmax,
    sbp=_broadcast_rows,
)  # fmt: skip
composite(
    "fused_scale_mask_bias_softmax_grad(y, dy, scale: float = 0.35355) -> dx",
    "The gradient of `fused_scale_mask_bias_softmax` with respect to x.",
    write=lambda ops, op: narrow(ops, ops.softmax_grad(widen(ops, op.y), widen(ops, op.dy)) * op.scale, op.dy.dtype),
    reference=lambda y, dy, *, scale: (_numpy_softmax_grad(y, dy) * np.float32(scale)).astype(dy.dtype),
    sbp=lambda op: last_axis_whole(op).linear_in(op, "dy"),
)  # fmt: skip

# Dropout after a softmax


def _with_dropout(softmax: Rule, mask: str, scale: str) -> Rule:
    """The decomposition of a softmax and of its elements where the operand `mask` is true, times `scale`."""

    def write(ops: Builder, op: Call) -> tuple[Value, ...]:
        y = softmax(ops, op)
        return tuple(narrow(ops, v, op.x.dtype) for v in (ops.dropout_grad(y, op[mask], scale=op[scale]), y))

    return write


def _numpy_dropout(y: Any, mask: Any, scale: Any, dtype: Any) -> tuple[Any, Any]:
    return np.where(mask, y * np.float32(scale), 0).astype(dtype), y.astype(dtype)


def _numpy_masked_dropout(
    x: Any, mask: Any, kept: Any, *, scale_value: Any, mask_fill_value: Any, dropout_scale_value: Any
) -> Any:
    y = _numpy_masked_softmax(x.astype(np.float64), mask, scale_value=scale_value, mask_fill_value=mask_fill_value)
    return _numpy_dropout(y, kept, dropout_scale_value, x.dtype)


SCALES = "scale_value: float = 1.0, mask_fill_value: float = 0.0, dropout_scale_value: float = 1.0"
composite(
    f"fused_scale_mask_softmax_dropout(x, mask, dropout_mask, {SCALES}) -> y, softmax_y",
    "`fused_scale_mask_softmax` times `dropout_scale_value` where `dropout_mask` is true, else 0; and the value "
    "before dropout.",
    write=_with_dropout(_masked, "dropout_mask", "dropout_scale_value"), reference=_numpy_masked_dropout,
    check=_check_mask, sbp=_rows,
    grad=gradient_operator("fused_scale_mask_softmax_dropout_grad", "x"),
)  # fmt: skip


def _write_masked_dropout_grad(ops: Builder, op: Call) -> Value:
    dropped = ops.dropout_grad(widen(ops, op.dy), op.dropout_mask, scale=op.dropout_scale_value)
    grad = ops.softmax_grad(widen(ops, op.softmax_y), dropped) * op.scale_value
    return narrow(ops, ops.where(op.mask, grad, ops.zero_like(grad)), op.dy.dtype)


composite(
    "fused_scale_mask_softmax_dropout_grad(softmax_y, dy, mask, dropout_mask, scale_value: float = 0.0,"
    " dropout_scale_value: float = 0.0) -> dx",
    "The gradient of `fused_scale_mask_softmax_dropout`.",
    write=_write_masked_dropout_grad, check=_check_mask, sbp=lambda op: _rows(op).linear_in(op, "dy"),
    reference=lambda y, dy, mask, kept, *, scale_value, dropout_scale_value: np.where(
        mask, _numpy_softmax_grad(y, np.where(kept, dy * np.float64(np.float32(dropout_scale_value)), 0))
        * np.float32(scale_value), 0,
    ).astype(dy.dtype),
)  # fmt: skip


def _check_bias(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_dtype(op, "mask", op.mask, (dtypes.bool_, *dtypes.INTEGERS))
    expect_dtype(op, "bias", op.bias, (op.x.dtype,))
    expect_type(op, "dropout_mask", TensorDesc(op.x.shape, dtypes.bool_))
    for name in ("bias", "mask"):
        shape = broadcast_shapes(op, [op.x.shape, op[name].shape])
        if len(shape) != op.x.rank or not TensorDesc(shape, op.x.dtype).compatible(op.x):
            raise op.error(f"expected {name} of a shape that broadcasts to the shape of x, {op.x}, got {op[name]}")


def _numpy_biased_dropout(x: Any, bias: Any, mask: Any, kept: Any, **scales: Any) -> Any:
    y, softmax = _numpy_masked_dropout(x.astype(np.float64) + bias, mask != 0, kept, **scales)
    return y.astype(x.dtype), softmax.astype(x.dtype)


def _biased_rows(op: Call) -> Factors:
    """The factors of `_broadcast_rows`; axes in which every operand has one element cannot be split."""
    names = [*(f"d{i}" for i in range(op.x.rank - 1)), "_"]
    sides = [" ".join(names[len(names) - d.rank :]) for d in op.operands]
    return Factors(f"{', '.join(sides)} -> {', '.join([' '.join(names)] * 2)}")


composite(
    f"fused_bias_add_scale_mask_softmax_dropout(x, bias, mask, dropout_mask, {SCALES}) -> y, softmax_y",
    "`fused_scale_mask_softmax_dropout` of x + bias.",
    write=_with_dropout(_masked, "dropout_mask", "dropout_scale_value"), reference=_numpy_biased_dropout,
    check=_check_bias, sbp=_biased_rows,
)  # fmt: skip


def _check_triangle(op: Call) -> None:
    x = op.x if "x" in op.inputs else op.dy
    expect_dtype(op, "the first operand", op.operands[0], dtypes.FLOATS)
    expect_rank(op, "the first operand", op.operands[0], 2, -1)
    expect_type(op, "mask", TensorDesc(x.shape, dtypes.bool_))
    if "softmax_y" in op.inputs:
        expect_type(op, "softmax_y", x)


def _triangles(op: Call) -> Factors:
    """Every axis but the last two can be split."""
    triangle = " ".join([*(f"d{i}" for i in range(op.operands[0].rank - 2)), "_", "_"])
    return Factors(f"{', '.join([triangle] * len(op.operands))} -> {', '.join([triangle] * len(op.results))}")


def _below(x: Any, diagonal: int) -> Any:
    """The mask of the lower triangle."""
    return np.tril(np.ones(x.shape[-2:], np.bool_), diagonal)


def _numpy_triangle(
    x: Any, mask: Any, *, diagonal: Any, tril_fill_value: Any, tril_scale_value: Any, mask_scale_value: Any
) -> Any:
    scaled = x.astype(np.float64) * np.float32(tril_scale_value)
    y = _numpy_softmax(np.where(_below(x, diagonal), scaled, np.float32(tril_fill_value)))
    return _numpy_dropout(y, mask, mask_scale_value, x.dtype)


composite(
    "fused_tril_scale_softmax_mask_scale(x, mask, diagonal: int64 = 0, tril_fill_value: float = 0.0,"
    " tril_scale_value: float = 1.0, mask_scale_value: float = 1.0) -> y, softmax_y",
    "softmax(x * tril_scale_value), above the diagonal of tril_fill_value instead; times mask_scale_value where the"
    " mask is true, else 0; and before that.",
    write=_with_dropout(_lower, "mask", "mask_scale_value"), reference=_numpy_triangle, check=_check_triangle,
    sbp=_triangles, grad=gradient_operator("fused_tril_scale_softmax_mask_scale_grad", "x"),
)  # fmt: skip


def _write_triangle_grad(ops: Builder, op: Call) -> Value:
    dropped = ops.dropout_grad(widen(ops, op.dy), op.mask, scale=op.mask_scale_value)
    grad = ops.softmax_grad(widen(ops, op.softmax_y), dropped) * op.tril_scale_value
    return narrow(ops, _tril(ops, grad, op.diagonal, 0.0), op.dy.dtype)


composite(
    "fused_tril_scale_softmax_mask_scale_grad(softmax_y, dy, mask, diagonal: int64 = 0,"
    " tril_scale_value: float = 0.0, mask_scale_value: float = 0.0) -> dx",
    "The gradient of `fused_tril_scale_softmax_mask_scale`.",
    write=_write_triangle_grad, check=_check_triangle, sbp=lambda op: _triangles(op).linear_in(op, "dy"),
    reference=lambda y, dy, mask, *, diagonal, tril_scale_value, mask_scale_value: np.where(
        _below(y, diagonal),
        _numpy_softmax_grad(y, np.where(mask, dy * np.float64(np.float32(mask_scale_value)), 0))
        * np.float32(tril_scale_value), 0,
    ).astype(dy.dtype),
)  # fmt: skip
