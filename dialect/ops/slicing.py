"""Operators that take parts of tensors and put tensors together.

Imports `movement`, `record`, `shapes`, `sbp`, `compute`, `scalar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.ops.movement import same_axes
from oneflow.dialect.record import Call, Law, Shard, operator
from oneflow.dialect.sbp import B, Factors, P, SbpSignature
from oneflow.dialect.shapes import expect_dim, letters, same_dtype
from oneflow.dialect.tensor_desc import Dim, Shape, TensorDesc

#: A `stop` that is the end of any axis.
END = 2**63 - 1


def _joined_shape(op: Call, axis: int | None) -> list[Dim]:
    """What is known of the shape that the tensors of `in` have in common, `axis` left aside."""
    same_dtype(op, op.in_)
    shape = list(op.in_[0].shape)
    for number, desc in enumerate(op.in_[1:], 1):
        if desc.rank != len(shape):
            raise op.error(f"expected tensors of one rank, got {op.in_[0]} and {desc}")
        for i, d in enumerate(desc.shape):
            if i != axis:
                shape[i] = expect_dim(op, f"axis {i} of in {number}", d, shape[i])
    return shape


def _along(rank: int, axis: int, offset: Size) -> list[Size]:
    """Offsets of a part that begins at `offset` along `axis`."""
    return [offset if i == axis else 0 for i in range(rank)]


def _place_in_row(shape: Sequence[Size], parts: Sequence[Stage], axis: int) -> Stage:
    """Tensors set one behind the other along `axis`."""
    offset: Size = 0
    placed = []
    for part in parts:
        placed.append((part, _along(len(shape), axis, offset)))
        offset = offset + part.shape[axis]
    return c.place(shape, None, placed, parts[0].dtype)


def _known(stages: Sequence[Stage], axis: int) -> Size:
    """The size of an axis that several tensors share, a number where one of them tells it."""
    sizes = [x.shape[axis] for x in stages]
    return next((d for d in sizes if isinstance(d, int)), sizes[0])


@operator("cat(in+, axis: int64 = 0, max_dim_size: int64 = 0) -> out")
class Cat:
    """Tensors one behind the other along `axis`; `max_dim_size` is OneFlow's, and has no meaning here."""

    def types(op: Call) -> TensorDesc:
        axis = op.normalize_axis(op.axis, op.in_[0].rank)
        shape = _joined_shape(op, axis)
        sizes = [d.shape[axis] for d in op.in_]
        shape[axis] = None if None in sizes else sum(sizes)
        return TensorDesc(tuple(shape), op.in_[0].dtype)

    def sbp(op: Call) -> Factors:
        rank = op.in_[0].rank
        names = " ".join(letters(op.in_[0].shape, (op.axis % rank,)))
        return Factors(f"{', '.join([names] * len(op.in_))} -> {names}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.call("split_like", dout, op.in_, axis=op.axis)}

    def compute(op: Call) -> Stage:
        rank = op.in_[0].rank
        axis = op.normalize_axis(op.axis, rank)
        shape = [_known(op.in_, i) for i in range(rank)]
        shape[axis] = sum(x.shape[axis] for x in op.in_)
        return _place_in_row(shape, op.in_, axis)

    def reference(tensors, *, axis):  # type: ignore[no-untyped-def]
        return np.concatenate(tensors, axis)

    laws = (Law("cat-of-one", "cat([x]) = x", lambda ops, op: op["in"][0] if len(op["in"]) == 1 else None),)


@operator("split_like(in, like+, axis: int64 = 0) -> out+")
class SplitLike:
    """`in` cut along `axis` into tensors of the sizes of `like`: the adjoint of `cat`."""

    def types(op: Call) -> list[TensorDesc]:
        axis = op.normalize_axis(op.axis, op.in_.rank)
        sizes = []
        for like in op.like:
            if like.rank != op.in_.rank:
                raise op.error(f"expected like of rank {op.in_.rank}, got {like}")
            sizes.append(like.shape[axis])
        if None not in sizes:
            expect_dim(op, f"the sizes of like along axis {axis} added up", sum(sizes), op.in_.shape[axis])
        shape = op.in_.shape
        return [TensorDesc((*shape[:axis], d, *shape[axis + 1 :]), op.in_.dtype) for d in sizes]

    def sbp(op: Call) -> list[SbpSignature]:
        count = len(op.like)
        names = " ".join(letters(op.in_.shape, (op.axis % op.in_.rank,)))
        split = Factors(f"{', '.join([names] * (1 + count))} -> {', '.join([names] * count)}", "joint")
        return [*split.signatures(), SbpSignature((P, *[B] * count), (P,) * count)]

    def grad(ops: Builder, op: Call, *douts: Value | None) -> dict[str, Any]:
        parts = [ops.zero_like(o) if d is None else d for d, o in zip(douts, op.out, strict=True)]
        return {"in": lambda: ops.cat(parts, axis=op.axis)}

    def compute(op: Call) -> list[Stage]:
        axis = op.normalize_axis(op.axis, op.in_.rank)
        offset: Size = 0
        parts = []
        for like in op.like:
            parts.append(take(op.in_, axis, offset, like.shape[axis]))
            offset = offset + like.shape[axis]
        return parts

    def reference(x, like, *, axis):  # type: ignore[no-untyped-def]
        return np.split(x, np.cumsum([y.shape[axis] for y in like])[:-1], axis)


def take(x: Stage, axis: int, start: Size, length: Size) -> Stage:
    """`length` slices of `x` along `axis` from `start` on; an unknown size is checked as it is used."""
    size = x.shape[axis]

    def source(i: Any) -> Any:
        position = i + start
        known = isinstance(size, int) or start == 0 and length is size
        return position if known else s.checked(position, size, "oneflow.narrow: in")

    shape = [length if k == axis else d for k, d in enumerate(x.shape)]
    return c.element_wise(
        shape, lambda *at: x[tuple(source(i) if k == axis else i for k, i in enumerate(at))], x.dtype
    )


@operator("stack(in+, axis: int64 = 0, max_dim_size: int64 = 0) -> out")
class Stack:
    """Tensors of one shape along a new axis `axis`; `max_dim_size` is OneFlow's, and has no meaning here."""

    def types(op: Call) -> TensorDesc:
        shape = _joined_shape(op, None)
        axis = op.normalize_axis(op.axis, len(shape) + 1)
        return TensorDesc((*shape[:axis], len(op.in_), *shape[axis:]), op.in_[0].dtype)

    def sbp(op: Call) -> Factors:
        axis = op.axis % (op.in_[0].rank + 1)
        names = letters(op.in_[0].shape)
        out = [*names[:axis], "_", *names[axis:]]
        return Factors(f"{', '.join([' '.join(names)] * len(op.in_))} -> {' '.join(out)}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        def part(number: int) -> Value:
            one = ops.narrow(dout, dim=op.axis, start=number, length=1)
            return ops.squeeze(one, axes=[op.axis])

        return {"in": tuple(lambda n=n: part(n) for n in range(len(op.in_)))}

    def compute(op: Call) -> Stage:
        rank = op.in_[0].rank
        axis = op.normalize_axis(op.axis, rank + 1)
        shape = [_known(op.in_, i) for i in range(rank)]
        rows = [c.reshape(x, (*shape[:axis], 1, *shape[axis:])) for x in op.in_]
        return _place_in_row([*shape[:axis], len(rows), *shape[axis:]], rows, axis)

    def reference(tensors, *, axis):  # type: ignore[no-untyped-def]
        return np.stack(tensors, axis)


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
    return op["in"] if op.length == op["in"].shape[op.dim] else None


def _narrow_sbp(op: Call, x: TensorDesc) -> Factors:
    dim = op.dim % x.rank
    return same_axes(op, x, () if x.shape[dim] == op.length else (dim,))


@operator("narrow(in, dim: int64 = 0, start: int64 = 0, length: int64 = 0) -> out")
class Narrow:
    """`length` slices of `in` along `dim` from `start` on; a negative `start` counts from the end."""

    def types(op: Call) -> TensorDesc:
        dim = op.normalize_axis(op.dim, op.in_.rank, "dim")
        _narrow_start(op, op.in_.shape[dim])
        return TensorDesc((*op.in_.shape[:dim], op.length, *op.in_.shape[dim + 1 :]), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        return _narrow_sbp(op, op.in_)

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"length": shard.outputs[0].shape[op.dim]}

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.narrow_grad(dout, op.in_, dim=op.dim, start=op.start, length=op.length)}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.in_.rank, "dim")
        return take(op.in_, dim, _narrow_offset(op, op.in_.shape[dim]), op.length)

    def reference(x, *, dim, start, length):  # type: ignore[no-untyped-def]
        first = start % x.shape[dim] if start < 0 else start
        return np.take(x, range(first, first + length), dim)

    laws = (Law("identity-narrow", "narrow(x) of full length = x", _identity_narrow),)


