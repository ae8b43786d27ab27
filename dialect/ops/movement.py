"""Operators that reorder or reshape elements and change none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.elementwise import sum_to
from oneflow.dialect.record import Call, Law, operator
from oneflow.dialect.sbp import B, Factors, P, S, SbpSignature, Shard
from oneflow.dialect.shapes import (
    as_target,
    is_identity,
    leading_axes,
    letters,
    paired_axes,
    solve_like,
    solve_reshape,
)
from oneflow.dialect.tensor_desc import Dim, Shape, TensorDesc


def same_axes(op: Call, x: Any, unsplit: Sequence[int] = ()) -> Factors:
    """Factors of a movement that keeps the shape of `x`: all axes except `unsplit` can be split."""
    names = " ".join(letters(x.shape, unsplit))
    return Factors(f"{names} -> {names}", "joint")


def _paired(source: Shape, target: Shape) -> tuple[str, str]:
    """Factors of both sides of a reshape: preserved axes have one letter."""
    pairs = paired_axes(source, target)
    left, right = ["_"] * len(source), ["_"] * len(target)
    for i, j in pairs:
        left[i] = right[j] = f"d{i}"
    return " ".join(left), " ".join(right)


def _result_size(shape: Sequence[int], sizes: Sequence[Size]) -> list[Size]:
    """The sizes of a reshape of a tensor of `sizes`, its -1 computed."""
    rest = math.prod(d for d in shape if d != -1)
    return [c.product(sizes) // rest if d == -1 else d for d in shape]


def _compose_reshapes(ops: Builder, op: Call) -> Value | None:
    inner = ops.producer(op["in"], "reshape")
    shape = solve_reshape(op, op["in"].shape, op.shape)
    if inner is None or shape.count(None) > 1:
        return None
    value: Value | None = ops.reshape(inner["in"], shape=as_target(shape))
    return value


def _identity_reshape(ops: Builder, op: Call) -> Value | None:
    shape = op["in"].shape
    return op["in"] if is_identity(shape, solve_reshape(op, shape, op.shape)) else None


@operator("reshape(in, shape: shape) -> out")
class Reshape:
    """The same elements in row-major order under `shape`; one size may be -1, which is solved."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        return TensorDesc(solve_reshape(op, op.in_.shape, op.shape), op.in_.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        left, right = _paired(op.in_.shape, op.out.shape)
        leading = leading_axes(op.in_.shape, op.out.shape)
        regrouped = [SbpSignature((S(i),), (S(j),), multiple) for i, j, multiple in leading]
        return [*Factors(f"{left} -> {right}", "joint").signatures(), *regrouped]

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"shape": as_target(shard.outputs[0].shape or ())}

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.reshape_like(dout, op.in_)}

    def compute(op: Call) -> Stage:
        return c.reshape(op.in_, _result_size(op.shape, op.in_.shape))

    def reference(x: Any, *, shape: Any) -> Any:
        return np.reshape(x, shape)

    laws = (
        Law("compose-reshapes", "reshape(reshape(x, s), t) = reshape(x, t)", _compose_reshapes),
        Law("identity-reshape", "reshape(x, shape of x) = x", _identity_reshape),
    )


def _identity_reshape_like(ops: Builder, op: Call) -> Value | None:
    return op["in"] if None not in op.like.shape and op["in"].shape == op.like.shape else None


def _static_reshape_like(ops: Builder, op: Call) -> Value | None:
    shape = solve_like(op, op["in"].shape, op.like.shape)
    return None if None in shape else ops.reshape(op["in"], shape=shape)


