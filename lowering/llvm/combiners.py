"""Reductions that can be vectorized: the combining operation, its identity, and the reduction of lanes."""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.llvm.fold_flags import flags_of
from oneflow.lowering.llvm.lanes import NeedsScalars

_INFINITY = {"f16": "7C00", "bf16": "7F80", "f32": "7F800000", "f64": "7FF0000000000000"}
_MINUS_INFINITY = {"f16": "FC00", "bf16": "FF80", "f32": "FF800000", "f64": "FFF0000000000000"}

#: The kind of `vector.reduction` for each combining operation.
KINDS = {
    "arith.addf": "add", "arith.mulf": "mul", "arith.maximumf": "maximumf", "arith.minimumf": "minimumf",
    "arith.maxnumf": "maxnumf", "arith.minnumf": "minnumf", "arith.addi": "add", "arith.muli": "mul",
    "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor", "arith.maxsi": "maxsi", "arith.minsi": "minsi",
    "arith.maxui": "maxui", "arith.minui": "minui",
}  # fmt: skip


_REASSOCIABLE = {"reassoc", "fast"}


@dataclass(frozen=True)
class Combiner:
    """The operation that combines an accumulator and an element."""

    op: ir.Operation
    element: str

    @property
    def kind(self) -> str:
        """The kind of `vector.reduction`."""
        return KINDS[self.op.name]

    @property
    def identity(self) -> str:
        """The literal of the identity."""
        name = self.op.name.removeprefix("arith.")
        if name in ("maximumf", "maxnumf"):
            return f"0x{_MINUS_INFINITY[self.element]}"
        if name in ("minimumf", "minnumf"):
            return f"0x{_INFINITY[self.element]}"
        if name in ("addf", "mulf"):
            return "0.0" if name == "addf" else "1.0"
        bits = int(self.element[1:])
        value = {"muli": 1, "andi": -1, "minui": -1, "maxsi": -(2 ** (bits - 1)), "minsi": 2 ** (bits - 1) - 1}
        identity = value.get(name, 0)
        return ("true" if identity else "false") if bits == 1 else str(identity)


def combiner_of(node: Node, result: int) -> Combiner:
    """The combiner of the result with index `result` of a reduction, if elements can be combined in any order.

    Raises:
        NeedsScalars: the order matters, or the accumulator has other uses.
    """
    block = node.body
    accumulator = block.arguments[len(node.inputs) + result]
    yielded = block.operations[len(block.operations) - 1].operands[result]
    op = None if isinstance(yielded, ir.BlockArgument) else yielded.owner
    if op is None or op.name not in KINDS or accumulator not in list(op.operands):
        raise NeedsScalars("a reduction whose order matters")
    if len(list(accumulator.uses)) != 1 or len(list(yielded.uses)) != 1:
        raise NeedsScalars("a reduction whose accumulator is used twice")
    if op.name in ("arith.addf", "arith.mulf") and not _REASSOCIABLE & flags_of(op):
        raise NeedsScalars("a floating-point reduction whose order matters")
    return Combiner(op, str(yielded.type))


def is_reassociable_sum(node: Node, result: int) -> bool:
    """Whether the result with index `result` of a reduction is a floating-point sum in any order."""
    try:
        return bool(combiner_of(node, result).op.name == "arith.addf")
    except NeedsScalars:
        return False
