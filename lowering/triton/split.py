"""`oneflow-split-reductions`: sums over much that give little become two, so that every processor has a part.

Column sums, sums of everything and products of a long depth leave most processors of a device idle. Their first
loop is cut in parts: each part is reduced by itself, then the partial results are. No atomic operation is needed, so
results do not vary from run to run. Imports `kernels`, `reduction`, `tuning`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir, tensor
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.form import fuse_elementwise
from oneflow.lowering.kernels.nodes import Node, Uncovered, is_contraction, loop_size, read_node
from oneflow.lowering.triton.kernel import bytes_of
from oneflow.lowering.triton.reduction import Folded, neutral, read_folds
from oneflow.lowering.triton.tuning import Product, split_depth, split_parts
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class SplitReductions(Pass):
    """Fuses element-wise operations, then cuts reductions that would leave processors idle in two.

    %s = linalg.generic {reduction over 65536 rows} ins(%x : tensor<65536x64xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536x64xf32> into tensor<512x128x64xf32>
           %p = linalg.generic {reduction over 128 rows} ins(%v) -> tensor<512x64xf32>
           %s = linalg.generic {reduction over 512 rows} ins(%p)
    """

    name: ClassVar[str] = "oneflow-split-reductions"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Splits what is worth it in every function with a body."""
        fuse_elementwise(module)
        for function in module.body.operations:
            if isinstance(function, func.FuncOp) and not function.is_external:
                views: dict[object, ir.Value] = {}
                for op in [o.operation for o in function.regions[0].blocks[0].operations]:
                    _split(op, views)


def _split(op: ir.Operation, views: dict[object, ir.Value]) -> None:
    try:
        node = read_node(op)
    except Uncovered:
        return
    folds = read_folds(node) if node.folds else None
    if not folds or len(folds) != len(node.results) or any(f.op.name == "arith.mulf" for f in folds):
        return
    loop = _longest(node)
    parts = _parts(node, loop) if loop is not None else 1
    if loop is not None and parts > 1:
        _Splitter(node, folds, loop, parts, views).replace()


def _longest(node: Node) -> int | None:
    """The reduced loop of most steps that is a dimension of operands; no body may ask where it is."""
    asked = {ir.IntegerAttr(o.operation.attributes["dim"]).value for o in node.body.operations
             if o.operation.name == "linalg.index"}  # fmt: skip
    uses = [*node.inputs, *node.outputs]
    tangled = {d for u in uses for f in u.access if f.dim is None for d in f.dims}
    sizes = {d: loop_size([node], node.names[d]) for d in node.folds - asked - tangled}
    known = {d: s for d, s in sizes.items() if s}
    return max(known, key=lambda d: (known[d], -d), default=None)


def _parts(node: Node, loop: int) -> int:
    """How many parts to cut a loop in; 1 leaves it whole."""
    sizes = [loop_size([node], n) for n in node.names]
    if any(s is None for s in sizes):
        return 1
    known = [s or 0 for s in sizes]
    kept = math.prod(s for d, s in enumerate(known) if d not in node.reductions)
    if kept * known[loop] == 0:
        return 1
    if is_contraction(node):
        return _product_parts(node, known, loop)
    last = max(node.folds)
    beside = any(u.access and u.access[-1].dim not in (None, *node.folds) and u.access[-1].dim not in node.units
                 for u in node.inputs if u.access and last in set().union(*(f.dims for f in u.access)))  # fmt: skip
    return split_parts(known[loop], math.prod(known[d] for d in node.folds), kept, beside)


def _product_parts(node: Node, sizes: list[int], loop: int) -> int:
    left, right = (set().union(*(f.dims for f in u.access)) for u in node.inputs)
    kept = [d for d in range(len(sizes)) if d not in node.reductions]
    batch, rows, columns = (
        math.prod(sizes[d] for d in kept if (d in left, d in right) == found)
        for found in ((True, True), (True, False), (False, True))
    )
    element = str(node.inputs[0].value.type.element_type)
    if element not in ("f16", "bf16", "f32") or min(rows, columns) <= 1:
        return 1
    depth, width = math.prod(sizes[d] for d in node.folds), bytes_of(element)
    described = width == 2 and all(size % 8 == 0 for size in (rows, columns, depth))
    return split_depth(Product(batch, rows, columns, depth, width, described), sizes[loop])


@dataclass
class _Splitter:
    """Cuts loop `loop` of a reduction in `parts`; `views` has the tensors that are cut already."""

    node: Node
    folds: list[Folded]
    loop: int
    parts: int
    views: dict[object, ir.Value]

    def replace(self) -> None:
        """Writes both reductions in front of the operation, which is erased."""
        op = self.node.op
        with ir.InsertionPoint(op), op.location:
            first = self._first()
            for number, old in enumerate(list(op.results)):
                old.replace_all_uses_with(self._second(number, first.results[number]))
        op.erase()

    def _first(self) -> ir.Operation:
        op, count = self.node.op, len(self.node.inputs)
        maps = [a.value for a in op.attributes["indexing_maps"]]
        inputs = [self._cut(v, m) for v, m in zip(list(op.operands)[:count], maps[:count], strict=True)]
        outs = [self._start(f) for f in self.folds]
        shifted = [self._shifted(m, i >= count) for i, m in enumerate(maps)]
        reduced = self.node.reductions
        iterators = ["parallel", *("reduction" if d in reduced else "parallel" for d in range(len(self.node.names)))]
        made = _generic(inputs, outs, shifted, iterators)
        op.regions[0].blocks[0].append_to(made.regions[0])
        for inner in made.regions[0].blocks[0].operations:
            if inner.operation.name == "linalg.index":
                place = ir.IntegerAttr(inner.operation.attributes["dim"])
                inner.operation.attributes["dim"] = ir.IntegerAttr.get(place.type, place.value + 1)
        return made

    def _cut(self, value: ir.Value, reading: ir.AffineMap) -> ir.Value:
        """An operand with the loop's dimension as two."""
        shape = list(ir.RankedTensorType(value.type).shape)
        axes = [i for i, e in enumerate(reading.results) if _is_dim(e, self.loop)]
        groups, sizes = [], []
        for axis, size in enumerate(shape):
            cut = axis in axes
            groups.append(list(range(len(sizes), len(sizes) + 1 + cut)))
            sizes += [self.parts, size // self.parts] if cut else [size]
        if not axes:
            return value
        made, key = ir.RankedTensorType.get(sizes, ir.RankedTensorType(value.type).element_type), (value, *sizes)
        if key not in self.views:
            self.views[key] = tensor.ExpandShapeOp(made, value, groups, [], sizes).result
        return self.views[key]

    def _shifted(self, reading: ir.AffineMap, is_result: bool) -> ir.AffineMap:
        """A map behind the new first loop."""
        count = reading.n_dims
        dims = [ir.AffineExpr.get_dim(i + 1) for i in range(count)]
        moved = [e.compose(ir.AffineMap.get(count + 1, 0, dims)) for e in reading.results]
        part = ir.AffineExpr.get_dim(0)
        if is_result:
            return ir.AffineMap.get(count + 1, 0, [part, *moved])
        cut = [_is_dim(e, self.loop) for e in reading.results]
        both = [[part, e] if split else [e] for e, split in zip(moved, cut, strict=True)]
        return ir.AffineMap.get(count + 1, 0, [e for pair in both for e in pair])

    def _start(self, fold: Folded) -> ir.Value:
        """Neutral elements for every part."""
        kind = ir.RankedTensorType(self.node.results[fold.number].type)
        empty = tensor.EmptyOp([self.parts, *kind.shape], kind.element_type).result
        number = _number(neutral(fold.op.name, str(kind.element_type)), kind.element_type)
        value = ir.Operation.create("arith.constant", [kind.element_type], [], {"value": number}).results[0]
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
        filled = ir.Operation.create("linalg.fill", [empty.type], [value, empty], segments, regions=1)
        block = filled.regions[0].blocks.append(kind.element_type, kind.element_type)
        ir.Operation.create("linalg.yield", [], [block.arguments[0]], ip=ir.InsertionPoint(block))
        return filled.results[0]

    def _second(self, number: int, partial: ir.Value) -> ir.Value:
        """The parts of one result put together."""
        fold = next(f for f in self.folds if f.number == number)
        start = self.node.outputs[number].value
        rank = ir.RankedTensorType(start.type).rank
        dims = [ir.AffineExpr.get_dim(i) for i in range(rank + 1)]
        maps = [ir.AffineMap.get(rank + 1, 0, dims), ir.AffineMap.get(rank + 1, 0, dims[1:])]
        made = _generic([partial], [start], maps, ["reduction", *["parallel"] * rank])
        element = ir.RankedTensorType(start.type).element_type
        block = made.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            attributes = {a: fold.op.attributes[a] for a in fold.op.attributes}
            joined = ir.Operation.create(fold.op.name, [element], list(block.arguments)[::-1], attributes)
            ir.Operation.create("linalg.yield", [], [joined.results[0]])
        return made.results[0]


def _generic(inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap],
             iterators: Sequence[str]) -> ir.Operation:  # fmt: skip
    """A `linalg.generic` whose body is still to be written."""
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{i}>") for i in iterators]
    return ir.Operation.create("linalg.generic", [o.type for o in outs], [*inputs, *outs], {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        "iterator_types": ir.ArrayAttr.get(kinds),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outs)]),
    }, regions=1)  # fmt: skip


def _is_dim(expression: ir.AffineExpr, position: int) -> bool:
    return isinstance(expression, ir.AffineDimExpr) and expression.position == position


def _number(text: str, kind: ir.Type) -> ir.Attribute:
    """A neutral element as an attribute."""
    if isinstance(kind, ir.IntegerType):
        return ir.IntegerAttr.get(kind, int({"True": "1", "False": "0"}.get(text, text)))
    return ir.FloatAttr.get(kind, float(text.removeprefix('float("').removesuffix('")')))
