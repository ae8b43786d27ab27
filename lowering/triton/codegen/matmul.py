"""Contractions with their epilogue: `tl.dot` on blocks, sums in f32.

The loops of the product are batch (in every tensor), rows (the first operand's), columns (the second's) and depth
(summed); each kind is flattened, so transposes, batches and convolutions differ only in their offsets. Blocks are
read and written by descriptors where that is possible; then programs stay and go from tile to tile. The result is
finished in slices of columns, so that what it is combined with needs little memory. A sum of products is one whose
`terms` are added up one after the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported, Use, is_contraction, is_gathered, lies_along
from oneflow.lowering.targets.gpu import gpu_target
from oneflow.lowering.triton.codegen.body import Bodies
from oneflow.lowering.triton.codegen.descriptors import Descriptor, are_alike, describe
from oneflow.lowering.triton.codegen.emission import (
    filled_with,
    finish_ops,
    initial,
    place_block,
    program_id,
    tiles,
)
from oneflow.lowering.triton.codegen.kernel import Kernel, bytes_of
from oneflow.lowering.triton.codegen.symbolic_sizes import product
from oneflow.lowering.triton.codegen.tile import Axis, Tile, indexed_loops, linear_form
from oneflow.lowering.triton.codegen.writer import V, Writer
from oneflow.lowering.triton.cost.matmul_configurations import DESCRIBED, Config, Product, choose, pieces, shares
from oneflow.lowering.triton.source import Source, TileLoop

FLOATS = frozenset({"f16", "bf16", "f32"})
DEPTH_AXES = frozenset({"ka", "kb", "k"})
TILE_AXES = frozenset({"b", "m", "n"})
#: Sizes that a loop of unknown size is expected to have.
UNKNOWN = 1024
#: The axes of each operand as it is multiplied.
SIDES = (("m", "ka"), ("kb", "n"))


@dataclass
class Contraction:
    """Emits a product and what is computed from its elements; `precision` is that of f32 operands."""

    kernel: Kernel
    structure: Structure
    precision: str = "ieee"

    def __post_init__(self) -> None:
        nodes = self.structure.nodes
        self.terms = [n for n in nodes if is_contraction(n)]
        self.product = self.terms[0]
        self.sizes = self.kernel.loop_sizes(nodes)
        self._classify()
        uses = [(n, u) for n in nodes for u in (*n.inputs, *n.outputs)]
        self.forms = [linear_form(self.kernel, n, u) for n, u in uses]

    def _classify(self) -> None:
        """Tells the loops of the product apart; those of one step are of no kind, their position is 0.

        Raises:
            Unsupported: a loop is of no kind, a kind but batch has one step, or elements are not f16, bf16 or f32.
        """
        left, right = (self._loops(u) for u in self.product.inputs)
        out = self._loops(self.product.outputs[0])
        summed = {self.product.names[d] for d in self.product.reductions}
        order = [n for n in self.product.names if n in self.product.loops]
        self.batch = [n for n in order if n in left & right & out]
        self.rows = [n for n in order if n in (left & out) - right]
        self.columns = [n for n in order if n in (right & out) - left]
        self.depth = sorted((n for n in order if n in left & right & summed), key=self._is_contiguous)
        kinds = [self.rows, self.columns, self.depth]
        if set(order) != {n for kind in (*kinds, self.batch) for n in kind}:
            raise Unsupported("a product with a loop of one operand")
        if any(product(self.sizes[n] for n in kind).static in (0, 1) for kind in kinds):
            raise Unsupported("a product without rows, columns or depth")
        self.elements = [str(u.value.type.element_type) for u in self.product.inputs]
        if not set(self.elements) <= FLOATS or str(self.product.outputs[0].value.type.element_type) != "f32":
            raise Unsupported("a product that tensor cores do not have")

    def _is_contiguous(self, loop: int) -> bool:
        """Whether elements of an operand lie beside each other along a loop: it is walked last."""
        last = [{self.product.names[d] for d in u.access[-1].dims} for u in self.product.inputs]
        return loop in last[0] | last[1]

    def _loops(self, use: Use) -> set[int]:
        return {self.product.names[d] for f in use.access for d in f.dims}

    @functools.cached_property
    def shape(self) -> Product:
        """The product as tuning sees it."""
        batch, rows, columns, depth = map(self._count, (self.batch, self.rows, self.columns, self.depth))
        width = max(bytes_of(e) for e in self.elements)
        gathered, described = is_gathered(self.product), width == 2 and gpu_target().has_tma and self._described()
        along = lies_along(self.product) and self.precision == "ieee"
        left, right = (shares(map(self._size, self._loops(u)), self._elements(u)) for u in self.product.inputs)
        finished = [bytes_of(str(use.value.type.element_type)) for _, use in self.finishing]
        operands = batch, rows, columns, depth * len(self.terms), width, described, gathered, (left, right), along
        others = (n for n in self.structure.nodes if all(n is not term for term in self.terms))
        operations = sum(len(n.body.operations) - 1 for n in others)
        return Product(*operands, sum(finished), max(finished), operations)

    def _size(self, loop: int) -> int | None:
        return self.sizes[loop].static

    def _elements(self, use: Use) -> int | None:
        return product(self.kernel.shape(use.value)).static

    @functools.cached_property
    def finishing(self) -> list[tuple[Node, Use]]:
        """The blocks that the sum is combined with, and those of results."""
        nodes = self.structure.nodes
        read = ((n, u) for n in nodes for u in (n.outputs if n in self.terms else n.inputs))
        kept = [(n, u) for n, u in read if u.value in self.kernel.tensors and self._is_block(n, u)]
        return [*kept, *((n, u) for n in nodes for i in range(len(n.results)) for u in self.written(n, i))]

    def written(self, node: Node, number: int) -> list[Use]:
        """The tensors that a result of a node is written to."""
        ends = zip(self.kernel.returned, self.kernel.destinations, strict=True)
        return [Use(to, node.outputs[number].access) for value, to in ends if value == node.results[number]]

    def _is_block(self, node: Node, use: Use) -> bool:
        """Whether elements of a use are told by rows and by columns."""
        loops = {node.names[d] for f in use.access for d in f.dims}
        return bool(loops & set(self.rows)) and bool(loops & set(self.columns))

    def _count(self, loops: list[int]) -> int:
        static = product(self.sizes[n] for n in loops).static
        return UNKNOWN if static is None else static

    def _described(self) -> bool:
        """Whether both operands can be read by descriptors of blocks of a usual size."""
        if len(set(self.elements)) > 1:
            return False
        return self._fits(DESCRIBED[-1])

    def _fits(self, config: Config) -> bool:
        """Whether operands are read as a way says: only one loop over the depth is one with that over tiles."""
        emission = Emission(self, config)
        if config.stays and not emission.is_one_loop:
            return False
        found = (emission.operand_descriptor(t, number) for t in self.terms for number in (0, 1))
        return not config.described or all(d is not None for d in found)

    def emit(self) -> Source:
        """The source of the kernel that is expected to be fastest."""
        return self.emit_as(next(self.choices(self.shape)))

    def choices(self, shape: Product) -> Iterator[Config]:
        """The ways to compute it, those best for a shape first."""
        return filter(self._fits, choose(shape))

    def emit_as(self, config: Config) -> Source:
        """The source of the kernel for one way."""
        return Emission(self, config).emit()

    def pieces(self, count: int) -> tuple[int, ...]:
        """How many of so many calls are each launch."""
        return pieces(self.shape, count)

    def emit_together(self, count: int) -> Source:
        """The source of the kernel that is expected to be fastest where so many run at once."""
        return self.emit_as(next(self.choices(replace(self.shape, batch=self.shape.batch * count))))


@dataclass
class Emission:
    """One source of a contraction."""

    contraction: Contraction
    config: Config
    values: dict[ir.Value, V] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kernel, self.product = self.contraction.kernel, self.contraction.product
        self.writer = Writer()
        self._look_at(self.config.rows, self.config.columns)

    def _look_at(self, rows: int, columns: int, row: str = "", column: str = "") -> None:
        """Goes on with a tile over so many rows and columns of a block, which begin that much behind its own."""
        depth = (("ka", "[None, :]"), ("kb", "[:, None]"))
        steps = [Axis(name, self.contraction.depth, self.config.depth, "k_at", index=at) for name, at in depth]
        self.tile = self._tile_over([*self._sides(rows, columns, row, column), *steps])
        # `tl.div_rn` has a branch for each of the many elements of a thread, which assemblers take minutes for.
        self.bodies = Bodies(self.tile, quotient="quotient({0}, {1})")

    def _sides(self, rows: int, columns: int, row: str = "", column: str = "") -> list[Axis]:
        """The axes of a part of a block, but for the depth."""
        source, config = self.contraction, self.config
        return [
            Axis("b", source.batch, 1, "batch", scalar=True),
            Axis("m", source.rows, rows, f"row * {config.rows}{row}", whole=config.rows),
            Axis("n", source.columns, columns, f"column * {config.columns}{column}", whole=config.columns),
        ]

    def _tile_over(self, axes: list[Axis]) -> Tile:
        source = self.contraction
        opaque = indexed_loops(source.structure.nodes)
        return Tile(self.kernel, self.writer, axes, source.sizes, source.forms, opaque)

    def _axis(self, name: str) -> Axis:
        return next(a for a in self.tile.axes if a.name == name)

    def emit(self) -> Source:
        """The source."""
        counts = [tiles(self._axis(n)) for n in "bmn"]
        known = all(map(str.isdigit, counts))
        count = str(math.prod(map(int, counts))) if known else " * ".join(counts)
        self.writer.open(TILE_AXES | DEPTH_AXES)
        place_block(self.writer, "tile" if self.config.stays else program_id(self.kernel), *counts[1:])
        for name in "bmn":
            self.tile.place(self._axis(name))
        self._finish(self._product())
        is_persistent, sms = self.config.stays, gpu_target().sms
        in_loop = len(self.writer.scopes[0].lines) == len(self.writer.descriptors)
        loop = TileLoop(int(count), sms) if is_persistent and known and in_loop else None
        header = f"for tile in tl.range(tl.program_id(0), {count}, {sms}, flatten=True):"
        self.writer.close(header if is_persistent else None)
        grid = str(sms) if is_persistent else count
        ops = [n.op for n in self.contraction.structure.nodes]
        stages = self.config.fitted(self.contraction.shape).stages
        return finish_ops(self.kernel, self.writer, ops, grid, self.config.warps, stages, tile_loop=loop)

    @functools.cached_property
    def is_direct(self) -> bool:
        """Whether all of what a tile is finished with goes by descriptors."""
        room = self.config.is_direct(self.contraction.shape)
        return room and all(self._descriptor(n, u, "bmn") is not None for n, u in self.contraction.finishing)

    def _product(self) -> str:
        """The loop over the depth; gives the sum's name."""
        return self._apart() if self.config.apart else self._dots()

    def _apart(self) -> str:
        """Steps without `tl.dot`, which has operands in shared memory as they lie in memory: where that is along the
        depth, threads that read rows side by side wait for one another.
        """
        flat, self.tile = self.tile, self._block()
        for name in "bmn":
            self.tile.place(self._axis(name))
        self.writer.open(DEPTH_AXES)
        self.tile.place(self._axis("k"))
        a, b = (self._single(self._read(self.product, use)) for use in self.product.inputs)
        self.writer.line(f"apart += {a} * {b}")
        steps = f"{self._axis('k').size}, {self.config.depth}, num_stages={self.config.stages}"
        zero = f"apart = tl.full({self.tile.shape}, 0.0, tl.float32)"
        self.writer.close(f"for k_at in tl.range(0, {steps}):", [zero])
        self.writer.line("acc = tl.sum(apart, 2)")
        self.tile = flat
        return "acc"

    def _block(self) -> Tile:
        """A tile over rows, columns and a step of the depth."""
        config = self.config
        steps = Axis("k", self.contraction.depth, config.depth, "k_at")
        return self._tile_over([*self._sides(config.rows, config.columns), steps])

    def _single(self, value: V) -> str:
        """A value's text as f32."""
        return value.name if value.element == "f32" else f"{value.name}.to(tl.float32)"

    def _dots(self) -> str:
        """Steps of `tl.dot`."""
        self.writer.line(f"acc = tl.full(({self.config.rows}, {self.config.columns}), 0.0, tl.float32)")
        terms, size = self.contraction.terms, self._axis("ka").size
        if len(terms) > 1 and self.is_one_loop:
            self._steps(self._chosen(), "step", size.static * len(terms))
            return "acc"
        for term in terms:
            self._steps((self._operand(term, number) for number in (0, 1)), "k_at", size)
        return "acc"

    def _steps(self, operands: Iterator[str], name: str, size: object) -> None:
        """A loop over a depth, in which operands are read."""
        self.writer.open(DEPTH_AXES)
        a, b = operands
        self.writer.line(f'acc = tl.dot({a}, {b}, acc, input_precision="{self.contraction.precision}")')
        self.writer.close(f"for {name} in range(0, {size}, {self.config.depth}):")

    def _chosen(self) -> Iterator[str]:
        """The operands of a step of a loop through all terms: each takes the descriptors of its own."""
        size = self._axis("ka").size.static
        self.writer.line(f"k_at = step % {size}")
        names = ("left", "right")
        for place, term in enumerate(self.contraction.terms):
            found = ", ".join(self.operand_descriptor(term, number).name for number in (0, 1))
            if place:
                self.writer.line(f"if step >= {place * size}:")
            self.writer.line(f"{'    ' if place else ''}{', '.join(names)} = {found}")
        for number, name in enumerate(names):
            yield self.operand_descriptor(self.contraction.terms[0], number).load(SIDES[number], name)

    @functools.cached_property
    def is_one_loop(self) -> bool:
        """Whether one loop goes through all terms: each ends with a step, and descriptors of one are like another's.

        Then programs may stay, as they do for one product: three of 8192 x 768 x 768 take a fifth less than in loops
        of their own.
        """
        terms, size = self.contraction.terms, self._axis("ka").size.static
        if len(terms) == 1:
            return True
        found = ([self.operand_descriptor(t, number) for t in terms] for number in (0, 1))
        return size is not None and size % self.config.depth == 0 and all(map(are_alike, found))

    def operand_descriptor(self, term: Node, number: int) -> Descriptor | None:
        """The descriptor of an operand of a term, None where there can be none.

        Blocks have to be multiplied where they lie: through registers they were slow, and some results wrong.
        """
        use, sides = term.inputs[number], SIDES[number]
        found = self._descriptor(term, use, ["b", *sides])
        return found if found is not None and found.is_block else None

    def _descriptor(self, node: Node, use: Use, names: Sequence[str]) -> Descriptor | None:
        if not self.config.described or use.value not in self.kernel.tensors:
            return None
        tensor, form = self.kernel.tensor(use.value), linear_form(self.kernel, node, use)
        axes = [self._axis(n) for n in names]
        dimensions = describe(self.tile, tensor, form, axes)
        starts = {a.name: a.start or "0" for a in axes if not a.scalar}
        return None if dimensions is None else Descriptor(self.tile, tensor, dimensions, starts)

    def _operand(self, term: Node, number: int) -> str:
        use, (outer, inner) = term.inputs[number], SIDES[number]
        descriptor = self.operand_descriptor(term, number)
        if descriptor is not None:
            axes = frozenset(SIDES[number])
            return self.writer.define(descriptor.load(SIDES[number]), "block", axes).name
        depth = self._axis("ka" if number == 0 else "kb")
        self.tile.place(depth)
        value = self._read(term, use)
        wanted = frozenset({outer, inner})
        name = value.name
        if not value.axes >= wanted:
            shape = f"({self._axis(outer).block}, {self._axis(inner).block})"
            name = self.writer.define(f"tl.broadcast_to({name}, {shape})", value.element, value.axes | wanted).name
        return name if len(set(self.contraction.elements)) == 1 else f"{name}.to(tl.float32)"

    def _read(self, node: Node, use: Use) -> V:
        if use.value in self.values:
            return self.values[use.value]
        if use.value not in self.kernel.tensors:
            return initial(self.bodies, use.value)
        tensor = self.kernel.tensor(use.value)
        descriptor = self._descriptor(node, use, "bmn") if self.is_direct else None
        if descriptor is not None:
            return self.writer.define(descriptor.load("mn"), tensor.element, frozenset("mn"))
        offset, axes = self.tile.offset(linear_form(self.kernel, node, use))
        return self.tile.load(tensor, offset, axes)

    def _finish(self, total: str) -> None:
        """What follows the sum, one slice of columns after the other."""
        slices, columns = self.config.slices, self.config.columns // self.config.slices
        for number, name in enumerate(self._split(total, self.config.rows, self.config.columns, slices)):
            if slices > 1:
                self._look_at(self.config.rows, columns, column=f" + {number * columns}")
                for axis in "bmn":
                    self.tile.place(self._axis(axis))
            self._slice(name)

    def _split(self, name: str, rows: int, columns: int, count: int) -> list[str]:
        """The names of so many slices of columns of a block."""
        if count == 1:
            return [name]
        halves, half = [self.writer.fresh("half"), self.writer.fresh("half")], columns // 2
        self.writer.line(f"{', '.join(halves)} = tl.split({name}.reshape({rows}, 2, {half}).permute(0, 2, 1))")
        return [part for h in halves for part in self._split(h, rows, half, count // 2)]

    def _slice(self, total: str) -> None:
        self.values = {}
        *others, last = self.contraction.terms
        for node in (n for n in self.contraction.structure.nodes if n not in others):
            if node is last:
                self.values[node.results[0]] = self._total(total)
            else:
                self._plain(node)
            for number, result in enumerate(node.results):
                for use in self.contraction.written(node, number):
                    self._store(node, use, self.values[result])

    def _total(self, name: str) -> V:
        """The sum with what it begins with."""
        axes = frozenset("mn")
        if filled_with(self.product.outputs[0].value) == "0.0":
            return V(name, "f32", axes)
        start = self._read(self.product, self.product.outputs[0])
        return self.writer.define(f"{name} + {start.name}", "f32", axes)

    def _plain(self, node: Node) -> None:
        uses = [*node.inputs, *node.outputs]
        pairs = zip(node.body.arguments, uses, strict=True)
        arguments = {a: self._read(node, u) for a, u in pairs if any(True for _ in a.uses)}
        results = self.bodies.run(node.body, node.names, arguments)
        self.values.update(zip(node.results, results, strict=True))

    def _store(self, node: Node, use: Use, value: V) -> None:
        descriptor = self._descriptor(node, use, "bmn") if self.is_direct else None
        if descriptor is not None and value.axes >= frozenset("mn"):
            self.writer.line(descriptor.store(value.name, "mn"))
            return
        self.tile.store(self.kernel.tensor(use.value), linear_form(self.kernel, node, use), value)
