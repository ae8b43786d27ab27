"""The operations of an entry as a dependence graph, and which groups can merge without a cycle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.structural_hash import StructuralHasher
from oneflow.lowering.linalg.control import PREFIX as CONTROL
from oneflow.lowering.linalg.external import PREFIX as EXTERNAL

#: The most operations in a group. Each candidate is checked against all members, which costs quadratic time.
MAX_MEMBERS = 64


def callee_of(op: ir.Operation) -> str:
    """The name of the function that an operation calls, empty if the operation is no call."""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value) if op.name == "func.call" else ""


def is_external_call(op: ir.Operation) -> bool:
    """Whether an operation calls an external kernel, or bodies, which may call some.

    External calls keep their order: all ranks have to make collectives in the same order.
    """
    return callee_of(op).startswith((EXTERNAL, CONTROL))


@dataclass
class DependenceGraph:
    """Operations by index, in program order; `group[i]` is the index of the first member of the group of `i`.

    `producers[i]` are the operations that `i` reads, and for an external call the external call before it.
    `ancestors` and `descendants` are the transitive producers and consumers of each group as bit sets. Testing a
    merge is one operation, and merging only changes groups that it newly connects.
    """

    ops: list[ir.Operation]
    hasher: StructuralHasher = field(default_factory=StructuralHasher)
    producers: list[set[int]] = field(default_factory=list)
    group: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        producers = {result: i for i, op in enumerate(self.ops) for result in op.results}
        self.operands = [self.hasher.read(op).captured_values for op in self.ops]
        self.producers = [{producers[v] for v in operands if v in producers} for operands in self.operands]
        called = [i for i, op in enumerate(self.ops) if is_external_call(op)]
        for before, after in itertools.pairwise(called):
            self.producers[after].add(before)
        self.ordered_after: dict[int, set[int]] = {}
        count = len(self.ops)
        self.group = list(range(count))
        self._members = [[i] for i in range(count)]
        self._bits = [1 << i for i in range(count)]
        self.ancestors, self.descendants = [0] * count, [0] * count
        for i in range(count):
            for producer in self.producers[i]:
                self.ancestors[i] |= self.ancestors[producer] | self._bits[producer]
        for i in reversed(range(count)):
            for producer in self.producers[i]:
                self.descendants[producer] |= self.descendants[i] | self._bits[i]

    def order_after(self, op: int, others: set[int]) -> None:
        """Orders an operation after other operations, except its consumers. Has to be called before groups merge."""
        later = [o for o in others if not self.descendants[op] & self._bits[o]]
        self.ordered_after.setdefault(op, set()).update(later)
        ancestors, descendants = 0, self.descendants[op] | self._bits[op]
        for other in later:
            ancestors |= self.ancestors[other] | self._bits[other]
        for group in self._groups(descendants):
            self.ancestors[group] |= ancestors
        for group in self._groups(ancestors):
            self.descendants[group] |= descendants

    def has_reads_in_bodies(self, members: Sequence[int]) -> bool:
        """Whether the body of an operation reads the result of another one, at positions that the body computes."""
        reading = [m for m in members if len(self.operands[m]) > len(self.ops[m].operands)]
        if not reading:
            return False
        results = {result for m in members for result in self.ops[m].results}
        return any(v in results for m in reading for v in self.operands[m][len(self.ops[m].operands) :])

    def members(self, group: int) -> list[int]:
        """The operations of a group, in program order."""
        return self._members[group]

    def may_merge(self, a: int, b: int) -> bool:
        """Whether no third group lies on a path between two groups."""
        between = (self.descendants[a] & self.ancestors[b]) | (self.descendants[b] & self.ancestors[a])
        return not between & ~(self._bits[a] | self._bits[b])

    def merge(self, a: int, b: int) -> None:
        """Merges two groups; the index of the new group is the index of its first member."""
        first, second = sorted((a, b))
        bits = self._bits[first] | self._bits[second]
        ancestors, descendants = (
            (self.ancestors[a] | self.ancestors[b]) & ~bits,
            (self.descendants[a] | self.descendants[b]) & ~bits,
        )
        for group in self._groups((self.descendants[a] ^ self.descendants[b]) & ~bits):
            self.ancestors[group] |= ancestors | bits
        for group in self._groups((self.ancestors[a] ^ self.ancestors[b]) & ~bits):
            self.descendants[group] |= descendants | bits
        self.ancestors[first], self.descendants[first] = ancestors, descendants
        self._bits[first] = bits
        self._members[first] = sorted(self._members[first] + self._members[second])
        for member in self._members[second]:
            self.group[member] = first

    def _groups(self, bits: int) -> set[int]:
        """The groups of the operations in a bit set."""
        groups = set()
        while bits:
            lowest = bits & -bits
            groups.add(self.group[lowest.bit_length() - 1])
            bits ^= lowest
        return groups

    def _predecessors(self, group: int) -> set[int]:
        """The groups that have to precede a group."""
        groups: set[int] = set()
        for member in self._members[group]:
            groups.update(self.group[n] for n in self.producers[member])
            groups.update(self.group[n] for n in self.ordered_after.get(member, ()))
        return groups - {group}

    def order(self) -> list[list[int]]:
        """The groups in a topological order that is close to program order."""
        done: set[int] = set()
        ordered: list[list[int]] = []
        for root in self.group:
            waiting = [root]
            while waiting:
                group = waiting[-1]
                pending = sorted(self._predecessors(group) - done)
                if group in done or not pending:
                    waiting.pop()
                    if group not in done:
                        ordered.append(self._members[group])
                        done.add(group)
                else:
                    waiting += reversed(pending)
        return ordered


def merge_with_producers(
    graph: DependenceGraph, candidates: Sequence[int], may_join: Callable[[list[int]], bool]
) -> None:
    """Merges each candidate with the groups of its producers where `may_join(members)` is true."""
    chosen = set(candidates)
    for op in candidates:
        for producer in sorted(graph.producers[op] & chosen):
            a, b = graph.group[producer], graph.group[op]
            if a == b or len(graph.members(a)) + len(graph.members(b)) > MAX_MEMBERS or not graph.may_merge(a, b):
                continue
            if may_join(sorted([*graph.members(a), *graph.members(b)])):
                graph.merge(a, b)
