"""`oneflow-split-for-threads`: reductions over much that give little become two, so that every thread has a part.

Sums of everything, column sums, vectors by matrices, and products of a long depth with few results (the gradient of a
convolution's filter) are cut in parts; each is reduced by itself, then the partial results are, in order. How many
parts there are depends on the sizes alone: results are the same with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.form_kernels import fuse_elementwise
from oneflow.lowering.kernels.nodes import Node, Unsupported, is_contraction, loop_size
from oneflow.lowering.kernels.reduction_split import Joined, cut_reductions, longest
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.llvm.combine import combiner_of
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: Parts at most, and element operations that make a part worth while.
PARTS, WORK = 16, 1 << 15
#: Results of a reduction down columns, and of a product, that make steps enough for threads by themselves.
KEPT, TILES = 4096, 1 << 16
#: The same of a product where one side has so few rows or columns; tiles are long and narrow then.
FEW_TILES, FEW = 4096, 8
#: Steps of the depth of a product that a part has at least.
DEPTH = 512
#: Steps of the last dimension of results that fill a vector; where it has fewer, a depth that another order is worth.
LANES, TURNED = 8, 64


@register_pass
@dataclass(frozen=True)
class SplitForThreads(Pass):
    """Fuses element-wise operations, then cuts reductions that would leave threads idle in two.

    %s = linalg.generic {reduction over 65536} ins(%x : tensor<65536xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536xf32> into tensor<16x4096xf32>
           %p = linalg.generic {reduction over 4096} ins(%v) -> tensor<16xf32>
           %s = linalg.generic {reduction over 16} ins(%p)
    """

    name: ClassVar[str] = "oneflow-split-for-threads"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Splits what is worth it in every function with a body."""
        check_legal(module)
        fuse_elementwise(module)
        cut_reductions(module, _combiners, _choose, _order)


def _combiners(node: Node) -> list[Joined]:
    return [_joined(node, number) for number in range(len(node.results))]


def _joined(node: Node, number: int) -> Joined:
    """How a result combines.

    Raises:
        Unsupported: the order of its elements matters, or it has one for each of them.
    """
    if node.streams(number):
        raise Unsupported("a scan")
    combiner = combiner_of(node, number)
    typed = "" if combiner.element == "i1" else f" : {combiner.element}"
    return Joined(combiner.op, ir.Attribute.parse(f"{combiner.neutral}{typed}"))


def _choose(node: Node) -> tuple[int | None, int]:
    """Which loop to cut, and in how many parts."""
    loop = longest(node)
    return loop, 1 if loop is None else _parts(node, loop)


def _parts(node: Node, loop: int) -> int:
    """How many parts to cut a loop in; 1 leaves it whole."""
    found = [loop_size([node], n) for n in node.names]
    sizes = [s for s in found if s is not None]
    if len(sizes) < len(found):
        return 1
    kept = math.prod(s for d, s in enumerate(sizes) if d not in node.reductions)
    depth, product = math.prod(sizes[d] for d in node.folds), is_contraction(node)
    if not kept or not depth or kept >= _enough(node, sizes):
        return 1
    if product and depth < 4 * DEPTH:
        return 1
    most = min(PARTS, kept * depth // WORK, depth // DEPTH if product else depth)
    return max((n for n in range(2, min(sizes[loop], most) + 1) if sizes[loop] % n == 0), default=1)


def _enough(node: Node, sizes: Sequence[int]) -> int:
    """So many results are steps enough for threads: rows are a step each, columns and products share one."""
    if not is_contraction(node):
        return PARTS if all(use.access and use.access[-1].dims & node.folds for use in node.inputs) else KEPT
    sides = [set().union(*(f.dims for f in use.access)) - node.folds for use in node.inputs]
    apart = [math.prod(sizes[d] for d in side - other) for side, other in zip(sides, reversed(sides), strict=True)]
    return FEW_TILES if min(apart) <= FEW else TILES


def _order(node: Node) -> list[int] | None:
    """The dimensions of a product's partial results with the side last whose one dimension is longest.

    That one is walked in vectors: the last dimension of a filter is too short.
    """
    output = [form.dim for form in node.outputs[0].access]
    if not is_contraction(node) or None in output or len(output) < 3:
        return None
    sizes = {d: loop_size([node], node.names[d]) or 0 for d in output if d is not None}
    sides = [set().union(*(f.dims for f in u.access)) for u in node.inputs]
    apart = [d for d in sizes if sum(d in side for side in sides) == 1]
    if not apart or sizes[output[-1]] >= LANES:  # type: ignore[index]
        return None
    longest = max(apart, key=lambda d: sizes[d])
    depth = math.prod(loop_size([node], node.names[d]) or 0 for d in node.folds)
    if sizes[longest] < LANES or depth < TURNED:
        return None
    last = output.index(longest)
    return [*(i for i in range(len(output)) if i != last), last]
