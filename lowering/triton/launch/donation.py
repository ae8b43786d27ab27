"""Donation on a GPU and its alias analysis: which in-place updates of arguments are safe.

An argument with `oneflow.donated = n` may be overwritten by result n. The result takes the memory of the argument if
no operation reads the argument once the result is being written. The kernel that writes the result may read the
argument if the program that reads an element of the argument is the one that writes the element of the result at the
same position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import Buffer
from oneflow.lowering.kernels.access import read_any_node
from oneflow.lowering.kernels.donated_arguments import donated_arguments
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.kernels.nodes import Node, Unsupported, analyse, loop_size
from oneflow.lowering.triton.launch.grouped_launches import member_of

#: Operations that only prepare operands of others.
_SETUP = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.dim", "func.return"})


def donations(
    entry: ir.Operation, ops: Sequence[ir.Operation], buffers: Mapping[ir.Value, Buffer],
    functions: Mapping[str, ir.Operation], updates: Mapping[str, Mapping[int, int]],
) -> dict[int, int]:  # fmt: skip
    """The arguments of an entry whose memory results take, by the number of the result.

    `updates` has for each kernel the operands that its results overwrite.
    """
    donated, is_free = {}, _DonationCheck(ops, functions, updates)
    returned = list(ops[-1].operands)
    for number, result in donated_arguments(entry).items():
        argument, value = entry.regions[0].blocks[0].arguments[number], returned[result]
        buffer = buffers[value].root
        fits = value.type == argument.type and buffer.kind == "temporary" and buffer.result == result
        if fits and is_free(argument, returned[result], buffers[argument].last, buffer):
            donated[result] = number
    return donated


class _DonationCheck:
    """Whether an argument is not read any more once the buffer of a value is written to.

    Answers are kept: the updates of many parameters are calls of few kernels.
    """

    def __init__(
        self, ops: Sequence[ir.Operation], functions: Mapping[str, ir.Operation],
        updates: Mapping[str, Mapping[int, int]],
    ) -> None:  # fmt: skip
        self._ops, self._functions, self._updates = ops, functions, updates
        self._operands: dict[int, dict[ir.Value, list[int]]] = {}
        self._known: dict[tuple[str, int, int], bool] = {}

    def __call__(self, argument: ir.Value, value: ir.Value, last: int, buffer: Buffer) -> bool:
        if last != buffer.first:
            return last < buffer.first
        op = self._ops[last]
        callee = callee_of(op)
        positions = self._positions(last).get(argument, [])
        if callee not in self._functions or len(positions) != 1 or value.owner != op:
            return False
        key = callee, positions[0], ir.OpResult(value).result_number
        if self._updates.get(callee, {}).get(key[2]) == positions[0]:
            # The kernel reads only those elements of the operand that it overwrites.
            return len(list(self._functions[callee].regions[0].blocks[0].arguments[positions[0]].uses)) == 1
        if key not in self._known:
            member = member_of(self._functions[callee], positions[0], key[2], self._functions)
            self._known[key] = member is not None and self._can_overwrite(*member)
        return self._known[key]

    def _positions(self, number: int) -> dict[ir.Value, list[int]]:
        """The positions of each operand in the operand list of operation `number`."""
        if number not in self._operands:
            known = self._operands[number] = {}
            for position, value in enumerate(self._ops[number].operands):
                known.setdefault(value, []).append(position)
        return self._operands[number]

    def _can_overwrite(self, function: ir.Operation, operand: int, result: int) -> bool:
        key = ir.StringAttr(function.attributes["sym_name"]).value, operand, result
        if key not in self._known:
            self._known[key] = _can_overwrite(function, operand, result)
        return self._known[key]


def _can_overwrite(function: ir.Operation, operand: int, result: int) -> bool:
    """Whether a kernel may write a result over an operand: the program that writes an element has read it before."""
    block = function.regions[0].blocks[0]
    ops = [o.operation for o in block.operations]
    try:
        nodes = [read_any_node(op) for op in ops if op.name not in _SETUP]
    except Unsupported:
        return False
    structure = analyse(nodes) if nodes else None
    value, returned = block.arguments[operand], ops[-1].operands[result]
    writer = next((n for n in nodes if returned in n.results), None)
    if structure is None or writer is None:
        return False
    readers = [n for n in nodes if any(use.value == value for use in n.inputs)]
    all_reads = sum(use.value == value for n in readers for use in n.inputs) == len(list(value.uses))
    # Programs along a loop that the writer does not have would all write the same elements.
    is_only_writer = all(n in writer.parallel or loop_size(nodes, n) == 1 for n in structure.outer)
    position = _loop_positions(writer, writer.outputs[writer.results.index(returned)].access)
    last = nodes.index(writer)
    return (
        all_reads
        and is_only_writer
        and all(_reads_same_elements(n, value, position) and nodes.index(n) <= last for n in readers)
    )


def _reads_same_elements(node: Node, value: ir.Value, position: object) -> bool:
    return not node.nonunit_reductions and all(
        _loop_positions(node, use.access) == position for use in node.inputs if use.value == value
    )


def _loop_positions(node: Node, access: Sequence[object]) -> object:
    """The positions of an access as forms over the loops that all nodes share."""
    return tuple(form.renamed(node.names) for form in access)  # type: ignore[attr-defined]