@operator("reshape_like(in, like) -> out")
class ReshapeLike:
    """The elements of `in` in row-major order under the shape of `like`."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> TensorDesc:
        return TensorDesc(solve_like(op, op.in_.shape, op.like.shape), op.in_.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        left, right = _paired(op.in_.shape, op.out.shape)
        split = Factors(f"{left}, {right} -> {right}", "joint").signatures()
        leading = leading_axes(op.in_.shape, op.out.shape)
        regrouped = [SbpSignature((S(i), S(j)), (S(j),), multiple) for i, j, multiple in leading]
        return [*split, SbpSignature((P, B), (P,)), *regrouped]

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.reshape_like(dout, op.in_), "like": None}

    def compute(op: Call) -> Stage:
        return c.reshape(op.in_, op.like.shape)

    def reference(x: Any, like: Any) -> Any:
        return np.reshape(x, like.shape)

    laws = (
        Law("identity-reshape-like", "reshape_like(x, like of its shape) = x", _identity_reshape_like),
        Law("static-reshape-like", "reshape_like(x, like) = reshape(x, shape of like)", _static_reshape_like),
    )


def _compose_transposes(ops: Builder, op: Call) -> Value | None:
    inner = ops.producer(op.input, "transpose")
    if inner is None:
        return None
    value: Value | None = ops.transpose(inner.input, perm=[inner.perm[p] for p in op.perm])
    return value


def _identity_transpose(ops: Builder, op: Call) -> Value | None:
    rank = op.input.rank
    return op.input if [p % rank for p in op.perm] == list(range(rank)) else None


@operator("transpose(input, perm: list_int32) -> output")
class Transpose:
    """Axis i of the result is axis perm[i] of the input."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        perm = op.normalize_axes(op.perm, op.input.rank, "perm")
        if len(perm) != op.input.rank:
            raise op.error(f"expected perm of {op.input.rank} axes, got {list(op.perm)}")
        return TensorDesc(tuple(op.input.shape[p] for p in perm), op.input.dtype)

    def sbp(op: Call) -> Factors:
        names = letters(op.input.shape)
        return Factors(f"{' '.join(names)} -> {' '.join(names[p] for p in op.perm)}", "joint")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        perm = op.normalize_axes(op.perm, dy.rank, "perm")
        return {"input": ops.transpose(dy, perm=[perm.index(i) for i in range(dy.rank)])}

    def compute(op: Call) -> Stage:
        perm = op.normalize_axes(op.perm, op.input.rank, "perm")
        shape = [op.input.shape[p] for p in perm]
        walked = [p for p in perm if op.input.shape[p] != 1]
        if walked == sorted(walked):  # elements stay where they are
            return c.reshape(op.input, shape)
        return c.element_wise(
            shape, lambda *i: op.input[tuple(i[perm.index(a)] for a in range(len(perm)))], op.input.dtype
        )

    def reference(x: Any, *, perm: Any) -> Any:
        return np.transpose(x, perm)

    laws = (
        Law("compose-transposes", "transpose(transpose(x, p), q) = transpose(x, p[q])", _compose_transposes),
        Law("identity-transpose", "transpose(x, [0, 1, ..]) = x", _identity_transpose),
    )


def _expanded(op: Call, axis: int, got: Dim, wanted: int) -> Dim:
    """The size of one dimension of `expand`: -1 keeps it, size 1 is broadcast, other sizes must be equal."""
    if wanted == -1:
        return got
    if got not in (None, 1, wanted):
        raise op.error(f"expected axis {axis} of in to be 1 or {wanted} as expand_shape says, got {got}")
    return wanted


def _identity_expand(ops: Builder, op: Call) -> Value | None:
    shape = op["in"].shape
    kept = len(shape) == len(op.expand_shape) and all(
        e == -1 or e == d for d, e in zip(shape, op.expand_shape, strict=True)
    )
    return op["in"] if kept else None


@operator("expand(in, expand_shape: shape) -> out")
class Expand:
    """`in` broadcast along its axes of size 1 and along new leading axes; -1 keeps an axis.

    An unknown size is broadcast where it is 1 at run time.
    """

    parts = each_part

    def types(op: Call) -> TensorDesc:
        lead = len(op.expand_shape) - op.in_.rank
        if lead < 0:
            raise op.error(
                f"expected expand_shape of at least {op.in_.rank} sizes for {op.in_}, got {len(op.expand_shape)}"
            )
        if any(d < (0 if i < lead else -1) for i, d in enumerate(op.expand_shape)):
            raise op.error(f"expected sizes of at least 0, or -1 for axes of in, got {list(op.expand_shape)}")
        own = zip(op.in_.shape, op.expand_shape[lead:], strict=True)
        kept = tuple(_expanded(op, i, d, e) for i, (d, e) in enumerate(own))
        return TensorDesc((*op.expand_shape[:lead], *kept), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        lead = op.out.rank - op.in_.rank
        own = list(zip(op.in_.shape, op.out.shape[lead:], op.expand_shape[lead:], strict=True))
        names = [f"d{i}" if d == e != 1 and (d or w == -1) else "_" for i, (d, e, w) in enumerate(own)]
        repeated = [n if d != 1 else f"r{i}" for i, (n, (d, _, _)) in enumerate(zip(names, own, strict=True))]
        new = [f"n{i}" for i in range(lead)]
        return Factors(f"{' '.join(names)} -> {' '.join(new + repeated)}", "joint")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"expand_shape": as_target(shard.outputs[0].shape or ())}

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": lambda: sum_to(ops, dout, op.in_)}

    def compute(op: Call) -> Stage:
        lead = len(op.expand_shape) - op.in_.rank
        sizes = list(zip(op.in_.shape, op.expand_shape[lead:], strict=True))
        shape = [*op.expand_shape[:lead], *(d if e == -1 else e for d, e in sizes)]

        def body(*position: Any) -> Any:
            own = zip(sizes, position[lead:], strict=True)
            return op.in_[tuple(_source_position(d, e, i) for (d, e), i in own)]

        return c.element_wise(shape, body, op.in_.dtype)

    def reference(x: Any, *, expand_shape: Any) -> Any:
        lead = len(expand_shape) - x.ndim
        kept = [d if e == -1 else e for d, e in zip(x.shape, expand_shape[lead:], strict=True)]
        return np.broadcast_to(x, (*expand_shape[:lead], *kept))

    laws = (Law("identity-expand", "expand(x, shape of x) = x", _identity_expand),)


