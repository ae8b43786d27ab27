"""SBP signatures of operators that run bodies: loops and branches.

The arguments of a body have the layouts of the operands. The layouts of loop-carried states are a fixed point: where
a body returns a state in another layout than the layout of its argument, the argument gets that layout; a state whose
layout does not converge is replicated. A loop-invariant operand gets the layout in which the body uses it, so that
the operand is moved once, before the loop.
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
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpGraphBuilder, SbpNode, operations_in, width_of
from oneflow.passes.sbp.submeshes import WHOLE, write_placement
from oneflow.passes.structure import Function, Structure, qualified_symbol

Solve = Callable[[Function], tuple[SbpGraph, Assignment]]
Write = Callable[[Function, SbpGraph, Assignment], None]
#: The most signatures of one operator, each for other layouts of operands.
MAX_SIGNATURES = 3


@dataclass(frozen=True)
class BodyOperator:
    """How an operator runs its bodies.

    Attributes:
        call: the operator on descriptions.
        symbols: the functions that are bodies, by attribute, in the order in which they run.
        leading: how many operands are no arguments of the bodies: the predicate of a branch.
        states, sequences: how many of the other operands are states, and how many after these are sequences.
        whole: the layout of replicated tensors.
    """

    call: Call
    symbols: Mapping[str, str]
    leading: int
    states: int
    sequences: int
    whole: NdSbp

    @classmethod
    def of(cls, node: SbpNode, registry: Registry, whole: NdSbp) -> BodyOperator:
        """How the operator of a node runs its bodies."""
        descs = iter([t.desc for t in node.inputs])
        record = dialect.record_of(node.op, registry)
        call = dialect.operand_call(node.op, record, lambda value: next(descs))
        names = dialect.named_functions(node.op)
        symbols = {a.name: names[a.name] for a in record.signature.attrs if a.name in names}
        leading = len(call.operands) - len(call.xs)
        return cls(call, symbols, leading, call.attrs.get("states", 0), call.attrs.get("sequences", 0), whole)

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
        """The layouts of a body's arguments where the operands have these layouts."""
        nds, last = operands[self.leading :], self.states + self.sequences
        return [*nds[: self.states], *map(_element_layout, nds[self.states : last]), *nds[last:]]

    def operands(self, arguments: Sequence[NdSbp]) -> tuple[NdSbp, ...]:
        """The layouts of the operands where the arguments of a body have these layouts."""
        last = self.states + self.sequences
        sequences = map(_sequence_layout, arguments[self.states : last])
        return (*[self.whole] * self.leading, *arguments[: self.states], *sequences, *arguments[last:])

    def results(self, arguments: Sequence[NdSbp], body_results: Sequence[NdSbp]) -> tuple[NdSbp, ...]:
        """The layouts of the operator's results where the results of the last body have these layouts."""
        if self.form != "steps":
            return tuple(arguments[: self.states] if self.form == "while" else body_results)
        states = arguments[: self.states]
        return (*states, *map(_sequence_layout, body_results[self.states :]), *map(_sequence_layout, states))

    def required_results(self, name: str, arguments: Sequence[NdSbp]) -> tuple[NdSbp, ...]:
        """The layouts that the operator requires of the first results of the body `name`."""
        if name != list(self.symbols)[-1] and self.form == "while":
            return (self.whole,)
        return tuple(arguments[: self.states])

    def body_results(self, name: str, signature: NdSignature) -> tuple[NdSbp, ...]:
        """The layouts of the results of the body `name` under a signature of the operator."""
        if self.form != "steps":
            return self.required_results(name, signature.outputs) if self.form == "while" else signature.outputs
        states, count = self.states, len(self.call.attrs[name].outputs)
        return (*signature.outputs[:states], *map(_element_layout, signature.outputs[states:count]))


@dataclass(frozen=True)
class BodySignature:
    """A signature of an operator with bodies, with sums over all steps.

    Attributes:
        signature: the layouts of the operands and results of the operator.
        multiply_adds: multiply-adds.
        transfer_time: microseconds of transfers.
        cost: microseconds of transfers and computation.
    """

    signature: NdSignature
    multiply_adds: int
    transfer_time: float
    cost: float


