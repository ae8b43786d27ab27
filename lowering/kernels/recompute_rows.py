"""`oneflow-recompute-rows`: rematerialization (on GPUs) of tensors that follow from a tensor and its row reductions.

    %y = %x - max(%x) - log(sum(..))       as large as %x, and read by several kernels
    .. = g(%y) ; .. = h(%y)          ->    each computes its elements of %y from %x and the reductions of its rows

%x is in memory in any case, so %y need not be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.form_kernels import fuse_elementwise, should_fuse
from oneflow.lowering.kernels.nodes import Node, Use, find_node, is_contraction
from oneflow.lowering.kernels.recomputation import Recomputation
from oneflow.lowering.kernels.reshapes import RESHAPES
from oneflow.lowering.targets.selection import gpu_target
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

EXTRACT = "tensor.extract"


@register_pass
@dataclass(frozen=True)
class RecomputeRows(Pass):
    """Recomputes a tensor that follows from another tensor and reductions of its rows, in each user.

    %m = linalg.generic {maximum of each row} ins(%x)
    %y = linalg.generic {subtract} ins(%x, %m) ; %a = linalg.generic {exp} ins(%y) ; %b = ..
      ->   %a = linalg.generic {subtract, exp} ins(%x, %m) ; %b = ..
    """

    name: ClassVar[str] = "oneflow-recompute-rows"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every function with a body, and fuses the recomputed operations into their users."""
        functions = [f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external]
        ops = [o.operation for f in functions for o in f.regions[0].blocks[0].operations]
        order = {op: i for i, op in enumerate(ops)}
        recomputed = sum(_recompute(op, order) for op in reversed(ops))
        if recomputed:
            fuse_elementwise(module)


def _recompute(op: ir.Operation, order: Mapping[ir.Operation, int]) -> bool:
    """Recomputes an operation for each user, where this saves a write of the result; returns whether it is saved."""
    uses = [(u.owner.operation, u.operand_number) for r in op.results for u in r.uses]
    recomputation = _find_recomputation(op) if len(uses) > 1 and all(_can_recompute(*use) for use in uses) else None
    if recomputation is None or _form_one_kernel(
        {*(n.op for n in recomputation.nodes), *(user for user, _ in uses)}, order
    ):
        return False
    for user, operand in uses:
        if user.name == EXTRACT:
            with ir.InsertionPoint(user), user.location:
                user.results[0].replace_all_uses_with(recomputation.element(list(user.operands)[1:]))
            user.erase()
        else:
            user.operands[operand] = recomputation.clone(user)
    return True


def _form_one_kernel(ops: Iterable[ir.Operation], order: Mapping[ir.Operation, int]) -> bool:
    """Whether operations become one kernel, which writes no intermediate tensor."""
    nodes = [find_node(op) for op in sorted(ops, key=lambda op: order.get(op, -1))]
    found_nodes = [n for n in nodes if n is not None]
    return len(found_nodes) == len(nodes) and should_fuse(found_nodes, gpu_target())


def _can_recompute(user: ir.Operation, operand: int) -> bool:
    """Whether a user can recompute its operand: it reads one element, or each element once, and is no product."""
    node = find_node(user)
    if node is None:
        return bool(user.name == EXTRACT)
    return operand < len(node.inputs) and not is_contraction(node) and is_full(node, node.inputs[operand])


def _find_recomputation(op: ir.Operation) -> Recomputation | None:
    """The computation of a result from one tensor of its size that is in memory, and from reductions."""
    nodes, leaves, row_values = list[Node](), set[ir.Value](), set[ir.Value]()
    worklist, work = [op], 0
    while worklist:
        node = elementwise_node(worklist.pop())
        if node is None or work > _max_operations():
            return None
        nodes, work = [node, *(n for n in nodes if n.op != node.op)], work + len(node.body.operations) - 1
        for use in node.inputs:
            if not is_full(node, use):
                row_values.add(use.value)
            elif elementwise_node(defining_op(use.value)) is None:
                leaves.add(use.value)
            else:
                worklist.append(use.value.owner)
    if len(leaves) != 1 or not any(map(_follows_from_reduction, row_values)):
        return None
    (leaf,) = leaves
    return Recomputation(nodes) if _is_in_memory(leaf) and _bits(leaf) <= _bits(op.results[0]) else None


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The operation that defines a value, None for an argument."""
    return None if isinstance(value, ir.BlockArgument) else value.owner


def elementwise_node(op: ir.Operation | None) -> Node | None:
    """An operation that computes each element of one tensor from elements only, as a node."""
    node = find_node(op)
    if node is None or node.reductions or len(node.results) != 1 or not is_full(node, node.outputs[0]):
        return None
    *body, _ = node.body.operations
    is_elementwise = all(o.operation.name.startswith(("arith.", "math.")) for o in body)
    init = list(node.body.arguments)[len(node.inputs)]
    return node if is_elementwise and not any(True for _ in init.uses) else None


def is_full(node: Node, use: Use) -> bool:
    """Whether every loop is a dimension of the access."""
    return {f.dim for f in use.access} == set(range(len(node.loop_ids)))


def reads_one_tensor(node: Node) -> bool:
    """Whether an element-wise node reads no more bytes from memory than its result has: one tensor of that size."""
    full = [use.value for use in node.inputs if is_full(node, use)]
    is_cheap = len(node.body.operations) <= _max_operations()
    return len(full) == 1 and _bits(full[0]) <= _bits(node.results[0]) and is_cheap


def _follows_from_reduction(value: ir.Value) -> bool:
    """Whether a tensor is the result of a reduction, or follows directly from one."""
    node = find_node(defining_op(value))
    if node is None or node.nonunit_reductions:
        return node is not None
    producers = [find_node(defining_op(use.value)) for use in node.inputs]
    return any(producer is not None and bool(producer.nonunit_reductions) for producer in producers)


def _is_in_memory(value: ir.Value) -> bool:
    """Whether a tensor is written to memory anyway: an argument, or the result of a product."""
    op = defining_op(_reshape_source(value))
    if elementwise_node(op) is None:
        return True
    for _ in range(_max_operations()):
        node = elementwise_node(op)
        if node is None:
            reduction = find_node(op)
            return reduction is not None and is_contraction(reduction)
        op = next((defining_op(_reshape_source(u.value)) for u in node.inputs if is_full(node, u)), None)
    return False


def _reshape_source(value: ir.Value) -> ir.Value:
    """The source of a chain of reshapes."""
    op = defining_op(value)
    while op is not None and op.name in RESHAPES:
        value = op.operands[0]
        op = defining_op(value)
    return value


def _max_operations() -> int:
    """The most operations on an element that are computed again rather than read from memory."""
    return gpu_target().kernels.reductions.max_recomputed_operations


def _bits(value: ir.Value) -> int:
    """The bits of an element in memory."""
    kind = value.type.element_type
    return int(kind.width) if isinstance(kind, (ir.IntegerType, ir.FloatType)) else 64
