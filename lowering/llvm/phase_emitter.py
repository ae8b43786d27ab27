"""Writes the phases of a structure at one point of the outer loops: nodes without inner loops, then an inner nest.

Input is the structure of a kernel, output MLIR text on lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.kernels.reduction_split import COMBINES_PARTIALS
from oneflow.lowering.llvm import blocked_summation
from oneflow.lowering.llvm.combiners import is_reassociable_sum
from oneflow.lowering.llvm.inner_loops import InnerNest
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.nest_emitters import NestEmitters
from oneflow.lowering.llvm.node_emitter import Accumulator
from oneflow.lowering.llvm.phases import is_finished_by_loops


@dataclass
class PhaseEmitter:
    """Writes what runs at one point of the outer loops of a nest, by the emitters of the nest."""

    emitters: NestEmitters

    @property
    def nest(self) -> LoopNest:
        """The nest."""
        return self.emitters.nest

    def emit(self, lanes: Lanes) -> None:
        """Writes all nodes at the current point of the outer loops, phase by phase."""
        emitters, storage = self.emitters, self.emitters.storage
        storage.registers = {}
        for phase in range(max(storage.phases.values()) + 1):
            nodes = [n for n in self.nest.structure.nodes if storage.phases[n] == phase]
            inner_nodes = [n for n in nodes if storage.runs_in_inner_loops(n)]
            for node in nodes:
                if node not in inner_nodes:
                    emitters.nodes.emit(node, lanes)
            if inner_nodes:
                inner = self._inner_nest(inner_nodes, lanes)
                ends = emitters.inner_loops.emit(inner, emitters.accumulators.begin(inner.keys, lanes))
                emitters.accumulators.end(inner.keys, ends, lanes)

    def _inner_nest(self, nodes: Sequence[Node], lanes: Lanes) -> InnerNest:
        """The inner nest of the nodes of one phase."""
        keys = [(n, i) for n in nodes for i in range(len(n.results)) if is_finished_by_loops(n, i)]
        sums = [number for number, key in enumerate(keys) if is_reassociable_sum(*key)]
        cascade = self._cascade(nodes) if sums else None

        def step(inner_lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
            return self._step(nodes, keys, inner_lanes, carried)

        is_first = not any(self.emitters.storage.phases[n] for n in nodes)
        return InnerNest(keys, lanes, step, sums if cascade else (), cascade, is_first)

    def _cascade(self, nodes: Sequence[Node]) -> blocked_summation.Cascade | None:
        """The blocked summation of the sums of nodes."""
        nest, loops = self.nest, self.nest.space.inner
        combines_partials = any(COMBINES_PARTIALS in n.op.attributes for n in nodes)
        if combines_partials and loops and nest.vectorized is not Vectorized.INNER:
            return blocked_summation.compensated_cascade(len(loops))
        steps = [nest.lane_count if nest.is_vector(loop) else 1 for loop in loops]
        return blocked_summation.cascade([loop.size for loop in loops], steps)

    def _step(
        self, nodes: Sequence[Node], keys: Sequence[Accumulator], lanes: Lanes, carried: list[LaneValue]
    ) -> list[LaneValue]:
        """Writes one step of the inner loops; returns the accumulators after the step."""
        values = dict(zip(keys, carried, strict=True))
        for node in nodes:
            values.update(self.emitters.nodes.emit(node, lanes, values))
        return [values[k] for k in keys]
