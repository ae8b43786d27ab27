"""Contractions (implicit GEMM): the mainloop of `tl.dot` on blocks, accumulated in f32, and the epilogue.

The loops of a product are batch (in every tensor), rows (M, of the first operand), columns (N, of the second) and
depth (K, summed). Each kind is flattened, so transposes, batches and convolutions differ in their offsets only: a
convolution is an implicit GEMM, without the matrix of im2col. Triton derives the software pipeline of `stages` from
the mainloop. Blocks are loaded and stored by tensor descriptors where possible; persistent kernels need these. The
epilogue runs in slices of columns, so that its operands need little shared memory.
`lowering/kernels/epilogue_fusion.py` decides which operations are the epilogue. A sum of products accumulates its
`terms` one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import (
    Node,
    Structure,
    Unsupported,
    Use,
    has_innermost_window,
    is_contraction,
    reduces_contiguously,
)
from oneflow.lowering.options import PRECISION
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.body import BodyEmitter, Call
from oneflow.lowering.triton.codegen.descriptors import (
    DEPTH_POSITION,
    Descriptor,
    are_interchangeable,
    describe_dimensions,
)
from oneflow.lowering.triton.codegen.emission import (
    fill_literal,
    initial_value,
    make_source,
    program_id,
    tile_count,
    write_tile_rasterization,
)
from oneflow.lowering.triton.codegen.kernel import FLOAT8, Kernel, bytes_of
from oneflow.lowering.triton.codegen.tile import Axis, Tile, indexed_loops, linear_form
from oneflow.lowering.triton.codegen.writer import Value, Writer
from oneflow.lowering.triton.cost.matmul_configurations import (
    Config,
    Product,
    candidate_configs,
    configs_of,
    grouped_launch_sizes,
    operand_reuse,
)
from oneflow.lowering.triton.source import Parameter, Source, TileLoop
from oneflow.lowering.triton.symbolic_sizes import Size, TileCount, product

FLOATS = frozenset({"f16", "bf16", "f32", *FLOAT8})
DEPTH_AXES = frozenset({"ka", "kb", "k"})
TILE_AXES = frozenset({"b", "m", "n"})
#: The axes of each operand of a product.
OPERAND_AXES = (("m", "ka"), ("kb", "n"))


def precision_at(op: ir.Operation | None) -> str:
    """The precision of f32 products in the module of an operation, `ieee` where the module states none."""
    while op is not None and PRECISION not in op.attributes:
        op = op.parent
    return "ieee" if op is None else ir.StringAttr(op.attributes[PRECISION]).value


@dataclass
class Contraction:
    """Emits a product with its epilogue; `precision` is Triton's input precision of f32 operands."""

    kernel: Kernel
    structure: Structure
    precision: str = "ieee"

    def __post_init__(self) -> None:
        nodes = self.structure.nodes
        self.terms = [n for n in nodes if is_contraction(n)]
        self.product = self.terms[0]
        self.sizes = self.kernel.loop_sizes(nodes)
        self._classify_loops()
        uses = [(n, u) for n in nodes for u in (*n.inputs, *n.outputs)]
        self.forms = [linear_form(self.kernel, n, u) for n, u in uses]
        if self.multiplies_float8:
            names = {self.kernel.tensor(u.value).name for n in self.terms for u in n.inputs}
            pointer = FLOAT8[self.elements[0]]
            self.kernel.parameters = [
                Parameter(n, pointer if n in names else kind) for n, kind in self.kernel.parameters
            ]

    def _classify_loops(self) -> None:
        """Finds the batch, row, column and depth loops of the product; loops of size 1 are none of these.

        Raises:
            Unsupported: a loop indexes one operand alone; there are no rows, columns or depth; operands are no floats
                of at most 32 bits; the result is not f32.
        """
        left, right = (self._loops(u) for u in self.product.inputs)
        out = self._loops(self.product.outputs[0])
        summed = {self.product.loop_ids[d] for d in self.product.reductions}
        order = [n for n in self.product.loop_ids if n in self.product.loops]
        self.batch = [n for n in order if n in left & right & out]
        self.rows = [n for n in order if n in (left & out) - right]
        self.columns = [n for n in order if n in (right & out) - left]
        self.depth = sorted((n for n in order if n in left & right & summed), key=self._is_contiguous)
        kinds = [self.rows, self.columns, self.depth]
        if set(order) != {n for kind in (*kinds, self.batch) for n in kind}:
            raise Unsupported("a product with a loop that indexes one operand alone")
        if any(product(self.sizes[n] for n in kind).static in (0, 1) for kind in kinds):
            raise Unsupported("a product without rows, columns or depth")
        self.elements = [str(u.value.type.element_type) for u in self.product.inputs]
        if not set(self.elements) <= FLOATS or str(self.product.outputs[0].value.type.element_type) != "f32":
            raise Unsupported("a product of types that tensor cores do not multiply")

    @functools.cached_property
    def multiplies_float8(self) -> bool:
        """Whether tensor cores multiply the operands as floats of 8 bits; other floats of 8 bits become f16."""
        read = [u.value for n in self.structure.nodes for u in n.inputs if n not in self.terms]
        own = [u.value for n in self.terms for u in n.inputs]
        is_alone = all(v in self.kernel.tensors and v not in read for v in own)
        contiguous = all(map(reduces_contiguously, self.terms))
        same = len(set(self.elements)) == 1 and self.elements[0] in FLOAT8
        return same and is_alone and contiguous and gpu_target().has_float8

    def _is_contiguous(self, loop: int) -> bool:
        """Whether an operand is contiguous along a loop."""
        last = [{self.product.loop_ids[d] for d in u.access[-1].dims} for u in self.product.inputs]
        return loop in last[0] | last[1]

    def _loops(self, use: Use) -> set[int]:
        return {self.product.loop_ids[d] for f in use.access for d in f.dims}

    @functools.cached_property
    def problem(self) -> Product:
        """The product for the cost model."""
        batch, rows, columns, depth = map(self._count, (self.batch, self.rows, self.columns, self.depth))
        width = max(bytes_of(e) for e in self.elements)
        gathered, contiguous = has_innermost_window(self.product), reduces_contiguously(self.product)
        # Blocks of f32 that tensor cores cannot read as they are stored would pass through registers.
        is_readable = width == 2 or self.multiplies_float8 or (self.precision == "tf32" and contiguous)
        described = is_readable and gpu_target().has_tma and self._is_described()
        left, right = (operand_reuse(map(self._size, self._loops(u)), self._elements(u)) for u in self.product.inputs)
        epilogue_bytes = [bytes_of(str(use.value.type.element_type)) for _, use in self.epilogue_uses]
        epilogue = (n for n in self.structure.nodes if all(n is not term for term in self.terms))
        return Product(
            batch,
            rows,
            columns,
            depth * len(self.terms),
            element_bytes=width,
            tma_readable=described,
            gathered=gathered,
            operand_reuse=(left, right),
            contiguous_depth=contiguous,
            epilogue_bytes=sum(epilogue_bytes),
            widest_epilogue_bytes=max(epilogue_bytes),
            epilogue_operations=sum(len(n.body.operations) - 1 for n in epilogue),
            precision=self.precision,
        )

    def _size(self, loop: int) -> int | None:
        return self.sizes[loop].static

    def _elements(self, use: Use) -> int | None:
        return product(self.kernel.shape(use.value)).static

    @functools.cached_property
    def epilogue_uses(self) -> list[tuple[Node, Use]]:
        """The two-dimensional operands and results of the epilogue."""
        nodes = self.structure.nodes
        read = ((n, u) for n in nodes for u in (n.outputs if n in self.terms else n.inputs))
        kept = [(n, u) for n, u in read if u.value in self.kernel.tensors and self._is_block(n, u)]
        return [*kept, *((n, u) for n in nodes for i in range(len(n.results)) for u in self.destinations(n, i))]

    def destinations(self, node: Node, index: int) -> list[Use]:
        """The tensors that result `index` of a node is written to."""
        ends = zip(self.kernel.returned, self.kernel.destinations, strict=True)
        return [Use(to, node.outputs[index].access) for value, to in ends if value == node.results[index]]

    def _is_block(self, node: Node, use: Use) -> bool:
        """Whether a use varies along rows and columns."""
        loops = {node.loop_ids[d] for f in use.access for d in f.dims}
        return bool(loops & set(self.rows)) and bool(loops & set(self.columns))

    def _count(self, loops: list[int]) -> int:
        static = product(self.sizes[n] for n in loops).static
        return gpu_target().kernels.blocks.dynamic_steps if static is None else static

    def _is_described(self) -> bool:
        """Whether both operands can be read by descriptors of small blocks."""
        if len(set(self.elements)) > 1:
            return False
        return self._fits(configs_of(gpu_target().model.tiles.tma)[-1])

    def _fits(self, config: Config) -> bool:
        """Whether the operands allow a configuration. Persistent kernels need one loop over all terms."""
        emission = MatmulEmitter(self, config)
        if config.persistent and not emission.has_single_loop:
            return False
        descriptors = (emission.operand_descriptor(t, operand) for t in self.terms for operand in (0, 1))
        return not config.tma or all(d is not None for d in descriptors)

    def emit(self) -> Source:
        """The source for the configuration that the cost model prefers."""
        return self.emit_as(next(self.candidates(self.problem)))

    def candidates(self, shape: Product) -> Iterator[Config]:
        """The configurations for a problem, the fastest by the cost model first."""
        return filter(self._fits, candidate_configs(shape))

    def emit_as(self, config: Config) -> Source:
        """The source for one configuration."""
        return MatmulEmitter(self, config).emit()

    def launch_sizes(self, count: int) -> tuple[int, ...]:
        """The sizes of the grouped launches that `count` calls are split in."""
        return grouped_launch_sizes(self.problem, count)

    def emit_grouped(self, count: int) -> Source:
        """The source that the cost model prefers for a grouped launch of `count` calls."""
        return self.emit_as(next(self.candidates(replace(self.problem, batch=self.problem.batch * count))))


