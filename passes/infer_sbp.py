"""`oneflow-infer-sbp`: layout propagation (sharding propagation), from annotations on a few values to every call."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, NdSbp, broadcast, write_nd_sbp
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass, PassError
from oneflow.passes.decompose import replace
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import STRATEGIES
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.auto import choose_cheapest
from oneflow.passes.sbp.boxing import Boxing
from oneflow.passes.sbp.cost import Choice, Costs, Machine
from oneflow.passes.sbp.explain import explain
from oneflow.passes.sbp.graph import Graph, GraphReader, Node, operations_in
from oneflow.passes.sbp.greedy import choose_greedily
from oneflow.passes.sbp.placements import assign_placements
from oneflow.passes.sbp.sharded_decomposition import decomposable_operators, decompose_operators, operators_to_reshard
from oneflow.passes.sbp.submeshes import placements_of, read_submeshes
from oneflow.passes.sbp.view import Drawing, view
from oneflow.passes.structure import Function, Structure

#: Options that are divided by, and others that are numbers.
RATES, AMOUNTS = ("bandwidth", "compute"), ("latency", "memory", "time_limit")


@register_pass
@dataclass(frozen=True)
class InferSbp(Pass):
    """Gives every operator an SBP signature on the mesh of the program.

        func.func @f(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %w: tensor<4x4xf32>) {
          %0 = "oneflow.matmul"(%x, %w)
    becomes
        func.func @f(%x: .. {oneflow.nd_sbp = [#sbp.split<0>]}, %w: .. {oneflow.nd_sbp = [#sbp.broadcast]}) {
          %0 = "oneflow.matmul"(%x, %w) {oneflow.in_nd_sbp = [[#sbp.split<0>], [#sbp.broadcast]],
                                         oneflow.out_nd_sbp = [[#sbp.split<0>]]}

    The mesh is the module attribute `oneflow.mesh`, or the option `mesh=2,2`. Annotations of arguments, results and
    operators are kept, and `hierarchical_parallel_cast` states the layout of a value, as OneFlow's collectives do,
    which become such casts. With `strategy=greedy` other arguments are whole and operators are decided in program
    order, as OneFlow does by default; with `strategy=auto` the cheapest signatures of the whole function are found,
    those of arguments and results included: `bandwidth` (GB/s a device receives at), `latency` (microseconds a
    collective waits), `compute` (giga multiply-adds per second) and `memory` (gigabytes of a device for all tensors,
    0 for no limit) are the cost model, and `time-limit` is how many seconds the solver may take for a function.
    `explain` prints candidates, costs and choices on standard error; `view` names an HTML file that is written with a
    drawing of them.

    The module attribute `oneflow.placements` names parts of the mesh, each with a mesh of its own. Arguments lie on
    the one that their `oneflow.placement` says, a `hierarchical_parallel_cast` with `placement` takes a tensor there,
    and an operator has the placement of its operands. Values without annotation are on all ranks, and are moved where
    they are needed. Signatures are chosen for each placement by itself; the transfer of a tensor to another placement
    is counted at its source.
    """

    name: ClassVar[str] = "oneflow-infer-sbp"
    strategy: str = "greedy"
    mesh: tuple[str, ...] = ()
    explain: bool = False
    view: str = ""
    bandwidth: float = 10.0
    latency: float = 10.0
    compute: float = 1000.0
    memory: float = 0.0
    time_limit: float = 60.0

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Annotates arguments, results and operators.

        Raises:
            PassError: an option, the mesh, a shape or an annotation is not allowed, or memory does not suffice.
        """
        if self.strategy not in STRATEGIES:
            raise PassError(f"option strategy: expected one of {', '.join(STRATEGIES)}, got {self.strategy!r}")
        self._check_numbers()
        self._write_mesh(module.operation)
        submeshes = read_submeshes(module.operation)
        machine = Machine(self.bandwidth, self.latency, self.compute, self.memory)
        costs = [Costs(s.mesh, machine, Boxing(s.mesh)) for s in submeshes.values()]
        structure = Structure.of(module.operation)
        operations = {f.name: f.op for f in structure.functions.values()}
        readers = [GraphReader(s.mesh, registry, operations, submeshes, name) for name, s in submeshes.items()]
        drawings = []
        for function in callees_first(structure):
            _write_out_boxing(function, registry)
            assign_placements(function, submeshes, registry)
            for one, reader in zip(costs, readers, strict=True):
                graph, choice = self._infer(function, reader, one)
                write_choice(function, graph, choice, reader)
                if graph.nodes or len(submeshes) == 1:
                    drawings.append(Drawing(_title(function, reader), graph, choice, one))
                    self._explain(drawings[-1])
        if self.view:
            self._draw(drawings)

    def _check_numbers(self) -> None:
        """Checks the numbers of the cost model."""
        for name in (*RATES, *AMOUNTS):
            value, wanted = getattr(self, name), "above 0" if name in RATES else "of 0 or more"
            if not (value > 0 or (name in AMOUNTS and value == 0)):
                raise PassError(f"option {name.replace('_', '-')}: expected a number {wanted}, got {value}")

    def _explain(self, drawing: Drawing) -> None:
        if self.explain:
            print(explain(drawing.name, drawing.graph, drawing.choice, drawing.costs), file=sys.stderr)

    def _draw(self, drawings: Sequence[Drawing]) -> None:
        try:
            Path(self.view).write_text(view(drawings), encoding="utf-8")
        except OSError as error:
            raise PassError(f"option view: {error}") from None

    def _write_mesh(self, module: ir.Operation) -> None:
        """States the mesh that the option gives."""
        if self.mesh:
            text = ",".join(self.mesh)
            sizes = tuple(int(n) if n.isdigit() else 0 for n in self.mesh)
            notes.write_mesh(module, notes.check_mesh(sizes, f"the option mesh={text}"))

    def _infer(self, function: Function, reader: GraphReader, costs: Costs) -> tuple[Graph, Choice]:
        """The graph of a function, in which operators may have been written out, and its signatures."""
        end = time.monotonic() + self.time_limit
        graph = reader.read(function)
        choice = self._choose(function, graph, costs, end)
        while decomposable := self._operators_to_decompose(function, reader, costs, graph, choice, end):
            _decompose(function, decomposable, reader)
            graph = reader.read(function)
            choice = self._choose(function, graph, costs, end)
        return graph, choice

    def _operators_to_decompose(
        self, function: Function, reader: GraphReader, costs: Costs, graph: Graph, choice: Choice, end: float
    ) -> list[Node]:
        """The operators to decompose: with the greedy strategy those whose operands would have to be resharded."""
        if self.strategy == "greedy":
            return operators_to_reshard(graph, choice, reader.registry)
        nodes = decomposable_operators(graph, reader.registry)
        return nodes if nodes and self._is_cheaper_decomposed(function, reader, costs, graph, choice, end) else []

    def _is_cheaper_decomposed(
        self, function: Function, reader: GraphReader, costs: Costs, graph: Graph, choice: Choice, end: float
    ) -> bool:
        """Whether the decomposed operators cost less, in transfers and computation, than the operators themselves."""
        with function.op.location:
            copy = ir.Module.parse(function.op.parent.get_asm(assume_verified=True))
        twin = Structure.of(copy.operation).functions[function.name]
        other = reader.read(twin)
        while nodes := decomposable_operators(other, reader.registry):
            _decompose(twin, nodes, reader)
            other = reader.read(twin)
        return costs.total(other, self._choose(twin, other, costs, end)) < costs.total(graph, choice)

    def _choose(self, function: Function, graph: Graph, costs: Costs, end: float) -> Choice:
        greedy = choose_greedily(graph, costs.mesh)
        if self.strategy == "greedy":
            return greedy
        cheapest = choose_cheapest(graph, costs, greedy, max(0.0, end - time.monotonic()))
        if cheapest is None:
            raise PassError(
                f"@{function.name}: no choice of signatures was found whose tensors fit in memory={self.memory} GB"
                f" on each device (greedily chosen ones need {costs.memory(graph, greedy) / 1e9:.3g} GB);"
                " raise memory or time-limit, or use a larger mesh",
                function.op.location,
            )
        return cheapest


def _decompose(function: Function, nodes: list[Node], reader: GraphReader) -> None:
    """Decomposes operators; the new operators get the placement of the old ones."""
    decompose_operators(nodes, reader.registry)
    if len(reader.submeshes) > 1:
        assign_placements(function, reader.submeshes, reader.registry)


def _write_out_boxing(function: Function, registry: Registry) -> None:
    """Writes out the operators that change layouts as the casts that state these layouts."""
    for op in operations_in(function):
        record = dialect.record_of(op, registry) if dialect.is_oneflow(op) else None
        if record is not None and record.decompose is not None and "boxing" in record.traits:
            replace(op, record.decompose, registry)


def _title(function: Function, reader: GraphReader) -> str:
    """What a drawing shows: a function, and on which placement where there are several."""
    return function.name if len(reader.submeshes) == 1 else f"{function.name}, {reader.submeshes[reader.place]},"


def callees_first(structure: Structure) -> Iterator[Function]:
    """The functions of a program, each after those it calls."""
    done: set[str] = set()

    def visit(function: Function) -> Iterator[Function]:
        if function.name in done:
            return
        done.add(function.name)
        for call in function.calls:
            if call.callee in structure.functions:
                yield from visit(structure.functions[call.callee])
        yield function

    for function in structure.functions.values():
        yield from visit(function)


def write_choice(function: Function, graph: Graph, choice: Choice, reader: GraphReader) -> None:
    """Annotates a function, and its operators, with what was chosen on a placement."""
    arguments: list[NdSbp] = []
    results: list[NdSbp] = []
    for node in graph.nodes:
        signature = choice[node]
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
    _annotate(function, notes.ARGUMENTS, function.inputs, arguments, reader)
    _annotate(function, notes.RESULTS, function.results, results, reader)


def _annotate(
    function: Function, name: str, types: Sequence[ir.Type], layouts: Sequence[NdSbp], reader: GraphReader
) -> None:
    """States the layouts of arguments or results on a placement.

    Arguments and results of a declaration that have no layout are repeated.
    """
    rest = iter(layouts)
    stated = notes.read_values(function.op, name, len(types))
    places = placements_of(function.op, name, len(types))
    nds = [
        _layout(t, old, rest, reader.mesh) if place == reader.place else old
        for t, old, place in zip(types, stated, places, strict=True)
    ]
    attributes = [{} if nd is None else {notes.ND_SBP: write_nd_sbp(nd)} for nd in nds]
    notes.annotate_values(function.op, name, len(types), attributes.__getitem__)


def _layout(kind: ir.Type, stated: NdSbp | None, rest: Iterator[NdSbp], mesh: Mesh) -> NdSbp | None:
    return next(rest, stated or broadcast(mesh)) if notes.is_tensor(kind) else None
