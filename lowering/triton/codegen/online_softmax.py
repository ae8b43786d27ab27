"""Sums of exponentials relative to a maximum, found in one pass over a row: online softmax.

s = sum(exp(x - m)), m = max(x)      each time m grows, what s is so far shrinks by exp(old m - m)
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.triton.codegen.reduction import Folded


@dataclass(frozen=True)
class Rescaled:
    """A sum of what node `exponent` yields (or has in its body), exponentials relative to the maximum `anchor`."""

    exponent: Node
    anchor: ir.Value


def read_rescaled(nodes: Sequence[Node], folds: Mapping[ir.Operation, list[Folded] | None]) -> dict[Node, Rescaled]:
    """The sums among nodes that can be kept relative to a growing maximum."""
    makers = {r: n for n in nodes for r in n.results}
    maxima = {n.results[f.number] for n in nodes for f in folds.get(n.op) or [] if f.op.name == "arith.maximumf"}
    found = {node: _read(node, folds.get(node.op) or [], makers, maxima) for node in nodes}
    return {node: rescaled for node, rescaled in found.items() if rescaled is not None}


def _read(node: Node, folds: Sequence[Folded], makers: Mapping[ir.Value, Node],
          maxima: Container[ir.Value]) -> Rescaled | None:  # fmt: skip
    if (
        len(folds) != 1
        or folds[0].op.name != "arith.addf"
        or any(node.is_scan_result(i) for i in range(len(node.outputs)))
    ):
        return None
    value, exponent = folds[0].value, node
    if isinstance(value, ir.BlockArgument):
        source = node.inputs[value.arg_number].value
        maker = makers.get(source)
        if maker is None or maker.reductions or len(maker.results) != 1:
            return None
        exponent = maker
        value = list(maker.body.operations)[-1].operation.operands[0]
    anchor = _anchor(exponent, value)
    return Rescaled(exponent, anchor) if anchor is not None and anchor in maxima else None


def _anchor(node: Node, value: ir.Value) -> ir.Value | None:
    """What is subtracted under the exponential that a value is, where it is used for nothing else."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "math.exp":
        return None
    difference = value.owner.operands[0]
    if isinstance(difference, ir.BlockArgument) or difference.owner.name != "arith.subf":
        return None
    subtracted = difference.owner.operands[1]
    if not isinstance(subtracted, ir.BlockArgument) or len(list(subtracted.uses)) != 1:
        return None
    number = subtracted.arg_number
    return node.inputs[number].value if number < len(node.inputs) else None
