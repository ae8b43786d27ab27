"""Results that lie in arguments: an argument with `oneflow.donated = n` may be overwritten by result n.

That is done where nothing reads the argument once the result is being written. The kernel that writes the result may
read the argument itself if each element is read where the result's is written, by the same program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffers import Buffer
from oneflow.lowering.kernels.access import read_any_node
from oneflow.lowering.kernels.donation import donated_arguments
from oneflow.lowering.kernels.nodes import Node, Unsupported, analyse, loop_size
from oneflow.lowering.triton.launch.grouped_launches import member_of

#: Operations that only prepare what others use.
_SETUP = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.dim", "func.return"})


def donations(
    entry: ir.Operation, ops: Sequence[ir.Operation], buffers: Mapping[ir.Value, Buffer],
    functions: Mapping[str, ir.Operation], updates: Mapping[str, Mapping[int, int]],
) -> dict[int, int]:  # fmt: skip
    """The arguments of an entry that results lie in, by the number of the result.

    `updates` says of kernels which results they write over which operands.
    """
    found, free = {}, _Free(ops, functions, updates)
    returned = list(ops[-1].operands)
    for number, result in donated_arguments(entry).items():
        argument, value = entry.regions[0].blocks[0].arguments[number], returned[result]
        made = _root(buffers[value])
        fits = value.type == argument.type and made.kind == "temporary" and made.result == result
        if fits and free(argument, returned[result], buffers[argument].last, made):
            found[result] = number
    return found


def _root(buffer: Buffer) -> Buffer:
    while buffer.aliases is not None:
        buffer = buffer.aliases
    return buffer


class _Free:
    """Whether an argument is no longer needed once the buffer of a value is written to. What is found out is kept:
    the updates of many parameters are calls of few kernels.
    """

    def __init__(
        self, ops: Sequence[ir.Operation], functions: Mapping[str, ir.Operation],
        updates: Mapping[str, Mapping[int, int]],
    ) -> None:  # fmt: skip
        self._ops, self._functions, self._updates = ops, functions, updates
        self._operands: dict[int, dict[ir.Value, list[int]]] = {}
        self._known: dict[tuple[str, int, int], bool] = {}

    def __call__(self, argument: ir.Value, value: ir.Value, last: int, made: Buffer) -> bool:
        if last != made.first:
            return last < made.first
        op = self._ops[last]
        callee = str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value) if op.name == "func.call" else ""
        places = self._places(last).get(argument, [])
        if callee not in self._functions or len(places) != 1 or value.owner != op:
            return False
        key = callee, places[0], ir.OpResult(value).result_number
        if self._updates.get(callee, {}).get(key[2]) == places[0]:
            # The kernel reads nothing of it but what it writes over.
            return len(list(self._functions[callee].regions[0].blocks[0].arguments[places[0]].uses)) == 1
        if key not in self._known:
            found = member_of(self._functions[callee], places[0], key[2], self._functions)
            self._known[key] = found is not None and self._in_place(*found)
        return self._known[key]

    def _places(self, number: int) -> dict[ir.Value, list[int]]:
        """Where operation `number` has each of its operands."""
        if number not in self._operands:
            known = self._operands[number] = {}
            for place, value in enumerate(self._ops[number].operands):
                known.setdefault(value, []).append(place)
        return self._operands[number]

    def _in_place(self, function: ir.Operation, operand: int, result: int) -> bool:
        key = ir.StringAttr(function.attributes["sym_name"]).value, operand, result
        if key not in self._known:
            self._known[key] = _in_place(function, operand, result)
        return self._known[key]


def _in_place(function: ir.Operation, operand: int, result: int) -> bool:
    """Whether a kernel may write a result over an operand: each element is read where it is written, and before."""
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
    seen = sum(use.value == value for n in readers for use in n.inputs) == len(list(value.uses))
    # Loops that the writer does not run are programs that would all write the same elements.
    alone = all(n in writer.parallel or loop_size(nodes, n) == 1 for n in structure.outer)
    place = _place(writer, writer.outputs[writer.results.index(returned)].access)
    last = nodes.index(writer)
    return seen and alone and all(_reads_there(n, value, place) and nodes.index(n) <= last for n in readers)


def _reads_there(node: Node, value: ir.Value, place: object) -> bool:
    return not node.nonunit_reductions and all(
        _place(node, use.access) == place for use in node.inputs if use.value == value
    )


def _place(node: Node, access: Sequence[object]) -> object:
    """Positions over the loops that all nodes share."""
    return tuple(form.renamed(node.names) for form in access)  # type: ignore[attr-defined]
