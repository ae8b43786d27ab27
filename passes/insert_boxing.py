"""`oneflow-insert-boxing`: casts between the layouts of results and operands, which become collectives.

`sbp/boxing.py` chooses the steps of a cast (all-reduce, all-gather, reduce-scatter, all-to-all), and `to_physical.py`
replaces each cast by the operator of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir, tensor
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.boxing import Boxing, BoxingError, BoxingStep
from oneflow.passes.sbp.graph import operations_in, width_of
from oneflow.passes.sbp.layouts import Layouts
from oneflow.passes.sbp.submeshes import crosses, read_submeshes, write_placement
from oneflow.passes.structure import Function, Structure


@register_pass
@dataclass(frozen=True)
class InsertBoxing(Pass):
    """Casts every operand to the layout that its operator requires, one collective or local operation per cast.

        %0 = "oneflow.matmul"(%x, %w) {.., oneflow.out_nd_sbp = [[#sbp.partial_sum]]}
        %1 = "oneflow.relu"(%0) {oneflow.in_nd_sbp = [[#sbp.broadcast]], ..}
    becomes
        %0 = "oneflow.matmul"(%x, %w) {.., oneflow.out_nd_sbp = [[#sbp.partial_sum]]}
        %1 = "oneflow.hierarchical_parallel_cast"(%0) {nd_sbp = [#sbp.broadcast], ..}
        %2 = "oneflow.relu"(%1) {oneflow.in_nd_sbp = [[#sbp.broadcast]], ..}

    The path that moves the fewest bytes is chosen, from the layout of the producer or of an earlier cast.
    """

    name: ClassVar[str] = "oneflow-insert-boxing"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Inserts casts, and writes present casts as steps.

        Raises:
            PassError: the program is not annotated, or has shapes that are not static.
        """
        submeshes, structure = read_submeshes(module.operation), Structure.of(module.operation)
        boxing = {name: Boxing(s.mesh) for name, s in submeshes.items()}
        operations = {f.name: f.op for f in structure.functions.values()}
        for function in structure.functions.values():
            if not function.is_declaration:
                _Boxer(function, boxing, Layouts(submeshes, registry, operations)).run()


class _Boxer:
    """Boxes the operands of one function's operations in program order."""

    def __init__(self, function: Function, boxing: Mapping[str, Boxing], layouts: Layouts) -> None:
        self.function, self.boxing, self.layouts = function, boxing, layouts
        self.versions: dict[tuple[ir.Block, ir.Value], dict[NdSbp, ir.Value]] = {}

    def run(self) -> None:
        self.layouts.add_arguments(self.function)
        for op in operations_in(self.function):
            self._visit(op)

    def _visit(self, op: ir.Operation) -> None:
        if op.name == notes.PARALLEL_CAST and not crosses(op):
            self._replace(op)
            return
        if not self.layouts.is_relaxing_cast(op):
            for index, nd in enumerate(self.layouts.operand_layouts(self.function, op)):
                if nd is not None and self.layouts.values[op.operands[index]] != nd:
                    self._box_operand(op, index, nd)
        self.layouts.add_results(op)

    def _replace(self, op: ir.Operation) -> None:
        """Writes a cast of the program as steps."""
        (nd,) = self.layouts.result_layouts(op)
        assert nd is not None
        boxed = self._box(op, self._source(op.operands[0]), nd)
        op.results[0].replace_all_uses_with(boxed)
        op.erase()

    def _box_operand(self, op: ir.Operation, index: int, nd: NdSbp) -> None:
        value = op.operands[index]
        boxed = self._box(op, self._source(value), nd)
        if boxed.type != value.type:
            with op.location:
                boxed = tensor.CastOp(value.type, boxed, ip=ir.InsertionPoint(op)).result
                self.layouts.add_results(boxed.owner)
        op.operands[index] = boxed

    def _source(self, value: ir.Value) -> ir.Value:
        """The tensor before casts to less specific types."""
        while not isinstance(value.owner, ir.Block) and self.layouts.is_relaxing_cast(value.owner):
            value = value.owner.operands[0]
        return value

    def _box(self, op: ir.Operation, value: ir.Value, target: NdSbp) -> ir.Value:
        """`value` in the layout `target`, before `op`; earlier casts of the value are reused where these are
        visible.
        """
        versions = self.versions.setdefault((op.block, value), {self.layouts.values[value]: value})
        if target not in versions:
            steps = min((self._path(op, value, nd, target) for nd in versions), key=_effort)
            start = versions[steps[0].source]
            for step in steps:
                start = self._cast(op, start, step)
                versions.setdefault(step.target, start)
        return versions[target]

    def _path(self, op: ir.Operation, value: ir.Value, source: NdSbp, target: NdSbp) -> Sequence[BoxingStep]:
        desc = self.layouts.descs[value]
        try:
            boxing = self.boxing[self.layouts.submesh_of[value].name]
            return boxing.path(source, target, desc.static_shape, width_of(desc))
        except BoxingError as error:
            raise PassError(f"{op.name}: {error} for {desc}", op.location) from None

    def _cast(self, op: ir.Operation, value: ir.Value, step: BoxingStep) -> ir.Value:
        ops = IRBuilder(self.layouts.registry, ir.InsertionPoint(op), op.location)
        (boxed,) = ops.call(notes.PARALLEL_CAST[len(dialect.PREFIX) :], value, nd_sbp=step.target)
        notes.write_operation(boxed.handle.owner, [step.source], [step.target])
        placement = self.layouts.submesh_of[value].name
        write_placement(boxed.handle.owner, placement)
        self.layouts.set(boxed.handle, step.target, placement)
        return boxed.handle


def _effort(steps: Sequence[BoxingStep]) -> tuple[int, int]:
    return sum(s.bytes for s in steps), len(steps)
