"""`oneflow-to-physical`: SPMD partitioning, from the program of whole tensors to the program of one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import arith, ir
from oneflow.dialect.body import Body
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.nd_sbp import NdSbp, NdSignature, devices, local_shape
from oneflow.dialect.reader import share_types
from oneflow.dialect.record import Call, Operator, OperatorError, Registry, infer
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.passes.base import Pass, PassError
from oneflow.passes.inline import refuse_function_values
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.boxing import Boxing, BoxingError
from oneflow.passes.sbp.candidates import localize
from oneflow.passes.sbp.collectives import (
    BUCKETED_STEPS,
    RankStep,
    TensorTransfer,
    check_same_collectives,
    emit_joined_step,
    emit_step,
)
from oneflow.passes.sbp.graph import operations_in, width_of
from oneflow.passes.sbp.layouts import Layouts
from oneflow.passes.sbp.submeshes import Submesh, crosses, placement_of, placements_of, read_submeshes
from oneflow.passes.structure import Function, Structure


@register_pass
@dataclass(frozen=True)
class ToPhysical(Pass):
    """Writes the program of one rank: local shapes, and collectives in place of casts.

        %0 = "oneflow.matmul"(%x, %w) {..} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
        %1 = "oneflow.hierarchical_parallel_cast"(%0) {nd_sbp = [#sbp.broadcast]} : (tensor<8x4xf32>) -> ..
    becomes, on 2 devices where %x is split along axis 0,
        %0 = "oneflow.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        %1 = "oneflow.ccl_all_gather"(%0) {axis = 0, sizes = array<i64: 4, 4>, mesh_axes = array<i32: 0>, ..}

    Casts with equal `oneflow.joined` become one collective of several tensors. A rank has only the operators of
    its placements. A tensor that moves from one placement to another is a `ccl_send_recv` between the ranks of both.
    A tensor of other ranks is an empty tensor. Arguments and results keep `oneflow.nd_sbp` and get
    `oneflow.logical_shape`. `check` writes the programs of all ranks and makes sure that they issue the same
    collectives in the same order.
    """

    name: ClassVar[str] = "oneflow-to-physical"
    rank: int = 0
    check: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites the program for `rank`.

        Raises:
            PassError: the rank does not exist, the program is not annotated and boxed, a function is a value, or
                (`check`) ranks would wait for each other for ever.
        """
        mesh = notes.read_mesh(module.operation)
        if not 0 <= self.rank < devices(mesh):
            raise PassError(f"option rank: expected one of the {devices(mesh)} ranks of the mesh, got {self.rank}")
        refuse_function_values(module.operation)
        if self.check:
            check_same_collectives([physical(module, r, registry) for r in range(devices(mesh))], registry, mesh)
        lower_to_rank(module, self.rank, registry)


def physical(module: ir.Module, rank: int, registry: Registry) -> ir.Module:
    """The program of `rank`, as a new module; `module` is annotated and boxed.

    Raises:
        PassError: the program is not annotated and boxed.
    """
    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True, assume_verified=True))
        lower_to_rank(copy, rank, registry)
    return copy


def lower_to_rank(module: ir.Module, rank: int, registry: Registry) -> None:
    """Rewrites an annotated and boxed program in place.

    Raises:
        PassError: the program is not annotated and boxed.
    """
    submeshes, structure = read_submeshes(module.operation), Structure.of(module.operation)
    boxing = {name: Boxing(s.mesh) for name, s in submeshes.items()}
    operations = {f.name: f.op for f in structure.functions.values()}
    lowerings = [
        _Lowering(f, boxing, Layouts(submeshes, registry, operations), rank) for f in structure.functions.values()
    ]
    for lowering in lowerings:
        lowering.read()
    for lowering in lowerings:
        lowering.write()
    module.operation.attributes[notes.RANK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), rank)


@dataclass(frozen=True)
class _Local:
    """An operator on one rank: attributes (None for defaults), and types of results."""

    record: Operator
    attributes: Mapping[str, ir.Attribute | None]
    types: Sequence[ir.Type]


def _attributes_of(local: Call) -> dict[str, ir.Attribute | None]:
    """The attributes of a call, None in place of attributes that are left out."""
    attrs = local.record.signature.attrs
    values = {a.name: a.kind.check(local.attrs[a.name]) for a in attrs}
    stated = {a.name for a in attrs if a.is_mandatory or values[a.name] != a.default}
    return {a.name: a.kind.write(values[a.name]) if a.name in stated else None for a in attrs}


