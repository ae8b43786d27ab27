"""`oneflow-deterministic-scatter`: parallel writes to positions from data; the last writer wins.

Where positions may be equal the last write stays, so that the loops over them would have to run one after the other.
Here a first kernel notes for every position the largest step that writes there, which is a maximum and so the same in
any order; then each step writes only where it is the one. Positions that failed their check are noted as well, and
then nothing is written: memory that is updated in place stays as it was.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import arith, func, ir, linalg, scf, tensor
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.donation import VIEWS, donated_arguments
from oneflow.lowering.linalg.checks import CHECK_INDEX
from oneflow.lowering.linalg.emit import ANY_ORDER
from oneflow.lowering.triton.fusion.sink_scalars import sink_reads
from oneflow.passes.base import Pass
from oneflow.passes.inline import clone_with
from oneflow.passes.registry import register_pass

#: As many steps are as fast one after the other as in two kernels more: 16 rows took 15.1 us so, 17 took 10.3.
FEW = 8
#: Places for each step from which on to note the last step of each takes longer than steps one after the other, and
#: memory that is no longer small: those of a megabyte.
PLACES = 1 << 18
#: What no step has claimed.
NOBODY = -1


@register_pass
@dataclass(frozen=True)
class DeterministicScatter(Pass):
    """Has writes to positions that may be equal claim them first, then write what comes last, in any order.

    scf.for %i { tensor.insert %v[%i] into %x[%at[%i]] }
      ->   %c = scf.for %i { tensor.insert max(%i, %c[%at[%i]]) into %c[%at[%i]] }
           scf.for %i { tensor.insert (%c[%at[%i]] == %i ? %v[%i] : %x[%at[%i]]) into %x[%at[%i]] }  in any order
    """

    name: ClassVar[str] = "oneflow-deterministic-scatter"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites the loops of every function with a body."""
        for function in (f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external):
            given_up = {function.arguments[n] for n in donated_arguments(function.operation)}
            sink_reads(function.entry_block)
            loops = [o.operation for o in function.entry_block.operations if o.operation.name == "scf.for"]
            for nest in filter(None, map(Nest.read, loops)):
                _rewrite(nest, is_lasting=_source(nest.loops[0].operands[3]) in given_up)


@dataclass
class Nest:
    """Loops in each other with one write: `claimed` are the axes of its place that no loop goes along by itself,
    `leading` the loops that those depend on.
    """

    loops: Sequence[ir.Operation]
    write: ir.Operation
    claimed: Sequence[int]
    leading: Sequence[ir.Operation]

    @staticmethod
    def read(head: ir.Operation) -> Nest | None:
        """The nest of a loop; None where it does more than write once at positions that are computed."""
        loops = [head]
        while len(ops := _ops(loops[-1])) == 2 and ops[0].name == "scf.for":
            loops.append(ops[0])
        writes = [o for o in ops if o.name == "tensor.insert"]
        carried = loops[-1].regions[0].blocks[0].arguments[1]
        simple = all(not len(o.regions) for o in ops) and all(len(loop.results) == 1 for loop in loops)
        if len(writes) != 1 or not simple or writes[0].operands[1] != carried:
            return None
        steps = {loop.regions[0].blocks[0].arguments[0]: loop for loop in loops}
        place = list(writes[0].operands)[2:]
        claimed = [axis for axis, value in enumerate(place) if value not in steps]
        needed = _values(_needed(writes[0], [place[axis] for axis in claimed]))
        if carried in needed:
            return None
        leading = [loop for step, loop in steps.items() if step in needed or step not in place]
        claimed = [axis for axis, value in enumerate(place) if steps.get(value) is None or steps[value] in leading]
        return Nest(loops, writes[0], claimed, leading) if claimed else None

    @property
    def carried(self) -> ir.Value:
        """The tensor before the write."""
        return self.write.operands[1]

    @property
    def place(self) -> list[ir.Value]:
        """Where the write is."""
        return list(self.write.operands)[2:]

    @property
    def is_ordered(self) -> bool:
        """Whether what comes last stays, and that is not known to be no matter."""
        reads = self.carried in _values(_needed(self.write, [self.write.operands[0]]))
        return not reads and any(ANY_ORDER not in loop.attributes for loop in self.leading)

    def step(self) -> ir.Value:
        """The number of a step among those of the loops that lead, at the insertion point."""
        steps = [loop.regions[0].blocks[0].arguments[0] for loop in self.leading]
        return _number_of(steps, [loop.operands[1] for loop in self.leading])

    @property
    def steps(self) -> int | None:
        """How often the loops that lead are run, None where that is not known."""
        counts = [_known(loop.operands[1]) for loop in self.leading]
        return None if None in counts else functools.reduce(lambda a, b: a * (b or 0), counts, 1)

    @property
    def is_long(self) -> bool:
        """Whether there are too many steps to be made one after the other, as far as that is known."""
        if self.steps is None:
            return True
        kind = ir.RankedTensorType(self.carried.type)
        known = [kind.get_dim_size(axis) for axis in self.claimed if not kind.is_dynamic_dim(axis)]
        return self.steps > FEW and math.prod(known) <= PLACES * self.steps


