"""`oneflow-join-products`: a sum of products is one kernel, which computes one term after the other.

That is the gradient of a tensor that several products read, such as the one that query, key and value are of. The
terms are added up in f32 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.nodes import Node, find_node, is_contraction
from oneflow.lowering.kernels.sums import sums_in, walks_along
from oneflow.lowering.triton.codegen.emission import fill_literal
from oneflow.lowering.triton.fusion.split_reductions import product_of, stays_whole
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import is_used_once

#: Most products that are one kernel: one with more compiles longer.
MOST_TERMS = 4


@register_pass
@dataclass(frozen=True)
class JoinProducts(Pass):
    """Lets a product begin with another one that it is added to, where both have the same loops.

    %p = linalg.generic {%a %b} outs(%zeros) ; %q = linalg.generic {%c %d} outs(%zeros)
    %s = linalg.generic {%p + %q}
      ->   %p = linalg.generic {%a %b} outs(%zeros) ; %s = linalg.generic {%c %d} outs(%p)
    """

    name: ClassVar[str] = "oneflow-join-products"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins the products of every such sum."""
        for op in sums_in(module):
            _join(op)


def _join(op: ir.Operation) -> None:
    """Gives a sum of two products the place of the later one, which begins with the other."""
    values = list(op.operands)[:2]
    found = [_terms(v) for v in values]
    if not all(found) or sum(map(len, found)) > MOST_TERMS or not _alike(found[0][0], found[1][0]):
        return
    first, last = (0, 1) if found[0][-1].op.is_before_in_block(found[1][-1].op) else (1, 0)
    end, head = found[first][-1].op, found[last][0].op
    if not end.is_before_in_block(head) or fill_literal(head.operands[2]) != "0.0":
        return
    head.operands[2] = end.results[0]
    rounded = values[first].owner
    op.results[0].replace_all_uses_with(values[last])
    op.erase()
    if rounded != end:
        rounded.operation.erase()


def _terms(value: ir.Value) -> list[Node]:
    """The products whose sum, perhaps rounded, a tensor is that is used once; none where it is anything else."""
    node = _maker(value)
    if node is not None and not is_contraction(node) and _rounds(node):
        node = _maker(node.inputs[0].value)
    found: list[Node] = []
    while node is not None and _is_whole(node):
        found.insert(0, node)
        node = _maker(node.outputs[0].value)
    return found


def _maker(value: ir.Value) -> Node | None:
    """The operation on tensors that makes a value for one user alone."""
    alone = not isinstance(value, ir.BlockArgument) and is_used_once(value)
    return find_node(value.owner.operation) if alone else None


def _rounds(node: Node) -> bool:
    """Whether a node does nothing but round elements."""
    maps = [a.value for a in node.op.attributes["indexing_maps"]]
    names = [o.operation.name for o in node.body.operations]
    shape = ir.ShapedType(node.results[0].type).shape
    return names == ["arith.truncf", "linalg.yield"] and all(walks_along(m, shape) for m in maps)


def _is_whole(node: Node) -> bool:
    """Whether a node is a product that is read by descriptors, whose depth is not cut."""
    product = product_of(node) if is_contraction(node) else None
    return product is not None and product.described and stays_whole(node)


def _alike(one: Node, other: Node) -> bool:
    """Whether products have the same loops over operands of the same types."""
    same = all(one.op.attributes[name] == other.op.attributes[name] for name in ("indexing_maps", "iterator_types"))
    return same and [v.type for v in one.op.operands] == [v.type for v in other.op.operands]
