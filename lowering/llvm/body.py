"""Cloning the body of a `linalg.generic` onto scalars or vectors.

A value that is equal in all lanes stays a scalar and is computed in the loop's preheader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.llvm.kernel import Kernel, natural_view
from oneflow.lowering.llvm.writer import Index, Writer, memory_type

#: The cost of an operation in element operations, by dialect; other operations cost 1.
OPERATION_COST = {"math": 12, "func": 4}


class NeedsScalars(Unsupported):
    """The body or the accesses cannot be vectorized in this mode."""


@dataclass(frozen=True)
class LaneValue:
    """A value in a loop: its SSA name and element type; `is_vector` if it has one element per lane.

    An index whose lane k is `first_lane + k` has a `first_lane`. `two_starts` are a condition per lane and two such
    indices, of which the condition selects one.
    """

    name: str
    element: str
    is_vector: bool = False
    first_lane: Index | None = None
    two_starts: tuple[LaneValue, LaneValue, LaneValue] | None = None

    @property
    def is_lane_index(self) -> bool:
        """Whether the lanes are consecutive indices, from one start or from two."""
        return self.first_lane is not None or self.two_starts is not None


@dataclass
class Lanes:
    """The vectorization of a loop: `width` lanes (None: scalars), of which those of `mask` are active (None: all).

    Operations on loop-invariant values are written to the `preheader`. `active` is the number of active lanes where
    it is known besides the mask.
    """

    writer: Writer
    kernel: Kernel
    width: int | None
    mask: str | None = None
    preheader: list[str] | None = None
    captured: dict[ir.Value, LaneValue] = field(default_factory=dict)
    active: Index | None = None

    def type(self, element: str, is_vector: bool = True) -> str:
        """The type of a value with this element type."""
        return f"vector<{self.width}x{element}>" if is_vector and self.width else element

    def broadcast(self, value: LaneValue) -> str:
        """The value as a vector."""
        if value.is_vector or not self.width:
            return value.name
        kind = self.type(value.element)
        return self._hoisted(f"vector.broadcast {value.name} : {value.element} to {kind}")

    def _hoisted(self, text: str) -> str:
        """Writes a loop-invariant operation; returns its name."""
        name = self.writer.fresh()
        (self.writer.lines if self.preheader is None else self.preheader).append(f"{name} = {text}")
        return name

    def constant(self, value: str, element: str) -> LaneValue:
        """A scalar constant."""
        return LaneValue(self.writer.constant(value, element), element)

    def load(self, memory: str, kind: str, positions: Sequence[str], element: str, is_vector: bool) -> LaneValue:
        """Loads the element at `positions`, or the vector that begins there. Bools are bytes in memory."""
        stored_type, at = memory_type(element), f"{memory}[{', '.join(positions)}] : {kind}"
        if not is_vector:
            name = self._hoisted(f"memref.load {at}")
        elif self.mask is None:
            name = self.writer.op(f"vector.load {at}, {self.type(stored_type)}")
        else:
            zero = self.writer.constant(f"dense<{zero_of(stored_type)}>", self.type(stored_type))
            masks = f"vector<{self.width}xi1>"
            at = f"{memory}[{', '.join(positions)}], {self.mask}, {zero} : {kind}, {masks}"
            name = self.writer.op(f"vector.maskedload {at}, {self.type(stored_type)} into {self.type(stored_type)}")
        if stored_type == element:
            return LaneValue(name, element, is_vector)
        cast = f"arith.trunci {name} : {self.type(stored_type, is_vector)} to {self.type(element, is_vector)}"
        return LaneValue(self.writer.op(cast) if is_vector else self._hoisted(cast), element, is_vector)

    def load_stride_two(self, memory: str, kind: str, positions: Sequence[str], element: str) -> LaneValue:
        """Loads every second element from `positions` on, by two vectors that do not read beyond the last element."""
        w, width = self.writer, self.width or 1
        further = w.binary("addi", positions[-1], width - 1)
        halves = []
        for number, last in enumerate((positions[-1], further)):
            lanes = Lanes(w, self.kernel, width, None, None, self.captured)
            if self.active is not None:
                reach = w.binary("muli", self.active, 2)
                remaining = w.binary("subi", reach, width if number else 1)
                lanes.mask = w.op(f"vector.create_mask {remaining} : vector<{width}xi1>")
            halves.append(lanes.load(memory, kind, [*positions[:-1], last], element, True).name)
        picked = [2 * i if 2 * i < width else 2 * i + 1 for i in range(width)]
        both = self.type(element)
        return LaneValue(w.op(f"vector.shuffle {halves[0]}, {halves[1]} {picked} : {both}, {both}"), element, True)

    def store_interleaved(
        self, values: tuple[LaneValue, LaneValue], memory: str, kind: str, positions: Sequence[str]
    ) -> None:
        """Stores the lanes of two values alternately from `positions` on."""
        w, width = self.writer, self.width or 1
        both, element = self.type(values[0].element), values[0].element
        names = ", ".join(self.broadcast(v) for v in values)
        for number in range(2):
            lanes = Lanes(w, self.kernel, width, None, None, self.captured)
            if self.active is not None:
                remaining = w.binary("subi", w.binary("muli", self.active, 2), number * width)
                lanes.mask = w.op(f"vector.create_mask {remaining} : vector<{width}xi1>")
            picked = [(number * width + i) // 2 + i % 2 * width for i in range(width)]
            joined = LaneValue(w.op(f"vector.shuffle {names} {picked} : {both}, {both}"), element, True)
            at = [*positions[:-1], w.index(w.add(positions[-1], number * width))]
            lanes.store(joined, memory, kind, at, True)

    def store(self, value: LaneValue, memory: str, kind: str, positions: Sequence[str], is_vector: bool) -> None:
        """Stores a value as `load` reads it."""
        name, stored_type = self.broadcast(value) if is_vector else value.name, memory_type(value.element)
        if stored_type != value.element:
            kinds = f"{self.type(value.element, is_vector)} to {self.type(stored_type, is_vector)}"
            name = self.writer.op(f"arith.extui {name} : {kinds}")
        at = f"{memory}[{', '.join(positions)}]"
        if not is_vector:
            self.writer.line(f"memref.store {name}, {at} : {kind}")
        elif self.mask is None:
            self.writer.line(f"vector.store {name}, {at} : {kind}, {self.type(stored_type)}")
        else:
            masks = f"vector<{self.width}xi1>"
            self.writer.line(
                f"vector.maskedstore {at}, {self.mask}, {name} : {kind}, {masks}, {self.type(stored_type)}"
            )


def zero_of(element: str) -> str:
    """The literal 0 of an element type."""
    return "0.0" if element[0] in "fb" else "0"


def attribute_text(op: ir.Operation) -> str:
    """An operation's attributes in the generic form."""
    names = [f"{name} = {op.attributes[name]}" for name in op.attributes]
    return f" {{{', '.join(names)}}}" if names else ""


