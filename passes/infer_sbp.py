"""`oneflow-infer-sbp`: layout propagation (sharding propagation), from annotations on a few values to every call.

Data parallelism, tensor parallelism and ZeRO are annotations of batches, parameters and states of optimizers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass, PassError
from oneflow.passes.decompose import replace
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import STRATEGIES
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.boxing import Boxing
from oneflow.passes.sbp.cost import Assignment, Costs, Machine
from oneflow.passes.sbp.explain import explain
from oneflow.passes.sbp.graph import SbpGraph, SbpGraphBuilder, operations_in
from oneflow.passes.sbp.inference import Inference
from oneflow.passes.sbp.interconnects import interconnect, interconnect_named
from oneflow.passes.sbp.placements import assign_placements
from oneflow.passes.sbp.submeshes import read_submeshes
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
    operators are kept. `hierarchical_parallel_cast` states the layout of a value; OneFlow's collectives become such
    casts. With `strategy=greedy` other arguments are broadcast and signatures are chosen in program order, as in
    OneFlow by default; `strategy=auto` finds the cheapest signatures of the whole function, including the layouts of
    arguments and results. The cost model has the parameters `bandwidth` (GB/s that a device receives) and `latency`
    (microseconds of a collective), by default of the `interconnect` (`ethernet`, `infiniband`, `pcie` or `nvlink`),
    `compute` (giga multiply-adds per second) and `memory` (gigabytes of a device for all tensors, 0 for no limit);
    `time-limit` is the solver's limit in seconds for a function. `explain` prints candidates, costs and assignments
    on standard error; `view` names an HTML file for a drawing of the assignments.

    The module attribute `oneflow.placements` names parts of the mesh, each with a separate mesh. The attribute
    `oneflow.placement` names the placement of an argument, a `hierarchical_parallel_cast` with `placement` moves a
    tensor, and an operator has the placement of the operands. Values without annotation are on all ranks, and are
    moved to the ranks of the users. Signatures are chosen for each placement separately; the cost of a transfer to
    another placement is counted at the source placement.

    A function that is the body of an operator is copied for each combination of layouts in which operators run the
    function (`sbp/bodies.py`).
    """

    name: ClassVar[str] = "oneflow-infer-sbp"
    strategy: str = "greedy"
    mesh: tuple[str, ...] = ()
    explain: bool = False
    view: str = ""
    interconnect: str = ""
    bandwidth: float | None = None
    latency: float | None = None
    compute: float = Machine.compute
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
        machine = self._machine()
        costs = [Costs(s.mesh, machine, Boxing(s.mesh)) for s in submeshes.values()]
        structure = Structure.of(module.operation)
        operations = {f.name: f.op for f in structure.functions.values()}
        graph_builders = [
            SbpGraphBuilder(s.mesh, registry, operations, submeshes, name) for name, s in submeshes.items()
        ]
        drawings: list[Drawing] = []
        inferences = [
            Inference(
                self.strategy,
                self.time_limit,
                structure,
                graph_builder,
                cost,
                self._watch(drawings, graph_builder, cost),
            )
            for cost, graph_builder in zip(costs, graph_builders, strict=True)
        ]
        bodies = [f for f in structure.functions.values() if _is_only_body(structure, f)]
        for function in structure.functions.values():
            _write_out_boxing(function, registry)
        for function in callees_first(structure):
            if function not in bodies:
                assign_placements(function, submeshes, registry)
                for inference in inferences:
                    inference.run(function)
        for function in bodies:
            function.op.erase()
        if self.view:
            self._draw(drawings)

    def _machine(self) -> Machine:
        """The machine of the cost model."""
        try:
            links = interconnect_named(self.interconnect) if self.interconnect else interconnect()
        except ValueError as error:
            raise PassError(f"option interconnect: {error}") from None
        bandwidth = links.bandwidth if self.bandwidth is None else self.bandwidth
        latency = links.latency if self.latency is None else self.latency
        return Machine(bandwidth, latency, self.compute, self.memory)

    def _watch(
        self, drawings: list[Drawing], graph_builder: SbpGraphBuilder, costs: Costs
    ) -> Callable[[Function, SbpGraph, Assignment], None]:
        """Notes, and explains, the functions that are inferred on a placement."""

        def watch(function: Function, graph: SbpGraph, assignment: Assignment) -> None:
            if graph.nodes or len(graph_builder.submeshes) == 1:
                drawings.append(Drawing(_title(function, graph_builder), graph, assignment, costs))
                self._explain(drawings[-1])

        return watch

    def _check_numbers(self) -> None:
        """Checks the numbers of the cost model."""
        for name in (*RATES, *AMOUNTS):
            value, wanted = getattr(self, name), "above 0" if name in RATES else "of 0 or more"
            if value is not None and not (value > 0 or (name in AMOUNTS and value == 0)):
                raise PassError(f"option {name.replace('_', '-')}: expected a number {wanted}, got {value}")

    def _explain(self, drawing: Drawing) -> None:
        if self.explain:
            print(explain(drawing.name, drawing.graph, drawing.assignment, drawing.costs), file=sys.stderr)

    def _draw(self, drawings: Sequence[Drawing]) -> None:
        try:
            Path(self.view).write_text(view(drawings), encoding="utf-8")
        except OSError as error:
            raise PassError(f"option view: {error}") from None

    def _write_mesh(self, module: ir.Operation) -> None:
        """Sets the mesh of the option on the module."""
        if self.mesh:
            text = ",".join(self.mesh)
            sizes = tuple(int(n) if n.isdigit() else 0 for n in self.mesh)
            notes.write_mesh(module, notes.check_mesh(sizes, f"the option mesh={text}"))


def _write_out_boxing(function: Function, registry: Registry) -> None:
    """Writes out the operators that change layouts as the casts that state these layouts."""
    for op in operations_in(function):
        record = dialect.record_of(op, registry) if dialect.is_oneflow(op) else None
        if record is not None and record.decompose is not None and "boxing" in record.traits:
            replace(op, record.decompose, registry)


def _title(function: Function, graph_builder: SbpGraphBuilder) -> str:
    """The title of a drawing: the function, and the placement if there are several."""
    return (
        function.name
        if len(graph_builder.submeshes) == 1
        else f"{function.name}, {graph_builder.submeshes[graph_builder.placement]},"
    )


def callees_first(structure: Structure) -> Iterator[Function]:
    """The functions of a program, callees before callers."""
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


def _is_only_body(structure: Structure, function: Function) -> bool:
    """Whether only operators use a function, so that the function can be copied for the layouts of operands."""
    used = structure.body_uses_of(function) and not structure.calls_of(function)
    return bool(used) and not function.is_public and function.name not in structure.referenced
