"""Emitting contractions: matrix products, batched ones, convolutions, with what follows them.

    for a block of columns:                 the vector loop; this and chunks of rows are the parallel range
      panel = the right operand's block     packed once, contiguous, small enough for the L2 cache
      for a tile of rows:
        accumulators in registers           rows x vectors
        for k: broadcast left, load panel, multiply and add
        what follows, on the accumulators, and the only write of the result

The right operand is the one that the vector loop (the result's last dimension) walks; the left one has the rows.
Imports `nest` and what it uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Structure, Uncovered, Use, is_contraction
from oneflow.lowering.llvm import sums
from oneflow.lowering.llvm.body import Lanes, V, clone_scalar
from oneflow.lowering.llvm.combine import is_free_sum
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loops import Loop, Loops
from oneflow.lowering.llvm.nest import VECTOR_BITS, Nest
from oneflow.lowering.llvm.places import element_bits
from oneflow.lowering.llvm.sweeps import Sweep
from oneflow.lowering.llvm.writer import Index, Writer, view

#: Accumulators in registers: rows by vectors per row. 24 leave room for operands in 32 vector registers.
TILES = {4: 6, 2: 12, 1: 14}
#: Rows of one parallel step, at most.
ROWS = 240
#: Products of one running sum; see `sums`.
DEPTH = 512


def emit_contraction(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around one contraction.

    Raises:
        Uncovered: it has no rows or columns to make tiles of.
    """
    return Contraction(kernel, structure, "column").emit()


@dataclass
class Sides:
    """The body of a contraction taken apart: which input is left and right, and how each is widened."""

    node: Node
    left: int
    right: int
    factors: dict[int, ir.Value]
    element: str


def _sides(node: Node, vector: Loop, loops: Loops) -> Sides:
    """Which input the vector loop walks (right), and which not (left)."""
    ops = [o.operation for o in node.body.operations]
    product = next(o for o in ops if o.name in ("arith.mulf", "arith.muli"))
    total = next(o for o in ops if o.name in ("arith.addf", "arith.addi"))
    if product.results[0] not in list(total.operands):
        raise Uncovered("a product that is converted before it is added")
    factors = {_root(node, v): v for v in product.operands}
    walked = [vector.id in set().union(*(p.form.dims for p in loops.positions(node, u))) for u in node.inputs]
    if len(factors) != 2 or walked[0] == walked[1]:
        raise Uncovered("a contraction whose operands both have the columns")
    right = walked.index(True)
    return Sides(node, 1 - right, right, factors, str(product.results[0].type))


def _root(node: Node, value: ir.Value) -> int:
    """The number of the input that a factor comes from."""
    while not isinstance(value, ir.BlockArgument):
        value = value.owner.operands[0]
    return list(node.body.arguments).index(value)


