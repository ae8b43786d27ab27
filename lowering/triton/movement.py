"""Kernels of one operation that moves or fills: `linalg.fill`, `tensor.insert_slice`.

A slice goes straight into its destination where that is another tensor or undefined (the plan sees to it that the
rest is there); into a fill it is one pass over the destination. Imports `tile`, `nest`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Uncovered
from oneflow.lowering.triton.body import Bodies
from oneflow.lowering.triton.kernel import Kernel, Tensor
from oneflow.lowering.triton.nest import finish_ops, initial, program_id
from oneflow.lowering.triton.shape import POINTWISE, warps_of
from oneflow.lowering.triton.sizes import Size, power_of_two, product
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.tile import Axis, Form, Tile
from oneflow.lowering.triton.writer import V, Writer


class Sweep:
    """A program's block of all positions of one shape."""

    def __init__(self, kernel: Kernel, shape: Sequence[Size], forms: Sequence[Form], separate: bool = False) -> None:
        count = product(shape)
        self.block = POINTWISE if count.static is None else min(POINTWISE, power_of_two(count.static))
        axis = Axis("x", list(range(len(shape))), self.block, f"{program_id(kernel)} * {self.block}")
        self.writer, sizes = Writer(), dict(enumerate(shape))
        self.tile = Tile(kernel, self.writer, [axis], sizes, forms, set(sizes) if separate else set())
        self.tile.place(axis)
        self.grid = f"cdiv({count}, {self.block})" if count.static is None else str(-(-count.static // self.block))

    def finish(self, kernel: Kernel, op: ir.Operation, updates: dict[int, int]) -> Source:
        """The kernel's source."""
        return finish_ops(kernel, self.writer, [op], self.grid, warps_of(self.block), updates=updates)


def identity(tensor: Tensor) -> Form:
    """Each element at its own position."""
    return dict(enumerate(tensor.strides)), Size()


def emit_fill(kernel: Kernel) -> Source:
    """The kernel of one `linalg.fill`."""
    (op,) = [o for o in kernel.ops if o.name == "linalg.fill"]
    tensor = kernel.tensor(kernel.destinations[0])
    form = identity(tensor)
    sweep = Sweep(kernel, tensor.shape, [form])
    sweep.tile.store(tensor, form, initial(Bodies(sweep.tile), op.results[0]))
    return sweep.finish(kernel, op, {})


def emit_insert(kernel: Kernel) -> Source:
    """The kernel of one `tensor.insert_slice`."""
    (op,) = [o for o in kernel.ops if o.name == "tensor.insert_slice"]
    source, target = kernel.tensor(op.operands[0]), kernel.tensor(kernel.destinations[0])
    place = _Slice(kernel, op, source, target)
    into = op.operands[1]
    if not isinstance(into, ir.BlockArgument) and into.owner.name == "linalg.fill":
        return _insert_filled(kernel, op, place)
    updates = {0: list(kernel.block.arguments).index(into)} if isinstance(into, ir.BlockArgument) else {}
    forms = [identity(source), place.form]
    sweep = Sweep(kernel, source.shape, forms)
    offset, axes = sweep.tile.offset(forms[0])
    sweep.tile.store(target, forms[1], sweep.tile.load(source, offset, axes))
    return sweep.finish(kernel, op, updates)


class _Slice:
    """Where the dimensions of a source lie in a destination: `axes[d]`, from `offsets` with `steps`."""

    def __init__(self, kernel: Kernel, op: ir.Operation, source: Tensor, target: Tensor) -> None:
        dynamic = list(op.operands)[2:]
        counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[2:]
        offsets, sizes, steps = dynamic[: counts[0]], dynamic[counts[0] : counts[0] + counts[1]], dynamic[-counts[2] :]
        self.source, self.target = source, target
        self.offsets = _mixed(kernel, op, "static_offsets", offsets)
        self.sizes = _mixed(kernel, op, "static_sizes", sizes)
        self.steps = _mixed(kernel, op, "static_strides", steps if counts[2] else [])
        self.axes = self._kept()
        strides = target.strides
        constant = Size()
        for offset, stride in zip(self.offsets, strides, strict=True):
            constant = constant + offset * stride
        self.form: Form = {d: strides[a] * self.steps[a] for d, a in enumerate(self.axes)}, constant

    def _kept(self) -> list[int]:
        """The destination's dimension of each of the source's; dimensions of one may have been dropped."""
        spare = len(self.sizes) - len(self.source.shape)
        kept = []
        for axis, size in enumerate(self.sizes):
            if spare and size == Size.of(1):
                spare -= 1
            else:
                kept.append(axis)
        if len(kept) != len(self.source.shape):
            raise Uncovered("a slice of another rank")
        return kept


def _mixed(kernel: Kernel, op: ir.Operation, name: str, dynamic: Sequence[ir.Value]) -> list[Size]:
    values = iter(dynamic)
    unknown = ir.ShapedType.get_dynamic_size()
    numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
    return [kernel.size(next(values)) if n == unknown else Size.of(n) for n in numbers]


def _insert_filled(kernel: Kernel, op: ir.Operation, place: _Slice) -> Source:
    """Every element of the destination: the source's where it lies in the slice, else the fill."""
    form = identity(place.target)
    sweep = Sweep(kernel, place.target.shape, [form], separate=True)
    tile, writer = sweep.tile, sweep.writer
    other = initial(Bodies(tile), op.operands[1])
    inside, parts, axes = [tile.mask(frozenset({"x"})) or "True"], [], frozenset({"x"})
    strides = dict(zip(place.axes, place.source.strides, strict=True))
    for axis, (offset, size, step) in enumerate(zip(place.offsets, place.sizes, place.steps, strict=True)):
        position = tile.positions.get(axis)
        at = f"{position.name if position else 0} - {offset.factor}"
        local = writer.define(f"({at}) // {step.factor}" if step != Size.of(1) else at, "position", axes, "j")
        inside.append(f"({local.name} >= 0) & ({local.name} < {size.factor})")
        inside += [f"(({at}) % {step.factor} == 0)"] if step != Size.of(1) else []
        if axis in strides:
            parts.append(f"{local.name} * {strides[axis].factor}")
    mask = writer.define(" & ".join(f"({i})" for i in inside), "i1", axes, "inside")
    text = f"tl.load({place.source.name} + {' + '.join(parts) or '0'}, {mask.name}, {_memory(other)})"
    name = writer.define(f"{text} != 0" if place.source.element == "i1" else text, place.source.element, axes)
    tile.store(place.target, form, name)
    return sweep.finish(kernel, op, {})


def _memory(value: V) -> str:
    """A value as memory holds it."""
    return f"{value.name}.to(tl.int8)" if value.element == "i1" else value.name
