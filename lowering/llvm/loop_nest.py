"""Emitting pointwise, reduction and row kernels as loops over vectors.

One step of the parallel range is one position of the outer loops (or a block of the last one). Within it, nodes
run in phases: a phase is one sweep over the inner loops, and a node that needs a finished reduction goes to a
later phase. Three ways to use vectors, `emit.py` tries them in order:

    row      lanes along the last inner loop; reductions end by joining lanes
    column   lanes along the last outer loop; reductions keep one accumulator per lane
    scalar   no lanes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported
from oneflow.lowering.llvm.body import OPERATION_COST, Lanes, NeedsScalars
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loop_emitter import LoopEmitter
from oneflow.lowering.llvm.loops import Loop, index_dims
from oneflow.lowering.llvm.selection import selection_of
from oneflow.lowering.llvm.value_storage import element_bits
from oneflow.lowering.llvm.writer import Index, Writer

#: Steps of the vectorised outer loop that make one step of the parallel range, where nothing is reduced.
CHUNK_STEPS = 8192
#: The same of steps without lanes.
SCALAR_CHUNK_STEPS = 1024
#: Steps of the parallel range that a reduction down columns should leave, and the bytes of the second cache for each
#: element that it may keep in between.
MIN_PARALLEL_STEPS, L2_SHARE = 4, 16
#: One lane of so many may be left idle by wide vectors.
MAX_IDLE_LANES = 8
#: Rows of fewer elements have their lanes along columns, if they can.
SHORT_ROW = 8


def emit_rows(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest, lanes along the last inner loop.

    Raises:
        Unsupported: the nest cannot be emitted so.
    """
    return LoopNest(kernel, structure, "row").emit()


def emit_columns(kernel: Kernel, structure: Structure) -> str:
    """The same with lanes along the last outer loop."""
    return LoopNest(kernel, in_result_order(structure), "column").emit()


def emit_short_rows(kernel: Kernel, structure: Structure) -> str:
    """The same where rows are too short for lanes, such as windows.

    Raises:
        Unsupported: rows are long, or the nest cannot be emitted so.
    """
    nest = LoopNest(kernel, in_result_order(structure), "column")
    last = nest.loops.inner[-1].size if nest.loops.inner else None
    if not isinstance(last, int) or last >= SHORT_ROW:
        raise Unsupported("rows that are no shorter than vectors")
    return nest.emit()


def in_result_order(structure: Structure) -> Structure:
    """The structure with its outer loops in the order in which its last result walks them."""
    node = structure.nodes[-1]
    walked = [node.names[f.dim] for use in node.outputs[-1:] for f in use.access if f.dim is not None]
    ordered = sorted(structure.outer, key=lambda n: walked.index(n) if n in walked else -1)
    return Structure(structure.nodes, ordered, structure.inner)


def emit_scalars(kernel: Kernel, structure: Structure) -> str:
    """The same without lanes."""
    return LoopNest(kernel, structure, "scalar").emit()


