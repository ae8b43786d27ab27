"""Embedding: rows of a table at indices, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.indexing import (
    AXIS_SHARD,
    axis_shard,
    expect_index,
    expect_shard,
    in_shard,
    names,
    numpy_rows,
    numpy_with_zeros,
    shard_index,
)
from oneflow.dialect.ops.scattering import add_at, expect_type, zeros
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.shapes import expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import TensorDesc

OPTIONS = f"padding_idx: int64 = -1, scale_grad_by_freq: bool = False, {AXIS_SHARD}"


def _expect_table(op: Call) -> None:
    expect_index(op, "indices")
    expect_rank(op, "weight", op.weight, 2)
    expect_shard(op, op.weight.shape[0])
    rows = op.logical_size or op.weight.shape[0]
    if op.padding_idx < -1 or (rows is not None and op.padding_idx >= rows):
        raise op.error(f"expected padding_idx of -1 (none) or a row of weight {op.weight}, got {op.padding_idx}")


@operator(f"embedding(weight, indices, {OPTIONS}) -> out")
class Embedding:
    """Rows of `weight` at `indices`; `padding_idx` and `scale_grad_by_freq` concern `embedding_grad`."""

    def types(op: Call) -> TensorDesc:
        _expect_table(op)
        return TensorDesc((*op.indices.shape, op.weight.shape[1]), op.weight.dtype)

    def sbp(op: Call) -> Factors:
        e = letters(op.indices.shape, (), "e")
        return Factors(f"v d, {names(e)} -> {names(e, ['d'])}").linear_in(op, "weight")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 0, 0)

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"weight": lambda: ops.embedding_grad(dout, op.weight, op.indices, **op.attrs)}

    def compute(op: Call) -> Stage:
        def body(*at: Any) -> Any:
            def read(row: Any) -> Any:
                return op.weight[row, at[-1]]

            wide = op.weight.dtype.accumulator
            return in_shard(op, "indices", op.indices[at[:-1]], op.weight.shape[0], read, wide)

        return c.element_wise((*op.indices.shape, op.weight.shape[1]), body, op.weight.dtype)

    def reference(weight: Any, indices: Any, *, logical_size: Any, logical_begin: Any) -> Any:
        rows = numpy_rows("embedding: indices", indices, len(weight), logical_size, logical_begin)
        return numpy_with_zeros(weight, 0)[rows]


@operator(f"embedding_grad(dy, weight, indices, {OPTIONS}) -> dx")
class EmbeddingGrad:
    """Rows of `dy` added up by `indices` in the shape of `weight`: the adjoint of `embedding`.

    The row `padding_idx` stays zero; with `scale_grad_by_freq` a row is divided by the number of its occurrences.
    """

    shapes_of = ("weight",)

    def types(op: Call) -> TensorDesc:
        _expect_table(op)
        expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
        expect_type(op, "dy", (*op.indices.shape, op.weight.shape[1]))
        return TensorDesc(op.weight.shape, op.dy.dtype)

    def sbp(op: Call) -> Factors:
        unsplit = range(op.indices.rank) if op.scale_grad_by_freq else ()
        e = letters(op.indices.shape, unsplit, "e")
        return Factors(f"{names(e, ['d'])}, v d, {names(e)} -> v d").linear_in(op, "dy")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 1, 0)

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        if op.scale_grad_by_freq:
            raise op.error(
                "expected scale_grad_by_freq to be false where a gradient is differentiated again, got true"
            )

        def ddy() -> Value:
            rows = ddx
            row, size = op.padding_idx - op.logical_begin, op.weight.shape[0]
            if op.padding_idx >= 0 and row >= 0 and (size is None or row < size):
                padding = ops.zero_like(ops.narrow(ddx, dim=0, start=row, length=1))
                start, stop = [row, 0], [row + 1, 2**63 - 1]
                rows = ops.slice_update(ddx, padding, start=start, stop=stop, step=[1, 1])
            shard = {"logical_size": op.logical_size, "logical_begin": op.logical_begin}
            result: Value = ops.embedding(rows, op.indices, **shard)
            return result

        return {"dy": ddy}

    def compute(op: Call) -> Stage:
        wide = op.dy.dtype.accumulator

        def at_row(at: Any, use: Callable[[Any], Any]) -> Any:
            return in_shard(op, "indices", op.indices[at], op.weight.shape[0], use, wide)

        def row(*at: Any) -> Any:
            return shard_index(op, "indices", op.indices[at], op.weight.shape[0])

        ones = c.element_wise(op.indices.shape, lambda *at: at_row(at, lambda _: s.const(1, wide)))
        counts = add_at(zeros(op.weight.shape[:1], wide), ones, lambda *at: [row(*at)])

        def contribution(*at: Any) -> Any:
            def scaled(row: Any) -> Any:
                return op.dy[at] / counts[row] if op.scale_grad_by_freq else op.dy[at]

            padding = op.indices[at[:-1]].eq(op.padding_idx)
            row = at_row(at[:-1], scaled)
            return row if op.padding_idx < 0 else s.where(padding, s.const(0, wide), row)

        contributions = c.element_wise(op.dy.shape, contribution)
        summed = add_at(zeros(op.weight.shape, wide), contributions, lambda *at: [row(*at[:-1]), at[-1]])
        return c.convert(summed, op.dy.dtype)

    def reference(
        dy: Any, weight: Any, indices: Any, *, padding_idx: Any, scale_grad_by_freq: Any, **shard: Any
    ) -> Any:
        rows = numpy_rows("embedding_grad: indices", indices, len(weight), **shard)
        wide = np.float32 if dy.dtype.itemsize == 2 else dy.dtype
        dx = np.zeros((len(weight) + 1, *weight.shape[1:]), wide)
        np.add.at(dx, rows, np.where((indices == padding_idx)[..., None], 0, dy.astype(wide)))
        if scale_grad_by_freq:
            counts = np.bincount(rows.reshape(-1), minlength=len(weight) + 1)
            dx /= np.maximum(counts, 1).astype(wide)[:, None]
        return dx[:-1].astype(dy.dtype)
