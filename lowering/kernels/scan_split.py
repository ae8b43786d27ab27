"""Splitting a scan: totals of parts, a scan of the totals, and scans of the parts from there (reduce-then-scan).

    %y = linalg.generic {running sum over 65536} ins(%x : tensor<65536xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536xf32> into tensor<64x1024xf32>
           %t = linalg.generic {sum over 1024} ins(%v) -> tensor<64xf32>
           %s = linalg.generic {running sum over 64} ins(%t moved by one part)
           %p = linalg.generic {running sum over 1024, each part from %s} ins(%v) -> tensor<64x1024xf32>
           %y = tensor.collapse_shape %p : tensor<64x1024xf32> into tensor<65536xf32>

No part waits for another one, so the result is the same from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import arith, ir, linalg, tensor
from oneflow.lowering.kernels.nodes import Node, loop_size
from oneflow.lowering.kernels.reduction_split import ReductionCombiner, new_generic, reduced_loops
from oneflow.passes.inline import clone_with


def is_plain_scan(node: Node) -> bool:
    """Whether a node is a scan along one dimension whose stream starts anew and whose total nothing reads."""
    if len(node.nonunit_reductions) != 1 or len(node.results) != 2 or any(True for _ in node.results[1].uses):
        return False
    (loop,) = node.nonunit_reductions
    stream, total = ([f.dim for f in use.access] for use in node.outputs)
    is_read = any(True for _ in node.body.arguments[len(node.inputs)].uses)
    loops, kept = set(range(len(node.names))), set(range(len(node.names))) - {loop}
    if loop not in reduced_loops(node):
        return False  # the body reads its position in the loop
    if is_read or set(stream) != loops or set(total) != kept or len(total) != len(kept):
        return False
    return all(f.dim is not None or loop not in f.dims for use in node.inputs for f in use.access)


def split_scan(node: Node, combiner: ReductionCombiner, parts: int) -> None:
    """Replaces a plain scan, whose loop has a multiple of `parts` steps."""
    (loop,) = node.nonunit_reductions
    size = loop_size([node], node.names[loop])
    assert size and size % parts == 0
    with ir.InsertionPoint(node.op), node.op.location:
        split = _ScanSplit(node, combiner, loop, parts, size // parts)
        node.op.results[0].replace_all_uses_with(split.write())
    node.op.erase()


@dataclass
class _ScanSplit:
    """Writes a scan in `parts` of `steps` each; the loop over parts is the last loop."""

    node: Node
    combiner: ReductionCombiner
    loop: int
    parts: int
    steps: int

    def write(self) -> ir.Value:
        """The scan's result."""
        *reads, of_stream, of_total = [a.value for a in self.node.op.attributes["indexing_maps"]]
        stream, total = (use.value for use in self.node.outputs)
        inputs = [self._expand(use.value, m) for use, m in zip(self.node.inputs, reads, strict=True)]
        maps, by_part = [self._split(m) for m in reads], self._split(of_total, is_by_part=True)
        kind = ir.RankedTensorType(total.type)
        identities = self.combiner.identities([*kind.shape, self.parts], kind.element_type)
        (totals,) = self._run(inputs, [identities], [*maps, by_part])
        empty = tensor.EmptyOp(self._expanded(ir.RankedTensorType(stream.type).shape, of_stream), kind.element_type)
        outs = [empty.result, self._starts(totals, total)]
        scanned, _ = self._run(inputs, outs, [*maps, self._split(of_stream), by_part])
        return tensor.CollapseShapeOp(stream.type, scanned, self._groups(of_stream)).result

    def _run(self, inputs: list[ir.Value], outs: list[ir.Value], maps: list[ir.AffineMap]) -> list[ir.Value]:
        """The scan's body over parts: with both of its results, or with the total alone."""
        made = new_generic(inputs, outs, maps, self._iterators())
        body, count = self.node.body, len(inputs)
        arguments = list(body.arguments)
        kept = [*arguments[:count], *arguments[len(arguments) - len(outs) :]]
        block = made.regions[0].blocks.append(*[argument.type for argument in kept])
        values = dict(zip(kept, block.arguments, strict=True))
        *operations, last = body.operations
        with ir.InsertionPoint(block):
            for inner in operations:
                clone_with(inner.operation, values)
            yielded = [values.get(v, v) for v in last.operands]
            ir.Operation.create("linalg.yield", [], yielded[len(yielded) - len(outs) :])
        return list(made.results)

    def _iterators(self) -> list[str]:
        """The kinds of the loops, the loop over parts last."""
        kinds = ["reduction" if d in self.node.reductions else "parallel" for d in range(len(self.node.names))]
        return [*kinds, "parallel"]

    def _groups(self, reading: ir.AffineMap) -> list[list[int]]:
        """The dimensions of the expanded operand for each dimension of the operand."""
        groups, count = [], 0
        for result in reading.results:
            width = 2 if self._is_loop(result) else 1
            groups.append(list(range(count, count + width)))
            count += width
        return groups

    def _is_loop(self, expression: ir.AffineExpr) -> bool:
        return isinstance(expression, ir.AffineDimExpr) and expression.position == self.loop

    def _expand(self, value: ir.Value, reading: ir.AffineMap) -> ir.Value:
        """An operand whose dimension along the loop is two: parts and steps."""
        kind = ir.RankedTensorType(value.type)
        sizes = self._expanded(kind.shape, reading)
        if len(sizes) == kind.rank:
            return value
        made = ir.RankedTensorType.get(sizes, kind.element_type)
        return tensor.ExpandShapeOp(made, value, self._groups(reading), [], sizes).result

    def _expanded(self, shape: Sequence[int], reading: ir.AffineMap) -> list[int]:
        """The sizes of an operand of `shape` after the loop's dimension is two."""
        pairs = zip(shape, reading.results, strict=True)
        return [n for size, r in pairs for n in ([self.parts, self.steps] if self._is_loop(r) else [size])]

    def _split(self, reading: ir.AffineMap, is_by_part: bool = False) -> ir.AffineMap:
        """An indexing map with the loop over parts, which is the last dimension of what there is for each part."""
        count = reading.n_dims
        part = ir.AffineExpr.get_dim(count)
        results = [e for r in reading.results for e in ([part, r] if self._is_loop(r) else [r])]
        return ir.AffineMap.get(count + 1, 0, [*results, part] if is_by_part else results)

    def _starts(self, totals: ir.Value, start: ir.Value) -> ir.Value:
        """What comes before each part: a scan of the totals moved by one part, from the scan's own start."""
        kind = ir.RankedTensorType(totals.type)
        dims = [ir.AffineExpr.get_dim(i) for i in range(kind.rank)]
        every = ir.AffineMap.get(kind.rank, 0, dims)
        kept = ir.AffineMap.get(kind.rank, 0, dims[:-1])
        moved = self._previous_part(totals, every)
        outs = [tensor.EmptyOp(kind.shape, kind.element_type).result, start]
        kinds = [*["parallel"] * (kind.rank - 1), "reduction"]
        made = new_generic([moved], outs, [every, every, kept], kinds)
        block = made.regions[0].blocks.append(*[kind.element_type] * 3)
        with ir.InsertionPoint(block):
            both = self.combiner.combine(block.arguments[2], block.arguments[0])
            ir.Operation.create("linalg.yield", [], [both, both])
        return made.results[0]

    def _previous_part(self, totals: ir.Value, every: ir.AffineMap) -> ir.Value:
        """The total of the part before each part; the identity for the first one."""
        kind = ir.RankedTensorType(totals.type)
        out = tensor.EmptyOp(kind.shape, kind.element_type).result
        made = new_generic([], [out], [every], ["parallel"] * kind.rank)
        block, index = made.regions[0].blocks.append(kind.element_type), ir.IndexType.get()
        with ir.InsertionPoint(block):
            places = [linalg.IndexOp(i).result for i in range(kind.rank)]
            zero, one = (arith.ConstantOp(index, ir.IntegerAttr.get(index, n)).result for n in (0, 1))
            first = arith.CmpIOp(arith.CmpIPredicate.eq, places[-1], zero).result
            places[-1] = arith.MaxSIOp(arith.SubIOp(places[-1], one).result, zero).result
            before = tensor.ExtractOp(totals, places).result
            chosen = arith.SelectOp(
                first, arith.ConstantOp(kind.element_type, self.combiner.identity).result, before
            ).result
            ir.Operation.create("linalg.yield", [], [chosen])
        return made.results[0]
