"""Matrix products and linear layers."""

from __future__ import annotations

from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.elementwise import add, mul
from oneflow.frontend.functional.rules import as_common, check_parameters

__all__ = [
    "addmm", "bmm", "dot", "linear", "matmul", "mm",
]  # fmt: skip


def matmul(input: Any, other: Any) -> Tensor:
    """The matrix product, as NumPy's `@`.

    Matrices multiply; leading dimensions are batches and broadcast; a vector on the left is a row, on the right a
    column, and that dimension is dropped from the result. Operands are brought to their common element type; f16
    and bf16 are accumulated in f32.
    """
    a, b = as_common(input, other)
    if not a.rank or not b.rank:
        raise fail(f"expected at least one dimension for matmul, got {a.desc} and {b.desc}; write a * b for numbers")
    row, column = a.rank == 1, b.rank == 1
    product = _product(sh.unsqueeze(a, 0) if row else a, sh.unsqueeze(b, 1) if column else b)
    return sh.squeeze(product, [-2] * row + [-1] * column) if row or column else product


def _product(a: Tensor, b: Tensor) -> Tensor:
    if a.rank == b.rank == 2:
        return dispatch("matmul", a, b)
    same = a.shape[:-2] == b.shape[:-2] and None not in a.shape[:-2]
    return dispatch("batch_matmul" if same else "broadcast_matmul", a, b)


def mm(input: Any, mat2: Any) -> Tensor:
    """The product of two matrices."""
    return dispatch("matmul", *as_common(input, mat2))


def bmm(input: Any, mat2: Any) -> Tensor:
    """The products of two stacks of matrices, b x m x k and b x k x n."""
    return dispatch("batch_matmul", *as_common(input, mat2))


def dot(input: Any, other: Any) -> Tensor:
    """The sum of products of two vectors of one element type.

    Raises:
        OneFlowError: an operand is no vector, or the element types differ.
    """
    a, b = as_tensor(input), as_tensor(other)
    if a.rank != 1 or b.rank != 1:
        raise fail(f"expected two vectors for dot, got {a.desc} and {b.desc}; write flow.matmul")
    if a.dtype != b.dtype:
        raise fail(f"expected vectors of one element type for dot, got {a.desc} and {b.desc}", kind=TypeError)
    return matmul(a, b)


def addmm(input: Any, mat1: Any, mat2: Any, alpha: complex = 1, beta: complex = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2; input broadcasts to the product, and is not read where beta is 0."""
    added, a, b = as_common(input, mat1, mat2)
    if isinstance(alpha, complex):
        a, alpha = mul(a, alpha), 1
    product: Tensor = dispatch("matmul", a, b, alpha=alpha)
    return product if beta == 0 else add(product, added if beta == 1 else mul(added, beta))


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """input @ transpose(weight) + bias: from `(.., in)` and `(out, in)` to `(.., out)`."""
    x, w = as_common(input, weight)
    if bias is not None:
        check_parameters("linear", x, input, weight, bias)
    if x.rank == 1:
        return sh.squeeze(linear(sh.unsqueeze(x, 0), w, bias), 0)
    product = dispatch("matmul" if x.rank == 2 else "broadcast_matmul", x, w, transpose_b=True)
    return product if bias is None else dispatch("bias_add", product, as_tensor(bias), axis=product.rank - 1)
