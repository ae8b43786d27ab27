"""Kernels that move or fill: `linalg.fill`, chains of `tensor.insert_slice`.

One slice, inserted into a tensor or into an undefined tensor, is a pass over the slice: the plan provides the rest of
the destination. Several slices that are disjoint and long in memory have separate programs. Other slices, and slices
that leave elements of a fill, are a pass over the destination.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence, Set

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.block_shape import warps_for
from oneflow.lowering.triton.codegen.body import BodyEmitter
from oneflow.lowering.triton.codegen.emission import fill_literal, initial_value, make_source, program_id
from oneflow.lowering.triton.codegen.kernel import Kernel, Tensor, bytes_of
from oneflow.lowering.triton.codegen.tile import Axis, LinearForm, Tile
from oneflow.lowering.triton.codegen.writer import Value, Writer
from oneflow.lowering.triton.source import PROGRAM_PLACEHOLDER, Function, Source
from oneflow.lowering.triton.symbolic_sizes import Size, TileCount, power_of_two, product

BLOCK_AXES = frozenset({"x"})


class FlatBlock:
    """A program's block of the flattened positions of a shape; loops of the dimensions `separate` are not merged."""

    def __init__(
        self, kernel: Kernel, shape: Sequence[Size], forms: Sequence[LinearForm], separate: Set[int] = frozenset()
    ) -> None:
        count = product(shape)
        block = gpu_target().kernels.blocks.pointwise
        self.size = block if count.static is None else min(block, power_of_two(count.static))
        axis = Axis("x", list(range(len(shape))), self.size, f"{program_id(kernel)} * {self.size}")
        self.writer, sizes = Writer(), dict(enumerate(shape))
        self.tile = Tile(kernel, self.writer, [axis], sizes, forms, set(separate))
        self.tile.emit_axis(axis)
        self.grid = TileCount.of(count, self.size)

    def to_source(self, kernel: Kernel, ops: Sequence[ir.Operation], updates: dict[int, int]) -> Source:
        """The source of the kernel."""
        warps = warps_for(self.size // gpu_target().kernels.blocks.elements_per_thread)
        return make_source(kernel, self.writer, ops, self.grid, warps, updates=updates)


def contiguous_form(tensor: Tensor) -> LinearForm:
    """The offset of a tensor's elements at the positions of a block of its shape."""
    return LinearForm({i: s for i, s in enumerate(tensor.strides) if s.terms})


def emit_fill(kernel: Kernel) -> Source:
    """The kernel of one `linalg.fill`."""
    (op,) = [o for o in kernel.ops if o.name == "linalg.fill"]
    tensor = kernel.tensor(kernel.destinations[0])
    form = contiguous_form(tensor)
    block = FlatBlock(kernel, tensor.shape, [form])
    block.tile.store(tensor, form, initial_value(BodyEmitter(block.tile), op.results[0]))
    return block.to_source(kernel, [op], {})


def emit_nothing(kernel: Kernel) -> Source:
    """The kernel of results without elements; its grid is empty."""
    writer = Writer()
    writer.line("return")
    return make_source(kernel, writer, kernel.ops, TileCount.of(0), 1)


def emit_insert(kernel: Kernel) -> Source:
    """The kernel of a chain of `tensor.insert_slice`."""
    ops = [o for o in kernel.ops if o.name == "tensor.insert_slice"]
    if any(b.operands[1] != a.results[0] for a, b in itertools.pairwise(ops)):
        raise Unsupported("slices that are no chain")
    target, into = kernel.tensor(kernel.destinations[0]), ops[0].operands[1]
    slices = [_Slice(kernel, op, target) for op in ops]
    updated = isinstance(into, ir.BlockArgument)
    updates = {0: list(kernel.block.arguments).index(into)} if updated else {}
    is_separate = all(part.is_long for part in slices) and _are_disjoint(slices)
    if not updated and into.owner.name == "linalg.fill" and not (is_separate and _cover(slices)):
        return _insert_all(kernel, into, slices).to_source(kernel, ops, updates)
    if len(ops) == 1:
        return _insert_one(kernel, slices[0]).to_source(kernel, ops, updates)
    if is_separate:
        return _insert_each(kernel, ops, slices, updates)
    return _insert_all(kernel, into, slices).to_source(kernel, ops, updates)


def _insert_each(
    kernel: Kernel, ops: Sequence[ir.Operation], slices: Sequence[_Slice], updates: dict[int, int]
) -> Source:
    """Separate programs for each slice, in the order of the slices: no program reads more than one slice."""
    parameters = [p.name for p in kernel.parameters]
    writer, functions, first = Writer(), [], 0
    writer.line(f"number = {PROGRAM_PLACEHOLDER}")
    for index, part in enumerate(slices):
        block = _insert_one(kernel, part)
        name, end = f"insert{index}", first + (block.grid.static or 0)
        functions.append(Function(name, ("program_number", *parameters), block.writer.body, "program_number"))
        condition = f"{'elif' if index else 'if'} number < {end}:"
        writer.line("else:" if index == len(slices) - 1 else condition)
        writer.line(f"    {name}({', '.join([f'number - {first}', *parameters])})")
        writer.calls |= block.writer.calls
        writer.pointers |= block.writer.pointers
        first = end
    limits = gpu_target().kernels.blocks
    warps = warps_for(limits.pointwise // limits.elements_per_thread)
    return make_source(kernel, writer, ops, TileCount.of(first), warps, updates=updates, functions=functions)


def _are_disjoint(slices: Sequence[_Slice]) -> bool:
    """Whether no element is in two slices."""
    ranges = [part.ranges for part in slices]
    pairs = itertools.combinations(ranges, 2)
    return all(
        any(a[1] <= b[0] or b[1] <= a[0] for a, b in zip(first, second, strict=True)) for first, second in pairs
    )


def _insert_one(kernel: Kernel, part: _Slice) -> FlatBlock:
    """A pass over one slice."""
    form = contiguous_form(part.source)
    block = FlatBlock(kernel, part.source.shape, [form, part.form])
    value = part.fill_value(block) or block.tile.load(part.source, block.tile.offset(form))
    block.tile.store(part.target, part.form, value)
    return block


def _cover(slices: Sequence[_Slice]) -> bool:
    """Whether disjoint slices are the whole destination."""
    sizes = (math.prod(end - begin for begin, end in part.ranges) for part in slices)
    return sum(sizes) == product(slices[0].target.shape).static


class _Slice:
    """One `tensor.insert_slice`: dimension d of the source is dimension `axes[d]` of the target.

    `offsets`, `sizes` and `steps` are by dimensions of the target; `form` is the offset of each element.
    """

    def __init__(self, kernel: Kernel, op: ir.Operation, target: Tensor) -> None:
        dynamic = list(op.operands)[2:]
        counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[2:]
        ends = list(itertools.accumulate(counts))
        offsets, sizes, steps = dynamic[: ends[0]], dynamic[ends[0] : ends[1]], dynamic[ends[1] :]
        value = op.operands[0]
        self.fill = None if value in kernel.tensors else value
        self.source, self.target = _source(kernel, value), target
        self.offsets = _sizes(kernel, op, "static_offsets", offsets)
        self.sizes = _sizes(kernel, op, "static_sizes", sizes)
        self.steps = _sizes(kernel, op, "static_strides", steps)
        self.axes = self._source_axes()
        strides = target.strides
        constant = Size()
        for offset, stride in zip(self.offsets, strides, strict=True):
            constant = constant + offset * stride
        self.form = LinearForm({d: strides[a] * self.steps[a] for d, a in enumerate(self.axes)}, constant)

    @property
    def is_long(self) -> bool:
        """Whether the sizes of the slice are static, and its contiguous elements fill a cache line of the target."""
        sizes = [(size.static, full.static) for size, full in zip(self.sizes, self.target.shape, strict=True)]
        if any(None in pair for pair in sizes) or any(step != Size.of(1) for step in self.steps) or not self.ranges:
            return False
        partial = [axis for axis, (size, full) in enumerate(sizes) if size != full]
        run = math.prod(size or 0 for size, _ in sizes[max(partial, default=0) :])
        return run * bytes_of(self.target.element) >= gpu_target().cache_line_bytes

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and past-the-end position along each dimension; empty where these are not known."""
        pairs = [(o.static, s.static) for o, s in zip(self.offsets, self.sizes, strict=True)]
        known = [(begin, begin + size) for begin, size in pairs if begin is not None and size is not None]
        return known if len(known) == len(pairs) else []

    @functools.cached_property
    def partial_axes(self) -> set[int]:
        """The target's dimensions of which the slice is a part, or may be."""
        moves = zip(self.offsets, self.sizes, self.steps, self.target.shape, strict=True)
        return {
            axis
            for axis, (offset, size, step, full_size) in enumerate(moves)
            if offset != Size() or step != Size.of(1) or size != full_size
        }

    @property
    def source_form(self) -> LinearForm:
        """The offset of the source's elements over the target's dimensions."""
        return LinearForm({a: s for a, s in zip(self.axes, self.source.strides, strict=True) if s.terms})

    def fill_value(self, block: FlatBlock) -> Value | None:
        """The value of the source's elements, where the source is a fill of the kernel."""
        return None if self.fill is None else initial_value(BodyEmitter(block.tile), self.fill)

    def _source_axes(self) -> list[int]:
        """The target's dimension for each dimension of the source, which may lack dimensions of size 1."""
        spare = len(self.sizes) - len(self.source.shape)
        kept = []
        for axis, size in enumerate(self.sizes):
            if spare and size == Size.of(1):
                spare -= 1
            else:
                kept.append(axis)
        if len(kept) != len(self.source.shape):
            raise Unsupported("a slice of another rank")
        return kept


def _source(kernel: Kernel, value: ir.Value) -> Tensor:
    """The source of a slice: a tensor in memory, or a tensor that the kernel fills."""
    if value in kernel.tensors:
        return kernel.tensor(value)
    if fill_literal(value) is None:
        raise Unsupported("a slice of a computed tensor")
    return Tensor("", kernel.shape(value), str(value.type.element_type))


def _sizes(kernel: Kernel, op: ir.Operation, name: str, dynamic: Sequence[ir.Value]) -> list[Size]:
    values = iter(dynamic)
    unknown = ir.ShapedType.get_dynamic_size()
    static = list(ir.DenseI64ArrayAttr(op.attributes[name]))
    return [kernel.size(next(values)) if n == unknown else Size.of(n) for n in static]


def _insert_all(kernel: Kernel, into: ir.Value, slices: Sequence[_Slice]) -> FlatBlock:
    """A pass over the destination: each element is read from the last slice that covers it, or keeps its value."""
    target = slices[0].target
    form, partial = contiguous_form(target), {axis for part in slices for axis in part.partial_axes}
    block = FlatBlock(kernel, target.shape, [form, *(part.source_form for part in slices)], partial)
    updated = isinstance(into, ir.BlockArgument)
    value, masks = None if updated else initial_value(BodyEmitter(block.tile), into), []
    for part in slices:
        inside, element = _slice_elements(block, part)
        masks.append(inside.name)
        value = element if value is None else block.writer.define(
            f"tl.where({inside.name}, {element.name}, {value.name})", target.element, BLOCK_AXES
        )  # fmt: skip
    assert value is not None
    if updated:
        block.tile.masks["x"] = block.writer.define(" | ".join(masks), "i1", BLOCK_AXES, "written")
    block.tile.store(target, form, value)
    return block


def _slice_elements(block: FlatBlock, part: _Slice) -> tuple[Value, Value]:
    """Whether positions of the destination are in a slice, and the source's elements there."""
    tile, writer = block.tile, block.writer
    covered = tile.mask(BLOCK_AXES)
    inside, parts = [covered] if covered else [], []
    strides = dict(zip(part.axes, part.source.strides, strict=True))
    for axis, (offset, size, step) in enumerate(zip(part.offsets, part.sizes, part.steps, strict=True)):
        position = tile.positions.get(axis)
        if axis not in part.partial_axes:
            parts += [f"{position.name} * {strides[axis].factor}"] if position is not None and axis in strides else []
            continue
        at = f"{position.name if position else 0} - {offset.atom}"
        local = writer.define(f"({at}) // {step.atom}" if step != Size.of(1) else at, "position", BLOCK_AXES, "j")
        inside.append(f"({local.name} >= 0) & ({local.name} < {size.atom})")
        inside += [f"(({at}) % {step.atom} == 0)"] if step != Size.of(1) else []
        if axis in strides:
            parts.append(f"{local.name} * {strides[axis].factor}")
    text = " & ".join(f"({i})" for i in inside) or tile.full("True", "i1", tile.shape)
    mask = writer.define(text, "i1", BLOCK_AXES, "inside")
    fill = part.fill_value(block)
    if fill is not None:
        return mask, fill
    text = f"tl.load({writer.address(part.source.name)} + {' + '.join(parts) or '0'}, {mask.name}, 0)"
    bools = part.source.element == "i1"
    return mask, writer.define(f"{text} != 0" if bools else text, part.source.element, BLOCK_AXES)