class _Lowering:
    """A function, first read, then rewritten for one rank."""

    def __init__(self, function: Function, boxing: Mapping[str, Boxing], layouts: Layouts, rank: int) -> None:
        self.function, self.boxing, self.layouts, self.rank = function, boxing, layouts, rank
        self.submeshes = layouts.submeshes
        self.rewrites: list[Callable[[], None]] = []
        self.plans: dict[Any, _Local] = {}
        self.absent: list[ir.Operation] = []
        self.joined: dict[int, _Joined] = {}
        self.previous: ir.Operation | None = None

    def read(self) -> None:
        """Plans the rewriting of every operation, while layouts and logical types are there."""
        if self.function.is_declaration:
            return
        self.layouts.add_arguments(self.function)
        for op in operations_in(self.function):
            self._check_operands(op)
            self.rewrites.append(self._plan(op))
            self.layouts.add_results(op)
            self.previous = op

    def _check_operands(self, op: ir.Operation) -> None:
        if self.layouts.is_relaxing_cast(op):
            return
        for value, nd in zip(op.operands, self.layouts.operand_layouts(self.function, op), strict=True):
            if nd is not None and nd != self.layouts.values[value]:
                text = "expected operands in the layouts of the signature; run oneflow-insert-boxing first"
                raise PassError(f"{op.name}: {text}", op.location)

    def _plan(self, op: ir.Operation) -> Callable[[], None]:
        if crosses(op):
            return self._plan_transfer(op)
        submesh = self.submeshes[placement_of(op)]
        if op.name == "func.return":
            return self._fill(op)
        if submesh.index_of(self.rank) is None:
            return lambda: self.absent.append(op)
        if op.name == notes.PARALLEL_CAST:
            return self._plan_cast(op, submesh)
        if self.layouts.is_relaxing_cast(op):
            return lambda: self._drop(op)
        if op.name.startswith(dialect.PREFIX):
            return self._plan_operator(op, submesh)
        return lambda: self._set_results(op)

    def _plan_transfer(self, op: ir.Operation) -> Callable[[], None]:
        """The rank's part in the transfer of a tensor to another placement."""
        value = op.operands[0]
        (nd,), source = self.layouts.result_layouts(op), self.layouts.submesh_of[value]
        shape = self.layouts.descs[value].static_shape
        assert nd is not None
        transfer = TensorTransfer(shape, source, self.layouts.values[value], self.submeshes[placement_of(op)], nd)
        if self.rank not in transfer.ranks:
            return lambda: self.absent.append(op)
        fill = self._fill(op)

        def write() -> None:
            fill()
            ops = IRBuilder(self.layouts.registry, ir.InsertionPoint(op), op.location)
            results = transfer.emit_step(ops, ops.wrap(op.operands[0]), self.rank)
            op.results[0].replace_all_uses_with(results.handle)
            op.erase()

        return write

    def _fill(self, op: ir.Operation) -> Callable[[], None]:
        """Replaces operands on other ranks by empty tensors."""
        submeshes = enumerate(self.layouts.submesh_of.get(v) for v in op.operands)
        missing = [n for n, submesh in submeshes if submesh is not None and submesh.index_of(self.rank) is None]

        def write() -> None:
            for index in missing:
                if not isinstance(op.operands[index].owner, ir.Block):
                    op.operands[index] = _empty_tensor(op, op.operands[index])

        return write

    def _plan_cast(self, op: ir.Operation, submesh: Submesh) -> Callable[[], None]:
        source, (target,) = self.layouts.values[op.operands[0]], self.layouts.result_layouts(op)
        desc = self.layouts.descs[op.operands[0]]
        shape = desc.static_shape
        assert target is not None
        try:
            steps = self.boxing[submesh.name].path(source, target, shape, width_of(desc))
        except BoxingError as error:
            raise PassError(f"{op.name}: {error} for {desc}", op.location) from None
        rank, ranks = self._rank(submesh), submesh.members if len(self.submeshes) > 1 else ()
        rank_steps = [RankStep(step, shape, submesh.mesh, rank, ranks) for step in steps]
        bucket = notes.read_joined(op)
        if bucket is not None:
            return self._plan_joined(op, bucket, rank_steps)

        def write() -> None:
            ops = IRBuilder(self.layouts.registry, ir.InsertionPoint(op), op.location)
            value = ops.wrap(op.operands[0])
            for step in rank_steps:
                value = emit_step(ops, value, step)
            op.results[0].replace_all_uses_with(value.handle)
            op.erase()

        return write

    def _plan_joined(self, op: ir.Operation, bucket: int, rank_steps: Sequence[RankStep]) -> Callable[[], None]:
        """A cast's part of a collective of several tensors, which replaces the last of the casts."""
        joined = self.joined.setdefault(bucket, _Joined(self.layouts.registry))
        kinds = [s.step.kind for s in rank_steps]
        alike = len(kinds) == 1 and kinds[0] in BUCKETED_STEPS
        adjacent = not joined.ops or self.previous == joined.ops[-1]
        if not alike or not adjacent or (joined.ops and not _same_collective(joined.steps[0], rank_steps[0])):
            raise PassError(
                f"{op.name}: expected casts of one {notes.JOINED}, {bucket}, to be adjacent and of the same"
                f" collective, one of {', '.join(BUCKETED_STEPS)}; got {', '.join(kinds) or 'nothing'}",
                op.location,
            )
        joined.ops.append(op)
        joined.steps.append(rank_steps[0])
        return joined.write

    def _rank(self, submesh: Submesh) -> int:
        """The index of the rank in a placement that contains the rank."""
        rank = submesh.index_of(self.rank)
        assert rank is not None
        return rank

    def _plan_operator(self, op: ir.Operation, submesh: Submesh) -> Callable[[], None]:
        descs = [dialect.desc_of(v) for v in op.results]
        key = (op.name, tuple(self.layouts.descs[v] for v in op.operands), tuple(descs), tuple(op.attributes.items()))
        if key not in self.plans:
            self.plans[key] = self._local_operator(op, descs, submesh)
        local = self.plans[key]

        def write() -> None:
            notes.drop_operation(op)
            for name, attribute in local.attributes.items():
                if attribute is not None:
                    op.attributes[name] = attribute
                elif name in op.attributes:
                    del op.attributes[name]
            for value, kind in zip(op.results, local.types, strict=True):
                value.set_type(kind)
            share_types(op, local.record)

        return write

    def _local_operator(self, op: ir.Operation, descs: Sequence[TensorDesc], submesh: Submesh) -> _Local:
        """The call that this rank makes in place of an operator whose results are described by `descs`."""
        record = dialect.record_of(op, self.layouts.registry)
        call = dialect.operand_call(op, record, self.layouts.descs.__getitem__)
        call = dialect.bind_results(op, call, descs)
        sides = (self.layouts.operand_layouts(self.function, op), self.layouts.result_layouts(op))
        ins, outs = (tuple(nd for nd in side if nd is not None) for side in sides)
        local = localize(call, NdSignature(ins, outs), submesh.mesh, self._rank(submesh))
        bodies = {a: self._local_body(call.attrs[a]) for a in dialect.named_functions(op)}
        local = Call(record, local.inputs, {**local.attrs, **bodies}, local.outputs)
        _check_local(op, local)
        return _Local(record, _attributes_of(local), [d.to_mlir() for d in local.results])

    def _local_body(self, body: Body) -> Body:
        """A body with the types that it has on this rank."""
        function = self.layouts.functions[self.function.qualified(body.symbol)]

        def local(side: str, descs: Sequence[TensorDesc]) -> list[TensorDesc]:
            stated = notes.read_values(function, side, len(descs))
            submeshes = [self.submeshes[p] for p in placements_of(function, side, len(descs))]
            return [d if nd is None else local_desc(d, nd, p, self.rank)
                    for d, nd, p in zip(descs, stated, submeshes, strict=True)]  # fmt: skip

        inputs, outputs = local(notes.ARGUMENTS, body.inputs), local(notes.RESULTS, body.outputs)
        return Body(inputs, outputs, lambda: body.steps, body.symbol, body.module)

    @staticmethod
    def _drop(op: ir.Operation) -> None:
        """Removes a cast; a user casts again, to a local type."""
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()

    def _set_results(self, op: ir.Operation) -> None:
        for value in op.results:
            if value in self.layouts.values:
                value.set_type(self._local(value).to_mlir())

    def _local(self, value: ir.Value) -> TensorDesc:
        return local_desc(
            self.layouts.descs[value], self.layouts.values[value], self.layouts.submesh_of[value], self.rank
        )

    def write(self) -> None:
        """Carries out the plan, and writes the types of the function."""
        types = [self._side(notes.ARGUMENTS, self.function.inputs), self._side(notes.RESULTS, self.function.results)]
        for value, kind in zip(self.function.arguments, types[0], strict=False):
            value.set_type(kind)
        for rewrite in self.rewrites:
            rewrite()
        for op in reversed(self.absent):
            op.erase()
        self.function.op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))

    def _side(self, name: str, kinds: Sequence[ir.Type]) -> list[ir.Type]:
        """The local types of arguments or results; their logical shapes become attributes."""
        stated = notes.read_values(self.function.op, name, len(kinds))
        descs = [notes.expect_static(from_mlir(k), self.function.op) for k in kinds]

        def attributes(index: int) -> dict[str, ir.Attribute]:
            desc = descs[index]
            return {} if desc is None else {notes.SHAPE: ir.DenseI64ArrayAttr.get(desc.shape)}

        notes.annotate_values(self.function.op, name, len(kinds), attributes)
        submeshes = [self.submeshes[p] for p in placements_of(self.function.op, name, len(kinds))]
        return [self._local_type(*row) for row in zip(kinds, descs, stated, submeshes, strict=True)]

    def _local_type(self, kind: ir.Type, desc: TensorDesc | None, nd: NdSbp | None, submesh: Submesh) -> ir.Type:
        return kind if desc is None or nd is None else local_desc(desc, nd, submesh, self.rank).to_mlir()


