"""Contractions: the micro-kernel of matrix products, batched products and convolutions, with their epilogues.

    for a block of columns:                 the vector loop; column blocks and row chunks are the parallel range
      panel = the right operand's block     packed once, contiguous, small enough for the L2 cache
      for a tile of rows:
        accumulators in registers           rows x vectors
        for k: broadcast left, load panel, multiply and add
        epilogue on the accumulators, and the only write of the result

The vector loop (the last dimension of the result) walks the right operand; the left operand has the rows. The depth
is the reduced dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm import sums
from oneflow.lowering.llvm.body import Lanes, LaneValue
from oneflow.lowering.llvm.combine import is_reassociable_sum
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loop_emitter import Sweep
from oneflow.lowering.llvm.loop_nest import in_result_order
from oneflow.lowering.llvm.loops import Loop, Loops
from oneflow.lowering.llvm.panels import PackedContraction
from oneflow.lowering.llvm.writer import Index, Writer
from oneflow.lowering.targets.cpu import CpuTarget

#: The length of a running sum in products; see `sums`.
SUM_BLOCK = 512


def emit_contraction(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around one contraction, as MLIR text.

    Raises:
        Unsupported: the contraction has no rows or columns to make tiles of.
    """
    return Contraction(kernel, in_result_order(structure), "column").emit()


