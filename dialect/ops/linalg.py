"""Linear algebra of batches of matrices: inverse, determinant, LU factors, cross products.

The factorizations run on the host, by LAPACK.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder
from oneflow.dialect.compute import Stage
from oneflow.dialect.elementwise import conjugate
from oneflow.dialect.numpy_kernel import numpy_kernel
from oneflow.dialect.record import Call, define, no_grad, operator
from oneflow.dialect.reverse import zeros_like
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_pairs, expect_rank, letters
from oneflow.dialect.tensor_desc import TensorDesc

#: The element types that LAPACK computes in.
WIDE = (dtypes.float32, dtypes.float64)


def _expect_square(op: Call) -> int:
    """The size of the matrices of `x`.

    Raises:
        OperatorError: the matrices are not square.
    """
    expect_dtype(op, "x", op.x, WIDE)
    expect_rank(op, "x", op.x, 2, -1)
    rows, columns = op.x.shape[-2:]
    if None in (rows, columns):
        raise op.error(f"expected a static size of matrices, got {op.x}")
    if rows != columns:
        raise op.error(f"expected square matrices, got {op.x}")
    return int(rows)


def _batch(op: Call) -> list[str]:
    return letters(op.x.shape[:-2])


def _transposed(ops: Builder, x: Value) -> Value:
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return ops.call("transpose", x, perm=perm)[0]


def _product(ops: Builder, a: Value, b: Value) -> Value:
    return ops.call("matmul" if a.rank == 2 else "batch_matmul", a, b)[0]


@operator("inv(x) -> y")
class Inv:
    """The inverse of each matrix; a singular one is a run-time error."""

    def types(op: Call) -> TensorDesc:
        _expect_square(op)
        desc: TensorDesc = op.x
        return desc

    def sbp(op: Call) -> Factors:
        names = " ".join([*_batch(op), "_", "_"])
        return Factors(f"{names} -> {names}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        def dx() -> Value:
            turned = _transposed(ops, conjugate(ops, op.y))
            return -_product(ops, turned, _product(ops, dy, turned))

        return {"x": dx}

    def parts(ops: PartsBuilder, op: Call) -> Value:
        """From the inverse of the real matrix [[a, -b], [b, a]], whose products are the products of a + bi."""
        (a, b), rank, size = ops.parts(op.x), op.x.rank, op.x.shape[-1]
        rows = [ops.cat(row, axis=rank - 1) for row in ([a, -b], [b, a])]
        inverse = ops.inv(ops.cat(rows, axis=rank - 2))
        left = ops.narrow(inverse, dim=rank - 1, start=0, length=size)
        return ops.pair(*(ops.narrow(left, dim=rank - 2, start=start, length=size) for start in (0, size)))

    def reference(x: Any) -> Any:
        return np.linalg.inv(x)

    kernel = numpy_kernel(reference)


@operator("det(x) -> y")
class Det:
    """The determinant of each matrix. The gradient of a singular matrix is a run-time error."""

    def types(op: Call) -> TensorDesc:
        _expect_square(op)
        return TensorDesc(op.x.shape[:-2], op.x.dtype)

    def sbp(op: Call) -> Factors:
        return Factors(f"{' '.join([*_batch(op), '_', '_'])} -> {' '.join(_batch(op))}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        def dx() -> Value:
            scale = dy * conjugate(ops, op.y)
            wide = ops.reshape(scale, shape=[*(-1 if n is None else n for n in scale.shape), 1, 1])
            grad: Value = _transposed(ops, conjugate(ops, ops.inv(op.x))) * wide
            return grad

        return {"x": dx}

    def parts(ops: PartsBuilder, op: Call) -> Value:
        """In f64: the logarithm of a large determinant has too few digits after the point in f32."""
        wide = ops.cast(ops.view_as_real(op.x), dtype=dtypes.float64)
        sign, logabsdet = ops.slogdet(ops.view_as_complex(wide))
        size = ops.exp(logabsdet)
        return ops.pair(*(ops.cast(part * size, dtype=op.x.dtype.part) for part in ops.parts(sign)))

    def reference(x: Any) -> Any:
        return np.asarray(np.linalg.det(x), x.dtype)

    kernel = numpy_kernel(reference)


@operator("slogdet(x) -> sign, logabsdet")
class Slogdet:
    """The sign of the determinant of each matrix, of complex numbers det / |det|, and the logarithm of |det|.

    The sign of a singular matrix is 0, its gradient a run-time error.
    """

    def types(op: Call) -> tuple[TensorDesc, ...]:
        _expect_square(op)
        return TensorDesc(op.x.shape[:-2], op.x.dtype), TensorDesc(op.x.shape[:-2], op.x.dtype.part)

    def sbp(op: Call) -> Factors:
        batch = " ".join(_batch(op))
        return Factors(f"{batch} _ _ -> {batch}, {batch}")

    def grad(ops: Builder, op: Call, dsign: Value | None, dlog: Value | None) -> dict[str, Any]:
        """By the change of log(det), which is the trace of inv(x) dx; the sign of a real determinant is constant."""

        def dx() -> Value:
            slope = zeros_like(ops, op.logabsdet) if dlog is None else dlog
            if op.x.dtype.is_complex:
                turn = conjugate(ops, dsign) * op.sign if dsign is not None else zeros_like(ops, op.sign)
                slope = ops.real_grad(slope) - ops.imag_grad(ops.call("imag", turn)[0])
            wide = ops.reshape(slope, shape=[*(-1 if n is None else n for n in slope.shape), 1, 1])
            result: Value = _transposed(ops, conjugate(ops, ops.inv(op.x))) * wide
            return result

        return {"x": dx}

    def parts(ops: PartsBuilder, op: Call) -> tuple[Value, Value]:
        sign, logabsdet = ops.call("slogdet_of_pairs", ops.view_as_real(op.x))
        return ops.view_as_complex(sign), logabsdet

    def reference(x: Any) -> Any:
        sign, logabsdet = np.linalg.slogdet(x)
        return np.asarray(sign, x.dtype), np.asarray(logabsdet, x.real.dtype)

    kernel = numpy_kernel(reference)


def _pairs_types(op: Call) -> tuple[TensorDesc, ...]:
    expect_dtype(op, "x", op.x, WIDE, only_real=True)
    expect_rank(op, "x", op.x, 3, -1)
    expect_pairs(op, "x", op.x)
    batch = op.x.shape[:-3]
    if op.x.shape[-3] != op.x.shape[-2] or None in op.x.shape[-3:]:
        raise op.error(f"expected square matrices of a static size, got {op.x}")
    return TensorDesc((*batch, 2), op.x.dtype), TensorDesc(batch, op.x.dtype)


def _pairs_factors(op: Call) -> Factors:
    batch = " ".join(letters(op.x.shape[:-3]))
    return Factors(f"{batch} _ _ _ -> {batch} _, {batch}")


def _slogdet_of_pairs(x: Any) -> Any:
    sign, logabsdet = np.linalg.slogdet(np.ascontiguousarray(x).view(np.result_type(x, np.complex64))[..., 0])
    return np.stack([sign.real, sign.imag], -1).astype(x.dtype), np.asarray(logabsdet, x.dtype)


define(
    "slogdet_of_pairs(x) -> sign, logabsdet",
    doc="`slogdet` of matrices whose complex numbers are pairs of reals along a last axis.",
    types=_pairs_types, sbp=_pairs_factors, grad=no_grad("is made after gradients are built"),
    reference=_slogdet_of_pairs, kernel=numpy_kernel(_slogdet_of_pairs),
)  # fmt: skip


@operator("lu_decomposition(x) -> lu, pivot")
class LuDecomposition:
    """The factors of each matrix, without the unit diagonal of L, and its row exchanges (i32) counted from 1."""

    def types(op: Call) -> tuple[TensorDesc, ...]:
        _expect_square(op)
        return op.x, TensorDesc(op.x.shape[:-1], dtypes.int32)

    def sbp(op: Call) -> Factors:
        batch = _batch(op)
        return Factors(f"{' '.join([*batch, '_', '_'])} -> {' '.join([*batch, '_', '_'])}, {' '.join([*batch, '_'])}")

    grad = no_grad("OneFlow has none")

    def reference(x: Any) -> Any:
        factors, pivots = np.empty_like(x), np.empty(x.shape[:-1], np.int32)
        for at in np.ndindex(x.shape[:-2]):
            factors[at], pivots[at] = scipy.linalg.lu_factor(x[at], check_finite=False)
        return factors, pivots + np.int32(1)

    kernel = numpy_kernel(reference)


@operator("linalg_cross(input, other, dim: int64) -> out")
class LinalgCross:
    """The cross products of vectors of three elements along `dim`."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "input", op.input, dtypes.NUMERIC)
        expect_dtype(op, "other", op.other, (op.input.dtype,))
        expect_rank(op, "other", op.other, op.input.rank)
        dim = op.normalize_axis(op.dim, op.input.rank, "dim")
        sizes = [
            expect_dim(op, f"axis {i} of other", b, a)
            for i, (a, b) in enumerate(zip(op.input.shape, op.other.shape, strict=True))
        ]
        if sizes[dim] not in (3, None):
            raise op.error(f"expected three elements along dimension {dim}, got {op.input}")
        sizes[dim] = 3
        return TensorDesc(tuple(sizes), op.input.dtype)

    def sbp(op: Call) -> Factors:
        names = " ".join(letters(op.input.shape, (op.dim % op.input.rank,)))
        return Factors(f"{names}, {names} -> {names}", "each")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {
            "input": lambda: ops.linalg_cross(op.other, dy, dim=op.dim),
            "other": lambda: ops.linalg_cross(dy, op.input, dim=op.dim),
        }

    def compute(op: Call) -> Stage:
        dim = op.dim % op.input.rank
        shape = [3 if i == dim else n for i, n in enumerate(op.input.shape)]

        def element(*at: Expr) -> Expr:
            first, second = ((*at[:dim], (at[dim] + k) % 3, *at[dim + 1 :]) for k in (1, 2))
            element: Expr = op.input[first] * op.other[second] - op.input[second] * op.other[first]
            return element

        return c.element_wise(shape, element, op.input.dtype)

    def reference(a: Any, b: Any, *, dim: Any) -> Any:
        wide = np.float64 if a.dtype.kind not in "iu" else a.dtype
        return np.cross(a.astype(wide), b.astype(wide), axis=dim).astype(a.dtype)
