"""Signatures of operators that run bodies: loops and branches.

A body takes its arguments as the operands lie. The layouts of states are a fixed point: where a body gives a state in
another layout than it took, the state is passed on in that layout, and a state that does not settle is whole. A
constant of a loop arrives in the layout that the steps compute with, so that the constant is moved once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import NdSbp, NdSignature, broadcast, problem, write_nd_sbp
from oneflow.dialect.record import Call, Registry
from oneflow.dialect.sbp import B, M, P, S
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.candidates import can_split
from oneflow.passes.sbp.cost import Assignment, Costs, moves
from oneflow.passes.sbp.graph import Graph, GraphReader, Node, Tensor, operations_in, width_of
from oneflow.passes.sbp.submeshes import WHOLE, write_placement
from oneflow.passes.structure import Function, Structure, qualified_symbol

Solve = Callable[[Function], tuple[Graph, Assignment]]
Write = Callable[[Function, Graph, Assignment], None]
#: How many signatures are found for one operator, for operands in different layouts.
MAX_SIGNATURES = 3


@dataclass(frozen=True)
class BodyOperator:
    """How an operator runs its bodies.

    Attributes:
        call: the operator on descriptions.
        symbols: the functions that are bodies, by attribute, in the order in which they run.
        lead: how many operands are not passed on: the predicate of a branch.
        states, sequences: how many of the passed operands are states, and how many then are sequences.
        whole: the layout of repeated tensors.
    """

    call: Call
    symbols: Mapping[str, str]
    lead: int
    states: int
    sequences: int
    whole: NdSbp

    @classmethod
    def of(cls, node: Node, registry: Registry, whole: NdSbp) -> BodyOperator:
        """How the operator of a node runs its bodies."""
        descs = iter([t.desc for t in node.inputs])
        record = dialect.record_of(node.op, registry)
        call = dialect.operand_call(node.op, record, lambda value: next(descs))
        names = dialect.named_functions(node.op)
        symbols = {a.name: names[a.name] for a in record.signature.attrs if a.name in names}
        lead = len(call.operands) - len(call.xs)
        return cls(call, symbols, lead, call.attrs.get("states", 0), call.attrs.get("sequences", 0), whole)

    @property
    def form(self) -> str:
        """The key in `control.FORMS`."""
        assert self.call.record.control is not None, self.call.record.name
        return self.call.record.control

    @property
    def steps(self) -> int:
        """How often the bodies run, as far as that is known."""
        if self.form != "steps":
            return 1
        length: int = self.call.attrs["length"]
        return length if length >= 0 else self.call.xs[self.states].static_shape[0]

    def arguments(self, operands: Sequence[NdSbp]) -> list[NdSbp]:
        """The layouts of a body's arguments, of operands in these layouts."""
        nds, last = operands[self.lead :], self.states + self.sequences
        return [*nds[: self.states], *map(_element, nds[self.states : last]), *nds[last:]]

    def operands(self, arguments: Sequence[NdSbp]) -> tuple[NdSbp, ...]:
        """The layouts of the operands that a body takes as these arguments."""
        last = self.states + self.sequences
        sequences = map(_stacked, arguments[self.states : last])
        return (*[self.whole] * self.lead, *arguments[: self.states], *sequences, *arguments[last:])

    def results(self, arguments: Sequence[NdSbp], given: Sequence[NdSbp]) -> tuple[NdSbp, ...]:
        """The layouts of the operator's results, where its last body gives results in these layouts."""
        if self.form != "steps":
            return tuple(arguments[: self.states] if self.form == "while" else given)
        states = arguments[: self.states]
        return (*states, *map(_stacked, given[self.states :]), *map(_stacked, states))

    def kept(self, name: str, arguments: Sequence[NdSbp]) -> tuple[NdSbp, ...]:
        """The layouts of the first results of the body `name`, which do not depend on what it gives."""
        if name != list(self.symbols)[-1] and self.form == "while":
            return (self.whole,)
        return tuple(arguments[: self.states])

    def given(self, name: str, signature: NdSignature) -> tuple[NdSbp, ...]:
        """The layouts of the results of the body `name` under a signature of the operator."""
        if self.form != "steps":
            return self.kept(name, signature.outputs) if self.form == "while" else signature.outputs
        states, kept = self.states, len(self.call.attrs[name].outputs)
        return (*signature.outputs[:states], *map(_element, signature.outputs[states:kept]))


