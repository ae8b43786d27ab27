"""Online softmax: sums of exponentials relative to a maximum, in the pass over a row that finds the maximum.

s = sum(exp(x - m)), m = max(x)      each time m grows, s is multiplied by exp(old m - m)

Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.triton.codegen.reduction import Fold


@dataclass(frozen=True)
class OnlineSum:
    """A sum of exponentials relative to `maximum`; node `exponent` computes the exponentials."""

    exponent: Node
    maximum: ir.Value


def find_online_sums(nodes: Sequence[Node], folds: Mapping[ir.Operation, list[Fold] | None]) -> dict[Node, OnlineSum]:
    """The sums among nodes that can be kept relative to a running maximum."""
    producers = {r: n for n in nodes for r in n.results}
    maxima = {n.results[f.index] for n in nodes for f in folds.get(n.op) or [] if f.op.name == "arith.maximumf"}
    sums = {node: _read(node, folds.get(node.op) or [], producers, maxima) for node in nodes}
    return {node: online_sum for node, online_sum in sums.items() if online_sum is not None}


def _read(node: Node, folds: Sequence[Fold], producers: Mapping[ir.Value, Node],
          maxima: Container[ir.Value]) -> OnlineSum | None:  # fmt: skip
    if (
        len(folds) != 1
        or folds[0].op.name != "arith.addf"
        or any(node.is_scan_result(i) for i in range(len(node.outputs)))
    ):
        return None
    value, exponent = folds[0].value, node
    if isinstance(value, ir.BlockArgument):
        source = node.inputs[value.arg_number].value
        producer = producers.get(source)
        if producer is None or producer.reductions or len(producer.results) != 1:
            return None
        exponent = producer
        value = list(producer.body.operations)[-1].operation.operands[0]
    maximum = _subtracted_maximum(exponent, value)
    return OnlineSum(exponent, maximum) if maximum is not None and maximum in maxima else None


def _subtracted_maximum(node: Node, value: ir.Value) -> ir.Value | None:
    """The value m of exp(x - m), where the body of `node` reads m once."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "math.exp":
        return None
    difference = value.owner.operands[0]
    if isinstance(difference, ir.BlockArgument) or difference.owner.name != "arith.subf":
        return None
    subtracted = difference.owner.operands[1]
    if not isinstance(subtracted, ir.BlockArgument) or len(list(subtracted.uses)) != 1:
        return None
    index = subtracted.arg_number
    return node.inputs[index].value if index < len(node.inputs) else None
