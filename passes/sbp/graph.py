"""The SBP graph of a function: nodes that produce and use logical tensors, with candidate signatures.

Arguments and returned values are nodes too. A `tensor.cast` to a less specific type is the tensor of its operand.
Constants and control flow have replicated tensors. A call of an annotated function has the layouts of that function,
other calls have replicated tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, NdSbp, NdSignature, broadcast, devices
from oneflow.dialect.record import Call, OperatorError, Registry
from oneflow.dialect.tensor_desc import TensorDesc, count, from_mlir
from oneflow.passes.base import PassError
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.candidates import nd_signatures, value_layouts
from oneflow.passes.sbp.placement_transfer import PlacementTransfer
from oneflow.passes.sbp.submeshes import WHOLE, Submeshes, crosses, placement_of, placements_of
from oneflow.passes.structure import Function, qualified_callee
from oneflow.passes.walk import gather

EMPTY: Mapping[str, Any] = {}


@dataclass(eq=False)
class LogicalTensor:
    """A value of the logical program: result `result_index` of its producer, with the nodes and operand indices of
    its uses.
    """

    value: ir.Value
    desc: TensorDesc
    producer: SbpNode
    result_index: int
    uses: list[tuple[SbpNode, int]] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, which is static."""
        return self.desc.static_shape

    @property
    def width(self) -> int:
        """The bytes of an element, 0 for bool, as boxing counts them."""
        return width_of(self.desc)

    @property
    def bytes(self) -> int:
        """The bytes of the whole tensor."""
        return (count(self.shape) or 0) * max(self.width, 1)


def width_of(desc: TensorDesc) -> int:
    """The bytes of an element; 0 for bool, which cannot be summed."""
    return 0 if desc.dtype.kind == "bool" else desc.dtype.bits // 8


@dataclass(eq=False)
class NodeCandidates:
    """The candidate signatures of a node, and the multiply-adds of the logical call; equal calls share one record.

    An operator with bodies has a record of its own: `by_operand_layouts` are the signatures that were found for
    operands in some layouts, and `transfer_time` the microseconds of transfers in the bodies under each signature.
    """

    signatures: list[NdSignature]
    multiply_adds: int = 0
    by_operand_layouts: dict[tuple[NdSbp, ...], NdSignature] = field(default_factory=dict)
    transfer_time: dict[NdSignature, float] = field(default_factory=dict)


@dataclass(eq=False)
class SbpNode:
    """An operator, an argument (`role` "argument"), a returned value ("result"), or other code ("fixed").

    A tensor that moves to another placement has a node with the role "sent" in the graph of its source, which has the
    `placement_transfer`, and one with the role "received" in the graph of the target.
    """

    op: ir.Operation
    role: str
    inputs: list[LogicalTensor]
    candidates: NodeCandidates
    outputs: list[LogicalTensor] = field(default_factory=list)
    constrained: bool = False
    placement_transfer: PlacementTransfer | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.op.name if self.role in ("operator", "fixed") else self.role

    def __str__(self) -> str:
        types = (", ".join(str(t.desc) for t in side) for side in (self.inputs, self.outputs))
        return f"{self.name} ({') -> ('.join(types)})"


@dataclass
class SbpGraph:
    """The nodes of a function in program order, and its tensors by value (OneFlow's `SbpGraph`)."""

    nodes: list[SbpNode] = field(default_factory=list)
    tensors: dict[ir.Value, LogicalTensor] = field(default_factory=dict)

    def tensor(self, op: ir.Operation, index: int) -> LogicalTensor:
        """The tensor of an operand.

        Raises:
            PassError: the operand is defined later in the text, in another block.
        """
        tensor = self.tensors.get(op.operands[index])
        if tensor is None:
            raise PassError(f"{op.name}: expected operand {index} to be defined above", op.location)
        return tensor

    def add(self, node: SbpNode, values: Sequence[ir.Value] = (), descs: Sequence[TensorDesc] = ()) -> None:
        """Appends a node that produces `values`."""
        self.nodes.append(node)
        for index, tensor in enumerate(node.inputs):
            tensor.uses.append((node, index))
        for index, (value, desc) in enumerate(zip(values, descs, strict=True)):
            self.tensors[value] = LogicalTensor(value, desc, node, index)
            node.outputs.append(self.tensors[value])


