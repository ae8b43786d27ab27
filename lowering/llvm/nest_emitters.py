"""Writes one loop nest: the emitters of its parts, and all nodes at one point of the outer loops.

A phase consists of the nodes without inner loops, and then of one inner loop nest. Input is the structure of a
kernel, output MLIR text on lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.kernels.reduction_split import COMBINES_PARTIALS
from oneflow.lowering.llvm import blocked_summation
from oneflow.lowering.llvm.accumulators import Accumulators
from oneflow.lowering.llvm.combiners import is_reassociable_sum
from oneflow.lowering.llvm.inner_loops import InnerLoops, InnerNest
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized, is_finished_by_loops
from oneflow.lowering.llvm.memory_access import MemoryAccess
from oneflow.lowering.llvm.node_emitter import Accumulator, NodeEmitter
from oneflow.lowering.llvm.value_storage import ValueStorage


@dataclass
class NestEmitters:
    """The emitters of a nest, each with one job: accesses, values, nodes, accumulators, inner loops."""

    nest: LoopNest
    memory: MemoryAccess = field(init=False)
    storage: ValueStorage = field(init=False)
    nodes: NodeEmitter = field(init=False)
    accumulators: Accumulators = field(init=False)
    inner_loops: InnerLoops = field(init=False)

    def __post_init__(self) -> None:
        self.memory = MemoryAccess(self.nest)
        self.storage = ValueStorage(self.nest, self.memory, self.memory.store)
        self.nodes = NodeEmitter(self.nest, self.storage)
        self.accumulators = Accumulators(self.nest, self.storage)
        self.inner_loops = InnerLoops(self.nest, self.accumulators)

    def emit(self, lanes: Lanes) -> None:
        """Writes all nodes at the current point of the outer loops, phase by phase."""
        storage = self.storage
        storage.registers = {}
        for phase in range(max(storage.phases.values()) + 1):
            nodes = [n for n in self.nest.structure.nodes if storage.phases[n] == phase]
            inner_nodes = [n for n in nodes if storage.runs_in_inner_loops(n)]
            for node in nodes:
                if node not in inner_nodes:
                    self.nodes.emit(node, lanes)
            if inner_nodes:
                inner = self._inner_nest(inner_nodes, lanes)
                ends = self.inner_loops.emit(inner, self.accumulators.begin(inner.keys, lanes))
                self.accumulators.end(inner.keys, ends, lanes)

    def _inner_nest(self, nodes: Sequence[Node], lanes: Lanes) -> InnerNest:
        """The inner nest of the nodes of one phase."""
        keys = [(n, i) for n in nodes for i in range(len(n.results)) if is_finished_by_loops(n, i)]
        sums = [i for i, key in enumerate(keys) if is_reassociable_sum(*key)]
        cascade = self._cascade(nodes) if sums else None

        def step(inner_lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
            return self._step(nodes, keys, inner_lanes, carried)

        is_first = not any(self.storage.phases[n] for n in nodes)
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
            values.update(self.nodes.emit(node, lanes, values))
        return [values[k] for k in keys]
