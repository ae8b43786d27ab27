"""The text of `explain`: every operator, its candidate signatures with their costs, and the assigned signature."""

from __future__ import annotations

from collections.abc import Iterator

from oneflow.dialect.nd_sbp import NdSbp, NdSignature
from oneflow.dialect.reader import file_line_column
from oneflow.passes.sbp.cost import Assignment, Costs
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpNode
from oneflow.passes.sbp.greedy import priority


def explain(name: str, graph: SbpGraph, assignment: Assignment, costs: Costs) -> str:
    """The text for one function: candidates with `*` at the chosen one, given the assignment of earlier nodes."""
    lines = [f"@{name} on a mesh of {'x'.join(map(str, costs.mesh))}"]
    for node in graph.nodes:
        lines += [f"  {file_line_column(node.op.location)}: {node}"]
        lines += candidates(node, assignment, costs)
    lines.append(f"  total: {costs.total(graph, assignment):.1f} us,"
                 f" {costs.bytes_moved(graph, assignment)} bytes moved,"
                 f" {costs.memory(graph, assignment):.0f} bytes on a device")  # fmt: skip
    return "\n".join(lines)


def _operands(
    node: SbpNode, signature: NdSignature, assignment: Assignment
) -> Iterator[tuple[LogicalTensor, NdSbp, NdSbp]]:
    for tensor, wanted in zip(node.inputs, signature.inputs, strict=True):
        yield tensor, assignment[tensor.producer].outputs[tensor.result_index], wanted


def candidates(node: SbpNode, assignment: Assignment, costs: Costs) -> Iterator[str]:
    """The lines of one node: its signatures with their costs, given the assignment of earlier nodes."""
    chosen = assignment[node]
    listed = node.candidates.signatures if chosen in node.candidates.signatures else [chosen]
    layouts = [nd for _, nd, _ in _operands(node, chosen, assignment)]
    for signature in listed:
        moves = list(_operands(node, signature, assignment))
        moved = sum(costs.boxing.cost(a, b, t.shape, t.width) for t, a, b in moves) + costs.bytes_sent(
            node, signature
        )
        time = sum(costs.transfer(t, a, b) for t, a, b in moves) + costs.send_time(node, signature)
        order, _ = priority(node, signature, layouts, costs.mesh)
        mark = "*" if signature == chosen else " "
        yield (
            f"    {mark} {signature}: order {order}, {moved} bytes,"
            f" {time:.1f} us moving, {costs.compute_time(node, signature):.3g} us computing"
        )
