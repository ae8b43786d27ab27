"""Products of matrices of 8 bits with scales."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Stage
from oneflow.dialect.meaning import read_broadcast
from oneflow.dialect.record import Call, no_grad, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def _expect_scales(op: Call, rows: int | None, columns: int | None) -> None:
    """Checks that each scale has one element, or an element for each row and for each column."""
    scales = op.scale_a, op.scale_b
    for name, scale in zip(("scale_a", "scale_b"), scales, strict=True):
        expect_dtype(op, name, scale, (dtypes.float32,))
    counts = [scale.element_count for scale in scales]
    if None in counts and 1 in counts:
        raise op.error(f"expected static shapes of scales of one element, got {scales[0]} and {scales[1]}")
    if counts != [1, 1]:
        pairs = zip(("scale_a", "scale_b"), scales, ((rows, 1), (1, columns)), strict=True)
        for name, scale, shape in pairs:
            if scale.rank != 2 or not scale.compatible(TensorDesc(shape, dtypes.float32)):
                raise op.error(
                    f"expected scales of one element, or scale_a of {rows or '?'}x1 for rows and scale_b of"
                    f" 1x{columns or '?'} for columns, got {name} of {scale}"
                )


def _factors_of_scale(scale: TensorDesc, letters: str) -> str:
    return letters if scale.element_count != 1 else " ".join("_" for _ in scale.shape or ())


@operator("scaled_mm(mat_a, mat_b, scale_a, scale_b, bias?, out_dtype: data_type) -> out")
class ScaledMm:
    """mat_a @ mat_b * scale_a * scale_b + bias, of matrices of 8 bits, in `out_dtype`.

    Products are accumulated in f32. The scales, f32, have one element each, or `scale_a` (rows, 1) and `scale_b`
    (1, columns).
    """

    unoffered = "scales as partial sums: nothing makes them, and their sum is a few numbers"
    grad = no_grad("in training, gradients are converted to 8 bits too, with their own scales")

    def types(op: Call) -> TensorDesc:
        for name in ("mat_a", "mat_b"):
            expect_rank(op, name, op[name], 2)
            expect_dtype(op, name, op[name], dtypes.FLOAT8)
        expect_dtype(op, "out_dtype", TensorDesc((), op.out_dtype), (*dtypes.FLOATS, *dtypes.FLOAT8))
        rows, columns = op.mat_a.shape[0], op.mat_b.shape[1]
        expect_dim(op, "dimension 0 of mat_b", op.mat_b.shape[0], op.mat_a.shape[1])
        _expect_scales(op, rows, columns)
        if op.bias is not None:
            expect_rank(op, "bias", op.bias, 1)
            expect_dtype(op, "bias", op.bias, dtypes.FLOATS)
            columns = expect_dim(op, "dimension 0 of bias", op.bias.shape[0], columns)
        return TensorDesc((rows, columns), op.out_dtype)

    def sbp(op: Call) -> Factors:
        scales = _factors_of_scale(op.scale_a, "m _"), _factors_of_scale(op.scale_b, "_ n")
        factors = Factors(f"m k, k n, {', '.join(scales)} -> m n")
        return factors if op.bias is None else factors.plus("n")

    def compute(op: Call) -> Stage:
        a, b, f32 = op.mat_a, op.mat_b, dtypes.float32
        wide = dtypes.float64 if op.out_dtype == dtypes.float64 else f32
        shape = a.shape[0], b.shape[1]
        product = c.sum_(shape, (a.shape[1],), lambda i, j, p: s.cast(a[i, p], f32) * s.cast(b[p, j], f32))

        def element(*at: Expr) -> Expr:
            scales = (s.cast(read_broadcast(scale, at), wide) for scale in (op.scale_a, op.scale_b))
            scaled = math.prod(scales, start=s.cast(product[at], wide))
            return scaled if op.bias is None else scaled + s.cast(op.bias[at[1]], wide)

        return c.element_wise(shape, element, op.out_dtype)

    def reference(a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any, *, out_dtype: Any) -> Any:
        product = a.astype(np.float64) @ b.astype(np.float64)
        scaled = product * scale_a * scale_b
        return dtypes.convert(scaled if bias is None else scaled + bias.astype(np.float64), out_dtype)
