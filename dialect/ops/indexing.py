"""Operators that gather elements at the indices in another tensor.

Positions are i32 or i64; one that is negative or too large is an error at run time. The adjoints of these operators
are in `scattering`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call, no_grad, operator
from oneflow.dialect.sbp import B, Factors, P, S, SbpSignature, Shard
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import Shape, TensorDesc

#: The element types of indices.
INDEX = (dtypes.int32, dtypes.int64)


def expect_index(op: Call, name: str) -> None:
    """Checks that operand `name` has indices.

    Raises:
        OperatorError: its type is not i32 or i64.
    """
    expect_dtype(op, name, op[name], INDEX)


def checked_index(op: Call, name: str, value: Any, size: Size) -> Any:
    """An index read from operand `name`, checked at run time to be in `[0, size)`."""
    return s.checked(s.cast(value, dtypes.index), size, f"oneflow.{op.record.name}: {name}")


def numpy_checked_indices(name: str, indices: Any, size: int) -> Any:
    """`indices`, for references.

    Raises:
        IndexError: one is outside `[0, size)`.
    """
    bad = indices[(indices < 0) | (indices >= size)]
    if bad.size:
        raise IndexError(f"oneflow.{name}: index {bad.flat[0]} is out of range for size {size}")
    return indices


#: The size of the whole axis and the start of this device's shard of it; 0: the axis is not split.
AXIS_SHARD = "logical_size: int64 = 0, logical_begin: int64 = 0"


def axis_shard(op: Call, shard: Shard, operand: int, axis: int) -> dict[str, Any]:
    """The attributes `AXIS_SHARD` of the call on one device's shards, if `axis` of that operand is split."""
    size, local_size = op.operands[operand].shape[axis], (shard.inputs[operand].shape or ())[axis]
    if local_size == size:
        return {}
    return {"logical_size": op.logical_size or size, "logical_begin": op.logical_begin + shard.begins[operand]}


def expect_shard(op: Call, size: Any) -> None:
    """Checks the attributes `AXIS_SHARD` for an axis of `size`.

    Raises:
        OperatorError: the shard is not within the whole axis.
    """
    begin, end = op.logical_begin, op.logical_begin + (size or 0)
    if (op.logical_size or begin) and not 0 <= begin <= end <= op.logical_size:
        raise op.error(
            f"expected a shard of an axis of logical_size {op.logical_size},"
            f" got {size} elements from logical_begin {begin} on"
        )


def shard_index(op: Call, name: str, value: Any, size: Size) -> Any:
    """As `checked_index` for the shard of `size` that one device has; 0 where the index is not in the shard."""
    if not op.logical_size:
        return checked_index(op, name, value, size)
    at = checked_index(op, name, value, op.logical_size) - op.logical_begin
    within = s.where((at >= 0) & (at < size), at, 0)
    return within if isinstance(size, int) else checked_index(op, name, within, size)


def in_shard(op: Call, name: str, value: Any, size: Size, use: Callable[[Any], Any], dtype: DType) -> Any:
    """`use(index)` of type `dtype` for an index in an axis of `size`; 0 where the index is not in this shard.

    The index is read from operand `name` and checked at run time to be within the whole axis.
    """
    if not op.logical_size:
        return use(checked_index(op, name, value, size))
    at = s.cast(value, dtypes.index) - op.logical_begin
    inside = (at >= 0) & (at < size)
    zero = s.const(0, dtype)
    return zero if size == 0 else s.where(inside, use(shard_index(op, name, value, size)), zero)


def numpy_rows(name: str, indices: Any, size: int, logical_size: int = 0, logical_begin: int = 0) -> Any:
    """Positions in an axis of `size`, for references; `size` itself where positions are not in this shard.

    Raises:
        IndexError: one is outside of the whole axis.
    """
    at = numpy_checked_indices(name, indices, logical_size or size) - logical_begin
    return np.where((at >= 0) & (at < size), at, size)


def numpy_with_zeros(x: Any, axis: int) -> Any:
    """`x` with zeros at one more index along `axis`, where `numpy_rows` points outside of the shard."""
    return np.concatenate([x, np.zeros_like(x, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))], axis)


def factors(op: Call, text: str, *more: SbpSignature) -> list[SbpSignature]:
    """The signatures of a factor text, and further signatures that factors do not express."""
    return [*Factors(text).signatures([d.shape for d in op.operands]), *more]


def names(*parts: list[str]) -> str:
    """Factors of one tensor."""
    return " ".join(n for part in parts for n in part)


