"""Emitting pointwise, reduction and row kernels as loops over vectors.

One step of the parallel range is one position of the outer loops (or a block of the last one). Within it, nodes
run in phases: a phase is one sweep over the inner loops, and a node that needs a finished reduction goes to a
later phase. Three ways to use vectors are tried in order:

    row      lanes along the last inner loop; reductions end by joining lanes
    column   lanes along the last outer loop; reductions keep one accumulator per lane
    scalar   no lanes

Imports `places`, `combine` and what they use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node, Structure, Uncovered, Use
from oneflow.lowering.llvm.body import HEAVY, BodyCloner, Lanes, NeedsScalars, V, clone_scalar
from oneflow.lowering.llvm.combine import combiner_of
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loops import Loop, Loops, index_dims
from oneflow.lowering.llvm.places import Places, element_bits
from oneflow.lowering.llvm.writer import Index, Writer

#: Steps of the vectorised outer loop that make one step of the parallel range, where nothing is reduced.
CHUNK = 8192
#: A result of a node that is accumulated.
Key = tuple[Node, int]
VECTOR_BITS = 512


def emit_nest(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel that is one loop nest.

    Raises:
        Uncovered: the nest cannot be emitted.
    """
    for mode in ("row", "column", "scalar"):
        try:
            return Nest(kernel, structure, mode).emit()
        except NeedsScalars:
            continue
    raise Uncovered("no way to lay out the loops")


