"""Operators that concatenate, stack and split tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.ops.slicing import along, take
from oneflow.dialect.record import Call, Law, operator
from oneflow.dialect.sbp import Factors, repeated_factors
from oneflow.dialect.shapes import expect_dim, letters, same_dtype
from oneflow.dialect.tensor_desc import Dim, TensorDesc


def _joined_shape(op: Call, axis: int | None) -> list[Dim]:
    """The known part of the common shape of the tensors of `in`, without `axis`."""
    same_dtype(op, op.in_)
    shape = list(op.in_[0].shape)
    for index, desc in enumerate(op.in_[1:], 1):
        if desc.rank != len(shape):
            raise op.error(f"expected tensors of one rank, got {op.in_[0]} and {desc}")
        for i, d in enumerate(desc.shape):
            if i != axis:
                shape[i] = expect_dim(op, f"axis {i} of in {index}", d, shape[i])
    return shape


def _cut_axes(op: Call, parts: Sequence[TensorDesc]) -> tuple[int, ...]:
    """The axis along which several tensors are joined; none for one tensor."""
    return () if len(parts) == 1 else (op.axis % parts[0].rank,)


def _concatenate(shape: Sequence[Size], parts: Sequence[Stage], axis: int) -> Stage:
    """The concatenation of tensors along `axis`."""
    offset: Size = 0
    placed = []
    for part in parts:
        placed.append((part, along(len(shape), axis, offset)))
        offset = offset + part.shape[axis]
    return c.place(shape, None, placed, parts[0].dtype)


def _known(stages: Sequence[Stage], axis: int) -> Size:
    """The size of an axis that several tensors share, static where a tensor has a static size."""
    sizes = [x.shape[axis] for x in stages]
    return next((d for d in sizes if isinstance(d, int)), sizes[0])


def _split(ops: Builder, op: Call, joined: Value) -> Sequence[Any]:
    """The parts of `joined` for the tensors of a concatenation: results of one operation, or an operation for each
    where static sizes differ, since all results of one operation have one type, or where only some parts are wanted.
    """
    sizes = [x.desc.shape[op.axis] for x in op.in_ if x.desc.shape is not None]
    known = [size for size in sizes if size is not None]
    all_wanted = op.wanted is None or len(op.wanted) == len(op.in_)
    if len(known) < len(op.in_) or (all_wanted and len(set(known)) == 1):
        return ops.call("split_like", joined, op.in_, axis=op.axis)
    rows = zip(known, itertools.accumulate(known), strict=True)
    narrow = functools.partial(ops.narrow, joined, dim=op.axis % joined.desc.rank)
    return [functools.partial(narrow, start=end - size, length=size) for size, end in rows]


@operator("cat(in+, axis: int64 = 0, max_dim_size: int64 = 0) -> out")
class Cat:
    """The concatenation of tensors along `axis`; `max_dim_size` is OneFlow's, and has no meaning here."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        axis = op.normalize_axis(op.axis, op.in_[0].rank)
        shape = _joined_shape(op, axis)
        sizes = [d.shape[axis] for d in op.in_]
        shape[axis] = None if None in sizes else sum(sizes)
        return TensorDesc(tuple(shape), op.in_[0].dtype)

    def sbp(op: Call) -> Factors:
        names = " ".join(letters(op.in_[0].shape, _cut_axes(op, op.in_)))
        return Factors(f"{', '.join([names] * len(op.in_))} -> {names}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": _split(ops, op, dout)}

    def compute(op: Call) -> Stage:
        rank = op.in_[0].rank
        axis = op.normalize_axis(op.axis, rank)
        shape = [_known(op.in_, i) for i in range(rank)]
        shape[axis] = sum(x.shape[axis] for x in op.in_)
        return _concatenate(shape, op.in_, axis)

    def reference(tensors: Any, *, axis: Any) -> Any:
        return np.concatenate(tensors, axis)

    laws = (Law("cat-of-one", "cat([x]) = x", lambda ops, op: op["in"][0] if len(op["in"]) == 1 else None),)


def _split_sizes(op: Call, sizes: list[Dim], total: Dim) -> list[Dim]:
    """The sizes of the parts of an axis of size `total`; an unknown size is solved from the others.

    Raises:
        OperatorError: the sizes do not add up.
    """
    known = sum(d for d in sizes if d is not None)
    if None not in sizes or (total is not None and known > total):
        expect_dim(op, f"the sizes of like along axis {op.axis} added up", known, total)
    if sizes.count(None) != 1 or total is None:
        return sizes
    return [total - known if d is None else d for d in sizes]