def _source_position(size: Size, wanted: int, position: Any) -> Any:
    """The position that `expand` reads along an axis of `size`; an unknown size is checked at its use."""
    if wanted == -1 or size == wanted:
        return position
    if isinstance(size, int):
        return 0
    return s.checked(s.where(size.eq(1), 0, position), size, "oneflow.expand: in")


def _drop_squeeze(ops: Builder, op: Call) -> Value | None:
    inner = ops.producer(op["in"], "expand_dims")
    if inner is None or len(op.axes) != 1:
        return None
    rank = op["in"].rank
    return inner["in"] if inner.axis % rank == op.axes[0] % rank else None


@operator("squeeze(in, axes: list_int32) -> out")
class Squeeze:
    """`in` without the dimensions `axes`, which are of size 1."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        axes = op.normalize_axes(op.axes, op.in_.rank, "axes")
        for axis in axes:
            if op.in_.shape[axis] != 1:
                raise op.error(f"expected a static size of 1 at axis {axis}, got {op.in_}")
        return TensorDesc(tuple(d for i, d in enumerate(op.in_.shape) if i not in axes), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        axes = op.normalize_axes(op.axes, op.in_.rank, "axes")
        names = letters(op.in_.shape)
        return Factors(f"{' '.join(names)} -> {' '.join(n for i, n in enumerate(names) if i not in axes)}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.reshape_like(dout, op.in_)}

    def compute(op: Call) -> Stage:
        axes = op.normalize_axes(op.axes, op.in_.rank, "axes")
        return c.reshape(op.in_, [d for i, d in enumerate(op.in_.shape) if i not in axes])

    def reference(x: Any, *, axes: Any) -> Any:
        return np.squeeze(x, axis=tuple(axes))

    laws = (
        Law("squeeze-expand-dims", "squeeze(expand_dims(x, i), [i]) = x", _drop_squeeze),
        Law("identity-squeeze", "squeeze(x, []) = x", lambda ops, op: None if op.axes else op["in"]),
    )


def _drop_expand_dims(ops: Builder, op: Call) -> Value | None:
    inner = ops.producer(op["in"], "squeeze")
    if inner is None or len(inner.axes) != 1:
        return None
    rank = op["in"].rank + 1
    return inner["in"] if inner.axes[0] % rank == op.axis % rank else None


@operator("expand_dims(in, axis: int32 = 0) -> out")
class ExpandDims:
    """`in` with a new dimension of size 1 that becomes axis `axis` of the result."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        axis = op.normalize_axis(op.axis, op.in_.rank + 1)
        return TensorDesc((*op.in_.shape[:axis], 1, *op.in_.shape[axis:]), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        axis = op.normalize_axis(op.axis, op.in_.rank + 1)
        names = letters(op.in_.shape)
        return Factors(f"{' '.join(names)} -> {' '.join((*names[:axis], '_', *names[axis:]))}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.reshape_like(dout, op.in_)}

    def compute(op: Call) -> Stage:
        axis = op.normalize_axis(op.axis, op.in_.rank + 1)
        return c.reshape(op.in_, [*op.in_.shape[:axis], 1, *op.in_.shape[axis:]])

    def reference(x: Any, *, axis: Any) -> Any:
        return np.expand_dims(x, axis)

    laws = (Law("expand-dims-squeeze", "expand_dims(squeeze(x, [i]), i) = x", _drop_expand_dims),)
