"""Operators that read a part of a tensor, replace a part, or pad a tensor."""

from __future__ import annotations

from collections.abc import Sequence
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
from oneflow.dialect.sbp import Factors, Shard, repeated_factors
from oneflow.dialect.shapes import class_of_mismatch, letters
from oneflow.dialect.tensor_desc import Dim, Shape, TensorDesc

#: A `stop` that is the end of any axis.
END = 2**63 - 1


def along(rank: int, axis: int, offset: Size) -> list[Size]:
    """Offsets of a part that begins at `offset` along `axis`."""
    return [offset if i == axis else 0 for i in range(rank)]


def take(x: Stage, axis: int, start: Size, length: Size, text: str) -> Stage:
    """`length` slices of `x` along `axis` from `start` on; where a size is unknown, positions are checked."""
    size = x.shape[axis]
    known = all(isinstance(n, int) for n in (size, start, length))

    def source(i: Any) -> Any:
        return i + start if known else s.checked(i + start, size, text)

    def body(*at: Any) -> Any:
        return x[tuple(source(i) if k == axis else i for k, i in enumerate(at))]

    return c.element_wise([length if k == axis else d for k, d in enumerate(x.shape)], body, x.dtype)


def _narrow_start(op: Call, size: Dim) -> int:
    """The first slice of `narrow`, counted from the front where `size` is known.

    Raises:
        OperatorError: `start` and `length` leave `[0, size)`.
    """
    if op.length < 0:
        raise op.error(f"expected a length of at least 0, got {op.length}")
    start: int = op.start
    if size is None:
        return start
    first = start + size if start < 0 else start
    if first < 0 or first + op.length > size:
        raise op.error(
            f"expected start and length within the size {size} of axis {op.dim}, got {start} and {op.length}"
        )
    return first


def _narrow_offset(op: Call, size: Size) -> Size:
    return _narrow_start(op, size) if isinstance(size, int) else op.start + size if op.start < 0 else op.start


def _identity_narrow(ops: Builder, op: Call) -> Value | None:
    return op["in"] if op["in"].shape[op.dim] == op.length else None


def _narrow_sbp(op: Call, x: Any) -> Factors:
    dim = op.dim % x.rank
    return same_axes(op, x, () if x.shape[dim] == op.length else (dim,))


@operator("narrow(in, dim: int64 = 0, start: int64 = 0, length: int64 = 0) -> out")
class Narrow:
    """`length` slices of `in` along `dim` from `start` on; a negative `start` counts from the end."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        dim = op.normalize_axis(op.dim, op.in_.rank, "dim")
        _narrow_start(op, op.in_.shape[dim])
        return TensorDesc((*op.in_.shape[:dim], op.length, *op.in_.shape[dim + 1 :]), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        return _narrow_sbp(op, op.in_)

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"length": (shard.outputs[0].shape or ())[op.dim]}

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.narrow_grad(dout, op.in_, dim=op.dim, start=op.start, length=op.length)}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.in_.rank, "dim")
        return take(op.in_, dim, _narrow_offset(op, op.in_.shape[dim]), op.length, "oneflow.narrow: in")

    def reference(x: Any, *, dim: Any, start: Any, length: Any) -> Any:
        first = start % x.shape[dim] if start < 0 else start
        return np.take(x, range(first, first + length), dim)

    laws = (Law("identity-narrow", "narrow(x) of full length = x", _identity_narrow),)


@operator("narrow_grad(dy, like, dim: int64 = 0, start: int64 = 0, length: int64 = 0) -> dx")
class NarrowGrad:
    """Zeros of the shape of `like` that hold `dy` where `narrow` would read."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> TensorDesc:
        dim = op.normalize_axis(op.dim, op.like.rank, "dim")
        _narrow_start(op, op.like.shape[dim])
        part = TensorDesc((*op.like.shape[:dim], op.length, *op.like.shape[dim + 1 :]), op.dy.dtype)
        if not op.dy.compatible(part):
            raise op.error(f"expected dy of type {part}, got {op.dy}")
        return TensorDesc(op.like.shape, op.dy.dtype)

    def sbp(op: Call) -> Factors:
        names, _, _ = _narrow_sbp(op, op.like).text.partition(" ->")
        return repeated_factors(names, 2, linear="joint").linear_in(op, "dy")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"length": (shard.inputs[0].shape or ())[op.dim]}

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": ops.narrow(ddx, dim=op.dim, start=op.start, length=op.length), "like": None}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.like.rank, "dim")
        offset = _narrow_offset(op, op.like.shape[dim])
        return c.place(op.like.shape, 0, [(op.dy, along(op.like.rank, dim, offset))], op.dy.dtype)

    def reference(dy: Any, like: Any, *, dim: Any, start: Any, length: Any) -> Any:
        dx = np.zeros(like.shape, dy.dtype)
        first = start % like.shape[dim] if start < 0 else start
        np.moveaxis(dx, dim, 0)[first : first + length] = np.moveaxis(dy, dim, 0)
        return dx


