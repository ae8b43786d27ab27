"""The operators, one family per file; importing this package registers all of them."""

from oneflow.dialect.ops import binary, matmul, movement, reduce, softmax, source, unary

FAMILIES = (unary, binary, reduce, matmul, softmax, movement, source)

__all__ = ["FAMILIES"]