@operator("narrow_grad(dy, like, dim: int64 = 0, start: int64 = 0, length: int64 = 0) -> dx")
class NarrowGrad:
    """Zeros of the shape of `like` that hold `dy` where `narrow` would read."""

    def types(op: Call) -> TensorDesc:
        dim = op.normalize_axis(op.dim, op.like.rank, "dim")
        _narrow_start(op, op.like.shape[dim])
        part = TensorDesc((*op.like.shape[:dim], op.length, *op.like.shape[dim + 1 :]), op.dy.dtype)
        if not op.dy.compatible(part):
            raise op.error(f"expected dy of type {part}, got {op.dy}")
        return TensorDesc(op.like.shape, op.dy.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        names, _, _ = _narrow_sbp(op, op.like).text.partition(" ->")
        split = Factors(f"{names}, {names} -> {names}", "joint").signatures()
        return [*split, SbpSignature((P, B), (P,))]

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"length": shard.inputs[0].shape[op.dim]}

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": ops.narrow(ddx, dim=op.dim, start=op.start, length=op.length), "like": None}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.like.rank, "dim")
        offset = _narrow_offset(op, op.like.shape[dim])
        return c.place(op.like.shape, 0, [(op.dy, _along(op.like.rank, dim, offset))], op.dy.dtype)

    def reference(dy, like, *, dim, start, length):  # type: ignore[no-untyped-def]
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
    """(first, count) of a slice along each axis, clipped to it as Python clips slices."""
    return [_range(*r) for r in zip(op.start, op.stop, op.step, sizes, strict=True)]


