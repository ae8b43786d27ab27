"""Vectorization of pointwise, reduction and row kernels: loops over vectors with masked tails.

A kernel has outer loops, parallel steps and inner loop nests. One step of the parallel range is one point of the
outer loops, or a chunk of the last outer loop. Lanes are along an inner loop, along an outer loop, or there are none;
`emit_kernels` has the order in which these forms are tried. Input is the structure of a kernel, output its functions
as MLIR text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.nest_emitters import NestEmitters
from oneflow.lowering.llvm.parallel_range import ParallelRange, steps_of, work_of
from oneflow.lowering.llvm.vector_width import vector_width, vectorized_loop
from oneflow.lowering.llvm.writer import Index, Writer


def emit_inner_vectorized(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest, as MLIR text; lanes along the last inner loop.

    Raises:
        Unsupported: the nest cannot be vectorized along this loop.
    """
    return _emit(vectorized_nest(kernel, structure, Vectorized.INNER))


def emit_outer_vectorized(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest; lanes along the last outer loop.

    Raises:
        Unsupported: the nest has no such form.
    """
    return _emit(vectorized_nest(kernel, in_result_order(structure), Vectorized.OUTER))


def emit_short_rows(kernel: Kernel, structure: Structure) -> str:
    """`emit_outer_vectorized` for rows that are too short for lanes, such as pooling windows.

    Raises:
        Unsupported: rows are long, or the nest has no such form.
    """
    nest = vectorized_nest(kernel, in_result_order(structure), Vectorized.OUTER)
    last = nest.space.inner[-1].size if nest.space.inner else None
    if not isinstance(last, int) or last >= kernel.target.kernels.loops.short_row:
        raise Unsupported("rows that are not shorter than vectors")
    return _emit(nest)


def emit_scalars(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest, without vector lanes.

    Raises:
        Unsupported: the nest has no such form.
    """
    return _emit(vectorized_nest(kernel, structure, Vectorized.NONE))


def in_result_order(structure: Structure) -> Structure:
    """The structure with its outer loops in the order of the dimensions of its last result."""
    node = structure.nodes[-1]
    loops = [node.loop_ids[f.dim] for use in node.outputs[-1:] for f in use.access if f.dim is not None]
    ordered = sorted(structure.outer, key=lambda n: loops.index(n) if n in loops else -1)
    return Structure(structure.nodes, ordered, structure.inner)


def vectorized_nest(
    kernel: Kernel, structure: Structure, vectorized: Vectorized,
    space_of: Callable[[Kernel, Structure, Writer], IterationSpace] = IterationSpace,
) -> LoopNest:  # fmt: skip
    """The nest of a kernel, with its vectorized loop and number of lanes."""
    nest = LoopNest(kernel, structure, vectorized, space_of)
    nest.vector = vectorized_loop(nest)
    nest.width = vector_width(nest, nest.vector) if nest.vector else None
    return nest


def _emit(nest: LoopNest) -> str:
    return OuterLoops(nest, NestEmitters(nest).emit).emit()


@dataclass
class OuterLoops:
    """Writes the outer loops of a nest as a parallel range.

    Attributes:
        nest: the nest.
        point: writes the code of one point of the outer loops.
    """

    nest: LoopNest
    point: Callable[[Lanes], None]

    def __post_init__(self) -> None:
        self.chunked = self._find_chunked_loop()
        self.chunk = self._chunk_steps()

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        inner = [loop.size for loop in self.nest.space.inner]
        size = self.chunked.size if self.chunked else 1
        chunk = min(self.chunk, size) if isinstance(size, int) else self.chunk
        loops = self.nest.kernel.target.kernels.loops
        work = work_of(self.nest.structure.nodes, loops) * steps_of([*inner, chunk], loops.dynamic_steps)
        return ParallelRange(self.nest, self._factors, work).emit(self._step)

    def _factors(self, writer: Writer, space: IterationSpace) -> list[Index]:
        """The factors of the parallel range: outer loops, of which the last one may be in chunks."""
        sizes = [loop.size for loop in space.outer]
        return [*sizes[:-1], writer.ceildiv(sizes[-1], self.chunk)] if self.chunked else sizes

    def _find_chunked_loop(self) -> Loop | None:
        """The last outer loop, if a parallel step runs a chunk of it at one point of the other outer loops."""
        nest = self.nest
        if nest.vectorized is Vectorized.OUTER:
            return nest.vector
        is_pointwise = nest.vectorized is Vectorized.NONE and nest.space.outer and not nest.space.inner
        return nest.space.outer[-1] if is_pointwise else None

    def _chunk_steps(self) -> int:
        """Steps of the chunked loop in one parallel step."""
        limits = self.nest.kernel.target.kernels.loops
        if not self.chunked:
            return 1
        if self.nest.vectorized is Vectorized.NONE:
            return limits.scalar_chunk_steps
        return self.nest.lane_count if self.nest.space.inner else limits.chunk_steps

    def _step(self, indices: list[Index]) -> None:
        """Writes one parallel step."""
        nest = self.nest
        loops = [loop for loop in nest.space.outer if loop is not self.chunked]
        nest.indices = {loop.id: index for loop, index in zip(loops, indices, strict=False)}
        if self.chunked is None:
            self.point(nest.scalars)
        elif nest.vectorized is Vectorized.OUTER:
            self._vector_chunk(self.chunked, indices[-1])
        else:
            self._scalar_chunk(self.chunked, indices[-1])

    def _bounds(self, loop: Loop, chunk: Index) -> tuple[Index, Index]:
        """The bounds of a chunk of a loop, by the index of the chunk."""
        writer, steps = self.nest.writer, self.chunk
        if isinstance(loop.size, int) and loop.size <= steps:
            return 0, loop.size
        begin = writer.mul(chunk, steps)
        if isinstance(loop.size, int) and loop.size % steps == 0:
            return begin, writer.add(begin, steps)
        return begin, writer.binary("minui", writer.add(begin, steps), loop.size)

    def _scalar_chunk(self, loop: Loop, chunk: Index) -> None:
        """Writes one chunk of the last outer loop, point by point."""
        begin, end = self._bounds(loop, chunk)
        writer, iv = self.nest.writer, self.nest.writer.fresh()
        self.nest.indices[loop.id] = iv
        with writer.block(f"scf.for {iv} = {writer.index(begin)} to {writer.index(end)} step {writer.index(1)} {{"):
            self.point(self.nest.scalars)

    def _vector_chunk(self, loop: Loop, chunk: Index) -> None:
        """Writes one chunk of the last outer loop in vectors: full vectors, then a masked one."""
        writer, width = self.nest.writer, self.nest.lane_count
        begin, end = self._bounds(loop, chunk)
        divides = isinstance(loop.size, int) and loop.size % width == 0
        middle = end if divides else writer.floor_to(end, width)
        self._vector_loop(loop, begin, middle, masked=False)
        if not divides:
            self._vector_loop(loop, writer.binary("maxui", begin, middle) if begin else middle, end, masked=True)

    def _vector_loop(self, loop: Loop, begin: Index, end: Index, masked: bool) -> None:
        """Writes a loop of vectors along an outer loop."""
        if begin == end:
            return
        nest, writer = self.nest, self.nest.writer
        hoisted: list[str] | None = None if nest.space.inner else []
        iv = writer.fresh()
        with writer.buffered() as body:
            nest.indices[loop.id] = iv
            lanes = nest.lanes(preheader=hoisted)
            if masked:
                lanes.active, lanes.mask = writer.binary("subi", end, iv), nest.mask(iv, end)
            self.point(lanes)
        writer.lines.extend(hoisted or [])
        head = f"{iv} = {writer.index(begin)} to {writer.index(end)} step {writer.index(nest.lane_count)}"
        writer.lines.extend([f"scf.for {head} {{", *body, "}"])
