"""Operators that add elements at the indices in another tensor: the adjoints of `indexing`.

Sums of f16 and bf16 are made in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.indexing import (
    AXIS_SHARD,
    aligned,
    axis_shard,
    checked_index,
    expect_index,
    expect_shard,
    expect_within,
    factors,
    in_shard,
    names,
    nd_depth,
    nd_index,
    numpy_checked_indices,
    numpy_nd,
    numpy_rows,
    numpy_with_zeros,
    shard_index,
)
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import B, Factors, P, S, Sbp, SbpSignature, Shard
from oneflow.dialect.shapes import expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import Shape, TensorDesc


def zeros(shape: Sequence[Size], dtype: DType) -> Stage:
    """Zeros of `shape`, in the type in which sums of `dtype` are made."""
    return c.element_wise(shape, lambda *i: s.const(0, dtype.accumulator))


def add_at(base: Stage, values: Stage, index: Callable[..., Sequence[Any]], extents: Sequence[Size] = ()) -> Stage:
    """`base` with each element of `values` added at `index` of its own index, in the type of `values`."""
    wide = c.convert(base, values.dtype.accumulator)
    steps = extents or values.shape
    return c.convert(c.scatter(wide, steps, index, lambda *at: values[at], lambda old, new: old + new), values.dtype)


def _numpy_add_at(base: Any, at: Any, values: Any) -> Any:
    """`values` added to a copy of `base`, positions may repeat; 16-bit floats in f32."""
    out = base.astype(np.float32 if values.dtype.itemsize == 2 else values.dtype)
    np.add.at(out, at, values.astype(out.dtype))
    return out.astype(values.dtype)


def expect_type(op: Call, name: str, shape: Shape) -> None:
    """Checks that operand `name` can have `shape`.

    Raises:
        OperatorError: the operands are incompatible.
    """
    wanted = TensorDesc(shape, op[name].dtype)
    if not op[name].compatible(wanted):
        raise op.error(f"expected {name} of type {wanted}, got {op[name]}")


def _expect_segments(op: Call, shape: Shape, axis: int) -> None:
    """Checks that `data` is a tensor of shape `shape` with `segment_ids` in place of `axis`."""
    expect_index(op, "segment_ids")
    expect_shard(op, shape[axis])
    expect_dtype(op, "data", op.data, dtypes.NUMERIC)
    expect_type(op, "data", (*shape[:axis], *op.segment_ids.shape, *shape[axis + 1 :]))


def _segment_sum(op: Call, shape: Sequence[Size], axis: int) -> Stage:
    end = axis + op.segment_ids.rank

    def index(*at: Any) -> list[Any]:
        row = shard_index(op, "segment_ids", op.segment_ids[at[axis:end]], shape[axis])
        return [*at[:axis], row, *at[end:]]

    def share(*at: Any) -> Any:
        ids, value = op.segment_ids[at[axis:end]], op.data[at]
        return in_shard(op, "segment_ids", ids, shape[axis], lambda _: value, value.dtype)

    data = c.element_wise(op.data.shape, share, op.data.dtype) if op.logical_size else op.data
    return zeros(shape, op.data.dtype) if shape[axis] == 0 else add_at(zeros(shape, op.data.dtype), data, index)


def _numpy_segment_sum(name: str, data: Any, ids: Any, shape: Sequence[int], axis: int, shard: Any) -> Any:
    rows = numpy_rows(f"{name}: segment_ids", ids, shape[axis], **shard)
    sums = _numpy_add_at(numpy_with_zeros(np.zeros(shape, data.dtype), axis), (*[slice(None)] * axis, rows), data)
    return np.delete(sums, -1, axis)


def _segment_factors(op: Call, shape: Shape, axis: int) -> tuple[str, str, str]:
    """Factors of data, segment_ids and the result."""
    d, e = letters(shape), letters(op.segment_ids.shape, (), "e")
    return names(d[:axis], e, d[axis + 1 :]), names(e), names(d)


def _expect_count(op: Call) -> None:
    if op.num_segments < 0:
        raise op.error(f"expected num_segments of at least 0, got {op.num_segments}")


def _summed_shape(op: Call) -> Shape:
    """The result shape of `unsorted_segment_sum`."""
    axis = op.normalize_axis(op.axis, op.data.rank)
    end = axis + op.segment_ids.rank
    _expect_count(op)
    if end > op.data.rank:
        raise op.error(f"expected data with the axes of segment_ids from axis {axis} on, got {op.data}")
    return (*op.data.shape[:axis], op.num_segments, *op.data.shape[end:])


@operator(f"unsorted_segment_sum(data, segment_ids, axis: int64 = 0, num_segments: int64 = 0, {AXIS_SHARD}) -> out")
class UnsortedSegmentSum:
    """Slices of `data` added up by segment; `segment_ids` replaces `axis` of the result."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        shape = _summed_shape(op)
        _expect_segments(op, shape, op.axis % op.data.rank)
        return TensorDesc(shape, op.data.dtype)

    def sbp(op: Call) -> Factors:
        data, ids, out = _segment_factors(op, op.out.shape, op.axis % op.data.rank)
        return Factors(f"{data}, {ids} -> {out}").linear_in(op, "data")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        count = (shard.outputs[0].shape or ())[op.axis % len(op.data.shape)]
        if count == op.num_segments:
            return {}
        total, begin = op.logical_size or op.num_segments, op.logical_begin + shard.output_begins[0]
        return {"num_segments": count, "logical_size": total, "logical_begin": begin}

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        shard = {"logical_size": op.logical_size, "logical_begin": op.logical_begin}
        return {"data": lambda: ops.gather(dout, op.segment_ids, axis=op.axis % op.data.rank, **shard)}

    def compute(op: Call) -> Stage:
        axis = op.axis % op.data.rank
        shape = (*op.data.shape[:axis], op.num_segments, *op.data.shape[axis + op.segment_ids.rank :])
        return _segment_sum(op, shape, axis)

    def reference(data: Any, ids: Any, *, axis: Any, num_segments: Any, **shard: Any) -> Any:
        axis %= data.ndim
        shape = (*data.shape[:axis], num_segments, *data.shape[axis + ids.ndim :])
        return _numpy_segment_sum("unsorted_segment_sum", data, ids, shape, axis, shard)


