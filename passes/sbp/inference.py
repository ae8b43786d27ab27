"""Inference of functions on one placement: signatures for every operator, and for the bodies that operators run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, NdSbp, broadcast, write_nd_sbp
from oneflow.passes.base import PassError
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.auto import choose_cheapest
from oneflow.passes.sbp.bodies import Bodies
from oneflow.passes.sbp.cost import Assignment, Costs
from oneflow.passes.sbp.graph import SbpGraph, SbpGraphBuilder, SbpNode, operations_in
from oneflow.passes.sbp.greedy import choose_greedily
from oneflow.passes.sbp.placements import assign_placements
from oneflow.passes.sbp.sharded_decomposition import decomposable_operators, decompose_operators, operators_to_reshard
from oneflow.passes.sbp.submeshes import crosses, placement_of, placements_of
from oneflow.passes.structure import Function, Structure, program_of


@dataclass
class Inference:
    """Infers the functions of a program on the placement of `graph_builder`.

    Attributes:
        strategy: "greedy" or "auto".
        time_limit: how many seconds the solver may take for a function.
        structure: the program.
        graph_builder, costs: of the placement.
        watch: is called with each function that has been inferred.
    """

    strategy: str
    time_limit: float
    structure: Structure
    graph_builder: SbpGraphBuilder
    costs: Costs
    watch: Callable[[Function, SbpGraph, Assignment], None]
    bodies: Bodies = field(init=False)

    def __post_init__(self) -> None:
        self.bodies = Bodies(self.structure, self.graph_builder, self.costs, self._infer_body, self._write)

    def run(self, function: Function) -> None:
        """Annotates a function, and its operators, on the placement.

        Raises:
            PassError: an annotation or a shape is not allowed, or memory does not suffice.
        """
        self._write(function, *self._infer(function))

    def _write(self, function: Function, graph: SbpGraph, assignment: Assignment) -> None:
        self.bodies.write_bodies(graph, assignment)
        write_assignment(function, graph, assignment, self.graph_builder)
        self.watch(function, graph, assignment)

    def _infer_body(self, function: Function) -> tuple[SbpGraph, Assignment]:
        """The graph and the signatures of a copy of a body, all of which is on this placement.

        Raises:
            PassError: a part of it is on another placement.
        """
        assign_placements(function, self.graph_builder.submeshes, self.graph_builder.registry)
        elsewhere = next((op for op in operations_in(function) if crosses(op)), None)
        if elsewhere is not None:
            placement, other_placement = (
                self.graph_builder.submeshes[p] for p in (self.graph_builder.placement, placement_of(elsewhere))
            )
            raise PassError(
                f"{elsewhere.name}: expected bodies on one placement, {placement}, "
                f"got a cast to {other_placement}; move the tensor"
                " before or after",
                elsewhere.location,
            )
        return self._infer(function)

    def _infer(self, function: Function) -> tuple[SbpGraph, Assignment]:
        """The graph of a function, in which operators may have been decomposed, and its signatures."""
        end = time.monotonic() + self.time_limit
        graph, assignment = self._solve(function, end)
        while decomposable := self._operators_to_decompose(function, graph, assignment, end):
            self._decompose(function, decomposable)
            graph, assignment = self._solve(function, end)
        return graph, assignment

    def _solve(self, function: Function, end: float) -> tuple[SbpGraph, Assignment]:
        """The graph of a function as it is, and its signatures.

        The signatures of operators with bodies, and the signatures in these bodies, are chosen alternately.
        """
        graph = self.graph_builder.build(function)
        assignment = self._choose(function, graph, end)
        while self.bodies.add_signature(graph, assignment, replaces=self.strategy == "greedy"):
            assignment = self._choose(function, graph, end)
        return graph, assignment

    def _operators_to_decompose(
        self, function: Function, graph: SbpGraph, assignment: Assignment, end: float
    ) -> list[SbpNode]:
        """The operators to decompose: with the greedy strategy, operators whose operands would be resharded."""
        registry = self.graph_builder.registry
        if self.strategy == "greedy":
            return operators_to_reshard(graph, assignment, registry)
        nodes = decomposable_operators(graph, registry)
        return nodes if nodes and self._is_cheaper_decomposed(function, graph, assignment, end) else []

    def _is_cheaper_decomposed(self, function: Function, graph: SbpGraph, assignment: Assignment, end: float) -> bool:
        """Whether the decomposed operators cost less, in transfers and computation, than the operators themselves."""
        with function.op.location:
            copy = ir.Module.parse(program_of(function.op).get_asm(assume_verified=True))
        twin = Structure.of(copy.operation).functions[function.name]
        other = self.graph_builder.build(twin)
        while nodes := decomposable_operators(other, self.graph_builder.registry):
            self._decompose(twin, nodes)
            other = self.graph_builder.build(twin)
        chosen = self._choose(twin, other, end)
        return self.costs.total(other, chosen) < self.costs.total(graph, assignment)

    def _decompose(self, function: Function, nodes: list[SbpNode]) -> None:
        """Decomposes operators; the new operators get the placement of the old ones."""
        decompose_operators(nodes, self.graph_builder.registry)
        if len(self.graph_builder.submeshes) > 1:
            assign_placements(function, self.graph_builder.submeshes, self.graph_builder.registry)

    def _choose(self, function: Function, graph: SbpGraph, end: float) -> Assignment:
        greedy = choose_greedily(graph, self.costs.mesh)
        if self.strategy == "greedy":
            return greedy
        cheapest = choose_cheapest(graph, self.costs, greedy, max(0.0, end - time.monotonic()))
        if cheapest is None:
            raise PassError(
                f"@{function.name}: no assignment of signatures was found whose tensors fit in"
                f" memory={self.costs.machine.memory} GB on each device (greedily chosen ones need"
                f" {self.costs.memory(graph, greedy) / 1e9:.3g} GB); raise memory or time-limit, or use a"
                " larger mesh",
                function.op.location,
            )
        return cheapest


def write_assignment(
    function: Function, graph: SbpGraph, assignment: Assignment, graph_builder: SbpGraphBuilder
) -> None:
    """Annotates a function, and its operators, with what was chosen on a placement."""
    arguments: list[NdSbp] = []
    results: list[NdSbp] = []
    for node in graph.nodes:
        signature = assignment[node]
        if node.role == "argument":
            arguments += signature.outputs
        elif node.role == "result" and node.op == function.returns[0]:
            results += signature.inputs
        elif node.role == "operator":
            notes.write_operation(node.op, signature.inputs, signature.outputs)
        elif node.role == "sent":
            notes.write_side(node.op, notes.IN, signature.inputs)
        elif node.role == "received":
            notes.write_side(node.op, notes.OUT, signature.outputs)
    _annotate(function, notes.ARGUMENTS, function.inputs, arguments, graph_builder)
    _annotate(function, notes.RESULTS, function.results, results, graph_builder)


def _annotate(
    function: Function, name: str, types: Sequence[ir.Type], layouts: Sequence[NdSbp], graph_builder: SbpGraphBuilder
) -> None:
    """States the layouts of arguments or results on a placement.

    Arguments and results of a declaration that have no layout are replicated.
    """
    rest = iter(layouts)
    stated = notes.read_values(function.op, name, len(types))
    placements = placements_of(function.op, name, len(types))
    nds = [
        _layout(t, old, rest, graph_builder.mesh) if placement == graph_builder.placement else old
        for t, old, placement in zip(types, stated, placements, strict=True)
    ]
    attributes = [{} if nd is None else {notes.ND_SBP: write_nd_sbp(nd)} for nd in nds]
    notes.annotate_values(function.op, name, len(types), attributes.__getitem__)


def _layout(kind: ir.Type, stated: NdSbp | None, rest: Iterator[NdSbp], mesh: Mesh) -> NdSbp | None:
    return next(rest, stated or broadcast(mesh)) if notes.is_tensor(kind) else None
