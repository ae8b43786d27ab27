"""Kernels that insert tensors into a larger one: cat, stack, pad, updates of slices.

Each step is a separate function over the thread pool: the destination is filled or copied first, then each part is
inserted. Elements that are contiguous in both the part and the destination are copied as one run of vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.llvm.body import Lanes, outside_value
from oneflow.lowering.llvm.kernel import Kernel, Tensor, launch_text
from oneflow.lowering.llvm.writer import Index, Writer, memory_type, view
from oneflow.passes.walk import returned_values

#: The most tensors that are interleaved in registers.
MAX_INTERLEAVED = 4
#: A flat view: name and type.
Memory = tuple[str, str]
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Part:
    """A tensor at `offsets` of the destination, with `strides` between its elements."""

    source: Tensor
    offsets: tuple[int | ir.Value, ...]
    strides: tuple[int, ...]


def emit_placement(kernel: Kernel) -> str:
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
    steps = [_CopyStep(kernel, destination, n + 1).place(part) for n, part in enumerate(parts)]
    return _launch_steps(kernel, [_CopyStep(kernel, destination, 0).begin(last), *steps], kernel.tensors.get(last))


def _launch_steps(kernel: Kernel, steps: list[str], root: Tensor | None = None) -> str:
    """The functions of steps (empty texts are skipped), and the function that calls them in order.

    The first step is skipped at run time where the destination has the memory of `root`, which the step would copy.
    """
    calls = [
        f"func.call @{kernel.name}_{n}_launch({', '.join(kernel.names)}) : ({kernel.types()}) -> ()"
        for n, text in enumerate(steps) if text
    ]  # fmt: skip
    if steps[0] and root is not None:
        pointers = root.pointer, kernel.results[0].pointer
        calls[0] = "\n".join(
            [
                *(f"%at{n} = memref.extract_aligned_pointer_as_index {p} : memref<1xi8> -> index"
                  for n, p in enumerate(pointers)),
                "%apart = arith.cmpi ne, %at0, %at1 : index",
                f"scf.if %apart {{ {calls[0]} }}",
            ]
        )  # fmt: skip
    head = f"func.func private @{kernel.name}_launch({kernel.signature()}) {{"
    return "\n".join([*filter(None, steps), head, *calls, "return", "}"])


def _is_interleaving(parts: list[Part], destination: Tensor) -> bool:
    """Whether the elements of parts alternate in the destination, as in a stack along a new last dimension."""
    if not destination.shape:
        return False
    *outer, last = destination.shape
    alike = all(p.source.shape == (*outer, 1) and set(p.strides) == {1} for p in parts)
    offsets = [p.offsets for p in parts]
    return (
        alike
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
        self.run_lanes = kernel.target.vector_bytes
        self.chunk = kernel.target.kernels.loops.copy_chunk

    def begin(self, root: ir.Value) -> str:
        """Fills or copies the destination before parts are inserted; an empty text where it has no initial values."""
        owner = None if isinstance(root, ir.BlockArgument) else root.owner
        source = self.kernel.tensors.get(root)
        if source is not None:
            zeros = (0,) * len(source.shape)
            return "" if source is self.destination else self.place(Part(source, zeros, (1,) * len(zeros)))
        if owner is None or owner.name not in ("linalg.fill", "tensor.empty"):
            raise Unsupported("a destination that the kernel computes")
        return self._fill(owner.operands[0]) if owner.name == "linalg.fill" else ""

    def _fill(self, value: ir.Value) -> str:
        """Fills the destination with one value."""
        w = self.writer
        scalar = outside_value(self.lanes, value)
        name = scalar.name
        if self.element != scalar.element:
            name = w.op(f"arith.extui {name} : {scalar.element} to {self.element}")
        total = w.product(self.destination.shape)
        target = self._flat(self.destination)
        kind = f"vector<{self.run_lanes}x{self.element}>"
        run = w.op(f"vector.broadcast {name} : {self.element} to {kind}")
        w.head, w.lines = [*w.head, *w.lines], []

        def body(step: str) -> None:
            begin = w.mul(step, self.chunk)
            end = w.binary("minui", w.add(begin, self.chunk), total)
            self._run(w.binary("subi", end, begin), lambda at: run, target, begin)

        return self._function(
            body, self._count(lambda x: x.ceildiv(x.product(self.destination.shape), self.chunk)), self.chunk
        )

    def place(self, part: Part) -> str:
        """Copies a part into the destination: runs of elements that are contiguous in both."""
        w = self.writer
        axis = self._run_axis(part)
        sizes = part.source.shape
        run = w.product(sizes[axis:])
        offsets = [o if isinstance(o, int) else outside_value(self.lanes, o).name for o in part.offsets]
        source, target = self._flat(part.source), self._flat(self.destination)
        strides = [w.product(self.destination.shape[d + 1 :]) for d in range(len(sizes))]
        start: Index = 0
        for offset, distance in zip(offsets, strides, strict=True):
            start = w.add(start, w.mul(offset, distance))
        w.head, w.lines = [*w.head, *w.lines], []
        if axis == 0:
            return self._copy(sizes, source, target, start)
        # Several short runs are copied in one parallel step.
        many = isinstance(run, int) and run < self.kernel.target.kernels.loops.short_run
        steps, inner = (sizes[: axis - 1], sizes[axis - 1]) if many else (sizes[:axis], 1)

        def body(step: str) -> None:
            at: Index = start
            rest: Index = step
            for d in reversed(range(len(steps))):
                digit = w.binary("remui", rest, steps[d]) if d else rest
                rest = w.binary("divui", rest, steps[d]) if d else rest
                at = w.add(at, w.mul(digit, w.mul(strides[d], part.strides[d])))
            begin = w.mul(step, w.mul(inner, run)) if steps else 0
            self._rows(inner, run, (source, begin), (target, at), w.mul(strides[axis - 1], part.strides[axis - 1]))

        work = math.prod(n if isinstance(n, int) else 64 for n in (inner, run))
        return self._function(body, self._count(lambda x: x.product(steps)), work)

    def interleave(self, parts: list[Part]) -> str:
        """Stores elements of all parts alternately: vectors of each part are joined and shuffled."""
        w, count, lanes = self.writer, len(parts), self.run_lanes // 4
        sources, target = [self._flat(part.source) for part in parts], self._flat(self.destination)
        total = w.product(parts[0].source.shape)
        order = [i % count * lanes + i // count for i in range(count * lanes)]
        kind, joined = f"vector<{lanes}x{self.element}>", f"vector<{count * lanes}x{self.element}>"
        w.head, w.lines = [*w.head, *w.lines], []

        def vectors(at: Index) -> None:
            loaded = [w.op(f"vector.load {name}[{w.index(at)}] : {memory}, {kind}") for name, memory in sources]
            joined_vectors = loaded[0]
            for n, vector in enumerate(loaded[1:], 1):
                picked = order if n == count - 1 else list(range((n + 1) * lanes))
                joined_vectors = w.op(
                    f"vector.shuffle {joined_vectors}, {vector} {picked} : vector<{n * lanes}x{self.element}>, {kind}"
                )
            w.line(f"vector.store {joined_vectors}, {target[0]}[{w.index(w.mul(at, count))}] : {target[1]}, {joined}")

        def elements(at: Index) -> None:
            for n, (name, memory) in enumerate(sources):
                value = w.op(f"memref.load {name}[{w.index(at)}] : {memory}")
                place = w.index(w.add(w.mul(at, count), n))
                w.line(f"memref.store {value}, {target[0]}[{place}] : {target[1]}")

        def body(step: str) -> None:
            begin = w.mul(step, self.chunk)
            end = w.binary("minui", w.add(begin, self.chunk), total)
            middle = w.binary("subi", end, w.binary("remui", end, lanes))
            for first, last, width, inside in ((begin, middle, lanes, vectors), (middle, end, 1, elements)):
                iv = w.fresh()
                with w.block(f"scf.for {iv} = {w.index(first)} to {w.index(last)} step {w.index(width)} {{"):
                    inside(iv)

        return self._function(
            body, self._count(lambda x: x.ceildiv(x.product(parts[0].source.shape), self.chunk)), self.chunk
        )

    def _copy(self, sizes: tuple[Index, ...], source: Memory, target: Memory, start: Index) -> str:
        """Copies one run in chunks."""
        w, kind = self.writer, f"vector<{self.run_lanes}x{self.element}>"

        def body(step: str) -> None:
            total, begin = w.product(sizes), w.mul(step, self.chunk)
            length = w.binary("minui", w.binary("subi", total, begin), self.chunk)

            def load(at: Index) -> str:
                return w.op(f"vector.load {source[0]}[{w.index(w.add(begin, at))}] : {source[1]}, {kind}")

            self._run(length, load, target, w.add(start, begin), (source, begin))

        return self._function(body, self._count(lambda x: x.ceildiv(x.product(sizes), self.chunk)), self.chunk)

    def _run_axis(self, part: Part) -> int:
        """The first dimension of the runs: from there on the part spans the destination without gaps."""
        sizes, axis = part.source.shape, len(part.source.shape)
        while axis and part.strides[axis - 1] == 1:
            axis -= 1
            if sizes[axis] != self.destination.shape[axis] or part.offsets[axis] != 0:
                break
        return axis

    def _rows(
        self, inner: Index, run: Index, source: tuple[Memory, Index], target: tuple[Memory, Index],
        distance: Index,
    ) -> None:  # fmt: skip
        """Copies `inner` runs that are contiguous in the source and `distance` elements apart in the target."""
        w, (memory, begin), (place, at) = self.writer, source, target
        row = w.fresh()
        with w.block(f"scf.for {row} = {w.index(0)} to {w.index(inner)} step {w.index(1)} {{"):
            first = w.add(begin, w.mul(row, run))
            onto = w.add(at, w.mul(row, distance))
            if run == 1:
                value = w.op(f"memref.load {memory[0]}[{w.index(first)}] : {memory[1]}")
                w.line(f"memref.store {value}, {place[0]}[{w.index(onto)}] : {place[1]}")
                return
            kind = f"vector<{self.run_lanes}x{self.element}>"

            def load(offset: Index) -> str:
                return w.op(f"vector.load {memory[0]}[{w.index(w.add(first, offset))}] : {memory[1]}, {kind}")

            self._run(run, load, place, onto, (memory, first))

    def _run(
        self,
        length: Index,
        load: Callable[[Index], str],
        target: Memory,
        begin: Index,
        source: tuple[Memory, Index] | None = None,
    ) -> None:
        """Copies one run: vectors, then the rest under a mask."""
        w, kind, masks = self.writer, f"vector<{self.run_lanes}x{self.element}>", f"vector<{self.run_lanes}xi1>"
        middle = w.floor_to(length, self.run_lanes)
        if middle != 0:
            iv = w.fresh()
            with w.block(f"scf.for {iv} = {w.index(0)} to {w.index(middle)} step {w.index(self.run_lanes)} {{"):
                value = load(iv)
                w.line(f"vector.store {value}, {target[0]}[{w.index(w.add(begin, iv))}] : {target[1]}, {kind}")
        if middle == length:
            return
        mask = w.op(f"vector.create_mask {w.index(w.binary('subi', length, middle))} : {masks}")
        if source is None:
            value = load(middle)
        else:
            (name, memory), first = source
            zero = w.constant(f"dense<{'0.0' if self.element[0] in 'fb' else '0'}>", kind)
            at = f"{name}[{w.index(w.add(first, middle))}], {mask}, {zero}"
            value = w.op(f"vector.maskedload {at} : {memory}, {masks}, {kind} into {kind}")
        at = f"{target[0]}[{w.index(w.add(begin, middle))}], {mask}, {value}"
        w.line(f"vector.maskedstore {at} : {target[1]}, {masks}, {kind}")

    def _flat(self, tensor: Tensor) -> Memory:
        """A one-dimensional memref of a tensor."""
        return view(self.writer, tensor.pointer, [self.writer.product(tensor.shape)], self.element)

    def _count(self, of: Callable[[Writer], Index]) -> tuple[Writer, Index]:
        """The number of parallel steps, with the code that computes it."""
        w = Writer()
        return w, of(w)

    def _function(self, body: Callable[[str], None], counted: tuple[Writer, Index], work: int) -> str:
        """The function over parallel steps, and its launch."""
        w = self.writer
        with w.buffered() as lines, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            body("%step")
        head = (
            f"func.func private @{self.kernel.name}({self.kernel.signature(('%lo', '%hi'))}) "
            "attributes {llvm.linkage = #llvm.linkage<internal>} {"
        )
        text = "\n".join([head, *w.head, *lines, "return", "}"])
        launch = launch_text(self.kernel, counted[0], counted[1], work, counted[0].lines)
        return f"{text}\n{launch}"
