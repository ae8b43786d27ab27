"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc


def _letters(a: str, b: str, op: Call) -> tuple[str, str]:
    """The dimensions of both operands as stored: reversed where transposed."""
    return a[::-1] if op.transpose_a else a, b[::-1] if op.transpose_b else b


@operator(
    "matmul(a, b, _add_to_output?, transpose_a: bool = False, transpose_b: bool = False,"
    " alpha: double = 1.0) -> out"
)
class Matmul:
    """alpha * a @ b (+ _add_to_output) of two matrices, each read transposed on request.

    f16 and bf16 are accumulated in f32.
    """

    def types(op: Call) -> TensorDesc:
        for name in ("a", "b"):
            expect_rank(op, name, op[name], 2)
            expect_dtype(op, name, op[name], dtypes.NUMERIC)
        same_dtype(op, op.operands)
        m, k = op.a.shape[::-1] if op.transpose_a else op.a.shape
        kb, n = op.b.shape[::-1] if op.transpose_b else op.b.shape
        expect_dim(op, "the contracted dimension of b", kb, k)
        out = TensorDesc((m, n), op.a.dtype)
        if op._add_to_output is not None and not op._add_to_output.compatible(out):
            raise op.error(f"expected _add_to_output of type {out}, got {op._add_to_output}")
        return out

    def sbp(op: Call) -> Factors:
        a, b = _letters("mk", "kn", op)
        if op._add_to_output is not None:
            whole = str.maketrans("k", "_")
            return Factors(f"{' '.join(a)}, {' '.join(b)}, m n -> m n".translate(whole))
        return Factors(f"{' '.join(a)}, {' '.join(b)} -> m n", "each")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        def da() -> Value:
            if op.transpose_a:
                return ops.matmul(op.b, dout, transpose_a=op.transpose_b, transpose_b=True, alpha=op.alpha)
            return ops.matmul(dout, op.b, transpose_b=not op.transpose_b, alpha=op.alpha)

        def db() -> Value:
            if op.transpose_b:
                return ops.matmul(dout, op.a, transpose_a=True, transpose_b=op.transpose_a, alpha=op.alpha)
            return ops.matmul(op.a, dout, transpose_a=not op.transpose_a, alpha=op.alpha)

        return {"a": da, "b": db, "_add_to_output": dout}

    def compute(op: Call) -> Stage:
        def a(i: Any, p: Any) -> Any:
            return op.a[p, i] if op.transpose_a else op.a[i, p]

        def b(p: Any, j: Any) -> Any:
            return op.b[j, p] if op.transpose_b else op.b[p, j]

        m, k = op.a.shape[::-1] if op.transpose_a else op.a.shape
        n = op.b.shape[0] if op.transpose_b else op.b.shape[1]
        product = c.sum_((m, n), (k,), lambda i, j, p: a(i, p) * b(p, j))
        return scale_and_add(product, op.alpha, op._add_to_output, op.a.dtype)

    def reference(a, b, add, *, transpose_a, transpose_b, alpha):  # type: ignore[no-untyped-def]
        wide = np.float32 if a.dtype.itemsize == 2 else a.dtype
        x, y = a.astype(wide), b.astype(wide)
        product = (x.T if transpose_a else x) @ (y.T if transpose_b else y)
        scaled = product if alpha == 1.0 else product * np.asarray(alpha, wide)
        return (scaled if add is None else scaled + add.astype(wide)).astype(a.dtype)


def scale_and_add(product: Stage, alpha: float, added: Stage | None, dtype: Any) -> Stage:
    """alpha * product + added in the accumulator's type, converted to `dtype`."""
    if alpha == 1.0 and added is None:
        return c.convert(product, dtype)

    def body(*position: Any) -> Any:
        scaled = product[position] if alpha == 1.0 else product[position] * alpha
        return scaled if added is None else scaled + added[position]

    return c.element_wise(product.shape, body, dtype)