def _ops(loop: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in loop.regions[0].blocks[0].operations]


def _needed(last: ir.Operation, wanted: Iterable[ir.Value]) -> list[ir.Operation]:
    """The operations before `last` in its block that values need, in order."""
    values, found = set(wanted), list[ir.Operation]()
    ops = [o.operation for o in last.block.operations]
    for op in reversed(ops[: ops.index(last)]):
        if any(r in values for r in op.results):
            found.insert(0, op)
            values.update(op.operands)
    return found


def _values(ops: Iterable[ir.Operation]) -> set[ir.Value]:
    """What operations take."""
    return {v for op in ops for v in op.operands}


def _known(value: ir.Value) -> int | None:
    """The number that a value is known to be, None where there is none."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(value.owner.attributes["value"]).value


def _source(value: ir.Value) -> ir.Value:
    """The tensor that a value is of, changed or in parts."""
    while not isinstance(value, ir.BlockArgument):
        op = value.owner
        at = {"scf.for": 3, "tensor.insert_slice": 1, "tensor.extract_slice": 0}.get(op.name)
        if op.name in VIEWS or (op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) == 1):
            at = 0
        if at is None:
            return value
        value = op.operands[at]
    return value


def _rewrite(nest: Nest, is_lasting: bool) -> None:
    """Claims positions where that is worth it, and stops writes where a position is wrong."""
    claims = nest.is_ordered and nest.is_long
    guards = (claims or is_lasting) and any(True for _ in _checks(nest))
    if not claims and not guards:
        return
    head, last = nest.loops[0], nest.write
    if nest.steps == 1:
        with ir.InsertionPoint(last), last.location:
            right = arith.XOrIOp(_wrong(nest), _constant(ir.IntegerType.get_signless(1), 1)).result
        return _allow(nest, right)
    kind = ir.IntegerType.get_signless(32 if nest.steps is not None and nest.steps < 1 << 31 else 64)
    with ir.InsertionPoint(head), head.location:
        sizes = [_size(head.operands[3], axis) for axis in nest.claimed] if claims else []
        end = _product(sizes) if claims else _index(0)
    with ir.InsertionPoint(last), last.location:
        wrong = _wrong(nest) if guards else None
        at = _number_of([nest.place[axis] for axis in nest.claimed], sizes) if claims else end
        if claims and wrong is not None:
            at = arith.SelectOp(wrong, end, at).result
        step = arith.IndexCastOp(kind, nest.step()).result
    claimed = _claim(nest, end, Claim(at, step, None if claims else wrong))
    with ir.InsertionPoint(last), last.location:
        mine = [_equal(tensor.ExtractOp(claimed, [at]).result, step)] if claims else []
        fine = [_equal(tensor.ExtractOp(claimed, [end]).result, _constant(kind, NOBODY))] if guards else []
        may = functools.reduce(lambda a, b: arith.AndIOp(a, b).result, [*mine, *fine])
    _allow(nest, may)
    for loop in nest.leading if claims else ():
        loop.attributes[ANY_ORDER] = ir.UnitAttr.get()


def _allow(nest: Nest, condition: ir.Value) -> None:
    """Has a nest write what is there where a condition does not hold."""
    with ir.InsertionPoint(nest.write), nest.write.location:
        old = tensor.ExtractOp(nest.carried, nest.place).result
        nest.write.operands[0] = arith.SelectOp(condition, nest.write.operands[0], old).result


@dataclass(frozen=True)
class Claim:
    """What a step notes: its number at a place, only `where` that is so."""

    at: ir.Value
    step: ir.Value
    where: ir.Value | None

    def write(self, cells: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
        """The cells with it; `values` are its values where that is written."""
        at = [values.get(self.at, self.at)]
        old = tensor.ExtractOp(cells, at).result
        new = arith.MaxSIOp(old, values[self.step]).result
        if self.where is not None:
            new = arith.SelectOp(values[self.where], new, old).result
        return tensor.InsertOp(new, cells, at).result


def _claim(nest: Nest, end: ir.Value, claim: Claim) -> ir.Value:
    """The last step at each place, and at place `end`, of a nest."""
    head, known = nest.loops[0], _known(end)
    needed = _needed(nest.write, [v for v in (claim.at, claim.step, claim.where) if v is not None])

    def write(steps: dict[ir.Value, ir.Value], cells: ir.Value) -> ir.Value:
        values = dict(steps)
        for op in needed:
            clone_with(op, values)
        return claim.write(cells, values)

    with ir.InsertionPoint(head), head.location:
        count = arith.AddIOp(end, _index(1)).result if known is None else known + 1
        cells = tensor.EmptyOp([count], claim.step.type).result
        return _loops(nest.leading, linalg.fill(_constant(claim.step.type, NOBODY), outs=[cells]), {}, write)


def _loops(loops: Sequence[ir.Operation], carried: ir.Value, steps: dict[ir.Value, ir.Value],
           write: Callable[[dict[ir.Value, ir.Value], ir.Value], ir.Value]) -> ir.Value:  # fmt: skip
    """Loops like others that carry a tensor through `write`, which gets their steps."""
    if not loops:
        return write(steps, carried)
    first, *rest = loops
    loop = scf.ForOp(*list(first.operands)[:3], [carried])
    with ir.InsertionPoint(loop.body):
        inner = {**steps, first.regions[0].blocks[0].arguments[0]: loop.induction_variable}
        scf.YieldOp([_loops(rest, loop.inner_iter_args[0], inner, write)])
    return loop.results[0]


def _checks(nest: Nest) -> Iterable[tuple[ir.Operation, ir.Operation | None]]:
    """The checks of where a nest writes: calls in it, and reads of tensors of positions that were checked before."""
    for op in _needed(nest.write, nest.place):
        if _is_check(op):
            yield op, None
        elif op.name == "tensor.extract" and not isinstance(op.operands[0], ir.BlockArgument):
            made = op.operands[0].owner
            if made.name == "linalg.generic" and len(made.results) == 1 and any(map(_is_check, _body(made))):
                yield op, made


def _is_check(op: ir.Operation) -> bool:
    return op.name == "func.call" and ir.FlatSymbolRefAttr(op.attributes["callee"]).value == CHECK_INDEX


def _body(generic: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in generic.regions[0].blocks[0].operations]


def _wrong(nest: Nest) -> ir.Value:
    """Whether the position of a step has failed its check; no position is less than 0 from then on."""
    found = list[ir.Value]()
    for op, made in list(_checks(nest)):
        if made is None:
            found.append(_differ(op.results[0], op.operands[0]))
            continue
        op.operands[0] = _marked(made)
        if not list(made.results[0].uses):
            made.erase()
        with ir.InsertionPoint(_after(op)), op.location:
            zero = _constant(op.results[0].type, 0)
            safe = arith.MaxSIOp(op.results[0], zero)
        op.results[0].replace_all_uses_except(safe.result, safe.operation)
        found.append(arith.CmpIOp(arith.CmpIPredicate.slt, op.results[0], zero).result)
    return functools.reduce(lambda a, b: arith.OrIOp(a, b).result, found)


def _marked(made: ir.Operation) -> ir.Value:
    """A tensor of checked positions with -1 for those that have failed."""
    with ir.InsertionPoint(made), made.location:
        copy = made.clone()
    *ops, last = _body(copy.operation)
    with ir.InsertionPoint(last), made.location:
        wrong = [_differ(op.results[0], op.operands[0]) for op in ops if _is_check(op)]
        bad = functools.reduce(lambda a, b: arith.OrIOp(a, b).result, wrong)
        given = last.operands[0]
        last.operands[0] = arith.SelectOp(bad, _constant(given.type, -1), given).result
    return copy.results[0]


def _after(op: ir.Operation) -> ir.Operation:
    ops = [o.operation for o in op.block.operations]
    return ops[ops.index(op) + 1]


def _number_of(place: Sequence[ir.Value], sizes: Sequence[ir.Value]) -> ir.Value:
    """The number of a place among those of some sizes, in row-major order."""
    at = place[0]
    for value, size in zip(place[1:], sizes[1:], strict=True):
        at = arith.AddIOp(arith.MulIOp(at, size).result, value).result
    return at


def _product(sizes: Sequence[ir.Value]) -> ir.Value:
    known = [_known(size) for size in sizes]
    if None not in known:
        return _index(functools.reduce(lambda a, b: a * (b or 0), known, 1))
    return functools.reduce(lambda a, b: arith.MulIOp(a, b).result, sizes)


def _size(target: ir.Value, axis: int) -> ir.Value:
    kind = ir.RankedTensorType(target.type)
    return tensor.DimOp(target, _index(axis)).result if kind.is_dynamic_dim(axis) else _index(kind.get_dim_size(axis))


def _equal(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.eq, a, b).result


def _differ(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.ne, a, b).result


def _index(number: int) -> ir.Value:
    return _constant(ir.IndexType.get(), number)


def _constant(kind: ir.Type, number: int) -> ir.Value:
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, number)).result