def register_tiles(target: CpuTarget, reloads_sums: bool = False) -> dict[int, int]:
    """The register tiles of a target: rows by the number of vectors in a row, widest first.

    Accumulators fill at most three quarters of the registers. The others hold the right operand's vectors and, unless
    an instruction broadcasts from memory, an element of the left operand; a single row reads both operands from
    memory. A tile that reloads its sums for every few steps has a row less on targets without fused instructions,
    whose products need registers before they are added.
    """
    registers, tiles = target.vector_registers, {}
    for vectors in (16, 8, 4, 2, 1):
        rows = min(registers * 3 // 4, registers - vectors - (not target.has_masks)) // vectors
        rows -= reloads_sums and not target.has_fma
        if rows > 1 or vectors <= registers // 2:
            tiles[vectors] = min(max(rows, 1), target.kernels.contractions.max_tile_rows)
    return tiles


def best_tile(tiles: Mapping[int, int]) -> int:
    """The vectors per row of the tile with the most multiplications per element read."""
    return min(tiles, key=lambda vectors: 1 / vectors + 1 / tiles[vectors])


@dataclass
class Contraction(PackedContraction):
    """The emission of one contraction."""

    #: Whether a tile loads and stores its sums for every few steps of the depth.
    reloads_sums: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limits = self.kernel.target.kernels.contractions
        self.row_loops = self._find_row_loops()
        names = self.row_loops[0].names if self.row_loops else ()
        self.rows = Loop(names, self.writer.product([loop.size for loop in self.row_loops]))
        bits = element_bits(self.operands.element)
        self.width = self.kernel.target.vector_bits // bits
        self.tiles = register_tiles(self.kernel.target, self.reloads_sums)
        self.vectors = self._vectors()
        self.tile = self.tiles[self.vectors]
        if isinstance(self.rows.size, int):
            # Tiles of nearly equal size: a small last tile would be bound by the latency of its sums.
            self.tile = max(math.ceil(self.rows.size / max(math.ceil(self.rows.size / self.tile), 1)), 1)
        self.block = self.width * self.vectors
        self.chunk_rows = self._chunk_rows()
        sizes = [loop.size for loop in self.loops.inner]
        free = is_reassociable_sum(self.node, 0)
        self.cascade = sums.cascade(sizes, [1] * len(sizes), SUM_BLOCK) if free else None

    def _find_row_loops(self) -> list[Loop]:
        """The loops that together are the rows: all row loops if their sizes are static, else the longest."""
        rows = self._row_loops()
        if not rows:
            raise Unsupported("a contraction without rows")
        if all(isinstance(loop.size, int) for loop in rows):
            return rows
        return [max(rows, key=lambda loop: loop.size if isinstance(loop.size, int) else 1 << 30)]

    def _row_positions(self, row: Index) -> dict[int, Index]:
        """The positions of the row loops at a row."""
        positions: dict[int, Index] = {}
        for loop in reversed(self.row_loops[1:]):
            positions[loop.id] = self.writer.binary("remui", row, loop.size)
            row = self.writer.binary("divui", row, loop.size)
        return positions | {loop.id: row for loop in self.row_loops[:1]}

    def _vectors(self) -> int:
        """Vectors in a row of the tile: no more than columns fill; a wide tile where all rows fit in one tile."""
        rows, columns = self.rows.size, self.columns.size
        widest, best = max(self.tiles), best_tile(self.tiles)
        single_tile = [v for v in self.tiles if v > 1 and isinstance(rows, int) and rows <= self.tiles[v]] or [best]
        fits = [v for v in (1, 2, 4) if isinstance(columns, int) and columns <= v * (self.width or 1)] or [widest]
        return min(single_tile[0], fits[0])

    def _chunk_rows(self) -> int:
        """Rows of one parallel step, a multiple of the tile. Each step packs a panel, so there are few chunks."""
        if not isinstance(self.rows.size, int):
            return self.limits.step_rows // self.tile * self.tile
        tiles = max(math.ceil(self.rows.size / self.tile), 1)
        chunks = max(math.ceil(self.rows.size / self.limits.step_rows), 1)
        others = self.writer.product([self.writer.ceildiv(self.columns.size, self.block), *self._batch_sizes()])
        if isinstance(others, int):
            wanted = math.ceil(self.limits.steps_per_core * self.kernel.target.cores / max(others, 1))
            chunks = min(chunks, max(wanted, self._cached_chunks(), 1))
        return math.ceil(tiles / chunks) * self.tile

    def _cached_chunks(self) -> int:
        """The chunks of rows of which each fits in half of the L3 cache: every block of columns reads them again."""
        if not isinstance(self.rows.size, int) or not isinstance(self.depth, int):
            return 1
        bits = element_bits(self.operands.element)
        return math.ceil(self.rows.size * self.depth * bits / 8 / (self.kernel.target.l3_bytes / 2))

    def _batch_sizes(self) -> list[Index]:
        return [loop.size for loop in self._batch_loops(self.loops)]

    def _batch_loops(self, loops: Loops) -> list[Loop]:
        """The outer loops that are neither rows nor columns."""
        used = {*(loop.id for loop in self.row_loops), self.columns.id}
        return [loop for loop in loops.outer if loop.id not in used]

    def _factors(self, writer: Writer, loops: Loops) -> list[Index]:
        """The factors of the parallel range: batch loops, chunks of rows, blocks of columns."""
        sizes = {loop.id: loop.size for loop in loops.outer}
        chunks = writer.ceildiv(writer.product([sizes[loop.id] for loop in self.row_loops]), self.chunk_rows)
        blocks = writer.ceildiv(sizes[self.columns.id], self.block)
        return [*(loop.size for loop in self._batch_loops(loops)), chunks, blocks]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        with self.writer.at_head():
            factors = self._factors(self.writer, self.loops)
        self.panel = self._panel() if self._needs_panel() else None
        return self.parallel_function(lambda: self._parallel_step(factors))

    def _launch(self, chunk: int) -> str:
        w = Writer()
        loops = Loops(self.kernel, self.structure, w)
        count = w.product(self._factors(w, loops))
        depth = self.depth if isinstance(self.depth, int) else 256
        return launch_text(self.kernel, w, count, self.chunk_rows * self.block * depth // 8, w.lines)

    def _needs_panel(self) -> bool:
        """Whether the right operand is packed into a panel: not if one tile uses each of its elements."""
        single_tile = isinstance(self.rows.size, int) and self.rows.size <= self.tile
        return not single_tile or not self._has_vector_columns()

    def _parallel_step(self, factors: Sequence[Index]) -> None:
        """One parallel step: a block of columns and a chunk of rows."""
        w = self.writer
        *others, chunk, block = self.delinearize(factors)
        self.position = {loop.id: d for loop, d in zip(self._batch_loops(self.loops), others, strict=True)}
        self.column = w.mul(block, self.block)
        self.active_lanes = self._count_active_lanes()
        self.masks = [None if n is None else self._first_lanes(n) for n in self.active_lanes]
        if self.panel is not None:
            self._pack()
        begin = w.mul(chunk, self.chunk_rows)
        end: Index = w.binary("minui", w.add(begin, self.chunk_rows), self.rows.size)
        if isinstance(self.rows.size, int) and self.rows.size <= self.chunk_rows:
            begin, end = 0, self.rows.size
        self._tiles(begin, end)

    def _count_active_lanes(self) -> list[Index | None]:
        """The number of columns from each vector's first column on; None where all lanes are active."""
        w, size = self.writer, self.columns.size
        if isinstance(size, int) and size % self.block == 0:
            return [None] * self.vectors
        rest = w.binary("subi", size, self.column)
        return [rest if v == 0 else w.binary("subi", rest, v * (self.width or 1)) for v in range(self.vectors)]

    def _first_lanes(self, count: Index) -> str:
        """The mask of the first `count` lanes."""
        return self.writer.op(f"vector.create_mask {count} : vector<{self.width}xi1>")

    def _tiles(self, begin: Index, end: Index) -> None:
        """Tiles of rows. The rest is one smaller tile, or single rows where the number of rows is dynamic."""
        w, size = self.writer, self.rows.size
        middle: Index = end
        rest = size % self.tile if isinstance(size, int) else 1
        if rest:
            span = w.binary("subi", end, begin) if not (isinstance(end, int) and begin == 0) else end
            full_tiles = w.floor_to(span, self.tile)
            middle = w.add(begin, full_tiles)
        for first, last, rows in ((begin, middle, self.tile), (middle, end, rest)):
            if rows and first != last:
                self._tile_loop(first, last, rows)

    def _tile_loop(self, first: Index, last: Index, rows: int) -> None:
        """A loop over tiles of `rows` rows."""

        def tile(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            self._tile(iv, rows)
            return []

        self._loop(first, last, rows, [], tile, self._scalar_lanes())

    def _tile(self, row: str, rows: int) -> None:
        """One tile: accumulators, the loop over the depth, the epilogue."""
        w = self.writer
        at = [self._row_positions(w.add(row, r)) for r in range(rows)]
        inits = []
        for r in range(rows):
            self.position |= at[r]
            inits += [self._initial_accumulator(self.node, 0, self._lanes(v)) for v in range(self.vectors)]
        self.tile_rows, keys = at, [(self.node, 0)] * len(inits)
        summed = list(range(len(inits))) if self.cascade else []
        totals = self._accumulate(Sweep([self.node], keys, self._scalar_lanes(), summed, self.cascade), inits)
        for r in range(rows):
            self.position |= at[r]
            for v in range(self.vectors):
                self._epilogue(totals[r * self.vectors + v], self._lanes(v))

    def _emit_innermost(self, sweep: Sweep, lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
        """One step of the depth for a tile."""
        return self._multiply_add_step(carried)

    def _multiply_add_step(self, carried: list[LaneValue]) -> list[LaneValue]:
        """The accumulators of the rows `tile_rows` after one step of the depth."""
        flat = self._depth_index() if self.panel is not None else 0
        right = [self._right_vector(flat, v) for v in range(self.vectors)]
        left, lanes, after = self.node.inputs[self.operands.left], self._scalar_lanes(), []
        for r, row in enumerate(self.tile_rows):
            self.position |= row
            factor = self._convert(self.operands.left, self._load_input(left, lanes), lanes)
            kind = f"vector<{self.width}x{factor.element}>"
            spread = self.writer.op(f"vector.broadcast {factor.name} : {factor.element} to {kind}")
            for v, other in enumerate(right):
                after.append(self._multiply_add(spread, other, carried[r * self.vectors + v], kind))
        return after

    def _right_vector(self, flat: Index, v: int) -> str:
        """Vector `v` of the right operand, from the panel if there is one."""
        lanes = self._lanes(v)
        if self.panel is None:
            value = self._load_input(self.node.inputs[self.operands.right], lanes)
            return self._convert(self.operands.right, value, lanes).name
        panel, kind = self.panel
        at = f"{panel}[{self.writer.index(flat)}, {self.writer.index(v * (self.width or 1))}]"
        return self.writer.op(f"vector.load {at} : {kind}, vector<{self.width}x{self.operands.element}>")
