"""Steps: the commands of a script prepared for the driver, run one by one or replayed as CUDA graphs.

`Steps` runs the commands one by one on a stream, or as CUDA graphs in which independent commands run concurrently.
Graphs are built node by node, not by stream capture; `graph.captured_node` captures external kernels alone.
External kernels that can be captured become nodes that cannot be updated: their memory has to stay. Other external
kernels split the script into several graphs. If all memory is where it was in an earlier run, a run is a launch of
the graphs of that run; otherwise the nodes that use moved memory are updated.
"""

from __future__ import annotations

import functools
import itertools
import operator
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.compiler import Binary
from oneflow.runtime.cuda.graph import CudaGraph, kernel_node_params
from oneflow.runtime.cuda.launches import LaunchBatch
from oneflow.runtime.cuda.script import (
    OFFSET_BITS,
    OFFSET_MASK,
    Command,
    Copy,
    External,
    Fill,
    Launch,
    Region,
    Script,
)
from oneflow.runtime.cuda.stream import ResultPool, Stream
from oneflow.runtime.cuda.tensor_maps import MapArgument

#: The `struct` formats that pack a float into the 8 bytes of a parameter.
FLOATS = {"fp32": "<fxxxx", "fp64": "<d"}
#: The most instances of the graphs of a script: results of a run often live until the next run has made new ones.
MAX_INSTANCES = 2


#: Enqueues the external kernel of an index, on device memory at addresses, on a stream.
ExternalCall = Callable[[int, Sequence[int], Any], None]
#: Indices in the list of addresses of a run: the index of the workspace, and the index of the first argument.
WORKSPACE, ARGUMENTS = 2, 3
#: The indices of single regions.
SINGLE_REGIONS = {"absolute": 0, "temporary": 0, "failure": 1, "workspace": WORKSPACE}


class Kernel:
    """A kernel loaded on the device, and the formats of its scalar parameters."""

    def __init__(self, source: Source, binary: Binary) -> None:
        self.function = driver.load(binary.cubin, binary.name, binary.warps, binary.shared)
        self.floats = {i: FLOATS[k] for i, (_, k) in enumerate(source.parameters) if k in FLOATS}
        self.maps = binary.maps

    def pack(self, index: int, value: Any) -> int:
        """The 8 bytes of scalar parameter `index`, as an integer."""
        packed = self.floats.get(index)
        return int(value) if packed is None else struct.unpack("<q", struct.pack(packed, value))[0]


class LaunchStep:
    """A kernel launch with its own parameter memory."""

    def __init__(self, command: Launch, kernel: Kernel) -> None:
        self.function, self.programs = kernel.function, command.programs
        self.maps = [MapArgument(about) for about in kernel.maps]
        map_addresses = [a for m in self.maps for a in m.argument_addresses]
        self.parameters = driver.Parameters(len(command.arguments), map_addresses)
        self.addresses = {i: command.arguments[i] for i in command.pointers}
        self.pointers = [
            (index, address >> OFFSET_BITS, address & OFFSET_MASK) for index, address in self.addresses.items()
        ]
        for index, value in enumerate(command.arguments):
            if index not in self.addresses:
                self.parameters.slots[index] = kernel.pack(index, value)

    def resolve(self, bases: Sequence[int]) -> None:
        """Resolves the addresses, given the base address of each region."""
        slots = self.parameters.slots
        for index, region, offset in self.pointers:
            slots[index] = bases[region] + offset
        for described in self.maps:
            described.encode(slots)

    def launch(self, stream: Any) -> None:
        """Enqueues the step on a stream."""
        LaunchBatch([self.batch_entry]).launch(stream)

    @property
    def batch_entry(self) -> tuple[driver.Function, int, int]:
        """The launch as an entry of a `LaunchBatch`."""
        return self.function, self.programs, self.parameters.address

    @functools.cached_property
    def node(self) -> Any:
        """The parameters of the graph node."""
        return kernel_node_params(self.function, self.programs, self.parameters.address)

    def add_node(self, graph: CudaGraph, after: Sequence[Any]) -> Any:
        """Adds the step to a graph as a node."""
        return graph.launch_node(self.node, after)

    def update_node(self, graph: CudaGraph, node: Any) -> None:
        """Updates the node to the resolved addresses."""
        graph.update_launch(node, self.node)


