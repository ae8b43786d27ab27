"""`oneflow-deterministic-scatter`: parallel writes to positions from data; the last writer wins.

Where positions may be equal, the value of the last write has to stay, which would make the steps sequential.
Instead, a first kernel computes the last writer of every position: the largest step that writes there, a maximum,
which is the same in any order. Then each step writes only where it is the last writer. The first kernel also records
positions that failed their check; then nothing is written, so that memory that is updated in place is unchanged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import arith, func, ir, linalg, scf, tensor
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.donated_arguments import VIEWS, donated_arguments
from oneflow.lowering.linalg.checks import CHECK_INDEX
from oneflow.lowering.linalg.emit import ANY_ORDER
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.fusion.sink_scalars import sink_reads
from oneflow.passes.base import Pass
from oneflow.passes.inline import clone_with
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_direct

#: The last writer of a position that no step writes.
NO_WRITER = -1


@register_pass
@dataclass(frozen=True)
class DeterministicScatter(Pass):
    """Computes the last writer of positions that may be equal, so that the writes can run in any order.

    scf.for %i { tensor.insert %v[%i] into %x[%at[%i]] }
      ->   %c = scf.for %i { tensor.insert max(%i, %c[%at[%i]]) into %c[%at[%i]] }
           scf.for %i { tensor.insert (%c[%at[%i]] == %i ? %v[%i] : %x[%at[%i]]) into %x[%at[%i]] }  in any order
    """

    name: ClassVar[str] = "oneflow-deterministic-scatter"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites the loops of every function with a body."""
        for function in (f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external):
            donated = {function.arguments[n] for n in donated_arguments(function.operation)}
            sink_reads(function.operation)
            for nest in filter(None, map(Nest.read, gather_direct(function.operation, ("scf.for",)))):
                _rewrite(nest, is_in_place=_origin(nest.loops[0].operands[3]) in donated)


@dataclass
class Nest:
    """Nested loops with one write.

    Attributes:
        loops: the loops, the outermost first.
        write: the `tensor.insert`.
        indexed_axes: the axes of the write whose positions are computed, not the variable of a loop.
        leading: the loops that these positions depend on.
    """

    loops: Sequence[ir.Operation]
    write: ir.Operation
    indexed_axes: Sequence[int]
    leading: Sequence[ir.Operation]

    @staticmethod
    def read(head: ir.Operation) -> Nest | None:
        """The nest of a loop; None where the loop does more than write once at computed positions."""
        loops = [head]
        while len(ops := _ops(loops[-1])) == 2 and ops[0].name == "scf.for":
            loops.append(ops[0])
        writes = [o for o in ops if o.name == "tensor.insert"]
        carried = loops[-1].regions[0].blocks[0].arguments[1]
        simple = all(not len(o.regions) for o in ops) and all(len(loop.results) == 1 for loop in loops)
        if len(writes) != 1 or not simple or writes[0].operands[1] != carried:
            return None
        steps = {loop.regions[0].blocks[0].arguments[0]: loop for loop in loops}
        position = list(writes[0].operands)[2:]
        indexed = [axis for axis, value in enumerate(position) if value not in steps]
        needed = _operands(_slice_of(writes[0], [position[axis] for axis in indexed]))
        if carried in needed:
            return None
        leading = [loop for step, loop in steps.items() if step in needed or step not in position]
        indexed = [axis for axis, value in enumerate(position) if steps.get(value) is None or steps[value] in leading]
        return Nest(loops, writes[0], indexed, leading) if indexed else None

    @property
    def carried(self) -> ir.Value:
        """The tensor before the write."""
        return self.write.operands[1]

    @property
    def position(self) -> list[ir.Value]:
        """The position of the write."""
        return list(self.write.operands)[2:]

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the writes matters: values do not accumulate, and no attribute allows any order."""
        reads = self.carried in _operands(_slice_of(self.write, [self.write.operands[0]]))
        return not reads and any(ANY_ORDER not in loop.attributes for loop in self.leading)

    def step(self) -> ir.Value:
        """The linear index of a step of the leading loops, computed at the insertion point."""
        steps = [loop.regions[0].blocks[0].arguments[0] for loop in self.leading]
        return _linear_index(steps, [loop.operands[1] for loop in self.leading])

    @property
    def steps(self) -> int | None:
        """The number of steps of the leading loops; None where unknown."""
        counts = [_constant_value(loop.operands[1]) for loop in self.leading]
        return None if None in counts else functools.reduce(lambda a, b: a * (b or 0), counts, 1)

    @property
    def is_long(self) -> bool:
        """Whether sequential steps would be slow; True where the number of steps is not known."""
        if self.steps is None:
            return True
        type_, limits = ir.RankedTensorType(self.carried.type), gpu_target().kernels.scatters
        known = [type_.get_dim_size(axis) for axis in self.indexed_axes if not type_.is_dynamic_dim(axis)]
        is_few = math.prod(known) <= limits.max_positions_per_step * self.steps
        return self.steps > limits.max_ordered_steps and is_few


def _ops(loop: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in loop.regions[0].blocks[0].operations]


def _slice_of(last: ir.Operation, wanted: Iterable[ir.Value]) -> list[ir.Operation]:
    """The backward slice of values: the operations before `last` in its block that the values depend on, in order."""
    values, needed = set(wanted), list[ir.Operation]()
    ops = [o.operation for o in last.block.operations]
    for op in reversed(ops[: ops.index(last)]):
        if any(r in values for r in op.results):
            needed.insert(0, op)
            values.update(op.operands)
    return needed


def _operands(ops: Iterable[ir.Operation]) -> set[ir.Value]:
    """The operands of operations."""
    return {v for op in ops for v in op.operands}


def _constant_value(value: ir.Value) -> int | None:
    """The integer of a constant; None for other values."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "arith.constant":
        return None
    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def _origin(value: ir.Value) -> ir.Value:
    """The tensor that a value is a view or an updated form of."""
    while not isinstance(value, ir.BlockArgument):
        op = value.owner
        operand = {"scf.for": 3, "tensor.insert_slice": 1, "tensor.extract_slice": 0}.get(op.name)
        if op.name in VIEWS or (op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) == 1):
            operand = 0
        if operand is None:
            return value
        value = op.operands[operand]
    return value


