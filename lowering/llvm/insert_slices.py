"""Kernels of `tensor.insert_slice` operations: cat, stack, pad, updates of slices.

The destination is filled or copied, then each part is inserted, by functions over the thread pool. Parts of
equal sizes share one function, so that the code of many parts stays small. Elements that are contiguous in both the
part and the destination are copied as one run of vectors. Output is the functions as MLIR text.
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
from oneflow.lowering.llvm.writer import POINTER, Index, Writer, memory_type, reference, view
from oneflow.passes.walk import returned_values

#: The most tensors that are interleaved: parts of a vector from each tensor are joined to one vector.
MAX_INTERLEAVED = 4
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Part:
    """A tensor at `offsets` of the destination, with `strides` between its elements."""

    source: Tensor
    offsets: tuple[int | ir.Value, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """The copy of a part to any position of a destination: parts with equal copies share a function.

    Dynamic sizes have the names of parameters. From dimension `axis` on, the part and the destination are contiguous.
    """

    sizes: tuple[Index, ...]
    target_sizes: tuple[Index, ...]
    strides: tuple[int, ...]
    axis: int

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The parameters of the function: the part, the destination, the first element there, and dynamic sizes."""
        names = dict.fromkeys(size for size in (*self.sizes, *self.target_sizes) if isinstance(size, str))
        return [("%source", POINTER), ("%target", POINTER), ("%first", "index"), *((n, "index") for n in names)]


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
    launch = _Launch(kernel, destination)
    if _is_interleaving(parts, destination):
        launch.interleave(parts)
        return launch.text()
    launch.begin(last)
    for part in parts:
        launch.insert(part)
    return launch.text()


class _Launch:
    """The function that calls the steps of a kernel in order, and the functions of the steps."""

    def __init__(self, kernel: Kernel, destination: Tensor) -> None:
        self.kernel, self.destination, self.writer = kernel, destination, Writer()
        self.lanes = Lanes(self.writer, kernel, None)
        self.copies: dict[Copy, Kernel] = {}
        self.functions: list[str] = []

    def text(self) -> str:
        """All functions."""
        head = f"func.func private {reference(self.kernel.name + '_launch')}({self.kernel.signature()}) {{"
        return "\n".join([*self.functions, head, self.writer.text(), "return", "}"])

    def interleave(self, parts: list[Part]) -> None:
        """Stores elements of all parts alternately."""
        step = self._step(self.kernel.parameters)
        self.functions.append(step.interleave(parts))
        self._call(step.kernel, self.kernel.names)

    def begin(self, root: ir.Value) -> None:
        """Fills or copies the destination, before parts are inserted, where it has initial values.

        The copy is skipped at run time where the destination has the memory of `root`.
        """
        owner = None if isinstance(root, ir.BlockArgument) else root.owner
        source = self.kernel.tensors.get(root)
        if source is not None:
            if source is not self.destination:
                self._insert_unless_same(Part(source, (0,) * len(source.shape), (1,) * len(source.shape)))
            return
        if owner is None or owner.name not in ("linalg.fill", "tensor.empty"):
            raise Unsupported("a destination that the kernel computes")
        if owner.name == "linalg.fill":
            step = self._step(self.kernel.parameters)
            self.functions.append(step.fill(owner.operands[0]))
            self._call(step.kernel, self.kernel.names)

    def _insert_unless_same(self, whole: Part) -> None:
        """Copies a part that is the whole destination, unless both have the same memory."""
        w = self.writer
        pointers = whole.source.pointer, self.destination.pointer
        addresses = [w.op(f"memref.extract_aligned_pointer_as_index {p} : memref<1xi8> -> index") for p in pointers]
        with w.block(f"scf.if {w.op(f'arith.cmpi ne, {addresses[0]}, {addresses[1]} : index')} {{"):
            self.insert(whole)

    def insert(self, part: Part) -> None:
        """Copies a part into the destination."""
        w, shape = self.writer, self.destination.shape
        names: dict[str, str] = {}
        sizes, target_sizes = (tuple(_renamed(s, names) for s in of) for of in (part.source.shape, shape))
        copy = Copy(sizes, target_sizes, part.strides, _run_axis(part, self.destination))
        if copy not in self.copies:
            step = self._step(copy.parameters)
            self.functions.append(step.insert(copy))
            self.copies[copy] = step.kernel
        first: Index = 0
        for d, offset in enumerate(part.offsets):
            begin = offset if isinstance(offset, int) else captured_scalar(self.lanes, offset).name
            first = w.add(first, w.mul(begin, w.product(shape[d + 1 :])))
        self._call(self.copies[copy], [part.source.pointer, self.destination.pointer, w.index(first), *names])

    def _step(self, parameters: list[tuple[str, str]]) -> _CopyStep:
        """The next function, with its parameters."""
        name = f"{self.kernel.name}_{len(self.functions)}"
        return _CopyStep(replace(self.kernel, name=name, parameters=parameters))

    def _call(self, function: Kernel, arguments: Sequence[str]) -> None:
        """Calls the function of a step."""
        callee = reference(function.name + "_launch")
        self.writer.line(f"func.call {callee}({', '.join(arguments)}) : ({function.types()}) -> ()")


