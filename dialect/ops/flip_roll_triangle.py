"""Operators that keep a tensor's shape and move its elements (flip, roll), or keep a part of the elements (tril,
triu).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part, on_each
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.ops.movement import same_axes
from oneflow.dialect.record import Call, Law, operator
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.shapes import expect_fill, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def move(x: Stage, source: Callable[[tuple[Any, ...]], Sequence[Any]]) -> Stage:
    """The tensor of the shape of `x` whose element at a position is the element of `x` at `source(position)`."""
    return c.element_wise(x.shape, lambda *i: x[tuple(source(i))], x.dtype)


def _cancel_flips(ops: Builder, op: Call) -> Value | None:
    inner = ops.producer(op.x, "flip")
    rank = op.x.rank
    same = inner is not None and {d % rank for d in inner.dims} == {d % rank for d in op.dims}
    return inner.x if same else None


@operator("flip(x, dims: list_int32) -> y")
class Flip:
    """`x` with the order of elements along `dims` reversed."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        op.normalize_axes(op.dims, op.x.rank, "dims")
        desc: TensorDesc = op.x
        return desc

    def sbp(op: Call) -> Factors:
        return same_axes(op, op.x, op.normalize_axes(op.dims, op.x.rank, "dims"))

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": ops.flip(dy, dims=op.dims)}

    def compute(op: Call) -> Stage:
        dims = op.normalize_axes(op.dims, op.x.rank, "dims")
        sizes = [c.as_expr(d) for d in op.x.shape]
        return move(op.x, lambda at: [sizes[k] - 1 - i if k in dims else i for k, i in enumerate(at)])

    def reference(x: Any, *, dims: Any) -> Any:
        return np.flip(x, tuple(dims))

    laws = (
        Law("cancel-flips", "flip(flip(x, dims), dims) = x", _cancel_flips),
        Law("identity-flip", "flip(x, []) = x", lambda ops, op: None if op.dims else op.x),
    )


def _shifts(op: Call, rank: int) -> dict[int, int]:
    """The shift along each rolled axis; shifts of an axis named several times add up."""
    total: dict[int, int] = {}
    for dim, shift in zip(op.dims, op.shifts, strict=True):
        axis = op.normalize_axis(dim, rank, "dims")
        total[axis] = total.get(axis, 0) + shift
    return total


def _rolled(size: Size, shift: int, position: Any) -> Any:
    """The position that a roll by `shift` reads along an axis of `size`."""
    begin = c.as_expr(-shift % size if isinstance(size, int) and size else s.const(-shift, dtypes.index) % size)
    moved = position + begin
    return s.where(moved < size, moved, moved - size)


@operator("roll(in, shifts: list_int32, dims: list_int32) -> out")
class Roll:
    """Elements moved by `shifts` along `dims`, those beyond the end to the front; without dims, as one row."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        if len(op.shifts) != (len(op.dims) or 1):
            raise op.error(f"expected {len(op.dims) or 1} shifts for dims {list(op.dims)}, got {list(op.shifts)}")
        _ = [op.normalize_axis(d, op.in_.rank, "dims") for d in op.dims]
        desc: TensorDesc = op.in_
        return desc

    def sbp(op: Call) -> Factors:
        dims = [d % op.in_.rank for d in op.dims] or range(op.in_.rank)
        return same_axes(op, op.in_, tuple(dims))

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.roll(dout, shifts=[-shift for shift in op.shifts], dims=op.dims)}

    def compute(op: Call) -> Stage:
        if not op.dims:
            row = c.reshape(op.in_, [c.product(op.in_.shape)])
            rolled = move(row, lambda at: [_rolled(row.shape[0], op.shifts[0], at[0])])
            return c.reshape(rolled, op.in_.shape)
        shifts = _shifts(op, op.in_.rank)
        sizes = op.in_.shape
        return move(
            op.in_, lambda at: [_rolled(sizes[k], shifts[k], i) if k in shifts else i for k, i in enumerate(at)]
        )

    def reference(x: Any, *, shifts: Any, dims: Any) -> Any:
        return np.roll(x, shifts, dims) if dims else np.roll(x, shifts[0])


TRIANGLE = (
    "(in, diagonal: int64 = 0, floating_fill_value: double = 0.0, integer_fill_value: int64 = 0,"
    " is_floating_fill_value: bool = False) -> out"
)


def _fill(op: Call) -> float | int:
    value: float | int = op.floating_fill_value if op.is_floating_fill_value else op.integer_fill_value
    return value


def _triangle_types(op: Call) -> TensorDesc:
    expect_rank(op, "in", op.in_, 2, -1)
    expect_fill(op, _fill(op), op.in_.dtype)
    desc: TensorDesc = op.in_
    return desc


def _triangle_sbp(op: Call) -> Factors:
    names = " ".join(f"d{i}" for i in range(op.in_.rank))
    return Factors(f"{names} -> {names}", "joint" if _fill(op) == 0 else None)


def _triangle_local(op: Call, shard: Shard) -> dict[str, Any]:
    """The diagonal of a shard, which begins some rows down, or some columns to the right."""
    (begin,), local = shard.begins, shard.inputs[0].shape
    rows, columns = (begin * (n != d) for n, d in zip((local or ())[-2:], op.in_.shape[-2:], strict=True))
    return {"diagonal": op.diagonal + rows - columns}


def _triangle(op: Call, keep: Callable[[Any, Any], Any]) -> Stage:
    def body(*position: Any) -> Any:
        *_, i, j = position
        return s.where(keep(i, j), op.in_[position], s.const(_fill(op), op.in_.dtype.accumulator))

    return c.element_wise(op.in_.shape, body, op.in_.dtype)


def _numpy_triangle(keep: Any, x: Any, value: float | int) -> Any:
    return np.where(keep(np.ones(x.shape[-2:], bool)), x, np.asarray(value).astype(x.dtype))


@operator("tril" + TRIANGLE)
class Tril:
    """The lower triangle of each matrix, up to `diagonal`; the rest is the fill value."""

    parts = on_each(floating_fill_value=0.0, integer_fill_value=0)
    types = _triangle_types
    sbp = _triangle_sbp
    local = _triangle_local

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.tril(dout, diagonal=op.diagonal)}

    def compute(op: Call) -> Stage:
        return _triangle(op, lambda i, j: j <= i + op.diagonal)

    def reference(
        x: Any, *, diagonal: Any, floating_fill_value: Any, integer_fill_value: Any, is_floating_fill_value: Any
    ) -> Any:
        value = floating_fill_value if is_floating_fill_value else integer_fill_value
        return _numpy_triangle(lambda m: np.tril(m, diagonal), x, value)


@operator("triu" + TRIANGLE)
class Triu:
    """The upper triangle of each matrix, from `diagonal` on; the rest is the fill value."""

    parts = on_each(floating_fill_value=0.0, integer_fill_value=0)
    types = _triangle_types
    sbp = _triangle_sbp
    local = _triangle_local

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.triu(dout, diagonal=op.diagonal)}

    def compute(op: Call) -> Stage:
        return _triangle(op, lambda i, j: j >= i + op.diagonal)

    def reference(
        x: Any, *, diagonal: Any, floating_fill_value: Any, integer_fill_value: Any, is_floating_fill_value: Any
    ) -> Any:
        value = floating_fill_value if is_floating_fill_value else integer_fill_value
        return _numpy_triangle(lambda m: np.triu(m, diagonal), x, value)
