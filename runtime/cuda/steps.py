"""Commands of a script ready for the driver: launch handles resolved, parameters in memory, addresses filled in.

`Steps` runs them one by one on a stream, or as a graph in which what is independent runs side by side. Kernels made
elsewhere that may be recorded are nodes too, which cannot be changed: what they touch has to stay. Others part it
into several graphs. Where memory lies as in one of the runs before, a run is a launch of that run's graphs; else the
commands that touch what has moved are changed.
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
from oneflow.runtime.cuda.graph import Graph, launch_params
from oneflow.runtime.cuda.launches import Launches
from oneflow.runtime.cuda.script import OFFSET, SHIFT, Command, Copy, External, Fill, Launch, Region, Script
from oneflow.runtime.cuda.stream import Spares, Stream
from oneflow.runtime.cuda.tensor_maps import MapArgument

#: How floats are packed into a parameter's slot of 8 bytes.
FLOATS = {"fp32": "<fxxxx", "fp64": "<d"}
#: Graphs pay for programs of at least this many commands: starting one costs as much as a few launches.
GRAPH_FROM = 4
#: How often a script's graphs are made at most: results of one run often live until the next one has made new ones.
GRAPHS = 2


#: Gives kernel `number` of those made elsewhere, on memory of the device, to a stream.
ExternalCall = Callable[[int, Sequence[int], Any], None]
#: Where addresses are in the list that steps run with: the workspace's, and those of arguments, then results.
WORKSPACE, ARGUMENTS = 2, 3
#: Those of regions that there is one of.
FIXED = {"absolute": 0, "temporary": 0, "failure": 1, "workspace": WORKSPACE}


class Kernel:
    """A kernel on the device, and how its scalars are packed."""

    def __init__(self, source: Source, binary: Binary) -> None:
        self.function = driver.load(binary.cubin, binary.name, binary.warps, binary.shared)
        self.floats = {i: FLOATS[k] for i, (_, k) in enumerate(source.parameters) if k in FLOATS}
        self.maps = binary.maps

    def pack(self, number: int, value: Any) -> int:
        """A scalar as the 8 bytes of its slot."""
        packed = self.floats.get(number)
        return int(value) if packed is None else struct.unpack("<q", struct.pack(packed, value))[0]


class LaunchStep:
    """A launch with parameters of its own."""

    def __init__(self, command: Launch, kernel: Kernel) -> None:
        self.function, self.programs = kernel.function, command.programs
        self.maps = [MapArgument(about) for about in kernel.maps]
        self.parameters = driver.Parameters(len(command.arguments), [p for m in self.maps for p in m.places])
        self.places = {i: command.arguments[i] for i in command.pointers}
        self.pointers = [(number, place >> SHIFT, place & OFFSET) for number, place in self.places.items()]
        for number, value in enumerate(command.arguments):
            if number not in self.places:
                self.parameters.slots[number] = kernel.pack(number, value)

    def set(self, bases: Sequence[int]) -> None:
        """Fills in where regions lie."""
        slots = self.parameters.slots
        for number, region, offset in self.pointers:
            slots[number] = bases[region] + offset
        for described in self.maps:
            described.set(slots)

    def launch(self, stream: Any) -> None:
        """Gives it to a stream."""
        Launches([self.prepared]).launch(stream)

    @property
    def prepared(self) -> tuple[driver.Function, int, int]:
        """It as one of several launches."""
        return self.function, self.programs, self.parameters.address

    @functools.cached_property
    def node(self) -> Any:
        """It as nodes of graphs take it."""
        return launch_params(self.function, self.programs, self.parameters.address)

    def add(self, graph: Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.launch_node(self.node, after)

    def change(self, graph: Graph, node: Any) -> None:
        """Has its node take what is filled in now."""
        graph.change_launch(node, self.node)


class CopyStep:
    """A copy on the device."""

    def __init__(self, command: Copy) -> None:
        self.places, self.size = {0: command.target, 1: command.source}, command.size
        self.now = (0, 0)

    def set(self, bases: Sequence[int]) -> None:
        """Fills in where regions lie."""
        self.now = tuple(bases[p >> SHIFT] + (p & OFFSET) for p in self.places.values())  # type: ignore[assignment]

    def launch(self, stream: Any) -> None:
        """Gives it to a stream."""
        driver.copy(*self.now, self.size, stream)

    def add(self, graph: Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.copy_node(*self.now, self.size, after)

    def change(self, graph: Graph, node: Any) -> None:
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

    def launch(self, stream: Any) -> None:
        """Gives it to a stream."""
        driver.fill(self.now, *self.what, stream)

    def add(self, graph: Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.fill_node(self.now, *self.what, after)

    def change(self, graph: Graph, node: Any) -> None:
        """Has its node take what is filled in now."""
        graph.change_fill(node, self.now, *self.what)


class ExternalStep:
    """A kernel made elsewhere, which `call` gives to a stream, and records for a graph if it may."""

    def __init__(self, command: External, call: ExternalCall, recorded: bool = False) -> None:
        self.command, self.recorded = command, recorded
        self.places, self.number, self.call = dict(enumerate(command.places)), command.number, call
        self.now: list[int] = []

    def add(self, graph: Graph, after: Sequence[Any]) -> Any:
        """Makes it a node of a graph."""
        return graph.recorded_node(lambda stream: self.call(self.number, self.now, stream), after)

    def set(self, bases: Sequence[int]) -> None:
        """Fills in where regions lie."""
        self.now = [bases[p >> SHIFT] + (p & OFFSET) for p in self.places.values()]

    def launch(self, stream: Any) -> None:
        """Gives it to a stream."""
        self.call(self.number, self.now, stream)


Step = LaunchStep | CopyStep | FillStep | ExternalStep


def make_step(
    command: Command, kernels: Mapping[str, Kernel], call: ExternalCall, recorded: Collection[int] = ()
) -> Step:
    """A command for the driver; `call` does what kernels made elsewhere do, of which some may be `recorded`."""
    if isinstance(command, External):
        return ExternalStep(command, call, command.number in recorded)
    if isinstance(command, Launch):
        return LaunchStep(command, kernels[command.kernel])
    return CopyStep(command) if isinstance(command, Copy) else FillStep(command)


@dataclass
class Made:
    """A script for memory at `bases`, those of all `addresses` of a run that it touches.

    Attributes:
        parts: kernels made elsewhere that are not recorded, and a graph of all between two of them, in order.
        places: the part that each step is in, and its node there.
    """

    context: Any
    bases: list[int]
    addresses: Sequence[int] = ()
    parts: list[Graph | ExternalStep] = field(default_factory=list)
    places: list[tuple[Graph | ExternalStep, Any]] = field(default_factory=list)

    def add(self, step: Step, after: Sequence[int]) -> None:
        """The next step, which waits for earlier ones: parts do for those before them."""
        if isinstance(step, ExternalStep) and not step.recorded:
            part = ExternalStep(step.command, step.call)
            part.set(self.bases)
            self.parts.append(part)
            self.places.append((part, None))
            return
        step.set(self.bases)
        graph = self._graph()
        inside = [node for part, node in (self.places[n] for n in after) if part is graph]
        self.places.append((graph, step.add(graph, inside)))

    def _graph(self) -> Graph:
        """The graph that the next step is in."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Graph):
            return last
        made = Graph(self.context)
        self.parts.append(made)
        return made

    def finish(self) -> None:
        """Makes the graphs ready."""
        for part in self.parts:
            if isinstance(part, Graph):
                part.finish()

    def change(self, number: int, step: Step) -> None:
        """Has a step work on the memory at `bases`, which has moved."""
        part, node = self.places[number]
        if isinstance(part, ExternalStep):
            part.set(self.bases)
        elif not isinstance(step, ExternalStep):
            step.set(self.bases)
            step.change(part, node)

    def launch(self, stream: Any) -> None:
        """Gives all of it to a stream."""
        for part in self.parts:
            part.launch(stream)