def _rewrite(nest: Nest, is_in_place: bool) -> None:
    """Computes last writers where steps in order would be slow, and stops all writes where a position is invalid."""
    orders = nest.is_ordered and nest.is_long
    guards = (orders or is_in_place) and any(True for _ in _checks(nest))
    if not orders and not guards:
        return
    head, last = nest.loops[0], nest.write
    if nest.steps == 1:
        with ir.InsertionPoint(last), last.location:
            is_valid = arith.XOrIOp(_is_invalid(nest), _constant(ir.IntegerType.get_signless(1), 1)).result
        return _write_where(nest, is_valid)
    step_type = ir.IntegerType.get_signless(32 if nest.steps is not None and nest.steps < 1 << 31 else 64)
    with ir.InsertionPoint(head), head.location:
        sizes = [_size(head.operands[3], axis) for axis in nest.indexed_axes] if orders else []
        end = _product(sizes) if orders else _index(0)
    with ir.InsertionPoint(last), last.location:
        invalid = _is_invalid(nest) if guards else None
        index = _linear_index([nest.position[axis] for axis in nest.indexed_axes], sizes) if orders else end
        if orders and invalid is not None:
            index = arith.SelectOp(invalid, end, index).result
        step = arith.IndexCastOp(step_type, nest.step()).result
    writers = _last_writers(nest, end, WriterUpdate(index, step, None if orders else invalid))
    with ir.InsertionPoint(last), last.location:
        is_last = [_equal(tensor.ExtractOp(writers, [index]).result, step)] if orders else []
        is_valid = (
            [_equal(tensor.ExtractOp(writers, [end]).result, _constant(step_type, NO_WRITER))] if guards else []
        )
        condition = functools.reduce(lambda a, b: arith.AndIOp(a, b).result, [*is_last, *is_valid])
    _write_where(nest, condition)
    for loop in nest.leading if orders else ():
        loop.attributes[ANY_ORDER] = ir.UnitAttr.get()


def _write_where(nest: Nest, condition: ir.Value) -> None:
    """Makes a nest write back the old element where a condition is false."""
    with ir.InsertionPoint(nest.write), nest.write.location:
        old = tensor.ExtractOp(nest.carried, nest.position).result
        nest.write.operands[0] = arith.SelectOp(condition, nest.write.operands[0], old).result


