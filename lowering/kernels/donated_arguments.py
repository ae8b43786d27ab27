"""Donated arguments (input-output aliasing): result n may reuse the memory of an argument with `oneflow.donated = n`.

Kernels that read the argument are ordered before the producer of the result where possible.
`llvm/donation.py` and `triton/launch/donation.py` decide by alias analysis whether the result takes the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.graph import DependenceGraph
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.passes.base import PassError

DONATED = "oneflow.donated"
#: Operations whose result is a view of their first operand.
VIEWS = frozenset({"tensor.cast", "tensor.collapse_shape", "tensor.expand_shape", "tensor.reshape", BARRIER})


def donated_arguments(entry: ir.Operation) -> dict[int, int]:
    """The index of the result that each donated argument is given to, by the index of the argument.

    Raises:
        PassError: an argument is donated to something else than a result.
    """
    if "arg_attrs" not in entry.attributes:
        return {}
    dictionaries = [ir.DictAttr(a) for a in entry.attributes["arg_attrs"]]
    return {i: _result_index(entry, i, a[DONATED]) for i, a in enumerate(dictionaries) if DONATED in a}


def _result_index(entry: ir.Operation, argument: int, attribute: ir.Attribute) -> int:
    """The index of the result that an argument is donated to."""
    count = len(ir.FunctionType(ir.TypeAttr(entry.attributes["function_type"]).value).results)
    if isinstance(attribute, ir.IntegerAttr) and 0 <= attribute.value < count:
        return int(attribute.value)
    what = f"expected {DONATED} of argument {argument} to be the number of one of {count} results"
    raise PassError(f"{what}, got {attribute}", entry.location)


def donate_arguments(entry: ir.Operation, pairs: Iterable[tuple[int, int]]) -> None:
    """Marks arguments as donated to results: pairs of an argument's index and a result's index."""
    attributes = [{a.name: a.attr for a in ir.DictAttr(d)} for d in _argument_attributes(entry)]
    for argument, result in pairs:
        attributes[argument][DONATED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), result)
    entry.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])


def _argument_attributes(entry: ir.Operation) -> Sequence[ir.Attribute]:
    """The attribute dictionary of each argument."""
    attributes = entry.attributes
    count = len(entry.regions[0].blocks[0].arguments)
    return list(attributes["arg_attrs"]) if "arg_attrs" in attributes else [ir.DictAttr.get({})] * count


def updated_argument(block: ir.Block, result: int) -> int | None:
    """The index of the argument that a kernel's result updates in part, by loops or insertions.

    None if there is no such argument, or if another operation reads the argument.
    """
    *_, last = block.operations
    value = initial = last.operands[result]
    while not isinstance(initial, ir.BlockArgument):
        op = initial.owner
        if op.name not in ("scf.for", "tensor.insert_slice"):
            return None
        initial = op.operands[1 if op.name == "tensor.insert_slice" else 3 + ir.OpResult(initial).result_number]
        if len(list(initial.uses)) != 1:
            return None
    return initial.arg_number if initial != value and initial.type == value.type else None


def order_after_users(entry: ir.Operation, graph: DependenceGraph) -> None:
    """Orders the producers of results after the users of the arguments donated to those results."""
    producers = {result: i for i, op in enumerate(graph.ops) for result in op.results}
    arguments, returned = entry.regions[0].blocks[0].arguments, list(graph.ops[-1].operands)
    users, last = _ElementUsers(graph), len(graph.ops) - 1
    for argument, result in donated_arguments(entry).items():
        producer = producers.get(_view_base(returned[result]))
        if producer is not None:
            graph.order_after(producer, users.of(arguments[argument]) - {producer, last})


def _view_base(value: ir.Value) -> ir.Value:
    """The value that a value is a view of."""
    while not isinstance(value, ir.BlockArgument) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


class _ElementUsers:
    """The users of values that read elements, as indices of the operations of a graph."""

    def __init__(self, graph: DependenceGraph) -> None:
        self._ops = graph.ops
        self._by_value: dict[ir.Value, list[int]] = {}
        for index, operands in enumerate(graph.operands):
            for value in operands:
                self._by_value.setdefault(value, []).append(index)

    def of(self, value: ir.Value) -> set[int]:
        """The users of a value and of its views."""
        users: set[int] = set()
        for index in self._by_value.get(value, ()):
            op = self._ops[index]
            if op.name in VIEWS:
                users |= self.of(op.results[0])
            elif op.name != "tensor.dim":
                users.add(index)
        return users
