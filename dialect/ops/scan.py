"""Running sums and products along an axis. Imports `record`, `compute`, `sbp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composed import composed_gradient
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.reduce import wide
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import B, Factors, P, SbpSignature
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc


def _types(op: Call) -> TensorDesc:
    expect_dtype(op, "x", op.x, dtypes.NUMERIC)
    op.normalize_axis(op.dim, op.x.rank, "dim")
    return TensorDesc(op.x.shape, op.x.dtype)


def _whole_along_dim(rank: int, dim: int) -> str:
    return " ".join("_" if i == dim % rank else f"d{i}" for i in range(rank))


@operator("cumsum(x, dim: int64) -> y")
class CumSum:
    """Element k along `dim` is the sum of the elements up to k; f16 and bf16 are summed in f32."""

    types = _types

    def sbp(op: Call) -> Factors:
        names = _whole_along_dim(op.x.rank, op.dim)
        return Factors(f"{names} -> {names}", "joint")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        dim = op.normalize_axis(op.dim, dy.rank)
        return {"x": lambda: ops.flip(ops.cumsum(ops.flip(dy, dims=[dim]), dim=dim), dims=[dim])}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.x.rank)
        return c.scan(op.x, dim, s.const(0, op.x.dtype.accumulator), lambda a, b: a + b, op.x.dtype)

    def reference(x: Any, *, dim: Any) -> Any:
        return np.cumsum(x, axis=dim, dtype=wide(x)).astype(x.dtype)


@operator("cumprod(x, dim: int64) -> y")
class CumProd:
    """Element k along `dim` is the product of the elements up to k."""

    types = _types

    def sbp(op: Call) -> Factors:
        names = _whole_along_dim(op.x.rank, op.dim)
        return Factors(f"{names} -> {names}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.cumprod_grad(dy, op.y, op.x, dim=op.dim)}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.x.rank)
        return c.scan(op.x, dim, s.const(1, op.x.dtype.accumulator), lambda a, b: a * b, op.x.dtype)

    def reference(x: Any, *, dim: Any) -> Any:
        return np.cumprod(x, axis=dim, dtype=wide(x)).astype(x.dtype)


@operator("cumprod_grad(dy, output, input, dim: int64) -> dx")
class CumProdGrad:
    """The gradient of `cumprod`: dx[i] is the sum over j >= i of dy[j] times the other factors of output[j].

    It divides by nothing, so it holds where elements are zero.
    """

    shapes_of = ("output",)
    withheld = "output may lie in any way, since it is not read"

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
        for name in ("output", "input"):
            if not op[name].compatible(op.dy):
                raise op.error(f"expected {name} of type {op.dy}, got {op[name]}")
        op.normalize_axis(op.dim, op.dy.rank, "dim")
        return op.dy.meet(op.output).meet(op.input)

    def sbp(op: Call) -> list[SbpSignature]:
        names = _whole_along_dim(op.dy.rank, op.dim)
        return [*Factors(f"{names}, {names}, {names} -> {names}").signatures(), SbpSignature((P, B, B), (P,))]

    grad = composed_gradient

    def by_parts(ops: Builder, op: Call) -> Value:
        """Row i of a matrix has the factors without i; of its running products those from i on count."""
        dim = op.normalize_axis(op.dim, op.dy.rank)
        order = [*(i for i in range(op.dy.rank) if i != dim), dim]
        x, dy = (widen(ops, ops.call("transpose", v, perm=order)[0]) for v in (op.input, op.dy))
        row, column = (ops.call("expand_dims", x, axis=x.rank - i)[0] for i in (1, 0))
        factors = row + ops.call("zero_like", column)[0]
        ones = ops.call("ones_like", factors)[0]
        apart = ops.tril(factors, diagonal=-1) + ops.triu(factors, diagonal=1) + ops.tril(ops.triu(ones))
        others = ops.triu(ops.cumprod(apart, dim=x.rank))
        terms = others * ops.call("expand_dims", dy, axis=x.rank - 1)[0]
        dx = ops.call("reduce_sum", terms, axis=[x.rank])[0]
        back: Value = ops.transpose(dx, perm=[order.index(i) for i in range(x.rank)])
        return narrow(ops, back, op.dy.dtype)

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.dy.rank)
        wide_type = op.dy.dtype.accumulator

        def step(at: Sequence[Expr], r: Sequence[Expr], acc: Sequence[Expr]) -> list[Expr]:
            there = (*at[:dim], r[0], *at[dim + 1 :])
            others = acc[0] * s.where(r[0].eq(at[dim]), 1.0, op.input[there])
            return [others, acc[1] + s.where(r[0] >= at[dim], op.dy[there] * others, 0.0)]

        inits = [s.const(1, wide_type), s.const(0, wide_type)]
        return c.convert(c.fold(op.dy.shape, (op.dy.shape[dim],), inits, step)[1], op.dy.dtype)

    def reference(dy: Any, output: Any, x: Any, *, dim: Any) -> Any:
        factors, seed = (np.moveaxis(a.astype(wide(a)), dim, 0) for a in (x, dy))
        result = np.zeros_like(factors)
        for i in range(len(factors)):
            others = factors.copy()
            others[i] = 1
            result[i] = np.sum((np.cumprod(others, axis=0) * seed)[i:], axis=0)
        return np.moveaxis(result, 0, dim).astype(x.dtype)
