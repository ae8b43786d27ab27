"""What a plan does for given sizes, written down once: launches, fills and copies on memory that is known by name.

    script = record(program, sizes, scratch)

A plan without reads of the device does the same at every call with the same sizes, so it runs once, on a `Recorder`
that hands out places in place of addresses: the number of a region in the high bits, the offset in it in the low
ones. Region 0 is memory that has an address already. `after` says which commands each one waits for.
"""

from __future__ import annotations

import functools
import operator
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import BY_MLIR
from oneflow.dialect.external import ExternalKernel
from oneflow.lowering.buffers import Buffer, assign_offsets
from oneflow.lowering.triton.launch.program import Program
from oneflow.lowering.triton.source import Source
from oneflow.runtime.failures import position_error, size_error

#: The bits of a place that are the offset in its region.
SHIFT = 56
OFFSET = (1 << SHIFT) - 1
#: How many commands scratch memory rests before another has it, so that those in between can run side by side.
REST = 8
#: Results of at most so many bytes are copied out of what is recorded, which then has memory that stays.
SMALL = 1 << 16
#: The region of what kernels made elsewhere share besides memory: ranks meet in them, in one order.
ORDER = -1
#: The number of no command.
NOBODY = -1


class NeedsValues(Exception):
    """The plan reads from the device: what it does depends on values."""


@dataclass(frozen=True)
class Region:
    """Memory of one kind; `number` tells which argument, result, constant or temporary."""

    kind: str
    number: int = 0