@dataclass(frozen=True)
class WriterUpdate:
    """The update of a step in the tensor of last writers: the maximum with `step` at `index`, if `mask` is true."""

    index: ir.Value
    step: ir.Value
    mask: ir.Value | None

    def apply(self, writers: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
        """The updated tensor of last writers; `values` maps the update's values to their clones."""
        index = [values.get(self.index, self.index)]
        old = tensor.ExtractOp(writers, index).result
        new = arith.MaxSIOp(old, values[self.step]).result
        if self.mask is not None:
            new = arith.SelectOp(values[self.mask], new, old).result
        return tensor.InsertOp(new, writers, index).result


def _last_writers(nest: Nest, end: ir.Value, update: WriterUpdate) -> ir.Value:
    """The tensor of the last writer of each position; the element at `end` records invalid positions."""
    head, known = nest.loops[0], _constant_value(end)
    needed = _slice_of(nest.write, [v for v in (update.index, update.step, update.mask) if v is not None])

    def write(steps: dict[ir.Value, ir.Value], writers: ir.Value) -> ir.Value:
        values = dict(steps)
        for op in needed:
            clone_with(op, values)
        return update.apply(writers, values)

    with ir.InsertionPoint(head), head.location:
        count = arith.AddIOp(end, _index(1)).result if known is None else known + 1
        empty = tensor.EmptyOp([count], update.step.type).result
        filled = linalg.fill(_constant(update.step.type, NO_WRITER), outs=[empty])
        return _copied_loops(nest.leading, filled, {}, write)


def _copied_loops(loops: Sequence[ir.Operation], carried: ir.Value, steps: dict[ir.Value, ir.Value],
                  write: Callable[[dict[ir.Value, ir.Value], ir.Value], ir.Value]) -> ir.Value:  # fmt: skip
    """Copies of loops that carry a tensor through `write`, which receives the variables of the copies."""
    if not loops:
        return write(steps, carried)
    first, *rest = loops
    loop = scf.ForOp(*list(first.operands)[:3], [carried])
    with ir.InsertionPoint(loop.body):
        inner = {**steps, first.regions[0].blocks[0].arguments[0]: loop.induction_variable}
        scf.YieldOp([_copied_loops(rest, loop.inner_iter_args[0], inner, write)])
    return loop.results[0]


def _checks(nest: Nest) -> Iterable[tuple[ir.Operation, ir.Operation | None]]:
    """The checks of a nest's positions: calls in the nest, and reads of tensors of positions checked before."""
    for op in _slice_of(nest.write, nest.position):
        if _is_check(op):
            yield op, None
        elif op.name == "tensor.extract" and not isinstance(op.operands[0], ir.BlockArgument):
            producer = op.operands[0].owner
            is_single = producer.name == "linalg.generic" and len(producer.results) == 1
            if is_single and any(map(_is_check, _body(producer))):
                yield op, producer


def _is_check(op: ir.Operation) -> bool:
    return op.name == "func.call" and bool(ir.FlatSymbolRefAttr(op.attributes["callee"]).value == CHECK_INDEX)


def _body(generic: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in generic.regions[0].blocks[0].operations]


def _is_invalid(nest: Nest) -> ir.Value:
    """Whether the position of a step has failed its check; later operations see positions clamped to at least 0."""
    failures = list[ir.Value]()
    for op, producer in list(_checks(nest)):
        if producer is None:
            failures.append(_differ(op.results[0], op.operands[0]))
            continue
        op.operands[0] = _with_marked_failures(producer)
        if not list(producer.results[0].uses):
            producer.erase()
        with ir.InsertionPoint(_after(op)), op.location:
            zero = _constant(op.results[0].type, 0)
            safe = arith.MaxSIOp(op.results[0], zero)
        op.results[0].replace_all_uses_except(safe.result, safe.operation)
        failures.append(arith.CmpIOp(arith.CmpIPredicate.slt, op.results[0], zero).result)
    return functools.reduce(lambda a, b: arith.OrIOp(a, b).result, failures)


def _with_marked_failures(producer: ir.Operation) -> ir.Value:
    """The tensor of checked positions with -1 for positions that have failed."""
    with ir.InsertionPoint(producer), producer.location:
        copy = producer.clone()
    *ops, last = _body(copy.operation)
    with ir.InsertionPoint(last), producer.location:
        failures = [_differ(op.results[0], op.operands[0]) for op in ops if _is_check(op)]
        failed = functools.reduce(lambda a, b: arith.OrIOp(a, b).result, failures)
        position = last.operands[0]
        last.operands[0] = arith.SelectOp(failed, _constant(position.type, -1), position).result
    return copy.results[0]


def _after(op: ir.Operation) -> ir.Operation:
    ops = [o.operation for o in op.block.operations]
    return ops[ops.index(op) + 1]


def _linear_index(position: Sequence[ir.Value], sizes: Sequence[ir.Value]) -> ir.Value:
    """The row-major linear index of a position."""
    index = position[0]
    for value, size in zip(position[1:], sizes[1:], strict=True):
        index = arith.AddIOp(arith.MulIOp(index, size).result, value).result
    return index


def _product(sizes: Sequence[ir.Value]) -> ir.Value:
    known = [_constant_value(size) for size in sizes]
    if None not in known:
        return _index(functools.reduce(lambda a, b: a * (b or 0), known, 1))
    return functools.reduce(lambda a, b: arith.MulIOp(a, b).result, sizes)


def _size(target: ir.Value, axis: int) -> ir.Value:
    tensor_type = ir.RankedTensorType(target.type)
    if tensor_type.is_dynamic_dim(axis):
        return tensor.DimOp(target, _index(axis)).result
    return _index(tensor_type.get_dim_size(axis))


def _equal(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.eq, a, b).result


def _differ(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.ne, a, b).result


def _index(value: int) -> ir.Value:
    return _constant(ir.IndexType.get(), value)


def _constant(type_: ir.Type, value: int) -> ir.Value:
    return arith.ConstantOp(type_, ir.IntegerAttr.get(type_, value)).result