@dataclass
class LoopNest(LoopEmitter):
    """One attempt to emit a structure in one `mode`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.vector = self._vector_loop()
        self.width = self._width() if self.vector else None
        self.chunked = self._find_chunked_loop()

    def _vector_loop(self) -> Loop | None:
        if self.mode == "scalar":
            return None
        loops = self.loops.inner if self.mode == "row" else self.loops.outer
        if not loops:
            raise NeedsScalars("no loop for lanes")
        return loops[-1]

    def _find_chunked_loop(self) -> Loop | None:
        """The outer loop of which a step of the parallel range has a chunk, in which the others stand still."""
        if self.mode == "column":
            return self.vector
        return self.loops.outer[-1] if self.mode == "scalar" and self.loops.outer and not self.loops.inner else None

    def _width(self) -> int:
        lanes = self.kernel.target.vector_bits // max(bits_of(self.structure), 8)
        width = lanes * self._registers_per_step()
        assert self.vector is not None
        size = self.vector.size
        while isinstance(size, int) and width > 4 and width // 2 >= size:
            width //= 2
        return self._narrow_width(width, lanes)

    def _registers_per_step(self) -> int:
        """How many registers the lanes of a step fill: of sums down columns half of all, so that none waits."""
        registers = self.kernel.target.vector_registers
        if self._has_strided_lanes():
            return 1
        if not self.loops.inner:
            return registers // 16
        if self.mode == "column":
            return registers // 2
        return registers // 4 if any(selection_of(n) for n in self.structure.nodes) else 4

    def _has_strided_lanes(self) -> bool:
        """Whether lanes are picked out of vectors: wide ones cost more than they save."""
        loop = self.vector
        uses = ((n, u) for n in self.structure.nodes for u in n.inputs)
        forms = (p.form for n, u in uses for p in self._positions_of(n, u))
        return loop is not None and any(dict(form.terms).get(loop.id, 0) > 1 for form in forms)

    def _narrow_width(self, width: int, least: int) -> int:
        """A width whose steps leave work for several threads and whose scratch memory stays in a near cache."""
        assert self.vector is not None
        if self.mode == "row" or not self.loops.inner:
            return width if isinstance(self.vector.size, int) else min(width, least)
        rows = self.writer.product([loop.size for loop in self.loops.inner])
        outer = self.writer.product([loop.size for loop in self.loops.outer])
        if isinstance(rows, str) or isinstance(outer, str):
            return min(width, least)
        scratch = rows if self.structure.rowwise else 0
        near = self.kernel.target.l2_bytes // L2_SHARE
        size = self.vector.size
        while width > least and (
            outer < width * MIN_PARALLEL_STEPS or width * scratch > near or (-size % width) * MAX_IDLE_LANES > size  # type: ignore[operator]
        ):
            width //= 2
        return width

    def emit(self) -> str:
        """The kernel's function and its launch."""
        w = self.writer
        chunk = self._chunk()
        factors = [loop.size for loop in self.loops.outer if loop is not self.chunked]
        if self.chunked:
            with w.at_head():
                factors.append(w.ceildiv(self.chunked.size, chunk))
        return self.parallel_function(lambda: self._emit_step(factors, chunk), chunk)

    def parallel_function(self, unit: Callable[[], None], chunk: int = 0) -> str:
        """The kernel's function, in whose loop `unit` writes a step of the parallel range, and its launch."""
        w = self.writer
        with w.buffered() as body, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            unit()
        return "\n".join([self.function_text(body), self._launch(chunk)])

    def function_text(self, body: Sequence[str]) -> str:
        """The kernel's function around the loop over steps."""
        text = [
            f"func.func private @{self.kernel.name}({self.kernel.signature(('%lo', '%hi'))}) "
            "attributes {llvm.linkage = #llvm.linkage<internal>} {",
            *self.writer.head, *body,
            *(f"func.call @oneflow_rt_release({s}) : (memref<1xi8>) -> ()" for s in self.scratch),
            "return", "}",
        ]  # fmt: skip
        return "\n".join(text)

    def _launch(self, chunk: int) -> str:
        w = Writer()
        loops = self._make_loops(w)
        sizes = [loop.size for loop in loops.outer]
        steps = [loop.size for loop in loops.inner]
        if self.chunked:
            size = sizes.pop()
            sizes.append(w.ceildiv(size, chunk))
            steps.append(min(chunk, size) if isinstance(size, int) else chunk)
        count = w.product(sizes)
        work = sum(work_of(n) for n in self.structure.nodes)
        for step in steps:
            work *= step if isinstance(step, int) else 64
        return launch_text(self.kernel, w, count, work, w.lines)

    def _chunk(self) -> int:
        if self.mode == "scalar":
            return SCALAR_CHUNK_STEPS if self.chunked else 1
        return (CHUNK_STEPS if not self.loops.inner else self.width or 1) if self.chunked else 1

    def _emit_step(self, factors: Sequence[Index], chunk: int) -> None:
        """The positions of the outer loops from the step's number, and the step's work."""
        w, digits = self.writer, self.delinearize(factors)
        loops = [loop for loop in self.loops.outer if loop is not self.chunked]
        self.position = {loop.id: d for loop, d in zip(loops, digits, strict=False)}
        if self.mode == "column":
            self._column_chunk(digits[-1], chunk)
        elif self.chunked:
            self._scalar_chunk(self.chunked, digits[-1], chunk)
        else:
            self._emit_outer_position(Lanes(w, self.kernel, None, captured=self._scalars))

    def delinearize(self, factors: Sequence[Index]) -> list[Index]:
        """The step's number taken apart: one position for each factor, the last moves fastest."""
        rest, digits = "%step", []
        for size in reversed(factors[1:]):
            digits.append(0 if size == 1 else self.writer.binary("remui", rest, size))
            rest = rest if size == 1 else self.writer.binary("divui", rest, size)
        return [rest, *reversed(digits)] if factors else []

    def _bounds(self, loop: Loop, number: Index, chunk: int) -> tuple[Index, Index]:
        """Where a chunk of a loop begins and ends."""
        w = self.writer
        if isinstance(loop.size, int) and loop.size <= chunk:
            return 0, loop.size
        begin = w.mul(number, chunk)
        if isinstance(loop.size, int) and loop.size % chunk == 0:
            return begin, w.add(begin, chunk)
        return begin, w.binary("minui", w.add(begin, chunk), loop.size)

    def _scalar_chunk(self, loop: Loop, number: Index, chunk: int) -> None:
        """One position after the other of one chunk of the last outer loop."""
        w = self.writer
        begin, end = self._bounds(loop, number, chunk)
        self.position[loop.id] = w.fresh()
        with w.block(f"scf.for {self.position[loop.id]} = {w.index(begin)} to {w.index(end)} step {w.index(1)} {{"):
            self._emit_outer_position(Lanes(w, self.kernel, None, captured=self._scalars))

    def _column_chunk(self, number: Index, chunk: int) -> None:
        """Vectors along one chunk of the last outer loop: whole ones, then one under a mask."""
        w, loop, width = self.writer, self.vector, self.width
        assert loop is not None and width is not None
        begin, end = self._bounds(loop, number, chunk)
        whole = isinstance(loop.size, int) and loop.size % width == 0
        middle = end if whole else w.floor_to(end, width)
        self._column_loop(begin, middle, masked=False)
        if not whole:
            self._column_loop(w.binary("maxui", begin, middle) if begin else middle, end, masked=True)

    def _column_loop(self, begin: Index, end: Index, masked: bool) -> None:
        if begin == end:
            return
        w, loop = self.writer, self.vector
        assert loop is not None
        hoisted: list[str] | None = None if self.loops.inner else []
        iv = w.fresh()
        with w.buffered() as body:
            self.position[loop.id] = iv
            lanes = Lanes(w, self.kernel, self.width, None, hoisted, self._scalars)
            if masked:
                lanes.active, lanes.mask = w.binary("subi", end, iv), self._mask(iv, end)
            self._emit_outer_position(lanes)
        w.lines.extend(hoisted or [])
        w.line(f"scf.for {iv} = {w.index(begin)} to {w.index(end)} step {w.index(self.width or 1)} {{")
        w.lines.extend(body)
        w.line("}")


def _elements(node: Node) -> list[str]:
    """The element types that a body handles; positions count only where they vary by lane."""
    found = [str(u.value.type.element_type) for u in (*node.inputs, *node.outputs)]
    found += [str(r.type) for o in node.body.operations for r in o.operation.results]
    indexed = bool(index_dims(node))
    return [e for e in found if e != "index" or indexed]


def bits_of(structure: Structure) -> int:
    """The bits of the widest element that the nodes handle."""
    return max(element_bits(e) for n in structure.nodes for e in _elements(n))


def work_of(node: Node) -> int:
    """The element operations of one step of a node."""
    return sum(OPERATION_COST.get(o.operation.name.partition(".")[0], 1) for o in node.body.operations)