@operator(f"unsorted_segment_sum_like(data, segment_ids, like, axis: int64 = 0, {AXIS_SHARD}) -> out")
class UnsortedSegmentSumLike:
    """Slices of `data` added up by segment, in the shape of `like`: the adjoint of `gather`."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> TensorDesc:
        _expect_segments(op, op.like.shape, op.normalize_axis(op.axis, op.like.rank))
        return TensorDesc(op.like.shape, op.data.dtype)

    def sbp(op: Call) -> Factors:
        data, ids, out = _segment_factors(op, op.like.shape, op.axis % op.like.rank)
        return Factors(f"{data}, {ids}, {out} -> {out}").linear_in(op, "data")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 2, op.axis)

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"data": lambda: ops.gather(dout, op.segment_ids, **op.attrs)}

    def compute(op: Call) -> Stage:
        return _segment_sum(op, op.like.shape, op.axis % op.like.rank)

    def reference(data: Any, ids: Any, like: Any, *, axis: Any, **shard: Any) -> Any:
        return _numpy_segment_sum("unsorted_segment_sum_like", data, ids, like.shape, axis % like.ndim, shard)


@operator("unsorted_batch_segment_sum(data, segment_ids, num_segments: int64 = 0) -> out")
class UnsortedBatchSegmentSum:
    """`unsorted_segment_sum` along the last axis of `segment_ids`, for every index of the axes before it."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_index(op, "segment_ids")
        expect_dtype(op, "data", op.data, dtypes.NUMERIC)
        expect_rank(op, "segment_ids", op.segment_ids, 1, op.data.rank)
        _expect_count(op)
        rank = op.segment_ids.rank
        expect_type(op, "data", (*op.segment_ids.shape, *op.data.shape[rank:]))
        batch = op.data.meet(TensorDesc((*op.segment_ids.shape, *op.data.shape[rank:]), op.data.dtype)).shape
        return TensorDesc((*batch[: rank - 1], op.num_segments, *batch[rank:]), op.data.dtype)

    def sbp(op: Call) -> Factors:
        axis = op.segment_ids.rank - 1
        d = letters(op.data.shape, (axis,))
        row = [f"e{axis}"]
        text = f"{names(d[:axis], row, d[axis + 1 :])}, {names(d[:axis], row)} -> {names(d)}"
        return Factors(text).linear_in(op, "data")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"data": lambda: ops.batch_gather(dout, op.segment_ids)}

    def compute(op: Call) -> Stage:
        axis = op.segment_ids.rank - 1
        shape = (*op.data.shape[:axis], op.num_segments, *op.data.shape[axis + 1 :])

        def index(*at: Any) -> list[Any]:
            row = checked_index(op, "segment_ids", op.segment_ids[at[: axis + 1]], op.num_segments)
            return [*at[:axis], row, *at[axis + 1 :]]

        return add_at(zeros(shape, op.data.dtype), op.data, index)

    def reference(data: Any, ids: Any, *, num_segments: Any) -> Any:
        axis = ids.ndim - 1
        numpy_checked_indices("unsorted_batch_segment_sum: segment_ids", ids, num_segments)
        base = np.zeros((*data.shape[:axis], num_segments, *data.shape[axis + 1 :]), data.dtype)
        batch = np.indices(ids.shape, sparse=True)[:-1]
        return _numpy_add_at(base, (*batch, ids), data)


