"""`flow.linalg`: norms of vectors and matrices, products and diagonals with NumPy's argument defaults, inverses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor

__all__ = ["cross", "det", "diagonal", "inv", "matmul", "matrix_norm", "norm", "slogdet", "vector_norm"]


def vector_norm(
    x: Any,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of vectors along `dim`, or of all elements: sum(|x|^ord)^(1/ord); infinity, minus infinity and 0 as in
    `flow.norm`. `dtype` converts the elements before.
    """
    x = as_tensor(x)
    return F.norm(x if dtype is None else F.cast(x, dtype), float(ord), dim, keepdim)


def matrix_norm(
    x: Any,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of the matrices in two dimensions.

    `ord` is "fro", the root of the sum of squares; 1 or infinity, the largest sum of absolute values of a column or
    of a row; or the negative of these, the smallest.

    Raises:
        OneFlowError: `ord` is another, or `dim` is not two dimensions.
    """
    x = as_tensor(x)
    x = x if dtype is None else F.cast(x, dtype)
    if len(dim) != 2 or x.rank < 2 or dim[0] % x.rank == dim[1] % x.rank:
        raise fail(f"expected two dimensions of {x.desc} for matrix_norm, got {dim}")
    if ord == "fro":
        return F.norm(x, 2.0, list(dim), keepdim)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise fail(f'expected ord to be "fro", 1, -1, inf or -inf for matrix_norm, got {ord!r}')
    rows, columns = (d % x.rank for d in dim)
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = F.sum(F.abs(x), summed, True)
    extreme = (F.amax if ord > 0 else F.amin)(sums, kept, True)
    return extreme if keepdim else F.squeeze(extreme, [rows, columns])


def norm(
    x: Any,
    ord: Any = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """`matrix_norm` where `dim` is two dimensions, or where a matrix is given with `ord` and without `dim`; else
    `vector_norm`, whose default is 2.
    """
    x = as_tensor(x)
    two = isinstance(dim, Sequence) and len(dim) == 2
    if ord is not None and (two or (dim is None and x.rank == 2)):
        return matrix_norm(x, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)  # type: ignore[arg-type]
    if isinstance(ord, str):
        raise fail(f"expected a matrix or two dimensions for the norm {ord!r}, got {x.desc} and dim {dim}")
    return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """`flow.cross` along `dim`, by default the last."""
    return F.cross(input, other, dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:  # noqa: N803 (NumPy's name)
    """`flow.diagonal` of the matrices in the last two dimensions."""
    return F.diagonal(A, offset, dim1, dim2)


matmul = F.matmul


def inv(A: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """The inverses of the square matrices in the last two dimensions; floats or complex numbers.

    Raises:
        OneFlowError: a matrix is not square.
        RunError: a matrix has no inverse.
    """
    return dispatch("inv", _matrices(A, "inv"))


def det(A: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """The determinants of the square matrices in the last two dimensions; floats or complex numbers.

    Raises:
        OneFlowError: a matrix is not square.
    """
    return dispatch("det", _matrices(A, "det"))


class SignAndLogarithm(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


def slogdet(A: Any) -> SignAndLogarithm:  # noqa: N803 (NumPy's name)
    """The signs of the determinants of square matrices, of complex numbers det / |det|, and log(|det|).

    Raises:
        OneFlowError: a matrix is not square.
    """
    return SignAndLogarithm(*dispatch_all("slogdet", _matrices(A, "slogdet")))


def _matrices(operand: Any, name: str) -> Tensor:
    x: Tensor = as_tensor(operand)
    if x.rank < 2 or (x.shape[-1] != x.shape[-2] and None not in x.shape[-2:]) or not x.dtype.is_inexact:
        raise fail(f"expected square matrices of floats for linalg.{name}, got {x.desc}")
    return x


Tensor.inverse = inv  # type: ignore[attr-defined]
Tensor.det = det  # type: ignore[attr-defined]
Tensor.slogdet = slogdet  # type: ignore[attr-defined]
