"""Splitting a reduction in two: partial reductions of parts, then a reduction of the partial results (split-K).

    %s = linalg.generic {reduction over 65536 rows} ins(%x : tensor<65536x64xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536x64xf32> into tensor<512x128x64xf32>
           %p = linalg.generic {reduction over 128 rows} ins(%v) -> tensor<512x64xf32>
           %s = linalg.generic {reduction over 512 rows} ins(%p)

Where the parts do not cover the loop, the parts are read as windows of the operand, and the remainder of the loop is
reduced separately, to the initial value of the final reduction.

`llvm/split_for_threads.py` and `triton/fusion/split_reductions.py` decide which reductions are split, by which
combiners, and in how many parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oneflow.dialect._mlir import func, ir, tensor
from oneflow.lowering.kernels.nodes import Node, Unsupported, loop_size, read_node, static_size
from oneflow.passes.inline import clone_with

#: The attribute of reductions that combine partial results.
COMBINES_PARTIALS = "oneflow.parts"
#: The steps of a part are a multiple of this where the parts do not cover the loop, for aligned reads.
ALIGNED_STEPS = 32


@dataclass(frozen=True)
class ReductionCombiner:
    """The operation that combines the elements of a result, and the identity of that operation."""

    op: ir.Operation
    identity: ir.Attribute

    def combine(self, left: ir.Value, right: ir.Value) -> ir.Value:
        """The combination of two elements, at the insertion point."""
        attributes = {name: self.op.attributes[name] for name in self.op.attributes}
        result: ir.Value = ir.Operation.create(self.op.name, [left.type], [left, right], attributes).results[0]
        return result

    def identities(self, sizes: Sequence[int | ir.Value], element: ir.Type) -> ir.Value:
        """A tensor of identities, at the insertion point."""
        empty = tensor.EmptyOp(list(sizes), element).result
        constant = {"value": self.identity}
        value = ir.Operation.create("arith.constant", [element], [], constant).results[0]
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
        filled = ir.Operation.create("linalg.fill", [empty.type], [value, empty], segments, regions=1)
        block = filled.regions[0].blocks.append(element, element)
        ir.Operation.create("linalg.yield", [], [block.arguments[0]], ip=ir.InsertionPoint(block))
        result: ir.Value = filled.results[0]
        return result


def divisors(size: int, most: int) -> list[int]:
    """The counts of equal parts, at least 2 and at most `most`, into which a loop of `size` steps can be split."""
    return [n for n in range(2, min(size, most) + 1) if size % n == 0]


def equal_parts(size: int, most: int) -> int:
    """The largest number of equal parts of a loop of `size` steps, at most `most`; 1 is no split."""
    return max(divisors(size, most), default=1)


def even_parts(size: int, most: int) -> int:
    """A number of parts of a loop of `size` steps, at most `most` and for long loops at least half of that; 1 is no
    split.

    The parts are equal if a divisor of `size` is large enough. Otherwise a remainder of fewer than two parts is left.
    """
    exact = equal_parts(size, most)
    if 2 * exact > most:
        return exact
    steps = -(-size // (most * ALIGNED_STEPS)) * ALIGNED_STEPS
    return max(size // steps, exact)


def longest_reduction(node: Node) -> int | None:
    """The reduced loop of most steps that is a dimension of operands and has no `linalg.index` in the body."""
    uses = [*node.inputs, *node.outputs]
    windowed = {d for u in uses for f in u.access if f.dim is None for d in f.dims}
    known = {d: size for d, size in reduced_loops(node).items() if d not in windowed}
    return max(known, key=lambda d: (known[d], -d), default=None)


def reduced_loops(node: Node) -> dict[int, int]:
    """The reduced loops of static size and their sizes, without loops that have a `linalg.index` in the body."""
    indexed = {ir.IntegerAttr(o.operation.attributes["dim"]).value for o in node.body.operations
             if o.operation.name == "linalg.index"}  # fmt: skip
    sizes = {d: loop_size([node], node.loop_ids[d]) for d in sorted(node.nonunit_reductions - indexed)}
    return {d: size for d, size in sizes.items() if size}


#: The combiner of each result of a node. None, or `Unsupported`, where the node must not be split.
FindCombiners: TypeAlias = Callable[[Node], "Sequence[ReductionCombiner] | None"]


def split_reductions(
    module: ir.Module,
    find_combiners: FindCombiners,
    parts: Callable[[Node], tuple[int | None, int]],
    order: Callable[[Node], Sequence[int] | None] = lambda node: None,
) -> None:
    """Splits one loop of each reduction of `module`; `parts(node)` is the loop and the number of parts.

    A reduction with one part stays as it is, unless `order` gives another order of its results' dimensions.
    """
    functions = [f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external]
    for function in functions:
        views: dict[object, ir.Value] = {}
        for op in [o.operation for o in function.regions[0].blocks[0].operations]:
            node, combiners = _read_reduction(op, find_combiners)
            loop, count = parts(node) if node and combiners else (None, 1)
            result_order = order(node) if node and combiners else None
            if node and (count > 1 or result_order is not None):
                ReductionSplit(node, combiners, loop if count > 1 else None, count, views, result_order).replace()


def _read_reduction(
    op: ir.Operation, find_combiners: FindCombiners
) -> tuple[Node | None, Sequence[ReductionCombiner]]:
    """An operation as a node and the combiners of its results; None and an empty list where the operation cannot be
    split.
    """
    try:
        node = read_node(op)
        return node, (find_combiners(node) if node.nonunit_reductions else None) or ()
    except Unsupported:
        return None, ()


@dataclass
class ReductionSplit:
    """Splits loop `loop` of a reduction in `parts`, with one `ReductionCombiner` for each result.

    Dimensions along the loop become two dimensions; a position that only contains the loop (a window) gets both
    loops. `loop` is None for one part. `views` caches expanded operands. `order` are the result's dimensions in the
    order of the partial results, which can be the better layout for the partial reduction.
    """

    node: Node
    combiners: Sequence[ReductionCombiner]
    loop: int | None
    parts: int
    views: dict[object, ir.Value]
    order: Sequence[int] | None = None

    def replace(self) -> None:
        """Writes both reductions in front of the operation, and erases the operation."""
        op = self.node.op
        inits = [use.value for use in self.node.outputs]
        with ir.InsertionPoint(op), op.location:
            partial = self._partial_reduction()
            if self._remainder:
                inits = self._reduce_remainder()
            for index, old in enumerate(list(op.results)):
                old.replace_all_uses_with(self._final_reduction(index, partial.results[index], inits[index]))
        op.erase()

    def _order(self, rank: int) -> list[int]:
        """The order of the result's dimensions in partial results."""
        return list(range(rank)) if self.order is None else list(self.order)

    def _partial_reduction(self) -> ir.Operation:
        """The reduction of each part."""
        op, count = self.node.op, len(self.node.inputs)
        maps = [a.value for a in op.attributes["indexing_maps"]]
        inputs = [self._split_operand(v, m) for v, m in zip(list(op.operands)[:count], maps[:count], strict=True)]
        outs = [self._partial_init(index) for index in range(len(self.combiners))]
        maps_of_parts = [self._split_map(m, i >= count) for i, m in enumerate(maps)]
        iterators = ["parallel", *self._iterators()]
        if self._remainder:
            dims = [ir.AffineExpr.get_dim(d) for d in (0, self._split_loop + 1)]
            maps_of_parts.insert(count, ir.AffineMap.get(len(iterators), 0, dims))
            inputs.append(new_window(self.node, self.parts, self._steps))
        generic = new_generic(inputs, outs, maps_of_parts, iterators)
        for inner in self._copy_body(generic, len(inputs) - count).operations:
            if inner.operation.name == "linalg.index":
                dim = ir.IntegerAttr(inner.operation.attributes["dim"])
                inner.operation.attributes["dim"] = ir.IntegerAttr.get(dim.type, dim.value + 1)
        return generic

    def _reduce_remainder(self) -> list[ir.Value]:
        """The reduction of the steps after the last part, from the operation's initial values."""
        op, count = self.node.op, len(self.node.inputs)
        loops = len(self.node.loop_ids)
        dims = [ir.AffineExpr.get_dim(d) for d in range(loops)]
        window = ir.AffineMap.get(loops, 0, [dims[self._split_loop]])
        dims[self._split_loop] = dims[self._split_loop] + self.parts * self._steps
        shift = ir.AffineMap.get(loops, 0, dims)
        maps = [a.value for a in op.attributes["indexing_maps"]]
        shifted = [ir.AffineMap.get(loops, 0, [e.compose(shift) for e in m.results]) for m in maps[:count]]
        inputs = [*list(op.operands)[:count], new_window(self.node, self._remainder)]
        outs = [use.value for use in self.node.outputs]
        generic = new_generic(inputs, outs, [*shifted, window, *maps[count:]], self._iterators())
        self._copy_body(generic, 1)
        return list(generic.results)

    def _iterators(self) -> list[str]:
        """The kinds of the operation's loops."""
        reduced = self.node.reductions
        return ["reduction" if d in reduced else "parallel" for d in range(len(self.node.loop_ids))]

    def _copy_body(self, generic: ir.Operation, windows: int) -> ir.Block:
        """Copies the operation's body to `generic`, which has `windows` more inputs."""
        body, count = self.node.body, len(self.node.inputs)
        types = [argument.type for argument in body.arguments]
        element = ir.RankedTensorType(self.node.inputs[0].value.type).element_type
        block = generic.regions[0].blocks.append(*types[:count], *[element] * windows, *types[count:])
        arguments = list(block.arguments)
        values = dict(zip(body.arguments, [*arguments[:count], *arguments[count + windows :]], strict=True))
        with ir.InsertionPoint(block):
            for inner in body.operations:
                clone_with(inner.operation, values)
        return block

    def _split_operand(self, value: ir.Value, indexing_map: ir.AffineMap) -> ir.Value:
        """An operand whose dimension along the loop is expanded to two."""
        axes = [] if self._remainder else [i for i, e in enumerate(indexing_map.results) if _is_dim(e, self.loop)]
        if not axes:
            return value
        key = (value, self.parts, *axes)
        if key not in self.views:
            self.views[key] = self._expanded(self._with_loop_sizes(value, indexing_map), axes)
        return self.views[key]

    def _expanded(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """A tensor whose dimensions `axes` become two: the parts, and the steps of a part."""
        kind, groups = ir.RankedTensorType(value.type), list[list[int]]()
        sizes: list[int | ir.Value] = []
        for axis in range(kind.rank):
            new_sizes = [self.parts, self._steps] if axis in axes else [_size(value, axis)]
            groups.append(list(range(len(sizes), len(sizes) + len(new_sizes))))
            sizes += new_sizes
        dynamic = [s for s in sizes if not isinstance(s, int)]
        static = [s if isinstance(s, int) else ir.ShapedType.get_dynamic_size() for s in sizes]
        expanded = ir.RankedTensorType.get(static, kind.element_type)
        return tensor.ExpandShapeOp(expanded, value, groups, dynamic, static).result

    def _with_loop_sizes(self, value: ir.Value, indexing_map: ir.AffineMap) -> ir.Value:
        """An operand whose type has the static sizes of loops that follow from other operands."""
        kind, loop_ids = ir.RankedTensorType(value.type), self.node.loop_ids
        loops = [e.position if isinstance(e, ir.AffineDimExpr) else None for e in indexing_map.results]
        known = [None if d is None else loop_size([self.node], loop_ids[d]) for d in loops]
        shape = [s if k is None else k for s, k in zip(kind.shape, known, strict=True)]
        if shape == list(kind.shape):
            return value
        return tensor.CastOp(ir.RankedTensorType.get(shape, kind.element_type), value).result

    def _split_map(self, indexing_map: ir.AffineMap, is_result: bool) -> ir.AffineMap:
        """An indexing map after the loop over parts is added in front."""
        count, part = indexing_map.n_dims, ir.AffineExpr.get_dim(0)
        dims = [ir.AffineExpr.get_dim(i + 1) for i in range(count)]
        moved = [e.compose(ir.AffineMap.get(count + 1, 0, dims)) for e in indexing_map.results]
        if is_result:
            return ir.AffineMap.get(count + 1, 0, [part, *(moved[i] for i in self._order(len(moved)))])
        if self.loop is not None:
            dims[self.loop] = dims[self.loop] + part * self._steps
        split = [e.compose(ir.AffineMap.get(count + 1, 0, dims)) for e in indexing_map.results]
        is_split = [not self._remainder and _is_dim(e, self.loop) for e in indexing_map.results]
        both = [[part, e] if expanded else [s] for e, s, expanded in zip(moved, split, is_split, strict=True)]
        return ir.AffineMap.get(count + 1, 0, [e for pair in both for e in pair])

    @property
    def _split_loop(self) -> int:
        """The loop that is split, of a reduction in more than one part."""
        assert self.loop is not None
        return self.loop

    @functools.cached_property
    def _size(self) -> int:
        """The steps of the loop, 0 without one."""
        return 0 if self.loop is None else loop_size([self.node], self.node.loop_ids[self.loop]) or 0

    @functools.cached_property
    def _steps(self) -> int:
        """The steps of the loop in one part."""
        steps = self._size // self.parts
        return steps if steps * self.parts == self._size else max(steps // ALIGNED_STEPS, 1) * ALIGNED_STEPS

    @property
    def _remainder(self) -> int:
        """The steps of the loop after the last part."""
        return self._size - self.parts * self._steps

    def _partial_init(self, index: int) -> ir.Value:
        """The initial values of the partial results of result `index`: identities."""
        kind, init = ir.RankedTensorType(self.node.results[index].type), self.node.outputs[index].value
        sizes = [_size(init, i) for i in self._order(kind.rank)]
        return self.combiners[index].identities([self.parts, *sizes], kind.element_type)

    def _final_reduction(self, index: int, partial: ir.Value, init: ir.Value) -> ir.Value:
        """The reduction of the partial results of result `index`, from `init`."""
        rank = ir.RankedTensorType(init.type).rank
        dims = [ir.AffineExpr.get_dim(i) for i in range(rank + 1)]
        read = [dims[0], *(dims[1 + i] for i in self._order(rank))]
        maps = [ir.AffineMap.get(rank + 1, 0, read), ir.AffineMap.get(rank + 1, 0, dims[1:])]
        generic = new_generic([partial], [init], maps, ["reduction", *["parallel"] * rank])
        generic.attributes[COMBINES_PARTIALS] = ir.UnitAttr.get()
        element = ir.RankedTensorType(init.type).element_type
        block = generic.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            combined = self.combiners[index].combine(block.arguments[1], block.arguments[0])
            ir.Operation.create("linalg.yield", [], [combined])
        return generic.results[0]


def new_generic(inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap],
             iterators: Sequence[str]) -> ir.Operation:  # fmt: skip
    """A `linalg.generic` with an empty body region."""
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{i}>") for i in iterators]
    return ir.Operation.create("linalg.generic", [o.type for o in outs], [*inputs, *outs], {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        "iterator_types": ir.ArrayAttr.get(kinds),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outs)]),
    }, regions=1)  # fmt: skip


def new_window(node: Node, *sizes: int) -> ir.Value:
    """A tensor without reads: linalg infers the sizes of the loops over a window from this operand."""
    element = ir.RankedTensorType(node.inputs[0].value.type).element_type
    return tensor.EmptyOp(list(sizes), element).result


def _size(value: ir.Value, axis: int) -> int | ir.Value:
    """The size of a tensor's dimension: a static size, or a `tensor.dim` at the insertion point."""
    known = static_size(value, axis)
    if known is not None:
        return known
    kind = ir.IndexType.get()
    constant = ir.Operation.create("arith.constant", [kind], [], {"value": ir.IntegerAttr.get(kind, axis)})
    return tensor.DimOp(value, constant.results[0]).result


def _is_dim(expression: ir.AffineExpr, position: int | None) -> bool:
    """Whether an affine expression is loop dimension `position`."""
    return isinstance(expression, ir.AffineDimExpr) and expression.position == position