class CopyStep:
    """A copy on the device; `resolved` are the addresses of target and source."""

    def __init__(self, command: Copy) -> None:
        self.addresses, self.size = {0: command.target, 1: command.source}, command.size
        self.resolved = 0, 0

    def resolve(self, bases: Sequence[int]) -> None:
        """Resolves the addresses, given the base address of each region."""
        target, source = (bases[p >> OFFSET_BITS] + (p & OFFSET_MASK) for p in self.addresses.values())
        self.resolved = target, source

    def launch(self, stream: Any) -> None:
        """Enqueues the step on a stream."""
        driver.copy(*self.resolved, self.size, stream)

    def add_node(self, graph: CudaGraph, after: Sequence[Any]) -> Any:
        """Adds the step to a graph as a node."""
        return graph.copy_node(*self.resolved, self.size, after)

    def update_node(self, graph: CudaGraph, node: Any) -> None:
        """Updates the node to the resolved addresses."""
        graph.update_copy(node, *self.resolved, self.size)


class FillStep:
    """A fill; `resolved` is the address of the target."""

    def __init__(self, command: Fill) -> None:
        self.addresses, self.fill = {0: command.target}, (command.pattern, command.count, command.pitch)
        self.resolved = 0

    def resolve(self, bases: Sequence[int]) -> None:
        """Resolves the addresses, given the base address of each region."""
        self.resolved = bases[self.addresses[0] >> OFFSET_BITS] + (self.addresses[0] & OFFSET_MASK)

    def launch(self, stream: Any) -> None:
        """Enqueues the step on a stream."""
        driver.fill(self.resolved, *self.fill, stream)

    def add_node(self, graph: CudaGraph, after: Sequence[Any]) -> Any:
        """Adds the step to a graph as a node."""
        return graph.fill_node(self.resolved, *self.fill, after)

    def update_node(self, graph: CudaGraph, node: Any) -> None:
        """Updates the node to the resolved addresses."""
        graph.update_fill(node, self.resolved, *self.fill)


class ExternalStep:
    """An external kernel that `call` enqueues on a stream; `is_captured` says whether the kernel becomes a graph
    node.
    """

    def __init__(self, command: External, call: ExternalCall, is_captured: bool = False) -> None:
        self.command, self.is_captured = command, is_captured
        self.addresses, self.index, self.call = dict(enumerate(command.addresses)), command.index, call
        self.resolved: list[int] = []

    def add_node(self, graph: CudaGraph, after: Sequence[Any]) -> Any:
        """Adds the step to a graph as a node."""
        return graph.captured_node(lambda stream: self.call(self.index, self.resolved, stream), after)

    def resolve(self, bases: Sequence[int]) -> None:
        """Resolves the addresses, given the base address of each region."""
        self.resolved = [bases[p >> OFFSET_BITS] + (p & OFFSET_MASK) for p in self.addresses.values()]

    def launch(self, stream: Any) -> None:
        """Enqueues the step on a stream."""
        self.call(self.index, self.resolved, stream)


Step = LaunchStep | CopyStep | FillStep | ExternalStep


def make_step(
    command: Command, kernels: Mapping[str, Kernel], call: ExternalCall, captured: Collection[int] = ()
) -> Step:
    """The step of a command; `call` enqueues external kernels; the kernels in `captured` become graph nodes."""
    if isinstance(command, External):
        return ExternalStep(command, call, command.index in captured)
    if isinstance(command, Launch):
        return LaunchStep(command, kernels[command.kernel])
    return CopyStep(command) if isinstance(command, Copy) else FillStep(command)


