"""Writes the body of a node at the current point of a loop nest: operands, operations on lanes, results.

Input is a node of a structure, output MLIR text on lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.llvm.body_cloner import BodyCloner
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.value_storage import ValueStorage

#: An accumulator: a node and the index of its result.
Accumulator = tuple[Node, int]


@dataclass
class NodeEmitter:
    """Writes the bodies of the nodes of a nest."""

    nest: LoopNest
    storage: ValueStorage

    def emit(
        self, node: Node, lanes: Lanes, accumulators: dict[Accumulator, LaneValue] | None = None
    ) -> dict[Accumulator, LaneValue]:
        """Writes a node's body at the current point; returns the node's new accumulators."""
        known = accumulators or {}
        arguments = [self._operand(node, i, lanes) for i in range(len(node.inputs))]
        for result in range(len(node.results)):
            arguments.append(known.get((node, result)) or self._initial_value(node, result, lanes))
        indices = self.storage.memory.index_values(node, lanes)
        updated = {}
        for result, value in enumerate(BodyCloner(lanes, indices).run(node.body, arguments)):
            if (node, result) in known:
                updated[node, result] = self._select_active(value, known[node, result], lanes)
            else:
                self.storage.write(node, result, value, lanes)
        return updated

    def _operand(self, node: Node, operand: int, lanes: Lanes) -> LaneValue:
        """The body's argument for an operand. An unused operand is not read: a pooling window only has a shape."""
        argument = node.body.arguments[operand]
        if any(True for _ in argument.uses):
            return self.storage.read(node, node.inputs[operand], lanes)
        return LaneValue("%unused", str(argument.type))

    def _initial_value(self, node: Node, result: int, lanes: Lanes) -> LaneValue:
        """The body's argument for a destination that is not accumulated, if the body uses the argument."""
        argument = node.body.arguments[len(node.inputs) + result]
        if any(True for _ in argument.uses):
            return self.storage.initial_value(node, result, lanes)
        return LaneValue("%unused", str(argument.type))

    def _select_active(self, new: LaneValue, old: LaneValue, lanes: Lanes) -> LaneValue:
        """The new accumulator in the active lanes of an inner loop, the old one in the others."""
        if self.nest.vectorized is not Vectorized.INNER or not lanes.width:
            return new
        name = lanes.broadcast(new)
        if lanes.mask is not None:
            kind, masks = lanes.type(new.element), lanes.type("i1")
            name = self.nest.writer.op(f"arith.select {lanes.mask}, {name}, {old.name} : {masks}, {kind}")
        return LaneValue(name, new.element, True)
