"""The computation of a tensor, or of one of its elements, at another insertion point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir, tensor
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.kernels.positions import index_of
from oneflow.passes.inline import clone_with


@dataclass(frozen=True)
class Recomputation:
    """Nodes in program order that compute each element of a tensor."""

    nodes: Sequence[Node]

    def clone(self, user: ir.Operation) -> ir.Value:
        """The whole tensor, recomputed before its user."""
        values: dict[ir.Value, ir.Value] = {}
        with ir.InsertionPoint(user):
            for node in self.nodes:
                clone_with(node.op, values)
        return values[self.nodes[-1].results[0]]

    def element(self, positions: Sequence[ir.Value]) -> ir.Value:
        """One element, computed at the insertion point."""
        producers = {n.results[0]: n for n in self.nodes}
        return _element(self.nodes[-1].results[0], positions, producers)


def _element(value: ir.Value, positions: Sequence[ir.Value], producers: Mapping[ir.Value, Node]) -> ir.Value:
    """The element of a value at positions: computed where a node produces the value, else read."""
    node = producers.get(value)
    if node is None:
        return tensor.ExtractOp(value, list(positions)).result
    loops = {f.dim: p for f, p in zip(node.outputs[0].access, positions, strict=True) if f.dim is not None}
    values = dict[ir.Value, ir.Value]()
    for argument, use in zip(node.body.arguments, node.inputs, strict=False):
        values[argument] = _element(use.value, [index_of(f, loops) for f in use.access], producers)
    *ops, last = node.body.operations
    for op in ops:
        clone_with(op.operation, values)
    (yielded,) = last.operands
    return values.get(yielded, yielded)