@dataclass
class MatmulEmitter:
    """Writes the source of a contraction for one configuration."""

    contraction: Contraction
    config: Config
    values: dict[ir.Value, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kernel, self.product = self.contraction.kernel, self.contraction.product
        self.writer = Writer()
        self._select_tile(self.config.rows, self.config.columns)

    def _select_tile(self, rows: int, columns: int, row: str = "", column: str = "") -> None:
        """Makes the current tile a part of the block: `rows` by `columns`, at the offsets `row` and `column`."""
        depth = (("ka", "[None, :]"), ("kb", "[:, None]"))
        steps = [
            Axis(name, self.contraction.depth, self.config.depth, DEPTH_POSITION, index=at) for name, at in depth
        ]
        self.tile = self._make_tile([*self._tile_axes(rows, columns, row, column), *steps])
        # `tl.div_rn` has a branch for each element of a thread: ptxas takes minutes for the many elements of a tile.
        self.bodies = BodyEmitter(self.tile, division=Call("divide", "{0}, {1}"))

    def _tile_axes(self, rows: int, columns: int, row: str = "", column: str = "") -> list[Axis]:
        """The batch, row and column axes of a part of a block."""
        source, config = self.contraction, self.config
        return [
            Axis("b", source.batch, 1, "batch", scalar=True),
            Axis("m", source.rows, rows, f"row * {config.rows}{row}", parent_block=config.rows),
            Axis("n", source.columns, columns, f"column * {config.columns}{column}", parent_block=config.columns),
        ]

    def _make_tile(self, axes: list[Axis]) -> Tile:
        source = self.contraction
        opaque = indexed_loops(source.structure.nodes)
        return Tile(self.kernel, self.writer, axes, source.sizes, source.forms, opaque)

    def _axis(self, name: str) -> Axis:
        return next(a for a in self.tile.axes if a.name == name)

    def emit(self) -> Source:
        """The source."""
        batches, rows, columns = (tile_count(self._axis(n)) for n in "bmn")
        count = batches * rows * columns
        self.writer.open(TILE_AXES | DEPTH_AXES)
        write_tile_rasterization(
            self.writer, "tile" if self.config.persistent else program_id(self.kernel), rows, columns
        )
        for name in "bmn":
            self.tile.emit_axis(self._axis(name))
        self._epilogue(self._emit_mainloop())
        self._close_tile(count)
        grid = TileCount.of(gpu_target().sms) if self.config.persistent else count
        ops = [n.op for n in self.contraction.structure.nodes]
        stages = self.config.fit_stages(self.contraction.problem).stages
        has_dot = not self.config.per_lane_accumulators
        return make_source(self.kernel, self.writer, ops, grid, self.config.warps, stages, has_dot=has_dot)

    def _close_tile(self, count: TileCount) -> None:
        """Ends the statements of a tile; a persistent kernel has them in a loop over `count` tiles."""
        if not self.config.persistent:
            self.writer.close(None)
            return
        body = tuple(map(str, self.writer.scopes.pop().lines))
        loop = TileLoop("tile", count, gpu_target().sms, body, flatten=True)
        self.writer.scopes[0].lines.append(loop)

    @functools.cached_property
    def has_tma_epilogue(self) -> bool:
        """Whether all operands and results of the epilogue are accessed by descriptors."""
        fits = self.config.has_tma_epilogue(self.contraction.problem)
        return fits and all(self._descriptor(n, u, "bmn") is not None for n, u in self.contraction.epilogue_uses)

    def _emit_mainloop(self) -> str:
        """Writes the mainloop (the loop over the depth), and returns the name of the accumulator."""
        return self._per_lane_product() if self.config.per_lane_accumulators else self._dot_product()

    def _per_lane_product(self) -> str:
        """The product by per-lane partial accumulators, without `tl.dot`.

        `tl.dot` keeps operands in shared memory in the order of memory. Operands that are contiguous along the depth
        would have bank conflicts between threads that read neighbouring rows.
        """
        flat, self.tile = self.tile, self._product_tile()
        for name in "bmn":
            self.tile.emit_axis(self._axis(name))
        self.writer.open(DEPTH_AXES)
        self.tile.emit_axis(self._axis("k"))
        a, b = (self._as_f32(self._read(self.product, use)) for use in self.product.inputs)
        self.writer.line(f"partial += {a} * {b}")
        steps = f"{self._axis('k').size}, {self.config.depth}, num_stages={self.config.stages}"
        zero = f"partial = tl.full({self.tile.shape}, 0.0, tl.float32)"
        self.writer.close(f"for k_at in tl.range(0, {steps}):", [zero])
        self.writer.line("acc = tl.sum(partial, 2)")
        self.tile = flat
        return "acc"

    def _product_tile(self) -> Tile:
        """A three-dimensional tile of rows, columns and a step of the depth."""
        config = self.config
        steps = Axis("k", self.contraction.depth, config.depth, DEPTH_POSITION)
        return self._make_tile([*self._tile_axes(config.rows, config.columns), steps])

    def _as_f32(self, value: Value) -> str:
        """The text of a value as f32."""
        return value.name if value.element == "f32" else f"{value.name}.to(tl.float32)"

    def _dot_product(self) -> str:
        """The product by `tl.dot`."""
        self.writer.line(f"acc = tl.full(({self.config.rows}, {self.config.columns}), 0.0, tl.float32)")
        terms, size = self.contraction.terms, self._axis("ka").size
        if len(terms) > 1 and self.has_single_loop:
            self._dot_loop(self._term_operands(), "step", size * Size.of(len(terms)))
            return "acc"
        for term in terms:
            self._dot_loop((self._operand(term, operand) for operand in (0, 1)), "k_at", size)
        return "acc"

    def _dot_loop(self, operands: Iterator[str], name: str, size: object) -> None:
        """A loop over the depth; iteration over `operands` writes their loads into the loop."""
        self.writer.open(DEPTH_AXES)
        a, b = operands
        self.writer.line(f"acc = tl.dot({a}, {b}, acc, {self._dot_options})")
        self.writer.close(f"for {name} in range(0, {size}, {self.config.depth}):")

    @property
    def _dot_options(self) -> str:
        """The precision of a step: of f32 operands, and of sums of 8-bit products, which some tensor cores keep in
        fewer bits than f32 has.
        """
        imprecise = gpu_target().tensor_core_shapes[0].float8_depth
        if self.contraction.multiplies_float8 and imprecise:
            return f"max_num_imprecise_acc={min(self.config.depth, imprecise)}"
        return f'input_precision="{self.contraction.precision}"'

    def _term_operands(self) -> Iterator[str]:
        """The operands of a step of one loop over all terms: variables hold the descriptors of the step's term."""
        size = self._axis("ka").size.static or 0
        descriptors = [
            [self._known_descriptor(term, operand) for operand in (0, 1)] for term in self.contraction.terms
        ]
        self.writer.line(f"k_at = step % {size}")
        names = ("left", "right")
        for index, pair in enumerate(descriptors):
            variables = ", ".join(d.name for d in pair)
            if index:
                self.writer.line(f"if step >= {index * size}:")
            self.writer.line(f"{'    ' if index else ''}{', '.join(names)} = {variables}")
        for operand, name in enumerate(names):
            yield descriptors[0][operand].load(OPERAND_AXES[operand], name)

    def _known_descriptor(self, term: Node, operand: int) -> Descriptor:
        descriptor = self.operand_descriptor(term, operand)
        assert descriptor is not None
        return descriptor

    @functools.cached_property
    def has_single_loop(self) -> bool:
        """Whether all terms share one loop, which persistent kernels need.

        The depth of a term is a number of steps, and descriptors of different terms are interchangeable.
        """
        terms, size = self.contraction.terms, self._axis("ka").size.static
        if len(terms) == 1:
            return True
        operands = ([self.operand_descriptor(t, operand) for t in terms] for operand in (0, 1))
        return size is not None and size % self.config.depth == 0 and all(map(are_interchangeable, operands))

    def operand_descriptor(self, term: Node, operand: int) -> Descriptor | None:
        """The descriptor of the operand with index `operand` of a term, None without a descriptor.

        Blocks have to be multiplied from shared memory: through registers they are slow, and some results are wrong.
        """
        use, sides = term.inputs[operand], OPERAND_AXES[operand]
        descriptor = self._descriptor(term, use, ["b", *sides])
        return descriptor if descriptor is not None and descriptor.is_contiguous_block else None

    def _descriptor(self, node: Node, use: Use, names: Sequence[str]) -> Descriptor | None:
        if not self.config.tma or use.value not in self.kernel.tensors:
            return None
        tensor, form = self.kernel.tensor(use.value), linear_form(self.kernel, node, use)
        axes = [self._axis(n) for n in names]
        dimensions = describe_dimensions(self.tile, tensor, form, axes)
        starts = {a.name: a.start or "0" for a in axes if not a.scalar}
        return None if dimensions is None else Descriptor(self.tile, tensor, dimensions, starts)

    def _operand(self, term: Node, operand: int) -> str:
        """Loads a block of an operand of a term, and returns its text."""
        use, (outer, inner) = term.inputs[operand], OPERAND_AXES[operand]
        descriptor = self.operand_descriptor(term, operand)
        if descriptor is not None:
            axes = frozenset(OPERAND_AXES[operand])
            return self.writer.define(descriptor.load(OPERAND_AXES[operand]), "block", axes).name
        depth = self._axis("ka" if operand == 0 else "kb")
        self.tile.emit_axis(depth)
        value = self._read(term, use)
        wanted = frozenset({outer, inner})
        if not value.axes >= wanted:
            shape = f"({self._axis(outer).block}, {self._axis(inner).block})"
            value = self.writer.define(f"tl.broadcast_to({value.name}, {shape})", value.element, value.axes | wanted)
        return self._as_operand(value)

    def _as_operand(self, value: Value) -> str:
        """The text of a block in the type that both operands are multiplied in."""
        elements = set(self.contraction.elements)
        if self.contraction.multiplies_float8 or (len(elements) == 1 and not elements & set(FLOAT8)):
            return value.name
        wide = self.bodies.widened(value) if value.element in FLOAT8 else value
        return f"{wide.name}.to({'tl.float16' if elements <= {*FLOAT8, 'f16'} else 'tl.float32'})"

    def _read(self, node: Node, use: Use) -> Value:
        if use.value in self.values:
            return self.values[use.value]
        if use.value not in self.kernel.tensors:
            return initial_value(self.bodies, use.value)
        tensor = self.kernel.tensor(use.value)
        descriptor = self._descriptor(node, use, "bmn") if self.has_tma_epilogue else None
        if descriptor is not None:
            return self.writer.define(descriptor.load("mn"), tensor.element, frozenset("mn"))
        offset = self.tile.offset(linear_form(self.kernel, node, use))
        is_float8 = self.contraction.multiplies_float8 and node in self.contraction.terms
        return self.tile.load(tensor, offset, "0.0" if is_float8 else "0")

    def _epilogue(self, total: str) -> None:
        """The epilogue, slice by slice of columns."""
        slices, columns = self.config.epilogue_slices, self.config.columns // self.config.epilogue_slices
        for index, name in enumerate(self._split_columns(total, self.config.rows, self.config.columns, slices)):
            if slices > 1:
                self._select_tile(self.config.rows, columns, column=f" + {index * columns}")
                for axis in "bmn":
                    self.tile.emit_axis(self._axis(axis))
            self._epilogue_slice(name)

    def _split_columns(self, name: str, rows: int, columns: int, count: int) -> list[str]:
        """The names of `count` slices of columns of a block."""
        if count == 1:
            return [name]
        halves, half = [self.writer.fresh("half"), self.writer.fresh("half")], columns // 2
        self.writer.line(f"{', '.join(halves)} = tl.split({name}.reshape({rows}, 2, {half}).permute(0, 2, 1))")
        return [part for h in halves for part in self._split_columns(h, rows, half, count // 2)]

    def _epilogue_slice(self, total: str) -> None:
        self.values = {}
        *others, last = self.contraction.terms
        for node in (n for n in self.contraction.structure.nodes if n not in others):
            if node is last:
                self.values[node.results[0]] = self._accumulated(total)
            else:
                self._element_wise(node)
            for index, result in enumerate(node.results):
                for use in self.contraction.destinations(node, index):
                    self._store(node, use, self.values[result])

    def _accumulated(self, name: str) -> Value:
        """The accumulator plus the initial value of the product."""
        axes = frozenset("mn")
        if fill_literal(self.product.outputs[0].value) == "0.0":
            return Value(name, "f32", axes)
        start = self._read(self.product, self.product.outputs[0])
        return self.writer.define(f"{name} + {start.name}", "f32", axes)

    def _element_wise(self, node: Node) -> None:
        uses = [*node.inputs, *node.outputs]
        pairs = zip(node.body.arguments, uses, strict=True)
        arguments = {a: self._read(node, u) for a, u in pairs if any(True for _ in a.uses)}
        results = self.bodies.run(node.body, node.loop_ids, arguments)
        self.values.update(zip(node.results, results, strict=True))

    def _store(self, node: Node, use: Use, value: Value) -> None:
        descriptor = self._descriptor(node, use, "bmn") if self.has_tma_epilogue else None
        if descriptor is not None and value.axes >= frozenset("mn"):
            self.writer.line(descriptor.store(value.name, "mn"))
            return
        self.tile.store(self.kernel.tensor(use.value), linear_form(self.kernel, node, use), value)
