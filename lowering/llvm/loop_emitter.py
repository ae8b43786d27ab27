"""Emission of the inner loops of a nest: sweeps, accumulators, vector lanes, blocked summation.

A sweep is one pass over all inner loops. `LoopEmitter` is the second of three layers of one emitter:
`value_storage.ValueStorage` (where values are), `LoopEmitter` (inner loops), `loop_nest.LoopNest` (outer loops,
parallel steps, vector width).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node, Use
from oneflow.lowering.kernels.reduction_split import COMBINES_PARTIALS
from oneflow.lowering.llvm import sums
from oneflow.lowering.llvm.body import BodyCloner, Lanes, LaneValue, clone_scalar
from oneflow.lowering.llvm.combine import combiner_of, is_reassociable_sum
from oneflow.lowering.llvm.loops import Loop
from oneflow.lowering.llvm.selection import reduce_selection, selection_of
from oneflow.lowering.llvm.value_storage import ValueStorage
from oneflow.lowering.llvm.writer import Index

#: An accumulator: a node and the number of its result.
Key = tuple[Node, int]


@dataclass(frozen=True)
class Sweep:
    """One pass over the inner loops: its nodes and their accumulators `keys`.

    `lanes` are the lanes of the outer position. `cascade` is the blocked summation of the long sums among the
    accumulators, whose numbers are `summed`. Sweeps after the `first` find their operands in a cache.
    """

    nodes: list[Node]
    keys: list[Key]
    lanes: Lanes
    summed: list[int]
    cascade: sums.Cascade | None
    first: bool = False


@dataclass
class LoopEmitter(ValueStorage):
    """Emits the operations of one position of the outer loops."""

    # One position of the outer loops

    def _emit_outer_position(self, lanes: Lanes) -> None:
        """Emits all nodes at one position of the outer loops, phase by phase."""
        self.registers = {}
        for phase in range(max(self.phases.values()) + 1):
            nodes = [n for n in self.structure.nodes if self.phases[n] == phase]
            sweeping = [n for n in nodes if self._is_swept(n)]
            for node in nodes:
                if node not in sweeping:
                    self._emit_node(node, lanes, {})
            if sweeping:
                sweep = self._plan_sweep(sweeping, lanes)
                self._finish_sweep(sweep, self._accumulate(sweep, self._initial_accumulators(sweep)))

    def _is_swept(self, node: Node) -> bool:
        """Whether a node runs in the inner loops."""
        return bool(node.loops & set(self.structure.inner))

    def _plan_sweep(self, nodes: list[Node], lanes: Lanes) -> Sweep:
        """The sweep of the nodes of one phase."""
        keys = [
            (n, i) for n in nodes if n.nonunit_reductions for i in range(len(n.results)) if not n.is_scan_result(i)
        ]
        free = [number for number, (n, i) in enumerate(keys) if is_reassociable_sum(n, i)]
        steps = [(self.width or 1) if self._is_vector(loop) else 1 for loop in self.loops.inner]
        cascade = sums.cascade([loop.size for loop in self.loops.inner], steps) if free else None
        if (
            free
            and self.mode != "row"
            and self.loops.inner
            and any(COMBINES_PARTIALS in n.op.attributes for n in nodes)
        ):
            cascade = sums.compensated_cascade(len(self.loops.inner))
        first = not any(self.phases[n] for n in nodes)
        return Sweep(nodes, keys, lanes, free if cascade else [], cascade, first)

    def _accumulate(self, sweep: Sweep, begin: Sequence[LaneValue]) -> list[LaneValue]:
        """Emits the inner loops; returns the accumulators after them."""
        cascade, lanes = sweep.cascade, self._unmasked_lanes
        errors = [self._identity(*sweep.keys[n]) for n in sweep.summed] if cascade and cascade.compensated else []
        ends = self._inner_loops(sweep, [*begin, *errors], 0)
        for number, error in zip(sweep.summed, ends[len(begin) :], strict=False):
            ends[number] = sums.compensate(lanes, ends[number], error)
        return ends[: len(begin)]

    def _finish_sweep(self, sweep: Sweep, ends: Sequence[LaneValue]) -> None:
        """Turns accumulators into results, which stay in `registers`."""
        accumulators = dict(zip(sweep.keys, ends, strict=True))
        for node, number in sweep.keys:
            if self.mode == "row":
                self._reduce_lanes_of(node, number, accumulators, sweep.lanes)
            self._finish_element(node, number, accumulators[node, number], sweep.lanes)

    # Inner loops

    def _inner_loops(self, sweep: Sweep, carried: list[LaneValue], level: int) -> list[LaneValue]:
        """Emits the inner loops from `level` on: a loop of vectors ends with one masked vector."""
        if level == len(self.loops.inner):
            return self._emit_innermost(sweep, sweep.lanes, carried)
        loop, cascade = self.loops.inner[level], sweep.cascade
        blocks = cascade.blocks if cascade and level == cascade.level else ()
        begin, end = 0, loop.size
        if not self._is_vector(loop):
            return self._blocked_loop(sweep, level, (begin, end, False), blocks, carried)
        middle = self.writer.floor_to(end, self.width or 1)
        for part in ((begin, middle, False), (middle, end, True)):
            if part[0] != part[1]:
                carried = self._blocked_loop(sweep, level, part, blocks, carried)
        return carried

    def _blocked_loop(
        self,
        sweep: Sweep,
        level: int,
        part: tuple[Index, Index, bool],
        blocks: tuple[int, ...],
        carried: list[LaneValue],
    ) -> list[LaneValue]:
        """Emits part of a loop (begin, end, masked); in each of the largest `blocks`, long sums begin at 0 again."""
        if not blocks:
            return self._plain_loop(sweep, level, part, carried)
        begin, end, masked = part
        loop = self.loops.inner[level]
        step = blocks[-1] * ((self.width or 1) if self._is_vector(loop) else 1)

        def block(first: Index, last: Index, values: list[LaneValue]) -> list[LaneValue]:
            pairs = enumerate(zip(sweep.keys, values, strict=False))
            fresh = [self._identity(*key) if n in sweep.summed else value for n, (key, value) in pairs]
            inside = () if masked else blocks[:-1]
            return self._add_block_sums(
                sweep, values, self._blocked_loop(sweep, level, (first, last, masked), inside, fresh)
            )

        length = end - begin if isinstance(begin, int) and isinstance(end, int) else None
        if masked or (length is not None and length <= step):
            return block(begin, end, carried)

        def inside(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            divides = length is not None and length % step == 0
            last = self.writer.add(iv, step)
            return block(iv, last if divides else self.writer.binary("minui", last, end), values)

        return self._loop(begin, end, step, carried, inside, self._unmasked_lanes)

    def _add_block_sums(self, sweep: Sweep, values: Sequence[LaneValue], ends: list[LaneValue]) -> list[LaneValue]:
        """The accumulators after a block: the block's sums added to earlier ones, with error terms where `values` has
        some.
        """
        lanes, after, errors = self._unmasked_lanes, list(ends), list(values[len(sweep.keys) :])
        for at, number in enumerate(sweep.summed):
            if errors:
                after[number], errors[at] = sums.two_sum(lanes, values[number], errors[at], ends[number])
            else:
                after[number] = sums.add(lanes, values[number], ends[number])
        return [*after, *errors]

    def _plain_loop(
        self, sweep: Sweep, level: int, part: tuple[Index, Index, bool], carried: list[LaneValue]
    ) -> list[LaneValue]:
        """Emits part of a loop (begin, end, masked) step by step."""
        begin, end, masked = part
        loop, lanes = self.loops.inner[level], sweep.lanes
        if not self._is_vector(loop):
            return self._loop(begin, end, 1, carried, self._inner_loop_body(loop, sweep, level), lanes)
        hoisted: list[str] = []
        lanes = Lanes(self.writer, self.kernel, self.width, None, hoisted, self._scalars)

        def inside(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            self.position[loop.id] = iv
            lanes.mask = self._mask(iv, end) if masked else None
            self.prefetches = not masked and sweep.first
            after = self._emit_innermost(sweep, lanes, values)
            self.prefetches = False
            return after

        return self._loop(begin, end, self.width or 1, carried, inside, lanes, hoisted)

    def _inner_loop_body(
        self, loop: Loop, sweep: Sweep, level: int
    ) -> Callable[[str, list[LaneValue]], list[LaneValue]]:
        """The body of a scalar inner loop."""

        def inside(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            self.position[loop.id] = iv
            return self._inner_loops(sweep, values, level + 1)

        return inside

    def _loop(
        self,
        begin: Index,
        end: Index,
        step: int,
        carried: list[LaneValue],
        inside: Callable[[str, list[LaneValue]], list[LaneValue]],
        lanes: Lanes,
        hoisted: Sequence[str] = (),
    ) -> list[LaneValue]:
        """Emits an `scf.for` that carries values; what `inside` adds to `hoisted` is written before the loop."""
        w, iv = self.writer, self.writer.fresh()
        names = [LaneValue(w.fresh(), v.element, v.is_vector, None) for v in carried]
        with w.buffered() as body:
            after = inside(iv, names)
        w.lines.extend(hoisted)
        head = f"{iv} = {w.index(begin)} to {w.index(end)} step {w.index(step)}"
        if not carried:
            w.lines.extend([f"scf.for {head} {{", *body, "}"])
            return []
        types = ", ".join(f"vector<{self.width}x{v.element}>" if v.is_vector else v.element for v in carried)
        inits = ", ".join(f"{n.name} = {v.name}" for n, v in zip(names, carried, strict=True))
        with w.buffered() as tail:
            ends = ", ".join(
                lanes.broadcast(a) if v.is_vector else a.name for a, v in zip(after, carried, strict=True)
            )
        body += tail
        result = w.fresh()
        w.lines.extend([f"{result}:{len(carried)} = scf.for {head} iter_args({inits}) -> ({types}) {{", *body])
        w.lines.extend([f"scf.yield {ends} : {types}", "}"])
        return [LaneValue(f"{result}#{i}", v.element, v.is_vector) for i, v in enumerate(carried)]

    def _is_vector(self, loop: Loop) -> bool:
        """Whether the lanes of a row walk this loop."""
        return self.mode == "row" and loop is self.vector

    def _mask(self, iv: str, end: Index) -> str:
        """The mask of the lanes before `end` for a vector that begins at `iv`."""
        rest = self.writer.binary("subi", end, iv)
        return self.writer.op(f"vector.create_mask {rest} : vector<{self.width}xi1>")

    @property
    def _unmasked_lanes(self) -> Lanes:
        """Vector lanes without a mask, at the writer's current place."""
        return Lanes(self.writer, self.kernel, self.width, captured=self._scalars)

    # Bodies

    def _emit_innermost(self, sweep: Sweep, lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
        """Emits one step of a sweep; returns the accumulators after the step."""
        values = dict(zip(sweep.keys, carried, strict=True))
        for node in sweep.nodes:
            values.update(self._emit_node(node, lanes, values))
        return [values[k] for k in sweep.keys]

    def _emit_node(self, node: Node, lanes: Lanes, accumulators: dict[Key, LaneValue]) -> dict[Key, LaneValue]:
        """Emits a node's body at the current position; returns the node's new accumulators."""
        arguments = [self._argument(node, number, lanes) for number in range(len(node.inputs))]
        for number in range(len(node.results)):
            kept = accumulators.get((node, number))
            arguments.append(kept or self._output_argument(node, number, lanes))
        yielded = BodyCloner(lanes, self._positions(node, lanes)).run(node.body, arguments)
        updated = {}
        for number, value in enumerate(yielded):
            if (node, number) in accumulators:
                updated[node, number] = self._select_active(value, accumulators[node, number], lanes)
            else:
                self._finish_element(node, number, value, lanes)
        return updated

    def _argument(self, node: Node, number: int, lanes: Lanes) -> LaneValue:
        """The body's argument for an operand. An unused operand is not read: a pooling window only has a shape."""
        argument = node.body.arguments[number]
        if any(True for _ in argument.uses):
            return self._read(node, node.inputs[number], lanes)
        return LaneValue("%unused", str(argument.type))

    def _output_argument(self, node: Node, number: int, lanes: Lanes) -> LaneValue:
        """The body's argument for a destination that is not accumulated, if the body uses the argument."""
        argument = node.body.arguments[len(node.inputs) + number]
        if any(True for _ in argument.uses):
            return self._destination_value(node, number, lanes)
        return LaneValue("%unused", str(argument.type))

    def _select_active(self, new: LaneValue, old: LaneValue, lanes: Lanes) -> LaneValue:
        """The new accumulator in the active lanes, the old one in the others."""
        if self.mode != "row" or not lanes.width:
            return new
        name = lanes.broadcast(new)
        if lanes.mask is not None:
            kind = lanes.type(new.element)
            masks = f"vector<{lanes.width}xi1>"
            name = self.writer.op(f"arith.select {lanes.mask}, {name}, {old.name} : {masks}, {kind}")
        return LaneValue(name, new.element, True)

    def _finish_element(self, node: Node, number: int, value: LaneValue, lanes: Lanes) -> None:
        """Keeps a finished element in a register and stores the element where later code needs it."""
        result = node.results[number]
        if lanes.width and not value.is_vector and self._has_lanes(node, number):
            value = LaneValue(lanes.broadcast(value), value.element, True)
        self.registers[result] = value
        use = Use(result, node.outputs[number].access)
        if result in self.destinations:
            self._store(node, use, self.destinations[result], value, lanes)
        elif self._needs_scratch(node, result):
            memory, kind = self._scratch(result, str(result.type.element_type))
            lanes.store(value, memory, kind, self._scratch_position(), bool(lanes.width))

    def _has_lanes(self, node: Node, number: int) -> bool:
        """Whether a result has an element per lane."""
        positions = self.loops.positions(node, node.outputs[number])
        return any(self.vector is not None and self.vector.id in p.form.dims for p in positions)

    # Accumulators

    def _initial_accumulators(self, sweep: Sweep) -> list[LaneValue]:
        """The values before a sweep. Row lanes begin with identities: the initial value is added to the reduced
        lanes.
        """
        if self.mode == "row":
            return self._identities(sweep)
        return [self._initial_accumulator(n, i, sweep.lanes) for n, i in sweep.keys]

    def _initial_accumulator(self, node: Node, number: int, lanes: Lanes) -> LaneValue:
        """The initial value of a result, broadcast where lanes lie along columns."""
        value = self._destination_value(node, number, lanes)
        if not lanes.width or self.mode == "row" or value.is_vector:
            return value
        return LaneValue(lanes.broadcast(value), value.element, True)

    def _identities(self, sweep: Sweep) -> list[LaneValue]:
        """The identity of each accumulator."""
        return [self._identity(n, i) for n, i in sweep.keys]

    def _identity(self, node: Node, number: int) -> LaneValue:
        """The identity of a result's combining operation; for a selection, the initial value."""
        if selection_of(node):
            init = self._destination_value(node, number, self._unmasked_lanes)
            return LaneValue(self._unmasked_lanes.broadcast(init), init.element, bool(self.width))
        combiner = combiner_of(node, number)
        if not self.width:
            return LaneValue(self.writer.constant(combiner.identity, combiner.element), combiner.element)
        kind = f"vector<{self.width}x{combiner.element}>"
        return LaneValue(self.writer.constant(f"dense<{combiner.identity}>", kind), combiner.element, True)

    def _reduce_lanes_of(self, node: Node, number: int, accumulators: dict[Key, LaneValue], lanes: Lanes) -> None:
        """Reduces the lanes of a result in `accumulators`; the two results of a selection are reduced together."""
        selection = selection_of(node)
        if selection is None:
            accumulators[node, number] = self._reduce_lanes(
                node, number, self._initial_accumulator(node, number, lanes), accumulators[node, number]
            )
        elif number == 0:
            both = accumulators[node, 0], accumulators[node, 1]
            accumulators[node, 0], accumulators[node, 1] = reduce_selection(self._unmasked_lanes, selection, both)

    def _reduce_lanes(self, node: Node, number: int, init: LaneValue, end: LaneValue) -> LaneValue:
        """The lanes of an accumulator and its initial value reduced to a scalar."""
        combiner, w = combiner_of(node, number), self.writer
        loose = " fastmath<reassoc>" if combiner.element[0] in "fb" and combiner.kind in ("add", "mul") else ""
        kind = f"vector<{self.width}x{end.element}> into {end.element}"
        total = LaneValue(w.op(f"vector.reduction <{combiner.kind}>, {end.name}{loose} : {kind}"), end.element)
        return clone_scalar(combiner.op, [init, total], Lanes(w, self.kernel, None, captured=self._scalars))
