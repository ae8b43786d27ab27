"""The operations of an entry as a graph: who needs whom, which groups may merge without a cycle.

Imports the MLIR seam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation and of everything nested in it."""
    found = list(op.operands)
    if not len(op.regions):
        return found

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.extend(inner.operands)
        return ir.WalkResult.ADVANCE

    for region in op.regions:
        for block in region:
            for inner in block:
                inner.operation.walk(visit)
    return found


@dataclass
class Graph:
    """Operations by number, in program order; `group[i]` is the number of the first member of i's group."""

    ops: list[ir.Operation]
    needs: list[set[int]] = field(default_factory=list)
    group: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        makers = {result: i for i, op in enumerate(self.ops) for result in op.results}
        self.needs = [{makers[v] for v in operands_of(op) if v in makers} for op in self.ops]
        self.group = list(range(len(self.ops)))

    def members(self, group: int) -> list[int]:
        """The operations of a group, in program order."""
        return [i for i, g in enumerate(self.group) if g == group]

    def merge(self, a: int, b: int) -> None:
        """Makes two groups one."""
        first, second = sorted((a, b))
        self.group = [first if g == second else g for g in self.group]

    def acyclic(self, members: Iterable[int]) -> bool:
        """Whether no operation outside `members` needs one of them and is needed by another."""
        inside = set(members)
        tainted: set[int] = set()
        for i in range(min(inside), max(inside) + 1):
            if i in inside:
                if self.needs[i] & tainted:
                    return False
            elif any(n in inside or n in tainted for n in self._group_needs(i)):
                tainted |= set(self.members(self.group[i]))
        return True

    def _group_needs(self, op: int) -> set[int]:
        return set().union(*(self.needs[m] for m in self.members(self.group[op])))

    def order(self) -> list[list[int]]:
        """The groups so that each comes after what it needs, as near to program order as that allows."""
        done: set[int] = set()
        ordered: list[list[int]] = []

        def visit(group: int) -> None:
            if group in done:
                return
            done.add(group)
            members = self.members(group)
            for need in sorted({self.group[n] for m in members for n in self.needs[m]} - {group}):
                visit(need)
            ordered.append(members)

        for group in self.group:
            visit(group)
        return ordered


def grow(graph: Graph, candidates: Sequence[int], joins: Callable[[list[int]], bool]) -> None:
    """Merges each candidate with the groups of its producers where `joins` the members allows it."""
    chosen = set(candidates)
    for op in candidates:
        for producer in sorted(graph.needs[op] & chosen):
            a, b = graph.group[producer], graph.group[op]
            if a == b:
                continue
            members = sorted([*graph.members(a), *graph.members(b)])
            if graph.acyclic(members) and joins(members):
                graph.merge(a, b)
