"""Kernels of `scf.for` nests that update a tensor in place: scatters.

A loop whose position is a coordinate of every access to the tensor runs in parallel, and one whose steps may come in
any order; so do all where the update is an addition and may be atomic. Other loops run in order in each program, with
a barrier after each write. Imports `tile`, `body`, `finish`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Uncovered
from oneflow.lowering.linalg.emit import ANY_ORDER
from oneflow.lowering.triton.body import Bodies
from oneflow.lowering.triton.finish import filled_with, finish_ops, program_id
from oneflow.lowering.triton.kernel import Kernel
from oneflow.lowering.triton.shape import warps_of
from oneflow.lowering.triton.sizes import Size, power_of_two, product
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.tile import Axis, Tile
from oneflow.lowering.triton.writer import Axes, V, Writer

#: Additions that memory can do, by element type.
ATOMIC = frozenset({"i32", "i64", "f32", "f64"})
BLOCK = 256


@dataclass
class Loops:
    """Emits one nest."""

    kernel: Kernel
    deterministic: bool
    carried: set[ir.Value] = field(default_factory=set)
    accesses: list[ir.Operation] = field(default_factory=list)
    nest: list[ir.Operation] = field(default_factory=list)
    depth: int = 0

    def __post_init__(self) -> None:
        heads = [o for o in self.kernel.ops if o.name == "scf.for"]
        if len(heads) != 1 or len(self.kernel.returned) != 1 or self.kernel.returned[0].owner != heads[0]:
            raise Uncovered("loops beside others")
        self.head = heads[0]
        self.updated = list(self.head.operands)[3]
        self.fills = {} if self.updated in self.kernel.tensors else {0: _fill(self.updated)}
        self.target = self.kernel.tensor(self.kernel.destinations[0])
        self._explore(self.head)

    def _explore(self, loop: ir.Operation) -> None:
        if len(loop.results) != 1:
            raise Uncovered("a loop that carries more than a tensor")
        self.nest.append(loop)
        block = loop.regions[0].blocks[0]
        self.carried.add(block.arguments[1])
        for view in block.operations:
            op = view.operation
            if op.name == "scf.for":
                self._explore(op)
            elif op.name in ("tensor.extract", "tensor.insert"):
                which = op.operands[0 if op.name == "tensor.extract" else 1]
                if op.name == "tensor.insert" or which in self.carried:
                    self.accesses.append(op)
                if op.name == "tensor.insert":
                    self.carried.add(op.results[0])
            elif len(op.regions):
                raise Uncovered(op.name)

    def emit(self) -> Source:
        """The source of the kernel."""
        addition = self._addition()
        parallel = self.nest if addition is not None else [loop for loop in self.nest if self._independent(loop)]
        sizes = {i: self._count(loop) for i, loop in enumerate(parallel)}
        count = product(sizes.values())
        block = BLOCK if count.static is None else min(BLOCK, power_of_two(count.static))
        axis = Axis("x", list(sizes), block, f"{program_id(self.kernel)} * {block}", scalar=not parallel)
        writer = Writer()
        self.tile = Tile(self.kernel, writer, [axis], sizes, [], set(sizes))
        self.tile.place(axis)
        self.bodies = _Bodies(self.tile, loops=self)
        for value in self.carried:
            self.kernel.tensors[value] = self.target
        ivs = {loop: self.tile.position(i) for i, loop in enumerate(parallel)}
        self.sequential = len(parallel) < len(self.nest)
        self._loop(self.head, ivs, {}, addition)
        grid = "1" if not parallel else f"cdiv({count}, {block})"
        grid = str(-(-count.static // block)) if parallel and count.static is not None else grid
        updates = {} if self.fills else {0: list(self.kernel.block.arguments).index(self.updated)}
        warps = warps_of(block // 2)
        return finish_ops(self.kernel, writer, [self.head], grid, warps, updates=updates, fills=self.fills)

    def _addition(self) -> ir.Operation | None:
        """The addition that may be atomic, if the nest does nothing else to the tensor."""
        inserts = [o for o in self.accesses if o.name == "tensor.insert"]
        extracts = [o for o in self.accesses if o.name == "tensor.extract"]
        if len(inserts) != 1 or len(extracts) != 1 or isinstance(inserts[0].operands[0], ir.BlockArgument):
            return None
        op, read = inserts[0].operands[0].owner, extracts[0].results[0]
        if op.name not in ("arith.addf", "arith.addi") or list(op.operands).count(read) != 1:
            return None
        if self.target.element not in ATOMIC or (self.target.element[0] == "f" and self.deterministic):
            return None
        same = list(inserts[0].operands)[2:] == list(extracts[0].operands)[1:]
        used_once = len(list(read.uses)) == 1
        return op if same and used_once else None

    def _independent(self, loop: ir.Operation) -> bool:
        """Whether steps of a loop touch different elements."""
        if ANY_ORDER in loop.attributes:
            return True
        step = loop.regions[0].blocks[0].arguments[0]
        positions = [list(o.operands)[1 if o.name == "tensor.extract" else 2 :] for o in self.accesses]
        rank = len(self.target.shape)
        return any(all(p[axis] == step for p in positions) for axis in range(rank))

    def _count(self, loop: ir.Operation) -> Size:
        low, high, step = (self.kernel.size(v) for v in list(loop.operands)[:3])
        if low != Size() or step != Size.of(1):
            raise Uncovered("a loop that does not count from 0 by 1")
        return high

    def _loop(self, loop: ir.Operation, ivs: dict[ir.Operation, V], env: dict[ir.Value, V],
              addition: ir.Operation | None) -> None:  # fmt: skip
        block = loop.regions[0].blocks[0]
        if loop in ivs:
            self._block(block, {**env, block.arguments[0]: ivs[loop]}, ivs, addition)
            return
        self.depth += 1
        axes, at = frozenset({f"loop{self.depth}"}), f"at{self.depth}"
        self.bodies.writer.open(axes)
        step = self.bodies.writer.define(f"{at} + tl.full((), 0, tl.int64)", "index", axes)
        self._block(block, {**env, block.arguments[0]: step}, ivs, addition)
        self.bodies.writer.close(f"for {at} in range(0, {self._count(loop)}):")
        self.depth -= 1

    def _block(self, block: ir.Block, env: dict[ir.Value, V], ivs: dict[ir.Operation, V],
               addition: ir.Operation | None) -> None:  # fmt: skip
        for view in block.operations:
            op = view.operation
            if op.name == "scf.for":
                self._loop(op, ivs, env, addition)
            elif op.name == "tensor.insert":
                self._insert(op, env, addition)
            elif op.name != "scf.yield" and not self._replaced(op, addition):
                read = list(op.operands)[1:] if op.name == "tensor.extract" else list(op.operands)
                env[op.results[0]] = self.bodies.op(op, [self.bodies.value(env, v) for v in read])

    def _replaced(self, op: ir.Operation, addition: ir.Operation | None) -> bool:
        """Whether an operation is part of an atomic addition."""
        return addition is not None and (op == addition or op in self.accesses)

    def _insert(self, op: ir.Operation, env: dict[ir.Value, V], addition: ir.Operation | None) -> None:
        value = op.operands[0]
        if addition is not None:
            value = next(v for v in addition.operands if v.owner not in self.accesses)
        added = self.bodies.value(env, value)
        positions = [self.bodies.value(env, v) for v in list(op.operands)[2:]]
        axes = frozenset[str]().union(*(p.axes for p in positions), added.axes)
        parts = [f"{p.name} * {s.factor}" for p, s in zip(positions, self.target.strides, strict=True)]
        place, mask = f"{self.target.name} + {' + '.join(parts) or '0'}", self.tile.mask(axes)
        name = f"{added.name}.to(tl.int8)" if self.target.element == "i1" else added.name
        call = "tl.store" if addition is None else "tl.atomic_add"
        self.bodies.writer.line(f"{call}({place}, {name}{', ' + mask if mask else ''})")
        self._settle()

    def _settle(self) -> None:
        """Makes a write visible to the reads after it."""
        writer = self.bodies.writer
        if self.sequential:
            writer.line("tl.debug_barrier()")
        for scope in writer.scopes:
            scope.known = {k: v for k, v in scope.known.items() if f"tl.load({self.target.name} " not in k}

    @property
    def here(self) -> Axes:
        """The axes of the loop that is being written."""
        return frozenset({f"loop{self.depth}"}) if self.depth else frozenset()


def _fill(value: ir.Value) -> str:
    """The number that a tensor of a kernel is filled with."""
    found = filled_with(value)
    if found is None:
        raise Uncovered("a loop over a value of the kernel")
    return found


@dataclass
class _Bodies(Bodies):
    """Bodies whose reads of the updated tensor stay where they are."""

    loops: Loops = field(kw_only=True)

    def _extract(self, op: ir.Operation, positions: list[V]) -> V:
        if op.operands[0] not in self.loops.carried:
            return super()._extract(op, positions)
        return super()._extract(op, [V(p.name, p.element, p.axes | self.loops.here) for p in positions])
