"""Vector lanes: values of a loop body that is written for several iterations at a time, and their loads and stores.

A value that is equal in all lanes stays a scalar and is computed in the loop's preheader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.llvm.iteration_space import Loop
from oneflow.lowering.llvm.kernel import Kernel, Tensor
from oneflow.lowering.llvm.writer import Index, MemRef, Writer, memory_type, view


class NeedsScalars(Unsupported):
    """The body or the accesses have no vector form along this loop."""


@dataclass(frozen=True)
class LaneValue:
    """A value in a loop: its SSA name and element type; `is_vector` if it has one element per lane.

    An index whose lane k is `first_lane + k` has a `first_lane`. `two_starts` are a condition per lane and two such
    indices, of which the condition selects one.
    """

    name: str
    element: str
    is_vector: bool = False
    first_lane: Index | None = None
    two_starts: tuple[LaneValue, LaneValue, LaneValue] | None = None

    @property
    def is_lane_index(self) -> bool:
        """Whether the lanes are consecutive indices, from one start or from two."""
        return self.first_lane is not None or self.two_starts is not None


@dataclass
class Lanes:
    """The vectorization of a loop body.

    Attributes:
        writer, kernel: the function that is written, and its kernel.
        width: the number of lanes, None for scalars.
        mask: the mask of the active lanes, None where all lanes are active.
        preheader: the lines before the loop, for operations on loop-invariant values.
        captured: the scalars that bodies capture, see `body_cloner.captured_scalar`.
        active: the number of active lanes, where this number is known too.
        loop: the loop whose iterations are the lanes.
        prefetches: whether loads prefetch memory further on.
    """

    writer: Writer
    kernel: Kernel
    width: int | None
    mask: str | None = None
    preheader: list[str] | None = None
    captured: dict[ir.Value, LaneValue] = field(default_factory=dict)
    active: Index | None = None
    loop: Loop | None = None
    prefetches: bool = False

    def type(self, element: str, is_vector: bool = True) -> str:
        """The type of a value with this element type."""
        return f"vector<{self.width}x{element}>" if is_vector and self.width else element

    def broadcast(self, value: LaneValue) -> str:
        """The value as a vector."""
        if value.is_vector or not self.width:
            return value.name
        kind = self.type(value.element)
        return self.hoisted(f"vector.broadcast {value.name} : {value.element} to {kind}")

    def hoisted(self, text: str) -> str:
        """Writes a loop-invariant operation; returns its name."""
        name = self.writer.fresh()
        self.invariant_lines.append(f"{name} = {text}")
        return name

    @property
    def invariant_lines(self) -> list[str]:
        """The lines to which loop-invariant operations are written."""
        return self.writer.lines if self.preheader is None else self.preheader

    def constant(self, value: str, element: str) -> LaneValue:
        """A scalar constant."""
        return LaneValue(self.writer.constant(value, element), element)

    def load(self, memory: MemRef, indices: Sequence[str], element: str, is_vector: bool) -> LaneValue:
        """Loads the element at `indices`, or the vector from `indices` on. Bools are bytes in memory."""
        stored = memory_type(element)
        if not is_vector:
            name = self.hoisted(f"memref.load {memory.at(indices)} : {memory.type}")
        elif self.mask is None:
            name = self.writer.op(f"vector.load {memory.at(indices)} : {memory.type}, {self.type(stored)}")
        else:
            zero = self.writer.constant(f"dense<{zero_of(stored)}>", self.type(stored))
            types = f"{memory.type}, {self.type('i1')}, {self.type(stored)} into {self.type(stored)}"
            name = self.writer.op(f"vector.maskedload {memory.at(indices)}, {self.mask}, {zero} : {types}")
        return self._loaded(name, element, is_vector)

    def _loaded(self, name: str, element: str, is_vector: bool) -> LaneValue:
        """A value as computed with, from its form in memory: bools are bytes there."""
        stored = memory_type(element)
        if stored == element:
            return LaneValue(name, element, is_vector)
        cast = f"arith.trunci {name} : {self.type(stored, is_vector)} to {self.type(element, is_vector)}"
        return LaneValue(self.writer.op(cast) if is_vector else self.hoisted(cast), element, is_vector)

    def gather(self, tensor: Tensor, offsets: str) -> LaneValue:
        """Loads an element of a tensor for each lane, at offsets in elements."""
        w, stored, kind = self.writer, memory_type(tensor.element), self.type("index")
        with w.buffered() as lines:
            memory = view(w, tensor.pointer, [w.product(tensor.shape)], stored)
        self.invariant_lines.extend(lines)
        mask = self.mask or w.constant("dense<true>", self.type("i1"))
        zero = w.constant(f"dense<{zero_of(stored)}>", self.type(stored))
        types = f"{memory.type}, {kind}, {self.type('i1')}, {self.type(stored)} into {self.type(stored)}"
        gathered = w.op(f"vector.gather {memory.at([w.index(0)])} [{offsets}], {mask}, {zero} : {types}")
        return self._loaded(gathered, tensor.element, True)

    def load_stride_two(self, memory: MemRef, indices: Sequence[str], element: str) -> LaneValue:
        """Loads every second element from `indices` on, by two vectors that do not read beyond the last element."""
        w, width = self.writer, self.width or 1
        last = w.binary("addi", indices[-1], width - 1)
        halves = []
        for half, start in enumerate((indices[-1], last)):
            lanes = replace(self, mask=None, preheader=None, active=None)
            if self.active is not None:
                remaining = w.binary("subi", w.binary("muli", self.active, 2), width if half else 1)
                lanes.mask = first_lanes(w, remaining, width)
            halves.append(lanes.load(memory, [*indices[:-1], start], element, True).name)
        picked = [2 * i if 2 * i < width else 2 * i + 1 for i in range(width)]
        both = self.type(element)
        return LaneValue(w.op(f"vector.shuffle {halves[0]}, {halves[1]} {picked} : {both}, {both}"), element, True)

    def store_interleaved(self, values: tuple[LaneValue, LaneValue], memory: MemRef, indices: Sequence[str]) -> None:
        """Stores the lanes of two values alternately from `indices` on."""
        w, width = self.writer, self.width or 1
        both, element = self.type(values[0].element), values[0].element
        names = ", ".join(self.broadcast(v) for v in values)
        for half in range(2):
            lanes = replace(self, mask=None, preheader=None, active=None)
            if self.active is not None:
                remaining = w.binary("subi", w.binary("muli", self.active, 2), half * width)
                lanes.mask = first_lanes(w, remaining, width)
            picked = [(half * width + i) // 2 + i % 2 * width for i in range(width)]
            joined = LaneValue(w.op(f"vector.shuffle {names} {picked} : {both}, {both}"), element, True)
            lanes.store(joined, memory, [*indices[:-1], w.index(w.add(indices[-1], half * width))], True)

    def store(self, value: LaneValue, memory: MemRef, indices: Sequence[str], is_vector: bool) -> None:
        """Stores a value as `load` reads it."""
        name, stored = self.broadcast(value) if is_vector else value.name, memory_type(value.element)
        if stored != value.element:
            kinds = f"{self.type(value.element, is_vector)} to {self.type(stored, is_vector)}"
            name = self.writer.op(f"arith.extui {name} : {kinds}")
        address = memory.at(indices)
        if not is_vector:
            self.writer.line(f"memref.store {name}, {address} : {memory.type}")
        elif self.mask is None:
            self.writer.line(f"vector.store {name}, {address} : {memory.type}, {self.type(stored)}")
        else:
            types = f"{memory.type}, {self.type('i1')}, {self.type(stored)}"
            self.writer.line(f"vector.maskedstore {address}, {self.mask}, {name} : {types}")


def first_lanes(writer: Writer, count: Index, width: int) -> str:
    """The mask of the first `count` of `width` lanes."""
    return writer.op(f"vector.create_mask {writer.index(count)} : vector<{width}xi1>")


def zero_of(element: str) -> str:
    """The literal 0 of an element type."""
    return "0.0" if element[0] in "fb" else "0"
