"""The cost of a layout assignment, a signature for each node: computation, communication (resharding) and memory."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from oneflow.dialect.nd_sbp import Mesh, NdSbp, NdSignature, devices
from oneflow.passes.sbp.boxing import SEND_RECV, WAITS, Boxing
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpNode
from oneflow.passes.sbp.interconnects import ETHERNET, SERVER_COMPUTE
from oneflow.passes.sbp.placement_transfer import PlacementTransfer

Assignment = Mapping[SbpNode, NdSignature]


def moves(graph: SbpGraph, assignment: Assignment) -> Iterator[tuple[LogicalTensor, NdSbp, NdSbp]]:
    """The transfers of an assignment (tensor, source, target): one for all uses of a tensor in one layout."""
    for tensor in dict.fromkeys(graph.tensors.values()):
        source = assignment[tensor.producer].outputs[tensor.result_index]
        for target in dict.fromkeys(assignment[n].inputs[i] for n, i in tensor.uses):
            if target != source:
                yield tensor, source, target


@dataclass(frozen=True)
class Machine:
    """A device and its links.

    `bandwidth` is in GB/s received, `latency` in microseconds for each collective, `compute` in giga multiply-adds
    per second, `memory` in gigabytes (0: no limit).
    """

    bandwidth: float = ETHERNET.bandwidth
    latency: float = ETHERNET.latency
    compute: float = SERVER_COMPUTE
    memory: float = 0.0


class OutOfTime(Exception):
    """The cost of a transfer is not known yet, and the time limit for computing costs is exceeded."""


@dataclass
class Costs:
    """Costs in microseconds on `machine`; `boxing` finds transfers until the process has used `until` seconds of CPU
    time.
    """

    mesh: Mesh
    machine: Machine
    boxing: Boxing
    until: float = math.inf
    _transfers: dict[tuple[NdSbp, NdSbp, tuple[int, ...], int], float] = field(default_factory=dict)
    _placement_transfers: dict[tuple[PlacementTransfer, tuple[int, ...], NdSbp], int] = field(default_factory=dict)

    def transfer(self, tensor: LogicalTensor, source: NdSbp, target: NdSbp) -> float:
        """The time of a tensor's transfer from one layout to another, in microseconds.

        Raises:
            OutOfTime: the transfer is not known, and the time is over.
        """
        key = (source, target, tensor.shape, tensor.width)
        if key not in self._transfers:
            if time.process_time() > self.until:
                raise OutOfTime
            steps = self.boxing.path(*key)
            moved = sum(s.bytes for s in steps) / devices(self.mesh)
            waits = sum(WAITS.get(s.kind, 1) for s in steps)
            self._transfers[key] = waits * self.machine.latency + moved / (self.machine.bandwidth * 1e3)
        return self._transfers[key]

    def compute_time(self, node: SbpNode, signature: NdSignature) -> float:
        """The microseconds in which one device computes its share of a node."""
        axes = range(len(self.mesh))
        layouts = (*signature.inputs, *signature.outputs)
        parts = math.prod(self.mesh[k] for k in axes if any(nd[k].kind == "S" for nd in layouts))
        return node.candidates.multiply_adds / parts / (self.machine.compute * 1e3)

    def bytes_sent(self, node: SbpNode, signature: NdSignature) -> int:
        """The bytes that a node sends to another placement, summed over the receiving ranks."""
        if node.placement_transfer is None:
            return 0
        (tensor,), (layout,) = node.inputs, signature.inputs
        key = (node.placement_transfer, tensor.shape, layout)
        if key not in self._placement_transfers:
            self._placement_transfers[key] = node.placement_transfer.elements(tensor.shape, layout)
        return self._placement_transfers[key] * max(tensor.width, 1)

    def send_time(self, node: SbpNode, signature: NdSignature) -> float:
        """The time in microseconds of the transfers that `bytes_sent` counts."""
        moved = self.bytes_sent(node, signature)
        if node.placement_transfer is None or not moved:
            return 0.0
        received = moved / len(node.placement_transfer.target.members)
        return WAITS[SEND_RECV] * self.machine.latency + received / (self.machine.bandwidth * 1e3)

    def node_cost(self, node: SbpNode, signature: NdSignature) -> float:
        """The cost of a node without the transfers of its operands, in microseconds."""
        inside = node.candidates.transfer_time.get(signature, 0.0)
        return self.compute_time(node, signature) + self.send_time(node, signature) + inside

    def bytes_stored(self, node: SbpNode, signature: NdSignature) -> float:
        """The bytes of a node's results on one device."""
        pairs = zip(node.outputs, signature.outputs, strict=True)
        return sum(self._bytes_per_device(t, nd) for t, nd in pairs)

    def _bytes_per_device(self, tensor: LogicalTensor, nd: NdSbp) -> float:
        parts = math.prod(p for p, s in zip(self.mesh, nd, strict=True) if s.kind == "S")
        return tensor.bytes / parts

    def total(self, graph: SbpGraph, assignment: Assignment) -> float:
        """The cost of a graph, in microseconds."""
        moving = sum(self.transfer(*move) for move in moves(graph, assignment))
        return sum(self.node_cost(n, assignment[n]) for n in graph.nodes) + moving

    def bytes_moved(self, graph: SbpGraph, assignment: Assignment) -> int:
        """The bytes that all ranks together receive."""
        between = sum(self.bytes_sent(n, assignment[n]) for n in graph.nodes)
        return between + sum(self.boxing.cost(s, t, x.shape, x.width) for x, s, t in moves(graph, assignment))

    def memory(self, graph: SbpGraph, assignment: Assignment) -> float:
        """The bytes of all tensors on one device."""
        return sum(self.bytes_stored(n, assignment[n]) for n in graph.nodes)

    def fits(self, graph: SbpGraph, assignment: Assignment) -> bool:
        """Whether the tensors fit in a device's memory."""
        return not self.machine.memory or self.memory(graph, assignment) <= self.machine.memory * 1e9
