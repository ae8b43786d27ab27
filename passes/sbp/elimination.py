"""The cheapest signatures of large graphs: nodes are eliminated one after the other, as OneFlow's planner does.

A node with at most two neighbours is replaced by a table between them: for each pair of their signatures, the cost of
the node's best signature. The elimination is exact, and removes chains, branches and ladders (forward next to
backward) entirely. If every node has more neighbours, the node with most neighbours is fixed at its present
signature. A tensor that several nodes want in one layout is transferred once, which tables of two nodes cannot
express: each use pays the whole cost or a share, and further passes count only the transfers that the last pass did
not make.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from oneflow.dialect.nd_sbp import NdSbp, NdSignature
from oneflow.passes.sbp.cost import Assignment, Costs
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpNode

Table = np.ndarray
MAX_PASSES = 3
#: How the price of a byte of memory rises until the tensors fit: microseconds per byte.
MEMORY_PRICES = (0.0, *(1e-7 * 4.0**k for k in range(12)))


def choose_by_elimination(graph: SbpGraph, costs: Costs, start: Assignment) -> dict[SbpNode, NdSignature] | None:
    """Cheap signatures for a graph: the best of several passes; None where none fits in memory.

    Args:
        graph: the nodes with their candidates.
        costs: the cost model.
        start: an initial assignment; the result is never worse if the initial assignment fits.
    """
    fitting = [dict(start)] if costs.fits(graph, start) else []
    for price in MEMORY_PRICES if costs.machine.memory else MEMORY_PRICES[:1]:
        passes = list(_passes(graph, costs, start, price))
        fitting += [c for c in passes if costs.fits(graph, c)]
        if any(costs.fits(graph, c) for c in passes):
            break
    return min(fitting, key=lambda c: costs.total(graph, c)) if fitting else None


def _passes(graph: SbpGraph, costs: Costs, start: Assignment, price: float) -> Iterator[dict[SbpNode, NdSignature]]:
    """Assignments in which each use pays its whole transfer, then an equal share; further passes improve each."""
    tables = _Tables(costs, price)
    start_candidates: Assignment = {
        n: s if s in n.candidates.signatures else n.candidates.signatures[-1] for n, s in start.items()
    }
    for first in (_full_share, _equal_share):
        current, shares = start_candidates, first
        for _ in range(MAX_PASSES):
            chosen = _Elimination(graph, tables, current, shares).run()
            yield chosen
            if chosen == current:
                break
            current, shares = chosen, _marginal_share


#: The share of a tensor's transfer cost that each use pays, by signature of the using node, after an assignment.
Shares = Callable[[LogicalTensor, Assignment], "list[Table]"]


def _full_share(tensor: LogicalTensor, current: Assignment) -> list[Table]:
    return [np.ones(1)] * len(tensor.uses)


def _equal_share(tensor: LogicalTensor, current: Assignment) -> list[Table]:
    return [np.full(1, 1 / len(tensor.uses)) for _ in tensor.uses]


def _marginal_share(tensor: LogicalTensor, current: Assignment) -> list[Table]:
    """The full cost where no other use makes the same transfer, else nothing."""
    transfers = Counter(current[node].inputs[index] for node, index in tensor.uses)
    tables = []
    for node, index in tensor.uses:
        own, layouts = current[node].inputs[index], [s.inputs[index] for s in node.candidates.signatures]
        tables.append(np.array([transfers[layout] == (layout == own) for layout in layouts]))
    return tables


@dataclass
class _Tables:
    """The costs of nodes and of transfers between two nodes, as arrays over their signatures."""

    costs: Costs
    price: float
    _nodes: dict[int, Table] = field(default_factory=dict)
    _edges: dict[tuple[object, ...], Table] = field(default_factory=dict)

    def node_cost(self, node: SbpNode) -> Table:
        """The cost of a node and of storing its results, by signature."""
        key = id(node.candidates)
        if key not in self._nodes:
            signatures = node.candidates.signatures
            self._nodes[key] = np.array(
                [self.costs.node_cost(node, s) + self.price * self.costs.bytes_stored(node, s) for s in signatures]
            )
        return self._nodes[key]

    def edge_cost(self, tensor: LogicalTensor, node: SbpNode, index: int) -> Table:
        """The cost of moving a tensor, by signature of its producer and of its user."""
        produced, wanted = tensor.producer.candidates, node.candidates
        key = (id(produced), tensor.result_index, id(wanted), index, tensor.shape, tensor.width)
        if key not in self._edges:
            sources, rows = _index_distinct([s.outputs[tensor.result_index] for s in produced.signatures])
            targets, columns = _index_distinct([s.inputs[index] for s in wanted.signatures])
            cost = np.array(
                [[self.costs.transfer(tensor, s, t) if s != t else 0.0 for t in targets] for s in sources]
            )
            self._edges[key] = cost[np.ix_(rows, columns)]
        return self._edges[key]


def _index_distinct(layouts: list[NdSbp]) -> tuple[list[NdSbp], list[int]]:
    """The distinct layouts, and the index of each layout among them."""
    distinct = list(dict.fromkeys(layouts))
    index = {nd: i for i, nd in enumerate(distinct)}
    return distinct, [index[nd] for nd in layouts]


class _Elimination:
    """One pass over a graph: its nodes are eliminated one after the other."""

    def __init__(self, graph: SbpGraph, tables: _Tables, current: Assignment, shares: Shares) -> None:
        self.nodes = graph.nodes
        self.index = {node: i for i, node in enumerate(self.nodes)}
        self.fixed = [n.candidates.signatures.index(current[n]) for n in self.nodes]
        self.node_costs = [tables.node_cost(n) for n in self.nodes]
        self.neighbours: list[dict[int, Table]] = [{} for _ in self.nodes]
        for tensor in dict.fromkeys(graph.tensors.values()):
            for use, share in zip(tensor.uses, shares(tensor, current), strict=True):
                cost = tables.edge_cost(tensor, *use) * share
                self._join(self.index[tensor.producer], self.index[use[0]], cost)

    def _join(self, a: int, b: int, cost: Table) -> None:
        """Adds a table between two nodes."""
        total = cost + self.neighbours[a][b] if b in self.neighbours[a] else cost
        self.neighbours[a][b], self.neighbours[b][a] = total, total.T

    def run(self) -> dict[SbpNode, NdSignature]:
        """Eliminates all nodes, then back-substitutes from the last to the first."""
        order = [(self._degree(i), i) for i in range(len(self.nodes))]
        heapq.heapify(order)
        steps: dict[int, tuple[list[int], Table]] = {}
        while order:
            degree, i = heapq.heappop(order)
            if i in steps or degree != self._degree(i):
                continue
            if degree > 2:
                heapq.heappush(order, (degree, i))
                i = max((n for n in range(len(self.nodes)) if n not in steps), key=self._degree)
            neighbours = list(self.neighbours[i])
            fixed = degree > 2 or len(neighbours) > 2
            steps[i] = ([], self._fix(i)) if fixed else (neighbours, self._eliminate(i))
            for n in neighbours:
                heapq.heappush(order, (self._degree(n), n))
        return self._back_substitute(steps)

    def _degree(self, i: int) -> int:
        """The number of neighbours of a node; 0 where the node has a single signature."""
        return len(self.neighbours[i]) if len(self.node_costs[i]) > 1 else 0

    def _eliminate(self, i: int) -> Table:
        """Replaces a node by a table between its neighbours; returns the node's best signature for each pair of
        theirs.
        """
        neighbours = self._remove(i)
        cost = self.node_costs[i]
        for _, table in neighbours:
            cost = cost[..., None] + np.expand_dims(table, tuple(range(1, cost.ndim)))
        best: Table = cost.argmin(axis=0)
        least = cost.min(axis=0)
        if len(neighbours) == 1:
            n = neighbours[0][0]
            self.node_costs[n] = self.node_costs[n] + least
        elif neighbours:
            self._join(neighbours[0][0], neighbours[1][0], least)
        return best

    def _fix(self, i: int) -> Table:
        """Fixes a node at its present signature."""
        for n, table in self._remove(i):
            self.node_costs[n] = self.node_costs[n] + table[self.fixed[i]]
        return np.array(self.fixed[i])

    def _remove(self, i: int) -> list[tuple[int, Table]]:
        """Removes a node from the graph; returns its neighbours with their tables."""
        neighbours = list(self.neighbours[i].items())
        for n, _ in neighbours:
            del self.neighbours[n][i]
        self.neighbours[i] = {}
        return neighbours

    def _back_substitute(self, steps: Mapping[int, tuple[list[int], Table]]) -> dict[SbpNode, NdSignature]:
        chosen: dict[int, int] = {}
        for i, (neighbours, best) in reversed(list(steps.items())):
            chosen[i] = int(best[tuple(chosen[n] for n in neighbours)])
        return {node: node.candidates.signatures[chosen[i]] for i, node in enumerate(self.nodes)}