@dataclass
class Nest(Places):
    """One attempt to emit a structure in one `mode`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.vector = self._vector_loop()
        self.width = self._width() if self.vector else None

    def _vector_loop(self) -> Loop | None:
        if self.mode == "scalar":
            return None
        loops = self.loops.inner if self.mode == "row" else self.loops.outer
        if not loops:
            raise NeedsScalars("no loop for lanes")
        return loops[-1]

    def _width(self) -> int:
        bits = max(element_bits(e) for n in self.structure.nodes for e in _elements(n))
        many = 2 if not self.loops.inner else 4 if self.mode == "row" else 16
        width = VECTOR_BITS // max(bits, 8) * many
        assert self.vector is not None
        size = self.vector.size
        while isinstance(size, int) and width > 4 and width // 2 >= size:
            width //= 2
        return width if isinstance(size, int) else min(width, VECTOR_BITS // max(bits, 8))

    def emit(self) -> str:
        """The kernel's function and its launch."""
        w = self.writer
        chunk = self._chunk()
        factors = [loop.size for loop in self.loops.outer if loop is not self.vector or self.mode != "column"]
        if self.mode == "column" and self.vector:
            with w.buffered() as lines:
                factors.append(w.ceildiv(self.vector.size, chunk))
            w.head.extend(lines)
        with w.buffered() as body, w.block(f"scf.for %step = %lo to %hi step {w.index(1)} {{"):
            self._outer(factors, chunk)
        return "\n".join([self.function_text(body), self._launch(chunk)])

    def function_text(self, body: Sequence[str]) -> str:
        """The kernel's function around the loop over steps."""
        text = [
            f"func.func private @{self.kernel.name}({self.kernel.signature(('%lo', '%hi'))}) "
            "attributes {llvm.linkage = #llvm.linkage<internal>} {",
            *self.writer.head, *body,
            *(f"func.call @oneflow_rt_free({s}) : (memref<1xi8>) -> ()" for s in self.scratch),
            "return", "}",
        ]  # fmt: skip
        return "\n".join(text)

    def _launch(self, chunk: int) -> str:
        w = Writer()
        loops = Loops(self.kernel, self.structure, w)
        sizes = [loop.size for loop in loops.outer]
        steps = [loop.size for loop in loops.inner]
        if self.mode == "column":
            size = sizes.pop()
            sizes.append(w.ceildiv(size, chunk))
            steps.append(min(chunk, size) if isinstance(size, int) else chunk)
        count = w.product(sizes)
        work = sum(_work(n) for n in self.structure.nodes)
        for step in steps:
            work *= step if isinstance(step, int) else 64
        return launch_text(self.kernel, w, count, work, w.lines)

    def _chunk(self) -> int:
        assert self.mode != "column" or self.width
        return (CHUNK if not self.loops.inner else self.width or 1) if self.mode == "column" else 1

    def _outer(self, factors: Sequence[Index], chunk: int) -> None:
        """The positions of the outer loops from the step's number, and the step's work."""
        w, digits = self.writer, self.digits(factors)
        loops = [loop for loop in self.loops.outer if loop is not self.vector or self.mode != "column"]
        self.position = {loop.id: d for loop, d in zip(loops, digits, strict=False)}
        if self.mode == "column":
            self._column(digits[-1], chunk)
        else:
            self._step(Lanes(w, self.kernel, None, captured=self._scalars))

    def digits(self, factors: Sequence[Index]) -> list[Index]:
        """The step's number taken apart: one position for each factor, the last moves fastest."""
        rest, digits = "%step", []
        for size in reversed(factors[1:]):
            digits.append(0 if size == 1 else self.writer.binary("remui", rest, size))
            rest = rest if size == 1 else self.writer.binary("divui", rest, size)
        return [rest, *reversed(digits)] if factors else []

    def _column(self, number: Index, chunk: int) -> None:
        """Vectors along one chunk of the last outer loop: whole ones, then one under a mask."""
        w, loop, width = self.writer, self.vector, self.width
        assert loop is not None and width is not None
        begin = w.mul(number, chunk)
        end: Index = w.binary("minui", w.add(begin, chunk), loop.size)
        if isinstance(loop.size, int) and loop.size <= chunk:
            begin, end = 0, loop.size
        elif isinstance(loop.size, int) and loop.size % chunk == 0:
            end = w.add(begin, chunk)
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
            lanes.mask = self._mask(iv, end) if masked else None
            self._step(lanes)
        w.lines.extend(hoisted or [])
        w.line(f"scf.for {iv} = {w.index(begin)} to {w.index(end)} step {w.index(self.width or 1)} {{")
        w.lines.extend(body)
        w.line("}")

    def _mask(self, iv: str, end: Index) -> str:
        rest = self.writer.binary("subi", end, iv)
        return self.writer.op(f"vector.create_mask {rest} : vector<{self.width}xi1>")

    def _step(self, lanes: Lanes) -> None:
        """Everything at one position of the outer loops."""
        self.held, inner = {}, set(self.structure.inner)
        last = max(self.phases.values())
        for phase in range(last + 1):
            nodes = [n for n in self.structure.nodes if self.phases[n] == phase]
            sweeping = [n for n in nodes if n.loops & inner]
            for node in nodes:
                if node not in sweeping:
                    self._point(node, lanes, {})
            if sweeping:
                self._sweep(sweeping, lanes)

    def _sweep(self, nodes: list[Node], lanes: Lanes) -> None:
        """One pass over the inner loops for `nodes`; finished accumulators are left in `held`."""
        keys = [(n, i) for n in nodes if n.folds for i in range(len(n.results)) if not n.streams(i)]
        true_inits = [self._initial(n, i, lanes) for n, i in keys]
        inits, rowwise = true_inits, self.mode == "row"
        if rowwise:
            inits = [self._neutral(n, i) for n, i in keys]
        ends = self._inner_loops(nodes, keys, lanes, inits, 0)
        for (node, number), init, end in zip(keys, true_inits, ends, strict=True):
            value = self._join(node, number, init, end) if rowwise else end
            self._finish(node, number, value, lanes)

    def _initial(self, node: Node, number: int, lanes: Lanes) -> V:
        value = self._init_value(node, number, lanes)
        if not lanes.width or self.mode == "row" or value.varies:
            return value
        return V(lanes.spread(value), value.element, True)

    def _neutral(self, node: Node, number: int) -> V:
        combiner = combiner_of(node, number)
        kind = f"vector<{self.width}x{combiner.element}>"
        return V(self.writer.constant(f"dense<{combiner.neutral}>", kind), combiner.element, True)

    def _join(self, node: Node, number: int, init: V, end: V) -> V:
        """The lanes of an accumulator and its initial value as one."""
        combiner, w = combiner_of(node, number), self.writer
        loose = " fastmath<reassoc>" if combiner.element[0] in "fb" and combiner.kind in ("add", "mul") else ""
        kind = f"vector<{self.width}x{end.element}> into {end.element}"
        total = V(w.op(f"vector.reduction <{combiner.kind}>, {end.name}{loose} : {kind}"), end.element)
        return clone_scalar(combiner.op, [init, total], Lanes(w, self.kernel, None, captured=self._scalars))

    def _inner_loops(self, nodes: list[Node], keys: list[Key], outer: Lanes, carried: list[V], level: int) -> list[V]:
        if level == len(self.loops.inner):
            return self._points(nodes, keys, outer, carried)
        loop, w = self.loops.inner[level], self.writer

        def inside(iv: str, values: list[V]) -> list[V]:
            self.position[loop.id] = iv
            return self._inner_loops(nodes, keys, outer, values, level + 1)

        if loop is not self.vector:
            return self._loop(0, loop.size, 1, carried, inside, outer)
        assert self.width is not None
        middle = w.floor_to(loop.size, self.width)
        for begin, end, masked in ((0, middle, False), (middle, loop.size, True)):
            if begin != end:
                carried = self._row_loop(nodes, keys, begin, end, masked, carried)
        return carried

    def _row_loop(
        self, nodes: list[Node], keys: list[Key], begin: Index, end: Index, masked: bool, carried: list[V]
    ) -> list[V]:
        hoisted: list[str] = []
        lanes = Lanes(self.writer, self.kernel, self.width, None, hoisted, self._scalars)

        def inside(iv: str, values: list[V]) -> list[V]:
            assert self.vector is not None
            self.position[self.vector.id] = iv
            lanes.mask = self._mask(iv, end) if masked else None
            return self._points(nodes, keys, lanes, values)

        return self._loop(begin, end, self.width or 1, carried, inside, lanes, hoisted)

    def _loop(
        self,
        begin: Index,
        end: Index,
        step: int,
        carried: list[V],
        inside: Callable[[str, list[V]], list[V]],
        lanes: Lanes,
        hoisted: Sequence[str] = (),
    ) -> list[V]:
        """A loop that carries values; what `inside` adds to `hoisted` goes before it."""
        w, iv = self.writer, self.writer.fresh()
        names = [V(w.fresh(), v.element, v.varies, None) for v in carried]
        with w.buffered() as body:
            after = inside(iv, names)
        w.lines.extend(hoisted)
        head = f"{iv} = {w.index(begin)} to {w.index(end)} step {w.index(step)}"
        if not carried:
            w.lines.extend([f"scf.for {head} {{", *body, "}"])
            return []
        types = ", ".join(f"vector<{self.width}x{v.element}>" if v.varies else v.element for v in carried)
        inits = ", ".join(f"{n.name} = {v.name}" for n, v in zip(names, carried, strict=True))
        with w.buffered() as tail:
            ends = ", ".join(lanes.spread(a) if v.varies else a.name for a, v in zip(after, carried, strict=True))
        body += tail
        result = w.fresh()
        w.lines.extend([f"{result}:{len(carried)} = scf.for {head} iter_args({inits}) -> ({types}) {{", *body])
        w.lines.extend([f"scf.yield {ends} : {types}", "}"])
        return [V(f"{result}#{i}", v.element, v.varies) for i, v in enumerate(carried)]

    def _points(self, nodes: list[Node], keys: list[Key], lanes: Lanes, carried: list[V]) -> list[V]:
        """One step of a sweep: the accumulators after it."""
        values = dict(zip(keys, carried, strict=True))
        for node in nodes:
            values.update(self._point(node, lanes, values))
        return [values[k] for k in keys]

    def _point(self, node: Node, lanes: Lanes, accumulators: dict[Key, V]) -> dict[Key, V]:
        """Runs a node's body at the current position; gives its new accumulators."""
        arguments = [self._read(node, u, lanes) for u in node.inputs]
        for number in range(len(node.results)):
            kept = accumulators.get((node, number))
            arguments.append(kept or self._output_argument(node, number, lanes))
        yielded = BodyCloner(lanes, self._positions(node, lanes)).run(node.body, arguments)
        updated = {}
        for number, value in enumerate(yielded):
            if (node, number) in accumulators:
                updated[node, number] = self._masked(value, accumulators[node, number], lanes)
            else:
                self._finish(node, number, value, lanes)
        return updated

    def _output_argument(self, node: Node, number: int, lanes: Lanes) -> V:
        """The body's argument for a destination that is not accumulated, if it is used at all."""
        argument = node.body.arguments[len(node.inputs) + number]
        if any(True for _ in argument.uses):
            return self._init_value(node, number, lanes)
        return V("%unused", str(argument.type))

    def _masked(self, new: V, old: V, lanes: Lanes) -> V:
        if self.mode != "row" or not lanes.width:
            return new
        name = lanes.spread(new)
        if lanes.mask is not None:
            kind = lanes.type(new.element)
            masks = f"vector<{lanes.width}xi1>"
            name = self.writer.op(f"arith.select {lanes.mask}, {name}, {old.name} : {masks}, {kind}")
        return V(name, new.element, True)

    def _finish(self, node: Node, number: int, value: V, lanes: Lanes) -> None:
        """A result's element is known: kept in a register, written where it is needed later."""
        result = node.results[number]
        if lanes.width and not value.varies and self._sweeps(node, number):
            value = V(lanes.spread(value), value.element, True)
        self.held[result] = value
        use = Use(result, node.outputs[number].access)
        if result in self.finals:
            self._store(node, use, self.finals[result], value, lanes)
        elif self._read_later(node, result):
            memory, kind = self._scratch(result, str(result.type.element_type))
            lanes.store(value, memory, kind, self._scratch_position(), bool(lanes.width))

    def _sweeps(self, node: Node, number: int) -> bool:
        """Whether a result has an element per lane."""
        positions = self.loops.positions(node, node.outputs[number])
        return any(self.vector is not None and self.vector.id in p.form.dims for p in positions)


def _elements(node: Node) -> list[str]:
    """The element types that a body handles; positions count only where they vary by lane."""
    found = [str(u.value.type.element_type) for u in (*node.inputs, *node.outputs)]
    found += [str(r.type) for o in node.body.operations for r in o.operation.results]
    indexed = bool(index_dims(node))
    return [e for e in found if e != "index" or indexed]


def _work(node: Node) -> int:
    return sum(HEAVY.get(o.operation.name.partition(".")[0], 1) for o in node.body.operations)