@dataclass
class _Joined:
    """Casts that become one collective."""

    registry: Registry
    ops: list[ir.Operation] = field(default_factory=list)
    steps: list[RankStep] = field(default_factory=list)
    visited: int = 0

    def write(self) -> None:
        """Called at every cast; writes the collective at the last."""
        self.visited += 1
        if self.visited < len(self.ops):
            return
        last = self.ops[-1]
        ops = IRBuilder(self.registry, ir.InsertionPoint(last), last.location)
        results = emit_joined_step(ops, [ops.wrap(op.operands[0]) for op in self.ops], self.steps)
        for op, value in zip(self.ops, results, strict=True):
            op.results[0].replace_all_uses_with(value.handle)
            op.erase()


def _same_collective(one: RankStep, other: RankStep) -> bool:
    """Whether two steps may be one collective of two tensors."""
    kinds = {(p.step.kind, p.step.axes, p.ranks, p.source_sbp.axis, p.target_sbp.axis) for p in (one, other)}
    return len(kinds) == 1


def _empty_tensor(op: ir.Operation, value: ir.Value) -> ir.Value:
    """An empty tensor before `op`, of the element type of `value`."""
    with op.location:
        kind = ir.RankedTensorType.get((0,), ir.RankedTensorType(value.type).element_type)
        return arith.ConstantOp(kind, ir.Attribute.parse(f"dense<> : {kind}"), ip=ir.InsertionPoint(op)).result


def local_desc(desc: TensorDesc, nd: NdSbp, submesh: Submesh, rank: int) -> TensorDesc:
    """The shard on `rank` of a tensor with the layout `nd` on a placement."""
    index = submesh.index_of(rank)
    if index is None:
        return TensorDesc((0,), desc.dtype)
    return TensorDesc(local_shape(desc.static_shape, nd, submesh.mesh, index), desc.dtype)


def _check_local(op: ir.Operation, local: Call) -> None:
    """Checks that the operator, called on one rank's operands, has results of its signature.

    Raises:
        PassError: the record's signature or its `local` attributes are wrong.
    """
    try:
        types = infer(local.record, Call(local.record, local.inputs, local.attrs))
    except OperatorError as error:
        raise PassError(f"on one rank, {dialect.message_of(op, error)}", op.location) from None
    for index, (got, wanted) in enumerate(zip(types, local.results, strict=True)):
        if got != wanted:
            raise PassError(
                f"{op.name}: on one rank, expected result {index} of type {wanted}, got {got}", op.location
            )
