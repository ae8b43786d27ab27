"""The operands of contractions, and the panel that the right operand is packed into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Unsupported, Use, is_contraction
from oneflow.lowering.llvm.body import Lanes, LaneValue, clone_scalar
from oneflow.lowering.llvm.loop_nest import LoopNest
from oneflow.lowering.llvm.loops import Loop, Loops
from oneflow.lowering.llvm.tiles import transpose
from oneflow.lowering.llvm.writer import Index, Writer


@dataclass
class ContractionOperands:
    """The body of a contraction: which input is left and which is right, and how each input is converted."""

    node: Node
    left: int
    right: int
    factors: dict[int, ir.Value]
    element: str


def operands_of_contraction(node: Node, vector: Loop, loops: Loops) -> ContractionOperands:
    """The left and the right input: the vector loop walks the right one.

    Raises:
        Unsupported: the body has another form, or the vector loop walks both inputs.
    """
    ops = [o.operation for o in node.body.operations]
    product = next(o for o in ops if o.name in ("arith.mulf", "arith.muli"))
    total = next(o for o in ops if o.name in ("arith.addf", "arith.addi"))
    if product.results[0] not in list(total.operands):
        raise Unsupported("a product with a conversion before the addition")
    factors = {_root(node, v): v for v in product.operands}
    walked = [vector.id in set().union(*(p.form.dims for p in loops.positions(node, u))) for u in node.inputs]
    if len(factors) != 2 or walked[0] == walked[1]:
        raise Unsupported("a contraction with columns in both operands or in none")
    right = walked.index(True)
    return ContractionOperands(node, 1 - right, right, factors, str(product.results[0].type))


def _root(node: Node, value: ir.Value) -> int:
    """The number of the input that a factor is converted from."""
    while not isinstance(value, ir.BlockArgument):
        if not len(value.owner.operands):
            raise Unsupported("a contraction with a factor that comes from no operand")
        value = value.owner.operands[0]
    return list(node.body.arguments).index(value)


@dataclass
class ContractionNest(LoopNest):
    """A nest around the contraction `node`; one operand has the loop `columns`, the other has not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.node = next(n for n in self.structure.nodes if is_contraction(n))
        if not self.loops.outer or not self.loops.inner:
            raise Unsupported("a contraction of one step, or into one element")
        self.columns = self.loops.outer[-1]
        self.operands = operands_of_contraction(self.node, self.columns, self.loops)

    def _row_loops(self) -> list[Loop]:
        """The outer loops of the left operand that the right operand does not have."""
        left, right = (
            set().union(*(p.form.dims for p in self.loops.positions(self.node, self.node.inputs[side])))
            for side in (self.operands.left, self.operands.right)
        )
        return [loop for loop in self.loops.outer if loop.id in left - right]

    def _scalar_lanes(self) -> Lanes:
        """No lanes."""
        return Lanes(self.writer, self.kernel, None, captured=self._scalars)

    def _is_contiguous_along_depth(self, use: Use) -> bool:
        """Whether an operand is contiguous along the last loop of the depth."""
        last = self.loops.inner[-1].id
        positions = self.loops.positions(self.node, use)
        return (
            bool(positions)
            and positions[-1].form.dim == last
            and all(last not in p.form.dims for p in positions[:-1])
        )

    def _load_input(self, use: Use, lanes: Lanes) -> LaneValue:
        """An operand's element, or vector of elements, at the current position."""
        tensor = self.kernel.tensors.get(use.value)
        if tensor is None:
            raise Unsupported("a contraction of a value of the kernel")
        return self._load(self.node, use, tensor, lanes)

    def _convert(self, number: int, value: LaneValue, lanes: Lanes) -> LaneValue:
        """An input's element converted to the type of the product."""
        chain: list[ir.Operation] = []
        factor = self.operands.factors[number]
        while not isinstance(factor, ir.BlockArgument):
            chain.append(factor.owner)
            factor = factor.owner.operands[0]
        for op in reversed(chain):
            value = clone_scalar(op, [value], lanes)
        return value

    def _multiply_add(self, a: str, b: str, total: LaneValue, kind: str) -> LaneValue:
        """`a * b + total`, as an FMA where the target has one."""
        is_float = self.operands.element[0] in "fb"
        if is_float and self.kernel.target.has_fma:
            return LaneValue(self.writer.op(f"math.fma {a}, {b}, {total.name} : {kind}"), total.element, True)
        letter = "f" if is_float else "i"
        product = self.writer.op(f"arith.mul{letter} {a}, {b} : {kind}")
        return LaneValue(self.writer.op(f"arith.add{letter} {product}, {total.name} : {kind}"), total.element, True)

    def _epilogue(self, total: LaneValue, lanes: Lanes) -> None:
        """Emits the epilogue of a finished vector and stores it."""
        self.registers = {}
        for node in self.structure.nodes:
            if node is self.node:
                self._finish_element(node, 0, total, lanes)
            else:
                self._emit_node(node, lanes, {})


