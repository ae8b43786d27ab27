"""Where the values of a loop nest are (registers, destinations, scratch memory), and their loads and stores.

`ValueStorage` is the first of three layers of one emitter, see `loop_emitter`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Linear, Node, Structure, Unsupported, Use
from oneflow.lowering.llvm.body import Lanes, LaneValue, NeedsScalars, outside_value, zero_of
from oneflow.lowering.llvm.kernel import Kernel, Tensor
from oneflow.lowering.llvm.loops import Loop, Loops, Position, index_dims
from oneflow.lowering.llvm.writer import Index, Writer, memory_type, view
from oneflow.passes.walk import returned_values


def phases_of(structure: Structure) -> dict[Node, int]:
    """The number of the sweep in which each node runs; a node without inner loops runs before that sweep."""
    phases: dict[Node, int] = {}
    producers = {r: (n, i) for n in structure.nodes for i, r in enumerate(n.results)}
    for node in structure.nodes:
        phase = 0
        for use in (*node.inputs, *node.outputs):
            if use.value in producers:
                maker, number = producers[use.value]
                finished = bool(maker.nonunit_reductions) and not maker.is_scan_result(number)
                phase = max(phase, phases[maker] + int(finished))
        phases[node] = phase
    return phases


@dataclass
class ValueStorage:
    """The values of a structure that is emitted in one `mode`: `row`, `column` or `scalar`.

    `registers` holds the elements at the current position, `position` the current step of each loop. The lanes of a
    vector of `width` elements walk the loop `vector`.
    """

    kernel: Kernel
    structure: Structure
    mode: str
    writer: Writer = field(default_factory=Writer)

    def __post_init__(self) -> None:
        self.loops = self._make_loops(self.writer)
        self.phases = phases_of(self.structure)
        self.vector: Loop | None = None
        self.width: int | None = None
        self.position: dict[int, Index] = {}
        self.registers: dict[ir.Value, LaneValue] = {}
        self.scratch_memory: dict[ir.Value, tuple[str, str]] = {}
        self.scratch: list[str] = []
        self.prefetches = False
        self._views: dict[tuple[str, str], tuple[str, str]] = {}
        self._scalars: dict[ir.Value, LaneValue] = {}
        self.destinations = dict(zip(returned_values(self.kernel.block), self.kernel.results, strict=True))

    def _make_loops(self, writer: Writer) -> Loops:
        """The merged loops; `writer` gets the code that computes their sizes."""
        return Loops(self.kernel, self.structure, writer)

    # Reading

    def _read(self, node: Node, use: Use, lanes: Lanes) -> LaneValue:
        """An operand's element at the current position."""
        maker = next((n for n in self.structure.nodes if use.value in n.results), None)
        if maker is not None and self._in_register(maker, node, use.value):
            return self.registers[use.value]
        if maker is not None and self._is_pure_movement(maker):
            return self._load(maker, maker.inputs[0], self.kernel.tensors[maker.inputs[0].value], lanes)
        element = str(use.value.type.element_type)
        if use.value in self.destinations and maker is not None:
            return self._load(node, use, self.destinations[use.value], lanes)
        if maker is not None:
            memory, kind = self._scratch(use.value, element)
            return lanes.load(memory, kind, self._scratch_position(), element, bool(lanes.width))
        owner = None if isinstance(use.value, ir.BlockArgument) else use.value.owner
        if owner is not None and owner.name == "linalg.fill":
            return outside_value(lanes, owner.operands[0])
        if use.value not in self.kernel.tensors:
            raise Unsupported(f"an operand made by {owner.name if owner else 'another block'}")
        return self._load(node, use, self.kernel.tensors[use.value], lanes)

    def _in_register(self, maker: Node, node: Node, value: ir.Value) -> bool:
        """Whether the value that `maker` computes is in a register when `node` reads it."""
        swept = bool(maker.loops & set(self.structure.inner))
        finished = bool(maker.nonunit_reductions) and not maker.is_scan_result(maker.results.index(value))
        return value in self.registers and (not swept or finished or self.phases[maker] == self.phases[node])

    def _is_pure_movement(self, node: Node) -> bool:
        """Whether a node only permutes a tensor of the kernel: readers of such a node read the tensor directly."""
        if len(node.inputs) != 1 or len(node.body.operations) != 1 or node.nonunit_reductions:
            return False
        yielded = list(node.body.operations[0].operands)
        return yielded == [node.body.arguments[0]] and node.inputs[0].value in self.kernel.tensors

    def _destination_value(self, node: Node, number: int, lanes: Lanes) -> LaneValue:
        """The element of a result's destination before the kernel writes it."""
        use = node.outputs[number]
        owner = None if isinstance(use.value, ir.BlockArgument) else use.value.owner
        element = str(use.value.type.element_type)
        if owner is not None and owner.name == "linalg.fill":
            return outside_value(lanes, owner.operands[0])
        is_destination = use.value in self.kernel.tensors and self.kernel.tensors[use.value] in self.kernel.results
        if (owner is not None and owner.name == "tensor.empty") or is_destination:
            return lanes.constant("false" if element == "i1" else zero_of(element), element)
        return self._read(node, use, lanes)

    def _load(self, node: Node, use: Use, tensor: Tensor, lanes: Lanes) -> LaneValue:
        """Loads an element, or a vector of elements, of a tensor at the current position."""
        memory, kind, positions = self._locate(node, use, tensor)
        across = self._strided_axis(positions) if lanes.width and self.mode == "column" else None
        if across is not None and self._is_worth_transposing(positions):
            memory, kind, positions = self._transposed_copy(tensor, (memory, kind), positions, across)
        names, step = self._index_names(positions, lanes)
        if step == 2 and self.mode == "column" and (lanes.mask is None or lanes.active is not None):
            return lanes.load_stride_two(memory, kind, names, tensor.element)
        if step > 1:
            raise NeedsScalars("strided lanes")
        if self.prefetches and step and exceeds_cache(positions, tensor.element, self.kernel.target.l2_bytes):
            distance = self.kernel.target.page_bytes * 8 // element_bits(memory_type(tensor.element))
            self._prefetch(memory, kind, names, distance, tensor.element)
        return lanes.load(memory, kind, names, tensor.element, bool(step))

    def _prefetch(self, memory: str, kind: str, names: Sequence[str], distance: int, element: str) -> None:
        """Prefetches the memory `distance` elements after a vector, which may be beyond the end of the tensor."""
        w, line = self.writer, self.kernel.target.cache_line_bytes * 8 // element_bits(memory_type(element))
        for offset in range(0, self.width or 1, line):
            at = ", ".join([*names[:-1], w.binary("addi", names[-1], distance + offset)])
            w.line(f"memref.prefetch {memory}[{at}], read, locality<3>, data : {kind}")

    # Writing

    def _store(self, node: Node, use: Use, tensor: Tensor, value: LaneValue, lanes: Lanes) -> None:
        """Stores an element or a vector at the current position."""
        memory, kind, positions = self._locate(node, use, tensor)
        names, step = self._index_names(positions, lanes)
        if step > 1 or (value.is_vector and not step):
            raise NeedsScalars("a result with strided lanes")
        lanes.store(value, memory, kind, names, bool(step))

    # Positions

    def _positions(self, node: Node, lanes: Lanes) -> dict[int, LaneValue]:
        """The values of `linalg.index` in a body, by loop dimension."""
        indices = {}
        for dim in index_dims(node):
            at = self.position.get(node.names[dim], 0)
            value = LaneValue(self.writer.index(at), "index")
            if lanes.width and self.vector and node.names[dim] == self.vector.id:
                kind = lanes.type("index")
                steps = self.writer.op(f"vector.step : {kind}")
                base = self.writer.op(f"vector.broadcast {value.name} : index to {kind}")
                value = LaneValue(self.writer.op(f"arith.addi {base}, {steps} : {kind}"), "index", True, at)
            indices[dim] = value
        return indices

    def _positions_of(self, node: Node, use: Use) -> list[Position]:
        """The positions of an access over the merged loops."""
        return self.loops.positions(node, use)

    def _locate(self, node: Node, use: Use, tensor: Tensor) -> tuple[str, str, list[Position]]:
        """The memory of a tensor as a memref, its type, and the positions of an access in it."""
        positions = self._positions_of(node, use)
        shape = [p.size for p in positions]
        key = (tensor.pointer, str(shape))
        if key not in self._views:
            with self.writer.at_head():
                self._views[key] = view(self.writer, tensor.pointer, shape, memory_type(tensor.element))
        return (*self._views[key], positions)

    def _index_names(self, positions: Sequence[Position], lanes: Lanes) -> tuple[list[str], int]:
        """The names of positions, and the stride in elements from lane to lane (0: all lanes read one element)."""
        lane_stride = 0
        for number, p in enumerate(positions):
            step = dict(p.form.terms).get(self.vector.id, 0) if self.vector and lanes.width else 0
            if step < 0 or (step and number != len(positions) - 1):
                raise NeedsScalars("strided lanes")
            lane_stride = lane_stride or step
        with self.writer.buffered() as lines:
            names = [self.writer.index(self._index(p.form)) for p in positions]
        target = self.writer.lines if lane_stride or lanes.preheader is None else lanes.preheader
        target.extend(lines)
        return names, lane_stride

    def _index(self, form: Linear) -> Index:
        """The value of a linear form at the current position."""
        total: Index = form.constant
        for name, coefficient in form.terms:
            total = self.writer.add(total, self.writer.mul(self.position[name], coefficient))
        return total

    # Transposed copies

    def _strided_axis(self, positions: Sequence[Position]) -> int | None:
        """The axis that the lanes walk, where that axis is not the last one."""
        walked = [n for n, p in enumerate(positions) if self.vector and self.vector.id in p.form.dims]
        return walked[0] if len(walked) == 1 and walked[0] != len(positions) - 1 else None

    def _is_worth_transposing(self, positions: Sequence[Position]) -> bool:
        """Whether a tensor is small and used often enough to be transposed before the loops."""
        sizes = [p.size for p in positions]
        steps = [loop.size for loop in (*self.loops.outer, *self.loops.inner)]
        known_sizes, known_steps = [n for n in sizes if isinstance(n, int)], [n for n in steps if isinstance(n, int)]
        if len(known_sizes) < len(sizes) or len(known_steps) < len(steps):
            return False
        limits = self.kernel.target.kernels.loops
        uses = math.prod(known_steps) // limits.min_transposed_uses
        return math.prod(known_sizes) <= min(limits.max_transposed_elements, uses)

    def _transposed_copy(
        self, tensor: Tensor, memory: tuple[str, str], positions: Sequence[Position], across: int
    ) -> tuple[str, str, list[Position]]:
        """A copy of a tensor, made before the loops, with axis `across` moved to the end, so that lanes are
        contiguous.
        """
        w = self.writer
        moved = [*positions[:across], *positions[across + 1 :], positions[across]]
        key = (tensor.pointer, f"{across} last of {[p.size for p in positions]}")
        if key not in self._views:
            with w.at_head():
                self._views[key] = self._temporary([p.size for p in moved], tensor.element)
                at = [w.fresh() for _ in positions]
                for iv, p in zip(at, positions, strict=True):
                    w.line(f"scf.for {iv} = {w.index(0)} to {w.index(p.size)} step {w.index(1)} {{")
                element = w.op(f"memref.load {memory[0]}[{', '.join(at)}] : {memory[1]}")
                there = ", ".join([*at[:across], *at[across + 1 :], at[across]])
                w.line(f"memref.store {element}, {self._views[key][0]}[{there}] : {self._views[key][1]}")
                w.lines.extend("}" for _ in positions)
        return (*self._views[key], moved)

    # Scratch memory

    def _needs_scratch(self, node: Node, result: ir.Value) -> bool:
        """Whether a later sweep reads a result that has one element per inner step."""
        swept = node.loops & set(self.structure.inner) and not (
            node.nonunit_reductions and result not in self.registers
        )
        later = any(self.phases[n] > self.phases[node] and any(u.value == result for u in n.inputs)
                    for n in self.structure.nodes)  # fmt: skip
        number = node.results.index(result)
        if self._is_pure_movement(node):
            return False
        return bool(swept) and later and not (node.nonunit_reductions and not node.is_scan_result(number))

    def _scratch(self, value: ir.Value, element: str) -> tuple[str, str]:
        """Scratch memory for the inner elements of a value; allocated at the first use."""
        if value not in self.scratch_memory:
            shape: list[Index] = [loop.size for loop in self.loops.inner]
            shape += [self.width or 1] if self.mode == "column" else []
            with self.writer.at_head():
                self.scratch_memory[value] = self._temporary(shape, element)
        return self.scratch_memory[value]

    def _temporary(self, shape: Sequence[Index], element: str) -> tuple[str, str]:
        """Allocates memory of the kernel: a memref and its type."""
        bytes_ = self.writer.mul(self.writer.product(shape), max(element_bits(element) // 8, 1))
        call = f"func.call @oneflow_rt_temporary({self.writer.index(bytes_)}) : (index) -> memref<1xi8>"
        self.scratch.append(self.writer.op(call))
        return view(self.writer, self.scratch[-1], shape, memory_type(element))

    def _scratch_position(self) -> list[str]:
        """The names of the current position in scratch memory."""
        names = [self.writer.index(self.position[loop.id]) for loop in self.loops.inner]
        return [*names, self.writer.index(0)] if self.mode == "column" else names


def exceeds_cache(positions: Sequence[Position], element: str, near: int) -> bool:
    """Whether a tensor of static size does not fit in a cache of `near` bytes."""
    sizes = [p.size for p in positions if isinstance(p.size, int)]
    return len(sizes) == len(positions) and math.prod(sizes) * element_bits(memory_type(element)) >= near * 8
