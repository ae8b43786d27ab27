"""Operators that order elements: sort, top_k, medians, modes, searches, distinct elements.

All operators use `dialect.sorting`: the order is stable and NaN is larger than every number. Results whose size
depends on values have the size of the operand, zeros at the end, and a count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.ops.indexing import INDEX, checked_index, expect_index
from oneflow.dialect.record import AxisError, Call, no_grad, no_sbp, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, letters
from oneflow.dialect.sorting import argsort, largest, partition_point, take_along_axis
from oneflow.dialect.tensor_desc import Dim, TensorDesc

DIRECTIONS = ("ASCENDING", "DESCENDING")
NO_GRAD = no_grad("the result is indices or counts")
WHOLE = no_sbp("every element is compared with every other")


def _row_factors(op: Call, x: TensorDesc, results: tuple[bool, ...]) -> Factors:
    """Factors of rows along the last axis; a result has that axis or does not."""
    names = letters(x.shape or (), (x.rank - 1,))
    sides = (" ".join(names if kept else names[:-1]) for kept in results)
    return Factors(f"{' '.join(names)} -> {', '.join(sides)}")


def _expect_rows(op: Call, name: str = "input", filled: bool = False) -> Dim:
    """The size of the last axis of an operand of rank 1 or more; with `filled` the size is not 0.

    Raises:
        OperatorError: the operand is a scalar, or its rows are empty.
    """
    expect_rank(op, name, op[name], 1, -1)
    size: Dim = op[name].shape[-1]
    if filled and size == 0:
        raise op.error(f"expected rows of at least one element in {name}, got {op[name]}", AxisError)
    return size


def _filled(op: Call, size: Size) -> Any:
    """The size of a row, which is checked at run time not to be empty."""
    return size if isinstance(size, int) else s.at_least(size, 1, f"oneflow.{op.record.name}: the size of a row")


def _expect_direction(op: Call) -> None:
    if op.direction not in DIRECTIONS:
        raise op.error(f"expected direction ASCENDING or DESCENDING, got {op.direction!r}")


def numpy_argsort(x: Any, descending: bool = False) -> Any:
    """The stable argsort of the rows along the last axis, for references."""
    keys = x.astype(np.float64) if x.dtype.kind not in "biu" else x
    if not descending:
        return np.argsort(keys, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.flip(np.argsort(np.flip(keys, -1), axis=-1, kind="stable"), -1)


@operator("arg_sort(in, direction: string) -> out")
class ArgSort:
    """The indices (i32) that sort each row along the last axis, ASCENDING or DESCENDING."""

    def types(op: Call) -> TensorDesc:
        _expect_rows(op, "in")
        _expect_direction(op)
        return TensorDesc(op.in_.shape, dtypes.int32)

    def sbp(op: Call) -> Factors:
        return _row_factors(op, op.in_, (True,))

    grad = NO_GRAD

    def compute(op: Call) -> Stage:
        positions = argsort(op.in_, op.in_.rank - 1, op.direction == "DESCENDING")
        return c.convert(positions, dtypes.int32)

    def reference(x: Any, *, direction: Any) -> Any:
        return numpy_argsort(x, direction == "DESCENDING").astype(np.int32)


@operator("sort(in, direction: string) -> out")
class Sort:
    """The rows along the last axis in the order ASCENDING or DESCENDING."""

    def types(op: Call) -> TensorDesc:
        _expect_rows(op, "in")
        _expect_direction(op)
        return TensorDesc(op.in_.shape, op.in_.dtype)

    def sbp(op: Call) -> Factors:
        return _row_factors(op, op.in_, (True,))

    grad = decomposition_gradient

    def decompose(ops: Builder, op: Call) -> Value:
        order = ops.arg_sort(op.in_, direction=op.direction)
        sorted_rows: Value = ops.dim_gather(op.in_, order, dim=op.in_.rank - 1)
        return sorted_rows

    def reference(x: Any, *, direction: Any) -> Any:
        return np.take_along_axis(x, numpy_argsort(x, direction == "DESCENDING"), -1)


@operator("top_k(in, k: int32 = 0, sorted: bool = False) -> out")
class TopK:
    """Indices (i64) of the `k` largest elements of each row along the last axis, largest first; all if k is larger.

    The order is the same with `sorted` as without.
    """

    def types(op: Call) -> TensorDesc:
        size = _expect_rows(op, "in")
        if op.k < 0:
            raise op.error(f"expected k of at least 0, got {op.k}")
        if size is None:
            raise op.error(f"expected a static last axis of in, got {op.in_}")
        return TensorDesc((*op.in_.shape[:-1], min(op.k, size)), dtypes.int64)

    def sbp(op: Call) -> Factors:
        return _row_factors(op, op.in_, (True,))

    grad = NO_GRAD

    def compute(op: Call) -> Stage:
        return largest(op.in_, op.in_.rank - 1, min(op.k, op.in_.shape[-1]))

    def reference(x: Any, *, k: Any) -> Any:
        return numpy_argsort(x, True)[..., :k].astype(np.int64)


@operator("in_top_k(targets, predictions, k: int32 = 0) -> out")
class InTopK:
    """Whether the prediction of each row's target is one of its `k` largest; false where a row is not finite.

    Predictions as large as the prediction of the target do not count.
    """

    def types(op: Call) -> TensorDesc:
        expect_index(op, "targets")
        expect_dtype(op, "predictions", op.predictions, dtypes.FLOATS)
        expect_rank(op, "targets", op.targets, 1)
        expect_rank(op, "predictions", op.predictions, 2)
        rows = expect_dim(op, "the rows of predictions", op.predictions.shape[0], op.targets.shape[0])
        return TensorDesc((rows,), dtypes.bool_)

    sbp = Factors("n, n _ -> n")
    grad = NO_GRAD

    def compute(op: Call) -> Stage:
        x, size = op.predictions, op.predictions.shape[1]

        def target(row: Expr) -> Expr:
            element: Expr = x[row, checked_index(op, "targets", op.targets[row], size)]
            return element

        def larger(row: Expr, k: Expr) -> Expr:
            finite = abs(x[row, k]) < float("inf")
            return s.where(finite, s.cast(x[row, k] > target(row), dtypes.int64), s.const(1 << 40, dtypes.int64))

        counts = c.sum_(op.targets.shape, [size], larger)
        return c.element_wise(op.targets.shape, lambda row: counts[row] < op.k)

    def reference(targets: Any, x: Any, *, k: Any) -> Any:
        chosen = np.take_along_axis(x, targets[:, None].astype(np.int64), 1)
        return np.isfinite(x).all(1) & ((x > chosen).sum(1) < k)


@operator("median(input) -> output")
class Median:
    """The median of all elements, the lower of two; NaN if one is NaN. Equal elements share the gradient."""

    def types(op: Call) -> TensorDesc:
        if 0 in op.input.shape:
            raise op.error(f"expected at least one element in input, got {op.input}")
        expect_dtype(op, "input", op.input, dtypes.NUMERIC)
        return TensorDesc((), op.input.dtype)

    sbp = WHOLE

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        def dx() -> Value:
            x = op.input
            equal = ops.cast(ops.broadcast_equal(x, op.output), dtype=x.dtype)
            share = dy / ops.reduce_sum(equal, axis=list(range(x.rank)))
            shared: Value = equal * share
            return shared

        return {"input": dx}

    def compute(op: Call) -> Stage:
        row = c.reshape(op.input, [c.product(op.input.shape)])
        positions, size = argsort(row, 0), c.as_expr(_filled(op, row.shape[0]))

        def middle(*at: Expr) -> Expr:
            low, last = (row[s.cast(positions[k], dtypes.index)] for k in ((size - 1) // 2, size - 1))
            return s.where(s.isnan(last), last, low)

        return c.element_wise((), middle, row.dtype)

    def reference(x: Any) -> Any:
        flat = x.reshape(-1)[numpy_argsort(x.reshape(-1))]
        last = flat[-1:].astype(np.float64)
        return flat[-1] if np.isnan(last).any() else flat[(x.size - 1) // 2]


def _scattered(ops: Builder, op: Call, dvalues: Value | None) -> Any:
    """The gradient of elements that were chosen at `indices`, one in each row along the last axis."""
    last, seed = op.input.rank - 1, dvalues
    if seed is None:
        return None
    at, rows = (ops.call("expand_dims", x, axis=last)[0] for x in (op.indices, seed))
    return ops.dim_scatter_add_like(op.input, at, rows, dim=last)


class _Chosen:
    """The slots of operators that choose one element of each row: its value and its index (i64)."""

    @staticmethod
    def types(op: Call) -> tuple[TensorDesc, ...]:
        _expect_rows(op, filled=True)
        expect_dtype(op, "input", op.input, dtypes.NUMERIC)
        rows = op.input.shape[:-1]
        return TensorDesc(rows, op.input.dtype), TensorDesc(rows, dtypes.int64)

    @staticmethod
    def sbp(op: Call) -> Factors:
        return _row_factors(op, op.input, (False, False))

    @staticmethod
    def grad(ops: Builder, op: Call, dvalues: Value | None, dindices: Value | None) -> dict[str, Any]:
        return {"input": lambda: _scattered(ops, op, dvalues)}


def _with_values(x: Stage, indices: Stage) -> tuple[Stage, Stage]:
    """The elements of `x` at an index in each row along the last axis, and these indices."""
    return c.element_wise(indices.shape, lambda *at: x[(*at, s.cast(indices[at], dtypes.index))], x.dtype), indices


@operator("median_with_indices(input) -> values, indices")
class MedianWithIndices:
    """The median of each row along the last axis, the lower of two, and its index; NaN if a row has one."""

    types, sbp, grad = _Chosen.types, _Chosen.sbp, _Chosen.grad

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, axis = op.input, op.input.rank - 1
        positions, size = argsort(x, axis), c.as_expr(_filled(op, x.shape[axis]))

        def step(at: Any, r: Any, acc: Any) -> list[Expr]:
            return [acc[0] + s.cast(s.isnan(x[(*at, r[0])]), dtypes.int64)]

        (nans,) = c.fold(x.shape[:-1], x.shape[-1:], [s.const(0, dtypes.int64)], step, associative=True)

        def chosen(*at: Expr) -> Expr:
            count = s.cast(nans[at], dtypes.index)
            return positions[(*at, s.where(count > 0, size - s.maximum(count, 1), (size - 1) // 2))]

        return _with_values(x, c.element_wise(x.shape[:-1], chosen, dtypes.int64))

    def reference(x: Any) -> Any:
        positions = numpy_argsort(x)
        nans = np.isnan(x.astype(np.float64)).sum(-1, keepdims=True)
        at = np.where(nans > 0, x.shape[-1] - np.maximum(nans, 1), (x.shape[-1] - 1) // 2)
        indices = np.take_along_axis(positions, at, -1)
        return np.take_along_axis(x, indices, -1)[..., 0], indices[..., 0].astype(np.int64)


@operator("mode(input) -> values, indices")
class Mode:
    """The most frequent element of each row along the last axis, the smallest of several, and its last index."""

    types, sbp, grad = _Chosen.types, _Chosen.sbp, _Chosen.grad

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, axis = op.input, op.input.rank - 1
        _filled(op, x.shape[axis])
        positions = argsort(x, axis)
        values = take_along_axis(x, positions, axis)

        def step(at: Any, r: Any, acc: Any) -> list[Expr]:
            run, most, best = acc
            current, before = values[(*at, r[0])], values[(*at, s.maximum(r[0] - 1, 0))]
            run = s.where((r[0] > 0) & current.eq(before), run + 1, 1)
            return [run, s.maximum(most, run), s.where(run > most, positions[(*at, r[0])], best)]

        inits = [s.const(0, dtypes.int64)] * 3
        return _with_values(x, c.fold(x.shape[:-1], x.shape[-1:], inits, step)[2])

    def reference(x: Any) -> Any:
        rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
        counts = (rows[:, :, None] == rows[:, None, :]).sum(-1)
        most = np.maximum(counts, 1) == np.maximum(counts, 1).max(-1, keepdims=True)
        keys = np.where(most & ~np.isnan(rows), rows, np.inf)
        smallest = np.where(most, keys, np.nan) == keys.min(-1, keepdims=True)
        smallest |= most & np.isnan(rows) & ~smallest.any(-1, keepdims=True)
        first_nan = np.isnan(rows) & (np.cumsum(np.isnan(rows), -1) > 1)
        indices = x.shape[-1] - 1 - np.argmax(np.flip(smallest & ~first_nan, -1), -1)
        indices = indices.reshape(x.shape[:-1]).astype(np.int64)
        return np.take_along_axis(x, indices[..., None], -1)[..., 0], indices


def _points(row: Any, size: Size, point: Expr, right: bool) -> Expr:
    """How many of the sorted elements `row(k)` are smaller than `point`; with `right`, smaller or equal."""
    assert isinstance(size, int)
    if size == 0:
        return s.const(0, dtypes.index)
    return partition_point(size, lambda k: ~(row(k) > point) if right else ~(row(k) >= point))


def _search_types(op: Call) -> TensorDesc:
    size = _expect_rows(op, "sorted_sequence")
    expect_dtype(op, "sorted_sequence", op.sorted_sequence, dtypes.NUMERIC)
    if size is None:
        raise op.error(f"expected a static last axis of sorted_sequence, got {op.sorted_sequence}")
    return TensorDesc((), dtypes.int32 if op.out_int32 else dtypes.int64)


@operator("searchsorted(sorted_sequence, values, out_int32: bool = False, right: bool = False) -> out")
class SearchSorted:
    """The insertion point of each of `values` in its sorted row.

    The position is before equal elements, with `right` after equal elements. The rows have the leading axes of
    `values`, or all of `values` share one row. The position of NaN is at the end.
    """

    def types(op: Call) -> TensorDesc:
        results = _search_types(op)
        expect_dtype(op, "values", op.values, (op.sorted_sequence.dtype,))
        lead = op.sorted_sequence.shape[:-1]
        if lead:
            expect_rank(op, "values", op.values, op.sorted_sequence.rank)
            for i, size in enumerate(lead):
                expect_dim(op, f"axis {i} of values", op.values.shape[i], size)
        return TensorDesc(op.values.shape, results.dtype)

    def sbp(op: Call) -> Factors:
        lead = letters(op.sorted_sequence.shape[:-1])
        names = letters(op.values.shape, (), "e") if not lead else [*lead, *letters(op.values.shape[-1:], (), "e")]
        return Factors(f"{' '.join([*lead, 'k'])}, {' '.join(names)} -> {' '.join(names)}")

    grad = NO_GRAD

    def compute(op: Call) -> Stage:
        rows = op.sorted_sequence

        def insertion(*at: Expr) -> Expr:
            lead = at[: rows.rank - 1]
            return _points(lambda k: rows[(*lead, k)], rows.shape[-1], op.values[at], op.right)

        return c.element_wise(op.values.shape, insertion, dtypes.int32 if op.out_int32 else dtypes.int64)

    def reference(rows: Any, values: Any, *, out_int32: Any, right: Any) -> Any:
        side: Any = "right" if right else "left"
        dtype = np.int32 if out_int32 else np.int64
        if rows.ndim == 1:
            return np.searchsorted(rows, values, side).astype(dtype)
        positions = np.empty(values.shape, dtype)
        for at in np.ndindex(rows.shape[:-1]):
            positions[at] = np.searchsorted(rows[at], values[at], side)
        return positions


@operator(
    "searchsorted_scalar(sorted_sequence, out_int32: bool = False, right: bool = False, values: float = 0.0) -> out"
)
class SearchSortedScalar:
    """As `searchsorted` for one number, which is given as an attribute, and one row."""

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "sorted_sequence", op.sorted_sequence, 1)
        return _search_types(op)

    sbp = Factors("k -> ")
    grad = NO_GRAD

    def compute(op: Call) -> Stage:
        wide = dtypes.float64 if op.sorted_sequence.dtype is dtypes.float64 else dtypes.float32
        point = s.const(op["values"], wide)

        def insertion() -> Expr:
            return _points(
                lambda k: s.cast(op.sorted_sequence[k], wide), op.sorted_sequence.shape[0], point, op.right
            )

        return c.element_wise((), insertion, dtypes.int32 if op.out_int32 else dtypes.int64)

    def reference(row: Any, *, out_int32: Any, right: Any, values: Any) -> Any:
        wide = row.astype(np.float64 if row.dtype == np.float64 else np.float32)
        positions = np.searchsorted(wide, np.asarray(values, wide.dtype), "right" if right else "left")
        return np.asarray(positions, np.int32 if out_int32 else np.int64)


def _unique_types(op: Call) -> tuple[TensorDesc, ...]:
    expect_rank(op, "x", op.x, 1)
    if op.out_idx not in INDEX:
        raise op.error(f"expected out_idx of type i32 or i64, got {op.out_idx}")
    return op.x, TensorDesc(op.x.shape, op.out_idx), TensorDesc((1,), op.out_idx)


def _zeros(shape: Any, dtype: Any) -> Stage:
    return c.element_wise(shape, lambda *at: s.const(0, dtype))


def _unique_stages(op: Call) -> tuple[Stage, ...]:
    """The distinct elements, the index of each element among these, their number, and the number of occurrences of
    each.
    """
    x, size, dtype = op.x, op.x.shape[0], op.out_idx
    if size == 0:
        return _zeros((0,), x.dtype), _zeros((0,), dtype), _zeros((1,), dtype), _zeros((0,), dtype)
    positions = argsort(x, 0)
    values = take_along_axis(x, positions, 0)

    def is_new(k: Expr) -> Expr:
        return s.cast(k.eq(0) | values[k].ne(values[s.maximum(k - 1, 0)]), dtypes.int64)

    new = c.element_wise(x.shape, is_new)
    unique_indices = c.scan(new, 0, s.const(-1, dtypes.int64), lambda a, b: a + b, dtypes.int64)

    def unique_index(k: Expr) -> tuple[Expr]:
        return (s.cast(unique_indices[k], dtypes.index),)

    distinct = c.scatter(_zeros(x.shape, x.dtype), x.shape, unique_index, lambda k: values[k])
    inverse = c.scatter(
        _zeros(x.shape, dtype), x.shape, lambda k: (s.cast(positions[k], dtypes.index),), lambda k: unique_indices[k]
    )
    count = c.sum_((1,), x.shape, lambda _, k: new[k], dtype)
    counts = c.scatter(_zeros(x.shape, dtype), x.shape, unique_index, lambda k: s.const(1, dtype), lambda a, b: a + b)
    return distinct, inverse, count, counts


def _numpy_unique(x: Any, out_idx: Any) -> tuple[Any, ...]:
    wide = x.astype(np.float64) if x.dtype.kind not in "biu" else x
    values, inverse, counts = np.unique(wide, return_inverse=True, return_counts=True, equal_nan=False)
    pad = (0, x.size - values.size)
    index = out_idx.numpy
    count = np.asarray([values.size], index)
    return (
        np.pad(values, pad).astype(x.dtype),
        inverse.reshape(-1).astype(index),
        count,
        np.pad(counts, pad).astype(index),
    )


@operator("unique(x, out_idx: data_type, sorted: bool = True) -> y, idx, num_unique")
class Unique:
    """The distinct elements of a row in ascending order, then zeros; the index of each element among these; their
    number.

    NaN is distinct from NaN. The order is the same with `sorted` as without.
    """

    types = _unique_types
    sbp, grad = WHOLE, no_grad("the number of distinct elements is not continuous")

    def compute(op: Call) -> tuple[Stage, ...]:
        return _unique_stages(op)[:3]

    def reference(x: Any, *, out_idx: Any) -> Any:
        return _numpy_unique(x, out_idx)[:3]


@operator("unique_with_counts(x, out_idx: data_type, sorted: bool = True) -> y, idx, num_unique, count")
class UniqueWithCounts:
    """Like `unique`, with the number of occurrences of each distinct element, followed by zeros."""

    def types(op: Call) -> tuple[TensorDesc, ...]:
        return (*_unique_types(op), TensorDesc(op.x.shape, op.out_idx))

    sbp, grad = WHOLE, no_grad("the number of distinct elements is not continuous")

    def compute(op: Call) -> tuple[Stage, ...]:
        return _unique_stages(op)

    def reference(x: Any, *, out_idx: Any) -> Any:
        return _numpy_unique(x, out_idx)


@operator("argwhere(input, dtype: data_type) -> output, output_size")
class ArgWhere:
    """The indices of all elements but zeros, one in a row, in row-major order, then rows of zeros; how many."""

    def types(op: Call) -> tuple[TensorDesc, ...]:
        if op.dtype not in INDEX:
            raise op.error(f"expected dtype i32 or i64, got {op.dtype.mlir}")
        if None in op.input.shape:
            raise op.error(f"expected a static shape of input, got {op.input}")
        count = int(np.prod(op.input.shape, dtype=np.int64))
        return TensorDesc((count, op.input.rank), op.dtype), TensorDesc((1,), op.dtype)

    sbp = no_sbp("the rows of the result follow from all elements before")
    grad = NO_GRAD

    def compute(op: Call) -> tuple[Stage, ...]:
        shape = op.input.shape
        count, strides = (
            int(np.prod(shape, dtype=np.int64)),
            [int(np.prod(shape[i + 1 :])) for i in range(len(shape))],
        )
        if count == 0:
            return _zeros((0, len(shape)), op.dtype), _zeros((1,), op.dtype)
        flat = c.reshape(op.input, (count,))
        nonzero = c.element_wise((count,), lambda k: s.cast(s.cast(flat[k], dtypes.bool_), dtypes.int64))
        before = c.scan(nonzero, 0, s.const(-1, dtypes.int64), lambda a, b: a + b, dtypes.int64)
        where = c.scatter(
            _zeros((count,), dtypes.int64),
            (count,),
            lambda k: (s.cast(s.maximum(before[k], 0), dtypes.index),),
            lambda k: s.where(nonzero[k].ne(0), s.cast(k, dtypes.int64), s.const(-1, dtypes.int64)),
            lambda old, new: s.where(new < 0, old, new),
        )

        def coordinate(row: Expr, axis: Expr) -> Expr:
            value = s.const(0, dtypes.int64)
            for i, (stride, size) in enumerate(zip(strides, shape, strict=True)):
                value = s.where(axis.eq(i), where[row] // stride % size, value)
            return value

        total = c.sum_((1,), (count,), lambda _, k: nonzero[k], op.dtype)
        return c.element_wise((count, len(shape)), coordinate, op.dtype), total

    def reference(x: Any, *, dtype: Any) -> Any:
        positions = np.argwhere(x)
        rows = np.zeros((x.size, x.ndim), dtype.numpy)
        rows[: len(positions)] = positions
        return rows, np.asarray([len(positions)], dtype.numpy)


@operator("bincount(in, weight?, size: int64 = 0) -> out")
class BinCount:
    """How often each number from 0 to `size - 1` occurs, in the type of `in`; or the sums of its weights."""

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "in", op.in_, 1)
        expect_dtype(op, "in", op.in_, dtypes.INTEGERS)
        if op.size < 0:
            raise op.error(f"expected a size of at least 0, got {op.size}")
        if op.weight is not None:
            expect_rank(op, "weight", op.weight, 1)
            expect_dtype(op, "weight", op.weight, dtypes.NUMERIC)
            expect_dim(op, "the size of weight", op.weight.shape[0], op.in_.shape[0])
        return TensorDesc((op.size,), (op.weight or op.in_).dtype)

    def sbp(op: Call) -> Factors:
        return Factors("n -> _") if op.weight is None else Factors("n, n -> _").linear_in(op, "weight")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        at = op.in_ if op.in_.dtype in INDEX else ops.cast(op.in_, dtype=dtypes.int64)
        floats = op.weight is not None and op.weight.dtype.is_float
        return {"weight": lambda: ops.gather(dout, at, axis=0)} if floats else {}

    def compute(op: Call) -> Stage:
        dtype = (op.weight or op.in_).dtype
        if op.size == 0:
            return _zeros((0,), dtype)
        wide = dtype.accumulator
        counts = c.scatter(
            _zeros((op.size,), wide),
            op.in_.shape,
            lambda k: (checked_index(op, "in", op.in_[k], op.size),),
            lambda k: s.const(1, wide) if op.weight is None else op.weight[k],
            lambda old, new: old + new,
        )
        return c.convert(counts, dtype)

    def reference(x: Any, weight: Any, *, size: Any) -> Any:
        if x.size and not 0 <= x.min() <= x.max() < size:
            raise IndexError(
                f"oneflow.bincount: expected numbers in [0, {size}), got numbers from {x.min()} to {x.max()}"
            )
        values = np.ones_like(x) if weight is None else weight
        counts = np.zeros(size, np.float32 if values.dtype.itemsize == 2 else values.dtype)
        np.add.at(counts, x.astype(np.int64), values)
        return counts.astype(values.dtype)