@dataclass(frozen=True)
class Launch:
    """A launch: the values of the parameters; those at `pointers` are places, of which the last `writes` are written.

    The two pointers that Triton adds are among them.
    """

    kernel: str
    programs: int
    arguments: tuple[Any, ...]
    pointers: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A copy on the device."""

    target: int
    source: int
    size: int


@dataclass(frozen=True)
class Fill:
    """`count` times a pattern, `pitch` bytes apart."""

    target: int
    pattern: bytes
    count: int
    pitch: int


@dataclass(frozen=True)
class External:
    """A kernel made elsewhere on memory of the device: places of operands, of results, and of what it works in."""

    number: int
    places: tuple[int, ...]
    operands: int


Command = Launch | Copy | Fill | External
#: What a command does to memory: region, first byte, end, whether it writes.
Access = tuple[int, int, int, bool]


@dataclass
class Result:
    """A result: its bytes, its shape, and the argument whose memory it has, if any."""

    size: int
    shape: tuple[int, ...]
    argument: int | None = None


@dataclass(frozen=True)
class Script:
    """Commands in order; `workspace` are the bytes of all temporaries."""

    commands: tuple[Command, ...]
    after: tuple[tuple[int, ...], ...]
    regions: tuple[Region, ...]
    results: tuple[Result, ...]
    workspace: int


@dataclass
class Recorder:
    """A plan's `run` that writes down. `scratch` is what each program of a kernel needs, by the kernel's name;
    `on_device` are the kernels made elsewhere that take memory of the device.
    """

    program: Program
    scratch: Mapping[str, int]
    on_device: Mapping[int, ExternalKernel] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    regions: dict[Region, int] = field(default_factory=lambda: {Region("absolute"): 0})
    results: dict[int, Result] = field(default_factory=dict)
    extents: dict[int, int] = field(default_factory=dict)
    touched: list[list[Access]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)

    def at_region(self, kind: str, number: int = 0) -> int:
        """The place where a region begins."""
        return self.regions.setdefault(Region(kind, number), len(self.regions)) << SHIFT

    @property
    def failure(self) -> int:
        """Where failures of checks are noted."""
        return self.at_region("failure")

    def at(self, offset: int, size: int) -> int:
        """A temporary in the workspace."""
        self.extents[self.at_region("workspace") + offset] = size
        return self.at_region("workspace") + offset

    def temporary(self, size: int) -> int:
        """A temporary whose size was not known before; it lives until `release`."""
        number, now = len(self.buffers), len(self.commands)
        self.buffers.append(Buffer(number, "temporary", size, now, 1 << 60))
        self.extents[self.at_region("temporary", number)] = size
        return self.at_region("temporary", number)

    def release(self, address: int) -> None:
        """The end of a temporary."""
        number = next(r.number for r, n in self.regions.items() if n << SHIFT == address)
        self.buffers[number].last = len(self.commands) - 1

    def result(self, number: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result."""
        self.results[number] = Result(size, shape)
        return self.at_region("result", number)

    def donated(self, number: int, argument: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result: that of an argument."""
        self.results[number] = Result(size, shape, argument)
        return self.at_region("argument", argument)

    def shape(self, number: int, shape: tuple[int, ...]) -> None:
        """The sizes of a result, seen as it is returned."""
        self.results[number].shape = shape

    def constant(self, number: int) -> int:
        """Where a constant lies."""
        return self.at_region("constant", number)

    def copy(self, target: int, source: int, size: int) -> None:
        """Memory to memory."""
        if size:
            self.add(Copy(target, source, size))

    def fill(self, address: int, count: int, value: float, element: str) -> None:
        """`count` elements of one value."""
        pattern = np.array(value).astype(kind_of(element)).tobytes()
        parts = [pattern] if len(pattern) <= 4 else [pattern[:4], pattern[4:]]
        for number, part in enumerate(parts if count else ()):
            self.add(Fill(address + 4 * number, part, count, len(pattern)))

    def read(self, address: int, offset: int, element: str) -> Any:
        """An element on the host."""
        raise NeedsValues

    def host(self, number: int, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]) -> None:
        """A kernel made elsewhere, on memory of (address, bytes)."""
        if number not in self.on_device:
            raise NeedsValues
        kernel = self.on_device[number]
        apart = {a: self.temporary(n) for a, n in results if kernel.recorded and self._moves(a) and n <= SMALL}
        memory = [a for a, _ in inputs] + [apart.get(a, a) for a, _ in results]
        memory += [self._scratch(kernel.room)] if kernel.room else []
        self.add(External(number, tuple(memory), len(inputs)))
        for address, size in results:
            if address in apart:
                self.copy(address, apart[address], size)
                self.release(apart[address])

    def _moves(self, place: int) -> bool:
        """Whether a place is in memory that is another at every run: that of a result."""
        kinds = [r.kind for r, n in self.regions.items() if n == place >> SHIFT]
        return "result" in kinds

    def on_host(self, name: str, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """A kernel of the program that runs on the host."""
        raise NeedsValues

    def launch(self, name: str, *arguments: Any, writes: int = 0) -> None:
        """A launch of a kernel on addresses, sizes and scalars."""
        source = self.program.sources[name]
        programs = 0 if source.grid == "0" else source.programs(_named(source, arguments))
        if not programs:
            return
        pointers = [i for i, (_, kind) in enumerate(source.parameters) if kind.startswith("*")]
        tensors = [i for i in pointers if source.parameters[i][0] != "failure"]
        written = tensors[len(tensors) - writes :]
        extra = len(source.parameters)
        room = self.scratch.get(name, 0) * programs
        scratch = self._scratch(room) if room else 0
        made = (*pointers, extra), (*written, *([extra] if room else []))
        self.add(Launch(name, programs, (*arguments, scratch, 0), *made))

    def _scratch(self, size: int) -> int:
        address = self.temporary(size)
        self.buffers[-1].last = len(self.commands) + REST
        return address

    def add(self, command: Command) -> None:
        """One more command; what lies where is as it is now, for the next may have other things there."""
        self.commands.append(command)
        self.touched.append(accesses(command, self.extents))

    def check_size(self, got: int, wanted: int, site: int) -> None:
        """Sizes that have to be equal.

        Raises:
            SizeError: they are not.
        """
        if got != wanted:
            raise size_error(self.program.sites[site], got, wanted)

    def check_index(self, got: int, wanted: int, site: int) -> int:
        """A position that has to lie in a tensor.

        Raises:
            PositionError: it does not.
        """
        if not 0 <= got < wanted:
            raise position_error(self.program.sites[site], got, wanted)
        return got

    def script(self) -> Script:
        """What was written down, temporaries placed behind those that the plan has placed."""
        fixed = -(-self.program.workspace // 256) * 256
        size = fixed + assign_offsets(self.buffers)
        base = self.at_region("workspace") + fixed
        moved = {self.at_region("temporary", b.number): base + (b.offset or 0) for b in self.buffers}
        commands = tuple(_moved(c, moved) for c in self.commands)
        results = tuple(self.results[i] for i in range(len(self.results)))
        after = order_of([[_shifted(a, moved) for a in touched] for touched in self.touched])
        return Script(commands, after, tuple(self.regions), results, size)


def record(
    program: Program,
    sizes: Sequence[tuple[int, ...]],
    scratch: Mapping[str, int],
    on_device: Mapping[int, ExternalKernel] | None = None,
) -> Script:
    """What a program does when the dynamic sizes of its arguments are `sizes`.

    Raises:
        NeedsValues: that depends on values.
        SizeError: the sizes do not fit.
    """
    recorder = Recorder(program, scratch, on_device or {})
    arguments = [x for i, own in enumerate(sizes) for x in (recorder.at_region("argument", i), *own)]
    program.function()(recorder, *arguments)
    return recorder.script()


def kind_of(element: str) -> np.dtype:
    """The NumPy type of an MLIR element type, as memory holds it."""
    return np.dtype(np.int8) if element == "i8" else BY_MLIR[element].numpy


def _named(source: Source, arguments: Sequence[Any]) -> dict[str, Any]:
    return dict(zip((n for n, _ in source.parameters), arguments, strict=True))


def _moved(command: Command, moved: Mapping[int, int]) -> Command:
    if isinstance(command, Launch):
        places = set(command.pointers)
        values = (moved.get(v, v) if i in places else v for i, v in enumerate(command.arguments))
        return replace(command, arguments=tuple(values))
    if isinstance(command, External):
        return replace(command, places=tuple(moved.get(p, p) for p in command.places))
    target = moved.get(command.target & ~7, command.target & ~7) + (command.target & 7)
    if isinstance(command, Copy):
        return replace(command, target=target, source=moved.get(command.source, command.source))
    return replace(command, target=target)


def _shifted(access: Access, moved: Mapping[int, int]) -> Access:
    """An access to a temporary as one to the workspace."""
    place = moved.get(access[0] << SHIFT)
    if place is None:
        return access
    start = place & OFFSET
    return place >> SHIFT, start, start + access[2], access[3]


def accesses(command: Command, extents: Mapping[int, int]) -> list[Access]:
    """The memory that a command reads and writes; where nobody knows how much, a region to its end."""
    if isinstance(command, Fill):
        return [_access(command.target & ~7, extents, True)]
    if isinstance(command, Copy):
        return [_access(command.source, extents, False), _access(command.target, extents, True)]
    if isinstance(command, External):
        memory = [_access(p, extents, i >= command.operands) for i, p in enumerate(command.places)]
        return [*memory, (ORDER, 0, 1, True)]
    written = set(command.writes)
    return [_access(command.arguments[i], extents, i in written) for i in command.pointers if command.arguments[i]]


def _access(address: int, extents: Mapping[int, int], write: bool) -> Access:
    start = address & OFFSET
    return address >> SHIFT, start, start + extents[address] if address in extents else OFFSET, write


def order_of(commands: Sequence[Sequence[Access]]) -> tuple[tuple[int, ...], ...]:
    """For each command the earlier ones that it has to wait for: one of the two writes what both touch.

    One that another waits for in between need not be named.
    """
    histories: dict[int, History] = {}
    found: list[tuple[int, ...]] = []
    before: list[int] = []
    for number, touched in enumerate(commands):
        waits: set[int] = set()
        for region, start, end, write in touched:
            if start < end:
                waits |= histories.setdefault(region, History()).touch(number, start, end, write)
        found.append(_needed(waits - {number, NOBODY}, before))
        before.append(functools.reduce(operator.or_, (before[n] | 1 << n for n in found[-1]), 0))
    return tuple(found)


def _needed(waits: Collection[int], before: Sequence[int]) -> tuple[int, ...]:
    """Those that no other waits for; `before` are those before each command, as bits."""
    needed, known = [], 0
    for number in sorted(waits, reverse=True):
        if not known >> number & 1:
            needed.append(number)
            known |= before[number]
    return tuple(reversed(needed))


class History:
    """Who wrote each part of a region last, and who has read it since. Parts lie side by side, from `starts` on."""

    def __init__(self) -> None:
        self.starts, self.writers, self.readers = [0], [NOBODY], [frozenset[int]()]

    def touch(self, number: int, start: int, end: int, write: bool) -> set[int]:
        """Notes that a command reads or writes bytes; those that it has to wait for."""
        parts = slice(self._cut(start), self._cut(end))
        waits = set(self.writers[parts])
        if not write:
            self.readers[parts] = [readers | {number} for readers in self.readers[parts]]
            return waits
        waits.update(*self.readers[parts])
        self.starts[parts], self.writers[parts], self.readers[parts] = [start], [number], [frozenset()]
        return waits

    def _cut(self, at: int) -> int:
        """The part that begins at a byte."""
        number = bisect_left(self.starts, at)
        if number == len(self.starts) or self.starts[number] != at:
            for values in (self.writers, self.readers):
                values.insert(number, values[number - 1])
            self.starts.insert(number, at)
        return number
