"""Splitting a scan: totals of parts, a scan of the totals, scans of the parts from these totals (reduce-then-scan).

    %y = linalg.generic {running sum over 65539} ins(%x : tensor<65539xf32>)
      ->   %t = linalg.generic {sum over 1024, at 1024 * part + step} ins(%x) -> tensor<64xf32>
           %s = linalg.generic {running sum over 64} ins(%t)
           %p = linalg.generic {running sum over 1024, each part from %s of the part before} ins(%x)
           %r = linalg.generic {running sum over 3, at 65536 + step, from the last of %s} ins(%x) -> tensor<3xf32>
           %y = tensor.insert_slice %r into %p[65536]

No part waits for another one (no decoupled look-back), so the result is the same from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import arith, ir, linalg, tensor
from oneflow.lowering.kernels.nodes import Node, loop_size
from oneflow.lowering.kernels.reduction_split import (
    ReductionCombiner,
    equal_parts,
    new_generic,
    new_window,
    reduced_loops,
)
from oneflow.passes.inline import clone_with


def is_plain_scan(node: Node) -> bool:
    """Whether a node is a scan along one dimension whose stream starts from its initial value and whose total is
    unused.
    """
    if len(node.nonunit_reductions) != 1 or len(node.results) != 2 or any(True for _ in node.results[1].uses):
        return False
    (loop,) = node.nonunit_reductions
    stream, total = ([f.dim for f in use.access] for use in node.outputs)
    is_read = any(True for _ in node.body.arguments[len(node.inputs)].uses)
    loops, kept = set(range(len(node.loop_ids))), set(range(len(node.loop_ids))) - {loop}
    if loop not in reduced_loops(node):
        return False  # the body has a `linalg.index` of the loop
    if is_read or set(stream) != loops or set(total) != kept or len(total) != len(kept):
        return False
    return all(f.dim is not None or loop not in f.dims for use in node.inputs for f in use.access)


def steps_of_parts(size: int, most: int) -> int:
    """The steps of a part of a scan of `size` steps, in at most `most` parts (twice as many for unequal parts).

    Equal parts are preferred if there are enough. Otherwise the steps of a part are a power of two, a whole block.
    One part, of `size` steps, is no split.
    """
    exact = equal_parts(size, most)
    return size // exact if 2 * exact > most else 1 << (size // min(size, most)).bit_length() - 1


def split_scan(node: Node, combiner: ReductionCombiner, steps: int) -> None:
    """Replaces a plain scan by scans of parts of `steps` each, and of the remainder of the loop."""
    (loop,) = node.nonunit_reductions
    size = loop_size([node], node.loop_ids[loop])
    assert size
    with ir.InsertionPoint(node.op), node.op.location:
        split = _ScanSplit(node, combiner, loop, size, steps)
        node.op.results[0].replace_all_uses_with(split.write())
    node.op.erase()


@dataclass
class _ScanSplit:
    """Writes a scan of `size` steps in parts of `steps` each; the loop over parts is the last loop."""

    node: Node
    combiner: ReductionCombiner
    loop: int
    size: int
    steps: int

    def write(self) -> ir.Value:
        """The scan's result."""
        stream, start = (use.value for use in self.node.outputs)
        kind = ir.RankedTensorType(start.type)
        (totals,) = self._scan_parts([self.combiner.identities([*kind.shape, self._parts], kind.element_type)])
        starts = self._starts(totals, start)
        scanned, _ = self._scan_parts([_empty(stream.type), starts])
        return scanned if self._covered == self.size else self._insert_remainder(scanned, self._end(starts, totals))

    @property
    def _parts(self) -> int:
        return self.size // self.steps

    @property
    def _covered(self) -> int:
        """The steps of all parts."""
        return self._parts * self.steps

    @property
    def _maps(self) -> list[ir.AffineMap]:
        """The indexing maps of the scan: of operands, of the result, of the total."""
        return [a.value for a in self.node.op.attributes["indexing_maps"]]

    def _scan_parts(self, outs: Sequence[ir.Value]) -> list[ir.Value]:
        """The scan of each part and its total, or the totals alone."""
        count = len(self.node.loop_ids)
        part, step = ir.AffineExpr.get_dim(count), ir.AffineExpr.get_dim(self.loop)
        window = ir.AffineMap.get(count + 1, 0, [part, step])
        *shifted, _ = self._shifted(part * self.steps, count + 1)
        total = ir.AffineMap.get(count + 1, 0, [*self._maps[-1].results, part])
        return self._run([self._parts, self.steps], [*shifted, total], window, outs, [*self._iterators(), "parallel"])

    def _insert_remainder(self, scanned: ir.Value, start: ir.Value) -> ir.Value:
        """The result of the parts with the scan of the steps after the last part, from `start`."""
        count, reading, kind = len(self.node.loop_ids), self._maps[-2], ir.RankedTensorType(scanned.type)
        axis = next(i for i, e in enumerate(reading.results) if ir.AffineDimExpr(e).position == self.loop)
        shape = [self.size - self._covered if i == axis else size for i, size in enumerate(kind.shape)]
        outs = [_empty(ir.RankedTensorType.get(shape, kind.element_type)), start]
        *shifted, _, _ = self._shifted(ir.AffineExpr.get_constant(self._covered), count)
        window = ir.AffineMap.get(count, 0, [ir.AffineExpr.get_dim(self.loop)])
        last, _ = self._run([shape[axis]], [*shifted, *self._maps[-2:]], window, outs, self._iterators())
        offsets = [self._covered if i == axis else 0 for i in range(len(shape))]
        return tensor.InsertSliceOp(last, scanned, [], [], [], offsets, shape, [1] * len(shape)).result

    def _shifted(self, by: ir.AffineExpr, loops: int) -> list[ir.AffineMap]:
        """The indexing maps of the scan with `loops` loops, shifted by `by` along the loop of the scan."""
        dims = [ir.AffineExpr.get_dim(d) for d in range(len(self.node.loop_ids))]
        dims[self.loop] = dims[self.loop] + by
        shift = ir.AffineMap.get(loops, 0, dims)
        return [ir.AffineMap.get(loops, 0, [e.compose(shift) for e in m.results]) for m in self._maps]

    def _run(self, sizes: Sequence[int], maps: Sequence[ir.AffineMap], window: ir.AffineMap, outs: Sequence[ir.Value],
             iterators: Sequence[str]) -> list[ir.Value]:  # fmt: skip
        """A `linalg.generic` with the body of the scan, and with both of its results or with the total alone.

        `sizes` are the sizes of the loops of `window`.
        """
        body, count = self.node.body, len(self.node.inputs)
        inputs = [*(use.value for use in self.node.inputs), new_window(self.node, *sizes)]
        generic = new_generic(inputs, outs, [*maps[:count], window, *maps[len(maps) - len(outs) :]], iterators)
        arguments = list(body.arguments)
        kept = [*arguments[:count], *arguments[len(arguments) - len(outs) :]]
        element = ir.RankedTensorType(inputs[-1].type).element_type
        types = [argument.type for argument in kept]
        block = generic.regions[0].blocks.append(*types[:count], element, *types[count:])
        values = dict(zip(kept, [*block.arguments[:count], *block.arguments[count + 1 :]], strict=True))
        *operations, last = body.operations
        with ir.InsertionPoint(block):
            for inner in operations:
                clone_with(inner.operation, values)
            yielded = [values.get(v, v) for v in last.operands]
            ir.Operation.create("linalg.yield", [], yielded[len(yielded) - len(outs) :])
        return list(generic.results)

    def _iterators(self) -> list[str]:
        """The kinds of the scan's loops."""
        return ["reduction" if d in self.node.reductions else "parallel" for d in range(len(self.node.loop_ids))]

    def _starts(self, totals: ir.Value, start: ir.Value) -> ir.Value:
        """The initial value of each part: a scan of the totals of the parts before, from the scan's initial value."""
        kind = ir.RankedTensorType(totals.type)
        every, kept = _leading(kind.rank, kind.rank), _leading(kind.rank, kind.rank - 1)
        outs = [_empty(kind), start]
        kinds = [*["parallel"] * (kind.rank - 1), "reduction"]
        generic = new_generic([self._previous_part(totals)], outs, [every, every, kept], kinds)
        block = generic.regions[0].blocks.append(*[kind.element_type] * 3)
        with ir.InsertionPoint(block):
            combined = self.combiner.combine(block.arguments[2], block.arguments[0])
            ir.Operation.create("linalg.yield", [], [combined, combined])
        return generic.results[0]

    def _previous_part(self, totals: ir.Value) -> ir.Value:
        """The total of the part before each part, the identity for the first part."""
        kind = ir.RankedTensorType(totals.type)
        generic = new_generic([], [_empty(kind)], [_leading(kind.rank, kind.rank)], ["parallel"] * kind.rank)
        block, index = generic.regions[0].blocks.append(kind.element_type), ir.IndexType.get()
        with ir.InsertionPoint(block):
            indices = [linalg.IndexOp(i).result for i in range(kind.rank)]
            zero, one = (arith.ConstantOp(index, ir.IntegerAttr.get(index, n)).result for n in (0, 1))
            first = arith.CmpIOp(arith.CmpIPredicate.eq, indices[-1], zero).result
            indices[-1] = arith.MaxSIOp(arith.SubIOp(indices[-1], one).result, zero).result
            before = tensor.ExtractOp(totals, indices).result
            identity = arith.ConstantOp(kind.element_type, self.combiner.identity).result
            ir.Operation.create("linalg.yield", [], [arith.SelectOp(first, identity, before).result])
        return generic.results[0]

    def _end(self, starts: ir.Value, totals: ir.Value) -> ir.Value:
        """The initial value of the steps after the last part."""
        *shape, parts = ir.RankedTensorType(totals.type).shape
        kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(totals.type).element_type)
        kept = _leading(len(shape), len(shape))
        last = ir.AffineMap.get(len(shape), 0, [*kept.results, ir.AffineExpr.get_constant(parts - 1)])
        generic = new_generic([starts, totals], [_empty(kind)], [last, last, kept], ["parallel"] * len(shape))
        block = generic.regions[0].blocks.append(*[kind.element_type] * 3)
        with ir.InsertionPoint(block):
            combined = self.combiner.combine(*list(block.arguments)[:2])
            ir.Operation.create("linalg.yield", [], [combined])
        return generic.results[0]


def _empty(kind: ir.Type) -> ir.Value:
    """An empty tensor of a type."""
    shaped = ir.RankedTensorType(kind)
    return tensor.EmptyOp(list(shaped.shape), shaped.element_type).result


def _leading(rank: int, count: int) -> ir.AffineMap:
    """The first `count` of `rank` loops."""
    return ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(i) for i in range(count)])
