"""Tiles: the positions of a program's elements along axes, their offsets in memory, and tail masking.

An axis is a list of loops of the structure, flattened in row-major order. Loops along which every tensor has one
stride are collapsed into a group with one position, so that positions need few divisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.access import QuasiAffine
from oneflow.lowering.kernels.nodes import Node, Use
from oneflow.lowering.triton.codegen.kernel import Kernel, Tensor, triton_type
from oneflow.lowering.triton.codegen.writer import NONE, Axes, Value, Writer
from oneflow.lowering.triton.symbolic_sizes import Size, product


@dataclass(frozen=True)
class LinearForm:
    """An offset in elements: a factor for each loop, a constant, and other positions with their factors."""

    loops: Mapping[int, Size]
    constant: Size = field(default_factory=Size)
    computed: tuple[tuple[QuasiAffine, Size], ...] = ()

    @property
    def loops_used(self) -> set[int]:
        """The loops that the offset depends on."""
        return set(self.loops).union(*(position.dims for position, _ in self.computed))


@dataclass(frozen=True)
class Offset:
    """The offset of a block's elements in a tensor: a Triton expression, the axes along which the offset varies, and
    its form. An offset that is computed from values has no form.
    """

    expression: str
    axes: Axes
    form: LinearForm | None = None


@dataclass
class Axis:
    """One axis of a tile.

    Attributes:
        name: the name, and the prefix of variables of its positions.
        loops: the flattened loops, outermost first.
        block: elements of a block along the axis.
        start: the text of the first position of the block; None means 0.
        scalar: whether the axis is one position in a program, and no dimension of blocks.
        index: the subscript that broadcasts its positions to a block, for axes that are no dimension of full blocks.
        size: the number of its positions.
        parent_block: elements of the block that this block is a part of.
    """

    name: str
    loops: list[int]
    block: int
    start: str | None = None
    scalar: bool = False
    index: str | None = None
    size: Size = field(default_factory=lambda: Size.of(1))
    parent_block: int = 1


def linear_form(kernel: Kernel, node: Node, use: Use) -> LinearForm:
    """The offset of a use, over the structure's loops."""
    shape = kernel.shape(use.value)
    strides = Tensor("", shape, "").strides
    loops: dict[int, Size] = {}
    constant, computed = Size(), []
    for form, stride in zip(use.access, strides, strict=True):
        if isinstance(form, QuasiAffine):
            computed.append((form.replace_dims(node.loop_ids), stride))
            continue
        constant = constant + stride * Size.of(form.constant)
        for dim, factor in form.terms:
            loop = node.loop_ids[dim]
            loops[loop] = loops.get(loop, Size()) + stride * Size.of(factor)
    return LinearForm({n: s for n, s in loops.items() if s.terms}, constant, tuple(computed))


def indexed_loops(nodes: Iterable[Node]) -> set[int]:
    """The loops whose positions bodies read by `linalg.index`."""
    loops = set()
    for node in nodes:
        for op in node.body.operations:
            if op.operation.name == "linalg.index":
                loops.add(node.loop_ids[ir.IntegerAttr(op.operation.attributes["dim"]).value])
    return loops


