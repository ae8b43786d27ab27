"""The operators, one family per file; importing this package registers all of them."""

from oneflow.dialect.ops import (
    binary,
    matmul,
    movement,
    order,
    reduce,
    scalar_ops,
    select,
    slicing,
    softmax,
    source,
    unary,
)

FAMILIES = (unary, binary, scalar_ops, select, reduce, matmul, softmax, movement, order, slicing, source)

__all__ = ["FAMILIES"]
