"""What passes refuse because it belongs to an earlier stage, with the passes that have to run before.

Imports the errors of passes.
"""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.passes.base import PassError


def expect_linalg(function: ir.Operation) -> None:
    """Refuses a function that has operators still.

    Raises:
        PassError: it has; the first is named.
    """
    _refuse(function, ("oneflow.",), "expected linalg on tensors", "convert-oneflow-to-linalg")


def expect_formed(entry: ir.Operation) -> None:
    """Refuses an entry that still computes by itself.

    Raises:
        PassError: it has operations that have to lie in kernels.
    """
    passes = "convert-oneflow-to-linalg and oneflow-form-kernels"
    _refuse(entry, ("oneflow.", "linalg."), "expected kernels, views and sizes in the entry", passes)


def _refuse(function: ir.Operation, prefixes: tuple[str, ...], expected: str, passes: str) -> None:
    for op in function.regions[0].blocks[0].operations:
        name = op.operation.name
        if name.startswith(prefixes):
            raise PassError(f"{expected}, got {name}: run {passes} first", op.operation.location)