@dataclass
class Tile:
    """The elements of one program.

    Attributes:
        axes: its axes; the axes `block_axes` are the dimensions of a full block.
        sizes: the size of each loop.
        forms: the offsets of all uses, by which loops are collapsed.
        opaque: loops that are not collapsed, since bodies read their positions.
        positions: the position of each group of loops, by its innermost loop.
        masks: the mask of each axis, None where the whole block is in range.
        eviction_policy: the policy of loads of full blocks, empty for the default; with a policy, stores evict first.
        layout: the layout of full blocks in Gluon.
    """

    kernel: Kernel
    writer: Writer
    axes: list[Axis]
    sizes: Mapping[int, Size]
    forms: Sequence[LinearForm]
    opaque: set[int]
    positions: dict[int, Value] = field(default_factory=dict)
    masks: dict[str, Value | None] = field(default_factory=dict)
    eviction_policy: str = ""
    layout: str = ""

    def __post_init__(self) -> None:
        for axis in self.axes:
            axis.size = product(self.sizes[n] for n in axis.loops)

    @property
    def block_axes(self) -> list[Axis]:
        """The axes that are dimensions of full blocks."""
        return [a for a in self.axes if not a.scalar and a.index is None]

    @property
    def shape(self) -> str:
        """The shape of a full block."""
        return _tuple([a.block for a in self.block_axes])

    def emit_axis(self, axis: Axis) -> None:
        """Writes the positions along an axis and its loops, and the mask of the axis."""
        axes = frozenset({axis.name})
        text = axis.start or "0"
        if not axis.scalar:
            lanes = f"{self.lanes(axis)}{self._index(axis)}{'.to(tl.int64)' if self.kernel.needs_64_bits else ''}"
            text = f"{text} + {lanes}" if axis.start else lanes
        elif self.kernel.needs_64_bits:
            text = f"{text} + tl.full((), 0, tl.int64)"
        if not axis.loops:
            self.masks[axis.name] = None if axis.scalar or axis.block == 1 else self._mask(axis, text, axes)
            return
        flat = self.writer.define(text, "position", axes, axis.name)
        size, covered = axis.size.static or 0, math.lcm(axis.block, axis.parent_block)
        exact = axis.scalar or (size > 0 and size % covered == 0)
        self.masks[axis.name] = None if exact else self._mask(axis, flat.name, axes)
        self._delinearize(axis, flat)

    def lanes(self, axis: Axis) -> str:
        """The positions within a block along an axis, as a one-dimensional block."""
        return f"tl.arange(0, {axis.block})"

    def _index(self, axis: Axis) -> str:
        """The subscript that broadcasts positions along an axis to a block."""
        if axis.index is not None:
            return axis.index
        rank, dim = len(self.block_axes), self.block_axes.index(axis)
        return f"[{', '.join(':' if i == dim else 'None' for i in range(rank))}]" if rank > 1 else ""

    def _mask(self, axis: Axis, text: str, axes: Axes) -> Value:
        return self.writer.define(f"{text} < {axis.size.atom}", "i1", axes, f"in_{axis.name}")

    def _delinearize(self, axis: Axis, flat: Value) -> None:
        """Writes the position along each group of loops of an axis, from the flat position along the axis."""
        groups = self.groups(axis.loops)
        inner = Size.of(1)
        for index, group in reversed(list(enumerate(groups))):
            size = product(self.sizes[n] for n in group)
            is_innermost = inner == Size.of(1)
            text = flat.name if is_innermost else f"{flat.name} // {inner.atom}"
            if index:
                text = f"{text} % {size.atom}" if is_innermost else f"({text}) % {size.atom}"
            position = self.writer.define(text, "position", flat.axes, "i") if text != flat.name else flat
            self.positions[group[-1]] = position
            inner = inner * size

    def groups(self, loops: Sequence[int]) -> list[list[int]]:
        """The loops in groups that are collapsed; loops of size 1 are left out."""
        groups: list[list[int]] = []
        for loop in loops:
            if self.sizes[loop] == Size.of(1):
                continue
            if groups and self._can_collapse(groups[-1][-1], loop):
                groups[-1].append(loop)
            else:
                groups.append([loop])
        return groups

    def _can_collapse(self, outer: int, inner: int) -> bool:
        separate = self.opaque.union(*(c.dims for f in self.forms for c, _ in f.computed))
        if {outer, inner} & separate:
            return False
        zero = Size()
        return all(f.loops.get(outer, zero) == f.loops.get(inner, zero) * self.sizes[inner] for f in self.forms)

    def position(self, loop: int) -> Value:
        """The position along a loop as a value of type `index`."""
        if loop not in self.positions:
            return self.writer.define(constant_text("0", "index"), "index")
        position = self.positions[loop]
        return self.writer.define(f"({position.name}).to(tl.int64)", "index", position.axes)

    def mask(self, axes: Axes) -> str | None:
        """The text of the mask over axes, None where all lanes are in range."""
        names = [m.name for a in self.axes if a.name in axes and (m := self.masks.get(a.name)) is not None]
        return " & ".join(names) or None

    def offset(self, form: LinearForm) -> Offset:
        """An offset at the positions of the tile."""
        parts, axes = [], NONE
        for loop, position in self.positions.items():
            factor = form.loops.get(loop)
            if factor is not None:
                parts.append(position.name if factor == Size.of(1) else f"{position.name} * {factor.factor}")
                axes = axes | position.axes
        for computed, factor in form.computed:
            positions = {loop: self.positions[loop] for loop in computed.dims if loop in self.positions}
            parts.append(f"({computed.text({loop: p.name for loop, p in positions.items()})}) * {factor.factor}")
            axes = axes.union(*(p.axes for p in positions.values()))
        if form.constant.terms:
            parts.append(str(form.constant))
        return Offset(" + ".join(parts), axes, form)

    def load(self, tensor: Tensor, offset: Offset, other: str = "0") -> Value:
        """Loads the elements at an offset, `other` in masked lanes; bools are bytes in memory."""
        pointer = self.writer.address(tensor.name)
        address = f"{pointer} + {offset.expression}" if offset.expression else pointer
        mask = self.mask(offset.axes)
        eviction = self._eviction_argument(self.eviction_policy, offset.axes)
        text = f"tl.load({address}{f', {mask}, {other}' if mask else ''}{eviction})"
        return self.writer.define(
            f"{text} != 0" if tensor.element == "i1" else text, tensor.element, offset.axes, pointer=pointer
        )

    def _eviction_argument(self, policy: str, axes: Axes) -> str:
        """The text of the argument with the eviction policy of a full block."""
        is_full = len(axes) == len(self.block_axes)
        return f', eviction_policy="{policy}"' if policy and is_full else ""

    def store(self, tensor: Tensor, form: LinearForm, value: Value) -> None:
        """Stores a value at an offset."""
        offset = self.offset(form)
        expression, axes = offset.expression, offset.axes
        missing = value.axes - axes
        if missing and self.block_axes:
            shape = _tuple([a.block if a.name in missing else 1 for a in self.block_axes])
            expression = " + ".join([*([expression] if expression else []), self.full("0", "i32", shape)])
            axes = axes | missing
        pointer = self.writer.address(tensor.name)
        address = f"{pointer} + {expression}" if expression else pointer
        mask = self.mask(axes)
        name = f"{value.name}.to(tl.int8)" if tensor.element == "i1" else value.name
        eviction = self._eviction_argument("evict_first" if self.eviction_policy else "", axes)
        text = f"tl.store({address}, {name}{f', {mask}' if mask else ''}{eviction})"
        self.writer.scope(axes | value.axes).lines.append(text)

    def full(self, value: str, element: str, shape: str) -> str:
        """The text of a block of one constant."""
        return constant_text(value, element, shape, self.layout)

    def broadcast(self, value: Value) -> Value:
        """The value as a full block."""
        every = frozenset(a.name for a in self.block_axes)
        wide = {a.name for a in self.block_axes if a.block > 1}
        if not every or (value.axes and value.axes >= wide):
            return Value(value.name, value.element, value.axes | every)
        text = f"tl.broadcast_to({value.name}, {self.shape})"
        return self.writer.define(text, value.element, value.axes | every)


def constant_text(value: str, element: str, shape: str = "()", layout: str = "") -> str:
    """The text of a constant of an element type; `layout` is the layout of a block in Gluon."""
    argument = f", {layout}" if layout else ""
    if element == "bf16":
        return f"tl.full({shape}, {value}, tl.float32{argument}).to(tl.bfloat16)"
    return f"tl.full({shape}, {value}, {triton_type(element)}{argument})"


def _tuple(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
