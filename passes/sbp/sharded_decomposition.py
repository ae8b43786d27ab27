"""Operators that are decomposed where an operand is split along an axis that no signature splits.

`softmax` has no signature that splits rows, but the operators of its decomposition have: only row maxima and row sums
are reduced over devices, and the rows stay split.
"""

from __future__ import annotations

from collections.abc import Iterator

from oneflow.dialect import oneflow as dialect
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.record import Registry, Rule
from oneflow.passes.decompose import replace
from oneflow.passes.sbp.cost import Assignment
from oneflow.passes.sbp.graph import SbpGraph, SbpNode


def operators_to_reshard(graph: SbpGraph, assignment: Assignment, registry: Registry) -> list[SbpNode]:
    """The decomposable operators with an operand that is split along an axis that no signature splits."""
    return [
        n
        for n in decomposable_operators(graph, registry)
        if any(not _accepts(n, i, nd) for i, nd in _operand_layouts(n, assignment))
    ]


def decomposable_operators(graph: SbpGraph, registry: Registry) -> list[SbpNode]:
    """The operators that can be decomposed and have an operand with an axis that no signature splits."""
    free = (n for n in graph.nodes if n.role == "operator" and not n.constrained and _rule(n, registry) is not None)
    return [n for n in free if any(len(_split_axes(n, i)) < _count_long_axes(n, i) for i in range(len(n.inputs)))]


def decompose_operators(nodes: list[SbpNode], registry: Registry) -> None:
    """Replaces operators by others that can be split along more axes.

    Raises:
        PassError: a record's rule makes a call that is not allowed.
    """
    for node in nodes:
        rule = _rule(node, registry)
        assert rule is not None, node.name
        replace(node.op, rule, registry)


def _rule(node: SbpNode, registry: Registry) -> Rule | None:
    record = dialect.record_of(node.op, registry)
    return record.sharded_decomposition or record.decompose


def _operand_layouts(node: SbpNode, assignment: Assignment) -> Iterator[tuple[int, NdSbp]]:
    for index, tensor in enumerate(node.inputs):
        yield index, assignment[tensor.producer].outputs[tensor.result_index]


def _accepts(node: SbpNode, index: int, layout: NdSbp) -> bool:
    """Whether signatures split an operand along every axis along which `layout` splits it."""
    return {s.axis for s in layout if s.axis is not None} <= _split_axes(node, index)


def _split_axes(node: SbpNode, index: int) -> set[int]:
    """The axes of an operand that some signature splits."""
    layouts = {s.inputs[index] for s in node.candidates.signatures}
    return {s.axis for nd in layouts for s in nd if s.axis is not None}


def _count_long_axes(node: SbpNode, index: int) -> int:
    return sum(size > 1 for size in node.inputs[index].shape)
