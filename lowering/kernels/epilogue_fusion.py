"""Epilogue fusion: which operations on the result of a matrix product become part of the product's kernel.

The epilogue runs on the accumulators, so the result of the product is never stored. An epilogue that reads or writes
many tensors of the size of the product costs the kernel registers and memory bandwidth: it is a kernel of its own.
`oneflow-form-kernels` asks; `lowering/triton/codegen/matmul.py` and `lowering/llvm/contraction.py` emit.
"""

from __future__ import annotations

import itertools

from oneflow.lowering.kernels.nodes import Node, Use
from oneflow.passes.walk import is_used_once


def is_epilogue(nodes: list[Node], products: list[Node], outer: set[int], limit: int, on_gpu: bool) -> bool:
    """Whether the nodes that are no product should be the epilogue of `products`, which are among the `nodes`.

    Several products are one kernel where each accumulates onto the one before. The epilogue has exactly the parallel
    loops of the product, which are among the `outer` loops of the kernel. `limit` bounds the cost of the epilogue: 1
    for each tensor of the product's size that is read, 2 for each result but one. With `on_gpu` an epilogue does not
    access tensors of the product's size with strides.
    """
    if any(not _accumulates_onto(product, term) for term, product in itertools.pairwise(products)):
        return False
    others = [n for n in nodes if n not in products]
    if on_gpu and _is_strided(products[0], others):
        return False
    loops = products[0].loops & outer
    return _cost(nodes, others) <= limit and all(not n.nonunit_reductions and n.loops == loops for n in others)


def _accumulates_onto(product: Node, term: Node) -> bool:
    """Whether a product accumulates onto another product that has no other use."""
    (result,) = term.results
    return product.outputs[0].value == result and is_used_once(result)


def _cost(nodes: list[Node], others: list[Node]) -> int:
    """The cost of the epilogue `others` of a product, see `is_epilogue`."""
    produced, ops = {r for n in nodes for r in n.results}, [n.op for n in nodes]
    read = {u.value for n in others for u in n.inputs if u.value not in produced and len(u.access) == len(n.loops)}
    leaving = [r for r in produced if any(u.owner.operation not in ops for u in r.uses)]
    return len(read) + 2 * max(len(leaving) - 1, 0)


def _is_strided(product: Node, others: list[Node]) -> bool:
    """Whether the epilogue of a product reads or writes a tensor of the product's size with strides.

    Neither rows nor columns of the result are contiguous in such a tensor, as in filters with channels first.
    """
    rows = {product.loop_ids[d] for f in product.inputs[0].access for d in f.dims}
    ends = [
        _innermost_loop(product, product.outputs[0], rows),
        _innermost_loop(product, product.outputs[0], product.loops - rows),
    ]
    full_size = ((n, u) for n in others for u in (*n.inputs, *n.outputs) if len(u.access) == len(n.loop_ids))
    return any(_innermost_loop(n, u, n.loops) not in ends for n, u in full_size)


def _innermost_loop(node: Node, use: Use, loops: set[int]) -> int | None:
    """The last dimension of a tensor that is one of `loops`."""
    loop_ids = [node.loop_ids[f.dim] for f in use.access if f.dim is not None]
    return next((n for n in reversed(loop_ids) if n in loops), None)
