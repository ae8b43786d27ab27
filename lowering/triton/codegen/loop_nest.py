"""Kernels that are one loop nest: pointwise, row reductions with what is around them, scans.

A program computes a block of the outer loops. The inner loops are an axis of the block where they fit (`whole`), a
loop over blocks (`chunk`), or, where a reduction is not one that can be regrouped, a loop over single steps
(`step`); with one step they are nothing at all (`once`). In a loop, what a later pass needs again is computed
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Structure, Use
from oneflow.lowering.triton.codegen.block_shape import (
    EACH,
    Blocks,
    choose_blocks,
    crossing,
    kept,
    sides,
    warps_of,
)
from oneflow.lowering.triton.codegen.body import Bodies
from oneflow.lowering.triton.codegen.emission import filled_with, finish_ops, initial, program_id, tiles
from oneflow.lowering.triton.codegen.kernel import Kernel
from oneflow.lowering.triton.codegen.online_softmax import Rescaled, read_rescaled
from oneflow.lowering.triton.codegen.reduction import (
    Accumulator,
    Folded,
    Pair,
    Selected,
    neutral,
    read_folds,
    read_selection,
)
from oneflow.lowering.triton.codegen.symbolic_sizes import product, steps
from oneflow.lowering.triton.codegen.tile import Axis, Tile, constant_text, indexed_loops, linear_form
from oneflow.lowering.triton.codegen.writer import V, Writer
from oneflow.lowering.triton.source import Source

INNER = frozenset({"r"})
OUTER = frozenset({"x"})


@dataclass
class Nest:
    """Emits one structure."""

    kernel: Kernel
    structure: Structure
    values: dict[ir.Value, V] = field(default_factory=dict)
    inner: dict[ir.Value, V] = field(default_factory=dict)
    open: list[Accumulator] | None = None
    before: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = self.structure.nodes
        self.writer = Writer()
        self.sizes = self.kernel.loop_sizes(nodes)
        self.folds = {n.op: read_folds(n) for n in nodes if n.reductions}
        self.selections = {n.op: s for n in nodes if n.reductions and (s := read_selection(n)) is not None}
        uses = [(n, u) for n in nodes for u in (*n.inputs, *n.outputs)]
        forms = [linear_form(self.kernel, n, u) for n, u in uses]
        rescaled = read_rescaled(nodes, self.folds)
        self.blocks = choose_blocks(self.kernel, self.structure, self.sizes, forms, self._regroups(), bool(rescaled))
        self.row = Axis("r", self.structure.inner, self.blocks.inner, scalar=self.blocks.mode == "step")
        start = f"{program_id(self.kernel)} * {self.blocks.outer}"
        self.columns = [Axis("x", self.structure.outer, self.blocks.outer, start)]
        axes = [*self.columns, self.row] if self.blocks.mode != "once" else self.columns
        self.tile = Tile(self.kernel, self.writer, axes, self.sizes, forms, indexed_loops(nodes))
        crossed = crossing(self.structure, self.sizes, forms) if self.blocks.mode == "once" else None
        if crossed is not None:
            self._cross(*crossed)
        self.bodies = Bodies(self.tile)
        self.rescaled = rescaled if self.blocks.mode == "chunk" else {}
        self.anchors = {r.anchor: "" for r in self.rescaled.values()}
        self.makers = {r: n for n in nodes for r in n.results}
        self.rank = len(self.tile.spread)

    def _regroups(self) -> bool:
        return all(f is not None or op in self.selections for op, f in self.folds.items())

    def _cross(self, along: int, across: int) -> None:
        """Blocks of two sides: results lie along one, an operand along the other."""
        outer = self.structure.outer
        one = next(g for g in self.tile.groups([n for n in outer if n != across]) if g[-1] == along)
        other = next(g for g in self.tile.groups([n for n in outer if n not in one]) if g[-1] == across)
        sizes = [product(self.sizes[n] for n in g).static for g in (other, one)]
        tall, wide = sides(*sizes)
        rest = [n for n in outer if n not in (*one, *other)]
        self.columns = [
            Axis("b", rest, 1, "batch", scalar=True),
            Axis("y", other, tall, f"row * {tall}"),
            Axis("x", one, wide, f"column * {wide}"),
        ]
        self.blocks = Blocks(wide, 1, "once", warps_of(tall * wide // EACH // 2))
        forms, opaque = self.tile.forms, self.tile.opaque
        self.tile = Tile(self.kernel, self.writer, self.columns, self.sizes, forms, opaque)
        rows, columns = (tiles(a) for a in self.columns[1:])
        self.writer.scopes[0].lines += [
            f"program = {program_id(self.kernel)}",
            f"batch = program // ({rows} * {columns})",
            f"row = program % ({rows} * {columns}) // {columns}",
            f"column = program % {columns}",
        ]

    def emit(self) -> Source:
        """The source of the kernel."""
        for axis in self.columns:
            self.tile.place(axis)
        if self.blocks.mode == "whole":
            self.tile.place(self.row)
        for node in self.structure.nodes:
            self._node(node)
        self._close()
        ops = [n.op for n in self.structure.nodes]
        grid = " * ".join(tiles(axis) for axis in self.columns)
        return finish_ops(self.kernel, self.writer, ops, grid, self.blocks.warps, functions=self.functions)

    def _sweeps(self, node: Node) -> bool:
        return bool(set(node.names) & set(self.structure.inner))

    def _node(self, node: Node) -> None:
        if self._waits(node):
            return
        uses = (*node.inputs, *node.outputs)
        if node in self.rescaled and self.open is not None and self.rescaled[node].anchor in self._pending():
            self._rescale(node, self.rescaled[node])
            return
        if {u.value for u in uses} & self._pending():
            self._close()
        if self.blocks.mode == "once" or not self._sweeps(node):
            self._plain(node, self.values, True)
            return
        if self.open is None and self.blocks.mode != "whole":
            self._open()
        self._inner_node(node, True)

    def _waits(self, node: Node) -> bool:
        """Whether a node is the exponential of a sum that is kept relative to a maximum; later passes compute it."""
        waits = any(r.exponent is node and n is not node for n, r in self.rescaled.items())
        return waits and self.open is not None and not set(node.results) & set(self.kernel.returned)

    def _rescale(self, node: Node, rescaled: Rescaled) -> None:
        """A sum of exponentials in the pass that finds the maximum that they are relative to."""
        exponent, anchor = rescaled.exponent, self.anchors[rescaled.anchor]
        least = constant_text('float("-inf")', "f32")
        safe = self.writer.define(f"tl.where({anchor} == {least}, 0.0, {anchor})", "f32", OUTER | INNER)
        self.values[rescaled.anchor] = safe
        (fold,) = self.folds[node.op] or []
        value = fold.value if exponent is node else list(exponent.body.operations)[-1].operation.operands[0]
        (found,) = self.bodies.run(exponent.body, exponent.names, self._arguments(exponent), [value])
        del self.values[rescaled.anchor]
        added = self._masked(fold, found)
        name = self._start(node.results[0], self._initial(node, fold), fold, True)
        shrink = self.writer.define(f"tl.exp({anchor}_before - {safe.name})", "f32", OUTER | INNER)
        self.writer.line(f"{name} = {name} * {shrink.name} + {added.name}")

    def _pending(self) -> set[ir.Value]:
        """Results that are known only after the open pass."""
        return {a.value for a in self.open or []} | {r for p in self.pairs for r in p.node.results}

    def _open(self) -> None:
        self.open, self.before, self.inner = [], [], {}
        self.writer.open(INNER)
        self.row.start = "r_at"
        if self.blocks.mode == "chunk":
            self.tile.policy = kept(self.kernel, self.structure, self.tile.policy)
        self.tile.place(self.row)

    def _close(self) -> None:
        if self.open is None:
            return
        block, size, mask = self.blocks.inner, self.row.size.static or 0, self.tile.mask(INNER)
        whole = size // block * block if mask and self.structure.rowwise else 0
        step = f", {block}" if block > 1 else ""
        if whole:  # Where a mask is known to hold, Triton leaves out what depends on it.
            true = f"tl.full(({'1, ' * (self.rank - 1)}{block},), True, tl.int1)"
            self.before += self.writer.repeated(f"for r_at in {steps(0, whole, step)}:", mask or "", true)
        unrolled = f", loop_unroll_factor={self.row.size}" if self.blocks.unrolled else ""
        header = f"{'tl.' if unrolled else ''}{steps(whole, size or self.row.size, step + unrolled)}"
        self.writer.close(f"for r_at in {header}:", self.before)
        for accumulator in self.open:
            self._finish(accumulator)
        self.open, pairs, self.pairs = None, self.pairs, []
        for pair in pairs:
            self._choose(pair, pair.names)

    def _finish(self, accumulator: Accumulator) -> None:
        result = accumulator.value
        self.values[result] = self._final(accumulator)
        node = self.makers[result]
        self._store(node, node.results.index(result), self.values[result])

    def _final(self, a: Accumulator) -> V:
        if a.fold is None:
            return V(a.name, a.element, OUTER)
        return self._combined(a.fold, a.start, self._reduce(V(a.name, a.element, OUTER), a.fold))

    def _inner_node(self, node: Node, first: bool) -> None:
        if not node.reductions:
            self._plain(node, self.inner if self.open is not None else self.values, first)
        elif self.blocks.mode == "step":
            self._step(node, first)
        elif node.op in self.selections:
            self._select(node, first)
        else:
            self._fold(node, first)

    def _plain(self, node: Node, values: dict[ir.Value, V], first: bool) -> None:
        results = self.bodies.run(node.body, node.names, self._arguments(node))
        for number, (result, value) in enumerate(zip(node.results, results, strict=True)):
            values[result] = value
            if first:
                self._store(node, number, value)

    def _arguments(self, node: Node) -> dict[ir.Value, V]:
        """What the block arguments that the body uses are."""
        block = list(node.body.arguments)
        uses = [*node.inputs, *node.outputs]
        return {a: self._read(node, u) for a, u in zip(block, uses, strict=True) if any(True for _ in a.uses)}

    def _read(self, node: Node, use: Use) -> V:
        value = use.value
        if value in self.makers and value not in self.values:
            if value not in self.inner:
                self._inner_node(self.makers[value], False)
            return self.inner[value]
        if value in self.values:
            return self.values[value]
        if value in self.kernel.tensors:
            offset, axes = self.tile.offset(linear_form(self.kernel, node, use))
            return self.tile.load(self.kernel.tensor(value), offset, axes)
        return initial(self.bodies, value)

    def _store(self, node: Node, number: int, value: V) -> None:
        use = node.outputs[number]
        for returned, destination in zip(self.kernel.returned, self.kernel.destinations, strict=True):
            if returned == node.results[number]:
                form = linear_form(self.kernel, node, Use(destination, use.access))
                self.tile.store(self.kernel.tensor(destination), form, value)

    def _step(self, node: Node, first: bool) -> None:
        """A reduction one step at a time; a stream has no running value of its own."""
        assert self.open is not None
        arguments, names = self._arguments(node), {}
        outs = list(node.body.arguments)[len(node.inputs) :]
        for number, (use, out) in enumerate(zip(node.outputs, outs, strict=True)):
            if not node.is_scan_result(number):
                name = names[number] = self._start(node.results[number], self._read(node, use), None, first)
                arguments[out] = V(name, str(out.type), OUTER | INNER)
        results = self.bodies.run(node.body, node.names, arguments)
        for number, value in enumerate(results):
            if number in names:
                self.writer.line(f"{names[number]} = {self.tile.broadcast(value).name}")
            else:
                self._stream(node, number, value, first)

    def _stream(self, node: Node, number: int, value: V, first: bool) -> None:
        (self.inner if self.open is not None else self.values)[node.results[number]] = value
        if first:
            self._store(node, number, value)

    def _start(self, result: ir.Value, start: V | None, fold: Folded | None, first: bool) -> str:
        """An accumulator of the open pass; gives its name."""
        assert self.open is not None
        name, element = self.writer.fresh("acc"), str(result.type.element_type)
        if start is not None and (fold is None or self._scans(result)):
            text = f"tl.broadcast_to({start.name}, {self._acc_shape(fold)})"
        else:
            assert fold is not None
            shape = self._acc_shape(fold) if self._scans(result) else self.tile.shape
            text = constant_text(neutral(fold.op.name, element), element, shape)
        self.before.append(f"{name} = {text}")
        if first:
            self.open.append(Accumulator(result, name, element, start, None if self._scans(result) else fold))
        return name

    def _acc_shape(self, fold: Folded | None) -> str:
        return self.tile.shape if fold is None else f"({self.blocks.outer}, 1)"

    def _scans(self, result: ir.Value) -> bool:
        node = self.makers[result]
        return any(node.is_scan_result(i) for i in range(len(node.outputs)))

    def _fold(self, node: Node, first: bool) -> None:
        folds = self.folds[node.op] or []
        outs = list(node.body.arguments)[len(node.inputs) :]
        arguments = {a: v for a, v in self._arguments(node).items() if a not in outs}
        found = self.bodies.run(node.body, node.names, arguments, [f.value for f in folds])
        for fold, value in zip(folds, found, strict=True):
            self._fold_one(node, fold, self._masked(fold, value), first)

    def _select(self, node: Node, first: bool) -> None:
        """The element that wins, and its position."""
        found, outs = self.selections[node.op], list(node.body.arguments)[len(node.inputs) :]
        arguments = {a: v for a, v in self._arguments(node).items() if a not in outs}
        values = self.bodies.run(node.body, node.names, arguments, [found.value, found.position])
        starts = tuple(self._read(node, u) for u in node.outputs)
        one, two = (self._padded(v, s) for v, s in zip(values, starts, strict=True))
        pair = Pair(node, (one, two), (starts[0], starts[1]), self._selection(node, found))
        if self.open is None:
            self._choose(pair, (one, two), first)
        elif first:
            pair.names = (self.writer.fresh("acc"), self.writer.fresh("acc"))
            for name, start in zip(pair.names, pair.starts, strict=True):
                self.before.append(f"{name} = tl.broadcast_to({start.name}, {self.tile.shape})")
            self.writer.line(f"{', '.join(pair.names)} = {pair.function}({', '.join(pair.names)}, {one}, {two})")
            self.pairs.append(pair)

    def _padded(self, value: V, start: V) -> str:
        """The value in a full block, the initial value in lanes that are not real."""
        full, mask = self.tile.broadcast(value), self.tile.mask(INNER)
        return full.name if mask is None else self.writer.define(
            f"tl.where({mask}, {full.name}, {start.name})", value.element, full.axes
        ).name  # fmt: skip

    def _choose(self, pair: Pair, names: tuple[str, str], first: bool = True) -> None:
        """The results of a selection from blocks of candidates."""
        reduced, made = ([self.writer.fresh(), self.writer.fresh()] for _ in range(2))
        starts, blocks = ", ".join(s.name for s in pair.starts), ", ".join(names)
        self.writer.scopes[0].lines += [
            f"{', '.join(reduced)} = tl.reduce(({blocks}), {self.rank - 1}, {pair.function}, keep_dims=True)",
            f"{', '.join(made)} = {pair.function}({starts}, {', '.join(reduced)})",
        ]
        for number, (result, name) in enumerate(zip(pair.node.results, made, strict=True)):
            self.values[result] = V(name, str(result.type.element_type), OUTER)
            if first:
                self._store(pair.node, number, self.values[result])

    def _selection(self, node: Node, found: Selected) -> str:
        """The function that chooses between two candidates and their positions."""
        writer = Writer()
        bodies = Bodies(Tile(self.kernel, writer, [], {}, [], set()))
        outs = list(node.body.arguments)[len(node.inputs) :]
        element, place = (str(o.type) for o in outs)
        answers = []
        for challenger, holder, at in (("b", "a", "i"), ("a", "b", "j")):
            given = {found.value: V(challenger, element), outs[0]: V(holder, element), outs[1]: V(at, place)}
            answers.append(bodies.run(node.body, node.names, given, [found.condition])[0].name)
        name = f"choose{len(self.functions)}"
        lines = [
            *writer.scopes[0].lines,
            f"other = {answers[0]} | (({answers[1]} == 0) & (j < i))",
            "return tl.where(other, b, a), tl.where(other, j, i)",
        ]
        self.functions.append(f"def {name}(a, i, b, j):\n" + "".join(f"    {line}\n" for line in lines))
        return name

    def _masked(self, fold: Folded, value: V) -> V:
        """The value in a full block, neutral in lanes that are not real."""
        full, mask = self.tile.broadcast(value), self.tile.mask(INNER)
        if mask is None:
            return full
        empty = constant_text(neutral(fold.op.name, value.element), value.element)
        constant = self.writer.define(empty, value.element, prefix="c")
        text = f"tl.where({mask}, {full.name}, {constant.name})"
        return self.writer.define(text, value.element, full.axes)

    def _fold_one(self, node: Node, fold: Folded, value: V, first: bool) -> None:
        result, start = node.results[fold.number], self._initial(node, fold)
        scans = self._scans(result)
        if self.open is None:
            self._streams(node, fold, start, value, first)
            self.values[result] = self._combined(fold, start, self._reduce(value, fold))
            if first and not scans:
                self._store(node, fold.number, self.values[result])
            return
        if result in self.anchors and start is None and first:
            self._grow(result, fold, value)
            return
        name = self._start(result, start, fold, first)
        running = V(name, value.element, OUTER | INNER)
        self._streams(node, fold, running, value, first)
        added = self._reduce(value, fold) if scans else value
        self.writer.line(f"{name} = {fold.function}({name}, {added.name})")

    def _grow(self, result: ir.Value, fold: Folded, value: V) -> None:
        """A maximum that sums of exponentials are relative to: one number for a row, up to date in every step."""
        assert self.open is not None
        name = self.anchors[result] = self.writer.fresh("top")
        least = constant_text(neutral(fold.op.name, "f32"), "f32", f"({self.blocks.outer}, 1)")
        self.before.append(f"{name} = {least}")
        self.writer.line(f"{name}_before = {name}")
        self.writer.line(f"{name} = {fold.function}({name}, {self._reduce(value, fold).name})")
        self.open.append(Accumulator(result, name, value.element, None, None))

    def _streams(self, node: Node, fold: Folded, start: V | None, value: V, first: bool) -> None:
        """The streams of a scan: every partial result."""
        streams = [i for i in range(len(node.outputs)) if node.is_scan_result(i)]
        if streams:
            text = f"tl.associative_scan({value.name}, {self.rank - 1}, {fold.function})"
            scanned = self.writer.define(text, value.element, value.axes)
            for number in streams:
                self._stream(node, number, self._combined(fold, start, scanned), first)

    def _reduce(self, value: V, fold: Folded) -> V:
        text = f"tl.reduce({value.name}, {self.rank - 1}, {fold.function}, keep_dims=True)"
        return self.writer.define(text, value.element, value.axes - INNER if self.open is None else value.axes)

    def _initial(self, node: Node, fold: Folded) -> V | None:
        """What a fold begins with, None where that is neutral."""
        use = node.outputs[fold.number]
        number = filled_with(use.value)
        is_neutral = number == neutral(fold.op.name, str(use.value.type.element_type))
        return None if is_neutral else self._read(node, use)

    def _combined(self, fold: Folded, start: V | None, value: V) -> V:
        """The initial value and a reduced one together."""
        if start is None:
            return value
        text = f"{fold.function}({start.name}, {value.name})"
        return self.writer.define(text, value.element, start.axes | value.axes)