@dataclass(frozen=True)
class BodyLayouts:
    """The result of layout inference of a body for arguments in some layouts.

    Attributes:
        results: the layouts of the results.
        partial_addends: for each result the layout of an operand of its producer that has partial sums, if there is
            one.
        required: for each argument the layouts that its users require.
        multiply_adds: multiply-adds.
        transfer_time: microseconds of transfers.
        cost: microseconds of transfers and computation.
    """

    results: list[NdSbp]
    partial_addends: list[NdSbp | None]
    required: list[set[NdSbp]]
    multiply_adds: int
    transfer_time: float
    cost: float


class Bodies:
    """Finds signatures of operators with bodies on one placement, and infers the bodies of the chosen signatures.

    `solve` infers a function whose arguments are annotated, and `write` annotates the function with the assignment.
    """

    def __init__(
        self, structure: Structure, graph_builder: SbpGraphBuilder, costs: Costs, solve: Solve, write: Write
    ) -> None:
        self.structure, self.graph_builder, self.costs = structure, graph_builder, costs
        self.solve, self.write = solve, write
        self._whole = broadcast(graph_builder.mesh)
        self._known: dict[Any, BodySignature] = {}
        self._written: dict[Any, str] = {}

    def add_signature(self, graph: SbpGraph, assignment: Assignment, replaces: bool) -> bool:
        """Gives the first operator whose operands have new layouts a signature for these; whether there is such an
        operator.

        With `replaces` the operator has no other signature.
        """
        for node in _with_bodies(graph):
            stated, candidates = notes.read_operation(node.op, notes.IN), node.candidates
            layouts = tuple(stated or (_layout_of(t, assignment) for t in node.inputs))
            if layouts not in candidates.by_operand_layouts and len(candidates.by_operand_layouts) < MAX_SIGNATURES:
                found = self._find(node, layouts, stated is not None)
                rest = [] if replaces or stated else candidates.signatures
                candidates.signatures[:] = list(dict.fromkeys([found.signature, *rest]))
                candidates.by_operand_layouts[layouts] = found.signature
                candidates.transfer_time[found.signature] = found.transfer_time
                candidates.multiply_adds = found.multiply_adds
                return True
        return False

    def _find(self, node: SbpNode, layouts: tuple[NdSbp, ...], stated: bool) -> BodySignature:
        """The signature of an operator for operands in these layouts."""
        key = (node.op.name, *(t.desc for t in node.inputs), *node.op.attributes.items(), layouts)
        if key not in self._known:
            operator = BodyOperator.of(node, self.graph_builder.registry, self._whole)
            self._known[key] = self._cheapest(node, operator, layouts, stated)
        return self._known[key]

    def _cheapest(
        self, node: SbpNode, operator: BodyOperator, layouts: Sequence[NdSbp], stated: bool
    ) -> BodySignature:
        """The cheapest fixed point from the layouts of operands; layouts that the program states do not change.

        A replicated initial state, such as zeros, may be split as another argument is, or have the layout of the
        partial sums that the steps add to it: neither moves data.
        """
        arguments = operator.arguments(layouts if stated else list(map(_without_partial, layouts)))
        first, outcomes = self._fixed_point(node, operator, arguments, stated)
        found, seeds = [first], dict.fromkeys(arguments[: operator.states + operator.sequences])
        addends = outcomes[-1].partial_addends[: operator.states]
        starts = [[nd] * operator.states for nd in seeds if nd != self._whole] + [addends] * any(addends)
        for start in starts if not stated else ():
            found.append(
                self._fixed_point(node, operator, self._start_arguments(operator, arguments, start), False)[0]
            )

        def cost(one: BodySignature) -> float:
            sides = zip(node.inputs, layouts, one.signature.inputs, strict=True)
            return one.cost + sum(self.costs.transfer(*move) for move in sides if move[1] != move[2])

        return min(found, key=cost)

    def _start_arguments(
        self, operator: BodyOperator, arguments: Sequence[NdSbp], start: Sequence[NdSbp | None]
    ) -> list[NdSbp]:
        """The layouts of arguments, with the layouts `start` for the replicated states that can have these."""

        def begin(desc: TensorDesc, old: NdSbp, nd: NdSbp | None) -> NdSbp:
            mesh = self.graph_builder.mesh
            free = nd is not None and old == self._whole and problem(nd, desc, mesh) is None
            return nd if nd is not None and free and can_split(desc.static_shape, nd, mesh) else old

        states = zip(operator.call.xs, arguments, start, strict=False)
        return [*(begin(*state) for state in states), *arguments[operator.states :]]

    def _fixed_point(
        self, node: SbpNode, operator: BodyOperator, start: Sequence[NdSbp], stated: bool
    ) -> tuple[BodySignature, Sequence[BodyLayouts]]:
        """The fixed point from arguments in these layouts, and the layouts of the bodies there."""
        arguments = list(start)
        updates = Counter(dict.fromkeys(range(len(arguments)), 2) if stated else {})
        outcomes = [self._infer_body(node, operator, n, arguments) for n in operator.symbols]
        while operator.form != "branch" and self._update_layouts(operator.states, arguments, outcomes, updates):
            outcomes = [self._infer_body(node, operator, n, arguments) for n in operator.symbols]
        results = outcomes[-1].results
        if operator.form == "branch":
            descs = operator.call.attrs[next(iter(operator.symbols))].outputs
            results = [self._cheaper_target(*row) for row in zip(descs, *(o.results for o in outcomes), strict=True)]
        signature = NdSignature(operator.operands(arguments), operator.results(arguments, results))
        sums = (sum(getattr(o, name) for o in outcomes) for name in ("multiply_adds", "transfer_time", "cost"))
        return BodySignature(signature, *(operator.steps * n for n in sums)), outcomes

    def _update_layouts(
        self, states: int, arguments: list[NdSbp], outcomes: Sequence[BodyLayouts], updates: Counter[int]
    ) -> bool:
        """Changes the layouts of arguments that every step of a loop would move; whether there were any.

        A state first gets the layout of the body's result; if that does not converge, the state is replicated.
        """
        targets = dict(enumerate(outcomes[-1].results[:states]))
        for i in range(states, len(arguments)):
            required = set().union(*(o.required[i] for o in outcomes))
            if len(required) == 1:
                targets[i] = _without_partial(required.pop())
        moving = [i for i, nd in targets.items() if nd != arguments[i] and updates[i] < (2 if i < states else 1)]
        for i in moving:
            arguments[i] = self._whole if updates[i] else targets[i]
        updates.update(moving)
        return bool(moving)

    def _cheaper_target(self, desc: TensorDesc, one: NdSbp, other: NdSbp) -> NdSbp:
        """The layout of the two to which boxing from the other layout moves fewer bytes."""
        shape, width = desc.static_shape, width_of(desc)
        to_other, to_one = (self.costs.boxing.cost(*pair, shape, width) for pair in ((one, other), (other, one)))
        return other if to_other < to_one else one

    def _infer_body(
        self, node: SbpNode, operator: BodyOperator, name: str, arguments: Sequence[NdSbp]
    ) -> BodyLayouts:
        """Infers a body for arguments in these layouts."""
        function = self._copy(node, operator.symbols[name], arguments)
        try:
            graph, assignment = self.solve(function)
            return self._outcome(function, graph, assignment, operator.required_results(name, arguments))
        finally:
            function.op.erase()

    def _outcome(
        self, function: Function, graph: SbpGraph, assignment: Assignment, required_results: Sequence[NdSbp]
    ) -> BodyLayouts:
        """The assigned layouts of a body whose first results must have the layouts `required_results`."""
        returned = [n for n in graph.nodes if n.role == "result"]
        results = [_without_maxima(_layout_of(n.inputs[0], assignment)) for n in returned]
        uses = [graph.tensors[a].uses for a in function.arguments]
        required = [{assignment[n].inputs[i] for n, i in u if n.role != "result"} for u in uses]
        layouts = [*required_results, *results[len(required_results) :]]
        assignment = {**assignment, **{n: NdSignature((nd,), ()) for n, nd in zip(returned, layouts, strict=True)}}
        transfer_time = sum(self.costs.transfer(*move) for move in moves(graph, assignment))
        transfer_time += sum(n.candidates.transfer_time.get(assignment[n], 0.0) for n in graph.nodes)
        multiply_adds = sum(n.candidates.multiply_adds for n in graph.nodes)
        cost = self.costs.total(graph, assignment)
        addends = [_partial_addend(n.inputs[0], assignment) for n in returned]
        return BodyLayouts(results, addends, required, multiply_adds, transfer_time, cost)

    def write_bodies(self, graph: SbpGraph, assignment: Assignment) -> None:
        """Infers the bodies of a function's operators for the assigned signatures; the operators then name copies of
        the bodies.
        """
        for node in _with_bodies(graph):
            operator = BodyOperator.of(node, self.graph_builder.registry, self._whole)
            arguments = operator.arguments(assignment[node].inputs)
            for name, symbol in operator.symbols.items():
                copy = self._write_body(node, symbol, arguments, operator.body_results(name, assignment[node]))
                node.op.attributes[name] = ir.FlatSymbolRefAttr.get(copy, node.op.context)

    def _write_body(self, node: SbpNode, symbol: str, arguments: Sequence[NdSbp], results: Sequence[NdSbp]) -> str:
        """The name of the copy of a body whose arguments and results have these layouts."""
        key = (qualified_symbol(node.op, symbol), tuple(arguments), tuple(results))
        if key not in self._written:
            function = self._copy(node, symbol, arguments)
            self._annotate(function, notes.RESULTS, len(function.results), results)
            self.write(function, *self.solve(function))
            self._written[key] = str(function.op.attributes["sym_name"].value)
        return self._written[key]

    def _copy(self, node: SbpNode, symbol: str, arguments: Sequence[NdSbp]) -> Function:
        """A copy of a body in the same module, on this placement, with arguments in these layouts."""
        original = self.structure.functions[qualified_symbol(node.op, symbol)].op
        taken = {o.attributes["sym_name"].value for o in original.block.operations if "sym_name" in o.attributes}
        name = next(n for i in itertools.count() if (n := f"{symbol}_{i}") not in taken)
        op = original.clone(ip=ir.InsertionPoint(original))
        op.attributes["sym_name"] = ir.StringAttr.get(name, op.context)
        (function,) = Structure.of(op).functions.values()
        self._annotate(function, notes.ARGUMENTS, len(function.inputs), arguments)
        if self.graph_builder.placement != WHOLE:
            for inner in operations_in(function):
                if not len(inner.operands):
                    write_placement(inner, self.graph_builder.placement)
        return function

    def _annotate(self, function: Function, side: str, count: int, layouts: Sequence[NdSbp]) -> None:
        name = self.graph_builder.placement
        placement = {} if name == WHOLE else {notes.PLACEMENT: ir.StringAttr.get(name)}
        attributes = [{notes.ND_SBP: write_nd_sbp(nd), **placement} for nd in layouts]
        notes.annotate_values(function.op, side, count, attributes.__getitem__)


