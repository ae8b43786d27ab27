"""Scripts, the command buffers of plans for given sizes (launches, fills, copies), recorded on symbolic memory.

    script = record(program, sizes, scratch)

A plan that does not read from the device issues the same commands at every call with the same sizes. A plan without
data-dependent commands runs once, on a `Recorder` that returns symbolic addresses: the index of a region in the high
bits, the offset in the region in the low bits. Region 0 is absolute: its offsets are addresses.
`Script.dependencies` has the dependencies between commands.
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
from oneflow.lowering.buffer_assignment import Buffer, assign_offsets
from oneflow.lowering.targets.gpu_parameters import LaunchParameters
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.launch.program import Program
from oneflow.lowering.triton.source import Source
from oneflow.runtime.failures import out_of_bounds_error, size_error

#: The number of low bits of a symbolic address that are the offset in its region.
OFFSET_BITS = 56
#: The alignment in bytes of a region, as of the driver's allocations.
REGION_ALIGNMENT = 256
OFFSET_MASK = (1 << OFFSET_BITS) - 1
#: A region that every external kernel writes: collectives have to run in the same order on all ranks.
EXTERNAL_ORDER = -1
#: No command.
NO_COMMAND = -1


class DataDependentPlan(Exception):
    """The plan reads from the device: its commands depend on values."""


@dataclass(frozen=True)
class Region:
    """A region of memory; `index` is the index of the argument, result, constant or temporary."""

    kind: str
    index: int = 0


@dataclass(frozen=True)
class Launch:
    """A kernel launch with `programs` blocks.

    Attributes:
        arguments: the values of the parameters, with the two pointers that Triton adds.
        pointers: the indices of the arguments that are symbolic addresses.
        writes: the indices of the arguments that the kernel writes.
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
    """`count` times a pattern, `pitch` bytes staging."""

    target: int
    pattern: bytes
    count: int
    pitch: int


@dataclass(frozen=True)
class External:
    """An external kernel on device memory: symbolic addresses of operands, results and scratch memory."""

    index: int
    addresses: tuple[int, ...]
    operands: int


Command = Launch | Copy | Fill | External
#: An access of a command to memory: region, first byte, end, whether it writes.
Access = tuple[int, int, int, bool]


@dataclass
class Result:
    """A result: its bytes, its shape, and the donated argument whose memory it takes, if any."""

    size: int
    shape: tuple[int, ...]
    argument: int | None = None


@dataclass(frozen=True)
class Script:
    """Commands in order.

    Attributes:
        dependencies: for each command the earlier commands that it waits for.
        workspace: the bytes of all temporaries.
    """

    commands: tuple[Command, ...]
    dependencies: tuple[tuple[int, ...], ...]
    regions: tuple[Region, ...]
    results: tuple[Result, ...]
    workspace: int