def _check_ranges(op: Call, rank: int) -> None:
    """Checks that start, stop and step have one positive step per axis."""
    for name in ("start", "stop", "step"):
        if len(op[name]) != rank:
            raise op.error(f"expected {name} of {rank} values, got {list(op[name])}")
    if any(step < 1 for step in op.step):
        raise op.error(f"expected steps of at least 1 (flip reverses an axis), got {list(op.step)}")


def _ranges(op: Call, sizes: Sequence[Size]) -> list[tuple[Size, Size]]:
    """(first, count) of a slice along each axis, clipped like Python's slices."""
    return [_range(*r) for r in zip(op.start, op.stop, op.step, sizes, strict=True)]


def _range(start: int, stop: int, step: int, size: Any) -> tuple[Any, Any]:
    first, last = _clip(start, size), _clip(stop, size)
    return first, c.max_size((last - first + (step - 1)) // step, 0)


def _clip(bound: int, size: Any) -> Size:
    if bound < 0:
        return c.max_size(size + bound, 0)
    return 0 if bound == 0 else size if bound == END else c.min_size(size, bound)


def _sliced(op: Call, shape: Shape) -> Shape:
    """The shape of a slice of a tensor of `shape`, dynamic sizes included."""
    _check_ranges(op, len(shape))
    ranges = zip(op.start, op.stop, op.step, shape, strict=True)
    return tuple(None if size is None else _range(start, stop, step, size)[1] for start, stop, step, size in ranges)


def _is_whole(start: int, stop: int, step: int, size: Dim) -> bool:
    """Whether a slice spans an axis."""
    from_begin = start == 0 or (size is not None and start <= -size)
    return step == 1 and from_begin and stop >= (END if size is None else size)


def _cut_axes(op: Call, shape: Shape) -> list[int]:
    ranges = zip(op.start, op.stop, op.step, shape, strict=True)
    return [i for i, r in enumerate(ranges) if not _is_whole(*r)]


@operator("slice(x, start: list_int64, stop: list_int64, step: list_int64) -> y")
class Slice:
    """x[start:stop:step] along every axis, as Python slices: negative bounds count from the end, all are clipped."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        return TensorDesc(_sliced(op, op.x.shape), op.x.dtype)

    def sbp(op: Call) -> Factors:
        return same_axes(op, op.x, _cut_axes(op, op.x.shape))

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        ranges = {"start": op.start, "stop": op.stop, "step": op.step}
        return {"x": lambda: ops.slice_update(ops.zero_like(op.x), dy, **ranges)}

    def compute(op: Call) -> Stage:
        ranges = _ranges(op, op.x.shape)

        def body(*position: Any) -> Any:
            at = zip(position, ranges, op.step, strict=True)
            return op.x[tuple(i * step + first for i, (first, _), step in at)]

        return c.element_wise([count for _, count in ranges], body, op.x.dtype)

    def reference(x: Any, *, start: Any, stop: Any, step: Any) -> Any:
        return x[tuple(map(slice, start, stop, step))]

    laws = (
        Law(
            "identity-slice",
            "slice(x) of everything = x",
            lambda ops, op: None if _cut_axes(op, op.x.shape) else op.x,
        ),
    )


@operator("slice_update(ref, value, start: list_int64, stop: list_int64, step: list_int64) -> y")
class SliceUpdate:
    """`ref` with `value` in place of the part that `slice` reads."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        part = TensorDesc(_sliced(op, op.ref.shape), op.ref.dtype)
        if not op.value.compatible(part):
            raise op.error(f"expected value of type {part}, got {op.value}", class_of_mismatch(op.value, part))
        desc: TensorDesc = op.ref
        return desc

    def sbp(op: Call) -> Factors:
        names = " ".join(letters(op.ref.shape, _cut_axes(op, op.ref.shape)))
        return Factors(f"{names}, {names} -> {names}", "joint")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        ranges = {"start": op.start, "stop": op.stop, "step": op.step}
        return {
            "ref": lambda: ops.slice_update(dy, ops.zero_like(op.value), **ranges),
            "value": lambda: ops.slice(dy, **ranges),
        }

    def compute(op: Call) -> Stage:
        firsts = [first for first, _ in _ranges(op, op.ref.shape)]
        zeros = [0] * op.ref.rank
        return c.place(op.ref.shape, None, [(op.ref, zeros), (op.value, firsts, op.step)], op.ref.dtype)

    def reference(ref: Any, value: Any, *, start: Any, stop: Any, step: Any) -> Any:
        y = ref.copy()
        y[tuple(map(slice, start, stop, step))] = value
        return y

    laws = (
        Law(
            "whole-slice_update",
            "slice_update(ref, value) of everything = value",
            lambda ops, op: None if _cut_axes(op, op.ref.shape) else op.value,
        ),
    )


@operator("slice_grad(dy, like_shape: shape, start: list_int64, stop: list_int64, step: list_int64) -> dx")
class SliceGrad:
    """Zeros of the shape `like_shape` with `dy` in place of the part that `slice` reads."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        part = TensorDesc(_sliced(op, op.like_shape), op.dy.dtype)
        if not op.dy.compatible(part):
            raise op.error(f"expected dy of type {part}, got {op.dy}")
        return TensorDesc(op.like_shape, op.dy.dtype)

    def sbp(op: Call) -> Factors:
        names = " ".join(letters(op.like_shape, _cut_axes(op, op.like_shape)))
        return Factors(f"{names} -> {names}", "joint")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"like_shape": shard.outputs[0].shape}

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": lambda: ops.slice(ddx, start=op.start, stop=op.stop, step=op.step)}

    def compute(op: Call) -> Stage:
        firsts = [first for first, _ in _ranges(op, op.like_shape)]
        return c.place(op.like_shape, 0, [(op.dy, firsts, op.step)], op.dy.dtype)

    def reference(dy: Any, *, like_shape: Any, start: Any, stop: Any, step: Any) -> Any:
        dx = np.zeros(like_shape, dy.dtype)
        dx[tuple(map(slice, start, stop, step))] = dy
        return dx


def _padding(op: Call) -> float | int:
    """The value that `pad` fills with."""
    value: float | int = op.floating_constant_value if op.x.dtype.is_inexact else op.integral_constant_value
    return value


def _expect_agreement(op: Call) -> None:
    """Refuses a `padding` that differs from the sizes before and after; omitted axes have no padding."""
    pairs = reversed(list(zip(op.padding_before, op.padding_after, strict=True)))
    stated = [size for pair in pairs for size in pair]
    padding = [*op.padding, *[0] * (len(stated) - len(op.padding))]
    if op.padding and padding != stated:
        raise op.error(f"expected padding {stated} as before and after every axis, got {list(op.padding)}")


def _cuts(op: Call) -> list[tuple[int, int]]:
    """The number of elements that negative padding removes along each axis, before and after."""
    return [(max(-a, 0), max(-b, 0)) for a, b in zip(op.padding_before, op.padding_after, strict=True)]


@operator(
    "pad(x, padding_before: list_int64, padding_after: list_int64, integral_constant_value: int64 = 0,"
    " floating_constant_value: double = 0.0, padding: list_int64 = []) -> y"
)
class Pad:
    """`x` with elements of a constant value before and after it along every axis; negative sizes crop.

    `padding` repeats the sizes as pairs, the sizes of the last axis first, as in programs of OneFlow.
    """

    parts = on_each(floating_constant_value=0.0, integral_constant_value=0)

    def types(op: Call) -> TensorDesc:
        for name in ("padding_before", "padding_after"):
            if len(op[name]) != op.x.rank:
                raise op.error(f"expected {name} of {op.x.rank} sizes, got {list(op[name])}")
        for axis, (size, (before, after)) in enumerate(zip(op.x.shape, _cuts(op), strict=True)):
            if size is not None and size < before + after:
                cut = f"{before} before and {after} after"
                raise op.error(f"expected at most the {size} elements of dimension {axis} to be cut, got {cut}")
        _expect_agreement(op)
        sizes = zip(op.x.shape, op.padding_before, op.padding_after, strict=True)
        return TensorDesc(tuple(None if d is None else d + a + b for d, a, b in sizes), op.x.dtype)

    def sbp(op: Call) -> Factors:
        padded = [i for i, p in enumerate(zip(op.padding_before, op.padding_after, strict=True)) if any(p)]
        factors = same_axes(op, op.x, padded)
        zero = not op.floating_constant_value and not op.integral_constant_value
        return factors if zero else Factors(factors.text)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        before, after = ([-p for p in op[name]] for name in ("padding_before", "padding_after"))
        return {"x": lambda: ops.pad(dy, padding_before=before, padding_after=after)}

    def compute(op: Call) -> Stage:
        sizes, cuts = op.x.shape, _cuts(op)
        before, after = ([max(p, 0) for p in op[name]] for name in ("padding_before", "padding_after"))
        kept = [d - first - last for d, (first, last) in zip(sizes, cuts, strict=True)]
        x: Stage = op.x
        if any(map(any, cuts)):
            firsts = [first for first, _ in cuts]
            x = c.element_wise(kept, lambda *i: op.x[tuple(k + f for k, f in zip(i, firsts, strict=True))], x.dtype)
        if not any((*before, *after)):
            return x
        shape = [d + a + b for d, a, b in zip(kept, before, after, strict=True)]
        return c.place(shape, _padding(op), [(x, before)], x.dtype)

    def reference(x: Any, *, padding_before: Any, padding_after: Any, **values: Any) -> Any:
        kind = "floating" if dtypes.from_numpy(x.dtype).is_inexact else "integral"
        widths = list(zip(padding_before, padding_after, strict=True))
        x = x[tuple(slice(max(-a, 0), d - max(-b, 0)) for d, (a, b) in zip(x.shape, widths, strict=True))]
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
        return np.pad(x, widths, constant_values=values[f"{kind}_constant_value"]) if widths else x

    laws = (
        Law(
            "identity-pad",
            "pad(x) by nothing = x",
            lambda ops, op: None if any((*op.padding_before, *op.padding_after)) else op.x,
        ),
    )
