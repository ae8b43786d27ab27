"""Running sums and products along an axis, and products of all but one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder, composed, each_part
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.dtypes import DType
from oneflow.dialect.elementwise import conjugate
from oneflow.dialect.ops.reduce import accumulator_type, fold_axes, reduction_axes, static_size
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, repeated_factors
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
    parts = each_part

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
        return np.cumsum(x, axis=dim, dtype=accumulator_type(x)).astype(x.dtype)


@operator("cumprod(x, dim: int64) -> y")
class CumProd:
    """Element k along `dim` is the product of the elements up to k."""

    types = _types

    def parts(ops: PartsBuilder, op: Call) -> Value:
        """By doubling: from step to step each element is the product of twice as many (Hillis and Steele, 1986)."""
        dim, count = op.normalize_axis(op.dim, op.x.rank), 1
        product: Value = op.x
        size = static_size(op, dim)
        while count < size:
            first, other = (ops.narrow(product, dim=dim, start=0, length=n) for n in (count, size - count))
            later = ops.narrow(product, dim=dim, start=count, length=size - count)
            product = ops.cat([first, later * other], axis=dim)
            count *= 2
        return product

    def sbp(op: Call) -> Factors:
        names = _whole_along_dim(op.x.rank, op.dim)
        return Factors(f"{names} -> {names}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.cumprod_grad(dy, conjugate(ops, op.y), conjugate(ops, op.x), dim=op.dim)}

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.x.rank)
        return c.scan(op.x, dim, s.const(1, op.x.dtype.accumulator), lambda a, b: a * b, op.x.dtype)

    def reference(x: Any, *, dim: Any) -> Any:
        return np.cumprod(x, axis=dim, dtype=accumulator_type(x)).astype(x.dtype)


@operator("cumprod_grad(dy, output, input, dim: int64) -> dx")
class CumProdGrad:
    """The gradient of `cumprod`: dx[i] is the sum over j >= i of dy[j] times the other factors of output[j].

    The gradient divides by no element, so that elements may be zero.
    """

    parts = composed
    shapes_of = ("output",)

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
        for name in ("output", "input"):
            if not op[name].compatible(op.dy):
                raise op.error(f"expected {name} of type {op.dy}, got {op[name]}")
        op.normalize_axis(op.dim, op.dy.rank, "dim")
        desc: TensorDesc = op.dy.meet(op.output).meet(op.input)
        return desc

    def sbp(op: Call) -> Factors:
        return repeated_factors(_whole_along_dim(op.dy.rank, op.dim), 3).linear_in(op, "dy")

    grad = decomposition_gradient

    def sharded_decomposition(ops: Builder, op: Call) -> Value:
        """Row i of a matrix has the factors without i; its running products count from i on."""
        dim = op.normalize_axis(op.dim, op.dy.rank)
        order = [*(i for i in range(op.dy.rank) if i != dim), dim]
        x, dy = (widen(ops, ops.call("transpose", v, perm=order)[0]) for v in (op.input, op.dy))
        row, column = (ops.call("expand_dims", x, axis=x.rank - i)[0] for i in (1, 0))
        factors = row + ops.call("zero_like", column)[0]
        ones = ops.call("ones_like", factors)[0]
        without_own = ops.tril(factors, diagonal=-1) + ops.triu(factors, diagonal=1) + ops.tril(ops.triu(ones))
        others = ops.triu(ops.cumprod(without_own, dim=x.rank))
        terms = others * ops.call("expand_dims", dy, axis=x.rank - 1)[0]
        dx = ops.call("reduce_sum", terms, axis=[x.rank])[0]
        back: Value = ops.transpose(dx, perm=[order.index(i) for i in range(x.rank)])
        return narrow(ops, back, op.dy.dtype)

    def compute(op: Call) -> Stage:
        dim = op.normalize_axis(op.dim, op.dy.rank)
        wide_type = op.dy.dtype.accumulator

        def step(at: Sequence[Expr], r: Sequence[Expr], acc: Sequence[Expr]) -> list[Expr]:
            position = (*at[:dim], r[0], *at[dim + 1 :])
            others = acc[0] * s.where(r[0].eq(at[dim]), 1.0, op.input[position])
            return [others, acc[1] + s.where(r[0] >= at[dim], op.dy[position] * others, 0.0)]

        inits = [s.const(1, wide_type), s.const(0, wide_type)]
        return c.convert(c.fold(op.dy.shape, (op.dy.shape[dim],), inits, step)[1], op.dy.dtype)

    def reference(dy: Any, output: Any, x: Any, *, dim: Any) -> Any:
        factors, seed = (np.moveaxis(a.astype(accumulator_type(a)), dim, 0) for a in (x, dy))
        result = np.zeros_like(factors)
        for i in range(len(factors)):
            others = factors.copy()
            others[i] = 1
            result[i] = np.sum((np.cumprod(others, axis=0) * seed)[i:], axis=0)
        return np.moveaxis(result, 0, dim).astype(x.dtype)


@operator("product_of_others(x, axis: list_int32) -> y")
class ProductOfOthers:
    """Element k is the product of the elements along `axis` (all if empty) without k, the derivative of a product.

    Zeros and infinities are counted, so that only finite elements other than zero are divided by. Products of 16-bit
    floats are computed in f64. The gradient is the gradient of a product of prefixes and suffixes.
    """

    parts = composed

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        reduction_axes(op, op.x.rank)
        return TensorDesc(op.x.shape, op.x.dtype)

    def sbp(op: Call) -> Factors:
        axes = reduction_axes(op, op.x.rank)
        names = " ".join("_" if i in axes else f"d{i}" for i in range(op.x.rank))
        return Factors(f"{names} -> {names}")

    grad = decomposition_gradient

    def sharded_decomposition(ops: Builder, op: Call) -> Value:
        axes = reduction_axes(op, op.x.rank)
        x = ops.cast(op.x, dtype=_product_dtype(op.x.dtype))
        return narrow(ops, _others(ops, x, axes), op.x.dtype)

    def compute(op: Call) -> Stage:
        axes, dtype = reduction_axes(op, op.x.rank), _product_dtype(op.x.dtype)
        x = c.convert(op.x, dtype)
        product = fold_axes(x, axes, True, 1, lambda a, b: a * b, dtype, _divisor)
        zeros, nonfinite = (
            fold_axes(x, axes, True, 0, lambda a, b: a + b, dtype, mark) for mark in (_is_zero, _is_nonfinite)
        )

        def others(*at: Expr) -> Expr:
            row = tuple(0 if i in axes else p for i, p in enumerate(at))
            without_zeros = zeros[row].eq(_is_zero(x[at]))
            finite = nonfinite[row].eq(_is_nonfinite(x[at]))
            quotient = product[row] / _divisor(x[at])
            nothing = s.const(0, dtype)
            return s.where(
                without_zeros, s.where(finite, quotient, quotient * np.inf), s.where(finite, nothing, np.nan)
            )

        return c.element_wise(x.shape, others, op.x.dtype)

    def reference(x: Any, *, axis: Any) -> Any:
        axes = [a % x.ndim for a in axis] or list(range(x.ndim))
        rows = np.moveaxis(x.astype(np.float64 if x.itemsize == 2 else x.dtype), axes, range(-len(axes), 0))
        flat = rows.reshape(*rows.shape[: x.ndim - len(axes)], -1) if x.size else rows
        others = [np.prod(np.delete(flat, k, -1), -1) for k in range(flat.shape[-1])] if x.size and x.ndim else [1.0]
        products = np.stack(others, -1).reshape(rows.shape) if x.size else rows
        return np.moveaxis(products, range(-len(axes), 0), axes).astype(x.dtype)


def _product_dtype(dtype: DType) -> DType:
    """The type in which products of elements are computed: the product of a few 16-bit floats may overflow f32."""
    return dtypes.float64 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _is_zero(e: Expr) -> Expr:
    return s.where(e.eq(0.0), s.const(1, e.dtype), s.const(0, e.dtype))


def _is_nonfinite(e: Expr) -> Expr:
    return s.where((e - e).eq(0.0), s.const(0, e.dtype), s.const(1, e.dtype))


def _divisor(e: Expr) -> Expr:
    """An element, and in place of zero and infinities 1 with the sign of the infinity."""
    infinity = s.where(e > 0, s.const(1, e.dtype), s.const(-1, e.dtype))
    return s.where(e.eq(0.0), s.const(1, e.dtype), s.where(abs(e).eq(np.inf), infinity, e))


def _others(ops: Builder, x: Value, axes: Sequence[int]) -> Value:
    """For every element the product of the others, without division: the product before times the product after."""
    if not axes:
        return ops.call("ones_like", x)[0]
    *outer, axis = axes
    behind = ops.flip(_before(ops, ops.flip(x, dims=[axis]), axis), dims=[axis])
    product: Value = _before(ops, x, axis) * behind
    if not outer:
        return product
    rows = _others(ops, ops.reduce_prod(x, axis=[axis], keepdims=True), outer)
    return product * ops.call("broadcast_like", rows, x, broadcast_axes=())[0]


def _before(ops: Builder, x: Value, axis: int) -> Value:
    """For every element the product of the elements before it: an exclusive running product."""
    one_before, none = [int(i == axis) for i in range(x.rank)], [0] * x.rank
    one = {"floating_constant_value": 1.0}
    begun = ops.call("pad", x, padding_before=one_before, padding_after=none, **one)[0]
    running = ops.call("cumprod", begun, dim=axis)[0]
    return ops.call("pad", running, padding_before=none, padding_after=[-n for n in one_before])[0]