@dataclass
class GraphInstance:
    """The graphs of a script for memory at `bases`.

    Attributes:
        bases: the base address of each region.
        addresses: all addresses of the run for which the instance was made or updated last.
        segments: in order, external kernels that are not captured, and a graph of all steps between two of them.
        nodes: for each step its segment, and its node if the segment is a graph.
    """

    context: Any
    bases: list[int]
    addresses: Sequence[int] = ()
    segments: list[CudaGraph | ExternalStep] = field(default_factory=list)
    nodes: list[tuple[CudaGraph | ExternalStep, Any]] = field(default_factory=list)

    def add(self, step: Step, after: Sequence[int]) -> None:
        """Adds the next step, which depends on the steps `after`. A segment runs after all segments before it."""
        if isinstance(step, ExternalStep) and not step.is_captured:
            segment = ExternalStep(step.command, step.call)
            segment.resolve(self.bases)
            self.segments.append(segment)
            self.nodes.append((segment, None))
            return
        step.resolve(self.bases)
        graph = self._graph()
        inside = [node for segment, node in (self.nodes[n] for n in after) if segment is graph]
        self.nodes.append((graph, step.add_node(graph, inside)))

    def _graph(self) -> CudaGraph:
        """The graph of the next step."""
        last = self.segments[-1] if self.segments else None
        if isinstance(last, CudaGraph):
            return last
        graph = CudaGraph(self.context)
        self.segments.append(graph)
        return graph

    def instantiate(self) -> None:
        """Makes the graphs executable."""
        for segment in self.segments:
            if isinstance(segment, CudaGraph):
                segment.instantiate()

    def update(self, index: int, step: Step) -> None:
        """Updates the node of a step to the memory at `bases`."""
        segment, node = self.nodes[index]
        if isinstance(segment, ExternalStep):
            segment.resolve(self.bases)
        elif not isinstance(step, ExternalStep):
            step.resolve(self.bases)
            step.update_node(segment, node)

    def launch(self, stream: Any) -> None:
        """Launches all segments on a stream."""
        for segment in self.segments:
            segment.launch(stream)


