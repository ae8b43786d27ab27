"""The accumulators of reductions: first values before the inner loops, and the reduction of lanes after the loops.

Output is MLIR text on lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.llvm.arg_reductions import arg_reduction_of, reduce_arg_lanes
from oneflow.lowering.llvm.body_cloner import clone_operation
from oneflow.lowering.llvm.combiners import combiner_of
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.node_emitter import Accumulator
from oneflow.lowering.llvm.value_storage import ValueStorage


@dataclass
class Accumulators:
    """Writes the first and the last values of the accumulators of a nest."""

    nest: LoopNest
    storage: ValueStorage

    def begin(self, keys: Sequence[Accumulator], lanes: Lanes) -> list[LaneValue]:
        """The values before the inner loops.

        Lanes along an inner loop begin with identities: the initial value is added to the reduced lanes.
        """
        if self.nest.vectorized is Vectorized.INNER:
            return self.identities(keys)
        return [self.initial(node, result, lanes) for node, result in keys]

    def end(self, keys: Sequence[Accumulator], values: Sequence[LaneValue], lanes: Lanes) -> None:
        """Turns the values after the inner loops into results."""
        totals = dict(zip(keys, values, strict=True))
        for node, result in keys:
            if self.nest.vectorized is Vectorized.INNER:
                self._reduce_lanes_of(node, result, totals, lanes)
            self.storage.write(node, result, totals[node, result], lanes)

    def initial(self, node: Node, result: int, lanes: Lanes) -> LaneValue:
        """The initial value of a result, broadcast where the lanes are iterations of an outer loop."""
        value = self.storage.initial_value(node, result, lanes)
        if not lanes.width or self.nest.vectorized is Vectorized.INNER or value.is_vector:
            return value
        return LaneValue(lanes.broadcast(value), value.element, True)

    def identities(self, keys: Sequence[Accumulator]) -> list[LaneValue]:
        """The identity of each accumulator."""
        return [self.identity(node, result) for node, result in keys]

    def identity(self, node: Node, result: int) -> LaneValue:
        """The identity of a result's combining operation; for an arg-reduction, the initial value."""
        nest = self.nest
        if arg_reduction_of(node):
            init = self.storage.initial_value(node, result, nest.lanes())
            return LaneValue(nest.lanes().broadcast(init), init.element, bool(nest.width))
        combiner = combiner_of(node, result)
        if not nest.width:
            return LaneValue(nest.writer.constant(combiner.identity, combiner.element), combiner.element)
        constant = nest.writer.constant(f"dense<{combiner.identity}>", nest.lanes().type(combiner.element))
        return LaneValue(constant, combiner.element, True)

    def _reduce_lanes_of(self, node: Node, result: int, totals: dict[Accumulator, LaneValue], lanes: Lanes) -> None:
        """Reduces the lanes of a result in `totals`; the two results of an arg-reduction are reduced together."""
        reduction = arg_reduction_of(node)
        if reduction is None:
            initial = self.initial(node, result, lanes)
            totals[node, result] = self.reduce_lanes(node, result, initial, totals[node, result])
        elif result == 0:
            both = totals[node, 0], totals[node, 1]
            totals[node, 0], totals[node, 1] = reduce_arg_lanes(self.nest.lanes(), reduction, both)

    def reduce_lanes(self, node: Node, result: int, initial: LaneValue, end: LaneValue) -> LaneValue:
        """The lanes of an accumulator and its initial value reduced to a scalar."""
        combiner, w = combiner_of(node, result), self.nest.writer
        flags = " fastmath<reassoc>" if combiner.element[0] in "fb" and combiner.kind in ("add", "mul") else ""
        kind = f"vector<{self.nest.width}x{end.element}> into {end.element}"
        total = LaneValue(w.op(f"vector.reduction <{combiner.kind}>, {end.name}{flags} : {kind}"), end.element)
        return clone_operation(combiner.op, [initial, total], self.nest.scalars)
