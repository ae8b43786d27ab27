"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import Shape, TensorDesc


def reduced_shape(shape: Sequence[Any], axes: Sequence[int], keepdims: bool) -> tuple[Any, ...]:
    """The shape left when `axes` are reduced."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduction_axes(op: Call, rank: int) -> tuple[int, ...]:
    """The reduced axes in order; an empty list means all of them, as in OneFlow."""
    return tuple(sorted(op.normalize_axes(op.axis, rank))) or tuple(range(rank))


def reduction_factors(op: Call, linear: str | None) -> Factors:
    """Factors of a reduction; without `linear`, reduced dimensions have to stay whole."""
    rank = op.x.rank
    axes = reduction_axes(op, rank)
    names = [f"d{i}" if linear or i not in axes else "_" for i in range(rank)]
    out = reduced_shape(names, axes, False)
    if op.keepdims:
        out = tuple("_" if i in axes else n for i, n in enumerate(names))
    return Factors(f"{' '.join(names)} -> {' '.join(out)}", linear)


def fold_axes(x: Stage, axes: Sequence[int], keepdims: bool, init: Any, combine: Any, dtype: Any) -> Stage:
    """`x` with `axes` combined, beginning with `init`."""
    kept = [i for i in range(x.rank) if i not in axes]

    def element(*position: Any) -> Any:
        outer, inner = position[: len(kept)], position[len(kept) :]
        at = dict(zip([*kept, *axes], [*outer, *inner], strict=True))
        return x[tuple(at[i] for i in range(x.rank))]

    shape = [x.shape[i] for i in kept]
    result = c.reduce_(shape, [x.shape[i] for i in axes], init, combine, element, dtype)
    return c.reshape(result, reduced_shape(x.shape, axes, True)) if keepdims else result


@operator("reduce_sum(x, axis: list_int32, keepdims: bool = False) -> y")
class ReduceSum:
    """The sum over `axis` (all axes if empty); f16 and bf16 are summed in f32."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "x", op.x, dtypes.NUMERIC)
        return TensorDesc(reduced_shape(op.x.shape, reduction_axes(op, op.x.rank), op.keepdims), op.x.dtype)

    def sbp(op: Call) -> Factors:
        return reduction_factors(op, "joint")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        axes = reduction_axes(op, op.x.rank)
        return {"x": ops.broadcast_like(dy, op.x, broadcast_axes=() if op.keepdims else axes)}

    def compute(op: Call) -> Stage:
        axes = reduction_axes(op, op.x.rank)
        return fold_axes(op.x, axes, op.keepdims, 0, lambda a, b: a + b, op.x.dtype)

    def reference(x, *, axis, keepdims):  # type: ignore[no-untyped-def]
        wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return np.sum(x, axis=tuple(axis) or None, dtype=wide, keepdims=keepdims).astype(x.dtype)


@operator("reduce_sum_like(x, like, axis: list_int32) -> y")
class ReduceSumLike:
    """The sum over `axis`, in the shape of `like`: the adjoint of broadcasting."""

    def types(op: Call) -> TensorDesc:
        axes = op.normalize_axes(op.axis, op.x.rank)
        kept: Shape = reduced_shape(op.x.shape, axes, False)
        found = [d for d in op.like.shape if d != 1]
        if len([d for d in kept if d != 1]) > len(found):
            raise op.error(f"expected {op.x} without axes {list(axes)} to fit like, got {op.like}")
        return TensorDesc(op.like.shape, op.x.dtype)

    def sbp(op: Call) -> Factors:
        names = [f"d{i}" for i in range(op.x.rank)]
        lead = op.x.rank - op.like.rank
        like = ["_" if lead + i in op.axis else names[lead + i] for i in range(op.like.rank)]
        return Factors(f"{' '.join(names)}, {' '.join(like)} -> {' '.join(like)}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": ops.broadcast_like(dy, op.x, broadcast_axes=()), "like": None}

    def compute(op: Call) -> Stage:
        axes = op.normalize_axes(op.axis, op.x.rank)
        summed = fold_axes(op.x, axes, False, 0, lambda a, b: a + b, op.x.dtype)
        return c.reshape(summed, op.like.shape)

    def reference(x, like, *, axis):  # type: ignore[no-untyped-def]
        wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return np.sum(x, axis=tuple(axis), dtype=wide).astype(x.dtype).reshape(like.shape)
