"""Embedding: rows of a table at positions, and its gradient.

Imports `indexing`, `scattering`, `record`, `shapes`, `sbp`, `compute`, `scalar`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.indexing import expect_index, factors, names, numpy_positions, position
from oneflow.dialect.ops.scattering import add_at, expect_type, zeros
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import B, P, SbpSignature
from oneflow.dialect.shapes import expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import TensorDesc


@operator("embedding(weight, indices, padding_idx: int64 = -1, scale_grad_by_freq: bool = False) -> out")
class Embedding:
    """Rows of `weight` at `indices`; `padding_idx` and `scale_grad_by_freq` concern `embedding_grad`."""

    def types(op: Call) -> TensorDesc:
        expect_index(op, "indices")
        expect_rank(op, "weight", op.weight, 2)
        rows = op.weight.shape[0]
        if op.padding_idx < -1 or (rows is not None and op.padding_idx >= rows):
            raise op.error(f"expected padding_idx of -1 (none) or a row of weight {op.weight}, got {op.padding_idx}")
        return TensorDesc((*op.indices.shape, op.weight.shape[1]), op.weight.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        e = letters(op.indices.shape, (), "e")
        return factors(op, f"_ d, {names(e)} -> {names(e, ['d'])}", SbpSignature((P, B), (P,)))

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        options = {"padding_idx": op.padding_idx, "scale_grad_by_freq": op.scale_grad_by_freq}
        return {"weight": lambda: ops.embedding_grad(dout, op.weight, op.indices, **options)}

    def compute(op: Call) -> Stage:
        def body(*at: Any) -> Any:
            return op.weight[position(op, "indices", op.indices[at[:-1]], op.weight.shape[0]), at[-1]]

        return c.element_wise((*op.indices.shape, op.weight.shape[1]), body, op.weight.dtype)

    def reference(weight: Any, indices: Any) -> Any:
        return weight[numpy_positions("embedding: indices", indices, len(weight))]


@operator("embedding_grad(dy, weight, indices, padding_idx: int64 = -1, scale_grad_by_freq: bool = False) -> dx")
class EmbeddingGrad:
    """Rows of `dy` added up by `indices` in the shape of `weight`: the adjoint of `embedding`.

    The row `padding_idx` stays zero; with `scale_grad_by_freq` a row is divided by how often it occurs.
    """

    shapes_of = ("weight",)

    def types(op: Call) -> TensorDesc:
        expect_index(op, "indices")
        expect_rank(op, "weight", op.weight, 2)
        expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
        expect_type(op, "dy", (*op.indices.shape, op.weight.shape[1]))
        return TensorDesc(op.weight.shape, op.dy.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        whole = range(op.indices.rank) if op.scale_grad_by_freq else ()
        e = letters(op.indices.shape, whole, "e")
        text = f"{names(e, ['d'])}, _ d, {names(e)} -> _ d"
        return factors(op, text, SbpSignature((P, B, B), (P,)))

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        if op.scale_grad_by_freq:
            raise op.error("expected scale_grad_by_freq to be false where a gradient is differentiated again")

        def ddy() -> Value:
            rows = ddx
            if op.padding_idx >= 0:
                padding = ops.zero_like(ops.narrow(ddx, dim=0, start=op.padding_idx, length=1))
                start, stop = [op.padding_idx, 0], [op.padding_idx + 1, 2**63 - 1]
                rows = ops.slice_update(ddx, padding, start=start, stop=stop, step=[1, 1])
            result: Value = ops.embedding(rows, op.indices)
            return result

        return {"dy": ddy}

    def compute(op: Call) -> Stage:
        wide = op.dy.dtype.accumulator

        def row(*at: Any) -> Any:
            return position(op, "indices", op.indices[at], op.weight.shape[0])

        ones = c.element_wise(op.indices.shape, lambda *at: s.const(1, wide))
        counts = add_at(zeros(op.weight.shape[:1], wide), ones, lambda *at: [row(*at)])

        def share(*at: Any) -> Any:
            scaled = op.dy[at] / counts[row(*at[:-1])] if op.scale_grad_by_freq else op.dy[at]
            padding = op.indices[at[:-1]].eq(op.padding_idx)
            return scaled if op.padding_idx < 0 else s.where(padding, s.const(0, wide), scaled)

        shares = c.element_wise(op.dy.shape, share)
        summed = add_at(zeros(op.weight.shape, wide), shares, lambda *at: [row(*at[:-1]), at[-1]])
        return c.convert(summed, op.dy.dtype)

    def reference(dy: Any, weight: Any, indices: Any, *, padding_idx: Any, scale_grad_by_freq: Any) -> Any:
        numpy_positions("embedding_grad: indices", indices, len(weight))
        wide = np.float32 if dy.dtype.itemsize == 2 else dy.dtype
        dx = np.zeros(weight.shape, wide)
        np.add.at(dx, indices, dy.astype(wide))
        if scale_grad_by_freq:
            counts = np.bincount(indices.reshape(-1), minlength=len(weight))
            dx /= np.maximum(counts, 1).astype(wide)[:, None]
        if padding_idx >= 0:
            dx[padding_idx] = 0
        return dx.astype(dy.dtype)
