"""`oneflow-split-reductions`: sums over much that give little become two, so that every processor has a part.

Column sums, sums of everything and products of a long depth leave most processors of a device idle. Their first loop
is cut in parts: each part is reduced by itself, then the partial results are. No atomic operation is needed, so
results do not vary from run to run.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.form_kernels import fuse_elementwise, joins
from oneflow.lowering.kernels.nodes import (
    Node,
    Unsupported,
    Use,
    find_node,
    is_contraction,
    is_gathered,
    is_straight,
    lies_along,
    loop_size,
)
from oneflow.lowering.kernels.outline import draft
from oneflow.lowering.kernels.reduction_split import Joined, cut_reductions, longest, reduced_loops
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.kernel import Kernel, bytes_of
from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.codegen.reduction import Fold, neutral_element, read_folds
from oneflow.lowering.triton.cost.matmul_configurations import Product, shares, split_depth, split_parts
from oneflow.lowering.triton.fusion.collapse_loops import flatten_reductions
from oneflow.lowering.triton.templates.hopper_forms import special
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: What may follow a product in its kernel: see `joins`.
EPILOGUE = 2


@register_pass
@dataclass(frozen=True)
class SplitReductions(Pass):
    """Fuses element-wise operations, then cuts reductions that would leave SMs idle in two.

    %s = linalg.generic {reduction over 65536 rows} ins(%x : tensor<65536x64xf32>)
      ->   %v = tensor.expand_shape %x : tensor<65536x64xf32> into tensor<512x128x64xf32>
           %p = linalg.generic {reduction over 128 rows} ins(%v) -> tensor<512x64xf32>
           %s = linalg.generic {reduction over 512 rows} ins(%p)
    """

    name: ClassVar[str] = "oneflow-split-reductions"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Splits what is worth it in every function with a body."""
        fuse_elementwise(module)
        flatten_reductions(module, _gives_more_parts)
        cut_reductions(module, _combiners, _choose)


def _combiners(node: Node) -> list[Joined] | None:
    folds = read_folds(node)
    if not folds or len(folds) != len(node.results) or any(f.op.name == "arith.mulf" for f in folds):
        return None
    return [_joined(node, f) for f in folds]


def _choose(node: Node) -> tuple[int | None, int]:
    """Which loop to cut, and in how many parts; 1 leaves it whole."""
    loop = longest(node)
    if is_contraction(node):
        return _product_parts(node, loop)
    return loop, 1 if loop is None else _parts(node, loop)


def _parts(node: Node, loop: int, size: int = 0) -> int:
    """How many parts to cut a loop in, which may be one of `size` steps with others; 1 leaves it whole."""
    known = _sizes(node)
    kept = 0 if known is None else math.prod(s for d, s in enumerate(known) if d not in node.reductions)
    if known is None or kept * known[loop] == 0:
        return 1
    last = max(node.folds)
    beside = any(u.access and u.access[-1].dim not in (None, *node.folds) and u.access[-1].dim not in node.units
                 for u in node.inputs if u.access and last in set().union(*(f.dims for f in u.access)))  # fmt: skip
    return split_parts(size or known[loop], math.prod(known[d] for d in node.folds), kept, beside)


def _gives_more_parts(node: Node, loops: Sequence[int], size: int) -> bool:
    """Whether a reduction is cut in more parts where loops of so many steps in all are one."""
    loop = longest(node) if _combiners(node) else None
    return loop is not None and _parts(node, loops[0], size) > _parts(node, loop)


def _sizes(node: Node) -> list[int] | None:
    """The steps of every loop, None where one is not known."""
    sizes = [loop_size([node], n) for n in node.names]
    known = [s for s in sizes if s is not None]
    return known if len(known) == len(sizes) else None


def _product_parts(node: Node, first: int | None) -> tuple[int | None, int]:
    """Which loop of a product's depth to cut, `first` or one that is better, and in how many parts."""
    product, loops = product_of(node), [*([] if first is None else [first]), *reduced_loops(node)]
    sizes = _sizes(node)
    if product is None or sizes is None or not loops or _is_term(node):
        return None, 1
    steps = tuple(sizes[d] for d in loops)
    number, parts = split_depth(product, steps, grouped=False)
    if parts > 1 and _has_groups(node):
        number, parts = split_depth(product, steps)
    return loops[number], parts


def _has_groups(node: Node) -> bool:
    """Whether the kernel that a product and what follows it become has the form for groups of warps."""
    nodes = [node]
    while (after := _after(nodes[-1])) is not None and joins([*nodes, after], EPILOGUE, gpu_target().sms):
        nodes.append(after)
    with draft([n.op for n in nodes], "contraction") as function, contextlib.suppress(Unsupported):
        kernel = Kernel.read(function)
        return bool(special(Contraction(kernel, kernel.structure())))
    return False


def _is_term(node: Node) -> bool:
    """Whether a product begins with another one, or one with it: they were joined as they stay whole."""
    start, after = node.outputs[0].value, _after(node)
    before = None if isinstance(start, ir.BlockArgument) else find_node(start.owner.operation)
    begun = after is not None and is_contraction(after) and after.outputs[0].value in node.results
    return begun or (before is not None and is_contraction(before))


def _after(node: Node) -> Node | None:
    """The operation on tensors that alone uses a node's result."""
    users = [use.owner.operation for result in node.results for use in result.uses]
    return find_node(users[0]) if len(users) == 1 else None


def stays_whole(node: Node) -> bool:
    """Whether a product's depth is not cut."""
    return _product_parts(node, longest(node))[1] == 1


def product_of(node: Node) -> Product | None:
    """A product as tuning sees it, None where tensor cores do not have it or a size is unknown or 0."""
    sizes = _sizes(node)
    return _product(node, sizes) if sizes and math.prod(sizes) else None


def _product(node: Node, sizes: list[int]) -> Product | None:
    left, right = (set().union(*(f.dims for f in u.access)) for u in node.inputs)
    kept = [d for d in range(len(sizes)) if d not in node.reductions]
    batch, rows, columns = (
        math.prod(sizes[d] for d in kept if (d in left, d in right) == found)
        for found in ((True, True), (True, False), (False, True))
    )
    element = str(node.inputs[0].value.type.element_type)
    if element not in ("f16", "bf16", "f32") or min(rows, columns) <= 1:
        return None
    depth, width = math.prod(sizes[d] for d in node.folds), bytes_of(element)
    gathered = is_gathered(node)
    described = (
        gpu_target().has_tma
        and width == 2
        and is_straight(node)
        and all(size % 8 == 0 for size in (rows, columns, depth))
    )
    shared = [shares((sizes[d] for f in u.access for d in f.dims), _elements(u)) for u in node.inputs]
    pair, along = (shared[0], shared[1]), lies_along(node)
    return Product(batch, rows, columns, depth, width, described, gathered, pair, along)


def _elements(use: Use) -> int:
    return math.prod(ir.RankedTensorType(use.value.type).shape)


def _joined(node: Node, fold: Fold) -> Joined:
    element = ir.RankedTensorType(node.results[fold.number].type).element_type
    with node.op.location:
        return Joined(fold.op, _number(neutral_element(fold.op.name, str(element)), element))


def _number(text: str, kind: ir.Type) -> ir.Attribute:
    """A neutral element as an attribute."""
    if isinstance(kind, ir.IntegerType):
        return ir.IntegerAttr.get(kind, int({"True": "1", "False": "0"}.get(text, text)))
    return ir.FloatAttr.get(kind, float(text.removeprefix('float("').removesuffix('")')))