def static_desc(value: ir.Value) -> TensorDesc | None:
    """The description of a tensor; None for a value that is no tensor of OneFlow's.

    Raises:
        PassError: its shape is not static.
    """
    if from_mlir(value.type) is None:
        return None
    desc = dialect.desc_of(value)
    if desc.is_static:
        return desc
    owner = value.owner
    return notes.expect_static(desc, owner.owner if isinstance(owner, ir.Block) else owner)


class SbpGraphBuilder:
    """Builds the graphs of functions; equal calls get the same `NodeCandidates`.

    A program with several placements, `submeshes`, has one graph for each; the builder builds the graphs of
    `placement`.
    """

    def __init__(
        self,
        mesh: Mesh,
        registry: Registry,
        functions: Mapping[str, ir.Operation] = EMPTY,
        submeshes: Submeshes = EMPTY,
        placement: str = WHOLE,
    ) -> None:
        self.mesh, self.registry, self.functions = mesh, registry, functions
        self.submeshes, self.placement = submeshes, placement
        self._operator_candidates: dict[Any, tuple[Call, NodeCandidates]] = {}
        self._layout_candidates: dict[Any, NodeCandidates] = {}
        self._broadcast = broadcast(mesh)

    def build(self, function: Function) -> SbpGraph:
        """The graph of a function.

        Raises:
            PassError: a shape is not static, or an annotation is not allowed.
        """
        graph = SbpGraph()
        if function.is_declaration:
            return graph
        self._add_arguments(graph, function)
        self._add_block_arguments(graph, function.op, 1)
        for op in operations_in(function):
            self._visit(graph, function, op)
        return graph

    def _add_arguments(self, graph: SbpGraph, function: Function) -> None:
        annotated = notes.read_values(function.op, notes.ARGUMENTS, len(function.inputs))
        placements = placements_of(function.op, notes.ARGUMENTS, len(function.inputs))
        for index, (value, nd) in enumerate(zip(function.arguments, annotated, strict=True)):
            desc = static_desc(value)
            if desc is not None and placements[index] == self.placement:
                self._check(nd, desc, f"argument {index}", function.op)
                candidates = self._value_candidates(desc, nd, True)
                graph.add(
                    SbpNode(function.op, "argument", [], candidates, constrained=nd is not None), [value], [desc]
                )

    def _check(self, nd: NdSbp | None, desc: TensorDesc, what: str, op: ir.Operation) -> None:
        if nd is not None:
            notes.expect_layout(nd, desc, self.mesh, what, op.location)

    def _value_candidates(self, desc: TensorDesc, nd: NdSbp | None, produced: bool) -> NodeCandidates:
        """Candidates of a node with one tensor: its result if `produced`, else its operand."""
        key = (desc, nd, produced)
        if key not in self._layout_candidates:
            layouts = value_layouts(desc, self.mesh) if nd is None else [nd]
            signatures = [NdSignature((), (o,)) if produced else NdSignature((o,), ()) for o in layouts]
            self._layout_candidates[key] = NodeCandidates(signatures)
        return self._layout_candidates[key]

    def _visit(self, graph: SbpGraph, function: Function, op: ir.Operation) -> None:
        name = op.name
        if name == "func.return":
            self._visit_return(graph, function, op)
        elif crosses(op):
            self._visit_placement_transfer(graph, op)
        elif placement_of(op) != self.placement:
            return
        elif name == notes.PARALLEL_CAST:
            self._visit_parallel_cast(graph, op)
        elif name.startswith(dialect.PREFIX):
            self._visit_operator(graph, op)
        elif name == dialect.CAST and self._is_relaxing_cast(graph, op):
            graph.tensors[op.results[0]] = graph.tensors[op.operands[0]]
        else:
            self._visit_other(graph, op)

    @staticmethod
    def _is_relaxing_cast(graph: SbpGraph, op: ir.Operation) -> bool:
        """Whether a cast is to a less specific type than its operand's."""
        source, result = op.operands[0], from_mlir(op.results[0].type)
        return source in graph.tensors and result is not None and graph.tensors[source].desc.refines(result)

    def _visit_placement_transfer(self, graph: SbpGraph, op: ir.Operation) -> None:
        """A cast to another placement: a sink of the graph of the source placement, and a source of the graph of the
        target placement.
        """
        tensor, target = graph.tensors.get(op.operands[0]), self.submeshes[placement_of(op)]
        desc, nd = static_desc(op.results[0]), cast_layout(op, self.registry)
        assert desc is not None
        notes.expect_layout(nd, desc, target.mesh, op.name, op.location)
        if tensor is not None:
            candidates = self._value_candidates(tensor.desc, None, False)
            graph.add(
                SbpNode(
                    op,
                    "sent",
                    [tensor],
                    candidates,
                    placement_transfer=PlacementTransfer(self.submeshes[self.placement], target, nd),
                )
            )
        if placement_of(op) == self.placement:
            candidates = self._value_candidates(desc, nd, True)
            graph.add(SbpNode(op, "received", [], candidates, constrained=True), [op.results[0]], [desc])

    def _visit_parallel_cast(self, graph: SbpGraph, op: ir.Operation) -> None:
        tensor, nd = graph.tensor(op, 0), cast_layout(op, self.registry)
        self._check(nd, tensor.desc, op.name, op)
        node = SbpNode(op, "operator", [tensor], NodeCandidates([NdSignature((nd,), (nd,))]), constrained=True)
        graph.add(node, [op.results[0]], [tensor.desc])

    def _visit_operator(self, graph: SbpGraph, op: ir.Operation) -> None:
        inputs = [graph.tensor(op, i) for i in range(len(op.operands))]
        key = (op.name, tuple(t.desc for t in inputs), tuple(op.attributes.items()) if len(op.attributes) else ())
        if key not in self._operator_candidates:
            self._operator_candidates[key] = self._candidates(op, inputs)
        call, candidates = self._operator_candidates[key]
        if dialect.named_functions(op):
            candidates = NodeCandidates(list(candidates.signatures), candidates.multiply_adds)
        constrained = notes.IN in op.attributes or notes.OUT in op.attributes
        graph.add(
            SbpNode(op, "operator", inputs, candidates, constrained=constrained), list(op.results), call.results
        )

    def _candidates(self, op: ir.Operation, inputs: Sequence[LogicalTensor]) -> tuple[Call, NodeCandidates]:
        record = dialect.record_of(op, self.registry)
        if "one-process" in record.traits and devices(self.mesh) > 1:
            raise PassError(
                f"{op.name}: expected a program of one rank, got one of the mesh {self.mesh}", op.location
            )
        descs = iter([t.desc for t in inputs])
        try:
            call = dialect.operand_call(op, record, lambda value: next(descs))
            call = dialect.bind_results(op, call, [static_desc(v) for v in op.results])
            signatures, multiply_adds = nd_signatures(call, self.mesh), count_multiply_adds(call)
        except OperatorError as error:
            raise PassError(dialect.message_of(op, error), op.location) from None
        return call, NodeCandidates(self._constrain(op, call, signatures), multiply_adds)

    @staticmethod
    def _constrain(op: ir.Operation, call: Call, signatures: list[NdSignature]) -> list[NdSignature]:
        """The signatures that agree with the annotations of this operation."""
        inputs, outputs = notes.read_operation(op, notes.IN), notes.read_operation(op, notes.OUT)
        if inputs is not None and dialect.named_functions(op):
            return signatures
        consistent = [s for s in signatures if _agrees(s.inputs, inputs) and _agrees(s.outputs, outputs)]
        if consistent:
            return consistent
        wanted = " -> ".join("?" if s is None else ", ".join(map(_format, s)) for s in (inputs, outputs))
        types = (", ".join(str(d) for d in side) for side in (call.operands, call.results))
        allowed = "; ".join(map(str, signatures))
        raise PassError(
            f"{op.name}: the signature {wanted} is not allowed for ({') -> ('.join(types)}); allowed are: {allowed}",
            op.location,
        )

    def _visit_return(self, graph: SbpGraph, function: Function, op: ir.Operation) -> None:
        annotated = notes.read_values(function.op, notes.RESULTS, len(function.results))
        several = len(function.returns) > 1
        for kind in function.results:
            notes.expect_static(from_mlir(kind), function.op)
        for index, (value, stated) in enumerate(zip(op.operands, annotated, strict=True)):
            tensor = graph.tensors.get(value)
            nd = self._broadcast if stated is None and several else stated
            if tensor is not None:
                self._check(nd, tensor.desc, f"result {index}", op)
                candidates = self._value_candidates(tensor.desc, nd, False)
                graph.add(SbpNode(op, "result", [tensor], candidates, constrained=nd is not None))

    def _visit_other(self, graph: SbpGraph, op: ir.Operation) -> None:
        inputs = [graph.tensors[v] for v in op.operands if v in graph.tensors]
        outputs = [(v, d) for v in op.results if (d := static_desc(v)) is not None]
        layouts = self._call_layouts(op) if op.name == "func.call" else None
        if layouts is None:
            layouts = NdSignature((self._broadcast,) * len(inputs), (self._broadcast,) * len(outputs))
        if inputs or outputs:
            node = SbpNode(op, "fixed", inputs, NodeCandidates([layouts]), constrained=True)
            graph.add(node, [v for v, _ in outputs], [d for _, d in outputs])
        self._add_block_arguments(graph, op)

    def _add_block_arguments(self, graph: SbpGraph, op: ir.Operation, skipped: int = 0) -> None:
        """Block arguments of an operation are replicated."""
        for value in block_arguments(op, skipped):
            desc = static_desc(value)
            if desc is not None:
                replicated = NodeCandidates([NdSignature((), (self._broadcast,))])
                graph.add(SbpNode(op, "fixed", [], replicated, constrained=True), [value], [desc])

    def _call_layouts(self, op: ir.Operation) -> NdSignature | None:
        """The layouts of a call's operands and results: the layouts of the annotated callee."""
        callee = self.functions.get(qualified_callee(op))
        if callee is None:
            return None
        sides = ((notes.ARGUMENTS, op.operands), (notes.RESULTS, op.results))
        known = [notes.read_values(callee, name, len(values)) for name, values in sides]
        ins, outs = (tuple(nd for nd in side if nd is not None) for side in known)
        tensors = [sum(from_mlir(v.type) is not None for v in values) for _, values in sides]
        if tensors != [len(ins), len(outs)]:
            raise PassError(f"func.call: expected @{op.attributes['callee'].value} not to call itself", op.location)
        return NdSignature(ins, outs)


