"""The greedy strategy: OneFlow's own layout assignment, operator by operator in program order."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect.nd_sbp import Mesh, NdSbp, NdSignature
from oneflow.dialect.sbp import B
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpNode

#: OneFlow's costs of making partial sums, and of splitting a replicated tensor, on a mesh of one axis.
NEVER, RARELY = 2**63 - 1, 2**31 - 1


def choose_greedily(graph: SbpGraph, mesh: Mesh) -> dict[SbpNode, NdSignature]:
    """A signature for every node.

    On a mesh of one axis: the signature with the most operands in its layouts (unless the program constrains the
    operator), then with the fewest bytes as OneFlow counts them. On other meshes: the first signature whose operands
    all agree, else the cheapest. The earlier candidate wins ties. Nodes without operands are replicated.
    """
    chosen: dict[SbpNode, NdSignature] = {}
    known: dict[tuple[object, ...], NdSignature] = {}
    for node in graph.nodes:
        layouts = tuple(chosen[t.producer].outputs[t.result_index] for t in node.inputs)
        key = (id(node.candidates), node.constrained, layouts)
        if key not in known:
            known[key] = _choose(node, layouts, mesh)
        chosen[node] = known[key]
    return chosen


def _choose(node: SbpNode, layouts: Sequence[NdSbp], mesh: Mesh) -> NdSignature:
    signatures = node.candidates.signatures
    if node.role == "result" and not node.constrained:
        return NdSignature((tuple(B if s.is_partial else s for s in layouts[0]),), ())
    if not node.inputs:
        return next((s for s in signatures if all(x == B for nd in s.outputs for x in nd)), signatures[0])
    return min(signatures, key=lambda s: priority(node, s, layouts, mesh))


def priority(node: SbpNode, signature: NdSignature, layouts: Sequence[NdSbp], mesh: Mesh) -> tuple[int, int]:
    """The rank of a signature for operands in these layouts: order, then cost; smaller is better."""
    matches = sum(a == b for a, b in zip(signature.inputs, layouts, strict=True))
    operands = list(zip(node.inputs, layouts, signature.inputs, strict=True))
    if len(mesh) == 1:
        return 0 if node.constrained else -10 * matches, sum(_bytes_1d(*o) for o in operands)
    return -(matches == len(layouts)), sum(_bytes_nd(*o, mesh) for o in operands)


def _bytes_1d(tensor: LogicalTensor, layout: NdSbp, wanted: NdSbp) -> int:
    (old,), (new,) = layout, wanted
    if old == new:
        return 0
    if new.is_partial:
        return NEVER
    return RARELY if old == B else tensor.bytes


def _bytes_nd(tensor: LogicalTensor, layout: NdSbp, wanted: NdSbp, mesh: Mesh) -> int:
    """OneFlow's transfer costs, added up over the mesh axes."""
    total = 0
    for old, new, p in zip(layout, wanted, mesh, strict=True):
        if old != new:
            total += _transfer(old.kind + new.kind, tensor.bytes, p)
    return total


def _transfer(kinds: str, size: int, p: int) -> int:
    if kinds[1] == "P":
        return 8 * size * p
    kinds = kinds.replace("M", "P")
    return {"BS": 1, "SS": size * (p - 1) // p, "PS": size * (p - 1), "SB": size * (p - 1), "PB": 2 * size * (p - 1)}[
        kinds
    ]
