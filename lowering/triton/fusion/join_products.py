"""`oneflow-join-products`: a sum of matrix products becomes one kernel, which accumulates the terms in order.

Such a sum is the gradient of a tensor that several products read, such as the operand of the query, key and value
projections. The terms are accumulated in f32 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.nodes import Node, find_node, is_contraction
from oneflow.lowering.kernels.sums import is_identity_map, sums_in
from oneflow.lowering.triton.codegen.emission import fill_literal
from oneflow.lowering.triton.fusion.split_reductions import is_unsplit, product_of
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import is_used_once


@register_pass
@dataclass(frozen=True)
class JoinProducts(Pass):
    """Initializes the accumulators of a product with another product that is added to it, where the loops are equal.

        %p = linalg.generic {%a %b} outs(%zeros) ; %q = linalg.generic {%c %d} outs(%zeros)
        %s = linalg.generic {%p + %q}
          ->   %p = linalg.generic {%a %b} outs(%zeros) ; %s = linalg.generic {%c %d} outs(%p)

    A kernel has at most `terms` products: more take long to compile.
    """

    name: ClassVar[str] = "oneflow-join-products"
    terms: int = 4

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Joins the products of every such sum."""
        for op in sums_in(module):
            _join(op, self.terms)


def _join(op: ir.Operation, most: int) -> None:
    """Replaces a sum of two products by the later product, whose initial value becomes the other product.

    Sums of more than `most` products are not joined.
    """
    values = list(op.operands)[:2]
    terms = [_terms(v) for v in values]
    if not all(terms) or sum(map(len, terms)) > most or not _have_equal_loops(terms[0][0], terms[1][0]):
        return
    first, last = (0, 1) if terms[0][-1].op.is_before_in_block(terms[1][-1].op) else (1, 0)
    end, head = terms[first][-1].op, terms[last][0].op
    if not end.is_before_in_block(head) or fill_literal(head.operands[2]) != "0.0":
        return
    head.operands[2] = end.results[0]
    rounded = values[first].owner
    op.results[0].replace_all_uses_with(values[last])
    op.erase()
    if rounded != end:
        rounded.operation.erase()


def _terms(value: ir.Value) -> list[Node]:
    """The products whose sum, perhaps rounded, is a tensor with one use; an empty list for other tensors."""
    node = _producer(value)
    if node is not None and not is_contraction(node) and _is_rounding(node):
        node = _producer(node.inputs[0].value)
    terms: list[Node] = []
    while node is not None and _is_plain(node):
        terms.insert(0, node)
        node = _producer(node.outputs[0].value)
    return terms


def _producer(value: ir.Value) -> Node | None:
    """The node that defines a value, where the value has one user."""
    is_single = not isinstance(value, ir.BlockArgument) and is_used_once(value)
    return find_node(value.owner.operation) if is_single else None


def _is_rounding(node: Node) -> bool:
    """Whether a node only rounds elements."""
    maps = [a.value for a in node.op.attributes["indexing_maps"]]
    names = [o.operation.name for o in node.body.operations]
    shape = ir.ShapedType(node.results[0].type).shape
    return names == ["arith.truncf", "linalg.yield"] and all(is_identity_map(m, shape) for m in maps)


def _is_plain(node: Node) -> bool:
    """Whether a node is a product that TMA can read and that has no split-K."""
    product = product_of(node) if is_contraction(node) else None
    return product is not None and product.tma_readable and is_unsplit(node)


def _have_equal_loops(first: Node, second: Node) -> bool:
    """Whether products have equal loops over operands of equal types."""
    a, b = first.op, second.op
    same = all(a.attributes[name] == b.attributes[name] for name in ("indexing_maps", "iterator_types"))
    return same and [v.type for v in a.operands] == [v.type for v in b.operands]
