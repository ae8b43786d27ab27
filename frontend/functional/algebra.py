"""Products of vectors and matrices that are made of matrix products and element-wise functions; norms; diagonals."""

from __future__ import annotations

from typing import Any

from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.complex_numbers import conj
from oneflow.frontend.functional.products import bmm, matmul, mm
from oneflow.frontend.functional.rules import as_common
from oneflow.frontend.functional.scattering import diagonal

__all__ = ["addmv", "baddbmm", "cross", "inner", "mv", "outer", "trace", "vdot"]


def mv(input: Any, vec: Any) -> Tensor:
    """The product of a matrix and a vector."""
    a, b = as_common(input, vec)
    if a.rank != 2 or b.rank != 1:
        raise fail(f"expected a matrix and a vector for mv, got {a.desc} and {b.desc}; write flow.matmul")
    return matmul(a, b)


def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * mat @ vec."""
    return _sum(input, mv(mat, vec), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, for stacks of matrices; input broadcasts to the products."""
    return _sum(input, bmm(batch1, batch2), beta, alpha)


def _sum(input: Any, product: Tensor, beta: float, alpha: float) -> Tensor:
    scaled = product if alpha == 1 else e.mul(product, alpha)
    return scaled if beta == 0 else e.add(scaled, input if beta == 1 else e.mul(input, beta))


def outer(input: Any, vec2: Any) -> Tensor:
    """The products of each element of a vector with each of another: n x m."""
    a, b = as_common(input, vec2)
    if a.rank != 1 or b.rank != 1:
        raise fail(f"expected two vectors for outer, got {a.desc} and {b.desc}")
    return mm(sh.unsqueeze(a, 1), sh.unsqueeze(b, 0)) if a.dtype.is_float else e.mul(sh.unsqueeze(a, 1), b)


def inner(input: Any, other: Any) -> Tensor:
    """Sums of products along the last dimensions of both; with a number, the product."""
    a, b = as_common(input, other)
    if not a.rank or not b.rank:
        return e.mul(a, b)
    return matmul(a, sh.movedim(b, -1, -2) if b.rank > 1 else b) if b.rank <= 2 else _inner_of_many(a, b)


def _inner_of_many(a: Tensor, b: Tensor) -> Tensor:
    flat = matmul(sh.reshape(a, (-1, a.size(-1))), sh.t(sh.reshape(b, (-1, b.size(-1)))))
    return sh.reshape(flat, (*a.sizes()[:-1], *b.sizes()[:-1]))


def vdot(input: Any, other: Any) -> Tensor:
    """The sum of products of two vectors, of which the first is conjugated."""
    a, b = as_common(input, other)
    if a.rank != 1 or b.rank != 1:
        raise fail(f"expected two vectors for vdot, got {a.desc} and {b.desc}")
    return matmul(conj(a), b)


def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """The cross products of vectors of 3 elements along `dim`, by default the first dimension of size 3.

    Raises:
        OneFlowError: the operands differ in rank, or are no vectors of 3 elements.
    """
    a, b = as_common(input, other)
    rank = a.rank
    if rank != b.rank:
        raise fail(f"expected operands of one rank for cross, got {a.desc} and {b.desc}; write x.unsqueeze(0)")
    if dim is None:
        dim = next((i for i, size in enumerate(a.shape) if size == 3), 0) - a.rank
    axis = dim - rank if dim >= 0 else dim
    if not -rank <= axis < 0 or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise fail(f"expected 3 elements along dimension {dim} for cross, got {a.desc} and {b.desc}")
    turned = [[sh.roll(x, -n, sh.axis(x, axis)) for n in (1, 2)] for x in (a, b)]
    return e.sub(e.mul(turned[0][0], turned[1][1]), e.mul(turned[0][1], turned[1][0]))


def trace(x: Any) -> Tensor:
    """The sum of the main diagonal of a matrix."""
    x = as_tensor(x)
    if x.rank != 2:
        raise fail(f"expected a matrix for trace, got {x.desc}")
    return r.sum(diagonal(x))