def _range(start: int, stop: int, step: int, size: Size) -> tuple[Size, Size]:
    if isinstance(size, int):
        taken = range(*slice(start, stop, step).indices(size))
        return taken.start, len(taken)
    first, last = _clip(start, size), _clip(stop, size)
    return first, s.maximum((last - first + (step - 1)) // step, 0)


def _clip(bound: int, size: Any) -> Size:
    if bound < 0:
        return s.maximum(size + bound, 0)
    return 0 if bound == 0 else size if bound == END else s.minimum(size, bound)


def _sliced(op: Call, shape: Shape) -> Shape:
    """The shape of a slice of a tensor of `shape`, dynamic sizes included."""
    _check_ranges(op, len(shape))
    counts = (None if r[3] is None else _range(*r)[1] for r in zip(op.start, op.stop, op.step, shape, strict=True))
    return tuple(counts)  # type: ignore[arg-type]


def _is_whole(start: int, stop: int, step: int, size: Dim) -> bool:
    """Whether a slice takes everything of an axis."""
    return (
        step == 1 and (start == 0 or size is not None and start <= -size) and stop >= (END if size is None else size)
    )


def _cut_axes(op: Call, shape: Shape) -> list[int]:
    ranges = zip(op.start, op.stop, op.step, shape, strict=True)
    return [i for i, r in enumerate(ranges) if not _is_whole(*r)]


@operator("slice(x, start: list_int64, stop: list_int64, step: list_int64) -> y")
class Slice:
    """x[start:stop:step] along every axis, as Python slices: negative bounds count from the end, all are clipped."""

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

    def reference(x, *, start, stop, step):  # type: ignore[no-untyped-def]
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
    """`ref` with `value` in place of what `slice` would take."""

    def types(op: Call) -> TensorDesc:
        part = TensorDesc(_sliced(op, op.ref.shape), op.ref.dtype)
        if not op.value.compatible(part):
            raise op.error(f"expected value of type {part}, got {op.value}")
        return op.ref

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
        parts = [(op.ref, [0] * op.ref.rank), (op.value, firsts, op.step)]
        return c.place(op.ref.shape, None, parts, op.ref.dtype)

    def reference(ref, value, *, start, stop, step):  # type: ignore[no-untyped-def]
        y = ref.copy()
        y[tuple(map(slice, start, stop, step))] = value
        return y


def _padding(op: Call) -> float | int:
    """The value that `pad` fills with."""
    value: float | int = op.floating_constant_value if op.x.dtype.is_float else op.integral_constant_value
    return value


@operator(
    "pad(x, padding_before: list_int64, padding_after: list_int64, integral_constant_value: int64 = 0,"
    " floating_constant_value: double = 0.0) -> y"
)
class Pad:
    """`x` with elements of a constant value before and after it along every axis."""

    def types(op: Call) -> TensorDesc:
        for name in ("padding_before", "padding_after"):
            if len(op[name]) != op.x.rank or any(p < 0 for p in op[name]):
                raise op.error(
                    f"expected {name} of {op.x.rank} sizes of at least 0 (slice cuts), got {list(op[name])}"
                )
        sizes = zip(op.x.shape, op.padding_before, op.padding_after, strict=True)
        return TensorDesc(tuple(None if d is None else d + a + b for d, a, b in sizes), op.x.dtype)

    def sbp(op: Call) -> Factors:
        padded = [i for i, p in enumerate(zip(op.padding_before, op.padding_after, strict=True)) if any(p)]
        factors = same_axes(op, op.x, padded)
        zero = not op.floating_constant_value and not op.integral_constant_value
        return factors if zero else Factors(factors.text)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        stop = [-after if after else END for after in op.padding_after]
        return {"x": lambda: ops.slice(dy, start=op.padding_before, stop=stop, step=[1] * dy.rank)}

    def compute(op: Call) -> Stage:
        sizes = zip(op.x.shape, op.padding_before, op.padding_after, strict=True)
        return c.place([d + a + b for d, a, b in sizes], _padding(op), [(op.x, op.padding_before)], op.x.dtype)

    def reference(x, *, padding_before, padding_after, integral_constant_value, floating_constant_value):  # type: ignore[no-untyped-def]
        value = floating_constant_value if dtypes.from_numpy(x.dtype).is_float else integral_constant_value
        widths = list(zip(padding_before, padding_after, strict=True))
        return np.pad(x, widths, constant_values=value) if widths else x

    laws = (
        Law(
            "identity-pad",
            "pad(x) by nothing = x",
            lambda ops, op: None if any((*op.padding_before, *op.padding_after)) else op.x,
        ),
    )
