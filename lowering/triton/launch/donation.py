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
from oneflow.lowering.kernels.nodes import Access, Node, Unsupported, analyse, loop_size
from oneflow.lowering.triton.launch.grouped_launches import member_of

#: Operations that only prepare operands of others.
_SETUP = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.dim", "func.return"})


def donations(
    entry: ir.Operation, ops: Sequence[ir.Operation], buffers: Mapping[ir.Value, Buffer],
    functions: Mapping[str, ir.Operation], updates: Mapping[str, Mapping[int, int]],
) -> dict[int, int]:  # fmt: skip
    """The index of the argument whose memory a result of an entry takes, by the index of the result.

    `updates` has for each kernel the operands that its results overwrite.
    """
    donated, is_free = {}, _DonationCheck(ops, functions, updates)
    returned = list(ops[-1].operands)
    for index, result in donated_arguments(entry).items():
        argument, value = entry.regions[0].blocks[0].arguments[index], returned[result]
        buffer = buffers[value].root
        fits = value.type == argument.type and buffer.kind == "temporary" and buffer.result == result
        if fits and is_free(argument, returned[result], buffers[argument].last, buffer):
            donated[result] = index
    return donated


class _DonationCheck:
    """Whether no operation reads an argument once the buffer of a value is written to.

    Answers are cached: the updates of many parameters are calls of few kernels.
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
        operands = self._operand_indices(last).get(argument, [])
        if callee not in self._functions or len(operands) != 1 or value.owner != op:
            return False
        (operand,), result = operands, ir.OpResult(value).result_number
        if self._updates.get(callee, {}).get(result) == operand:
            # The kernel reads only those elements of the operand that it overwrites.
            return len(list(self._functions[callee].regions[0].blocks[0].arguments[operand].uses)) == 1
        key = callee, operand, result
        if key not in self._known:
            member = member_of(self._functions[callee], operand, result, self._functions)
            self._known[key] = member is not None and self._can_overwrite(*member)
        return self._known[key]

    def _operand_indices(self, op: int) -> dict[ir.Value, list[int]]:
        """The operand indices of each value that is an operand of the operation with index `op`."""
        if op not in self._operands:
            known = self._operands[op] = {}
            for index, value in enumerate(self._ops[op].operands):
                known.setdefault(value, []).append(index)
        return self._operands[op]

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
    users = [n for n in nodes if any(use.value == value for use in n.inputs)]
    are_all_uses = sum(use.value == value for n in users for use in n.inputs) == len(list(value.uses))
    # Programs along a loop that the writer does not have would all write the same elements.
    is_only_writer = all(n in writer.parallel or loop_size(nodes, n) == 1 for n in structure.outer)
    written = writer.loop_access(writer.outputs[writer.results.index(returned)])
    last = nodes.index(writer)
    return (
        are_all_uses
        and is_only_writer
        and all(_reads_same_elements(n, value, written) and nodes.index(n) <= last for n in users)
    )


def _reads_same_elements(node: Node, value: ir.Value, written: Access) -> bool:
    """Whether a node reads the elements of a value only at the positions `written`."""
    return not node.nonunit_reductions and all(
        node.loop_access(use) == written for use in node.inputs if use.value == value
    )
