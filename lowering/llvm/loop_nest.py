"""Pointwise, reduction and row kernels as vector loops: outer loops, parallel steps, vector width.

One step of the parallel range is one position of the outer loops, or a chunk of the last outer loop. Within a step,
nodes run in phases. A phase is one sweep over the inner loops; a node that needs a finished reduction runs in a later
phase. There are three modes, which `emit_kernels` tries in order:

    row      lanes along the last inner loop; a reduction ends with the reduction of the lanes
    column   lanes along the last outer loop; a reduction keeps one accumulator per lane
    scalar   no lanes

`LoopNest` is the last of three layers of one emitter, see `loop_emitter`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported
from oneflow.lowering.llvm.body import OPERATION_COST, Lanes, NeedsScalars
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loop_emitter import LoopEmitter
from oneflow.lowering.llvm.loops import Loop, index_dims
from oneflow.lowering.llvm.selection import selection_of
from oneflow.lowering.llvm.writer import Index, Writer


def emit_rows(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest, as MLIR text; lanes along the last inner loop.

    Raises:
        Unsupported: the nest has no such form.
    """
    return LoopNest(kernel, structure, "row").emit()


def emit_columns(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest; lanes along the last outer loop.

    Raises:
        Unsupported: the nest has no such form.
    """
    return LoopNest(kernel, in_result_order(structure), "column").emit()


def emit_short_rows(kernel: Kernel, structure: Structure) -> str:
    """`emit_columns` for rows that are too short for lanes, such as pooling windows.

    Raises:
        Unsupported: rows are long, or the nest has no such form.
    """
    nest = LoopNest(kernel, in_result_order(structure), "column")
    last = nest.loops.inner[-1].size if nest.loops.inner else None
    if not isinstance(last, int) or last >= kernel.target.kernels.loops.short_row:
        raise Unsupported("rows that are not shorter than vectors")
    return nest.emit()


def in_result_order(structure: Structure) -> Structure:
    """The structure with its outer loops in the order of the dimensions of its last result."""
    node = structure.nodes[-1]
    walked = [node.names[f.dim] for use in node.outputs[-1:] for f in use.access if f.dim is not None]
    ordered = sorted(structure.outer, key=lambda n: walked.index(n) if n in walked else -1)
    return Structure(structure.nodes, ordered, structure.inner)


def emit_scalars(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest, without vector lanes.

    Raises:
        Unsupported: the nest has no such form.
    """
    return LoopNest(kernel, structure, "scalar").emit()


@dataclass
class LoopNest(LoopEmitter):
    """The emission of one structure in one `mode`. A parallel step takes a chunk of the outer loop `chunked`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.vector = self._vector_loop()
        self.width = self._width() if self.vector else None
        self.chunked = self._find_chunked_loop()

    # Vector width

    def _vector_loop(self) -> Loop | None:
        """The loop that lanes walk, None in scalar mode."""
        if self.mode == "scalar":
            return None
        loops = self.loops.inner if self.mode == "row" else self.loops.outer
        if not loops:
            raise NeedsScalars("no loop for lanes")
        return loops[-1]

    def _width(self) -> int:
        """The number of lanes: registers per step times lanes per register, halved for short loops."""
        lanes = self.kernel.target.vector_bits // max(bits_of(self.structure), 8)
        width = lanes * self._registers_per_step()
        assert self.vector is not None
        size = self.vector.size
        while isinstance(size, int) and width > 4 and width // 2 >= size:
            width //= 2
        return self._narrow_width(width, lanes)

    def _registers_per_step(self) -> int:
        """How many registers the lanes of a step fill. Column sums use half of all registers, to hide latencies."""
        registers = self.kernel.target.vector_registers
        if self._has_strided_lanes():
            return 1
        if not self.loops.inner:
            return registers // 16
        if self.mode == "column":
            target = self.kernel.target
            piece = target.kernels.loops.column_piece_bytes // target.vector_bytes if self._only_combines() else 0
            return max(registers // 2, piece)
        return registers // 4 if any(selection_of(n) for n in self.structure.nodes) else 4

    def _only_combines(self) -> bool:
        """Whether the kernel is one long reduction with few operations on each loaded element."""
        steps = self.writer.product([loop.size for loop in self.loops.inner])
        is_long = isinstance(steps, str) or steps >= self.kernel.target.kernels.loops.min_long_sum
        return is_long and len(self.structure.nodes) == 1 and work_of(self.structure.nodes[0]) <= 2

    def _has_strided_lanes(self) -> bool:
        """Whether lanes are picked out of vectors, which costs more than wide vectors save."""
        loop = self.vector
        uses = ((n, u) for n in self.structure.nodes for u in n.inputs)
        forms = (p.form for n, u in uses for p in self._positions_of(n, u))
        return loop is not None and any(dict(form.terms).get(loop.id, 0) > 1 for form in forms)

    def _narrow_width(self, width: int, least: int) -> int:
        """A width that leaves parallel steps for several threads and keeps scratch memory in the L2 cache."""
        assert self.vector is not None
        if self.mode == "row" or not self.loops.inner:
            return width if isinstance(self.vector.size, int) else min(width, least)
        rows = self.writer.product([loop.size for loop in self.loops.inner])
        outer = self.writer.product([loop.size for loop in self.loops.outer])
        if isinstance(rows, str) or isinstance(outer, str):
            return min(width, least)
        scratch = rows if self.structure.rowwise else 0
        limits = self.kernel.target.kernels.loops
        near = self.kernel.target.l2_bytes // limits.l2_bytes_per_element
        size = self.vector.size
        assert isinstance(size, int)
        while width > least and (
            outer < width * limits.min_parallel_steps
            or width * scratch > near
            or (-size % width) * limits.max_idle_lanes > size
        ):
            width //= 2
        return width

    # The function and its launch

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        w = self.writer
        chunk = self._chunk()
        factors = [loop.size for loop in self.loops.outer if loop is not self.chunked]
        if self.chunked:
            with w.at_head():
                factors.append(w.ceildiv(self.chunked.size, chunk))
        return self.parallel_function(lambda: self._emit_step(factors, chunk), chunk)

    def parallel_function(self, unit: Callable[[], None], chunk: int = 0) -> str:
        """The kernel's function, in whose loop `unit` writes one step of the parallel range, and its launch."""
        w = self.writer
        with w.buffered() as body, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            unit()
        return "\n".join([self.function_text(body), self._launch(chunk)])

    def function_text(self, body: Sequence[str]) -> str:
        """The kernel's function around the loop over parallel steps."""
        text = [
            f"func.func private @{self.kernel.name}({self.kernel.signature(('%lo', '%hi'))}) "
            "attributes {llvm.linkage = #llvm.linkage<internal>} {",
            *self.writer.head, *body,
            *(f"func.call @oneflow_rt_release({s}) : (memref<1xi8>) -> ()" for s in self.scratch),
            "return", "}",
        ]  # fmt: skip
        return "\n".join(text)

    def _launch(self, chunk: int) -> str:
        """The launch: the number of parallel steps and the work of a step."""
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

    # One step of the parallel range

    def _find_chunked_loop(self) -> Loop | None:
        """The outer loop of which a parallel step takes a chunk, while the other outer loops are fixed."""
        if self.mode == "column":
            return self.vector
        return self.loops.outer[-1] if self.mode == "scalar" and self.loops.outer and not self.loops.inner else None

    def _chunk(self) -> int:
        """Steps of the chunked loop in one parallel step."""
        limits = self.kernel.target.kernels.loops
        if self.mode == "scalar":
            return limits.scalar_chunk_steps if self.chunked else 1
        return (limits.chunk_steps if not self.loops.inner else self.width or 1) if self.chunked else 1

    def _emit_step(self, factors: Sequence[Index], chunk: int) -> None:
        """One parallel step: the positions of the outer loops from the step's number, then the work."""
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
        """The step's number as one position for each factor; the last position moves fastest."""
        rest, digits = "%step", []
        for size in reversed(factors[1:]):
            digits.append(0 if size == 1 else self.writer.binary("remui", rest, size))
            rest = rest if size == 1 else self.writer.binary("divui", rest, size)
        return [rest, *reversed(digits)] if factors else []

    def _bounds(self, loop: Loop, number: Index, chunk: int) -> tuple[Index, Index]:
        """Where chunk `number` of a loop begins and ends."""
        w = self.writer
        if isinstance(loop.size, int) and loop.size <= chunk:
            return 0, loop.size
        begin = w.mul(number, chunk)
        if isinstance(loop.size, int) and loop.size % chunk == 0:
            return begin, w.add(begin, chunk)
        return begin, w.binary("minui", w.add(begin, chunk), loop.size)

    def _scalar_chunk(self, loop: Loop, number: Index, chunk: int) -> None:
        """One chunk of the last outer loop, position by position."""
        w = self.writer
        begin, end = self._bounds(loop, number, chunk)
        self.position[loop.id] = w.fresh()
        with w.block(f"scf.for {self.position[loop.id]} = {w.index(begin)} to {w.index(end)} step {w.index(1)} {{"):
            self._emit_outer_position(Lanes(w, self.kernel, None, captured=self._scalars))

    def _column_chunk(self, number: Index, chunk: int) -> None:
        """One chunk of the last outer loop in vectors: full vectors, then a masked one."""
        w, loop, width = self.writer, self.vector, self.width
        assert loop is not None and width is not None
        begin, end = self._bounds(loop, number, chunk)
        divides = isinstance(loop.size, int) and loop.size % width == 0
        middle = end if divides else w.floor_to(end, width)
        self._column_loop(begin, middle, masked=False)
        if not divides:
            self._column_loop(w.binary("maxui", begin, middle) if begin else middle, end, masked=True)

    def _column_loop(self, begin: Index, end: Index, masked: bool) -> None:
        """A loop of vectors along columns."""
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
    """The element types in a body; positions count only where they vary by lane."""
    elements = [str(u.value.type.element_type) for u in (*node.inputs, *node.outputs)]
    elements += [str(r.type) for o in node.body.operations for r in o.operation.results]
    indexed = bool(index_dims(node))
    return [e for e in elements if e != "index" or indexed]


def bits_of(structure: Structure) -> int:
    """The bits of the widest element that the nodes compute with."""
    return max(element_bits(e) for n in structure.nodes for e in _elements(n))


def work_of(node: Node) -> int:
    """The cost of one step of a node in element operations."""
    return sum(OPERATION_COST.get(o.operation.name.partition(".")[0], 1) for o in node.body.operations)