def _renamed(size: Index, names: dict[str, str]) -> Index:
    """A size with the name of a parameter for a dynamic size; equal sizes have equal names."""
    return names.setdefault(size, f"%size{len(names)}") if isinstance(size, str) else size


def _run_axis(part: Part, destination: Tensor) -> int:
    """The first dimension of the runs: from there on the part spans the destination without gaps."""
    sizes, axis = part.source.shape, len(part.source.shape)
    while axis and part.strides[axis - 1] == 1:
        axis -= 1
        if sizes[axis] != destination.shape[axis] or part.offsets[axis] != 0:
            break
    return axis


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

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.destination, self.writer = kernel, kernel.results[0], Writer()
        self.element = memory_type(self.destination.element)
        self.runs = RunWriter(self.writer, self.element, kernel.target.vector_bytes)
        self.limits = kernel.target.kernels.loops
        self.chunk = self.limits.copy_chunk

    def fill(self, value: ir.Value) -> str:
        """Fills the destination with one value."""
        w, scalar = self.writer, captured_scalar(Lanes(self.writer, self.kernel, None), value)
        name = scalar.name
        if self.element != scalar.element:
            name = w.op(f"arith.extui {name} : {scalar.element} to {self.element}")
        total = w.product(self.destination.shape)
        target = self._flat(self.destination)
        vector = self.runs.splat(name)
        self._move_to_head()

        def step(chunk_index: str) -> None:
            begin = w.mul(chunk_index, self.chunk)
            end = w.binary("minui", w.add(begin, self.chunk), total)
            self.runs.fill(w.binary("subi", end, begin), vector, target.advanced(w, begin))

        return self._function(step, self._chunks_of(self.destination.shape), self.chunk)

    def insert(self, copy: Copy) -> str:
        """Copies a part into the destination: runs of elements that are contiguous in both."""
        w, sizes, axis = self.writer, copy.sizes, copy.axis
        run = w.product(sizes[axis:])
        element = self.destination.element
        source = self._flat(Tensor("%source", sizes, element))
        target = self._flat(Tensor("%target", copy.target_sizes, element)).advanced(w, "%first")
        strides = [w.product(copy.target_sizes[d + 1 :]) for d in range(len(sizes))]
        self._move_to_head()
        if axis == 0:
            return self._copy(sizes, source, target)
        # Several short runs are copied in one parallel step.
        is_short = isinstance(run, int) and run < self.limits.short_run
        outer, rows = (sizes[: axis - 1], sizes[axis - 1]) if is_short else (sizes[:axis], 1)

        def step(step_index: str) -> None:
            target_run = target
            rest: Index = step_index
            for d in reversed(range(len(outer))):
                index = w.binary("remui", rest, outer[d]) if d else rest
                rest = w.binary("divui", rest, outer[d]) if d else rest
                target_run = target_run.advanced(w, w.mul(index, w.mul(strides[d], copy.strides[d])))
            source_run = source.advanced(w, w.mul(step_index, w.mul(rows, run)) if outer else 0)
            self._rows(rows, run, source_run, target_run, w.mul(strides[axis - 1], copy.strides[axis - 1]))

        return self._function(step, lambda x: x.product(outer), steps_of((rows, run), self.limits.dynamic_steps))

    def interleave(self, parts: list[Part]) -> str:
        """Stores elements of all parts alternately: vectors of each part are joined and shuffled."""
        w, lanes, shape = self.writer, self.runs.lanes // MAX_INTERLEAVED, parts[0].source.shape
        sources, target = [self._flat(part.source) for part in parts], self._flat(self.destination)
        total = w.product(shape)
        self._move_to_head()

        def step(chunk_index: str) -> None:
            begin = w.mul(chunk_index, self.chunk)
            end = w.binary("minui", w.add(begin, self.chunk), total)
            middle = w.binary("subi", end, w.binary("remui", end, lanes))
            with self._loop(begin, middle, lanes) as offset:
                self._interleave_vectors(sources, target, offset, lanes)
            with self._loop(middle, end, 1) as offset:
                for n, source in enumerate(sources):
                    value = w.op(f"memref.load {source.element(w, offset)}")
                    w.line(f"memref.store {value}, {target.element(w, w.add(w.mul(offset, len(parts)), n))}")

        return self._function(step, self._chunks_of(shape), self.chunk)

    def _interleave_vectors(self, sources: Sequence[Cursor], target: Cursor, offset: Index, lanes: int) -> None:
        """Stores `lanes` elements of each source, from `offset` on, alternately."""
        w, count, element = self.writer, len(sources), self.element
        order = [i % count * lanes + i // count for i in range(count * lanes)]
        kind, joined = f"vector<{lanes}x{element}>", f"vector<{count * lanes}x{element}>"
        first, *others = [w.op(f"vector.load {source.element(w, offset)}, {kind}") for source in sources]
        for n, vector in enumerate(others, 1):
            picked = order if n == count - 1 else list(range((n + 1) * lanes))
            first = w.op(f"vector.shuffle {first}, {vector} {picked} : vector<{n * lanes}x{element}>, {kind}")
        w.line(f"vector.store {first}, {target.element(w, w.mul(offset, count))}, {joined}")

    def _copy(self, sizes: tuple[Index, ...], source: Cursor, target: Cursor) -> str:
        """Copies one run in chunks."""
        w = self.writer

        def step(chunk_index: str) -> None:
            total, begin = w.product(sizes), w.mul(chunk_index, self.chunk)
            length = w.binary("minui", w.binary("subi", total, begin), self.chunk)
            self.runs.copy(length, source.advanced(w, begin), target.advanced(w, begin))

        return self._function(step, self._chunks_of(sizes), self.chunk)

    def _rows(self, count: Index, run: Index, source: Cursor, target: Cursor, stride: Index) -> None:
        """Copies `count` runs that are contiguous in the source and `stride` elements apart in the target."""
        w = self.writer
        with self._loop(0, count, 1) as row:
            source_run, target_run = source.advanced(w, w.mul(row, run)), target.advanced(w, w.mul(row, stride))
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
        """The start of a tensor as a one-dimensional memref."""
        memory = view(self.writer, tensor.pointer, [self.writer.product(tensor.shape)], self.element)
        return Cursor(memory, tensor.pointer)

    def _move_to_head(self) -> None:
        """Moves the lines that have been written out of the loop over parallel steps."""
        self.writer.head, self.writer.lines = [*self.writer.head, *self.writer.lines], []

    def _chunks_of(self, shape: Sequence[Index]) -> Callable[[Writer], Index]:
        """The number of chunks of a tensor."""
        return lambda writer: writer.ceildiv(writer.product(shape), self.chunk)

    def _function(self, step: Callable[[str], None], count: Callable[[Writer], Index], work: int) -> str:
        """The function over parallel steps, and its launch."""
        w, launch = self.writer, Writer()
        with w.buffered() as lines, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            step("%step")
        text = function_text(self.kernel, [*w.head, *lines], is_inlined=False)
        return f"{text}\n{launch_text(self.kernel, launch, count(launch), work)}"
