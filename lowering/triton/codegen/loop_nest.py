"""Kernels that are one loop nest: pointwise (elementwise) kernels, row reductions with prologue and epilogue, scans.

`body.py` emits the expressions of an element, and `source.Source` prints the kernel. A fold is a reduction here.

A program computes a block of the outer loops. `RowMode` says how its inner loops run: as an axis of the block, or as
loops over chunks of the row, which are passes over the row.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node, Structure, Use
from oneflow.lowering.targets.instructions import WARP
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.block_shape import (
    BlockShape,
    RowMode,
    choose_block_shape,
    eviction_policy,
    plane_loops,
    transpose_sides,
    transposed_loops,
    warps_for,
)
from oneflow.lowering.triton.codegen.body import BodyEmitter
from oneflow.lowering.triton.codegen.emission import fill_literal, initial_value, make_source, program_id, tile_count
from oneflow.lowering.triton.codegen.kernel import Kernel
from oneflow.lowering.triton.codegen.online_softmax import OnlineSum, find_online_sums
from oneflow.lowering.triton.codegen.reduction import (
    Accumulator,
    ArgAccumulator,
    ArgReduction,
    Fold,
    neutral_element,
    read_arg_reduction,
    read_folds,
)
from oneflow.lowering.triton.codegen.tile import Axis, Tile, constant_text, indexed_loops, linear_form
from oneflow.lowering.triton.codegen.writer import Value, Writer
from oneflow.lowering.triton.source import Function, Source
from oneflow.lowering.triton.symbolic_sizes import Size, product, range_text

INNER = frozenset({"r"})
OUTER = frozenset({"x"})


@dataclass
class LoopNest:
    """Emits one structure.

    Attributes:
        values: values of nodes in the scope of the whole program.
        loop_values: values of nodes in the loop of the open pass.
        accumulators: the accumulators of the open pass; None where no pass is open.
        loop_prologue: lines before the loop of the open pass.
        arg_accumulators: the arg-reductions of the open pass.
        functions: the functions that only this kernel calls.
    """

    kernel: Kernel
    structure: Structure
    values: dict[ir.Value, Value] = field(default_factory=dict)
    loop_values: dict[ir.Value, Value] = field(default_factory=dict)
    accumulators: list[Accumulator] | None = None
    loop_prologue: list[str] = field(default_factory=list)
    arg_accumulators: list[ArgAccumulator] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = self.structure.nodes
        self.writer = Writer()
        self.sizes = self.kernel.loop_sizes(nodes)
        self.folds = {n.op: read_folds(n) for n in nodes if n.reductions}
        self.arg_reductions = {n.op: s for n in nodes if n.reductions and (s := read_arg_reduction(n)) is not None}
        uses = [(n, u) for n in nodes for u in (*n.inputs, *n.outputs)]
        forms = [linear_form(self.kernel, n, u) for n, u in uses]
        online_sums = find_online_sums(nodes, self.folds)
        self.blocks = choose_block_shape(
            self.kernel, self.structure, self.sizes, forms, self._is_associative(), bool(online_sums)
        )
        self.row = Axis("r", self.structure.inner, self.blocks.inner, scalar=self.blocks.mode is RowMode.SEQUENTIAL)
        start = f"{program_id(self.kernel)} * {self.blocks.outer}"
        self.columns = [Axis("x", self.structure.outer, self.blocks.outer, start)]
        if self.blocks.unrolled:
            self._separate_planes(*plane_loops(self.structure, self.sizes, forms))
        axes = [*self.columns, self.row] if self.blocks.mode is not RowMode.POINTWISE else self.columns
        self.tile = Tile(self.kernel, self.writer, axes, self.sizes, forms, indexed_loops(nodes))
        transposed = (
            transposed_loops(self.structure, self.sizes, forms) if self.blocks.mode is RowMode.POINTWISE else None
        )
        if transposed is not None:
            self._transpose(*transposed)
        self.bodies = BodyEmitter(self.tile)
        self.online_sums = online_sums if self.blocks.mode is RowMode.CHUNKED else {}
        self.running_maxima = {r.maximum: "" for r in self.online_sums.values()}
        self.maximum_inputs: dict[ir.Value, str] = {}
        self.producers = {r: n for n in nodes for r in n.results}
        self.rank = len(self.tile.block_axes)
        #: Whether each lane has its own running maximum: lanes of columns are in several warps.
        self.has_lane_maxima = self.blocks.mode is RowMode.CHUNKED and self.blocks.outer > 1

    def _is_associative(self) -> bool:
        return all(f is not None or op in self.arg_reductions for op, f in self.folds.items())

    def _separate_planes(self, window_loops: list[int], block: int) -> None:
        """Restricts each block to positions of one image, where an image has enough positions for a program."""
        if not window_loops:
            return
        rest = [n for n in self.structure.outer if n not in window_loops]
        count = -(-(product(self.sizes[n] for n in window_loops).static or 0) // block)
        threads = WARP * self.blocks.warps * block // self.blocks.outer
        self.blocks = replace(self.blocks, outer=block, warps=warps_for(threads))
        self.columns = [
            Axis("b", rest, 1, f"{program_id(self.kernel)} // {count}", scalar=True),
            Axis("x", window_loops, block, f"{program_id(self.kernel)} % {count} * {block}"),
        ]

    def _transpose(self, along: int, across: int) -> None:
        """Makes blocks two-dimensional: results are contiguous along one loop, an operand along the other."""
        outer = self.structure.outer
        contiguous = next(g for g in self.tile.groups([n for n in outer if n != across]) if g[-1] == along)
        crossing = next(g for g in self.tile.groups([n for n in outer if n not in contiguous]) if g[-1] == across)
        sizes = [product(self.sizes[n] for n in g).static for g in (crossing, contiguous)]
        tall, wide = transpose_sides(*sizes)
        rest = [n for n in outer if n not in (*contiguous, *crossing)]
        self.columns = [
            Axis("b", rest, 1, "batch", scalar=True),
            Axis("y", crossing, tall, f"row * {tall}"),
            Axis("x", contiguous, wide, f"column * {wide}"),
        ]
        per_thread = 2 * gpu_target().kernels.blocks.elements_per_thread
        self.blocks = BlockShape(wide, 1, RowMode.POINTWISE, warps_for(tall * wide // per_thread))
        forms, opaque = self.tile.forms, self.tile.opaque
        self.tile = Tile(self.kernel, self.writer, self.columns, self.sizes, forms, opaque)
        rows, columns = (tile_count(a) for a in self.columns[1:])
        self.writer.scopes[0].lines += [
            f"program = {program_id(self.kernel)}",
            f"batch = program // ({rows} * {columns})",
            f"row = program % ({rows} * {columns}) // {columns}",
            f"column = program % {columns}",
        ]

    def emit(self) -> Source:
        """The source of the kernel."""
        for axis in self.columns:
            self.tile.emit_axis(axis)
        if self.blocks.mode is RowMode.WHOLE_ROW:
            self.tile.emit_axis(self.row)
        for node in self.structure.nodes:
            self._emit_node(node)
        self._close_row_loop()
        ops = [n.op for n in self.structure.nodes]
        grid = functools.reduce(operator.mul, map(tile_count, self.columns))
        return make_source(self.kernel, self.writer, ops, grid, self.blocks.warps, functions=self.functions)

    def _uses_inner_loops(self, node: Node) -> bool:
        return bool(set(node.loop_ids) & set(self.structure.inner))

    def _emit_node(self, node: Node) -> None:
        if self._is_deferred(node):
            return
        uses = (*node.inputs, *node.outputs)
        if (
            node in self.online_sums
            and self.accumulators is not None
            and self.online_sums[node].maximum in self._pending_results()
        ):
            self._online_sum(node, self.online_sums[node])
            return
        if {u.value for u in uses} & self._pending_results():
            self._close_row_loop()
        if self.blocks.mode is RowMode.POINTWISE or not self._uses_inner_loops(node):
            self._element_wise(node, self.values, True)
            return
        if self.accumulators is None and self.blocks.mode is not RowMode.WHOLE_ROW:
            self._open_row_loop()
        self._emit_in_row_loop(node, True)

    def _is_deferred(self, node: Node) -> bool:
        """Whether a node is the exponential of an online sum: the passes that read it compute it."""
        is_exponent = any(r.exponent is node and n is not node for n, r in self.online_sums.items())
        return is_exponent and self.accumulators is not None and not set(node.results) & set(self.kernel.returned)

    def _online_sum(self, node: Node, online_sum: OnlineSum) -> None:
        """A sum of exponentials in the pass that finds their maximum; the sum is rescaled whenever the maximum
        grows.
        """
        if self.has_lane_maxima and self._lane_sum(node, online_sum):
            return
        exponent, maximum = online_sum.exponent, self.running_maxima[online_sum.maximum]
        least = constant_text('float("-inf")', "f32")
        safe = self.writer.define(f"tl.where({maximum} == {least}, 0.0, {maximum})", "f32", OUTER | INNER)
        self.values[online_sum.maximum] = safe
        (fold,) = self.folds[node.op] or []
        value = fold.value if exponent is node else list(exponent.body.operations)[-1].operation.operands[0]
        (exponential,) = self.bodies.run(exponent.body, exponent.loop_ids, self._arguments(exponent), [value])
        del self.values[online_sum.maximum]
        added = self._masked(fold, exponential)
        name = self._accumulator(node.results[0], self._initial(node, fold), fold, True)
        if self.has_lane_maxima and self.accumulators is not None:
            self.accumulators[-1].maximum = online_sum.maximum
        shrink = self.writer.define(f"tl.exp({maximum}_before - {safe.name})", "f32", OUTER | INNER)
        self.writer.line(f"{name} = {name} * {shrink.name} + {added.name}")

    def _lane_sum(self, node: Node, online_sum: OnlineSum) -> bool:
        """A sum of exponentials whose exponents are the operands of the maximum; returns whether the fold is such a
        sum.

        One exponential, of the distance from the maximum before, rescales the sum or is added to the sum.
        """
        exponent, before = online_sum.exponent, f"{self.running_maxima[online_sum.maximum]}_before"
        (fold,) = self.folds[node.op] or []
        value = fold.value if exponent is node else list(exponent.body.operations)[-1].operation.operands[0]
        difference = value.owner.operands[0]
        self.values[online_sum.maximum] = Value(before, "f32", OUTER | INNER)
        arguments = self._arguments(exponent)
        del self.values[online_sum.maximum]
        (x,) = self.bodies.run(exponent.body, exponent.loop_ids, arguments, [difference.owner.operands[0]])
        x = self._masked(self._fold_of(online_sum.maximum), x)
        if x.name != self.maximum_inputs[online_sum.maximum]:
            return False
        distance = f"-tl.abs(tl.where({x.name} == {before}, 0.0, {x.name} - {before}))"
        arguments[difference] = self.writer.define(distance, "f32", OUTER | INNER)
        (exponential,) = self.bodies.run(exponent.body, exponent.loop_ids, arguments, [value])
        name = self._accumulator(node.results[0], self._initial(node, fold), fold, True)
        assert self.accumulators is not None
        self.accumulators[-1].maximum = online_sum.maximum
        grown, added = f"{name} * {exponential.name} + 1.0", f"{name} + {exponential.name}"
        self.writer.line(f"{name} = tl.where({x.name} > {before}, {grown}, {added})")
        return True

    def _fold_of(self, result: ir.Value) -> Fold:
        """The fold that computes a result."""
        node = self.producers[result]
        return next(f for f in self.folds[node.op] or [] if f.index == node.results.index(result))

    def _pending_results(self) -> set[ir.Value]:
        """The results that are final only after the open pass."""
        return {a.value for a in self.accumulators or []} | {r for p in self.arg_accumulators for r in p.node.results}

    def _open_row_loop(self) -> None:
        self.accumulators, self.loop_prologue, self.loop_values = [], [], {}
        self.writer.open(INNER)
        self.row.start = "r_at"
        if self.blocks.mode is RowMode.CHUNKED:
            self.tile.eviction_policy = eviction_policy(self.kernel, self.structure, self.tile.eviction_policy)
        self.tile.emit_axis(self.row)

    def _close_row_loop(self) -> None:
        if self.accumulators is None:
            return
        block, size, mask = self.blocks.inner, self.row.size.static or 0, self.tile.mask(INNER)
        full_end = size // block * block if mask and self.structure.rowwise else 0
        if full_end:  # Triton drops masks that are known to be true: full blocks have a separate loop.
            true = self.tile.full("True", "i1", f"({'1, ' * (self.rank - 1)}{block},)")
            self.loop_prologue += self.writer.loop_with(self._row_loop_header(0, full_end), mask or "", true)
        self.writer.close(self._row_loop_header(full_end, size or self.row.size), self.loop_prologue)
        for accumulator in self.accumulators:
            self._store_accumulator(accumulator)
        self.accumulators, arg_accumulators, self.arg_accumulators = None, self.arg_accumulators, []
        for arg_accumulator in arg_accumulators:
            self._store_arg_reduction(arg_accumulator, arg_accumulator.names)

    def _row_loop_header(self, begin: int, end: int | Size) -> str:
        """The line that begins a loop over blocks of the row."""
        step = f", {self.blocks.inner}" if self.blocks.inner > 1 else ""
        unrolled = f", loop_unroll_factor={self.blocks.unrolled}" if self.blocks.unrolled else ""
        return f"for r_at in {self._range_prefix(begin, end)}{range_text(begin, end, step + unrolled)}:"

    def _range_prefix(self, begin: int, end: int | Size) -> str:
        """The prefix of `range` in the header of a row loop: Triton's own range can be unrolled."""
        return "tl." if self.blocks.unrolled else ""

    def _store_accumulator(self, accumulator: Accumulator) -> None:
        result = accumulator.value
        self.values[result] = self._final_value(accumulator)
        node = self.producers[result]
        self._store(node, node.results.index(result), self.values[result])

    def _final_value(self, a: Accumulator) -> Value:
        lanes = Value(a.name, a.element, OUTER)
        if a.fold is None:
            return lanes
        if a.maximum is not None:
            least, maximum = constant_text('float("-inf")', "f32"), self.values[a.maximum].name
            safe = f"tl.where({maximum} == {least}, 0.0, {maximum})"
            text = f"{a.name} * tl.exp({self.running_maxima[a.maximum]} - {safe})"
            lanes = self.writer.define(text, a.element, OUTER)
        return self._combined(a.fold, a.start, self._reduce(lanes, a.fold))

    def _emit_in_row_loop(self, node: Node, first: bool) -> None:
        """Emits a node in the open pass; `first` is False where a later pass computes the node again."""
        if not node.reductions:
            self._element_wise(node, self.loop_values if self.accumulators is not None else self.values, first)
        elif self.blocks.mode is RowMode.SEQUENTIAL:
            self._sequential_step(node, first)
        elif node.op in self.arg_reductions:
            self._reduce_arg(node, first)
        else:
            self._fold(node, first)

    def _element_wise(self, node: Node, values: dict[ir.Value, Value], first: bool) -> None:
        results = self.bodies.run(node.body, node.loop_ids, self._arguments(node))
        for index, (result, value) in enumerate(zip(node.results, results, strict=True)):
            values[result] = value
            if first:
                self._store(node, index, value)

    def _arguments(self, node: Node) -> dict[ir.Value, Value]:
        """The values of the block arguments that the body uses."""
        block = list(node.body.arguments)
        uses = [*node.inputs, *node.outputs]
        return {a: self._read(node, u) for a, u in zip(block, uses, strict=True) if any(True for _ in a.uses)}

    def _read(self, node: Node, use: Use) -> Value:
        value = use.value
        if value in self.producers and value not in self.values:
            if value not in self.loop_values:
                self._emit_in_row_loop(self.producers[value], False)
            return self.loop_values[value]
        if value in self.values:
            return self.values[value]
        if value in self.kernel.tensors:
            offset = self.tile.offset(linear_form(self.kernel, node, use))
            return self.tile.load(self.kernel.tensor(value), offset)
        return initial_value(self.bodies, value)

    def _store(self, node: Node, index: int, value: Value) -> None:
        """Stores result `index` of a node, if the kernel returns the result."""
        use = node.outputs[index]
        for returned, destination in zip(self.kernel.returned, self.kernel.destinations, strict=True):
            if returned == node.results[index]:
                form = linear_form(self.kernel, node, Use(destination, use.access))
                self.tile.store(self.kernel.tensor(destination), form, value)

    def _sequential_step(self, node: Node, first: bool) -> None:
        """One step of a reduction that is not associative. The streams of a scan have no accumulators."""
        assert self.accumulators is not None
        arguments, names = self._arguments(node), {}
        outs = list(node.body.arguments)[len(node.inputs) :]
        for index, (use, out) in enumerate(zip(node.outputs, outs, strict=True)):
            if not node.is_scan_result(index):
                name = names[index] = self._accumulator(node.results[index], self._read(node, use), None, first)
                arguments[out] = Value(name, str(out.type), OUTER | INNER)
        results = self.bodies.run(node.body, node.loop_ids, arguments)
        for index, value in enumerate(results):
            if index in names:
                self.writer.line(f"{names[index]} = {self.tile.broadcast(value).name}")
            else:
                self._set_scan_result(node, index, value, first)

    def _set_scan_result(self, node: Node, index: int, value: Value, first: bool) -> None:
        (self.loop_values if self.accumulators is not None else self.values)[node.results[index]] = value
        if first:
            self._store(node, index, value)

    def _accumulator(self, result: ir.Value, start: Value | None, fold: Fold | None, first: bool) -> str:
        """Defines an accumulator of the open pass, and returns its name.

        `start` is its initial value. Without one, or where lanes are combined after the loop, that is the neutral
        element.
        """
        assert self.accumulators is not None
        name, element = self.writer.fresh("acc"), str(result.type.element_type)
        if start is not None and (fold is None or self._scans(result)):
            text = f"tl.broadcast_to({start.name}, {self._accumulator_shape(fold)})"
        else:
            assert fold is not None
            shape = self._accumulator_shape(fold) if self._scans(result) else self.tile.shape
            text = self.tile.full(neutral_element(fold.op.name, element), element, shape)
        self.loop_prologue.append(f"{name} = {text}")
        if first:
            self.accumulators.append(Accumulator(result, name, element, start, None if self._scans(result) else fold))
        return name

    def _accumulator_shape(self, fold: Fold | None) -> str:
        return self.tile.shape if fold is None else f"({self.blocks.outer}, 1)"

    def _scans(self, result: ir.Value) -> bool:
        node = self.producers[result]
        return any(node.is_scan_result(i) for i in range(len(node.outputs)))

    def _fold(self, node: Node, first: bool) -> None:
        folds = self.folds[node.op] or []
        outs = list(node.body.arguments)[len(node.inputs) :]
        arguments = {a: v for a, v in self._arguments(node).items() if a not in outs}
        values = self.bodies.run(node.body, node.loop_ids, arguments, [f.value for f in folds])
        for fold, value in zip(folds, values, strict=True):
            self._fold_result(node, fold, self._masked(fold, value), first)

    def _reduce_arg(self, node: Node, first: bool) -> None:
        """An arg-reduction: the extreme element, and its index."""
        reduction, outs = self.arg_reductions[node.op], list(node.body.arguments)[len(node.inputs) :]
        arguments = {a: v for a, v in self._arguments(node).items() if a not in outs}
        values = self.bodies.run(node.body, node.loop_ids, arguments, [reduction.value, reduction.index])
        starts = tuple(self._read(node, u) for u in node.outputs)
        element, index = (self._padded_with(v, s) for v, s in zip(values, starts, strict=True))
        narrow = ".to(tl.int32)" if self._has_narrow_index(node, reduction) else ""
        index = f"{index}{narrow}"
        accumulator = ArgAccumulator(
            node, (element, index), (starts[0], starts[1]), self._arg_combiner(node, reduction)
        )
        if self.accumulators is None:
            self._store_arg_reduction(accumulator, (element, index), first)
        elif first:
            accumulator.names = (self.writer.fresh("acc"), self.writer.fresh("acc"))
            for name, start, kind in zip(accumulator.names, accumulator.starts, ("", narrow), strict=True):
                self.loop_prologue.append(f"{name} = tl.broadcast_to({start.name}, {self.tile.shape}){kind}")
            later = self._arg_combiner(node, reduction, True)
            self.writer.line(
                f"{', '.join(accumulator.names)} = {later}({', '.join(accumulator.names)}, {element}, {index})"
            )
            self.arg_accumulators.append(accumulator)

    def _has_narrow_index(self, node: Node, reduction: ArgReduction) -> bool:
        """Whether the index is a loop index, for which 32 bits suffice if they suffice for all elements."""
        start, cast = fill_literal(node.outputs[1].value), reduction.index
        if self.kernel.needs_64_bits or start != "0" or isinstance(cast, ir.BlockArgument):
            return False
        index = cast.owner.operands[0] if cast.owner.name == "arith.index_cast" else None
        return index is not None and not isinstance(index, ir.BlockArgument) and index.owner.name == "linalg.index"

    def _padded_with(self, value: Value, start: Value) -> str:
        """The value as a full block, with `start` in masked lanes."""
        full, mask = self.tile.broadcast(value), self.tile.mask(INNER)
        return full.name if mask is None else self.writer.define(
            f"tl.where({mask}, {full.name}, {start.name})", value.element, full.axes
        ).name  # fmt: skip

    def _store_arg_reduction(self, accumulator: ArgAccumulator, names: tuple[str, str], first: bool = True) -> None:
        """The results of an arg-reduction, reduced from blocks of candidates."""
        reduced, combined = ([self.writer.fresh(), self.writer.fresh()] for _ in range(2))
        starts, blocks = ", ".join(s.name for s in accumulator.starts), ", ".join(names)
        self.writer.scopes[0].lines += [
            f"{', '.join(reduced)} = tl.reduce(({blocks}), {self.rank - 1}, {accumulator.function}, keep_dims=True)",
            f"{', '.join(combined)} = {accumulator.function}({starts}, {', '.join(reduced)})",
        ]
        for index, (result, name) in enumerate(zip(accumulator.node.results, combined, strict=True)):
            self.values[result] = Value(name, str(result.type.element_type), OUTER)
            if first:
                self._store(accumulator.node, index, self.values[result])

    def _arg_combiner(self, node: Node, reduction: ArgReduction, in_order: bool = False) -> str:
        """Defines the function that combines two pairs of an element and an index, and returns its name.

        With `in_order` the second index is the larger one.
        """
        writer = Writer()
        bodies = BodyEmitter(Tile(self.kernel, writer, [], {}, [], set()))
        outs = list(node.body.arguments)[len(node.inputs) :]
        element, index = (str(o.type) for o in outs)
        conditions: list[str] = []
        for candidate, current, current_index in (("b", "a", "i"), ("a", "b", "j"))[: 1 if in_order else 2]:
            values = {outs[0]: Value(current, element), outs[1]: Value(current_index, index)}
            values[reduction.value] = Value(candidate, element)
            conditions.append(bodies.run(node.body, node.loop_ids, values, [reduction.condition])[0].name)
        name = f"choose{len(self.functions)}"
        tie = f" | (({conditions[1]} == 0) & (j < i))" if len(conditions) > 1 else ""
        lines = [
            *writer.body,
            f"other = {conditions[0]}{tie}",
            "return tl.where(other, b, a), tl.where(other, j, i)",
        ]
        self.functions.append(Function(name, ("a", "i", "b", "j"), tuple(lines)))
        self.writer.calls |= writer.calls
        return name

    def _masked(self, fold: Fold, value: Value) -> Value:
        """The value as a full block, with the neutral element in masked lanes."""
        full, mask = self.tile.broadcast(value), self.tile.mask(INNER)
        if mask is None:
            return full
        empty = constant_text(neutral_element(fold.op.name, value.element), value.element)
        constant = self.writer.define(empty, value.element, prefix="c")
        text = f"tl.where({mask}, {full.name}, {constant.name})"
        return self.writer.define(text, value.element, full.axes)

    def _fold_result(self, node: Node, fold: Fold, value: Value, first: bool) -> None:
        result, start = node.results[fold.index], self._initial(node, fold)
        scans = self._scans(result)
        if self.accumulators is None:
            self._emit_scan(node, fold, start, value, first)
            self.values[result] = self._combined(fold, start, self._reduce(value, fold))
            if first and not scans:
                self._store(node, fold.index, self.values[result])
            return
        if result in self.running_maxima and start is None and first:
            self._running_maximum(result, fold, value)
            return
        name = self._accumulator(result, start, fold, first)
        running = Value(name, value.element, OUTER | INNER)
        self._emit_scan(node, fold, running, value, first)
        added = self._reduce(value, fold) if scans else value
        self.writer.line(f"{name} = {self.writer.call(fold.function)}({name}, {added.name})")

    def _running_maximum(self, result: ir.Value, fold: Fold, value: Value) -> None:
        """The running maximum of an online softmax, exact in every step: of a row, or of each lane of columns."""
        assert self.accumulators is not None
        name = self.running_maxima[result] = self.writer.fresh("running_max")
        shape = self.tile.shape if self.has_lane_maxima else f"({self.blocks.outer}, 1)"
        least = constant_text(neutral_element(fold.op.name, "f32"), "f32", shape)
        self.loop_prologue.append(f"{name} = {least}")
        self.writer.line(f"{name}_before = {name}")
        self.maximum_inputs[result] = value.name
        added = value if self.has_lane_maxima else self._reduce(value, fold)
        self.writer.line(f"{name} = {self.writer.call(fold.function)}({name}, {added.name})")
        lanes = fold if self.has_lane_maxima else None
        self.accumulators.append(Accumulator(result, name, value.element, None, lanes))

    def _emit_scan(self, node: Node, fold: Fold, start: Value | None, value: Value, first: bool) -> None:
        """The streams of a scan: its partial results."""
        streams = [i for i in range(len(node.outputs)) if node.is_scan_result(i)]
        if streams:
            text = f"tl.associative_scan({value.name}, {self.rank - 1}, {self.writer.call(fold.function)})"
            scanned = self.writer.define(text, value.element, value.axes)
            for index in streams:
                self._set_scan_result(node, index, self._combined(fold, start, scanned), first)

    def _reduce(self, value: Value, fold: Fold) -> Value:
        text = f"tl.reduce({value.name}, {self.rank - 1}, {self.writer.call(fold.function)}, keep_dims=True)"
        return self.writer.define(
            text, value.element, value.axes - INNER if self.accumulators is None else value.axes
        )

    def _initial(self, node: Node, fold: Fold) -> Value | None:
        """The initial value of a fold, None where it is the neutral element."""
        use = node.outputs[fold.index]
        is_neutral = fill_literal(use.value) == neutral_element(fold.op.name, str(use.value.type.element_type))
        return None if is_neutral else self._read(node, use)

    def _combined(self, fold: Fold, start: Value | None, value: Value) -> Value:
        """The initial value combined with a reduced value."""
        if start is None:
            return value
        text = f"{self.writer.call(fold.function)}({start.name}, {value.name})"
        return self.writer.define(text, value.element, start.axes | value.axes)