@dataclass
class Steps:
    """A script prepared for the driver. From the second run on, its commands are CUDA graphs.

    Attributes:
        kernels: the loaded kernels, by name.
        counts: the number of arguments and the number of results.
        call: enqueues an external kernel on a stream.
        min_graph_commands: the fewest commands of a graph.
        use_graphs: whether graphs are wanted; false also where the script is too short for graphs.
        captured_externals: the indices of the external kernels that are captured as graph nodes.
        collective_scope: the context in which graphs with captured external kernels are launched.
        disjoint_addresses: the addresses of the last arguments that were found not to overlap.
        donated_arguments: the indices of the arguments whose memory results take.
    """

    script: Script
    kernels: Mapping[str, Kernel]
    context: Any
    counts: tuple[int, int]
    call: ExternalCall
    min_graph_commands: int
    use_graphs: bool = True
    captured_externals: Collection[int] = ()
    collective_scope: Callable[[], AbstractContextManager[None]] = nullcontext
    disjoint_addresses: list[int] | None = None
    recent_bases: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = [make_step(c, self.kernels, self.call, self.captured_externals) for c in self.script.commands]
        self.captured_steps = {n for n, s in enumerate(self.steps) if isinstance(s, ExternalStep) and s.is_captured}
        uncaptured = sum(isinstance(s, ExternalStep) and not s.is_captured for s in self.steps)
        self.use_graphs &= len(self.steps) - uncaptured >= self.min_graph_commands
        self.donated_by_result = [r.argument for r in self.script.results]
        self.own_results = [(n, r.size, r.shape) for n, r in enumerate(self.script.results) if r.argument is None]
        self.donated_arguments = {n for n in self.donated_by_result if n is not None}
        self.region_order = [self._address_index(r) for r in self.script.regions]
        self.runs, self.instances = 0, list[GraphInstance]()
        self.current_bases: list[int] | None = None  # to which the steps are resolved
        self.result_pools, self.no_pools = list[ResultPool](), [None] * len(self.script.results)
        self.steps_of_region: list[list[int]] = [[] for _ in self.region_order]
        for index, step in enumerate(self.steps):
            for region in {p >> OFFSET_BITS for p in step.addresses.values()}:
                self.steps_of_region[region].append(index)

    def result_pools_on(self, stream: Stream) -> Sequence[ResultPool | None]:
        """The pool of each result on a stream; None for each before the first run with a graph."""
        if not self.use_graphs or not self.runs:
            return self.no_pools
        if not self.result_pools or self.result_pools[0].stream is not stream:
            self.result_pools = [ResultPool(stream, r.size) for r in self.script.results]
        return self.result_pools

    def _address_index(self, region: Region) -> int:
        """The index of the address of a region in the list that `run` takes."""
        first = {"argument": 0, "result": self.counts[0], "constant": sum(self.counts)}
        if region.kind in SINGLE_REGIONS:
            return SINGLE_REGIONS[region.kind]
        return ARGUMENTS + first[region.kind] + region.index

    def run(self, addresses: Sequence[int], stream: Any) -> None:
        """Enqueues the commands on a stream.

        `addresses` are 0, then the addresses of the failure words, the workspace, the arguments, the results, the
        constants.
        """
        for instance in self.instances:
            if instance.addresses == addresses:
                self._launch(instance, stream)
                return
        bases = [addresses[i] for i in self.region_order]
        self.runs += 1
        reused = self._instance_for(bases) if self.runs > 1 and self.use_graphs else None
        if reused is not None:
            reused.addresses = addresses
            self._launch(reused, stream)
            return
        self._run_one_by_one(bases, stream)

    def _run_one_by_one(self, bases: list[int], stream: Any) -> None:
        """Enqueues the commands one by one, without a graph."""
        if bases != self.current_bases:
            self._resolve(bases)
        for segment in self._batches:
            segment.launch(stream)

    def _resolve(self, bases: list[int]) -> None:
        """Resolves the steps that use a region whose base address has changed."""
        before, self.current_bases = self.current_bases, None
        indices = range(len(self.steps)) if before is None else self._steps_at_moved_regions(before, bases)
        for index in indices:
            self.steps[index].resolve(bases)
        self.current_bases = bases

    @functools.cached_property
    def _batches(self) -> list[LaunchBatch | Step]:
        """The commands in order; consecutive launches are one batch."""
        batches: list[LaunchBatch | Step] = []
        for is_launch, steps in itertools.groupby(self.steps, lambda step: isinstance(step, LaunchStep)):
            row = list(steps)
            launches = [step.batch_entry for step in row if isinstance(step, LaunchStep)]
            batches += [LaunchBatch(launches)] if is_launch else row
        return batches

    def _launch(self, instance: GraphInstance, stream: Any) -> None:
        if not self.captured_steps:
            instance.launch(stream)
            return
        with self.collective_scope():
            instance.launch(stream)

    def _instance_for(self, bases: list[int]) -> GraphInstance | None:
        """The instance for memory at `bases`: one that exists, a new one, or the nearest one, updated.

        None if captured external kernels would have to be updated.
        """
        matching = next((m for m in self.instances if m.bases == bases), None)
        if matching is not None:
            return matching
        if len(self.instances) < MAX_INSTANCES:
            self.instances.append(self._make(bases))
            return self.instances[-1]
        touched = [self._steps_at_moved_regions(m.bases, bases) for m in self.instances]
        instance, indices = min(
            zip(self.instances, touched, strict=True), key=lambda p: (bool(p[1] & self.captured_steps), len(p[1]))
        )
        if indices & self.captured_steps:
            return self._replace_oldest(bases)
        # The updated instance goes to the end of the list, so that of equally near instances the instance updated
        # longest ago is next. The instance is not in the list during the update: after a failed update the instance
        # would use memory of two runs.
        self.instances = [m for m in self.instances if m is not instance]
        instance.bases, self.current_bases = bases, None
        for index in sorted(indices):
            instance.update(index, self.steps[index])
        self.instances.append(instance)
        return instance

    def _steps_at_moved_regions(self, before: list[int], bases: list[int]) -> set[int]:
        """The steps that use a region whose base address has changed."""
        return set().union(*itertools.compress(self.steps_of_region, map(operator.ne, before, bases)))

    def _replace_oldest(self, bases: list[int]) -> GraphInstance | None:
        """A new instance in place of the oldest if a recent run had the same `bases`; otherwise None.

        A new instance for every run would cost more than running without graphs.
        """
        if bases not in self.recent_bases:
            self.recent_bases = [*self.recent_bases[1 - MAX_INSTANCES :], bases]
            return None
        self.instances = [*self.instances[1:], self._make(bases)]
        return self.instances[-1]

    def _make(self, bases: list[int]) -> GraphInstance:
        instance, self.current_bases = GraphInstance(self.context, bases), None
        for step, after in zip(self.steps, self.script.dependencies, strict=True):
            instance.add(step, after)
        instance.instantiate()
        return instance