def cast_layout(op: ir.Operation, registry: Registry) -> NdSbp:
    """The result layout of a `hierarchical_parallel_cast`."""
    nd: NdSbp = dialect.read_attributes(op, dialect.record_of(op, registry))["nd_sbp"]
    return nd


def _agrees(layouts: Sequence[NdSbp], wanted: Sequence[NdSbp] | None) -> bool:
    return wanted is None or list(layouts) == list(wanted)


def _format(nd: NdSbp) -> str:
    return str(nd[0]) if len(nd) == 1 else f"[{', '.join(map(str, nd))}]"


def block_arguments(op: ir.Operation, skipped: int = 0) -> Iterator[ir.Value]:
    """The arguments of an operation's blocks, but for the first `skipped` blocks of each region."""
    for region in op.regions:
        for block in list(region.blocks)[skipped:]:
            yield from block.arguments


def operations_in(function: Function) -> list[ir.Operation]:
    """All operations of a function in program order, an operation before its regions."""
    return gather(function.op, order=ir.WalkOrder.PRE_ORDER)[1:]


def count_multiply_adds(call: Call) -> int:
    """An estimate of a call's multiply-adds, from its signatures: elements of the results times summed-over sizes.

    A dimension is summed over where splitting it leaves partial sums.
    """
    if call.record.complexity is not None:
        return int(call.record.complexity(call))
    sums = {}
    for signature in call.record.signatures(call):
        if all(s.is_partial for s in signature.outputs):
            split = [(i, s.axis) for i, s in enumerate(signature.inputs) if s.axis is not None]
            if split:
                operand, axis = split[0]
                sums[split[0]] = call.operands[operand].shape[axis]
    elements = max([count(d.shape) or 0 for d in (*call.operands, *call.results)], default=0)
    largest_result = max([count(d.shape) or 0 for d in call.results], default=0)
    for size in sums.values():
        largest_result *= size
    return max(elements, largest_result)