def clone_scalar(op: ir.Operation, operands: Sequence[LaneValue], lanes: Lanes) -> LaneValue:
    """One operation on elements, as a vector operation if an operand is a vector.

    Raises:
        Unsupported: the operation has regions, or not one result.
        NeedsScalars: the operation has no vector form.
    """
    if len(op.results) != 1 or len(op.regions):
        raise Unsupported(op.name)
    result = str(op.results[0].type)
    is_vector = any(v.is_vector for v in operands)
    if is_vector and op.name.partition(".")[0] not in ("arith", "math"):
        raise NeedsScalars(op.name)
    names = [lanes.broadcast(v) for v in operands] if is_vector else [v.name for v in operands]
    types = ", ".join(lanes.type(v.element, is_vector) for v in operands)
    text = f'"{op.name}"({", ".join(names)}){attribute_text(op)} : ({types}) -> {lanes.type(result, is_vector)}'
    return LaneValue(lanes.writer.op(text) if is_vector else lanes._hoisted(text), result, is_vector)


@dataclass
class BodyCloner:
    """Clones bodies at one position of a nest; `positions[d]` is the value of loop dimension `d` of the node."""

    lanes: Lanes
    positions: dict[int, LaneValue]

    def run(self, block: ir.Block, arguments: Sequence[LaneValue]) -> list[LaneValue]:
        """The values that the block yields for these arguments."""
        env = dict(zip(block.arguments, arguments, strict=True))
        for view_op in block.operations:
            op = view_op.operation
            if op.name == "linalg.yield":
                return [self._value(env, v) for v in op.operands]
            env.update(zip(op.results, [self._clone(op, env)], strict=False))
        raise AssertionError("a body without linalg.yield")

    def _value(self, env: dict[ir.Value, LaneValue], value: ir.Value) -> LaneValue:
        """The clone of a value."""
        return env[value] if value in env else outside_value(self.lanes, value)

    def _clone(self, op: ir.Operation, env: dict[ir.Value, LaneValue]) -> LaneValue:
        """Clones one operation."""
        if op.name == "linalg.index":
            return self.positions[ir.IntegerAttr(op.attributes["dim"]).value]
        if op.name == "arith.constant":
            return self.lanes.constant(constant_text(op), str(op.results[0].type))
        if op.name == "tensor.dim":
            return outside_value(self.lanes, op.results[0])
        if op.name == "tensor.extract":
            return self._extract(op, [self._value(env, v) for v in list(op.operands)[1:]])
        operands = [self._value(env, v) for v in op.operands]
        return self._with_lane_index(op, operands, clone_scalar(op, operands, self.lanes))

    def _with_lane_index(self, op: ir.Operation, operands: Sequence[LaneValue], value: LaneValue) -> LaneValue:
        """The result of an index operation, with what is known of it as a lane index."""
        if op.name == "arith.select" and operands[0].is_vector:
            are_lane_indices = all(v.first_lane is not None for v in operands[1:])
            return replace(value, two_starts=(operands[0], operands[1], operands[2])) if are_lane_indices else value
        if op.name not in ("arith.addi", "arith.subi") or operands[0].first_lane is None or operands[1].is_vector:
            return value
        base = self.lanes.writer.index(operands[0].first_lane)
        return replace(value, first_lane=self.lanes.writer.op(f"{op.name} {base}, {operands[1].name} : index"))

    def _extract(self, op: ir.Operation, positions: list[LaneValue]) -> LaneValue:
        """An element at a computed position: one vector load where the last position is a lane index."""
        tensor = self.lanes.kernel.tensors.get(op.operands[0])
        if tensor is None:
            raise Unsupported("tensor.extract from a value of the kernel")
        varying = [i for i, p in enumerate(positions) if p.is_vector]
        if varying and not (varying == [len(positions) - 1] and positions[-1].is_lane_index):
            raise NeedsScalars("tensor.extract at a position for each lane")
        with self.lanes.writer.buffered() as lines:
            memory, kind = natural_view(self.lanes.writer, tensor)
        (self.lanes.writer.lines if self.lanes.preheader is None else self.lanes.preheader).extend(lines)

        def load(lanes: Lanes, *last: LaneValue) -> LaneValue:
            before = positions[: len(positions) - len(last)]
            names = [p.name if p.first_lane is None else lanes.writer.index(p.first_lane) for p in (*before, *last)]
            return lanes.load(memory, kind, names, tensor.element, bool(varying))

        starts = positions[-1].two_starts if varying else None
        return load(self.lanes) if starts is None else self._load_from_two_starts(*starts, load)

    def _load_from_two_starts(
        self, condition: LaneValue, one: LaneValue, other: LaneValue, load: Callable[[Lanes, LaneValue], LaneValue]
    ) -> LaneValue:
        """Loads from one of two starts per lane.

        Usually all lanes agree and one load is made; otherwise both sides are loaded under masks.
        """
        w, masks = self.lanes.writer, self.lanes.type("i1")
        lanes = replace(self.lanes, preheader=None)

        def both() -> LaneValue:
            inverse = w.op(f"arith.xori {condition.name}, {w.constant('dense<true>', masks)} : {masks}")
            loaded = []
            for side, at in ((condition.name, one), (inverse, other)):
                mask = side if lanes.mask is None else w.op(f"arith.andi {side}, {lanes.mask} : {masks}")
                loaded.append(load(replace(lanes, mask=mask), at))
            kind, names = lanes.type(loaded[0].element), ", ".join(v.name for v in loaded)
            return LaneValue(
                w.op(f"arith.select {condition.name}, {names} : {masks}, {kind}"), loaded[0].element, True
            )

        all_first, any_first = (
            w.op(f"vector.reduction <{kind}>, {condition.name} : {masks} into i1") for kind in ("and", "or")
        )
        return self._branch(
            all_first, lambda: load(lanes, one), lambda: self._branch(any_first, both, lambda: load(lanes, other))
        )

    def _branch(self, condition: str, yes: Callable[[], LaneValue], no: Callable[[], LaneValue]) -> LaneValue:
        """An `scf.if` that computes one of two values."""
        w = self.lanes.writer
        with w.buffered() as first:
            one = yes()
        with w.buffered() as second:
            other = no()
        kind = self.lanes.type(one.element)
        result = w.fresh()
        w.lines += [
            f"{result} = scf.if {condition} -> ({kind}) {{",
            *first,
            f"scf.yield {one.name} : {kind}",
            "} else {",
        ]
        w.lines += [*second, f"scf.yield {other.name} : {kind}", "}"]
        return LaneValue(result, one.element, True)