def _scatter_types(op: Call, target: str) -> TensorDesc:
    """Checks of `dim_scatter_add` and its kind."""
    expect_index(op, "index")
    expect_dtype(op, "src", op.src, (op[target].dtype,))
    expect_dtype(op, target, op[target], dtypes.NUMERIC)
    expect_within(op, "index", target, op.normalize_axis(op.dim, op[target].rank, "dim"))
    expect_within(op, "index", "src", None)
    expect_shard(op, op[target].shape[op.dim])
    return TensorDesc(op[target].shape, op.src.dtype)


def _scatter_sbp(op: Call, target: str, base: Sbp) -> list[SbpSignature]:
    """Splits of axes of one size; `src` may also be partial sums, or split along `dim`, where `target` is `base`."""
    shapes, dim = [d.shape for d in op.operands], op.dim % op[target].rank
    text = names(aligned(op, shapes, dim))
    added = [SbpSignature((base, B, P), (P,)), SbpSignature((S(dim), B, B), (S(dim),))]
    if op.index.shape[dim] is not None and op.index.shape[dim] == op.src.shape[dim]:
        added.append(SbpSignature((base, S(dim), S(dim)), (P,)))
    return factors(op, f"{text}, {text}, {text} -> {text}", *added)


def _scatter_add(op: Call, base: Stage) -> Stage:
    dim, size = op.dim % base.rank, base.shape[op.dim % base.rank]

    def index(*at: Any) -> list[Any]:
        return [*at[:dim], shard_index(op, "index", op.index[at], size), *at[dim + 1 :]]

    def share(*at: Any) -> Any:
        return in_shard(op, "index", op.index[at], size, lambda _: op.src[at], op.src.dtype.accumulator)

    src = c.element_wise(op.index.shape, share, op.src.dtype) if op.logical_size else op.src
    return base if size == 0 else add_at(base, src, index, op.index.shape)


def src_gradient(ops: Builder, op: Call, read: Value) -> Value:
    """The gradient of `src` from the gradient of the elements that the call reads; zero for other elements."""
    if read.shape == op.src.shape and None not in read.shape:
        return read
    if None in read.shape:
        raise op.error(f"expected a static shape of index for the gradient of src, got {op.index.desc}")
    ranges = {"start": [0] * read.rank, "stop": read.shape, "step": [1] * read.rank}
    gradient: Value = ops.slice_update(ops.zero_like(op.src), read, **ranges)
    return gradient


def _numpy_scatter_add(name: str, base: Any, index: Any, src: Any, dim: int, shard: Any) -> Any:
    at = list(np.indices(index.shape, sparse=True))
    at[dim] = numpy_rows(f"{name}: index", index, base.shape[dim], **shard)
    result, part = numpy_with_zeros(base, dim % base.ndim), src[tuple(map(slice, index.shape))]
    return np.delete(_numpy_add_at(result, tuple(at), part), -1, dim)


