"""The operators, one family per file; importing this package registers all of them."""

from oneflow.dialect.ops import (
    binary,
    joining,
    matmul,
    movement,
    order,
    reduce,
    scalar_ops,
    scan,
    select,
    slicing,
    softmax,
    source,
    unary,
)

FAMILIES = (
    unary,
    binary,
    joining,
    scalar_ops,
    select,
    reduce,
    scan,
    matmul,
    softmax,
    movement,
    order,
    slicing,
    joining,
    source,
)

__all__ = ["FAMILIES"]