def _with_bodies(graph: SbpGraph) -> list[SbpNode]:
    return [n for n in graph.nodes if n.role == "operator" and dialect.named_functions(n.op)]


def _layout_of(tensor: LogicalTensor, assignment: Assignment) -> NdSbp:
    return assignment[tensor.producer].outputs[tensor.result_index]


def _partial_addend(tensor: LogicalTensor, assignment: Assignment) -> NdSbp | None:
    """The layout of an operand with partial sums of the producer of a tensor; None if no operand has partial sums."""
    operands = (_layout_of(t, assignment) for t in tensor.producer.inputs)
    return next((nd for nd in operands if P in nd and M not in nd), None)


def _element_layout(nd: NdSbp) -> NdSbp:
    """The layout of the elements of a sequence; a split of the sequence along its first axis leaves replicated
    elements.
    """
    return tuple(s if s.axis is None else S(s.axis - 1) if s.axis else B for s in nd)


def _sequence_layout(nd: NdSbp) -> NdSbp:
    """The layout of a sequence whose elements have this layout."""
    return tuple(s if s.axis is None else S(s.axis + 1) for s in nd)


def _without_partial(nd: NdSbp) -> NdSbp:
    """A layout with broadcast in place of partial sums and partial maxima."""
    return tuple(B if s.is_partial else s for s in nd)


def _without_maxima(nd: NdSbp) -> NdSbp:
    return tuple(B if s == M else s for s in nd)
