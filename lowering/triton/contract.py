"""Contractions with their epilogue: `tl.dot` on blocks, in f32.

The loops of the product are batch (in every tensor), rows (the first operand's), columns (the second's) and depth
(summed); each kind is flattened, so transposes, batches and convolutions differ only in their offsets. Imports
`tile`, `body`, `nest`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Structure, Uncovered, Use, is_contraction
from oneflow.lowering.triton.body import Bodies
from oneflow.lowering.triton.kernel import Kernel
from oneflow.lowering.triton.nest import filled_with, finish_ops, initial, program_id
from oneflow.lowering.triton.sizes import power_of_two, product
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.tile import Axis, Tile, indexed_loops, linear_form
from oneflow.lowering.triton.writer import V, Writer

FLOATS = frozenset({"f16", "bf16", "f32"})
#: Blocks of programs that go over the same columns one after the other, so that these stay in the cache.
GROUP = 8
DEPTH_AXES = frozenset({"ka", "kb"})
#: Sizes that a loop of unknown size is expected to have.
UNKNOWN = 1024


@dataclass
class Contraction:
    """Emits a product and what is computed from its elements."""

    kernel: Kernel
    structure: Structure
    values: dict[ir.Value, V] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.structure.nodes
        (self.product,) = [n for n in nodes if is_contraction(n)]
        self.sizes = self.kernel.loop_sizes(nodes)
        self._classify()
        self.writer = Writer()
        uses = [(n, u) for n in nodes for u in (*n.inputs, *n.outputs)]
        forms = [linear_form(self.kernel, n, u) for n, u in uses]
        rows, columns, depth = self._blocks()
        self.axes = {
            "b": Axis("b", self.batch, 1, "batch", scalar=True),
            "m": Axis("m", self.rows, rows, f"row * {rows}"),
            "n": Axis("n", self.columns, columns, f"column * {columns}"),
            "ka": Axis("ka", self.depth, depth, "k_at", index="[None, :]"),
            "kb": Axis("kb", self.depth, depth, "k_at", index="[:, None]"),
        }
        self.tile = Tile(self.kernel, self.writer, list(self.axes.values()), self.sizes, forms, indexed_loops(nodes))
        self.bodies = Bodies(self.tile)

    def _classify(self) -> None:
        """Tells the loops of the product apart.

        Raises:
            Uncovered: a loop is of no kind, a kind but batch has one step, or elements are not f16, bf16 or f32.
        """
        left, right = (self._loops(u) for u in self.product.inputs)
        out = self._loops(self.product.outputs[0])
        summed = {self.product.names[d] for d in self.product.reductions}
        order = self.product.names
        self.batch = [n for n in order if n in left & right & out]
        self.rows = [n for n in order if n in (left & out) - right]
        self.columns = [n for n in order if n in (right & out) - left]
        self.depth = [n for n in order if n in left & right & summed]
        kinds = [self.rows, self.columns, self.depth]
        if set(order) != {n for kind in (*kinds, self.batch) for n in kind}:
            raise Uncovered("a product with a loop of one operand")
        if any(product(self.sizes[n] for n in kind).static in (0, 1) for kind in kinds):
            raise Uncovered("a product without rows, columns or depth")
        elements = {str(u.value.type.element_type) for u in self.product.inputs}
        if not elements <= FLOATS or str(self.product.outputs[0].value.type.element_type) != "f32":
            raise Uncovered("a product that tensor cores do not have")
        self.same = len(elements) == 1

    def _loops(self, use: Use) -> set[int]:
        return {self.product.names[d] for f in use.access for d in f.dims}

    def _count(self, loops: list[int]) -> int:
        static = product(self.sizes[n] for n in loops).static
        return UNKNOWN if static is None else static

    def _blocks(self) -> tuple[int, int, int]:
        narrow = all(str(u.value.type.element_type) != "f32" for u in self.product.inputs)
        largest = (128, 128, 64) if narrow else (64, 64, 32)
        counts = (self.rows, self.columns, self.depth)
        sizes = [max(16, min(most, power_of_two(self._count(c)))) for most, c in zip(largest, counts, strict=True)]
        return sizes[0], sizes[1], sizes[2]

    def emit(self) -> Source:
        """The source of the kernel."""
        self._place_program()
        for name in ("b", "m", "n"):
            self.tile.place(self.axes[name])
        for node in self.structure.nodes:
            if node is self.product:
                self.values[node.results[0]] = self._product()
            else:
                self._plain(node)
            for number, result in enumerate(node.results):
                self._store(node, number, self.values[result])
        rows, columns = self.axes["m"].block, self.axes["n"].block
        warps = 8 if rows * columns >= 128 * 128 else 4
        grid = " * ".join(self._tiles(n, self.axes[n].block) for n in "bmn")
        return finish_ops(self.kernel, self.writer, [n.op for n in self.structure.nodes], grid, warps)

    def _tiles(self, name: str, block: int) -> str:
        size = self.axes[name].size
        return f"(({size} + {block - 1}) // {block})" if size.static is None else str(-(-size.static // block))

    def _place_program(self) -> None:
        """Which block a program computes: groups of rows, so that columns are read again while they are near."""
        rows, columns = (self._tiles(n, self.axes[n].block) for n in "mn")
        self.writer.scopes[0].lines += [
            f"program = {program_id(self.kernel)}",
            f"batch = program // ({rows} * {columns})",
            f"within = program % ({rows} * {columns})",
            f"first = within // ({GROUP} * {columns}) * {GROUP}",
            f"height = tl.minimum({rows} - first, {GROUP})",
            f"row = first + within % ({GROUP} * {columns}) % height",
            f"column = within % ({GROUP} * {columns}) // height",
        ]

    def _product(self) -> V:
        """The loop over the depth."""
        rows, columns, depth = (self.axes[n].block for n in ("m", "n", "ka"))
        self.writer.open(DEPTH_AXES)
        a = self._operand(0, "ka", f"({rows}, {depth})")
        b = self._operand(1, "kb", f"({depth}, {columns})")
        self.writer.line(f'acc = tl.dot({a}, {b}, acc, input_precision="ieee")')
        header = f"for k_at in range(0, {self.axes['ka'].size}, {depth}):"
        self.writer.close(header, [f"acc = tl.full({self.tile.shape}, 0.0, tl.float32)"])
        axes = frozenset("mn")
        if filled_with(self.product.outputs[0].value) == "0.0":
            return V("acc", "f32", axes)
        start = self._read(self.product, self.product.outputs[0])
        return self.writer.define(f"acc + {start.name}", "f32", axes)

    def _operand(self, number: int, axis: str, shape: str) -> str:
        self.tile.place(self.axes[axis])
        use = self.product.inputs[number]
        value = self._read(self.product, use)
        wanted = frozenset({"m" if number == 0 else "n", axis})
        name = value.name
        if not value.axes >= wanted:
            name = self.writer.define(f"tl.broadcast_to({name}, {shape})", value.element, value.axes | wanted).name
        return name if self.same else f"{name}.to(tl.float32)"

    def _read(self, node: Node, use: Use) -> V:
        if use.value in self.values:
            return self.values[use.value]
        if use.value in self.kernel.tensors:
            offset, axes = self.tile.offset(linear_form(self.kernel, node, use))
            return self.tile.load(self.kernel.tensor(use.value), offset, axes)
        return initial(self.bodies, use.value)

    def _plain(self, node: Node) -> None:
        uses = [*node.inputs, *node.outputs]
        pairs = zip(node.body.arguments, uses, strict=True)
        arguments = {a: self._read(node, u) for a, u in pairs if any(True for _ in a.uses)}
        results = self.bodies.run(node.body, node.names, arguments)
        self.values.update(zip(node.results, results, strict=True))

    def _store(self, node: Node, number: int, value: V) -> None:
        use = node.outputs[number]
        for returned, destination in zip(self.kernel.returned, self.kernel.destinations, strict=True):
            if returned == node.results[number]:
                form = linear_form(self.kernel, node, Use(destination, use.access))
                self.tile.store(self.kernel.tensor(destination), form, value)