@dataclass
class PackedContraction(ContractionNest):
    """A contraction with blocks of columns of `vectors` vectors; the current block begins at `column`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.vectors, self.block = 1, 1
        self.column: Index = 0
        self.masks: list[str | None] = []
        self.active_lanes: list[Index | None] = []
        self.panel: tuple[str, str] | None = None
        self.depth = self._depth(self.writer)

    def _depth(self, writer: Writer) -> Index:
        """The number of steps of the depth."""
        with writer.at_head():
            depth = writer.product([loop.size for loop in self.loops.inner])
        return depth

    def _depth_index(self) -> Index:
        """The number of the current step of the depth."""
        flat: Index = 0
        for loop in self.loops.inner:
            flat = self.writer.add(self.writer.mul(flat, loop.size), self.position[loop.id])
        return flat

    def _has_vector_columns(self) -> bool:
        """Whether the right operand's columns are contiguous or have stride 2, so that vectors can be loaded."""
        positions = self.loops.positions(self.node, self.node.inputs[self.operands.right])
        walking = [i for i, p in enumerate(positions) if self.columns.id in p.form.dims]
        return walking == [len(positions) - 1] and dict(positions[-1].form.terms)[self.columns.id] in (1, 2)

    def _lanes(self, v: int) -> Lanes:
        """The lanes of vector `v` of the block; moves the position of the vector loop there."""
        self.position[self.columns.id] = self.writer.add(self.column, v * (self.width or 1))
        return Lanes(self.writer, self.kernel, self.width, self.masks[v], None, self._scalars, self.active_lanes[v])

    def _over_depth(self, step: Callable[[], object], number: int = 0, remaining: int = 0) -> None:
        """Loops over the depth; the last `remaining` loops are left to `step`."""
        if number == len(self.loops.inner) - remaining:
            step()
            return
        loop = self.loops.inner[number]

        def inside(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            self.position[loop.id] = iv
            self._over_depth(step, number + 1, remaining)
            return []

        self._loop(0, loop.size, 1, [], inside, self._scalar_lanes())

    def _pack(self) -> None:
        """Copies the right operand's columns of this block into the panel, one row for each step of the depth."""
        use = self.node.inputs[self.operands.right]
        if self._has_vector_columns():
            self._over_depth(lambda: self._pack_row(use))
        elif self._is_contiguous_along_depth(use):
            self._pack_transposed(use)
        else:
            self._pack_elements(use)

    def _pack_row(self, use: Use) -> None:
        """Packs one row by vector loads."""
        flat = self._depth_index()
        for v in range(self.vectors):
            lanes = self._lanes(v)
            self._store_panel_row(self._convert(self.operands.right, self._load_input(use, lanes), lanes), flat, v)

    def _store_panel_row(self, value: LaneValue, row: Index, v: int) -> None:
        """Stores vector `v` of a row of the panel."""
        assert self.panel is not None
        panel, kind = self.panel
        at = f"{panel}[{self.writer.index(row)}, {self.writer.index(v * (self.width or 1))}]"
        self.writer.line(f"vector.store {value.name}, {at} : {kind}, vector<{self.width}x{value.element}>")

    def _pack_transposed(self, use: Use) -> None:
        """Packs strided columns: loads vectors along the depth and transposes squares in registers."""
        w, width = self.writer, self.width or 1
        loop = self.loops.inner[-1]

        def squares(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            divides = isinstance(loop.size, int) and loop.size % width == 0
            lanes = Lanes(w, self.kernel, width, None if divides else self._mask(iv, loop.size), None, self._scalars)
            self.position[loop.id] = iv
            flat = self._depth_index()
            for v in range(self.vectors):
                columns = transpose(w, [self._along_depth(use, v * width + c, lanes) for c in range(width)])
                for number, value in enumerate(columns):
                    self._store_panel_row(value, w.add(flat, number), v)
            return []

        self._over_depth(lambda: self._loop(0, loop.size, width, [], squares, self._scalar_lanes()), remaining=1)

    def _along_depth(self, use: Use, number: int, lanes: Lanes) -> LaneValue:
        """A vector along the depth of column `number` of the block; columns beyond the end repeat the last column."""
        last = self.writer.binary("subi", self.columns.size, 1)
        column = self.writer.add(self.column, number)
        inside = isinstance(self.columns.size, int) and self.columns.size % self.block == 0
        self.position[self.columns.id] = column if inside else self.writer.binary("minui", column, last)
        self.vector = self.loops.inner[-1]
        value = self._convert(self.operands.right, self._load_input(use, lanes), lanes)
        self.vector = self.columns
        return value

    def _pack_elements(self, use: Use) -> None:
        """Packs strided columns element by element; columns beyond the end repeat the last column."""
        assert self.panel is not None
        panel, kind = self.panel
        w, lanes = self.writer, self._scalar_lanes()
        last = w.binary("subi", self.columns.size, 1)

        def step() -> None:
            value = self._convert(self.operands.right, self._load_input(use, lanes), lanes)
            w.line(f"memref.store {value.name}, {panel}[{w.index(self._depth_index())}, {self.packed}] : {kind}")

        def column(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            self.packed = iv
            self.position[self.columns.id] = w.binary("minui", w.add(self.column, iv), last)
            self._over_depth(step)
            return []

        self._loop(0, self.block, 1, [], column, lanes)

    def _panel(self) -> tuple[str, str]:
        """Allocates the panel."""
        with self.writer.at_head():
            # Transposed squares at the end of the depth are stored in full, so the panel is one square longer.
            rows = self.writer.add(self.depth, self.width or 1)
            panel = self._temporary([rows, self.block], self.operands.element)
        return panel
