"""Maxima and minima in two stages: of the elements of each device, then of the results of all devices.

The first stage counts the elements that equal its result, and the second one spreads gradients by these counts: every
element of the whole tensor that equals the extreme receives the same share. A program here has both stages on one
device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.reduce import reduced_shape
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

INT32, BOOL = dtypes.int32, dtypes.bool_


def _axes(op: Call, rank: int) -> tuple[int, ...]:
    return tuple(sorted(op.normalize_axes(op.axis, rank))) or tuple(range(rank))


def _check(op: Call) -> None:
    expect_dtype(op, "in", op.in_, dtypes.NUMERIC)
    axes = _axes(op, op.in_.rank)
    if any(op.in_.shape[i] == 0 for i in axes):
        raise op.error(f"expected at least one element along axes {list(axes)}, got {op.in_}")
    if "device_count" in op.inputs:
        expect_type(op, "device_count", TensorDesc(op.in_.shape, INT32))


def _check_gradient(op: Call) -> None:
    axes = _axes(op, op.mask.rank)
    expect_dtype(op, "mask", op.mask, (BOOL,))
    expect_dtype(op, "out_diff", op.out_diff, dtypes.FLOATS)
    keepdims = op.attrs.get("keepdims", True)
    expect_type(op, "out_diff", TensorDesc(reduced_shape(op.mask.shape, axes, keepdims), op.out_diff.dtype))
    if "count" in op.inputs:
        expect_type(op, "count", TensorDesc(op.out_diff.shape, INT32))
    else:
        expect_type(op, "device_count", TensorDesc(op.mask.shape, INT32))


def _spread(ops: Builder, op: Call, value: Value, like: Value, axes: tuple[int, ...]) -> Value:
    """A result of the reduction broadcast along the reduced axes."""
    missing = axes if value.rank < like.rank else ()
    return ops.call("broadcast_like", value, like, broadcast_axes=missing)[0]


def _extreme(ops: Builder, op: Call, reduce: str, keepdims: bool) -> tuple[Value, Value]:
    """The extreme along the axes, and the elements that equal the extreme."""
    axes = _axes(op, op.in_.rank)
    out = ops.call(reduce, op.in_, axis=axes, keepdims=keepdims)[0]
    return out, ops.broadcast_equal(op.in_, _spread(ops, op, out, op.in_, axes))


def _write_device(reduce: str) -> Rule:
    def write(ops: Builder, op: Call) -> tuple[Value, ...]:
        out, mask = _extreme(ops, op, reduce, True)
        count = ops.reduce_sum(ops.cast(mask, dtype=INT32), axis=_axes(op, op.in_.rank), keepdims=True)
        return out, mask, count

    return write


def _write_global(reduce: str) -> Rule:
    return lambda ops, op: _extreme(ops, op, reduce, op.keepdims)


def _write_device_gradient(ops: Builder, op: Call) -> Value:
    axes = _axes(op, op.mask.rank)
    share = op.out_diff / ops.cast(op.count, dtype=op.out_diff.dtype)
    masked: Value = _spread(ops, op, share, op.mask, axes) * ops.cast(op.mask, dtype=op.out_diff.dtype)
    return masked


def _write_global_gradient(ops: Builder, op: Call) -> Value:
    axes = _axes(op, op.mask.rank)
    counts = op.device_count * ops.cast(op.mask, dtype=INT32)
    total = ops.reduce_sum(counts, axis=axes, keepdims=op.keepdims)
    share = op.out_diff / ops.cast(total, dtype=op.out_diff.dtype)
    scaled: Value = _spread(ops, op, share, op.mask, axes) * ops.cast(counts, dtype=op.out_diff.dtype)
    return scaled


def _numpy_axes(x: Any, axis: Any) -> tuple[int, ...]:
    return tuple(axis) or tuple(range(x.ndim))


def _numpy_device(reduce: Callable[..., Any]) -> Rule:
    def reference(x: Any, *, axis: Any) -> tuple[Any, ...]:
        out = reduce(x, axis=_numpy_axes(x, axis), keepdims=True)
        mask = x == out
        return out, mask, mask.sum(_numpy_axes(x, axis), keepdims=True, dtype=np.int32)

    return reference


def _numpy_global(reduce: Callable[..., Any]) -> Rule:
    def reference(x: Any, device_count: Any, *, axis: Any, keepdims: Any) -> tuple[Any, ...]:
        out = reduce(x, axis=_numpy_axes(x, axis), keepdims=True)
        mask = x == out
        return out if keepdims else np.squeeze(out, _numpy_axes(x, axis)), mask

    return reference


def _numpy_device_gradient(out_diff: Any, mask: Any, count: Any) -> Any:
    return (out_diff.astype(np.float64) / count * mask).astype(out_diff.dtype)


def _numpy_global_gradient(out_diff: Any, mask: Any, device_count: Any, *, axis: Any, keepdims: Any) -> Any:
    axes, counts = _numpy_axes(mask, axis), device_count * mask
    wide = out_diff.astype(np.float64)
    share = (wide if keepdims else np.expand_dims(wide, axes)) / counts.sum(axes, keepdims=True)
    return (share * counts).astype(out_diff.dtype)


def _names(op: Call, rank: int, keepdims: bool) -> tuple[str, str]:
    """The factors of a tensor whose reduced axes stay whole, and of a result of the reduction."""
    axes = _axes(op, rank)
    names = ["_" if i in axes else f"d{i}" for i in range(rank)]
    return " ".join(names), " ".join(reduced_shape(names, axes, False) if not keepdims else names)


def _device_factors(op: Call) -> Factors:
    operand, out = _names(op, op.in_.rank, True)
    return Factors(f"{operand} -> {out}, {operand}, {out}")


def _global_factors(op: Call) -> Factors:
    operand, out = _names(op, op.in_.rank, op.keepdims)
    return Factors(f"{operand}, {operand} -> {out}, {operand}")


def _device_gradient_factors(op: Call) -> Factors:
    """The mask is split along reduced axes too."""
    out, mask = _names(op, op.mask.rank, True)[1], " ".join(f"d{i}" for i in range(op.mask.rank))
    return Factors(f"{out}, {mask}, {out} -> {mask}").linear_in(op, "out_diff")


def _global_gradient_factors(op: Call) -> Factors:
    operand, out = _names(op, op.mask.rank, op.keepdims)
    return Factors(f"{out}, {operand}, {operand} -> {operand}").linear_in(op, "out_diff")


def _stages(kind: str, numpy: Callable[..., Any]) -> None:
    device, global_stage = f"reduce_{kind}_device_stage", f"reduce_{kind}_global_stage"
    axis, axes = "axis: list_int32", "axis: list_int32, keepdims: bool = False"

    def device_grad(ops: Builder, op: Call, dout: Value | None, *_: None) -> dict[str, Any]:
        return {"in": lambda: ops.call(f"{device}_grad", dout, op.mask, op.count, **op.attrs)[0]}

    def global_grad(ops: Builder, op: Call, dout: Value | None, *_: None) -> dict[str, Any]:
        return {"in": lambda: ops.call(f"{global_stage}_grad", dout, op.mask, op.device_count, **op.attrs)[0]}

    composite(
        f"{device}(in, {axis}) -> out, mask, count",
        f"The {kind}imum along `axis`, which stays with size 1; the elements that equal it; and how many (i32).",
        write=_write_device(f"reduce_{kind}"), reference=_numpy_device(numpy), check=_check, grad=device_grad,
        sbp=_device_factors, depth=2,
    )  # fmt: skip
    composite(
        f"{device}_grad(out_diff, mask, count, {axis}) -> in_diff",
        f"The gradient of `{device}`: the elements of `mask` share out_diff evenly.",
        write=_write_device_gradient, reference=_numpy_device_gradient, check=_check_gradient,
        sbp=_device_gradient_factors, depth=2,
    )  # fmt: skip
    composite(
        f"{global_stage}(in, device_count, {axes}) -> out, mask",
        f"The {kind}imum along `axis` of results of the first stage, and the elements that equal it.\n\n"
        "The counts of the first stage, `device_count`, are for the gradient.",
        write=_write_global(f"reduce_{kind}"), reference=_numpy_global(numpy), check=_check, grad=global_grad,
        sbp=_global_factors, shapes_of=("device_count",), depth=2,
    )  # fmt: skip
    composite(
        f"{global_stage}_grad(out_diff, mask, device_count, {axes}) -> in_diff",
        f"The gradient of `{global_stage}`: the elements of `mask` share out_diff in proportion to `device_count`.",
        write=_write_global_gradient, reference=_numpy_global_gradient, check=_check_gradient,
        sbp=_global_gradient_factors, depth=2,
    )  # fmt: skip


_stages("max", np.max)
_stages("min", np.min)
