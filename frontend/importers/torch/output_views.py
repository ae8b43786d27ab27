"""Results of a graph that are views of one tensor: PyTorch makes them from the tensor, so that they share memory.

A program of this library returns separate arrays. Views of inputs, and those that require grad, AOTAutograd makes
itself; other views of an intermediate tensor are operators of the graph that a compiler gets.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx


@dataclass(frozen=True)
class OutputViews:
    """The computed results of a graph, without views that share a tensor, and how these views are made.

    `module` returns each result once, `count` of them before those that are saved for the backward graph. `sources`
    has for each original result the number of a result of `module`, and the calls that make a view of it.
    """

    module: fx.GraphModule
    count: int
    sources: Sequence[tuple[int, Sequence[fx.Node]]]

    def results(self, computed: Sequence[Any]) -> list[Any]:
        """The results of the original graph, made of the results of `module`."""
        return [_view(computed[number], calls) for number, calls in self.sources]


def output_views(module: fx.GraphModule, count: int) -> OutputViews | None:
    """The views among the first `count` results of a graph; None where no two results share a tensor."""
    outputs = list(module.graph.output_node().args[0])
    chains = [_chain(output) if number < count else (output, []) for number, output in enumerate(outputs)]
    shared = Counter(base for base, _ in chains[:count] if isinstance(base, fx.Node))
    chains = [
        (base, calls) if calls and shared[base] > 1 else (output, [])
        for output, (base, calls) in zip(outputs, chains, strict=True)
    ]
    if not any(calls for _, calls in chains):
        return None
    kept = list(dict.fromkeys(base for base, _ in chains[:count]))
    returned = [*kept, *outputs[count:]]
    sources = [
        (kept.index(base) if number < count else len(kept) + number - count, calls)
        for number, (base, calls) in enumerate(chains)
    ]
    return OutputViews(_returning(module, returned), len(kept), sources)


def _chain(output: Any) -> tuple[Any, list[fx.Node]]:
    """The computed tensor that a result is a view of, and the calls that make the view, in order."""
    base, calls = output, list[fx.Node]()
    while isinstance(base, fx.Node) and _is_view(base):
        calls.insert(0, base)
        base = base.args[0]
    is_computed = isinstance(base, fx.Node) and base.op == "call_function"
    return (base, calls) if is_computed else (output, [])


def _is_view(node: fx.Node) -> bool:
    """Whether a call makes a view of its first argument with numbers that the graph holds."""
    if node.op != "call_function" or not node.args or node.all_input_nodes != [node.args[0]]:
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[0], fx.Node) and _is_view(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _returning(module: fx.GraphModule, outputs: Sequence[Any]) -> fx.GraphModule:
    """A copy of a graph with other results."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    graph.graph_copy(module.graph, copies)
    graph.output(fx.node.map_arg(list(outputs), copies.__getitem__))
    return fx.GraphModule(module, graph)


def _view(tensor: Any, calls: Sequence[fx.Node]) -> Any:
    for call in calls:
        target: Callable[..., Any] = call.target
        tensor = target(tensor, *call.args[1:], **call.kwargs)
    return tensor