@dataclass
class Contraction(Nest):
    """The emission of one contraction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.node = next(n for n in self.structure.nodes if is_contraction(n))
        assert self.vector is not None
        if not self.loops.inner:
            raise Uncovered("a contraction of one step")
        self.sides = _sides(self.node, self.vector, self.loops)
        self.rows = self._row_loop_of(self.sides.left)
        bits = element_bits(self.sides.element)
        self.width = VECTOR_BITS // bits
        self.vectors = self._vectors()
        self.tile = TILES[self.vectors]
        if isinstance(self.rows.size, int):
            self.tile = max(min(self.tile, self.rows.size), 1)
        self.chunk_rows = self._chunk_rows()
        self.block = self.width * self.vectors
        self.depth = self._depth(self.writer)
        sizes = [loop.size for loop in self.loops.inner]
        free = is_free_sum(self.node, 0)
        self.cascade = sums.cascade(sizes, [1] * len(sizes), DEPTH) if free else None

    def _row_loop_of(self, left: int) -> Loop:
        walked = set().union(*(p.form.dims for p in self.loops.positions(self.node, self.node.inputs[left])))
        right = self.loops.positions(self.node, self.node.inputs[self.sides.right])
        shared = set().union(*(p.form.dims for p in right))
        rows = [loop for loop in self.loops.outer if loop.id in walked - shared]
        if not rows:
            raise Uncovered("a contraction without rows")
        return max(rows, key=lambda loop: loop.size if isinstance(loop.size, int) else 1 << 30)

    def _vectors(self) -> int:
        assert self.vector is not None and self.width is not None
        if not isinstance(self.vector.size, int):
            return 4
        return next((v for v in (1, 2) if self.vector.size <= v * self.width), 4)

    def _chunk_rows(self) -> int:
        if not isinstance(self.rows.size, int):
            return ROWS // self.tile * self.tile
        tiles = max(math.ceil(self.rows.size / self.tile), 1)
        chunks = max(math.ceil(self.rows.size / ROWS), 1)
        return math.ceil(tiles / chunks) * self.tile

    def _depth(self, writer: Writer) -> Index:
        with writer.buffered() as lines:
            depth = writer.product([loop.size for loop in self.loops.inner])
        writer.head.extend(lines)
        return depth

    def _others(self, loops: Loops) -> list[Loop]:
        taken = {self.rows.id, self.vector.id if self.vector else -1}
        return [loop for loop in loops.outer if loop.id not in taken]

    def _factors(self, writer: Writer, loops: Loops) -> list[Index]:
        """The sizes whose product is the parallel range: other loops, chunks of rows, blocks of columns."""
        sizes = {loop.id: loop.size for loop in loops.outer}
        assert self.vector is not None
        chunks = writer.ceildiv(sizes[self.rows.id], self.chunk_rows)
        blocks = writer.ceildiv(sizes[self.vector.id], self.block)
        return [*(loop.size for loop in self._others(loops)), blocks, chunks]

    def emit(self) -> str:
        """The kernel's function and its launch."""
        w = self.writer
        with w.buffered() as lines:
            factors = self._factors(w, self.loops)
        w.head.extend(lines)
        self.panel = self._panel() if self._packs() else None
        with w.buffered() as body, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            self._unit(factors)
        return "\n".join([self.function_text(body), self._launch(0)])

    def _launch(self, chunk: int) -> str:
        w = Writer()
        loops = Loops(self.kernel, self.structure, w)
        count = w.product(self._factors(w, loops))
        depth = self.depth if isinstance(self.depth, int) else 256
        return launch_text(self.kernel, w, count, self.chunk_rows * self.block * depth // 8, w.lines)

    def _packs(self) -> bool:
        """Whether the right operand is copied into a panel: not where each element is used by one tile."""
        few = isinstance(self.rows.size, int) and self.rows.size <= self.tile
        return not few or not self._adjacent_columns()

    def _adjacent_columns(self) -> bool:
        assert self.vector is not None
        positions = self.loops.positions(self.node, self.node.inputs[self.sides.right])
        walking = [i for i, p in enumerate(positions) if self.vector.id in p.form.dims]
        return walking == [len(positions) - 1] and dict(positions[-1].form.terms)[self.vector.id] == 1

    def _panel(self) -> tuple[str, str]:
        with self.writer.buffered() as lines:
            size = self.writer.mul(self.depth, self.block * max(element_bits(self.sides.element) // 8, 1))
            call = f"func.call @oneflow_rt_temporary({self.writer.index(size)}) : (index) -> memref<1xi8>"
            self.scratch.append(self.writer.op(call))
            panel = view(self.writer, self.scratch[-1], [self.depth, self.block], self.sides.element)
        self.writer.head.extend(lines)
        return panel

    def _unit(self, factors: Sequence[Index]) -> None:
        """One step of the parallel range: a block of columns and a chunk of rows."""
        w = self.writer
        *others, block, chunk = self.digits(factors)
        self.position = {loop.id: d for loop, d in zip(self._others(self.loops), others, strict=True)}
        self.column = w.mul(block, self.block)
        self.masks = self._masks()
        if self.panel is not None:
            self._pack()
        begin = w.mul(chunk, self.chunk_rows)
        end: Index = w.binary("minui", w.add(begin, self.chunk_rows), self.rows.size)
        if isinstance(self.rows.size, int) and self.rows.size <= self.chunk_rows:
            begin, end = 0, self.rows.size
        self._tiles(begin, end)

    def _masks(self) -> list[str | None]:
        """The columns in use, by vector; None where all always are."""
        assert self.vector is not None
        w, size = self.writer, self.vector.size
        if isinstance(size, int) and size % self.block == 0:
            return [None] * self.vectors
        rest = w.binary("subi", size, self.column)
        masks: list[str | None] = []
        for v in range(self.vectors):
            left = rest if v == 0 else w.binary("subi", rest, v * (self.width or 1))
            masks.append(w.op(f"vector.create_mask {left} : vector<{self.width}xi1>"))
        return masks

    def _lanes(self, v: int) -> Lanes:
        """Vector `v` of the block; moves the position of the vector loop there."""
        assert self.vector is not None and self.width is not None
        self.position[self.vector.id] = self.writer.add(self.column, v * self.width)
        return Lanes(self.writer, self.kernel, self.width, self.masks[v], None, self._scalars)

    def _scalar_lanes(self) -> Lanes:
        return Lanes(self.writer, self.kernel, None, captured=self._scalars)

    def _over_depth(self, step: Callable[[], None], number: int = 0) -> None:
        """Loops over the contracted positions."""
        if number == len(self.loops.inner):
            step()
            return
        loop = self.loops.inner[number]

        def inside(iv: str, values: list[V]) -> list[V]:
            self.position[loop.id] = iv
            self._over_depth(step, number + 1)
            return []

        self._loop(0, loop.size, 1, [], inside, self._scalar_lanes())

    def _pack(self) -> None:
        use = self.node.inputs[self.sides.right]
        assert self.panel is not None
        panel, kind = self.panel
        if not self._adjacent_columns():
            self._pack_apart(use)
            return

        def step() -> None:
            flat = self.writer.index(self._flat())
            for v in range(self.vectors):
                lanes = self._lanes(v)
                value = self._widened(self.sides.right, self._load_input(use, lanes), lanes)
                at = f"{panel}[{flat}, {self.writer.index(v * (self.width or 1))}]"
                self.writer.line(f"vector.store {value.name}, {at} : {kind}, {lanes.type(value.element)}")

        self._over_depth(step)

    def _pack_apart(self, use: Use) -> None:
        """Packs a right operand whose columns lie apart, element by element; columns outside repeat the last."""
        assert self.panel is not None and self.vector is not None
        panel, kind = self.panel
        w, vector, lanes = self.writer, self.vector, self._scalar_lanes()

        def column(iv: str, values: list[V]) -> list[V]:
            last = w.binary("subi", vector.size, 1)
            self.position[vector.id] = w.binary("minui", w.add(self.column, iv), last)

            def step() -> None:
                value = self._widened(self.sides.right, self._load_input(use, lanes), lanes)
                w.line(f"memref.store {value.name}, {panel}[{w.index(self._flat())}, {iv}] : {kind}")

            self._over_depth(step)
            return []

        self._loop(0, self.block, 1, [], column, lanes)

    def _load_input(self, use: Use, lanes: Lanes) -> V:
        tensor = self.kernel.tensors.get(use.value)
        if tensor is None:
            raise Uncovered("a contraction of a value of the kernel")
        return self._load(self.node, use, tensor, lanes)

    def _widened(self, number: int, value: V, lanes: Lanes) -> V:
        """An input's element as it is multiplied."""
        chain: list[ir.Operation] = []
        factor = self.sides.factors[number]
        while not isinstance(factor, ir.BlockArgument):
            chain.append(factor.owner)
            factor = factor.owner.operands[0]
        for op in reversed(chain):
            value = clone_scalar(op, [value], lanes)
        return value

    def _tiles(self, begin: Index, end: Index) -> None:
        """Tiles of rows; what is left over is one smaller tile, or single rows where the count is dynamic."""
        w, size = self.writer, self.rows.size
        middle: Index = end
        rest = size % self.tile if isinstance(size, int) else 1
        if rest:
            span = w.binary("subi", end, begin) if not (isinstance(end, int) and begin == 0) else end
            whole = w.floor_to(span, self.tile)
            middle = w.add(begin, whole)
        for first, last, rows in ((begin, middle, self.tile), (middle, end, rest)):
            if rows and first != last:
                self._tile_loop(first, last, rows)

    def _tile_loop(self, first: Index, last: Index, rows: int) -> None:
        def tile(iv: str, values: list[V]) -> list[V]:
            self._tile(iv, rows)
            return []

        self._loop(first, last, rows, [], tile, self._scalar_lanes())

    def _tile(self, row: str, rows: int) -> None:
        w = self.writer
        at = [w.add(row, r) for r in range(rows)]
        inits = []
        for r in range(rows):
            self.position[self.rows.id] = at[r]
            inits += [self._initial(self.node, 0, self._lanes(v)) for v in range(self.vectors)]
        self.tile_rows, keys = at, [(self.node, 0)] * len(inits)
        summed = list(range(len(inits))) if self.cascade else []
        totals = self._accumulate(Sweep([self.node], keys, self._scalar_lanes(), summed, self.cascade), inits)
        for r in range(rows):
            self.position[self.rows.id] = at[r]
            for v in range(self.vectors):
                self._follow(totals[r * self.vectors + v], self._lanes(v))

    def _flat(self) -> Index:
        """The number of the current step of the depth."""
        flat: Index = 0
        for loop in self.loops.inner:
            flat = self.writer.add(self.writer.mul(flat, loop.size), self.position[loop.id])
        return flat

    def _points(self, sweep: Sweep, lanes: Lanes, carried: list[V]) -> list[V]:
        """One step of the depth for a tile."""
        flat = self._flat() if self.panel is not None else 0
        right = [self._right(flat, v) for v in range(self.vectors)]
        left, lanes, after = self.node.inputs[self.sides.left], self._scalar_lanes(), []
        for r, row in enumerate(self.tile_rows):
            self.position[self.rows.id] = row
            factor = self._widened(self.sides.left, self._load_input(left, lanes), lanes)
            kind = f"vector<{self.width}x{factor.element}>"
            spread = self.writer.op(f"vector.broadcast {factor.name} : {factor.element} to {kind}")
            for v, other in enumerate(right):
                after.append(self._multiply_add(spread, other, carried[r * self.vectors + v], kind))
        return after

    def _right(self, flat: Index, v: int) -> str:
        lanes = self._lanes(v)
        if self.panel is None:
            value = self._load_input(self.node.inputs[self.sides.right], lanes)
            return self._widened(self.sides.right, value, lanes).name
        panel, kind = self.panel
        at = f"{panel}[{self.writer.index(flat)}, {self.writer.index(v * (self.width or 1))}]"
        return self.writer.op(f"vector.load {at} : {kind}, vector<{self.width}x{self.sides.element}>")

    def _multiply_add(self, a: str, b: str, total: V, kind: str) -> V:
        if self.sides.element[0] in "fb":
            return V(self.writer.op(f"math.fma {a}, {b}, {total.name} : {kind}"), total.element, True)
        product = self.writer.op(f"arith.muli {a}, {b} : {kind}")
        return V(self.writer.op(f"arith.addi {product}, {total.name} : {kind}"), total.element, True)

    def _follow(self, total: V, lanes: Lanes) -> None:
        """Writes a finished vector, after what the kernel does with it."""
        self.held = {}
        for node in self.structure.nodes:
            if node is self.node:
                self._finish(node, 0, total, lanes)
            else:
                self._point(node, lanes, {})
