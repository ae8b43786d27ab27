"""Bodies of loops: expression graphs written at the insertion point.

Leaves are given (positions, accumulators, operands of the loop) or read by `tensor.extract`. Sizes and tensors are
computed outside of the loop, before the body is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.compute import Stage
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg.checks import Checks
from oneflow.lowering.linalg.emit import Emitter, Value
from oneflow.lowering.linalg.scalars import Scalars
from oneflow.lowering.linalg.sizes import Sizes


@dataclass(frozen=True)
class Context:
    """The emitters of one operator call; `tensor` gives the value of a stage."""

    emitter: Emitter
    scalars: Scalars
    checks: Checks
    sizes: Sizes
    tensor: Callable[[Stage], Value]
    location: ir.Location


def nodes_to_write(roots: Sequence[Expr], bound: Mapping[int, object]) -> list[Expr]:
    """The nodes that `roots` depend on in topological order, without bound nodes and their exclusive operands."""
    order = s.walk(roots)
    wanted = {id(r) for r in roots}
    for node in reversed(order):
        if id(node) in wanted and id(node) not in bound:
            wanted.update(id(a) for a in node.args)
    return [n for n in order if id(n) in wanted and id(n) not in bound]


#: Kinds of nodes that are extents.
SIZE_KINDS = ("size", "at_least")


class Body:
    """Writes one body, in one or several steps.

    Args:
        context: the emitters.
        roots: the nodes that will be written.
        leaves: ids of the nodes that `write` is given values of.
        positions: the loop of each position, by the node's id.
        reassociable: ids of the nodes that may be reassociated.
    """

    def __init__(
        self,
        context: Context,
        roots: Sequence[Expr],
        leaves: Iterable[int] = (),
        positions: Mapping[int, int] = MappingProxyType({}),
        reassociable: frozenset[int] = frozenset(),
    ) -> None:
        """Computes the sizes and tensors of the body at the insertion point, outside of the loop."""
        self.context, self.positions, self.reassociable = context, positions, reassociable
        nodes = nodes_to_write(roots, dict.fromkeys(leaves))
        self.sizes = {id(n): context.sizes.extent(n) for n in nodes if n.kind in SIZE_KINDS}
        self.tensors = {id(n): context.tensor(n.value) for n in nodes if n.kind == "load"}
        self.values: dict[int, Value] = {}

    def write(self, roots: Sequence[Expr], bound: Mapping[int, Value] = MappingProxyType({})) -> list[Value]:
        """The values of `roots`, written at the insertion point; `bound` are values of leaves by the node's id."""
        self.values.update(bound)
        for node in nodes_to_write(roots, self.values):
            self.values[id(node)] = self._node(node, [self.values[id(a)] for a in node.args])
        return [self.values[id(r)] for r in roots]

    def _node(self, node: Expr, args: list[Value]) -> Value:
        e = self.context.emitter
        if node.kind == "load":
            return e.op("tensor.extract", e.element(node.dtype), [self.tensors[id(node)], *args])
        if node.kind in SIZE_KINDS:
            extent = self.sizes[id(node)]
            return e.index(extent) if isinstance(extent, int) else extent
        if node.kind == "index":
            return e.op("linalg.index", e.index_type, (), {"dim": e.attribute(f"{self.positions[id(node)]} : i64")})
        if node.kind == "checked":
            return self.context.checks.index(args[0], args[1], node.value, self.context.location)
        assert node.kind != "arg", f"unbound {node}"
        return self.context.scalars.emit(node, args, id(node) in self.reassociable)


def is_uniform(root: Expr) -> bool:
    """Whether the expression has one value at all positions."""
    return all(node.kind not in ("load", "index", "arg") for node in s.walk([root]))


def dependent_nodes(roots: Sequence[Expr], leaves: Sequence[Expr]) -> frozenset[int]:
    """The ids of the nodes below `roots` that depend on `leaves`."""
    dependent = {id(leaf) for leaf in leaves}
    for node in s.walk(roots):
        if any(id(a) in dependent for a in node.args):
            dependent.add(id(node))
    return frozenset(dependent)
