"""Commands of a script ready for the driver: launch handles resolved, parameters in memory, addresses filled in.

A `Sequence` runs them one by one on a stream, or as one graph in which what is independent runs side by side. When
memory lies elsewhere than in the run before, only the commands that touch it are changed. Imports `driver`, `script`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.compiler import Binary
from oneflow.runtime.cuda.script import OFFSET, SHIFT, Command, Copy, Fill, Launch, Region, Script

#: How floats are packed into a parameter's slot of 8 bytes.
FLOATS = {"fp32": "<fxxxx", "fp64": "<d"}
#: Graphs pay for programs of at least this many commands: starting one costs as much as a few launches.
GRAPH_FROM = 4


#: Where the addresses of regions that there is one of are in the list that steps run with.
FIXED = {"absolute": 0, "temporary": 0, "failure": 1, "workspace": 2}


class Kernel:
    """A kernel on the device, and how its scalars are packed."""

    def __init__(self, source: Source, binary: Binary) -> None:
        self.function = driver.load(binary.cubin, binary.name, binary.warps, binary.shared)
        self.floats = {i: FLOATS[k] for i, (_, k) in enumerate(source.parameters) if k in FLOATS}

    def pack(self, number: int, value: Any) -> int:
        """A scalar as the 8 bytes of its slot."""
        packed = self.floats.get(number)
        return int(value) if packed is None else struct.unpack("<q", struct.pack(packed, value))[0]


class LaunchStep:
    """A launch with parameters of its own."""

    def __init__(self, command: Launch, kernel: Kernel) -> None:
        self.function, self.programs = kernel.function, command.programs
        self.parameters = driver.Parameters(len(command.arguments))
        self.places = {i: command.arguments[i] for i in command.pointers}
        self.prepared = self.function.prepare(self.programs, self.parameters.address)
        for number, value in enumerate(command.arguments):
            if number not in self.places:
                self.parameters.slots[number] = kernel.pack(number, value)

    def set(self, bases: Sequence[int]) -> None:
        """Fills in where regions lie."""
        slots = self.parameters.slots
        for number, place in self.places.items():
            slots[number] = bases[place >> SHIFT] + (place & OFFSET)

    def start(self, stream: Any) -> None:
        """Gives it to a stream."""
        self.function.launch(self.prepared, stream)

    def add(self, graph: driver.Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.launch_node(self.function, self.programs, self.parameters.address, after)

    def change(self, graph: driver.Graph, node: Any) -> None:
        """Has its node take what is filled in now."""
        graph.change_launch(node, self.function, self.programs, self.parameters.address)


class CopyStep:
    """A copy on the device."""

    def __init__(self, command: Copy) -> None:
        self.places, self.size = {0: command.target, 1: command.source}, command.size
        self.now = (0, 0)

    def set(self, bases: Sequence[int]) -> None:
        """Fills in where regions lie."""
        self.now = tuple(bases[p >> SHIFT] + (p & OFFSET) for p in self.places.values())  # type: ignore[assignment]

    def start(self, stream: Any) -> None:
        """Gives it to a stream."""
        driver.copy(*self.now, self.size, stream)

    def add(self, graph: driver.Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.copy_node(*self.now, self.size, after)

    def change(self, graph: driver.Graph, node: Any) -> None:
        """Has its node take what is filled in now."""
        graph.change_copy(node, *self.now, self.size)


class FillStep:
    """A fill."""

    def __init__(self, command: Fill) -> None:
        self.places, self.what = {0: command.target}, (command.pattern, command.count, command.pitch)
        self.now = 0

    def set(self, bases: Sequence[int]) -> None:
        """Fills in where regions lie."""
        self.now = bases[self.places[0] >> SHIFT] + (self.places[0] & OFFSET)

    def start(self, stream: Any) -> None:
        """Gives it to a stream."""
        driver.fill(self.now, *self.what, stream)

    def add(self, graph: driver.Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.fill_node(self.now, *self.what, after)

    def change(self, graph: driver.Graph, node: Any) -> None:
        """Has its node take what is filled in now."""
        graph.change_fill(node, self.now, *self.what)


Step = LaunchStep | CopyStep | FillStep


def make_step(command: Command, kernels: Mapping[str, Kernel]) -> Step:
    """A command for the driver."""
    if isinstance(command, Launch):
        return LaunchStep(command, kernels[command.kernel])
    return CopyStep(command) if isinstance(command, Copy) else FillStep(command)


@dataclass
class Steps:
    """A script for the driver; from its second run on it is a graph, where `graphs` are wanted and pay.

    `counts` are the numbers of arguments and results; results take the memory of the arguments in `taken`. `apart`
    are addresses of arguments that were found not to be in one another's way.
    """

    script: Script
    kernels: Mapping[str, Kernel]
    context: Any
    counts: tuple[int, int]
    graphs: bool = True
    apart: list[int] | None = None

    def __post_init__(self) -> None:
        self.steps = [make_step(c, self.kernels) for c in self.script.commands]
        self.taken = {r.argument for r in self.script.results if r.argument is not None}
        self.order = [self._number(r) for r in self.script.regions]
        self.bases: list[int] = [-1] * len(self.script.regions)
        self.graph: driver.Graph | None = None
        self.runs, self.nodes = 0, list[Any]()
        self.touching: list[list[int]] = [[] for _ in self.bases]
        for number, step in enumerate(self.steps):
            for region in {p >> SHIFT for p in step.places.values()}:
                self.touching[region].append(number)

    def _number(self, region: Region) -> int:
        """Where the address of a region is in the list that `run` gets."""
        first = {"argument": 3, "result": 3 + self.counts[0], "constant": 3 + sum(self.counts)}
        return FIXED[region.kind] if region.kind in FIXED else first[region.kind] + region.number

    def _moved(self, addresses: Sequence[int]) -> list[int]:
        """Fills in where memory lies now; the steps for which that is elsewhere."""
        bases = [addresses[i] for i in self.order]
        if bases == self.bases:
            return []
        changed = [n for n, (old, new) in enumerate(zip(self.bases, bases, strict=True)) if old != new]
        touched = sorted({step for region in changed for step in self.touching[region]})
        for number in touched:
            self.steps[number].set(bases)
        self.bases = bases
        return touched

    def run(self, addresses: Sequence[int], stream: Any) -> None:
        """Gives a stream the commands. Memory lies at `addresses`: none, for failures, the workspace, arguments,
        results, constants.
        """
        touched = self._moved(addresses)
        self.runs += 1
        if self.graph is not None:
            for number in touched:
                self.steps[number].change(self.graph, self.nodes[number])
            self.graph.launch(stream)
        elif self.graphs and self.runs == 2 and len(self.steps) >= GRAPH_FROM:
            self._make_graph().launch(stream)
        else:
            for step in self.steps:
                step.start(stream)

    def _make_graph(self) -> driver.Graph:
        graph = driver.Graph(self.context)
        for step, after in zip(self.steps, self.script.after, strict=True):
            self.nodes.append(step.add(graph, [self.nodes[n] for n in after]))
        graph.finish()
        self.graph = graph
        return graph
