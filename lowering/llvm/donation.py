"""Which results of an entry lie in the memory of arguments that were given up for them.

That is so where nothing reads the argument once its result is being written. The kernel that writes the result may
read the argument itself, if it reads each element where it writes the result's, and not after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffers import Buffer, Liveness
from oneflow.lowering.kernels.donation import donated_arguments, updated_argument
from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported, Use, analyse, loop_size, read_node
from oneflow.lowering.linalg.checks import CHECK_INDEX, CHECK_SIZE, SITES
from oneflow.lowering.llvm.kernel import Kernel, compute_operations
from oneflow.lowering.llvm.value_storage import phases_of
from oneflow.passes.walk import gather, returned_values


@dataclass(frozen=True)
class CalledFunctions:
    """What a plan knows of the functions that it calls.

    `kernels` are the module's by name, `external` the names of those made elsewhere. `loose` are kernels that MLIR
    bufferized, `checking` those whose checks may fail. `in_place` says of those made elsewhere
    which results may lie in the memory of which operands.
    """

    kernels: Mapping[str, Kernel]
    external: Sequence[str] = ()
    bufferized: frozenset[str] = frozenset()
    checking: frozenset[str] = frozenset()
    in_place: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class DonationAnalysis:
    """Finds the arguments that results of an entry lie in.

    `_found` are answers of `in_place` by kernel, operand and result: the calls of an optimizer are alike.
    """

    ops: Sequence[ir.Operation]
    block: ir.Block
    liveness: Liveness
    functions: CalledFunctions
    _found: dict[tuple[str, int, int], bool] = field(default_factory=dict)

    def donate(self, entry: ir.Operation) -> None:
        """Marks the buffers of results that lie in arguments."""
        returned = returned_values(self.block)
        for number, result in donated_arguments(entry).items():
            argument, value = self.block.arguments[number], returned[result]
            made = self.liveness.buffer_of[value]
            same = value.type == argument.type and made.bytes is not None
            if same and made.result == result and self._is_free(self.liveness.buffer_of[argument], made):
                made.argument = number

    def _is_free(self, held: Buffer, made: Buffer) -> bool:
        """Whether an argument's memory is no longer needed once `made` is written to."""
        op = self.ops[made.first]
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value if op.name == "func.call" else ""
        if callee in self.functions.checking:
            return False
        if held.last != made.first:
            return held.last < made.first
        read = [i for i, v in enumerate(op.operands) if self.liveness.buffer_of.get(v) is held]
        written = [i for i, v in enumerate(op.results) if self.liveness.buffer_of[v] is made]
        if callee in self.functions.in_place:
            return len(read) == 1 and (written[0], read[0]) in self.functions.in_place[callee]
        kernel = self.functions.kernels.get(callee)
        if kernel is None or len(read) != 1:
            return False
        updated = updated_argument(kernel.block, written[0])
        if updated is not None or callee in self.functions.bufferized:
            return updated == read[0]
        key = callee, read[0], written[0]
        if key not in self._found:
            self._found[key] = in_place(kernel, read[0], written[0])
        return self._found[key]


def checking_kernels(module: ir.Module, kernels: Iterable[Kernel]) -> frozenset[str]:
    """The kernels that make checks."""
    if SITES not in module.operation.attributes:
        return frozenset()
    return frozenset(kernel.name for kernel in kernels if _checks(kernel))


def _checks(kernel: Kernel) -> bool:
    calls = gather(kernel.func, lambda op: op.name == "func.call")
    called = {ir.FlatSymbolRefAttr(op.attributes["callee"]).value for op in calls}
    return not called.isdisjoint((CHECK_INDEX, CHECK_SIZE))


def in_place(kernel: Kernel, operand: int, result: int) -> bool:
    """Whether a kernel may write a result over an operand."""
    value, returned = kernel.block.arguments[operand], returned_values(kernel.block)[result]
    try:
        nodes = [read_node(op) for op in compute_operations(kernel)]
    except Unsupported:
        return False
    structure = analyse(nodes) if nodes else None
    writer = next((n for n in nodes if returned in n.results), None)
    if structure is None or writer is None or value.type != returned.type:
        return False
    # Only reads of inputs are known to come before the write; a destination's old value is not among them.
    reads = [(node, use) for node in nodes for use in node.inputs if use.value == value]
    if len(reads) != len(list(value.uses)) or not _writes_once(structure, writer):
        return False
    place = _place(writer, writer.outputs[writer.results.index(returned)])
    inner, phases = set(structure.inner), phases_of(structure)
    # What does not sweep comes before the sweep of its phase, wherever it stands.
    order = {node: (phases[node], bool(node.loops & inner), nodes.index(node)) for node in nodes}
    return all(order[node] <= order[writer] and _place(node, use) == place for node, use in reads)


def _writes_once(structure: Structure, writer: Node) -> bool:
    """Whether no loop of several steps writes the same elements again, or in parts."""
    return not writer.nonunit_reductions and all(
        name in writer.parallel or loop_size(structure.nodes, name) == 1 for name in structure.outer
    )


def _place(node: Node, use: Use) -> object:
    """The positions of an access over the loops that all nodes share."""
    return tuple(form.renamed(node.names) for form in use.access)