@operator(f"gather(in, indices, axis: int64 = 0, {AXIS_SHARD}) -> out")
class Gather:
    """Slices of `in` along `axis` at `indices`, whose shape replaces the axis."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_index(op, "indices")
        axis = op.normalize_axis(op.axis, op.in_.rank)
        expect_shard(op, op.in_.shape[axis])
        return TensorDesc((*op.in_.shape[:axis], *op.indices.shape, *op.in_.shape[axis + 1 :]), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        axis = op.axis % op.in_.rank
        d, e = letters(op.in_.shape), letters(op.indices.shape, (), "e")
        return Factors(f"{names(d)}, {names(e)} -> {names(d[:axis], e, d[axis + 1 :])}").linear_in(op, "in")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 0, op.axis)

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": lambda: ops.unsorted_segment_sum_like(dout, op.indices, op.in_, **op.attrs)}

    def compute(op: Call) -> Stage:
        axis = op.normalize_axis(op.axis, op.in_.rank)
        end = axis + op.indices.rank

        def body(*at: Any) -> Any:
            def read(row: Any) -> Any:
                return op.in_[(*at[:axis], row, *at[end:])]

            wide = op.in_.dtype.accumulator
            return in_shard(op, "indices", op.indices[at[axis:end]], op.in_.shape[axis], read, wide)

        shape = (*op.in_.shape[:axis], *op.indices.shape, *op.in_.shape[axis + 1 :])
        return c.element_wise(shape, body, op.in_.dtype)

    def reference(x: Any, indices: Any, *, axis: Any, **shard: Any) -> Any:
        rows = numpy_rows("gather: indices", indices, x.shape[axis], **shard)
        return np.take(numpy_with_zeros(x, axis % x.ndim), rows, axis)


@operator("batch_gather(in, indices) -> out")
class BatchGather:
    """`gather` along the last axis of `indices`, for every index of the axes before it."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_index(op, "indices")
        expect_rank(op, "indices", op.indices, 1, op.in_.rank)
        axis = op.indices.rank - 1
        batch = [expect_dim(op, f"axis {i} of indices", op.indices.shape[i], op.in_.shape[i]) for i in range(axis)]
        return TensorDesc((*batch, op.indices.shape[axis], *op.in_.shape[axis + 1 :]), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        axis = op.indices.rank - 1
        d, e = letters(op.in_.shape, (axis,)), letters(op.indices.shape, (), "e")[axis:]
        text = f"{names(d)}, {names(d[:axis], e)} -> {names(d[:axis], e, d[axis + 1 :])}"
        return Factors(text).linear_in(op, "in")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        def din() -> Value:
            size = op.in_.shape[op.indices.rank - 1]
            if size is None:
                raise op.error(
                    f"expected a static axis {op.indices.rank - 1} of in for its gradient, got {op.in_.desc}"
                )
            value: Value = ops.unsorted_batch_segment_sum(dout, op.indices, num_segments=size)
            return value

        return {"in": din}

    def compute(op: Call) -> Stage:
        axis = op.indices.rank - 1

        def body(*at: Any) -> Any:
            row = checked_index(op, "indices", op.indices[at[: axis + 1]], op.in_.shape[axis])
            return op.in_[(*at[:axis], row, *at[axis + 1 :])]

        return c.element_wise((*op.indices.shape, *op.in_.shape[axis + 1 :]), body, op.in_.dtype)

    def reference(x: Any, indices: Any) -> Any:
        numpy_checked_indices("batch_gather: indices", indices, x.shape[indices.ndim - 1])
        wide = indices.reshape(*indices.shape, *[1] * (x.ndim - indices.ndim))
        return np.take_along_axis(x, wide, indices.ndim - 1)


def expect_within(op: Call, name: str, other: str, dim: int | None) -> None:
    """Checks that operand `name` has the rank of `other` and is nowhere larger, axis `dim` left aside.

    Raises:
        OperatorError: the shapes are incompatible.
    """
    expect_rank(op, name, op[name], op[other].rank)
    pairs = enumerate(zip(op[name].shape, op[other].shape, strict=True))
    if any(i != dim and a is not None and b is not None and a > b for i, (a, b) in pairs):
        raise op.error(f"expected {name} to fit into {other} of type {op[other]}, got {op[name]}")


def aligned(op: Call, shapes: list[Shape], dim: int) -> list[str]:
    """Factors of axes that have one size in all of `shapes`; `dim` and the others stay whole."""
    sizes = list(zip(*shapes, strict=True))
    return ["_" if i == dim or len(set(n)) > 1 or n[0] in (None, 1) else f"d{i}" for i, n in enumerate(sizes)]


@operator(f"dim_gather(input, index, dim: int32 = 0, {AXIS_SHARD}) -> output")
class DimGather:
    """The element of `input` at the index of the result's element, but at `index` along `dim`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_index(op, "index")
        dim = op.normalize_axis(op.dim, op.input.rank, "dim")
        expect_within(op, "index", "input", dim)
        expect_shard(op, op.input.shape[dim])
        return TensorDesc(op.index.shape, op.input.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        dim = op.dim % op.input.rank
        d = aligned(op, [op.input.shape, op.index.shape], dim)
        e = ["e" if i == dim else n for i, n in enumerate(d)]
        added = (SbpSignature((kind, B), (P,)) for kind in (P, S(dim)))
        return factors(op, f"{names(d)}, {names(e)} -> {names(e)}", *added)

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 0, op.dim)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"input": lambda: ops.dim_scatter_add_like(op.input, op.index, dy, **op.attrs)}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.input.rank, "dim")

        def body(*at: Any) -> Any:
            def read(row: Any) -> Any:
                return op.input[(*at[:dim], row, *at[dim + 1 :])]

            return in_shard(op, "index", op.index[at], op.input.shape[dim], read, op.input.dtype.accumulator)

        return c.element_wise(op.index.shape, body, op.input.dtype)

    def reference(x: Any, index: Any, *, dim: Any, **shard: Any) -> Any:
        rows = numpy_rows("dim_gather: index", index, x.shape[dim], **shard)
        part = tuple(slice(None) if i == dim % x.ndim else slice(n) for i, n in enumerate(index.shape))
        return np.take_along_axis(numpy_with_zeros(x[part], dim % x.ndim), rows, dim)


def nd_depth(op: Call, target: Any) -> int:
    """How many axes of `target` each row of the operand `indices` names.

    Raises:
        OperatorError: indices are not rows of known, fitting length.
    """
    expect_index(op, "indices")
    expect_rank(op, "indices", op.indices, 1, -1)
    depth: int | None = op.indices.shape[-1]
    if depth is None:
        raise op.error(f"expected a static last axis of indices, got {op.indices}")
    if not 1 <= depth <= len(target):
        raise op.error(f"expected rows of 1 to {len(target)} positions in indices, got {depth}")
    return depth


def nd_index(op: Call, at: Any, sizes: Any) -> tuple[Any, ...]:
    """The indices in row `at` of `indices`, each checked against its size."""
    depth = op.indices.shape[-1]
    return tuple(checked_index(op, "indices", op.indices[(*at, k)], sizes[k]) for k in range(depth))


def numpy_nd(name: str, indices: Any, sizes: Any) -> tuple[Any, ...]:
    """The rows of `indices` as a NumPy index, for references.

    Raises:
        IndexError: one is out of range.
    """
    return tuple(numpy_checked_indices(name, indices[..., k], sizes[k]) for k in range(indices.shape[-1]))


@operator("gather_nd(params, indices) -> out")
class GatherNd:
    """Slices of `params` at the indices in the last axis of `indices`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        depth = nd_depth(op, op.params.shape)
        return TensorDesc((*op.indices.shape[:-1], *op.params.shape[depth:]), op.params.dtype)

    def sbp(op: Call) -> Factors:
        depth = op.indices.shape[-1]
        d, e = letters(op.params.shape, range(depth)), letters(op.indices.shape[:-1], (), "e")
        return Factors(f"{names(d)}, {names(e, ['_'])} -> {names(e, d[depth:])}").linear_in(op, "params")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"params": lambda: ops.scatter_nd_like(op.params, op.indices, dout)}

    def compute(op: Call) -> Stage:
        depth, lead = op.indices.shape[-1], op.indices.rank - 1

        def body(*at: Any) -> Any:
            return op.params[(*nd_index(op, at[:lead], op.params.shape), *at[lead:])]

        return c.element_wise((*op.indices.shape[:-1], *op.params.shape[depth:]), body, op.params.dtype)

    def reference(params: Any, indices: Any) -> Any:
        return params[numpy_nd("gather_nd: indices", indices, params.shape)]


