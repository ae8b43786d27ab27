"""Pointwise kernels that read tensors along one loop and write along another: transposes in register tiles.

    for a block of rows and a chunk of columns:      the parallel range
      for a tile of `width` columns and rows:
        load vectors along the rows, transpose them in registers to vectors along the columns
        the nodes' bodies, with a vector along the columns for each row

The columns are the last loop of the results; the rows are the loop that the strided operands walk last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node, Structure, Use
from oneflow.lowering.llvm.body import Lanes, LaneValue, NeedsScalars
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loop_nest import LoopNest, bits_of, in_result_order, work_of
from oneflow.lowering.llvm.loops import Loop, Loops
from oneflow.lowering.llvm.writer import Index, Writer

#: The least and the most lanes of a tile.
MIN_WIDTH, MAX_WIDTH = 4, 16


def emit_tiles(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel in tiles, as MLIR text.

    Raises:
        Unsupported: the kernel has another form.
    """
    return Tiles(kernel, in_result_order(structure), "column").emit()


@dataclass
class Tiles(LoopNest):
    """The emission of one structure in tiles. `strided_uses` are the operands that are read along the rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loops.inner or self.vector is None:
            raise NeedsScalars("tiles are for pointwise kernels")
        self.columns, self.limits = self.vector, self.kernel.target.kernels.loops
        self.strided_uses = [
            (node, use)
            for node in self.structure.nodes
            for use in node.inputs
            if self._has_strided_columns(node, use)
        ]
        rows = {self._positions_of(*key)[-1].form.dim for key in self.strided_uses}
        row_loops = [loop for loop in self.loops.outer if rows == {loop.id}]
        if not row_loops or row_loops[0] is self.columns:
            raise NeedsScalars("operands with strided columns along several loops")
        self.rows = row_loops[0]
        self.width = self._tile_width()
        self.transposed: dict[int, list[LaneValue]] = {}
        self.row = 0

    def _has_strided_columns(self, node: Node, use: Use) -> bool:
        """Whether the columns of an operand in memory are not contiguous."""
        if use.value not in self.kernel.tensors:
            return False
        positions = self._positions_of(node, use)
        return any(self.columns.id in p.form.dims for p in positions[:-1])

    def _tile_width(self) -> int:
        """The rows and columns of a tile."""
        width = min(self.kernel.target.vector_bits // max(bits_of(self.structure), 8), MAX_WIDTH)
        for size in (self.rows.size, self.columns.size):
            while isinstance(size, int) and width > MIN_WIDTH and width // 2 >= size:
                width //= 2
        return width

    def _batch_loops(self, loops: Loops) -> list[Loop]:
        """The outer loops that are neither rows nor columns."""
        used = {self.rows.id, self.columns.id}
        return [loop for loop in loops.outer if loop.id not in used]

    def _factors(self, writer: Writer, loops: Loops) -> list[Index]:
        """The factors of the parallel range: batch loops, blocks of rows, chunks of columns."""
        sizes = {loop.id: loop.size for loop in loops.outer}
        blocks = (
            writer.ceildiv(sizes[self.rows.id], self.limits.tile_rows),
            writer.ceildiv(sizes[self.columns.id], self.limits.tile_columns),
        )
        return [*(loop.size for loop in self._batch_loops(loops)), *blocks]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        with self.writer.at_head():
            factors = self._factors(self.writer, self.loops)
        return self.parallel_function(lambda: self._parallel_step(self.delinearize(factors)))

    def _launch(self, chunk: int) -> str:
        w = Writer()
        count = w.product(self._factors(w, Loops(self.kernel, self.structure, w)))
        work = sum(work_of(n) for n in self.structure.nodes)
        for loop, most in ((self.rows, self.limits.tile_rows), (self.columns, self.limits.tile_columns)):
            work *= min(loop.size, most) if isinstance(loop.size, int) else most
        return launch_text(self.kernel, w, count, work, w.lines)

    def _parallel_step(self, digits: Sequence[Index]) -> None:
        """One parallel step: the tiles of a block of rows and a chunk of columns."""
        *others, block, chunk = digits
        self.position = {loop.id: d for loop, d in zip(self._batch_loops(self.loops), others, strict=True)}
        lanes, width = Lanes(self.writer, self.kernel, None), self.width or 1

        def tiles(row: str, carried: list[LaneValue]) -> list[LaneValue]:
            columns = self._span(self.columns, chunk, self.limits.tile_columns)
            self._loop(*columns, width, [], lambda c, v: self._tile(row, c), lanes)
            return []

        self._loop(*self._span(self.rows, block, self.limits.tile_rows), width, [], tiles, lanes)

    def _span(self, loop: Loop, number: Index, most: int) -> tuple[Index, Index]:
        """The begin and the end of block `number` of a loop."""
        if isinstance(loop.size, int) and loop.size <= most:
            return 0, loop.size
        begin = self.writer.mul(number, most)
        return begin, self.writer.binary("minui", self.writer.add(begin, most), loop.size)

    def _tile(self, row: str, column: str) -> list[LaneValue]:
        """One tile; tiles at an edge are masked."""
        w, width = self.writer, self.width or 1
        sizes = [(at, loop.size) for at, loop in ((row, self.rows), (column, self.columns))]
        partial = [(at, size) for at, size in sizes if not isinstance(size, int) or size % width]
        if not partial:
            self._emit_full_tile(row, column)
            return []
        inside = [f"arith.cmpi ule, {w.index(w.add(at, width))}, {w.index(size)} : index" for at, size in partial]
        flags = [w.op(text) for text in inside]
        is_full = flags[0] if len(flags) == 1 else w.op(f"arith.andi {flags[0]}, {flags[1]} : i1")
        w.line(f"scf.if {is_full} {{")
        self._emit_full_tile(row, column)
        w.line("} else {")
        self._emit_partial_tile(row, column)
        w.line("}")
        return []

    def _emit_full_tile(self, row: str, column: str) -> None:
        """A tile without masks."""
        width = self.width or 1
        self._transpose_operands(row, [self.writer.add(column, c) for c in range(width)], None)
        for number in range(width):
            self._emit_row(number, self.writer.add(row, number), column, None)

    def _emit_partial_tile(self, row: str, column: str) -> None:
        """A tile at an edge: reads beyond the edge repeat the last row or column, and are not stored."""
        w, width = self.writer, self.width or 1
        last = [w.binary("subi", loop.size, 1) for loop in (self.rows, self.columns)]
        columns = [w.binary("minui", w.add(column, c), last[1]) for c in range(width)]
        self._transpose_operands(row, columns, self._mask(row, self.rows.size))
        rest = w.binary("subi", self.columns.size, column)
        for number in range(width):
            at = w.add(row, number)
            inside = w.op(f"arith.cmpi ule, {w.index(at)}, {last[0]} : index")
            count = w.op(f"arith.select {inside}, {rest}, {w.index(0)} : index")
            mask = w.op(f"vector.create_mask {count} : vector<{width}xi1>")
            self._emit_row(number, w.binary("minui", at, last[0]), column, mask)

    def _emit_row(self, number: int, row: Index, column: str, mask: str | None) -> None:
        """The bodies for one row of the tile."""
        self.row, self.position[self.rows.id], self.position[self.columns.id] = number, row, column
        self._emit_outer_position(Lanes(self.writer, self.kernel, self.width, mask, None, self._scalars))

    def _transpose_operands(self, row: str, columns: Sequence[Index], mask: str | None) -> None:
        """Loads and transposes the strided operands: `transposed[operand][r]` is row r of the tile."""
        lanes = Lanes(self.writer, self.kernel, self.width, mask, None, self._scalars)
        self.vector, self.position[self.rows.id] = self.rows, row
        for node, use in self.strided_uses:
            loaded = []
            for column in columns:
                self.position[self.columns.id] = column
                loaded.append(self._load(node, use, self.kernel.tensors[use.value], lanes))
            self.transposed[id(use)] = transpose(self.writer, loaded)
        self.vector = self.columns

    def _read(self, node: Node, use: Use, lanes: Lanes) -> LaneValue:
        rows = self.transposed.get(id(use))
        return super()._read(node, use, lanes) if rows is None else rows[self.row]


def transpose(writer: Writer, rows: Sequence[LaneValue]) -> list[LaneValue]:
    """Transposes n vectors of n lanes in registers: lane r of vector c becomes lane c of vector r.

    Each round swaps the off-diagonal blocks in squares of twice the size.
    """
    width, element = len(rows), rows[0].element
    kind = f"vector<{width}x{element}>"
    names, half = [row.name for row in rows], 1
    while half < width:
        low = [lane if not lane & half else width + (lane ^ half) for lane in range(width)]
        high = [lane | half if not lane & half else width + lane for lane in range(width)]
        for first in (n for n in range(width) if not n & half):
            pair = f"{names[first]}, {names[first | half]}"
            names[first] = writer.op(f"vector.shuffle {pair} {low} : {kind}, {kind}")
            names[first | half] = writer.op(f"vector.shuffle {pair} {high} : {kind}, {kind}")
        half *= 2
    return [LaneValue(name, element, True) for name in names]
