"""Products of a matrix and a vector, with OneFlow's operators for their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import composed
from oneflow.dialect.composite import composite
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank

#: Operators by name: the operands' factors and the result's, which say the sum.
PRODUCTS = {
    "matrix_vector_product(a, b) -> out": "m k, k -> m",
    "matrix_vector_product_grad_a(dy, b) -> dx": "m, k -> m k",
    "matrix_vector_product_grad_b(dy, a) -> dx": "m, m k -> k",
    "vector_matrix_product(a, b) -> out": "k, k n -> n",
    "vector_matrix_product_grad_a(dy, b) -> dx": "n, k n -> k",
    "vector_matrix_product_grad_b(dy, a) -> dx": "n, k -> k n",
}


def _check(ranks: tuple[int, int]) -> Rule:
    def check(op: Call) -> None:
        for (name, x), rank in zip(op.inputs.items(), ranks, strict=True):
            expect_rank(op, name, x, rank)
            expect_dtype(op, name, x, dtypes.FLOATS if x is op.operands[0] else (op.operands[0].dtype,))

    return check


def _write(first: str, second: str, result: str) -> Rule:
    """A product of matrices: a vector is one with a column or a row of size 1."""

    def write(ops: Builder, op: Call) -> Value:
        x, y = op.inputs.values()
        kept = [name for name in (*first.split(), *second.split()) if name in result]
        if len(result.split()) == 2:
            outer: Value = ops.matmul(_column(ops, x), _column(ops, y), transpose_b=True)
            return outer if kept == result.split() else ops.call("transpose", outer, perm=[1, 0])[0]
        summed = next(name for name in first.split() if name in second.split())
        vector, matrix, factors = (x, y, second) if len(first.split()) == 1 else (y, x, first)
        turned = factors.split().index(summed) == 0
        product = ops.matmul(matrix, _column(ops, vector), transpose_a=turned)
        squeezed: Value = ops.squeeze(product, axes=[1])
        return squeezed

    return write


def _column(ops: Builder, x: Value) -> Value:
    return ops.call("expand_dims", x, axis=1)[0]


def _reference(factors: str) -> Rule:
    left, _, right = factors.replace(" ", "").partition("->")

    def reference(a: Any, b: Any) -> Any:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        return np.einsum(f"{left}->{right}", a.astype(wide), b.astype(wide)).astype(a.dtype)

    return reference


for _signature, _factors in PRODUCTS.items():
    _sides, _, _result = _factors.partition(" -> ")
    _first, _second = _sides.split(", ")
    composite(
        _signature, f"The product over factors {_factors}: a sum over factors that the result lacks.",
        write=_write(_first, _second, _result), reference=_reference(_factors),
        check=_check((len(_first.split()), len(_second.split()))), sbp=Factors(_factors, "each"), parts=composed,
    )  # fmt: skip