@operator("split_like(in, like+, axis: int64 = 0) -> out+")
class SplitLike:
    """`in` split along `axis` into tensors of the sizes of `like`: the adjoint of `cat`."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> list[TensorDesc]:
        axis = op.normalize_axis(op.axis, op.in_.rank)
        shape = list(op.in_.shape)
        for index, like in enumerate(op.like):
            if like.rank != op.in_.rank:
                raise op.error(f"expected like of rank {op.in_.rank}, got {like}")
            for i in range(like.rank):
                if i != axis:
                    shape[i] = expect_dim(op, f"axis {i} of like {index}", like.shape[i], shape[i])
        sizes = _split_sizes(op, [like.shape[axis] for like in op.like], shape[axis])
        return [TensorDesc((*shape[:axis], d, *shape[axis + 1 :]), op.in_.dtype) for d in sizes]

    def sbp(op: Call) -> Factors:
        count = len(op.like)
        names = " ".join(letters(op.in_.shape, _cut_axes(op, op.like)))
        return repeated_factors(names, 1 + count, count, "joint").linear_in(op, "in", results=range(count))

    def grad(ops: Builder, op: Call, *douts: Value | None) -> dict[str, Any]:
        parts = [ops.zero_like(o) if d is None else d for d, o in zip(douts, op.out, strict=True)]
        return {"in": lambda: ops.cat(parts, axis=op.axis)}

    def compute(op: Call) -> list[Stage]:
        axis = op.normalize_axis(op.axis, op.in_.rank)
        offset: Size = 0
        parts = []
        for like in op.like:
            parts.append(take(op.in_, axis, offset, like.shape[axis], "oneflow.split_like: in"))
            offset = offset + like.shape[axis]
        return parts

    def reference(x: Any, like: Any, *, axis: Any) -> Any:
        return np.split(x, np.cumsum([y.shape[axis] for y in like])[:-1], axis)


@operator("stack(in+, axis: int64 = 0, max_dim_size: int64 = 0) -> out")
class Stack:
    """Tensors of one shape along a new axis `axis`; `max_dim_size` is OneFlow's, and has no meaning here."""

    parts = each_part

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
        def part(index: int) -> Value:
            one = ops.narrow(dout, dim=op.axis, start=index, length=1)
            value: Value = ops.squeeze(one, axes=[op.axis])
            return value

        return {"in": tuple(lambda n=n: part(n) for n in range(len(op.in_)))}

    def compute(op: Call) -> Stage:
        rank = op.in_[0].rank
        axis = op.normalize_axis(op.axis, rank + 1)
        shape = [_known(op.in_, i) for i in range(rank)]
        rows = [c.reshape(x, (*shape[:axis], 1, *shape[axis:])) for x in op.in_]
        return _concatenate([*shape[:axis], len(rows), *shape[axis:]], rows, axis)

    def reference(tensors: Any, *, axis: Any) -> Any:
        return np.stack(tensors, axis)


@operator("stack_grad(in, like+, axis: int64 = 0) -> out+")
class StackGrad:
    """The slices of `in` along `axis`, each of the shape of its `like`: the adjoint of `stack`."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> list[TensorDesc]:
        shape = _joined_shape(Call(op.record, {"in": op.like}, op.attrs), None)
        axis = op.normalize_axis(op.axis, len(shape) + 1)
        stacked = TensorDesc((*shape[:axis], len(op.like), *shape[axis:]), op.in_.dtype)
        if not op.in_.compatible(stacked):
            raise op.error(f"expected in of type {stacked}, got {op.in_}")
        sizes = stacked.meet(op.in_).shape or ()
        return [TensorDesc((*sizes[:axis], *sizes[axis + 1 :]), op.in_.dtype)] * len(op.like)

    def sbp(op: Call) -> Factors:
        count, axis = len(op.like), op.axis % op.in_.rank
        names = letters(op.like[0].shape)
        part = ", ".join([" ".join(names)] * count)
        split = Factors(f"{' '.join([*names[:axis], '_', *names[axis:]])}, {part} -> {part}", "joint")
        return split.linear_in(op, "in", results=range(count))

    def grad(ops: Builder, op: Call, *douts: Value | None) -> dict[str, Any]:
        rows = zip(op.like, douts, strict=True)
        return {"in": lambda: ops.stack([ops.zero_like(x) if d is None else d for x, d in rows], axis=op.axis)}

    def compute(op: Call) -> list[Stage]:
        rank = op.like[0].rank
        axis = op.normalize_axis(op.axis, rank + 1)
        shape = [_known(op.like, i) for i in range(rank)]

        def row(index: int) -> Stage:
            return c.element_wise(shape, lambda *at: op.in_[(*at[:axis], index, *at[axis:])], op.in_.dtype)

        return [row(index) for index in range(len(op.like))]

    def reference(x: Any, like: Any, *, axis: Any) -> Any:
        return list(np.moveaxis(x, axis, 0))
