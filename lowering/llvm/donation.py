"""Donation on the CPU and its alias analysis: which in-place updates of arguments are safe.

A result can take the memory if no operation reads the argument once the result is being written. The kernel that
writes the result may itself read the argument if it reads each element before it writes the same element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import Buffer, Liveness
from oneflow.lowering.kernels.donated_arguments import donated_arguments, updated_argument
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported, analyse, loop_size, read_node
from oneflow.lowering.linalg.checks import CHECK_INDEX, CHECK_SIZE, SITES
from oneflow.lowering.linalg.control import Control
from oneflow.lowering.llvm.kernel import Kernel, compute_operations
from oneflow.lowering.llvm.loop_nest import phases_of
from oneflow.passes.walk import gather, returned_values


@dataclass(frozen=True)
class CalledFunctions:
    """The functions that a plan calls.

    `kernels` are the module's kernels by name, `external` the names of external kernels. `bufferized` are kernels
    of `bufferize`. `checking` are kernels whose run-time checks may fail. `in_place` gives, for external kernels,
    the pairs of result and operand that may share memory. `controls` are the calls of bodies, and `workspaces` the
    bytes that the plan of each body needs.
    """

    kernels: Mapping[str, Kernel]
    external: Sequence[str] = ()
    bufferized: frozenset[str] = frozenset()
    checking: frozenset[str] = frozenset()
    in_place: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    controls: Mapping[str, Control] = field(default_factory=dict)
    workspaces: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DonationAnalysis:
    """Finds the donated arguments whose memory results of an entry take.

    `_in_place` caches answers of `can_write_in_place` by kernel, operand and result: a step of an optimizer calls few
    kernels many times.
    """

    ops: Sequence[ir.Operation]
    block: ir.Block
    liveness: Liveness
    functions: CalledFunctions
    _in_place: dict[tuple[str, int, int], bool] = field(default_factory=dict)

    def donate(self, entry: ir.Operation) -> None:
        """Sets `argument` of the buffers of results that take an argument's memory."""
        returned = returned_values(self.block)
        for index, result in donated_arguments(entry).items():
            argument, value = self.block.arguments[index], returned[result]
            result_buffer = self.liveness.buffer_of[value]
            same = value.type == argument.type and result_buffer.bytes is not None
            if (
                same
                and result_buffer.result == result
                and self._is_dead_before(self.liveness.buffer_of[argument], result_buffer)
            ):
                result_buffer.argument = index

    def _is_dead_before(self, argument_buffer: Buffer, result_buffer: Buffer) -> bool:
        """Whether an argument's memory is not needed any more when the result is written."""
        op = self.ops[result_buffer.first]
        callee = callee_of(op)
        if callee in self.functions.checking or callee in self.functions.controls:
            return False
        if argument_buffer.last != result_buffer.first:
            return argument_buffer.last < result_buffer.first
        read = [i for i, v in enumerate(op.operands) if self.liveness.buffer_of.get(v) is argument_buffer]
        written = [i for i, v in enumerate(op.results) if self.liveness.buffer_of[v] is result_buffer]
        if callee in self.functions.in_place:
            return len(read) == 1 and (written[0], read[0]) in self.functions.in_place[callee]
        kernel = self.functions.kernels.get(callee)
        if kernel is None or len(read) != 1:
            return False
        updated = updated_argument(kernel.block, written[0])
        if updated is not None or callee in self.functions.bufferized:
            return updated == read[0]
        key = callee, read[0], written[0]
        if key not in self._in_place:
            self._in_place[key] = can_write_in_place(kernel, read[0], written[0])
        return self._in_place[key]


def checking_kernels(module: ir.Module, kernels: Iterable[Kernel]) -> frozenset[str]:
    """The kernels that make run-time checks."""
    if SITES not in module.operation.attributes:
        return frozenset()
    return frozenset(kernel.name for kernel in kernels if _has_checks(kernel))


def _has_checks(kernel: Kernel) -> bool:
    """Whether a kernel makes run-time checks."""
    calls = gather(kernel.func, lambda op: op.name == "func.call")
    called = {ir.FlatSymbolRefAttr(op.attributes["callee"]).value for op in calls}
    return not called.isdisjoint((CHECK_INDEX, CHECK_SIZE))


def can_write_in_place(kernel: Kernel, operand: int, result: int) -> bool:
    """Whether a kernel can write a result over an operand."""
    value, returned = kernel.block.arguments[operand], returned_values(kernel.block)[result]
    try:
        nodes = [read_node(op) for op in compute_operations(kernel)]
    except Unsupported:
        return False
    structure = analyse(nodes) if nodes else None
    writer = next((n for n in nodes if returned in n.results), None)
    if structure is None or writer is None or value.type != returned.type:
        return False
    # Only reads of inputs are known to precede the write; reads of a destination's old value are not.
    reads = [(node, use) for node in nodes for use in node.inputs if use.value == value]
    if len(reads) != len(list(value.uses)) or not _writes_once(structure, writer):
        return False
    written = writer.loop_access(writer.outputs[writer.results.index(returned)])
    inner, phases = set(structure.inner), phases_of(structure)
    # A node without inner loops runs before the inner loops of its phase, whatever its position in the program.
    order = {node: (phases[node], bool(node.loops & inner), nodes.index(node)) for node in nodes}
    return all(order[node] <= order[writer] and node.loop_access(use) == written for node, use in reads)


def _writes_once(structure: Structure, writer: Node) -> bool:
    """Whether each element is written once: no reduction, and no outer loop that repeats writes."""
    return not writer.nonunit_reductions and all(
        loop in writer.parallel or loop_size(structure.nodes, loop) == 1 for loop in structure.outer
    )
