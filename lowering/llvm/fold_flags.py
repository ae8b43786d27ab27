"""Fast-math flags of folds: the flag that allows another order of partial results, and its removal.

In LLVM, `reassoc` also allows the distributive law: a / c + b / c becomes (a + b) / c, which may overflow or lose
a NaN where the sum does not. The sums of emitted kernels have an order, so that emitted kernels do not have the flag.
"""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.passes.walk import gather

_FLAGS = "fastmath"


def flags_of(op: ir.Operation) -> set[str]:
    """The fast-math flags of an operation."""
    text = str(op.attributes[_FLAGS]) if _FLAGS in op.attributes else ""
    return set(text.removeprefix("#arith.fastmath<").removesuffix(">").split(","))


def is_fold_flag(op: ir.Operation, attribute: str) -> bool:
    """Whether an attribute of an operation allows another order of partial results."""
    return attribute == _FLAGS and "reassoc" in flags_of(op)


def remove_fold_flags(module: ir.Module) -> None:
    """Removes the flags from the arithmetic operations of a module."""
    for op in gather(module.operation, lambda op: op.name.startswith("arith.") and is_fold_flag(op, _FLAGS)):
        op.attributes[_FLAGS] = ir.Attribute.parse("#arith.fastmath<none>")