@operator(f"dim_scatter_add_like(like, index, src, dim: int32 = 0, {AXIS_SHARD}) -> output")
class DimScatterAddLike:
    """Zeros of the shape of `like` to which `src` is added at `index` along `dim`: the adjoint of `dim_gather`."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> TensorDesc:
        return _scatter_types(op, "like")

    def sbp(op: Call) -> list[SbpSignature]:
        return _scatter_sbp(op, "like", B)

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 0, op.dim)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"src": lambda: src_gradient(ops, op, ops.dim_gather(dy, op.index, **op.attrs))}

    def compute(op: Call) -> Stage:
        return _scatter_add(op, zeros(op.like.shape, op.src.dtype))

    def reference(like: Any, index: Any, src: Any, *, dim: Any, **shard: Any) -> Any:
        return _numpy_scatter_add("dim_scatter_add_like", np.zeros_like(like), index, src, dim, shard)


@operator(f"dim_scatter_add(input, index, src, dim: int32 = 0, {AXIS_SHARD}) -> output")
class DimScatterAdd:
    """`input` to which `src` is added at `index` along `dim`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        return _scatter_types(op, "input")

    def sbp(op: Call) -> list[SbpSignature]:
        return _scatter_sbp(op, "input", P)

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 0, op.dim)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"input": dy, "src": lambda: src_gradient(ops, op, ops.dim_gather(dy, op.index, **op.attrs))}

    def compute(op: Call) -> Stage:
        return _scatter_add(op, op.input)

    def reference(x: Any, index: Any, src: Any, *, dim: Any, **shard: Any) -> Any:
        return _numpy_scatter_add("dim_scatter_add", x, index, src, dim, shard)


def nd_types(op: Call, shape: Shape) -> TensorDesc:
    """Checks of `scatter_nd` and its kind, for a result of `shape`."""
    depth = nd_depth(op, shape)
    expect_dtype(op, "updates", op.updates, dtypes.NUMERIC)
    expect_type(op, "updates", (*op.indices.shape[:-1], *shape[depth:]))
    return TensorDesc(shape, op.updates.dtype)


def _nd_factors(op: Call, shape: Shape) -> tuple[str, str, str]:
    """Factors of indices, updates and the result."""
    depth = op.indices.shape[-1]
    d, e = letters(shape, range(depth)), letters(op.indices.shape[:-1], (), "e")
    return names(e, ["_"]), names(e, d[depth:]), names(d)


def _nd_add(op: Call, base: Stage) -> Stage:
    lead = op.indices.rank - 1
    return add_at(base, op.updates, lambda *at: [*nd_index(op, at[:lead], base.shape), *at[lead:]])


def _numpy_nd_add(name: str, base: Any, indices: Any, updates: Any) -> Any:
    return _numpy_add_at(base, numpy_nd(f"{name}: indices", indices, base.shape), updates)


@operator("scatter_nd(indices, updates, shape: shape) -> out")
class ScatterNd:
    """Zeros of `shape` to which `updates` are added at the indices in `indices`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        if any(d < 0 for d in op.shape):
            raise op.error(f"expected sizes of at least 0 in shape, got {list(op.shape)}")
        return nd_types(op, op.shape)

    def sbp(op: Call) -> Factors:
        indices, updates, out = _nd_factors(op, op.shape)
        return Factors(f"{indices}, {updates} -> {out}").linear_in(op, "updates")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"shape": shard.outputs[0].shape}

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"updates": lambda: ops.gather_nd(dout, op.indices)}

    def compute(op: Call) -> Stage:
        return _nd_add(op, zeros(op.shape, op.updates.dtype))

    def reference(indices: Any, updates: Any, *, shape: Any) -> Any:
        return _numpy_nd_add("scatter_nd", np.zeros(shape, updates.dtype), indices, updates)


@operator("scatter_nd_like(like, indices, updates) -> out")
class ScatterNdLike:
    """Zeros of the shape of `like` to which `updates` are added at `indices`: the adjoint of `gather_nd`."""

    parts = each_part
    shapes_of = ("like",)

    def types(op: Call) -> TensorDesc:
        return nd_types(op, op.like.shape)

    def sbp(op: Call) -> Factors:
        indices, updates, out = _nd_factors(op, op.like.shape)
        return Factors(f"{out}, {indices}, {updates} -> {out}").linear_in(op, "updates")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"updates": lambda: ops.gather_nd(dout, op.indices)}

    def compute(op: Call) -> Stage:
        return _nd_add(op, zeros(op.like.shape, op.updates.dtype))

    def reference(like: Any, indices: Any, updates: Any) -> Any:
        return _numpy_nd_add("scatter_nd_like", np.zeros(like.shape, updates.dtype), indices, updates)
