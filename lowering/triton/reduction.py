"""Reading the body of a reduction: what it combines, with which operation, and what is neutral for it.

A result is `Folded` (an associative operation on a value that does not read the running one), or two results are
`Selected` (the element that wins a strict comparison, and its position). Anything else runs step by step.
Imports `kernels.nodes`, `body` and the MLIR seam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.triton.body import needed_ops

#: Combining operations: the function of the prelude and the neutral element, `least` and `most` by type.
COMBINE = {
    "arith.addf": ("add", "0.0"), "arith.addi": ("add", "0"),
    "arith.mulf": ("multiply", "1.0"), "arith.muli": ("multiply", "1"),
    "arith.maximumf": ("largest", "least"), "arith.minimumf": ("smallest", "most"),
    "arith.maxsi": ("greater", "least"), "arith.minsi": ("less", "most"),
    "arith.andi": ("both", "-1"), "arith.ori": ("either", "0"), "arith.xori": ("differ", "0"),
}  # fmt: skip


@dataclass(frozen=True)
class Folded:
    """Result `number` is combined by `op` with `value`, computed from the elements alone."""

    number: int
    op: ir.Operation
    value: ir.Value

    @property
    def function(self) -> str:
        """The combining function's name."""
        return COMBINE[self.op.name][0]


def neutral(name: str, element: str) -> str:
    """The neutral element of a combining operation as text."""
    text = COMBINE[name][1]
    if text not in ("least", "most"):
        return text if element != "i1" else str(text != "0")
    if element[0] in "fb":
        return f'float("{"-" if text == "least" else ""}inf")'
    bits = int(element[1:])
    return str(-(1 << (bits - 1)) if text == "least" else (1 << (bits - 1)) - 1)


def read_folds(node: Node) -> list[Folded] | None:
    """How each result that is not a scan's stream is folded; None where one is something else.

    A scan yields its running value twice: the stream has the same value and is not listed.
    """
    block = node.body
    outs = list(block.arguments)[len(node.inputs) :]
    yielded = list(block.operations[len(block.operations) - 1].operands)
    folds = []
    for number, (out, value) in enumerate(zip(outs, yielded, strict=True)):
        if node.streams(number):
            if not any(value == y and not node.streams(i) for i, y in enumerate(yielded)):
                return None
            continue
        fold = _fold(number, out, value)
        if fold is None or _reads(fold.value, outs):
            return None
        folds.append(fold)
    return folds


def _fold(number: int, out: ir.Value, value: ir.Value) -> Folded | None:
    if isinstance(value, ir.BlockArgument) or value.owner.name not in COMBINE:
        return None
    operands = list(value.owner.operands)
    if operands.count(out) != 1:
        return None
    return Folded(number, value.owner, operands[1 - operands.index(out)])


def _reads(value: ir.Value, outs: Sequence[ir.Value]) -> bool:
    """Whether a value of a body depends on one of `outs`."""
    if isinstance(value, ir.BlockArgument):
        return value in outs
    ops = [o.operation for o in value.owner.operation.block.operations]
    return any(v in outs for op in needed_ops(ops, [value]) for v in op.operands)
