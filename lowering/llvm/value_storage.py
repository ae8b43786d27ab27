"""The storage of the values of a loop nest: registers, destinations in memory, and scratch buffers.

A value with an element for each step of the inner loops is in a scratch buffer if a later phase uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Unsupported, Use
from oneflow.lowering.llvm.body_cloner import captured_scalar
from oneflow.lowering.llvm.kernel import Tensor
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, zero_of
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized, is_finished_by_loops, phases_of
from oneflow.lowering.llvm.memory_access import MemoryAccess
from oneflow.lowering.llvm.writer import Index, MemRef
from oneflow.passes.walk import returned_values

#: Stores an element, or a vector, of a node's result at the current point.
Store = Callable[[Node, Use, Tensor, LaneValue, Lanes], None]


@dataclass
class ValueStorage:
    """Reads the operands of nodes and keeps their results.

    Attributes:
        nest, memory: the nest and its accesses.
        store: stores an element of a result in its destination.
        registers: the elements at the current point that are in registers, by value.
        loaded: operands that were loaded into registers ahead of their node, by the id of the use.
    """

    nest: LoopNest
    memory: MemoryAccess
    store: Store
    registers: dict[ir.Value, LaneValue] = field(default_factory=dict)
    loaded: dict[int, LaneValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kernel, self.structure = self.nest.kernel, self.nest.structure
        self.phases = phases_of(self.structure)
        self._destinations = dict(zip(returned_values(kernel.block), kernel.results, strict=True))
        self._scratch: dict[ir.Value, MemRef] = {}

    def read(self, node: Node, use: Use, lanes: Lanes) -> LaneValue:
        """An operand's element at the current point."""
        if id(use) in self.loaded:
            return self.loaded[id(use)]
        tensors = self.nest.kernel.tensors
        producer = next((n for n in self.structure.nodes if use.value in n.results), None)
        if producer is not None:
            return self._read_result(producer, node, use, lanes)
        owner = None if isinstance(use.value, ir.BlockArgument) else use.value.owner
        if owner is not None and owner.name == "linalg.fill":
            return captured_scalar(lanes, owner.operands[0])
        if use.value not in tensors:
            raise Unsupported(f"an operand defined by {owner.name if owner else 'another block'}")
        return self.memory.load(node, use, tensors[use.value], lanes)

    def _read_result(self, producer: Node, user: Node, use: Use, lanes: Lanes) -> LaneValue:
        """The element of a result of `producer` as an operand of `user`."""
        if self._is_in_register(producer, user, use.value):
            return self.registers[use.value]
        if self._is_copy(producer):
            source = producer.inputs[0]
            return self.memory.load(producer, source, self.nest.kernel.tensors[source.value], lanes)
        if use.value in self._destinations:
            return self.memory.load(user, use, self._destinations[use.value], lanes)
        element = str(use.value.type.element_type)
        memory = self._scratch_buffer(use.value, element)
        return lanes.load(memory, self._scratch_indices(), element, bool(lanes.width))

    def initial_value(self, node: Node, result: int, lanes: Lanes) -> LaneValue:
        """The element of a result's destination before the kernel writes it."""
        use, tensors = node.outputs[result], self.nest.kernel.tensors
        owner = None if isinstance(use.value, ir.BlockArgument) else use.value.owner
        element = str(use.value.type.element_type)
        if owner is not None and owner.name == "linalg.fill":
            return captured_scalar(lanes, owner.operands[0])
        is_destination = use.value in tensors and tensors[use.value] in self.nest.kernel.results
        if (owner is not None and owner.name == "tensor.empty") or is_destination:
            return lanes.constant("false" if element == "i1" else zero_of(element), element)
        return self.read(node, use, lanes)

    def write(self, node: Node, result_index: int, value: LaneValue, lanes: Lanes) -> None:
        """Keeps an element in a register; stores it too if it is an element of a destination or a scratch buffer."""
        result = node.results[result_index]
        if lanes.width and not value.is_vector and self._varies_by_lane(node, result_index, lanes):
            value = LaneValue(lanes.broadcast(value), value.element, True)
        self.registers[result] = value
        if result in self._destinations:
            use = Use(result, node.outputs[result_index].access)
            self.store(node, use, self._destinations[result], value, lanes)
        elif self._needs_scratch(node, result_index):
            memory = self._scratch_buffer(result, str(result.type.element_type))
            lanes.store(value, memory, self._scratch_indices(), bool(lanes.width))

    def _varies_by_lane(self, node: Node, result: int, lanes: Lanes) -> bool:
        """Whether a result has an element per lane."""
        subscripts = self.nest.space.subscripts(node, node.outputs[result])
        return any(lanes.loop is not None and lanes.loop.id in s.form.dims for s in subscripts)

    def runs_in_inner_loops(self, node: Node) -> bool:
        """Whether a node runs in the inner loops."""
        return bool(node.loops & set(self.structure.inner))

    def _is_in_register(self, producer: Node, user: Node, value: ir.Value) -> bool:
        """Whether a result of `producer` is in a register when `user` reads it."""
        if value not in self.registers:
            return False
        is_finished = is_finished_by_loops(producer, producer.results.index(value))
        is_same_phase = self.phases[producer] == self.phases[user]
        return is_finished or is_same_phase or not self.runs_in_inner_loops(producer)

    def _is_copy(self, node: Node) -> bool:
        """Whether a node only permutes a tensor of the kernel: users of its result load from the tensor."""
        if len(node.inputs) != 1 or len(node.body.operations) != 1 or node.nonunit_reductions:
            return False
        yielded = list(node.body.operations[0].operands)
        return yielded == [node.body.arguments[0]] and node.inputs[0].value in self.nest.kernel.tensors

    # Scratch buffers

    def _needs_scratch(self, node: Node, result: int) -> bool:
        """Whether a result has an element for each step of the inner loops and a user in a later phase."""
        if not self.runs_in_inner_loops(node) or is_finished_by_loops(node, result) or self._is_copy(node):
            return False
        users = (n for n in self.structure.nodes if any(u.value == node.results[result] for u in n.inputs))
        return any(self.phases[user] > self.phases[node] for user in users)

    def _scratch_buffer(self, value: ir.Value, element: str) -> MemRef:
        """The scratch buffer for the inner elements of a value; allocated at the first use."""
        if value not in self._scratch:
            shape: list[Index] = [loop.size for loop in self.nest.space.inner]
            shape += [self.nest.lane_count] if self.nest.vectorized is Vectorized.OUTER else []
            with self.nest.writer.at_head():
                self._scratch[value] = self.nest.allocate(shape, element)
        return self._scratch[value]

    def _scratch_indices(self) -> list[str]:
        """The indices of the current point in a scratch buffer."""
        writer, nest = self.nest.writer, self.nest
        indices = [writer.index(nest.indices[loop.id]) for loop in nest.space.inner]
        return [*indices, writer.index(0)] if nest.vectorized is Vectorized.OUTER else indices
