"""Kernels of `scf.for` nests that update a tensor in place: scatters.

A loop is parallel if its position is a coordinate of every access to the tensor, or if its steps may run in any
order. All loops are parallel if the update may be atomic, such as an addition. Other loops run in order in each
program, with a barrier after each write. An update that keeps the old value where a condition is false is a masked
write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.linalg.emit import ANY_ORDER
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.block_shape import warps_for
from oneflow.lowering.triton.codegen.body import BodyEmitter
from oneflow.lowering.triton.codegen.emission import fill_literal, make_source, program_id
from oneflow.lowering.triton.codegen.kernel import Kernel
from oneflow.lowering.triton.codegen.tile import Axis, Tile
from oneflow.lowering.triton.codegen.writer import Axes, Value, Writer
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.symbolic_sizes import Size, TileCount, power_of_two, product

#: The atomic function and the element types of atomic updates.
ATOMIC = {
    "arith.addf": ("tl.atomic_add", {"f32", "f64"}), "arith.addi": ("tl.atomic_add", {"i32", "i64"}),
    "arith.maxsi": ("tl.atomic_max", {"i32", "i64"}),
}  # fmt: skip


@dataclass
class ScatterNest:
    """Emits one nest; floating-point atomics are not `deterministic`.

    Attributes:
        carried: the values of the updated tensor.
        accesses: the reads and writes of the tensor.
        nest: the loops, outermost first.
        depth: the number of open sequential loops.
    """

    kernel: Kernel
    deterministic: bool
    carried: set[ir.Value] = field(default_factory=set)
    accesses: list[ir.Operation] = field(default_factory=list)
    nest: list[ir.Operation] = field(default_factory=list)
    depth: int = 0

    def __post_init__(self) -> None:
        heads = [o for o in self.kernel.ops if o.name == "scf.for"]
        if len(heads) != 1 or len(self.kernel.returned) != 1 or self.kernel.returned[0].owner != heads[0]:
            raise Unsupported("a loop among other operations")
        self.head = heads[0]
        self.updated = list(self.head.operands)[3]
        self.fills = {} if self.updated in self.kernel.tensors else {0: _fill_literal(self.updated)}
        self.target = self.kernel.tensor(self.kernel.destinations[0])
        self._explore(self.head)
        self.update = Update.read([o for o in self.accesses if o.name == "tensor.insert"], self.accesses)

    def _explore(self, loop: ir.Operation) -> None:
        if len(loop.results) != 1:
            raise Unsupported("a loop that carries more than a tensor")
        self.nest.append(loop)
        block = loop.regions[0].blocks[0]
        self.carried.add(block.arguments[1])
        for view in block.operations:
            op = view.operation
            if op.name == "scf.for":
                self._explore(op)
            elif op.name in ("tensor.extract", "tensor.insert"):
                tensor = op.operands[0 if op.name == "tensor.extract" else 1]
                if op.name == "tensor.insert" or tensor in self.carried:
                    self.accesses.append(op)
                if op.name == "tensor.insert":
                    self.carried.add(op.results[0])
            elif len(op.regions):
                raise Unsupported(op.name)

    def emit(self) -> Source:
        """The source of the kernel."""
        self.atomic = self._atomic()
        parallel = self.nest if self.atomic is not None else [loop for loop in self.nest if self._is_parallel(loop)]
        sizes = {i: self._count(loop) for i, loop in enumerate(parallel)}
        count = product(sizes.values())
        limits = gpu_target().kernels.blocks
        block = limits.scatter if count.static is None else min(limits.scatter, power_of_two(count.static))
        axis = Axis("x", list(sizes), block, f"{program_id(self.kernel)} * {block}", scalar=not parallel)
        writer = Writer()
        self.tile = Tile(self.kernel, writer, [axis], sizes, [], set(sizes))
        self.tile.emit_axis(axis)
        self.bodies = _ScatterBodyEmitter(self.tile, loops=self)
        for value in self.carried:
            self.kernel.tensors[value] = self.target
        self.parallel_positions = {loop: self.tile.position(i) for i, loop in enumerate(parallel)}
        self.sequential = len(parallel) < len(self.nest)
        self._loop(self.head, {})
        grid = TileCount.of(count, block) if parallel else TileCount.of(1)
        updates = {} if self.fills else {0: list(self.kernel.block.arguments).index(self.updated)}
        warps = warps_for(block // limits.scatter_per_thread)
        return make_source(self.kernel, writer, [self.head], grid, warps, updates=updates, fills=self.fills)

    def _atomic(self) -> ir.Operation | None:
        """The operation of the update, if the target has it as an atomic and the nest has no other access."""
        op = None if self.update is None else self.update.operation
        if self.update is None or op is None or op.name not in ATOMIC:
            return None
        if self.target.element not in ATOMIC[op.name][1] or (self.target.element[0] == "f" and self.deterministic):
            return None
        return op if self.update.is_exclusive else None

    def _is_parallel(self, loop: ir.Operation) -> bool:
        """Whether the steps of a loop access different elements, or may run in any order."""
        if ANY_ORDER in loop.attributes:
            return True
        step = loop.regions[0].blocks[0].arguments[0]
        positions = [list(o.operands)[1 if o.name == "tensor.extract" else 2 :] for o in self.accesses]
        rank = len(self.target.shape)
        return any(all(p[axis] == step for p in positions) for axis in range(rank))

    def _count(self, loop: ir.Operation) -> Size:
        low, high, step = (self.kernel.size(v) for v in list(loop.operands)[:3])
        if low != Size() or step != Size.of(1):
            raise Unsupported("a loop that does not count from 0 by 1")
        return high

    def _loop(self, loop: ir.Operation, env: dict[ir.Value, Value]) -> None:
        block = loop.regions[0].blocks[0]
        if loop in self.parallel_positions:
            self._block(block, {**env, block.arguments[0]: self.parallel_positions[loop]})
            return
        self.depth += 1
        axes, at = frozenset({f"loop{self.depth}"}), f"at{self.depth}"
        self.bodies.writer.open(axes)
        step = self.bodies.writer.define(f"{at} + tl.full((), 0, tl.int64)", "index", axes)
        self._block(block, {**env, block.arguments[0]: step})
        self.bodies.writer.close(f"for {at} in range(0, {self._count(loop)}):")
        self.depth -= 1

    def _block(self, block: ir.Block, env: dict[ir.Value, Value]) -> None:
        for view in block.operations:
            op = view.operation
            if op.name == "scf.for":
                self._loop(op, env)
            elif op.name == "tensor.insert":
                self._insert(op, env)
            elif op.name != "scf.yield" and not self._is_part_of_update(op):
                read = list(op.operands)[1:] if op.name == "tensor.extract" else list(op.operands)
                env[op.results[0]] = self.bodies.op(op, [self.bodies.value(env, v) for v in read])

    def _is_part_of_update(self, op: ir.Operation) -> bool:
        """Whether an operation is written as a part of the update."""
        if self.update is None:
            return False
        is_update = self.atomic is not None and (op == self.atomic or op in self.accesses)
        return is_update or op in self.update.conditional

    def _insert(self, op: ir.Operation, env: dict[ir.Value, Value]) -> None:
        value, condition = op.operands[0], None
        if self.update is not None:
            value, condition = self.update.value, self.update.condition
        if self.atomic is not None:
            value = next(v for v in self.atomic.operands if v.owner not in self.accesses)
        added = self.bodies.value(env, value)
        allowed = [] if condition is None else [self.bodies.value(env, condition)]
        positions = [self.bodies.value(env, v) for v in list(op.operands)[2:]]
        axes = frozenset[str]().union(*(p.axes for p in (*positions, *allowed)), added.axes)
        parts = [f"{p.name} * {s.factor}" for p, s in zip(positions, self.target.strides, strict=True)]
        if not any(p.axes for p in positions):  # all lanes write to one address
            parts += [f"{lane.name} * 0" for lane in self.parallel_positions.values() if lane.axes & axes][:1]
        pointer = self.bodies.writer.address(self.target.name)
        address, inside = f"{pointer} + {' + '.join(parts) or '0'}", self.tile.mask(axes)
        mask = " & ".join([*([inside] if inside else []), *(a.name for a in allowed)])
        name = f"{added.name}.to(tl.int8)" if self.target.element == "i1" else added.name
        call = "tl.store" if self.atomic is None else ATOMIC[self.atomic.name][0]
        self.bodies.writer.line(f"{call}({address}, {name}{', ' + mask if mask else ''})")
        self._barrier()

    def _barrier(self) -> None:
        """Makes a write visible to later reads."""
        writer = self.bodies.writer
        if self.sequential:
            writer.line("tl.debug_barrier()")
        writer.invalidate_loads(self.target.name)

    @property
    def loop_axes(self) -> Axes:
        """The axes of the open sequential loop."""
        return frozenset({f"loop{self.depth}"}) if self.depth else frozenset()


@dataclass(frozen=True)
class Update:
    """The write of a nest that has one.

    Attributes:
        value: the value that is written.
        condition: the condition of the write; None for an unconditional write.
        conditional: the operations that keep the old value where the condition is false.
        reads: the reads of the old value.
        has_other_reads: whether the tensor is read at other positions.
    """

    value: ir.Value
    condition: ir.Value | None
    conditional: frozenset[ir.Operation]
    reads: Sequence[ir.Operation]
    has_other_reads: bool

    @staticmethod
    def read(inserts: Sequence[ir.Operation], accesses: Sequence[ir.Operation]) -> Update | None:
        """The update of a nest, None for several writes."""
        if len(inserts) != 1:
            return None
        value, position = inserts[0].operands[0], list(inserts[0].operands)[2:]
        reads = [o for o in accesses if o.name == "tensor.extract"]
        own_reads = [o for o in reads if list(o.operands)[1:] == position]
        has_other_reads = len(own_reads) < len(reads)
        select = None if isinstance(value, ir.BlockArgument) else value.owner
        if select is None or select.name != "arith.select" or select.operands[2].owner not in own_reads:
            return Update(value, None, frozenset(), own_reads, has_other_reads)
        idle = [o for o in own_reads if all(u.owner.operation == select for u in o.results[0].uses)]
        return Update(select.operands[1], select.operands[0], frozenset([select, *idle]), own_reads, has_other_reads)

    @property
    def operation(self) -> ir.Operation | None:
        """The operation that combines the old value with another value, None without such an operation."""
        if isinstance(self.value, ir.BlockArgument):
            return None
        op = self.value.owner
        return op if sum(v.owner in self.reads for v in op.operands) == 1 else None

    @property
    def is_exclusive(self) -> bool:
        """Whether the old value is used by the update alone."""
        own = {*self.conditional, self.operation}
        users = [u.owner.operation for o in self.reads for u in o.results[0].uses]
        return not self.has_other_reads and all(op in own for op in users)


def _fill_literal(value: ir.Value) -> str:
    """The literal that a tensor of a kernel is filled with."""
    literal = fill_literal(value)
    if literal is None:
        raise Unsupported("a loop over a value of the kernel")
    return literal


@dataclass
class _ScatterBodyEmitter(BodyEmitter):
    """Writes reads of the updated tensor in their loop: such reads are not loop-invariant."""

    loops: ScatterNest = field(kw_only=True)

    def _extract(self, op: ir.Operation, positions: list[Value]) -> Value:
        if op.operands[0] not in self.loops.carried:
            return super()._extract(op, positions)
        return super()._extract(op, [Value(p.name, p.element, p.axes | self.loops.loop_axes) for p in positions])
