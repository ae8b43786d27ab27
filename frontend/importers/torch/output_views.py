"""Results of a graph that are views: PyTorch makes them, so that they share memory and have PyTorch's strides.

A program of this library returns arrays of its own. A result that is a view of an input has to be that view, because
AOTAutograd reads its strides and its offset; results that are views of one computed tensor share its memory.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from oneflow.frontend.importers.torch.errors import UnsupportedError


@dataclass(frozen=True)
class OutputViews:
    """A graph in two parts.

    `computed` is the graph without its views: it returns `count` results, then those that are saved for the backward
    graph. `views` computes the first results of the whole graph, for the inputs and the `count` results.
    """

    computed: fx.GraphModule
    count: int
    views: Callable[..., Sequence[Any]]

    def results(self, inputs: Sequence[Any], computed: Sequence[Any]) -> list[Any]:
        """The results of the whole graph."""
        with torch.no_grad():
            return [*self.views(*inputs, *computed[: self.count]), *computed[self.count :]]


def output_views(module: fx.GraphModule, count: int) -> OutputViews | None:
    """The views among the first `count` results of a graph; None where there are none that PyTorch has to make.

    Raises:
        UnsupportedError: the size of a view of an input is that of a computed tensor.
    """
    outputs = list(module.graph.output_node().args[0])
    bases = [_base(output) for output in outputs[:count]]
    shared = Counter(base for base in bases if base is not None)
    made = {
        output
        for output, base in zip(outputs, bases, strict=False)
        if base is not None and base is not output and (base.op == "placeholder" or shared[base] > 1)
    }
    if not made:
        return None
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    sources = [base if output in made else output for output, base in zip(outputs, bases, strict=False)]
    kept = list(dict.fromkeys(s for s in sources if isinstance(s, fx.Node) and s.op != "placeholder"))
    return OutputViews(
        _returning(module, [*kept, *outputs[count:]]), len(kept), _views(module, placeholders + kept, outputs[:count])
    )


def _base(output: Any) -> fx.Node | None:
    """The tensor that a result is a view of, the result itself if it is none; None for a number."""
    while isinstance(output, fx.Node) and _is_view(output):
        output = output.args[0]
    return output if isinstance(output, fx.Node) else None


def _is_view(node: fx.Node) -> bool:
    """Whether a call makes a view of its first argument."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _returning(module: fx.GraphModule, outputs: Sequence[Any]) -> fx.GraphModule:
    """A copy of a graph with other results."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    graph.graph_copy(module.graph, copies)
    graph.output(fx.node.map_arg(list(outputs), copies.__getitem__))
    return fx.GraphModule(module, graph)


def _views(module: fx.GraphModule, inputs: Sequence[fx.Node], outputs: Sequence[Any]) -> fx.GraphModule:
    """The part of a graph that computes `outputs` from the nodes `inputs`: views and numbers alone."""
    graph = fx.Graph()
    copies = {node: graph.placeholder(f"input_{number}") for number, node in enumerate(inputs)}
    needed = _needed(inputs, outputs)
    for node in module.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(fx.node.map_arg(list(outputs), copies.__getitem__))
    return fx.GraphModule(module, graph)


def _needed(inputs: Sequence[fx.Node], outputs: Sequence[Any]) -> set[fx.Node]:
    """The nodes between `inputs` and `outputs`."""
    needed, known = set[fx.Node](), set(inputs)
    pending = [output for output in outputs if isinstance(output, fx.Node)]
    while pending:
        node = pending.pop()
        if node in known or node in needed:
            continue
        if not _is_view(node) and isinstance(node.meta.get("val"), torch.Tensor):
            raise UnsupportedError([f"a view by the size of the computed tensor {node.name}"])
        needed.add(node)
        pending += node.all_input_nodes
    return needed
