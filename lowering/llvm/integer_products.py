"""Matrix products of short integers with 32-bit sums, by instructions that add several products in each lane.

    for a block of columns and a chunk of rows:      the parallel range
      left = the rows                                contiguous, padded with zeros
      panel = the columns                            interleaved: a lane has a group of steps of the depth
      for a tile of rows:
        accumulators in registers                    rows x vectors, in the order of `register_interleave`
        for a group of steps: broadcast a lane of the left operand, multiply, add
        zero points, epilogue

Without a panel, the one tile that reads the columns interleaves them. Input is the structure of a kernel around one
contraction, output its functions as MLIR text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm.contraction import Contraction
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.dot_product import DotProductLanes
from oneflow.lowering.llvm.iteration_space import Loop
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, first_lanes
from oneflow.lowering.llvm.left_rows import LeftRows
from oneflow.lowering.llvm.loop_nest import Vectorized
from oneflow.lowering.llvm.register_interleave import in_order, interleave
from oneflow.lowering.llvm.register_tiles import TileShape, register_tiles, tile_shape
from oneflow.lowering.llvm.short_integers import ShortIntegers, short_integers
from oneflow.lowering.llvm.vectorized_nest import in_result_order
from oneflow.lowering.llvm.writer import Index, MemRef


def emit_integer_products(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around one product of short integers, as MLIR text.

    Raises:
        Unsupported: the target has no instruction, the factors are no short integers, or operands have strides.
    """
    if kernel.target.dot_product is None:
        raise Unsupported("a target without such an instruction")
    return IntegerProducts(ContractionNest(kernel, in_result_order(structure), Vectorized.OUTER)).emit()