def constant_text(op: ir.Operation) -> str:
    """The literal of an `arith.constant`, without its type."""
    text = str(op.attributes["value"])
    return text.rpartition(" : ")[0] or text


def outside_value(lanes: Lanes, value: ir.Value) -> LaneValue:
    """A scalar defined outside the bodies: a parameter, a constant, a size, or computed from those.

    Raises:
        Unsupported: any other value.
    """
    if value in lanes.captured:
        return lanes.captured[value]
    lanes.captured[value] = computed = _compute_outside(lanes, value)
    return computed


def _compute_outside(lanes: Lanes, value: ir.Value) -> LaneValue:
    """`outside_value` for a value that is not cached."""
    if value in lanes.kernel.scalars:
        return LaneValue(lanes.kernel.scalars[value], str(value.type))
    if isinstance(value, ir.BlockArgument):
        raise Unsupported("a value from another block")
    op = value.owner
    if op.name == "arith.constant":
        return lanes.constant(constant_text(op), str(value.type))
    if op.name == "tensor.dim":
        return LaneValue(lanes.writer.index(size_of(lanes, op)), "index")
    operands = [outside_value(lanes, v) for v in op.operands]
    with lanes.writer.at_head():
        result = clone_scalar(op, operands, Lanes(lanes.writer, lanes.kernel, None))
    return result


def size_of(lanes: Lanes, op: ir.Operation) -> Index:
    """The size that a `tensor.dim` of a kernel argument returns.

    Raises:
        Unsupported: the tensor is no argument.
    """
    tensor = lanes.kernel.tensors.get(op.operands[0])
    position = op.operands[1].owner
    if tensor is None or position.name != "arith.constant":
        raise Unsupported("tensor.dim of a value of the kernel")
    axis = int(ir.IntegerAttr(position.attributes["value"]).value)
    return tensor.shape[axis]
