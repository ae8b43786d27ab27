"""The operators, one family per file; importing this package registers all of them."""

from oneflow.dialect.ops import (
    binary,
    conv,
    embedding,
    group_norm,
    indexing,
    joining,
    matmul,
    movement,
    norm,
    order,
    random,
    reduce,
    scalar_ops,
    scan,
    scattering,
    select,
    slicing,
    softmax,
    source,
    unary,
)

FAMILIES = (
    unary,
    binary,
    scalar_ops,
    select,
    reduce,
    scan,
    matmul,
    softmax,
    norm,
    group_norm,
    conv,
    movement,
    order,
    slicing,
    joining,
    indexing,
    scattering,
    embedding,
    random,
    source,
)

__all__ = ["FAMILIES"]
