"""Contiguous runs of elements in memory: fills and copies.

Runs are moved in vectors, the last vector under a mask. The runtime copies long runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.llvm.lanes import first_lanes, zero_of
from oneflow.lowering.llvm.writer import POINTER, Index, MemRef, Writer

#: The runtime copies runs of at least this many vectors. LLVM would unroll a loop of a static length, and its time to
#: schedule a block grows faster than the block.
RUNTIME_VECTORS = 8


@dataclass(frozen=True)
class Cursor:
    """An offset in elements in a memref of one dimension, which begins at `pointer`."""

    memory: MemRef
    pointer: str
    offset: Index = 0

    def advanced(self, writer: Writer, distance: Index) -> Cursor:
        """The cursor advanced by `distance` elements."""
        return replace(self, offset=writer.add(self.offset, distance))

    def element(self, writer: Writer, distance: Index) -> str:
        """The operand text of the element `distance` elements after the cursor, with the type of the memory."""
        return f"{self.at(writer, distance)} : {self.memory.type}"

    def at(self, writer: Writer, distance: Index) -> str:
        """The operand text of the element `distance` elements after the cursor."""
        return self.memory.at([writer.index(writer.add(self.offset, distance))])


@dataclass(frozen=True)
class RunWriter:
    """Writes runs of an element type in vectors of `lanes` elements."""

    writer: Writer
    element: str
    lanes: int

    @property
    def _vector(self) -> str:
        return f"vector<{self.lanes}x{self.element}>"

    def splat(self, value: str) -> str:
        """A vector of equal elements."""
        return self.writer.op(f"vector.broadcast {value} : {self.element} to {self._vector}")

    def fill(self, length: Index, vector: str, target: Cursor) -> None:
        """Fills a run with a vector of equal elements."""
        self._write(length, target, lambda offset: vector, lambda offset, mask: vector)

    def copy(self, length: Index, source: Cursor, target: Cursor) -> None:
        """Copies a run."""
        w, masks = self.writer, f"vector<{self.lanes}xi1>"
        if isinstance(length, int) and length >= RUNTIME_VECTORS * self.lanes:
            self._copy_by_runtime(length, source, target)
            return

        def load(offset: Index) -> str:
            return w.op(f"vector.load {source.element(w, offset)}, {self._vector}")

        def masked_load(offset: Index, mask: str) -> str:
            zero = w.constant(f"dense<{zero_of(self.element)}>", self._vector)
            types = f"{source.memory.type}, {masks}, {self._vector} into {self._vector}"
            return w.op(f"vector.maskedload {source.at(w, offset)}, {mask}, {zero} : {types}")

        self._write(length, target, load, masked_load)

    def _copy_by_runtime(self, length: int, source: Cursor, target: Cursor) -> None:
        """Copies a run by a call of the runtime."""
        w, size = self.writer, element_bits(self.element) // 8
        addresses = [
            w.op(f"memref.view {c.pointer}[{w.index(w.mul(c.offset, size))}][] : {POINTER} to {POINTER}")
            for c in (target, source)
        ]
        call = f"func.call @oneflow_rt_copy({', '.join(addresses)}, {w.index(length * size)})"
        w.line(f"{call} : ({POINTER}, {POINTER}, index) -> ()")

    def _write(
        self, length: Index, target: Cursor, load: Callable[[Index], str], masked_load: Callable[[Index, str], str]
    ) -> None:
        """Writes one run: vectors, then the rest under a mask."""
        w = self.writer
        middle = w.floor_to(length, self.lanes)
        if middle != 0:
            iv = w.fresh()
            with w.block(f"scf.for {iv} = {w.index(0)} to {w.index(middle)} step {w.index(self.lanes)} {{"):
                w.line(f"vector.store {load(iv)}, {target.element(w, iv)}, {self._vector}")
        if middle == length:
            return
        mask = first_lanes(w, w.binary("subi", length, middle), self.lanes)
        value, types = masked_load(middle, mask), f"{target.memory.type}, vector<{self.lanes}xi1>, {self._vector}"
        w.line(f"vector.maskedstore {target.at(w, middle)}, {mask}, {value} : {types}")
