"""Cutting a reduction in two: parts that are reduced by themselves, then the partial results.

    %s = linalg.generic {reduction over 65536 rows} ins(%x : tensor<65536x64xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536x64xf32> into tensor<512x128x64xf32>
           %p = linalg.generic {reduction over 128 rows} ins(%v) -> tensor<512x64xf32>
           %s = linalg.generic {reduction over 512 rows} ins(%p)

Which reductions, how they combine, and in how many parts, a backend decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oneflow.dialect._mlir import func, ir, tensor
from oneflow.lowering.kernels.nodes import Node, Unsupported, loop_size, read_node, static_size

#: On the reductions that put partial results together.
COMBINES_PARTIALS = "oneflow.parts"


@dataclass(frozen=True)
class ReductionCombiner:
    """One result of a reduction: the operation that combines its elements, and what is identity for that."""

    op: ir.Operation
    identity: ir.Attribute


def longest_reduction(node: Node) -> int | None:
    """The reduced loop of most steps that is a dimension of operands; no body may ask where it is."""
    uses = [*node.inputs, *node.outputs]
    tangled = {d for u in uses for f in u.access if f.dim is None for d in f.dims}
    known = {d: size for d, size in reduced_loops(node).items() if d not in tangled}
    return max(known, key=lambda d: (known[d], -d), default=None)


def reduced_loops(node: Node) -> dict[int, int]:
    """The reduced loops of known steps, with these; no body may ask where they are."""
    asked = {ir.IntegerAttr(o.operation.attributes["dim"]).value for o in node.body.operations
             if o.operation.name == "linalg.index"}  # fmt: skip
    sizes = {d: loop_size([node], node.names[d]) for d in sorted(node.nonunit_reductions - asked)}
    return {d: size for d, size in sizes.items() if size}


#: How each result of a node combines; None where the node stays whole, or Unsupported is raised.
FindCombiners: TypeAlias = Callable[[Node], "Sequence[ReductionCombiner] | None"]


def split_reductions(
    module: ir.Module,
    find_combiners: FindCombiners,
    parts: Callable[[Node], tuple[int | None, int]],
    order: Callable[[Node], Sequence[int] | None] = lambda node: None,
) -> None:
    """Cuts a loop of each reduction of `module` in parts: which, and how many, `parts(node)` says.

    One that is left whole stays as it is, unless its results are to have another `order`: then it is one part.
    """
    functions = [f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external]
    for function in functions:
        views: dict[object, ir.Value] = {}
        for op in [o.operation for o in function.regions[0].blocks[0].operations]:
            node, combiners = _read_reduction(op, find_combiners)
            loop, count = parts(node) if node and combiners else (None, 1)
            turned = order(node) if node and combiners else None
            if node and (count > 1 or turned is not None):
                ReductionSplit(node, combiners, loop if count > 1 else None, count, views, turned).replace()


def _read_reduction(
    op: ir.Operation, find_combiners: FindCombiners
) -> tuple[Node | None, Sequence[ReductionCombiner]]:
    """An operation's node and how its results combine: none where it cannot be cut."""
    try:
        node = read_node(op)
        return node, (find_combiners(node) if node.nonunit_reductions else None) or ()
    except Unsupported:
        return None, ()