@dataclass(frozen=True)
class BodySignature:
    """A signature of an operator with bodies, and of all steps: the multiply-adds, the microseconds of transfers, and
    the cost with computation.
    """

    signature: NdSignature
    work: int
    moved: float
    cost: float


@dataclass(frozen=True)
class BodyLayouts:
    """The result of layout inference of a body for arguments in some layouts.

    Attributes:
        given: the layouts of the results.
        added: for each result the layout of partial sums that it is computed from, if it is.
        wanted: for each argument the layouts in which operators take it.
        work: multiply-adds.
        moved: microseconds of transfers.
        cost: microseconds of transfers and computation.
    """

    given: list[NdSbp]
    added: list[NdSbp | None]
    wanted: list[set[NdSbp]]
    work: int
    moved: float
    cost: float


class Bodies:
    """Finds signatures of operators with bodies on one placement, and infers the bodies of the chosen signatures.

    `solve` infers a function whose arguments are annotated, and `write` annotates it with what was chosen.
    """

    def __init__(self, structure: Structure, reader: GraphReader, costs: Costs, solve: Solve, write: Write) -> None:
        self.structure, self.reader, self.costs = structure, reader, costs
        self.solve, self.write = solve, write
        self._whole = broadcast(reader.mesh)
        self._known: dict[Any, BodySignature] = {}
        self._written: dict[Any, str] = {}

    def add_signature(self, graph: Graph, assignment: Assignment, replaces: bool) -> bool:
        """Gives the first operator whose operands lie in new layouts the signature for them; whether there is one.

        `replaces`: it is the only signature then.
        """
        for node in _with_bodies(graph):
            stated, candidates = notes.read_operation(node.op, notes.IN), node.candidates
            layouts = tuple(stated or (_produced(t, assignment) for t in node.inputs))
            if layouts not in candidates.found and len(candidates.found) < MAX_SIGNATURES:
                found = self._find(node, layouts, stated is not None)
                rest = [] if replaces or stated else candidates.signatures
                candidates.signatures[:] = list(dict.fromkeys([found.signature, *rest]))
                candidates.found[layouts], candidates.moved[found.signature] = found.signature, found.moved
                candidates.work = found.work
                return True
        return False

    def _find(self, node: Node, layouts: tuple[NdSbp, ...], stated: bool) -> BodySignature:
        """The signature of an operator for operands in these layouts."""
        key = (node.op.name, *(t.desc for t in node.inputs), *node.op.attributes.items(), layouts)
        if key not in self._known:
            running = BodyOperator.of(node, self.reader.registry, self._whole)
            self._known[key] = self._cheapest(node, running, layouts, stated)
        return self._known[key]

    def _cheapest(self, node: Node, running: BodyOperator, layouts: Sequence[NdSbp], stated: bool) -> BodySignature:
        """The cheapest fixed point from the layouts of operands; layouts that the program states do not change.

        Repeated states, such as zeros, may begin split as other arguments are, or as the partial sums that steps add
        to them: that moves nothing.
        """
        arrived = running.arguments(layouts if stated else list(map(_summed, layouts)))
        first, outcomes = self._fixed_point(node, running, arrived, stated)
        found, seeds = [first], dict.fromkeys(arrived[: running.states + running.sequences])
        added = outcomes[-1].added[: running.states]
        starts = [[nd] * running.states for nd in seeds if nd != self._whole] + [added] * any(added)
        for start in starts if not stated else ():
            found.append(self._fixed_point(node, running, self._start_arguments(running, arrived, start), False)[0])

        def cost(one: BodySignature) -> float:
            sides = zip(node.inputs, layouts, one.signature.inputs, strict=True)
            return one.cost + sum(self.costs.transfer(*move) for move in sides if move[1] != move[2])

        return min(found, key=cost)

    def _start_arguments(
        self, running: BodyOperator, arguments: Sequence[NdSbp], start: Sequence[NdSbp | None]
    ) -> list[NdSbp]:
        """The arguments with repeated states in the layouts `start`, where they can have them."""

        def begin(desc: TensorDesc, old: NdSbp, nd: NdSbp | None) -> NdSbp:
            mesh = self.reader.mesh
            free = nd is not None and old == self._whole and problem(nd, desc.rank, mesh) is None
            return nd if nd is not None and free and can_split(desc.static_shape, nd, mesh) else old

        states = zip(running.call.xs, arguments, start, strict=False)
        return [*(begin(*state) for state in states), *arguments[running.states :]]

    def _fixed_point(
        self, node: Node, running: BodyOperator, start: Sequence[NdSbp], stated: bool
    ) -> tuple[BodySignature, Sequence[BodyLayouts]]:
        """The fixed point from arguments in these layouts, and what the bodies do there."""
        arguments = list(start)
        tries = Counter(dict.fromkeys(range(len(arguments)), 2) if stated else {})
        outcomes = [self._infer_body(node, running, n, arguments) for n in running.symbols]
        while running.form != "branch" and self._update_layouts(running.states, arguments, outcomes, tries):
            outcomes = [self._infer_body(node, running, n, arguments) for n in running.symbols]
        given = outcomes[-1].given
        if running.form == "branch":
            descs = running.call.attrs[next(iter(running.symbols))].outputs
            given = [self._cheaper_target(*row) for row in zip(descs, *(o.given for o in outcomes), strict=True)]
        signature = NdSignature(running.operands(arguments), running.results(arguments, given))
        sums = (sum(getattr(o, name) for o in outcomes) for name in ("work", "moved", "cost"))
        return BodySignature(signature, *(running.steps * n for n in sums)), outcomes

    def _update_layouts(
        self, states: int, arguments: list[NdSbp], outcomes: Sequence[BodyLayouts], tries: Counter[int]
    ) -> bool:
        """Changes the layouts of arguments that every step of a loop would move; whether there were any.

        A state is first passed on as the body gives it, and if that does not settle it is repeated.
        """
        targets = dict(enumerate(outcomes[-1].given[:states]))
        for i in range(states, len(arguments)):
            wanted = set().union(*(o.wanted[i] for o in outcomes))
            if len(wanted) == 1:
                targets[i] = _summed(wanted.pop())
        moving = [i for i, nd in targets.items() if nd != arguments[i] and tries[i] < (2 if i < states else 1)]
        for i in moving:
            arguments[i] = self._whole if tries[i] else targets[i]
        tries.update(moving)
        return bool(moving)

    def _cheaper_target(self, desc: TensorDesc, one: NdSbp, other: NdSbp) -> NdSbp:
        """The cheaper target of two layouts: a tensor in the other layout is moved there with fewer bytes."""
        shape, width = desc.static_shape, width_of(desc)
        there, back = (self.costs.boxing.cost(*pair, shape, width) for pair in ((one, other), (other, one)))
        return other if there < back else one

    def _infer_body(self, node: Node, running: BodyOperator, name: str, arguments: Sequence[NdSbp]) -> BodyLayouts:
        """Infers a body for arguments in these layouts."""
        function = self._copy(node, running.symbols[name], arguments)
        try:
            graph, assignment = self.solve(function)
            return self._outcome(function, graph, assignment, running.kept(name, arguments))
        finally:
            function.op.erase()

    def _outcome(
        self, function: Function, graph: Graph, assignment: Assignment, kept: Sequence[NdSbp]
    ) -> BodyLayouts:
        """The chosen layouts of a body whose first results are to have the layouts `kept`."""
        returned = [n for n in graph.nodes if n.role == "result"]
        given = [_without_maxima(_produced(n.inputs[0], assignment)) for n in returned]
        uses = [graph.tensors[a].uses for a in function.arguments]
        wanted = [{assignment[n].inputs[i] for n, i in u if n.role != "result"} for u in uses]
        layouts = [*kept, *given[len(kept) :]]
        assignment = {**assignment, **{n: NdSignature((nd,), ()) for n, nd in zip(returned, layouts, strict=True)}}
        moved = sum(self.costs.transfer(*move) for move in moves(graph, assignment))
        moved += sum(n.candidates.moved.get(assignment[n], 0.0) for n in graph.nodes)
        work, cost = sum(n.candidates.work for n in graph.nodes), self.costs.total(graph, assignment)
        added = [_partial_addend(n.inputs[0], assignment) for n in returned]
        return BodyLayouts(given, added, wanted, work, moved, cost)

    def write_bodies(self, graph: Graph, assignment: Assignment) -> None:
        """Infers the bodies of a function's operators as their signatures say. The operators name copies."""
        for node in _with_bodies(graph):
            running = BodyOperator.of(node, self.reader.registry, self._whole)
            arguments = running.arguments(assignment[node].inputs)
            for name, symbol in running.symbols.items():
                copy = self._write_body(node, symbol, arguments, running.given(name, assignment[node]))
                node.op.attributes[name] = ir.FlatSymbolRefAttr.get(copy, node.op.context)

    def _write_body(self, node: Node, symbol: str, arguments: Sequence[NdSbp], given: Sequence[NdSbp]) -> str:
        """The copy of a body that takes arguments and gives results in these layouts."""
        key = (qualified_symbol(node.op, symbol), tuple(arguments), tuple(given))
        if key not in self._written:
            function = self._copy(node, symbol, arguments)
            self._annotate(function, notes.RESULTS, len(function.results), given)
            self.write(function, *self.solve(function))
            self._written[key] = str(function.op.attributes["sym_name"].value)
        return self._written[key]

    def _copy(self, node: Node, symbol: str, arguments: Sequence[NdSbp]) -> Function:
        """A copy of a body next to it, on this placement, with arguments in these layouts."""
        original = self.structure.functions[qualified_symbol(node.op, symbol)].op
        taken = {o.attributes["sym_name"].value for o in original.block.operations if "sym_name" in o.attributes}
        name = next(n for i in itertools.count() if (n := f"{symbol}_{i}") not in taken)
        op = original.clone(ip=ir.InsertionPoint(original))
        op.attributes["sym_name"] = ir.StringAttr.get(name, op.context)
        (function,) = Structure.of(op).functions.values()
        self._annotate(function, notes.ARGUMENTS, len(function.inputs), arguments)
        if self.reader.placement != WHOLE:
            for inner in operations_in(function):
                if not len(inner.operands):
                    write_placement(inner, self.reader.placement)
        return function

    def _annotate(self, function: Function, side: str, count: int, layouts: Sequence[NdSbp]) -> None:
        name = self.reader.placement
        placement = {} if name == WHOLE else {notes.PLACEMENT: ir.StringAttr.get(name)}
        attributes = [{notes.ND_SBP: write_nd_sbp(nd), **placement} for nd in layouts]
        notes.annotate_values(function.op, side, count, attributes.__getitem__)


def _with_bodies(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.role == "operator" and dialect.named_functions(n.op)]


def _produced(tensor: Tensor, assignment: Assignment) -> NdSbp:
    return assignment[tensor.producer].outputs[tensor.number]


def _partial_addend(tensor: Tensor, assignment: Assignment) -> NdSbp | None:
    """The layout of an operand with partial sums of the operator that gives a tensor."""
    operands = (_produced(t, assignment) for t in tensor.producer.inputs)
    return next((nd for nd in operands if P in nd and M not in nd), None)


def _element(nd: NdSbp) -> NdSbp:
    """The layout of the elements of a sequence: where the sequence is split along its axis, they are repeated."""
    return tuple(s if s.axis is None else S(s.axis - 1) if s.axis else B for s in nd)


def _stacked(nd: NdSbp) -> NdSbp:
    """The layout of a sequence of elements in this layout."""
    return tuple(s if s.axis is None else S(s.axis + 1) for s in nd)


def _summed(nd: NdSbp) -> NdSbp:
    """A layout with repeated tensors in place of partial ones."""
    return tuple(B if s.is_partial else s for s in nd)


def _without_maxima(nd: NdSbp) -> NdSbp:
    return tuple(B if s == M else s for s in nd)
