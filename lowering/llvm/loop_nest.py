"""The loop nest that a kernel is emitted as: iteration space, vectorization, induction variables, and phases.

The emitters of a nest share one `LoopNest`. Input is the structure of a kernel, output the text of loops on vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import AffineForm, Node, Structure
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, first_lanes
from oneflow.lowering.llvm.writer import Index, MemRef, Writer, memory_type, view

#: Writes the body of a loop for an induction variable and the values that the loop carries; returns the next values.
LoopBody = Callable[[str, list[LaneValue]], list[LaneValue]]


class Vectorized(Enum):
    """The loops that are vectorized.

    INNER: lanes are iterations of the last inner loop; a reduction ends with the reduction of the lanes.
    OUTER: lanes are iterations of the last outer loop; a reduction has one accumulator per lane.
    NONE: no lanes.
    """

    INNER = "inner"
    OUTER = "outer"
    NONE = "none"


@dataclass
class LoopNest:
    """The loop nest of a kernel while it is written.

    Attributes:
        kernel, structure: what is emitted.
        vectorized: which loops are vectorized.
        space_of: the iteration space of the kernel, with code for its sizes in a writer.
        writer: the function that is written.
        vector: the vectorized loop.
        width: the number of lanes.
        indices: the induction variables of the loops around the current point, by loop id.
        captured: the scalars that bodies capture.
        temporaries: the pointers of scratch buffers, which the function releases at its end.
    """

    kernel: Kernel
    structure: Structure
    vectorized: Vectorized
    space_of: Callable[[Kernel, Structure, Writer], IterationSpace] = IterationSpace
    writer: Writer = field(default_factory=Writer)
    vector: Loop | None = None
    width: int | None = None
    indices: dict[int, Index] = field(default_factory=dict)
    captured: dict[ir.Value, LaneValue] = field(default_factory=dict)
    temporaries: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = self.space_of(self.kernel, self.structure, self.writer)

    @property
    def lane_count(self) -> int:
        """The number of lanes; 1 for scalars."""
        return self.width or 1

    def is_vector(self, loop: Loop) -> bool:
        """Whether a loop is a vectorized inner loop."""
        return self.vectorized is Vectorized.INNER and loop is self.vector

    # Lanes

    @property
    def scalars(self) -> Lanes:
        """No lanes."""
        return Lanes(self.writer, self.kernel, None, captured=self.captured)

    def lanes(
        self, mask: str | None = None, preheader: list[str] | None = None, active: Index | None = None,
        loop: Loop | None = None,
    ) -> Lanes:  # fmt: skip
        """Lanes along `loop`, by default the vectorized loop."""
        captured, vector = self.captured, loop or self.vector
        return Lanes(self.writer, self.kernel, self.width, mask, preheader, captured, active, vector)

    def mask(self, begin: str, end: Index) -> str:
        """The mask of the lanes before `end` for a vector that begins at `begin`."""
        return first_lanes(self.writer, self.writer.binary("subi", end, begin), self.lane_count)

    # Loops

    def loop(
        self, begin: Index, end: Index, step: int, carried: list[LaneValue], body: LoopBody,
        hoisted: Sequence[str] = (),
    ) -> list[LaneValue]:  # fmt: skip
        """Writes an `scf.for` that carries values; what `body` adds to `hoisted` is written before the loop."""
        w, iv = self.writer, self.writer.fresh()
        names = [LaneValue(w.fresh(), v.element, v.is_vector, None) for v in carried]
        with w.buffered() as lines:
            after = body(iv, names)
        w.lines.extend(hoisted)
        head = f"{iv} = {w.index(begin)} to {w.index(end)} step {w.index(step)}"
        if not carried:
            w.lines.extend([f"scf.for {head} {{", *lines, "}"])
            return []
        types = ", ".join(f"vector<{self.width}x{v.element}>" if v.is_vector else v.element for v in carried)
        inits = ", ".join(f"{n.name} = {v.name}" for n, v in zip(names, carried, strict=True))
        with w.buffered() as tail:
            pairs, lanes = zip(after, carried, strict=True), self.lanes()
            ends = ", ".join(lanes.broadcast(a) if v.is_vector else a.name for a, v in pairs)
        result = w.fresh()
        w.lines.extend(
            [f"{result}:{len(carried)} = scf.for {head} iter_args({inits}) -> ({types}) {{", *lines, *tail]
        )
        w.lines.extend([f"scf.yield {ends} : {types}", "}"])
        return [LaneValue(f"{result}#{i}", v.element, v.is_vector) for i, v in enumerate(carried)]

    def plain_loop(self, begin: Index, end: Index, step: int, body: Callable[[str], None]) -> None:
        """Writes an `scf.for` that carries no values."""

        def write(iv: str, carried: list[LaneValue]) -> list[LaneValue]:
            body(iv)
            return carried

        self.loop(begin, end, step, [], write)

    def index(self, form: AffineForm) -> Index:
        """The value of an affine form of the loops at the current point."""
        total: Index = form.constant
        for loop, coefficient in form.terms:
            total = self.writer.add(total, self.writer.mul(self.indices[loop], coefficient))
        return total

    # Scratch buffers

    def allocate(self, shape: Sequence[Index], element: str) -> MemRef:
        """Allocates a scratch buffer of the kernel."""
        size = self.writer.mul(self.writer.product(shape), max(element_bits(element) // 8, 1))
        call = f"func.call @oneflow_rt_temporary({self.writer.index(size)}) : (index) -> memref<1xi8>"
        self.temporaries.append(self.writer.op(call))
        return view(self.writer, self.temporaries[-1], shape, memory_type(element))


def phases_of(structure: Structure) -> dict[Node, int]:
    """The phase of each node; a node that reads a finished reduction runs in a later phase than the reduction.

    Each phase has one inner loop nest. A node without inner loops runs before the inner loop nest of its phase.
    """
    phases: dict[Node, int] = {}
    producers = {r: (n, i) for n in structure.nodes for i, r in enumerate(n.results)}
    for node in structure.nodes:
        phase = 0
        for use in (*node.inputs, *node.outputs):
            if use.value in producers:
                producer, result = producers[use.value]
                phase = max(phase, phases[producer] + int(is_finished_by_loops(producer, result)))
        phases[node] = phase
    return phases


def is_finished_by_loops(node: Node, result: int) -> bool:
    """Whether the result with index `result` of a node is a reduction, which is finished after the inner loops."""
    return bool(node.nonunit_reductions) and not node.is_scan_result(result)
