"""The automatic strategy: the cheapest signatures of a whole graph, by an integer program (ILP) or elimination.

Elimination of nodes (`elimination`) gives an assignment in linear time; graphs of moderate size are solved by integer
programming, which is exact.

A variable states that a node has a signature; one variable for every tensor, use and pair of layouts says that the
tensor is transferred from one layout to the other for that use. Sums of the latter equal the former, so that the
relaxation is tight; a tensor that several nodes read in one layout is moved once. SciPy's HiGHS solves it; without
SciPy the assignment by elimination stays.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneflow.dialect._scipy import scipy
from oneflow.dialect.nd_sbp import NdSbp, NdSignature
from oneflow.passes.sbp.cost import Assignment, Costs, OutOfTime
from oneflow.passes.sbp.elimination import choose_by_elimination
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpNode

#: The most variables for transfers in a program that the solver accepts.
MAX_MOVES = 20_000
#: The least time, in seconds, for computing the costs that elimination needs.
MIN_COST_SECONDS = 2.0
#: The relative rounding error of the solver's cost.
TINY = 1e-9


@dataclass
class _Program:
    """A linear program under construction: costs of variables, and rows `low <= sum(a * x) <= high`."""

    costs: list[float] = field(default_factory=list)
    integral: list[int] = field(default_factory=list)
    rows: list[tuple[float, float]] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)

    def variable(self, cost: float, integral: bool = False) -> int:
        self.costs.append(cost)
        self.integral.append(int(integral))
        return len(self.costs) - 1

    def row(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        self.entries += [(len(self.rows), column, value) for column, value in terms]
        self.rows.append((low, high))

    def solve(self, seconds: float) -> np.ndarray | None:
        """The values of the variables; None where the problem has no solution, or time ran out before a solution was
        found.
        """
        rows, columns, values = zip(*self.entries, strict=True)
        matrix = scipy.sparse.csr_array((values, (rows, columns)), shape=(len(self.rows), len(self.costs)))
        low, high = np.array(self.rows).T
        result = scipy.optimize.milp(
            np.array(self.costs),
            integrality=np.array(self.integral),
            bounds=scipy.optimize.Bounds(0, 1),
            constraints=scipy.optimize.LinearConstraint(matrix, low, high),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        solution: np.ndarray | None = result.x
        return solution


def choose_cheapest(
    graph: SbpGraph, costs: Costs, greedy: Assignment, seconds: float, min_seconds: float = MIN_COST_SECONDS
) -> dict[SbpNode, NdSignature] | None:
    """The cheapest signatures for a graph; None where no assignment fits in memory.

    Args:
        graph: the nodes with their candidates.
        costs: the cost model.
        greedy: an assignment to fall back to: the result is never worse.
        seconds: how long the solver may search; then the best assignment so far is taken. Costs of
            transfers are computed for at most as long, or `min_seconds`; where that does not do, the greedy
            assignment is taken.
        min_seconds: the least time for computing the costs that elimination needs.
    """
    start = dict(greedy) if costs.fits(graph, greedy) else None
    if not graph.nodes:
        return start
    costs.until = time.process_time() + max(seconds, min_seconds)
    try:
        solution = _solved(graph, costs, seconds)
        if solution is None or not costs.fits(graph, solution):
            solution = choose_by_elimination(graph, costs, greedy)
    except OutOfTime:
        solution = None
    finally:
        costs.until = math.inf
    if solution is None:
        return start
    if start is not None and costs.total(graph, start) <= costs.total(graph, solution) * (1 + TINY):
        return start
    return solution


def _solved(graph: SbpGraph, costs: Costs, seconds: float) -> dict[SbpNode, NdSignature] | None:
    """The solver's assignment; None where the program is too large for the solver, or SciPy is not installed."""
    if _count_moves(graph) > MAX_MOVES:
        return None
    try:
        return _solve(graph, costs, seconds)
    except ImportError as error:
        warnings.warn(f"layouts are chosen by elimination, which may not be the cheapest: {error}", stacklevel=3)
        return None


def _count_moves(graph: SbpGraph) -> int:
    """How many variables the moves of all tensors would be."""
    uses = ((t.producer, node) for t in dict.fromkeys(graph.tensors.values()) for node, _ in t.uses)
    return sum(len(producer.candidates.signatures) * len(node.candidates.signatures) for producer, node in uses)


def _solve(graph: SbpGraph, costs: Costs, seconds: float) -> dict[SbpNode, NdSignature] | None:
    program = _Program()
    chosen = {
        n: [program.variable(costs.node_cost(n, s), True) for s in n.candidates.signatures] for n in graph.nodes
    }
    for columns in chosen.values():
        program.row([(c, 1.0) for c in columns], 1, 1)
    for tensor in dict.fromkeys(graph.tensors.values()):
        _add_transfers(program, tensor, costs, chosen)
    if costs.machine.memory:
        _add_memory(program, costs, chosen)
    values = program.solve(seconds)
    if values is None:
        return None
    return {n: n.candidates.signatures[int(np.argmax(values[columns]))] for n, columns in chosen.items()}


def _add_transfers(program: _Program, tensor: LogicalTensor, costs: Costs, chosen: dict[SbpNode, list[int]]) -> None:
    """Variables for the transfers of a tensor to every use; uses with one layout share the cost."""
    producer = tensor.producer
    sources = _by_layout([s.outputs[tensor.result_index] for s in producer.candidates.signatures], chosen[producer])
    shared: dict[tuple[NdSbp, NdSbp], int] = {}
    for node, index in tensor.uses:
        targets = _by_layout([s.inputs[index] for s in node.candidates.signatures], chosen[node])
        moves = {(s, t): program.variable(0.0) for s in sources for t in targets}
        for layout, columns in sources.items():
            _equal(program, [v for (s, _), v in moves.items() if s == layout], columns)
        for layout, columns in targets.items():
            _equal(program, [v for (_, t), v in moves.items() if t == layout], columns)
        for pair, move in moves.items():
            cost = costs.transfer(tensor, *pair)
            if cost:
                if pair not in shared:
                    shared[pair] = program.variable(cost)
                program.row([(shared[pair], 1.0), (move, -1.0)], 0, np.inf)


def _by_layout(layouts: Sequence[NdSbp], columns: Sequence[int]) -> dict[NdSbp, list[int]]:
    by_layout: dict[NdSbp, list[int]] = {}
    for layout, column in zip(layouts, columns, strict=True):
        by_layout.setdefault(layout, []).append(column)
    return by_layout


def _equal(program: _Program, moves: Sequence[int], columns: Sequence[int]) -> None:
    program.row([*((m, 1.0) for m in moves), *((c, -1.0) for c in columns)], 0, 0)


def _add_memory(program: _Program, costs: Costs, chosen: dict[SbpNode, list[int]]) -> None:
    limit = costs.machine.memory * 1e9
    terms = [
        (column, costs.bytes_stored(node, s) / limit)
        for node, columns in chosen.items()
        for column, s in zip(columns, node.candidates.signatures, strict=True)
    ]
    program.row(terms, 0, 1)
