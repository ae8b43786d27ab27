"""The emitters that write one loop nest together: accesses, values, nodes, accumulators, inner loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.lowering.llvm.accumulators import Accumulators
from oneflow.lowering.llvm.inner_loops import InnerLoops
from oneflow.lowering.llvm.loop_nest import LoopNest
from oneflow.lowering.llvm.memory_access import MemoryAccess
from oneflow.lowering.llvm.node_emitter import NodeEmitter
from oneflow.lowering.llvm.value_storage import ValueStorage


@dataclass
class NestEmitters:
    """The emitters of a nest, each with one job."""

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
