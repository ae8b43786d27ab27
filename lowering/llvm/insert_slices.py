"""Kernels of `tensor.insert_slice` operations: cat, stack, pad, updates of slices.

Each step is a separate function over the thread pool: the destination is filled or copied first, then each part is
inserted. Elements that are contiguous in both the part and the destination are copied as one run of vectors. Output
is the functions as MLIR text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.llvm.body_cloner import captured_scalar
from oneflow.lowering.llvm.contiguous_runs import Cursor, RunWriter
from oneflow.lowering.llvm.kernel import Kernel, Tensor
from oneflow.lowering.llvm.lanes import Lanes
from oneflow.lowering.llvm.parallel_range import function_text, launch_text, steps_of
from oneflow.lowering.llvm.writer import Index, Writer, memory_type, reference, view
from oneflow.passes.walk import returned_values

#: The most tensors that are interleaved: a part of a vector of each is joined to one vector.
MAX_INTERLEAVED = 4
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Part:
    """A tensor at `offsets` of the destination, with `strides` between its elements."""

    source: Tensor
    offsets: tuple[int | ir.Value, ...]
    strides: tuple[int, ...]


def emit_insert_slices(kernel: Kernel) -> str:
    """The functions of a kernel of `tensor.insert_slice` operations, as MLIR text.

    Raises:
        Unsupported: the kernel has other operations.
    """
    destination, (last,) = kernel.results[0], returned_values(kernel.block)
    parts: list[Part] = []
    while not isinstance(last, ir.BlockArgument) and last.owner.name == "tensor.insert_slice":
        parts.insert(0, _part(kernel, last.owner))
        last = last.owner.operands[1]
    if not parts:
        raise Unsupported("a kernel without insertions")
    if _is_interleaving(parts, destination):
        return _launch_steps(kernel, ["", _CopyStep(kernel, destination, 1).interleave(parts)])
    steps = [_CopyStep(kernel, destination, n + 1).insert(part) for n, part in enumerate(parts)]
    return _launch_steps(kernel, [_CopyStep(kernel, destination, 0).begin(last), *steps], kernel.tensors.get(last))


def _launch_steps(kernel: Kernel, steps: list[str], root: Tensor | None = None) -> str:
    """The functions of steps (empty texts are skipped), and the function that calls them in order.

    The first step is skipped at run time where the destination has the memory of `root`, which the step would copy.
    """
    calls = [
        f"func.call {reference(kernel.name + f'_{n}_launch')}({', '.join(kernel.names)}) : ({kernel.types()}) -> ()"
        for n, text in enumerate(steps) if text
    ]  # fmt: skip
    if steps[0] and root is not None:
        pointers = root.pointer, kernel.results[0].pointer
        calls[0] = "\n".join(
            [
                *(f"%at{n} = memref.extract_aligned_pointer_as_index {p} : memref<1xi8> -> index"
                  for n, p in enumerate(pointers)),
                "%distinct = arith.cmpi ne, %at0, %at1 : index",
                f"scf.if %distinct {{ {calls[0]} }}",
            ]
        )  # fmt: skip
    head = f"func.func private {reference(kernel.name + '_launch')}({kernel.signature()}) {{"
    return "\n".join([*filter(None, steps), head, *calls, "return", "}"])


def _is_interleaving(parts: list[Part], destination: Tensor) -> bool:
    """Whether the elements of parts alternate in the destination, as in a stack along a new last dimension."""
    if not destination.shape:
        return False
    *outer, last = destination.shape
    have_one_column = all(p.source.shape == (*outer, 1) and set(p.strides) == {1} for p in parts)
    offsets = [p.offsets for p in parts]
    return (
        have_one_column
        and last == len(parts) <= MAX_INTERLEAVED
        and offsets == [(*[0] * len(outer), n) for n in range(len(parts))]
    )


def _part(kernel: Kernel, op: ir.Operation) -> Part:
    """The part that an insertion inserts."""
    source = kernel.tensors.get(op.operands[0])
    strides = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
    offsets = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    if source is None or len(source.shape) != len(offsets) or _DYNAMIC in strides:
        raise Unsupported("a part that the kernel computes, of lower rank or with dynamic strides")
    dynamic = iter(list(op.operands)[2:])
    return Part(source, tuple(next(dynamic) if o == _DYNAMIC else o for o in offsets), tuple(strides))


class _CopyStep:
    """One function over the thread pool."""

    def __init__(self, kernel: Kernel, destination: Tensor, number: int) -> None:
        self.kernel = replace(kernel, name=f"{kernel.name}_{number}")
        self.destination, self.writer = destination, Writer()
        self.element = memory_type(destination.element)
        self.lanes = Lanes(self.writer, kernel, None)
        self.runs = RunWriter(self.writer, self.element, kernel.target.vector_bytes)
        self.limits = kernel.target.kernels.loops
        self.chunk = self.limits.copy_chunk

    def begin(self, root: ir.Value) -> str:
        """Fills or copies the destination before parts are inserted; an empty text where it has no initial values."""
        owner = None if isinstance(root, ir.BlockArgument) else root.owner
        source = self.kernel.tensors.get(root)
        if source is not None:
            zeros = (0,) * len(source.shape)
            return "" if source is self.destination else self.insert(Part(source, zeros, (1,) * len(zeros)))
        if owner is None or owner.name not in ("linalg.fill", "tensor.empty"):
            raise Unsupported("a destination that the kernel computes")
        return self._fill(owner.operands[0]) if owner.name == "linalg.fill" else ""

    def _fill(self, value: ir.Value) -> str:
        """Fills the destination with one value."""
        w, scalar = self.writer, captured_scalar(self.lanes, value)
        name = scalar.name
        if self.element != scalar.element:
            name = w.op(f"arith.extui {name} : {scalar.element} to {self.element}")
        total = w.product(self.destination.shape)
        target = self._flat(self.destination)
        vector = self.runs.splat(name)
        self._move_to_head()

        def step(number: str) -> None:
            begin = w.mul(number, self.chunk)
            end = w.binary("minui", w.add(begin, self.chunk), total)
            self.runs.fill(w.binary("subi", end, begin), vector, target.moved(w, begin))

        return self._function(step, self._chunks_of(self.destination.shape), self.chunk)

    def insert(self, part: Part) -> str:
        """Copies a part into the destination: runs of elements that are contiguous in both."""
        w, sizes, axis = self.writer, part.source.shape, self._run_axis(part)
        run = w.product(sizes[axis:])
        offsets = [o if isinstance(o, int) else captured_scalar(self.lanes, o).name for o in part.offsets]
        source, target = self._flat(part.source), self._flat(self.destination)
        strides = [w.product(self.destination.shape[d + 1 :]) for d in range(len(sizes))]
        for offset, stride in zip(offsets, strides, strict=True):
            target = target.moved(w, w.mul(offset, stride))
        self._move_to_head()
        if axis == 0:
            return self._copy(sizes, source, target)
        # Several short runs are copied in one parallel step.
        many = isinstance(run, int) and run < self.limits.short_run
        outer, rows = (sizes[: axis - 1], sizes[axis - 1]) if many else (sizes[:axis], 1)

        def step(number: str) -> None:
            target_run = target
            rest: Index = number
            for d in reversed(range(len(outer))):
                index = w.binary("remui", rest, outer[d]) if d else rest
                rest = w.binary("divui", rest, outer[d]) if d else rest
                target_run = target_run.moved(w, w.mul(index, w.mul(strides[d], part.strides[d])))
            source_run = source.moved(w, w.mul(number, w.mul(rows, run)) if outer else 0)
            self._rows(rows, run, source_run, target_run, w.mul(strides[axis - 1], part.strides[axis - 1]))

        return self._function(step, lambda x: x.product(outer), steps_of((rows, run), self.limits.dynamic_steps))

    def interleave(self, parts: list[Part]) -> str:
        """Stores elements of all parts alternately: vectors of each part are joined and shuffled."""
        w, lanes, shape = self.writer, self.runs.lanes // MAX_INTERLEAVED, parts[0].source.shape
        sources, target = [self._flat(part.source) for part in parts], self._flat(self.destination)
        total = w.product(shape)
        self._move_to_head()

        def step(number: str) -> None:
            begin = w.mul(number, self.chunk)
            end = w.binary("minui", w.add(begin, self.chunk), total)
            middle = w.binary("subi", end, w.binary("remui", end, lanes))
            with self._loop(begin, middle, lanes) as at:
                self._interleave_vectors(sources, target, at, lanes)
            with self._loop(middle, end, 1) as at:
                for n, source in enumerate(sources):
                    value = w.op(f"memref.load {source.element(w, at)}")
                    w.line(f"memref.store {value}, {target.element(w, w.add(w.mul(at, len(parts)), n))}")

        return self._function(step, self._chunks_of(shape), self.chunk)

    def _interleave_vectors(self, sources: Sequence[Cursor], target: Cursor, at: Index, lanes: int) -> None:
        """Stores `lanes` elements of each source alternately."""
        w, count, element = self.writer, len(sources), self.element
        order = [i % count * lanes + i // count for i in range(count * lanes)]
        kind, joined = f"vector<{lanes}x{element}>", f"vector<{count * lanes}x{element}>"
        first, *others = [w.op(f"vector.load {source.element(w, at)}, {kind}") for source in sources]
        for n, vector in enumerate(others, 1):
            picked = order if n == count - 1 else list(range((n + 1) * lanes))
            first = w.op(f"vector.shuffle {first}, {vector} {picked} : vector<{n * lanes}x{element}>, {kind}")
        w.line(f"vector.store {first}, {target.element(w, w.mul(at, count))}, {joined}")

    def _copy(self, sizes: tuple[Index, ...], source: Cursor, target: Cursor) -> str:
        """Copies one run in chunks."""
        w = self.writer

        def step(number: str) -> None:
            total, begin = w.product(sizes), w.mul(number, self.chunk)
            length = w.binary("minui", w.binary("subi", total, begin), self.chunk)
            self.runs.copy(length, source.moved(w, begin), target.moved(w, begin))

        return self._function(step, self._chunks_of(sizes), self.chunk)

    def _run_axis(self, part: Part) -> int:
        """The first dimension of the runs: from there on the part spans the destination without gaps."""
        sizes, axis = part.source.shape, len(part.source.shape)
        while axis and part.strides[axis - 1] == 1:
            axis -= 1
            if sizes[axis] != self.destination.shape[axis] or part.offsets[axis] != 0:
                break
        return axis

    def _rows(self, count: Index, run: Index, source: Cursor, target: Cursor, stride: Index) -> None:
        """Copies `count` runs that are contiguous in the source and `stride` elements apart in the target."""
        w = self.writer
        with self._loop(0, count, 1) as row:
            source_run, target_run = source.moved(w, w.mul(row, run)), target.moved(w, w.mul(row, stride))
            if run == 1:
                value = w.op(f"memref.load {source_run.element(w, 0)}")
                w.line(f"memref.store {value}, {target_run.element(w, 0)}")
            else:
                self.runs.copy(run, source_run, target_run)

    @contextmanager
    def _loop(self, begin: Index, end: Index, step: int) -> Iterator[str]:
        """Writes a loop around the lines that are written inside."""
        w, iv = self.writer, self.writer.fresh()
        with w.block(f"scf.for {iv} = {w.index(begin)} to {w.index(end)} step {w.index(step)} {{"):
            yield iv

    def _flat(self, tensor: Tensor) -> Cursor:
        """The begin of a tensor as a one-dimensional memref."""
        return Cursor(view(self.writer, tensor.pointer, [self.writer.product(tensor.shape)], self.element))

    def _move_to_head(self) -> None:
        """Moves the lines so far out of the loop over parallel steps."""
        self.writer.head, self.writer.lines = [*self.writer.head, *self.writer.lines], []

    def _chunks_of(self, shape: Sequence[Index]) -> Callable[[Writer], Index]:
        """The number of chunks of a tensor."""
        return lambda writer: writer.ceildiv(writer.product(shape), self.chunk)

    def _function(self, step: Callable[[str], None], count: Callable[[Writer], Index], work: int) -> str:
        """The function over parallel steps, and its launch."""
        w, launch = self.writer, Writer()
        with w.buffered() as lines, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            step("%step")
        text = function_text(self.kernel, [*w.head, *lines])
        return f"{text}\n{launch_text(self.kernel, launch, count(launch), work)}"
