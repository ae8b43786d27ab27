"""Collapses loops of a reduction that are contiguous in memory into one, which can be split into more parts.

%s = linalg.generic {reduction over 128, 56 and 56} ins(%x : tensor<128x56x56x64xbf16>)
  ->   %v = tensor.collapse_shape %x : tensor<128x56x56x64xbf16> into tensor<401408x64xbf16>
       %s = linalg.generic {reduction over 401408} ins(%v)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import func, ir, tensor
from oneflow.lowering.kernels.nodes import Node, Use, find_node, has_unit_strides, is_contraction, loop_size
from oneflow.lowering.kernels.reduction_split import new_generic


def collapse_reduction_loops(module: ir.Module, is_worth: Callable[[Node, Sequence[int], int], bool]) -> None:
    """Collapses loops of reductions where `is_worth(node, loops, size)`; `size` is the number of steps of `loops`."""
    functions = [f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external]
    for function in functions:
        views: dict[object, ir.Value] = {}
        for op in [o.operation for o in function.regions[0].blocks[0].operations]:
            node = find_node(op)
            loops = _collapsible_loops(node) if node is not None else []
            if node is not None and len(loops) > 1 and is_worth(node, loops, _steps(node, loops)):
                Collapse(node, loops, views).replace()


def _steps(node: Node, loops: Sequence[int]) -> int:
    return math.prod(loop_size([node], node.loop_ids[d]) or 0 for d in loops)


def _collapsible_loops(node: Node) -> list[int]:
    """The longest run of reduced loops that are adjacent dimensions of every operand that has one of the loops."""
    reads_positions = any(o.operation.name in ("linalg.index", "tensor.extract") for o in node.body.operations)
    static = all(v.type.has_static_shape for v in node.op.operands)
    if reads_positions or not static or is_contraction(node) or not has_unit_strides(node):
        return []
    reduced = sorted(node.nonunit_reductions)
    runs = [reduced[i:j] for i, j in itertools.combinations(range(len(reduced) + 1), 2)]
    fitting = [r for r in runs if all(_is_run(u, r) for u in (*node.inputs, *node.outputs))]
    return max(fitting, key=len, default=[])


def _is_run(use: Use, loops: Sequence[int]) -> bool:
    """Whether loops are adjacent dimensions of a tensor, or none of them is a dimension."""
    dims = [f.dim if f.dim in loops else None for f in use.access]
    present = [i for i, d in enumerate(dims) if d is not None]
    if any(f.dim is None and f.dims & set(loops) for f in use.access):
        return False
    return not present or [dims[i] for i in range(present[0], present[-1] + 1)] == list(loops)


@dataclass
class Collapse:
    """Collapses `loops` of a node into one loop; `views` caches collapsed operands."""

    node: Node
    loops: Sequence[int]
    views: dict[object, ir.Value]
    kept: list[int] = field(default_factory=list)

    def replace(self) -> None:
        """Replaces the operation."""
        op, rest = self.node.op, set(self.loops[1:])
        self.kept = [d for d in range(len(self.node.loop_ids)) if d not in rest]
        uses = [*self.node.inputs, *self.node.outputs]
        iterators = ["reduction" if d in self.node.reductions else "parallel" for d in self.kept]
        with ir.InsertionPoint(op), op.location:
            operands = [self._view(u) for u in uses]
            count = len(self.node.inputs)
            collapsed = new_generic(operands[:count], operands[count:], [self._map(u) for u in uses], iterators)
        op.regions[0].blocks[0].append_to(collapsed.regions[0])
        for old, new in zip(list(op.results), collapsed.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()

    def _view(self, use: Use) -> ir.Value:
        """An operand with the dimensions of the loops collapsed."""
        axes = [axis for axis, f in enumerate(use.access) if f.dim in self.loops]
        if not axes:
            return use.value
        operand_type, begin, end = ir.RankedTensorType(use.value.type), axes[0], axes[-1] + 1
        shape = [*operand_type.shape[:begin], math.prod(operand_type.shape[begin:end]), *operand_type.shape[end:]]
        groups = [*([i] for i in range(begin)), axes, *([i] for i in range(end, operand_type.rank))]
        key = (use.value, begin, end)
        if key not in self.views:
            collapsed = ir.RankedTensorType.get(shape, operand_type.element_type)
            self.views[key] = tensor.CollapseShapeOp(collapsed, use.value, groups).result
        return self.views[key]

    def _map(self, use: Use) -> ir.AffineMap:
        """The indexing map of an operand over the remaining loops."""
        dims = {d: ir.AffineExpr.get_dim(i) for i, d in enumerate(self.kept)}
        forms = [f.affine_expr(dims) for f in use.access if f.dim not in self.loops[1:]]
        return ir.AffineMap.get(len(self.kept), 0, forms)