@dataclass
class Steps:
    """A script for the driver; from its second run on its commands are graphs, where `graphs` are wanted and pay.

    `counts` are the numbers of arguments and results; results take the memory of the arguments in `taken`. `apart`
    are addresses of arguments that were found not to be in one another's way. `call` gives kernels made elsewhere
    to a stream; those of the numbers `recorded` may be nodes of graphs, which are then launched in `meeting()`.
    """

    script: Script
    kernels: Mapping[str, Kernel]
    context: Any
    counts: tuple[int, int]
    call: ExternalCall
    graphs: bool = True
    recorded: Collection[int] = ()
    meeting: Callable[[], AbstractContextManager[None]] = nullcontext
    apart: list[int] | None = None
    moved: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = [make_step(c, self.kernels, self.call, self.recorded) for c in self.script.commands]
        self.fixed = {n for n, s in enumerate(self.steps) if isinstance(s, ExternalStep) and s.recorded}
        apart = sum(isinstance(s, ExternalStep) and not s.recorded for s in self.steps)
        self.graphs &= len(self.steps) - apart >= GRAPH_FROM
        self.sources = [r.argument for r in self.script.results]
        self.made_results = [(n, r.size, r.shape) for n, r in enumerate(self.script.results) if r.argument is None]
        self.taken = {n for n in self.sources if n is not None}
        self.order = [self._number(r) for r in self.script.regions]
        self.runs, self.made = 0, list[Made]()
        self.filled: list[int] | None = None  # where regions lie for what steps have filled in
        self.spares, self.none = list[Spares](), [None] * len(self.script.results)
        self.touching: list[list[int]] = [[] for _ in self.order]
        for number, step in enumerate(self.steps):
            for region in {p >> SHIFT for p in step.places.values()}:
                self.touching[region].append(number)

    def spares_on(self, stream: Stream) -> Sequence[Spares | None]:
        """Where the memory of each result comes from and goes to, on one stream; None before there is a graph."""
        if not self.graphs or not self.runs:
            return self.none
        if not self.spares or self.spares[0].stream is not stream:
            self.spares = [Spares(stream, r.size) for r in self.script.results]
        return self.spares

    def _number(self, region: Region) -> int:
        """Where the address of a region is in the list that `run` gets."""
        first = {"argument": 0, "result": self.counts[0], "constant": sum(self.counts)}
        return FIXED[region.kind] if region.kind in FIXED else ARGUMENTS + first[region.kind] + region.number

    def run(self, addresses: Sequence[int], stream: Any) -> None:
        """Gives a stream the commands. Memory lies at `addresses`: none, for failures, the workspace, arguments,
        results, constants.
        """
        for made in self.made:
            if made.addresses == addresses:
                self._launch(made, stream)
                return
        bases = [addresses[i] for i in self.order]
        self.runs += 1
        found = self._made_for(bases) if self.runs > 1 and self.graphs else None
        if found is not None:
            found.addresses = addresses
            self._launch(found, stream)
            return
        self._one_by_one(bases, stream)

    def _one_by_one(self, bases: list[int], stream: Any) -> None:
        """Gives a stream each command by itself."""
        if bases != self.filled:
            self._fill(bases)
        for part in self._queue:
            part.launch(stream)

    def _fill(self, bases: list[int]) -> None:
        """Fills in where regions lie, for steps that touch what lies elsewhere than was filled in before."""
        numbers = range(len(self.steps)) if self.filled is None else self._touched(self.filled, bases)
        self.filled = None
        for number in numbers:
            self.steps[number].set(bases)
        self.filled = bases

    @functools.cached_property
    def _queue(self) -> list[Launches | Step]:
        """The commands in order, launches in a row as one."""
        found: list[Launches | Step] = []
        for kind, steps in itertools.groupby(self.steps, type):
            row = list(steps)
            found += [Launches([step.prepared for step in row])] if kind is LaunchStep else row
        return found

    def _launch(self, made: Made, stream: Any) -> None:
        if not self.fixed:
            made.launch(stream)
            return
        with self.meeting():
            made.launch(stream)

    def _made_for(self, bases: list[int]) -> Made | None:
        """The graphs that work there, new ones, or those for which least has moved, changed; None if they cannot."""
        found = next((m for m in self.made if m.bases == bases), None)
        if found is not None:
            return found
        if len(self.made) < GRAPHS:
            self.made.append(self._make(bases))
            return self.made[-1]
        touched = [self._touched(m.bases, bases) for m in self.made]
        made, numbers = min(zip(self.made, touched, strict=True), key=lambda p: (bool(p[1] & self.fixed), len(p[1])))
        if numbers & self.fixed:
            return self._replaced(bases)
        # Behind the others: the next to change, of those that are no nearer, is the one that was changed longest ago.
        # It is not among them meanwhile, since one that could not be changed works on memory of two runs.
        self.made = [m for m in self.made if m is not made]
        made.bases, self.filled = bases, None
        for number in sorted(numbers):
            made.change(number, self.steps[number])
        self.made.append(made)
        return made

    def _touched(self, before: list[int], bases: list[int]) -> set[int]:
        """The steps that touch what lies elsewhere than before."""
        return set().union(*itertools.compress(self.touching, map(operator.ne, before, bases)))

    def _replaced(self, bases: list[int]) -> Made | None:
        """New graphs in place of the oldest, where a run was not long ago: some for each run would take longer."""
        if bases not in self.moved:
            self.moved = [*self.moved[1 - GRAPHS :], bases]
            return None
        self.made = [*self.made[1:], self._make(bases)]
        return self.made[-1]

    def _make(self, bases: list[int]) -> Made:
        made, self.filled = Made(self.context, bases), None
        for step, after in zip(self.steps, self.script.after, strict=True):
            made.add(step, after)
        made.finish()
        return made