@dataclass
class ReductionSplit:
    """Cuts loop `loop` of a reduction in `parts`, one `ReductionCombiner` for each result; None is cut in one part.

    Dimensions along it become two; where it is part of a position, as in windows, that says both. `views` has the
    tensors that are cut already. `order` are the dimensions of the results as the partial ones have
    them, which may lie better for who makes them.
    """

    node: Node
    combiners: Sequence[ReductionCombiner]
    loop: int | None
    parts: int
    views: dict[object, ir.Value]
    order: Sequence[int] | None = None

    def replace(self) -> None:
        """Writes both reductions in front of the operation, which is erased."""
        op = self.node.op
        with ir.InsertionPoint(op), op.location:
            first = self._partial_reduction()
            for number, old in enumerate(list(op.results)):
                old.replace_all_uses_with(self._final_reduction(number, first.results[number]))
        op.erase()

    def _order(self, rank: int) -> list[int]:
        return list(range(rank)) if self.order is None else list(self.order)

    def _partial_reduction(self) -> ir.Operation:
        op, count = self.node.op, len(self.node.inputs)
        maps = [a.value for a in op.attributes["indexing_maps"]]
        inputs = [self._split_operand(v, m) for v, m in zip(list(op.operands)[:count], maps[:count], strict=True)]
        outs = [self._partial_init(number) for number in range(len(self.combiners))]
        shifted = [self._split_map(m, i >= count) for i, m in enumerate(maps)]
        reduced = self.node.reductions
        iterators = ["parallel", *("reduction" if d in reduced else "parallel" for d in range(len(self.node.names)))]
        made = new_generic(inputs, outs, shifted, iterators)
        op.regions[0].blocks[0].append_to(made.regions[0])
        for inner in made.regions[0].blocks[0].operations:
            if inner.operation.name == "linalg.index":
                place = ir.IntegerAttr(inner.operation.attributes["dim"])
                inner.operation.attributes["dim"] = ir.IntegerAttr.get(place.type, place.value + 1)
        return made

    def _split_operand(self, value: ir.Value, reading: ir.AffineMap) -> ir.Value:
        """An operand with the loop's dimension as two."""
        shape = list(ir.RankedTensorType(value.type).shape)
        axes = [i for i, e in enumerate(reading.results) if _is_dim(e, self.loop)]
        groups: list[list[int]] = []
        sizes: list[int] = []
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

    def _split_map(self, reading: ir.AffineMap, is_result: bool) -> ir.AffineMap:
        """A map behind the new first loop."""
        count, part = reading.n_dims, ir.AffineExpr.get_dim(0)
        dims = [ir.AffineExpr.get_dim(i + 1) for i in range(count)]
        moved = [e.compose(ir.AffineMap.get(count + 1, 0, dims)) for e in reading.results]
        if is_result:
            return ir.AffineMap.get(count + 1, 0, [part, *(moved[i] for i in self._order(len(moved)))])
        if self.loop is not None:
            dims[self.loop] = dims[self.loop] + part * self._steps
        whole = [e.compose(ir.AffineMap.get(count + 1, 0, dims)) for e in reading.results]
        cut = [_is_dim(e, self.loop) for e in reading.results]
        both = [[part, e] if split else [w] for e, w, split in zip(moved, whole, cut, strict=True)]
        return ir.AffineMap.get(count + 1, 0, [e for pair in both for e in pair])

    @property
    def _steps(self) -> int:
        """The steps of the loop in a part."""
        size = None if self.loop is None else loop_size([self.node], self.node.names[self.loop])
        return (size or 0) // self.parts

    def _partial_init(self, number: int) -> ir.Value:
        """Neutral elements for every part."""
        kind, whole = ir.RankedTensorType(self.node.results[number].type), self.node.outputs[number].value
        sizes = [_size(whole, i) for i in self._order(kind.rank)]
        empty = tensor.EmptyOp([self.parts, *sizes], kind.element_type).result
        identity = {"value": self.combiners[number].identity}
        value = ir.Operation.create("arith.constant", [kind.element_type], [], identity).results[0]
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
        filled = ir.Operation.create("linalg.fill", [empty.type], [value, empty], segments, regions=1)
        block = filled.regions[0].blocks.append(kind.element_type, kind.element_type)
        ir.Operation.create("linalg.yield", [], [block.arguments[0]], ip=ir.InsertionPoint(block))
        return filled.results[0]

    def _final_reduction(self, number: int, partial: ir.Value) -> ir.Value:
        """The parts of one result put together."""
        combiners, start = self.combiners[number].op, self.node.outputs[number].value
        rank = ir.RankedTensorType(start.type).rank
        dims = [ir.AffineExpr.get_dim(i) for i in range(rank + 1)]
        read = [dims[0], *(dims[1 + i] for i in self._order(rank))]
        maps = [ir.AffineMap.get(rank + 1, 0, read), ir.AffineMap.get(rank + 1, 0, dims[1:])]
        made = new_generic([partial], [start], maps, ["reduction", *["parallel"] * rank])
        made.attributes[COMBINES_PARTIALS] = ir.UnitAttr.get()
        element = ir.RankedTensorType(start.type).element_type
        block = made.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            attributes = {a: combiners.attributes[a] for a in combiners.attributes}
            both = ir.Operation.create(combiners.name, [element], list(block.arguments)[::-1], attributes)
            ir.Operation.create("linalg.yield", [], [both.results[0]])
        return made.results[0]


def new_generic(inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap],
             iterators: Sequence[str]) -> ir.Operation:  # fmt: skip
    """A `linalg.generic` whose body is still to be written."""
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{i}>") for i in iterators]
    return ir.Operation.create("linalg.generic", [o.type for o in outs], [*inputs, *outs], {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        "iterator_types": ir.ArrayAttr.get(kinds),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outs)]),
    }, regions=1)  # fmt: skip


def _size(value: ir.Value, position: int) -> int | ir.Value:
    """The size of a tensor's dimension: a number, or the value that has it in the run."""
    known = static_size(value, position)
    if known is not None:
        return known
    kind = ir.IndexType.get()
    number = ir.Operation.create("arith.constant", [kind], [], {"value": ir.IntegerAttr.get(kind, position)})
    return tensor.DimOp(value, number.results[0]).result


def _is_dim(expression: ir.AffineExpr, position: int | None) -> bool:
    return isinstance(expression, ir.AffineDimExpr) and expression.position == position
