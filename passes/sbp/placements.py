"""The placement of every value of a program on several placements: stages of pipeline parallelism are placements.

Arguments are annotated with their placement, and `hierarchical_parallel_cast` with the attribute `placement` moves a
tensor to other ranks. `assign_placements` infers the rest: an operator has the placement of its operands. A value
without annotation is on all ranks, the placement `mesh`, and is moved to the ranks of its users.
"""

from __future__ import annotations

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.nd_sbp import NdSbp, broadcast, parse_sbp
from oneflow.dialect.record import Registry
from oneflow.dialect.sbp import B
from oneflow.passes.base import PassError
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.graph import operations_in
from oneflow.passes.sbp.submeshes import WHOLE, Submeshes, crosses, placement_of, placements_of, write_placement
from oneflow.passes.structure import Function


def assign_placements(function: Function, submeshes: Submeshes, registry: Registry) -> None:
    """Annotates every operation and result with its placement, and inserts casts between placements.

    Raises:
        PassError: operands have different placements, a placement is not known, or there is control flow.
    """
    if not function.is_declaration:
        _Assignment(function, submeshes, registry).run()


class _Assignment:
    """A function; `placement_of_value` has the placements of the values so far, `transferred` casts to others."""

    def __init__(self, function: Function, submeshes: Submeshes, registry: Registry) -> None:
        self.function, self.submeshes, self.registry = function, submeshes, registry
        self.placement_of_value: dict[ir.Value, str] = {}
        self.transferred: dict[tuple[ir.Value, str], ir.Value] = {}

    def run(self) -> None:
        names = placements_of(self.function.op, notes.ARGUMENTS, len(self.function.inputs))
        for value, name in zip(self.function.arguments, names, strict=True):
            self.placement_of_value[value] = self._checked_placement(name, self.function.op)
        for op in operations_in(self.function):
            self._visit(op)

    def _at(self, value: ir.Value) -> str:
        return self.placement_of_value.get(value, WHOLE)

    def _checked_placement(self, name: str, op: ir.Operation) -> str:
        if name not in self.submeshes:
            known = ", ".join(self.submeshes)
            raise PassError(f"{op.name}: expected one of the placements {known}, got {name!r}", op.location)
        return name

    def _visit(self, op: ir.Operation) -> None:
        if op.name == notes.PARALLEL_CAST_LIKE:
            self._transfer_gradient(op)
        elif op.name == notes.PLAIN_CAST:
            self._plain_cast(op)
        elif op.name == notes.PARALLEL_CAST:
            self._cast(op)
        elif op.name == "func.return":
            self._return(op)
        elif len(self.submeshes) > 1:
            self._assign_placement(op)

    def _assign_placement(self, op: ir.Operation) -> None:
        """Gives an operation the placement of its operands."""
        if len(op.regions) or op.name == "func.call":
            raise PassError(
                f"{op.name}: expected operators alone in a program of several placements; inline calls", op.location
            )
        if op.name.startswith(dialect.PREFIX) and "barrier" in dialect.record_of(op, self.registry).traits:
            self._assign_barrier(op)
            return
        placement = self._common_placement(op)
        for index, value in enumerate(op.operands):
            if self._at(value) != placement:
                op.operands[index] = self._transfer(op, value, placement, broadcast(self.submeshes[placement].mesh))
        self._set_placement(op, placement)

    def _assign_barrier(self, op: ir.Operation) -> None:
        """Gives a barrier the placement of its first operand; operands on other placements are not waited for."""
        placement = self._at(op.operands[0])
        if all(self._at(v) == placement for v in op.operands):
            self._set_placement(op, placement)
            return
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()

    def _set_placement(self, op: ir.Operation, placement: str) -> None:
        write_placement(op, placement)
        self.placement_of_value.update(dict.fromkeys(op.results, placement))

    def _common_placement(self, op: ir.Operation) -> str:
        stated = [self._checked_placement(placement_of(op), op)] if notes.PLACEMENT in op.attributes else []
        names = list(dict.fromkeys([*stated, *(p for v in op.operands if (p := self._at(v)) != WHOLE)]))
        if len(names) > 1:
            one, other = (self.submeshes[name] for name in names[:2])
            raise PassError(
                f"{op.name}: expected operands on one placement, got {one} and {other}; move one with"
                " x.to_global(placement, sbp), a hierarchical_parallel_cast with the attribute placement",
                op.location,
            )
        return names[0] if names else WHOLE

    def _transfer(self, op: ir.Operation, value: ir.Value, placement: str, nd: NdSbp) -> ir.Value:
        """`value` on another placement, before `op`."""
        _require_rank(op, value)
        if (value, placement) not in self.transferred:
            ops = IRBuilder(self.registry, ir.InsertionPoint(op), op.location)
            cast = ops.hierarchical_parallel_cast(ops.wrap(value), nd_sbp=nd, placement=placement).handle
            self._set_placement(cast.owner, placement)
            self.transferred[value, placement] = cast
        return self.transferred[value, placement]

    def _cast(self, op: ir.Operation) -> None:
        """A cast of the program; no partial sums are sent between placements: the target placement forms them."""
        source = self._at(op.operands[0])
        placement = self._checked_placement(placement_of(op), op) if crosses(op) else source
        if crosses(op) and placement == source:
            del op.attributes["placement"]
        nd: NdSbp = dialect.read_attributes(op, dialect.record_of(op, self.registry))["nd_sbp"]
        if crosses(op) and any(s.is_partial for s in nd):
            without_partial = tuple(B if s.is_partial else s for s in nd)
            op.operands[0] = self._transfer(op, op.operands[0], placement, without_partial)
            del op.attributes["placement"]
        self._set_placement(op, placement)

    def _plain_cast(self, op: ir.Operation) -> None:
        """A cast that states the layout on the one axis of the mesh."""
        text = dialect.read_attributes(op, dialect.record_of(op, self.registry))["sbp_parallel"]
        mesh = self.submeshes[self._at(op.operands[0])].mesh
        if len(mesh) != 1:
            raise PassError(
                f"{op.name}: expected a mesh of one axis, got {list(mesh)}; write hierarchical_parallel_cast with an"
                " SBP for each axis",
                op.location,
            )
        value = op.operands[0]
        if text:
            _require_rank(op, value)
            ops = IRBuilder(self.registry, ir.InsertionPoint(op), op.location)
            value = ops.hierarchical_parallel_cast(ops.wrap(value), nd_sbp=(parse_sbp(str(text)),)).handle
            self._cast(value.owner)
        op.results[0].replace_all_uses_with(value)
        op.erase()

    def _transfer_gradient(self, op: ir.Operation) -> None:
        """Moves a gradient to the placement of the differentiated value."""
        value, like = op.operands
        placement = self._at(like)
        attributes = dialect.read_attributes(op, dialect.record_of(op, self.registry))
        nd: NdSbp = attributes["nd_sbp"]
        if placement != self._at(value):
            mesh = self.submeshes[placement].mesh
            without_partial = tuple(B if s.is_partial else s for s in nd)
            value = self._transfer(op, value, placement, without_partial if len(nd) == len(mesh) else broadcast(mesh))
        elif attributes["stated"]:
            _require_rank(op, value)
            ops = IRBuilder(self.registry, ir.InsertionPoint(op), op.location)
            value = ops.hierarchical_parallel_cast(ops.wrap(value), nd_sbp=nd).handle
            self._set_placement(value.owner, placement)
        op.results[0].replace_all_uses_with(value)
        op.erase()

    def _return(self, op: ir.Operation) -> None:
        """Moves results to their annotated placement; results without annotation stay."""
        side, count = notes.RESULTS, len(self.function.results)
        if len(self.submeshes) == 1:
            return
        dicts = list(self.function.op.attributes[side]) if side in self.function.op.attributes else [{}] * count
        stated = placements_of(self.function.op, side, count)
        layouts = notes.read_values(self.function.op, side, count)
        names = []
        for index, value in enumerate(op.operands):
            free = layouts[index] is None and notes.PLACEMENT not in dicts[index]
            placement = self._at(value) if free else self._checked_placement(stated[index], op)
            if placement != self._at(value):
                nd = layouts[index] or broadcast(self.submeshes[placement].mesh)
                op.operands[index] = self._transfer(op, value, placement, nd)
            names.append(placement)
        notes.annotate_values(self.function.op, side, count, lambda i: _named(names[i], op.context))


def _require_rank(op: ir.Operation, value: ir.Value) -> None:
    if not isinstance(value.type, ir.RankedTensorType):
        raise PassError(f"{op.name}: operand of unknown rank; run oneflow-infer-types first", op.location)


def _named(placement: str, context: ir.Context) -> dict[str, ir.Attribute]:
    return {} if placement == WHOLE else {notes.PLACEMENT: ir.StringAttr.get(placement, context)}