@dataclass
class IntegerProducts(Contraction):
    """The emission of one product of short integers."""

    def __post_init__(self) -> None:
        contraction, instruction = self.contraction, self.contraction.kernel.target.dot_product
        assert instruction is not None
        self._check_supported()
        lanes = contraction.kernel.target.vector_bits // 32
        self.dot = DotProductLanes(contraction.nest.writer, instruction, lanes)
        self.left_factor, self.right_factor = short_integers(contraction.node, instruction, contraction.left)
        super().__post_init__()
        self.steps = math.ceil(self._depth / self.dot.group)
        self.panel: MemRef | None = None
        self.column_sums: list[str] = []

    def _check_supported(self) -> None:
        """Checks that sums are i32 over one loop of static size, and that operands are contiguous.

        Raises:
            Unsupported: the contraction has another form.
        """
        contraction = self.contraction
        if contraction.element != "i32" or len(contraction.depth) > 1:
            raise Unsupported("sums of other types than i32, or over several dimensions")
        if not isinstance(contraction.depth[0].size, int):
            raise Unsupported("a depth of dynamic size")
        columns = [s.form.dim == contraction.columns.id for s in contraction.subscripts(contraction.right)]
        if not columns[-1] or not contraction.is_contiguous_along_depth(contraction.left):
            raise Unsupported("operands that are not contiguous")

    @property
    def _depth(self) -> int:
        """The number of steps of the depth."""
        assert isinstance(self.depth, int)
        return self.depth

    @property
    def _has_column_sums(self) -> bool:
        return self.left_factor.is_shifted

    def _find_row_loops(self) -> list[Loop]:
        """The loops that together are the rows; none for a vector."""
        return super()._find_row_loops() if self.contraction.row_loops() else []

    def _tile_shape(self) -> TileShape:
        """The register tile: the vectors of a group, and as many rows as registers remain for."""
        tiles, group = register_tiles(self.contraction.kernel.target, reloads_sums=True), self.dot.group
        self.most_rows = tiles[group]
        return tile_shape({group: self.most_rows}, self.rows.size, self.dot.width, self.dot.lanes)

    def _needs_panel(self) -> bool:
        """Whether the right operand is packed: not if one tile, with the sums of the columns, has all rows."""
        rows = self.rows.size
        return not isinstance(rows, int) or rows + self._has_column_sums > self.most_rows

    def _allocate(self) -> None:
        """Allocates the scratch buffers of the kernel."""
        rows = self.rows.size
        count = min(rows, self.chunk_rows) if isinstance(rows, int) else self.chunk_rows
        has_sums = self.right_factor.is_shifted
        self.left = LeftRows(self.contraction, self.rows, self.left_factor, self.dot, count, has_sums)
        if self._needs_panel():
            with self.writer.at_head():
                self.panel = self.nest.allocate([self.steps, self.block.size], "i32")

    # The columns

    def _block(self, chunk: Index) -> None:
        """Writes the block of columns for a chunk of rows.

        Loads with masks are long code on targets without masks, which only the last columns need.
        """
        begin, end = self._rows_of(chunk)
        self.left.copy(begin, end)
        if not any(self.block.masks) or self.contraction.kernel.target.has_masks:
            self._columns(begin, end)
            return
        writer, first, size = self.writer, self.block.begin, self.columns.size
        last = writer.index(writer.add(first, self.block.size))
        is_full = writer.op(f"arith.cmpi ule, {last}, {writer.index(size)} : index")
        with writer.block(f"scf.if {is_full} {{", "} else {"):
            self.block.move(first)
            self._columns(begin, end)
        self.block.move(first, size)
        self._columns(begin, end)
        writer.line("}")

    def _columns(self, begin: Index, end: Index) -> None:
        """Writes the tiles of rows for the columns of the current block."""
        if self.panel is not None:
            self._pack(self.panel)
            self.column_sums = self._sums((), self._has_column_sums)[0] if self._has_column_sums else []
        self._tiles(begin, end)

    def _pack(self, panel: MemRef) -> None:
        """Interleaves the columns into the panel."""

        def pack(step: Index, present: int) -> None:
            for index, vector in enumerate(self._interleaved(step, present)):
                address = panel.at([self.writer.index(step), self.writer.index(index * self.dot.lanes)])
                self.writer.line(f"vector.store {vector}, {address} : {panel.type}, {self.dot.type}")

        full, rest = divmod(self._depth, self.dot.group)
        self.nest.plain_loop(0, full, 1, lambda step: pack(step, self.dot.group))
        if rest:
            pack(full, rest)

    def _interleaved(self, step: Index, present: int) -> list[str]:
        """The columns at a group of steps of the depth: `present` steps, padded with zeros to a whole group."""
        writer, contraction = self.writer, self.contraction
        active = self.block.active[0]
        mask = None if active is None else first_lanes(writer, active, self.dot.width)
        rows = []
        for index in range(present):
            position = writer.add(writer.mul(step, self.dot.group), index)
            self.nest.indices |= {contraction.depth[0].id: position, self.columns.id: self.block.begin}
            lanes = replace(self.nest.lanes(mask, active=active), width=self.dot.width)
            loaded = contraction.load_input(self.right_factor.input, lanes)
            rows.append(self.right_factor.element(writer, loaded.name, self.dot.width))
        zeros = writer.constant("dense<0>", self.dot.elements)
        return interleave(writer, [*rows, *[zeros] * (self.dot.group - present)], self.dot.lanes)

    def _right(self, step: Index, present: int) -> list[str]:
        """The interleaved columns at a group of steps, from the panel or from the operand."""
        if self.panel is None:
            return self._interleaved(step, present)
        addresses = [self.panel.at([self.writer.index(step), self.writer.index(v * self.dot.lanes)])
                     for v in range(self.dot.group)]  # fmt: skip
        return [
            self.writer.op(f"vector.load {address} : {self.panel.type}, {self.dot.type}") for address in addresses
        ]

    # The tiles

    def _tile(self, first: str, count: int) -> None:
        """Writes one tile: accumulators, the loop over the depth, zero points, the epilogue."""
        rows = [self.writer.add(first, r) for r in range(count)]
        has_sums = self._has_column_sums and self.panel is None
        sums = self._sums(rows, has_sums)
        column_sums = sums.pop() if has_sums else self.column_sums
        for row, totals in zip(rows, sums, strict=True):
            self.nest.indices |= self.rows.indices(row)
            for v, total in enumerate(totals):
                lanes = self.block.lanes(v)
                value = self._shifted(total, column_sums[v] if column_sums else "", row, lanes)
                initial = self.contraction.initial(lanes).name
                value = self.writer.op(f"arith.addi {initial}, {value} : {self.dot.type}")
                self.contraction.epilogue(LaneValue(value, "i32", True), lanes)

    def _sums(self, rows: Sequence[Index], with_columns: bool) -> list[list[str]]:
        """The sums of the products of `rows`, and at the end the sums of the columns: vectors along the columns."""
        dot, group = self.dot, self.dot.group
        count = len(rows) + with_columns

        def step(index: Index, carried: list[LaneValue], present: int = group) -> list[LaneValue]:
            right = self._right(index, present)
            left = [*(self.left.load(row, index) for row in rows), *[dot.ones] * with_columns]
            pairs = [(a, b) for a in left for b in right]
            return [LaneValue(dot.add(t.name, a, b), "i32", True) for t, (a, b) in zip(carried, pairs, strict=True)]

        full, rest = (self.steps, 0) if self.panel is not None else divmod(self._depth, group)
        totals = [LaneValue(dot.zeros, "i32", True)] * (count * group)
        totals = self.nest.loop(0, full, 1, totals, step)
        if rest:
            totals = step(full, totals, rest)
        names = [total.name for total in totals]
        return [in_order(self.writer, names[n * group : (n + 1) * group], dot.lanes) for n in range(count)]

    def _shifted(self, total: str, column_sums: str, row: Index, lanes: Lanes) -> str:
        """The sum of a row and a vector of columns after the subtraction of the zero points."""
        left, right = (self._zero(factor, lanes) for factor in (self.left_factor, self.right_factor))
        if left is not None:
            if right is not None:
                depth = self.writer.constant(f"dense<{self._depth}>", self.dot.type)
                column_sums = self._minus_product(column_sums, depth, right)
            total = self._minus_product(total, left, column_sums)
        return total if right is None else self._minus_product(total, right, self.left.load_sum(row))

    def _zero(self, factor: ShortIntegers, lanes: Lanes) -> str | None:
        """The zero point that is subtracted from the elements of a factor, as a vector; None for 0."""
        if not factor.is_shifted:
            return None
        zero = self.dot.zeros
        if factor.zero is not None:
            zero = lanes.broadcast(self.contraction.compute(factor.zero, lanes))
        offset = self.writer.constant(f"dense<{factor.offset}>", self.dot.type)
        return self.writer.op(f"arith.subi {zero}, {offset} : {self.dot.type}")

    def _minus_product(self, total: str, a: str, b: str) -> str:
        """`total - a * b`."""
        product = self.writer.op(f"arith.muli {a}, {b} : {self.dot.type}")
        return self.writer.op(f"arith.subi {total}, {product} : {self.dot.type}")