def _hot_values(op: Call) -> tuple[float, float]:
    kind = "floating" if op.dtype.is_float else "integer"
    return op[f"{kind}_on_value"], op[f"{kind}_off_value"]


@operator(
    "one_hot(indices, dtype: data_type, depth: int64 = 0, floating_on_value: double = 0.0,"
    " integer_on_value: int64 = 0, floating_off_value: double = 0.0, integer_off_value: int64 = 0,"
    " logical_begin: int64 = 0) -> out"
)
class OneHot:
    """Rows of `depth` off-values with the on-value at `indices`; an index out of bounds sets none (OneFlow ends
    there).

    On one device the rows may be shards, which begin at `logical_begin`.
    """

    def types(op: Call) -> TensorDesc:
        expect_index(op, "indices")
        if op.depth < 0:
            raise op.error(f"expected a depth of at least 0, got {op.depth}")
        return TensorDesc((*op.indices.shape, op.depth), op.dtype)

    def sbp(op: Call) -> Factors:
        e = letters(op.indices.shape, (), "e")
        return Factors(f"{names(e)} -> {names(e, ['d'])}")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        depth = (shard.outputs[0].shape or ())[-1]
        return {"depth": depth, "logical_begin": op.logical_begin + shard.output_begins[0] * (depth != op.depth)}

    grad = no_grad("depends on positions, which are integers")

    def compute(op: Call) -> Stage:
        on, off = (s.const(x, op.dtype.accumulator) for x in _hot_values(op))

        def body(*at: Any) -> Any:
            return s.where(s.cast(op.indices[at[:-1]], dtypes.index).eq(at[-1] + op.logical_begin), on, off)

        return c.element_wise((*op.indices.shape, op.depth), body, op.dtype)

    def reference(indices: Any, *, dtype: Any, depth: Any, logical_begin: Any, **values: Any) -> Any:
        kind = "floating" if dtype.is_float else "integer"
        on, off = (np.asarray(values[f"{kind}_{n}_value"]).astype(dtype.numpy) for n in ("on", "off"))
        return np.where(indices[..., None] == np.arange(depth) + logical_begin, on, off)
