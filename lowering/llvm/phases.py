"""The phases of a structure: the inner loop nests that its nodes need one after the other."""

from __future__ import annotations

from oneflow.lowering.kernels.nodes import Node, Structure


def phases_of(structure: Structure) -> dict[Node, int]:
    """The phase of each node; a node that needs a finished reduction runs in a later phase than the reduction.

    Each phase has one inner loop nest. A node without inner loops runs before the inner loop nest of its phase.
    """
    phases: dict[Node, int] = {}
    producers = {r: (n, i) for n in structure.nodes for i, r in enumerate(n.results)}
    for node in structure.nodes:
        phase = 0
        for use in (*node.inputs, *node.outputs):
            if use.value in producers:
                producer, number = producers[use.value]
                phase = max(phase, phases[producer] + int(is_finished_by_loops(producer, number)))
        phases[node] = phase
    return phases


def is_finished_by_loops(node: Node, number: int) -> bool:
    """Whether result `number` of a node is a reduction, which is finished after the inner loops."""
    return bool(node.nonunit_reductions) and not node.is_scan_result(number)
