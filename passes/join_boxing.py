"""`oneflow-join-boxing`: equal collectives become one collective of several tensors (collective bucketing)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import local_shape
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.boxing import Boxing, BoxingStep
from oneflow.passes.sbp.collectives import BUCKETED_STEPS
from oneflow.passes.sbp.graph import operations_in, width_of
from oneflow.passes.sbp.interconnects import interconnect
from oneflow.passes.sbp.layouts import Layouts
from oneflow.passes.sbp.submeshes import crosses, read_submeshes
from oneflow.passes.structure import Function, Structure, operands_of

#: Steps whose results are no larger than their operands: these steps run as soon as the operand is computed.
EARLY = ("all_reduce", "all_max", "reduce_scatter")


@register_pass
@dataclass(frozen=True)
class JoinBoxing(Pass):
    """Moves casts of the same collective next to each other, so that they become one collective of several tensors.

        %1 = "oneflow.hierarchical_parallel_cast"(%dv) {nd_sbp = [#sbp.broadcast], ..}
        %2 = "oneflow.sgd_update"(%v, %1, %rate) {..}
        %3 = "oneflow.hierarchical_parallel_cast"(%dw) {nd_sbp = [#sbp.broadcast], ..}
        %4 = "oneflow.sgd_update"(%w, %3, %rate) {..}
    becomes
        %1 = "oneflow.hierarchical_parallel_cast"(%dv) {nd_sbp = [#sbp.broadcast], oneflow.joined = 0 : i64, ..}
        %3 = "oneflow.hierarchical_parallel_cast"(%dw) {nd_sbp = [#sbp.broadcast], oneflow.joined = 0 : i64, ..}
        %2 = "oneflow.sgd_update"(%v, %1, %rate) {..}
        %4 = "oneflow.sgd_update"(%w, %3, %rate) {..}

    Reductions move to where the last of their operands is computed, so that the reductions overlap with later work. A
    bucket is one collective of several tensors, of at most `bytes` together on a rank (by default `joined_bytes` of
    the interconnect), or of one larger tensor: the first of many gradients are reduced while the last are computed.
    Sizes are sizes of logical shapes, so that all ranks join the same casts.
    """

    name: ClassVar[str] = "oneflow-join-boxing"
    bytes: int | None = None

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Moves and marks casts.

        Raises:
            PassError: the program is not annotated and boxed, or the option is below 0.
        """
        max_bytes = interconnect().joined_bytes if self.bytes is None else self.bytes
        if max_bytes < 0:
            raise PassError(f"option bytes: expected 0 or more, got {max_bytes}")
        submeshes, structure = read_submeshes(module.operation), Structure.of(module.operation)
        boxing = {name: Boxing(s.mesh) for name, s in submeshes.items()}
        operations = {f.name: f.op for f in structure.functions.values()}
        for function in structure.functions.values():
            if not function.is_declaration:
                finder = _CollectiveCasts(function, boxing, Layouts(submeshes, registry, operations))
                _BucketFiller(finder.casts, max_bytes).run(function)


@dataclass(frozen=True)
class _Cast:
    """A cast that is one collective: the key that joined casts share, and its bytes on a rank."""

    op: ir.Operation
    key: Hashable
    is_early: bool
    bytes: int


class _CollectiveCasts:
    """Finds the casts of a function that are one collective each."""

    def __init__(self, function: Function, boxing: Mapping[str, Boxing], layouts: Layouts) -> None:
        self.boxing, self.layouts = boxing, layouts
        self.casts: dict[ir.Operation, _Cast] = {}
        layouts.add_arguments(function)
        for op in operations_in(function):
            if op.name == notes.PARALLEL_CAST and not crosses(op):
                self._add(op)
            layouts.add_results(op)

    def _add(self, op: ir.Operation) -> None:
        value, (target,) = op.operands[0], self.layouts.result_layouts(op)
        source, desc, submesh = self.layouts.values[value], self.layouts.descs[value], self.layouts.submesh_of[value]
        assert target is not None
        shape = desc.static_shape
        steps = self.boxing[submesh.name].path(source, target, shape, width_of(desc))
        if len(steps) != 1 or steps[0].kind not in BUCKETED_STEPS:
            return
        (step,) = steps
        # The first rank has the largest shard.
        shard_elements = max(math.prod(local_shape(shape, nd, submesh.mesh, 0)) for nd in (source, target))
        key = (submesh.name, step.kind, step.axes, _axis(step), desc.dtype.name)
        self.casts[op] = _Cast(op, key, step.kind in EARLY, shard_elements * desc.dtype.numpy.itemsize)


def _axis(step: BoxingStep) -> int | None:
    """The split axis before or after a step."""
    old, new = (nd[step.axes[0]] for nd in (step.source, step.target))
    return new.axis if old.axis is None else old.axis


@dataclass
class _Bucket:
    """Casts that move to the position of the last cast."""

    casts: list[_Cast] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The bytes of all casts."""
        return sum(c.bytes for c in self.casts)


class _BucketFiller:
    """Fills buckets in program order; a bucket is closed when it is full, or before the first use of a cast in it."""

    def __init__(self, casts: Mapping[ir.Operation, _Cast], max_bytes: int) -> None:
        self.casts, self.max_bytes = casts, max_bytes
        self.open_buckets: dict[Hashable, _Bucket] = {}
        self.bucket_of: dict[ir.Value, Hashable] = {}
        self.count = 0

    def run(self, function: Function) -> None:
        for cast in self.casts.values():
            if cast.is_early:
                _hoist(cast.op)
        ops = operations_in(function)
        for block in dict.fromkeys(op.block for op in ops):
            for op in [o.operation for o in block.operations]:
                self._visit(op)
            for key in list(self.open_buckets):
                self._close(key)

    def _visit(self, op: ir.Operation) -> None:
        for value in operands_of(op):
            if value in self.bucket_of:
                self._close(self.bucket_of[value])
        cast = self.casts.get(op)
        if cast is None:
            return
        bucket = self.open_buckets.setdefault(cast.key, _Bucket())
        if bucket.casts and bucket.bytes + cast.bytes > self.max_bytes:
            self._close(cast.key)
            bucket = self.open_buckets[cast.key] = _Bucket()
        bucket.casts.append(cast)
        self.bucket_of[op.results[0]] = cast.key

    def _close(self, key: Hashable) -> None:
        """Moves the casts of a bucket to the position of the last cast, and marks them as one collective if there
        are several.
        """
        *others, last = self.open_buckets.pop(key).casts
        for cast in (*others, last):
            del self.bucket_of[cast.op.results[0]]
        for cast in others:
            cast.op.move_before(last.op)
        for cast in (*others, last) if others else ():
            notes.write_joined(cast.op, self.count)
        self.count += bool(others)


def _hoist(op: ir.Operation) -> None:
    """Moves a cast to the definition of its operand, if that is in the same block."""
    defining_op = op.operands[0].owner
    if not isinstance(defining_op, ir.Block) and defining_op.operation.block == op.block:
        op.move_after(defining_op.operation)
