"""`oneflow-split-for-threads`: splits reductions of many elements to few results across threads.

Full reductions, column sums, matrix-vector products, and products of a long depth with few results (gradients of
convolution filters) are reduced in parts; then the partial results are reduced in order. The number of parts depends
on sizes only, so results do not depend on the number of threads.

Input and output are linalg on tensors, before kernels are formed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.form_kernels import fuse_elementwise
from oneflow.lowering.kernels.nodes import Node, Unsupported, is_contraction, loop_size, main_inputs
from oneflow.lowering.kernels.reduction_split import ReductionCombiner, longest_reduction, split_reductions
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.llvm.combiners import combiner_of
from oneflow.lowering.targets.selection import cpu_target
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class SplitForThreads(Pass):
    """Fuses element-wise operations, then splits reductions that would leave threads idle.

    %s = linalg.generic {reduction over 65536} ins(%x : tensor<65536xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536xf32> into tensor<16x4096xf32>
           %p = linalg.generic {reduction over 4096} ins(%v) -> tensor<16xf32>
           %s = linalg.generic {reduction over 16} ins(%p)
    """

    name: ClassVar[str] = "oneflow-split-for-threads"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Splits reductions in every function with a body."""
        check_legal(module)
        fuse_elementwise(module, fuses_conversions=True)
        split_reductions(module, _combiners, _choose_split, _result_order)


def _combiners(node: Node) -> list[ReductionCombiner]:
    """The combiner of each result."""
    return [_combiner(node, result) for result in range(len(node.results))]


def _combiner(node: Node, result: int) -> ReductionCombiner:
    """The combiner of a result.

    Raises:
        Unsupported: the order of elements matters, or the result is the result of a scan.
    """
    if node.is_scan_result(result):
        raise Unsupported("a scan")
    combiner = combiner_of(node, result)
    typed = "" if combiner.element == "i1" else f" : {combiner.element}"
    return ReductionCombiner(combiner.op, ir.Attribute.parse(f"{combiner.identity}{typed}"))


def _choose_split(node: Node) -> tuple[int | None, int]:
    """The loop to split, and the number of parts."""
    loop = longest_reduction(node)
    return loop, 1 if loop is None else _part_count(node, loop)


def _part_count(node: Node, loop: int) -> int:
    """The number of parts of a loop; 1 leaves the loop whole."""
    loop_sizes = [loop_size([node], n) for n in node.loop_ids]
    sizes = [s for s in loop_sizes if s is not None]
    if len(sizes) < len(loop_sizes):
        return 1
    results = math.prod(s for d, s in enumerate(sizes) if d not in node.reductions)
    depth, product = math.prod(sizes[d] for d in node.nonunit_reductions), is_contraction(node)
    limits = cpu_target().kernels.splits
    if not results or not depth or results >= _parallel_results(node, sizes):
        return 1
    if product and depth < limits.min_split_depth:
        return 1
    most_deep = depth // limits.min_product_depth if product else depth
    most = min(limits.max_parts, results * depth // limits.min_part_operations, most_deep)
    return max((n for n in range(2, min(sizes[loop], most) + 1) if sizes[loop] % n == 0), default=1)


def _parallel_results(node: Node, sizes: Sequence[int]) -> int:
    """The number of results that occupy all threads: each row is a step; columns and products share steps."""
    limits = cpu_target().kernels.splits
    if not is_contraction(node):
        is_rows = all(use.access and use.access[-1].dims & node.nonunit_reductions for use in node.inputs)
        return limits.max_parts if is_rows else limits.min_unsplit_columns
    sides = [node.dims(operand) - node.nonunit_reductions for operand in main_inputs(node)]
    one_sided = [math.prod(sizes[d] for d in a - b) for a, b in zip(sides, reversed(sides), strict=True)]
    return (
        limits.min_unsplit_narrow_products
        if min(one_sided) <= limits.max_narrow_side
        else limits.min_unsplit_products
    )


def _has_flat_columns(one_sided: Sequence[int], sides: Sequence[set[int]], sizes: Mapping[int, int]) -> bool:
    """Whether the last dimensions of a product's result, in this order in `sizes`, fill vectors as `flat_columns`."""
    dims, limits = list(sizes), cpu_target().kernels
    right = next((side for side in sides if dims[-1] in side), None)
    if right is None:
        return False
    columns = list(itertools.takewhile(lambda d: d in one_sided and d in right, reversed(dims)))
    rows = math.prod(sizes[d] for d in one_sided if d not in right)
    is_packed = sizes[dims[-1]] >= limits.contractions.min_flat_row and rows > limits.contractions.max_tile_rows
    return is_packed and math.prod(sizes[d] for d in columns) >= limits.splits.min_lanes


def _result_order(node: Node) -> list[int] | None:
    """The dimensions of a product's partial results, with the longest dimension of one operand last.

    The last dimension is vectorized, and the last dimension of a filter is too short for vectors.
    """
    output = [form.dim for form in node.outputs[0].access]
    if not is_contraction(node) or None in output or len(output) < 3:
        return None
    sizes = {d: loop_size([node], node.loop_ids[d]) or 0 for d in output if d is not None}
    sides = [node.dims(operand) for operand in main_inputs(node)]
    one_sided = [d for d in sizes if sum(d in side for side in sides) == 1]
    innermost, limits = output[-1], cpu_target().kernels.splits
    if not one_sided or innermost is None or sizes[innermost] >= limits.min_lanes:
        return None
    if _has_flat_columns(one_sided, sides, sizes):
        return None
    longest = max(one_sided, key=lambda d: sizes[d])
    depth = math.prod(loop_size([node], node.loop_ids[d]) or 0 for d in node.nonunit_reductions)
    if sizes[longest] < limits.min_lanes or depth < limits.min_reordered_depth:
        return None
    last = output.index(longest)
    return [*(i for i in range(len(output)) if i != last), last]