@dataclass
class Recorder:
    """The `run` argument of a plan that records commands.

    Attributes:
        scratch: the bytes of scratch memory of each program of a kernel, by the name of the kernel.
        on_device: the external kernels that take device memory.
        limits: of launches of the device.
        extents: the bytes at a symbolic address, where they are known.
        accessed: the accesses of each command.
        buffers: the temporaries, to be placed when the script is complete.
    """

    program: Program
    scratch: Mapping[str, int]
    on_device: Mapping[int, ExternalKernel] = field(default_factory=dict)
    limits: LaunchParameters = field(default_factory=lambda: gpu_target().kernels.launches)
    commands: list[Command] = field(default_factory=list)
    regions: dict[Region, int] = field(default_factory=lambda: {Region("absolute"): 0})
    results: dict[int, Result] = field(default_factory=dict)
    extents: dict[int, int] = field(default_factory=dict)
    accessed: list[list[Access]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)

    def region_address(self, kind: str, index: int = 0) -> int:
        """The symbolic address of the first byte of a region."""
        return self.regions.setdefault(Region(kind, index), len(self.regions)) << OFFSET_BITS

    @property
    def failure(self) -> int:
        """The address at which kernels store failures of checks."""
        return self.region_address("failure")

    def at(self, offset: int, size: int) -> int:
        """A temporary in the workspace."""
        self.extents[self.region_address("workspace") + offset] = size
        return self.region_address("workspace") + offset

    def part(self, address: int, offset: int) -> int:
        """A part of memory. The size of the part is not noted: accesses extend to the end of the region.

        The size of an earlier temporary that started at the same address is forgotten.
        """
        if offset:
            self.extents.pop(address + offset, None)
        return address + offset

    def temporary(self, size: int) -> int:
        """A temporary whose size was not known at compile time; it lives until `release`."""
        index, command = len(self.buffers), len(self.commands)
        self.buffers.append(Buffer(index, "temporary", size, command, 1 << 60))
        self.extents[self.region_address("temporary", index)] = size
        return self.region_address("temporary", index)

    def release(self, address: int) -> None:
        """Ends the lifetime of a temporary, which no command may have accessed."""
        index = next(r.index for r, n in self.regions.items() if n << OFFSET_BITS == address)
        buffer = self.buffers[index]
        buffer.last = max(buffer.first, len(self.commands) - 1)

    def result(self, index: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result."""
        self.results[index] = Result(size, shape)
        return self.region_address("result", index)

    def donated(self, index: int, argument: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result that takes the memory of a donated argument."""
        self.results[index] = Result(size, shape, argument)
        return self.region_address("argument", argument)

    def shape(self, index: int, shape: tuple[int, ...]) -> None:
        """Sets the shape with which a result is returned."""
        self.results[index].shape = shape

    def constant(self, index: int) -> int:
        """Memory of a constant."""
        return self.region_address("constant", index)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copies `size` bytes on the device."""
        if size:
            self.add(Copy(target, source, size))

    def fill(self, address: int, count: int, value: float, element: str) -> None:
        """Fills `count` elements with one value."""
        pattern = np.array(value).astype(memory_dtype(element)).tobytes()
        parts = [pattern] if len(pattern) <= 4 else [pattern[:4], pattern[4:]]
        for index, part in enumerate(parts if count else ()):
            self.add(Fill(address + 4 * index, part, count, len(pattern)))

    def read(self, address: int, offset: int, element: str) -> Any:
        """An element on the host."""
        raise DataDependentPlan

    def host(self, index: int, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]) -> None:
        """An external kernel on operands and results as (address, bytes)."""
        if index not in self.on_device:
            raise DataDependentPlan
        kernel = self.on_device[index]
        staging = {
            a: self.temporary(n)
            for a, n in results
            if kernel.recorded and self._is_result(a) and n <= self.limits.max_staged_bytes
        }
        memory = [a for a, _ in inputs] + [staging.get(a, a) for a, _ in results]
        memory += [self._scratch(kernel.workspace)] if kernel.workspace else []
        self.add(External(index, tuple(memory), len(inputs)))
        for address, size in results:
            if address in staging:
                self.copy(address, staging[address], size)
                self.release(staging[address])

    def _is_result(self, address: int) -> bool:
        """Whether an address is in memory of a result, which is another at every run."""
        kinds = [r.kind for r, n in self.regions.items() if n == address >> OFFSET_BITS]
        return "result" in kinds

    def on_host(self, name: str, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """A kernel of the program that runs on the host."""
        raise DataDependentPlan

    def launch(self, name: str, *arguments: Any, writes: int = 0) -> None:
        """A launch of a kernel on addresses, sizes and scalars."""
        source = self.program.sources[name]
        programs = source.grid.value(_named(source, arguments))
        if not programs:
            return
        pointers = [i for i, p in enumerate(source.parameters) if p.is_pointer]
        tensors = [i for i in pointers if source.parameters[i].is_tensor]
        written = tensors[len(tensors) - writes :]
        extra = len(source.parameters)
        scratch_bytes = self.scratch.get(name, 0) * programs
        scratch = self._scratch(scratch_bytes) if scratch_bytes else 0
        writes_of_launch = (*written, *([extra] if scratch_bytes else []))
        self.add(Launch(name, programs, (*arguments, scratch, 0), (*pointers, extra), writes_of_launch))

    def _scratch(self, size: int) -> int:
        address = self.temporary(size)
        self.buffers[-1].last = len(self.commands) + self.limits.scratch_distance
        return address

    def add(self, command: Command) -> None:
        """Appends a command, and notes its accesses now, since later temporaries may reuse the memory."""
        self.commands.append(command)
        self.accessed.append(accesses(command, self.extents))

    def check_size(self, got: int, wanted: int, site: int) -> None:
        """Checks that two sizes are equal.

        Raises:
            SizeError: the sizes differ.
        """
        if got != wanted:
            raise size_error(self.program.sites[site], got, wanted)

    def check_index(self, got: int, wanted: int, site: int) -> int:
        """Checks that an index is within a tensor.

        Raises:
            OutOfBoundsError: the index is out of bounds.
        """
        if not 0 <= got < wanted:
            raise out_of_bounds_error(self.program.sites[site], got, wanted)
        return got

    def script(self) -> Script:
        """The recorded script; temporaries are placed in the workspace after the buffers that the plan has placed."""
        fixed = -(-self.program.workspace // REGION_ALIGNMENT) * REGION_ALIGNMENT
        size = fixed + assign_offsets(self.buffers)
        base = self.region_address("workspace") + fixed
        relocated = {self.region_address("temporary", b.number): base + (b.offset or 0) for b in self.buffers}
        commands = tuple(_relocated(c, relocated) for c in self.commands)
        results = tuple(self.results[i] for i in range(len(self.results)))
        after = dependencies_of([[_relocated_access(a, relocated) for a in accessed] for accessed in self.accessed])
        return Script(commands, after, tuple(self.regions), results, size)


def record(
    program: Program,
    sizes: Sequence[tuple[int, ...]],
    scratch: Mapping[str, int],
    on_device: Mapping[int, ExternalKernel] | None = None,
    limits: LaunchParameters | None = None,
) -> Script:
    """The script of a program for the dynamic sizes of its arguments, by default for the chosen target.

    Raises:
        DataDependentPlan: the commands depend on values.
        SizeError: the sizes do not fit.
    """
    recorder = Recorder(program, scratch, on_device or {}, limits or gpu_target().kernels.launches)
    arguments = [x for i, own in enumerate(sizes) for x in (recorder.region_address("argument", i), *own)]
    program.function()(recorder, *arguments)
    return recorder.script()


def memory_dtype(element: str) -> np.dtype:
    """The NumPy dtype of an MLIR element type in memory."""
    return np.dtype(np.int8) if element == "i8" else BY_MLIR[element].numpy


def _named(source: Source, arguments: Sequence[Any]) -> dict[str, Any]:
    return dict(zip((p.name for p in source.parameters), arguments, strict=True))


def _relocated(command: Command, relocated: Mapping[int, int]) -> Command:
    if isinstance(command, Launch):
        pointers = set(command.pointers)
        values = (relocated.get(v, v) if i in pointers else v for i, v in enumerate(command.arguments))
        return replace(command, arguments=tuple(values))
    if isinstance(command, External):
        return replace(command, addresses=tuple(relocated.get(p, p) for p in command.addresses))
    target = relocated.get(command.target & ~7, command.target & ~7) + (command.target & 7)
    if isinstance(command, Copy):
        return replace(command, target=target, source=relocated.get(command.source, command.source))
    return replace(command, target=target)


def _relocated_access(access: Access, relocated: Mapping[int, int]) -> Access:
    """An access to a temporary as one to the workspace."""
    address = relocated.get(access[0] << OFFSET_BITS)
    if address is None:
        return access
    start = address & OFFSET_MASK
    return address >> OFFSET_BITS, start, start + access[2], access[3]


def accesses(command: Command, extents: Mapping[int, int]) -> list[Access]:
    """The accesses of a command; an access of unknown size extends to the end of its region."""
    if isinstance(command, Fill):
        return [_access(command.target & ~7, extents, True)]
    if isinstance(command, Copy):
        return [_access(command.source, extents, False), _access(command.target, extents, True)]
    if isinstance(command, External):
        memory = [_access(p, extents, i >= command.operands) for i, p in enumerate(command.addresses)]
        return [*memory, (EXTERNAL_ORDER, 0, 1, True)]
    written = set(command.writes)
    return [_access(command.arguments[i], extents, i in written) for i in command.pointers if command.arguments[i]]


def _access(address: int, extents: Mapping[int, int], write: bool) -> Access:
    start = address & OFFSET_MASK
    return address >> OFFSET_BITS, start, start + extents[address] if address in extents else OFFSET_MASK, write


def dependencies_of(commands: Sequence[Sequence[Access]]) -> tuple[tuple[int, ...], ...]:
    """For each command the earlier commands that it depends on: one of the two writes bytes that both access.

    The result is a transitive reduction: a dependency that follows from others is left out.
    """
    histories: dict[int, AccessHistory] = {}
    dependencies: list[tuple[int, ...]] = []
    before: list[int] = []
    for index, accessed in enumerate(commands):
        waits: set[int] = set()
        for region, start, end, write in accessed:
            if start < end:
                waits |= histories.setdefault(region, AccessHistory()).record(index, start, end, write)
        dependencies.append(_transitive_reduction(waits - {index, NO_COMMAND}, before))
        before.append(functools.reduce(operator.or_, (before[n] | 1 << n for n in dependencies[-1]), 0))
    return tuple(dependencies)


def _transitive_reduction(waits: Collection[int], before: Sequence[int]) -> tuple[int, ...]:
    """The commands in `waits` that precede no other command in `waits`; `before` has the predecessors of commands
    as bits.
    """
    needed, known = [], 0
    for index in sorted(waits, reverse=True):
        if not known >> index & 1:
            needed.append(index)
            known |= before[index]
    return tuple(reversed(needed))


class AccessHistory:
    """The last writer of each interval of a region, and the readers since. Interval `i` is the bytes from `starts[i]`
    up to `starts[i + 1]`.
    """

    def __init__(self) -> None:
        self.starts, self.writers, self.readers = [0], [NO_COMMAND], [frozenset[int]()]

    def record(self, command: int, start: int, end: int, write: bool) -> set[int]:
        """Records an access of a command; returns the commands that it has to wait for."""
        intervals = slice(self._split(start), self._split(end))
        waits = set(self.writers[intervals])
        if not write:
            self.readers[intervals] = [readers | {command} for readers in self.readers[intervals]]
            return waits
        waits.update(*self.readers[intervals])
        self.starts[intervals], self.writers[intervals], self.readers[intervals] = [start], [command], [frozenset()]
        return waits

    def _split(self, offset: int) -> int:
        """The index of the interval that begins at byte `offset`; the interval that contains the byte is split."""
        index = bisect_left(self.starts, offset)
        if index == len(self.starts) or self.starts[index] != offset:
            self.writers.insert(index, self.writers[index - 1])
            self.readers.insert(index, self.readers[index - 1])
            self.starts.insert(index, offset)
        return index
