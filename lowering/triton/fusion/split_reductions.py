"""`oneflow-split-reductions`: long reductions with few results are split, so that every SM has a part (split-K).

Column sums, sums of all elements, and products of a long depth leave most SMs idle. A loop of these is split: each
part is reduced by itself, then the partial results are reduced. `choose_split_k` of `cost/matmul_configurations.py`
decides on products. No atomic operation is needed, so that results do not vary from run to run.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.form_kernels import fuse_elementwise, should_fuse
from oneflow.lowering.kernels.nodes import (
    Node,
    Unsupported,
    Use,
    find_node,
    has_innermost_window,
    has_unit_strides,
    is_contraction,
    loop_size,
    reduces_contiguously,
)
from oneflow.lowering.kernels.outline import temporary_kernel
from oneflow.lowering.kernels.recompute_rows import defining_op, elementwise_node, is_full, reads_one_tensor
from oneflow.lowering.kernels.reduction_split import (
    ReductionCombiner,
    even_parts,
    longest_reduction,
    reduced_loops,
    split_reductions,
)
from oneflow.lowering.kernels.scan_split import is_plain_scan, split_scan, steps_of_parts
from oneflow.lowering.targets.instructions import TMA
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import Kernel, bytes_of
from oneflow.lowering.triton.codegen.matmul import Contraction, precision_at
from oneflow.lowering.triton.codegen.reduction import Fold, neutral_number, read_folds
from oneflow.lowering.triton.cost.matmul_configurations import (
    Product,
    choose_split_k,
    most_reduction_parts,
    operand_reuse,
)
from oneflow.lowering.triton.fusion.collapse_loops import collapse_reduction_loops
from oneflow.lowering.triton.templates.hopper_matmul import hopper_form
from oneflow.passes.base import Pass
from oneflow.passes.inline import clone_with
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_named, is_used_once


@register_pass
@dataclass(frozen=True)
class SplitReductions(Pass):
    """Fuses element-wise operations, then splits reductions that would leave SMs idle.

    %s = linalg.generic {reduction over 65536 rows} ins(%x : tensor<65536x64xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536x64xf32> into tensor<512x128x64xf32>
           %p = linalg.generic {reduction over 128 rows} ins(%v) -> tensor<512x64xf32>
           %s = linalg.generic {reduction over 512 rows} ins(%p)
    """

    name: ClassVar[str] = "oneflow-split-reductions"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Splits the reductions of every function with a body, where that is faster."""
        fuse_elementwise(module)
        collapse_reduction_loops(module, _gives_more_parts)
        _recompute_shared_producers(module)
        split_reductions(module, _combiners, _loop_and_parts)
        _split_scans(module)


def _recompute_shared_producers(module: ir.Module) -> None:
    """Copies element-wise producers with other users, for reductions that will be split.

    Unsplit, these reductions would share a kernel with the producer's other users. In a separate kernel, a reduction
    that computes the elements reads as much as a reduction that loads the elements, and no kernel stores them.
    """
    copied = False
    for op in gather_named(module.operation, {"linalg.generic"}):
        node = find_node(op)
        if node is None or not _is_split(node):
            continue
        for index, use in enumerate(node.inputs):
            producer = elementwise_node(defining_op(use.value))
            if producer and not is_used_once(use.value) and is_full(node, use) and reads_one_tensor(producer):
                with ir.InsertionPoint(op):
                    op.operands[index] = clone_with(producer.op, {}).results[0]
                copied = True
    if copied:
        fuse_elementwise(module)


def _is_split(node: Node) -> bool:
    """Whether a reduction other than a product is split."""
    is_candidate = node.nonunit_reductions and not is_contraction(node) and _combiners(node)
    return bool(is_candidate) and _loop_and_parts(node)[1] > 1


def _split_scans(module: ir.Module) -> None:
    """Splits the scans of few long rows, except running products: a part may overflow where the whole does not."""
    for op in gather_named(module.operation, {"linalg.generic"}):
        node = find_node(op)
        folds = read_folds(node) if node is not None and is_plain_scan(node) else None
        if node is None or not folds or folds[0].op.name == "arith.mulf":
            continue
        (loop,) = node.nonunit_reductions
        sizes = _sizes(node)
        steps = steps_of_parts(sizes[loop], _most_parts(node, sizes)) if sizes else 0
        if sizes and steps < sizes[loop]:
            split_scan(node, _combiner(node, folds[0]), steps)


def _combiners(node: Node) -> list[ReductionCombiner] | None:
    """The combiners of the partial results of a reduction; None for a reduction that cannot be split."""
    folds = read_folds(node)
    if not folds or len(folds) != len(node.results) or any(f.op.name == "arith.mulf" for f in folds):
        return None
    return [_combiner(node, f) for f in folds]


def _loop_and_parts(node: Node) -> tuple[int | None, int]:
    """The loop to split, and the number of parts; 1 is no split."""
    loop = longest_reduction(node)
    if is_contraction(node):
        return _product_parts(node, loop)
    return loop, 1 if loop is None else _parts(node, loop)


def _parts(node: Node, loop: int, size: int = 0) -> int:
    """The number of parts of a loop, which may be collapsed with other loops to `size` steps; 1 is no split."""
    known = _sizes(node)
    return 1 if known is None else even_parts(size or known[loop], _most_parts(node, known))


def _most_parts(node: Node, sizes: Sequence[int]) -> int:
    """The most parts of a reduction whose loops have `sizes` steps."""
    kept = math.prod(s for d, s in enumerate(sizes) if d not in node.reductions)
    reduced = math.prod(sizes[d] for d in node.nonunit_reductions)
    if kept * reduced == 0:
        return 1
    last = max(node.nonunit_reductions)
    dims = (None, *node.nonunit_reductions)
    column_sums = any(u.access and u.access[-1].dim not in dims and u.access[-1].dim not in node.unit_loops
                 for u in node.inputs if u.access and last in set().union(*(f.dims for f in u.access)))  # fmt: skip
    return most_reduction_parts(reduced, kept, column_sums, _shares_rows(node))


def _shares_rows(node: Node) -> bool:
    """Whether other operations read the operands of a reduction, so that one kernel may read the rows for all."""
    full = [use.value for use in node.inputs if is_full(node, use)]
    return any(use.owner.operation != node.op for value in full for use in value.uses)


def _gives_more_parts(node: Node, loops: Sequence[int], size: int) -> bool:
    """Whether a reduction is split into more parts if `loops`, of `size` steps in all, are collapsed."""
    loop = longest_reduction(node) if _combiners(node) else None
    return loop is not None and _parts(node, loops[0], size) > _parts(node, loop)


def _sizes(node: Node) -> list[int] | None:
    """The steps of every loop; None where the steps of a loop are not known."""
    sizes = [loop_size([node], n) for n in node.loop_ids]
    known = [s for s in sizes if s is not None]
    return known if len(known) == len(sizes) else None


def _product_parts(node: Node, first: int | None) -> tuple[int | None, int]:
    """The split-K of a product: the loop of its depth to split (`first` or a better one), and the number of parts."""
    product, loops = product_of(node), [*([] if first is None else [first]), *reduced_loops(node)]
    sizes = _sizes(node)
    if product is None or sizes is None or not loops or _is_term(node):
        return None, 1
    steps = tuple(sizes[d] for d in loops)
    index, parts = choose_split_k(product, steps, warp_specialized=False)
    if parts > 1 and _has_warp_specialized_form(node):
        index, parts = choose_split_k(product, steps)
    return loops[index], parts


def _has_warp_specialized_form(node: Node) -> bool:
    """Whether the kernel of a product and its epilogue has a warp-specialized form."""
    nodes = [node]
    while (after := _only_user(nodes[-1])) is not None and should_fuse([*nodes, after], gpu_target()):
        nodes.append(after)
    with temporary_kernel([n.op for n in nodes], "contraction") as function, contextlib.suppress(Unsupported):
        kernel = Kernel.read(function)
        return bool(hopper_form(Contraction(kernel, kernel.structure(), precision_at(node.op))))
    return False


def _is_term(node: Node) -> bool:
    """Whether a product is a term of a joined sum of products, of which none is split."""
    start, after = node.outputs[0].value, _only_user(node)
    before = None if isinstance(start, ir.BlockArgument) else find_node(start.owner.operation)
    is_start = after is not None and is_contraction(after) and after.outputs[0].value in node.results
    return is_start or (before is not None and is_contraction(before))


def _only_user(node: Node) -> Node | None:
    """The only user of a node's results, as a node."""
    users = [use.owner.operation for result in node.results for use in result.uses]
    return find_node(users[0]) if len(users) == 1 else None


def is_unsplit(node: Node) -> bool:
    """Whether a product has no split-K."""
    return _product_parts(node, longest_reduction(node))[1] == 1


def product_of(node: Node) -> Product | None:
    """A product for the cost model; None where its types have no kernel, or a size is unknown or 0."""
    sizes = _sizes(node)
    return _product(node, sizes) if sizes and math.prod(sizes) else None


def _product(node: Node, sizes: list[int]) -> Product | None:
    left, right = (set().union(*(f.dims for f in u.access)) for u in node.inputs)
    kept = [d for d in range(len(sizes)) if d not in node.reductions]
    batch, rows, columns = (
        math.prod(sizes[d] for d in kept if (d in left, d in right) == sides)
        for sides in ((True, True), (True, False), (False, True))
    )
    element = str(node.inputs[0].value.type.element_type)
    if element not in ("f16", "bf16", "f32") or min(rows, columns) <= 1:
        return None
    depth, width = math.prod(sizes[d] for d in node.nonunit_reductions), bytes_of(element)
    precision, contiguous_depth = precision_at(node.op), reduces_contiguously(node)
    tma_readable = (
        gpu_target().has_tma
        and (width == 2 or (precision == "tf32" and contiguous_depth))
        and has_unit_strides(node)
        and all(size * width % TMA.alignment_bytes == 0 for size in (rows, columns, depth))
    )
    reuse = [operand_reuse((sizes[d] for f in u.access for d in f.dims), _elements(u)) for u in node.inputs]
    return Product(
        batch,
        rows,
        columns,
        depth,
        element_bytes=width,
        tma_readable=tma_readable,
        gathered=has_innermost_window(node),
        operand_reuse=(reuse[0], reuse[1]),
        contiguous_depth=contiguous_depth,
        precision=precision,
    )


def _elements(use: Use) -> int:
    return math.prod(ir.RankedTensorType(use.value.type).shape)


def _combiner(node: Node, fold: Fold) -> ReductionCombiner:
    """The combining operation of a reduction and its neutral element."""
    element = ir.RankedTensorType(node.results[fold.index].type).element_type
    with node.op.location:
        neutral = neutral_number(fold.op.name, str(element))
        is_integer = isinstance(element, ir.IntegerType)
        attribute = ir.IntegerAttr.get(element, int(neutral)) if is_integer else ir.FloatAttr.get(element, neutral)
        return ReductionCombiner(fold.op, attribute)
