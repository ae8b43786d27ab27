"""Cloning the body of a `linalg.generic` onto the lanes of a loop.

Input is the body of a node, output the text of its operations on scalars or vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.llvm.fold_flags import is_fold_flag
from oneflow.lowering.llvm.kernel import Tensor, natural_view
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, NeedsScalars
from oneflow.lowering.llvm.writer import Index


def _attribute_text(op: ir.Operation) -> str:
    """An operation's attributes in the generic form, without the flags of folds."""
    names = [f"{name} = {op.attributes[name]}" for name in op.attributes if not is_fold_flag(op, name)]
    return f" {{{', '.join(names)}}}" if names else ""


def clone_operation(op: ir.Operation, operands: Sequence[LaneValue], lanes: Lanes) -> LaneValue:
    """Clones one operation on elements, as a vector operation if an operand is a vector.

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
    text = f'"{op.name}"({", ".join(names)}){_attribute_text(op)} : ({types}) -> {lanes.type(result, is_vector)}'
    return LaneValue(lanes.writer.op(text) if is_vector else lanes.hoisted(text), result, is_vector)


def reads_by_elements(body: ir.Block) -> bool:
    """Whether a body reads at a position that other elements determine, as binary searches do.

    Gathers pay there: the chain of reads has a long latency, which all lanes share.
    """
    by_elements = set(body.arguments)
    for view_op in body.operations:
        op = view_op.operation
        depends = any(v in by_elements for v in op.operands)
        if op.name == "tensor.extract" and depends:
            return True
        if op.name == "tensor.extract" or depends:
            by_elements.update(op.results)
    return False


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
        return env[value] if value in env else captured_scalar(self.lanes, value)

    def _clone(self, op: ir.Operation, env: dict[ir.Value, LaneValue]) -> LaneValue:
        """Clones one operation."""
        if op.name == "linalg.index":
            return self.positions[ir.IntegerAttr(op.attributes["dim"]).value]
        if op.name == "arith.constant":
            return self.lanes.constant(constant_text(op), str(op.results[0].type))
        if op.name == "tensor.dim":
            return captured_scalar(self.lanes, op.results[0])
        if op.name == "tensor.extract":
            return self._extract(op, [self._value(env, v) for v in list(op.operands)[1:]])
        operands = [self._value(env, v) for v in op.operands]
        return self._with_lane_index(op, operands, clone_operation(op, operands, self.lanes))

    def _with_lane_index(self, op: ir.Operation, operands: Sequence[LaneValue], value: LaneValue) -> LaneValue:
        """The result of an index operation, with its first lane or its two starts where it is a lane index."""
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
            if not self.lanes.kernel.target.has_masks or not reads_by_elements(op.block):
                raise NeedsScalars("tensor.extract at a position for each lane")
            return self._gather(tensor, positions)
        with self.lanes.writer.buffered() as lines:
            memory = natural_view(self.lanes.writer, tensor)
        self.lanes.invariant_lines.extend(lines)

        def load(lanes: Lanes, *last: LaneValue) -> LaneValue:
            before = positions[: len(positions) - len(last)]
            names = [p.name if p.first_lane is None else lanes.writer.index(p.first_lane) for p in (*before, *last)]
            return lanes.load(memory, names, tensor.element, bool(varying))

        starts = positions[-1].two_starts if varying else None
        return load(self.lanes) if starts is None else self._load_from_two_starts(*starts, load)

    def _gather(self, tensor: Tensor, positions: Sequence[LaneValue]) -> LaneValue:
        """An element for each lane, at computed positions."""
        lanes, w = self.lanes, self.lanes.writer
        kind, offset = lanes.type("index"), ""
        for position, size in zip(positions, tensor.shape, strict=True):
            if offset:
                extent = lanes.hoisted(f"vector.broadcast {w.index(size)} : index to {kind}")
                offset = w.op(f"arith.muli {offset}, {extent} : {kind}")
                offset = w.op(f"arith.addi {offset}, {lanes.broadcast(position)} : {kind}")
            else:
                offset = lanes.broadcast(position)
        return lanes.gather(tensor, offset)

    def _load_from_two_starts(
        self, condition: LaneValue, first: LaneValue, second: LaneValue, load: Callable[[Lanes, LaneValue], LaneValue]
    ) -> LaneValue:
        """Loads from one of two starts per lane.

        Usually all lanes agree and one load is made; otherwise both sides are loaded under masks.
        """
        w, masks = self.lanes.writer, self.lanes.type("i1")
        lanes = replace(self.lanes, preheader=None)
        all_first, any_first = (
            w.op(f"vector.reduction <{kind}>, {condition.name} : {masks} into i1") for kind in ("and", "or")
        )

        def load_some() -> LaneValue:
            return self._branch(
                any_first,
                lambda: self._load_both(lanes, condition, first, second, load),
                lambda: load(lanes, second),
            )

        return self._branch(all_first, lambda: load(lanes, first), load_some)

    def _load_both(
        self, lanes: Lanes, condition: LaneValue, first: LaneValue, second: LaneValue,
        load: Callable[[Lanes, LaneValue], LaneValue],
    ) -> LaneValue:  # fmt: skip
        """Loads from two starts under masks, and selects for each lane."""
        w, masks = lanes.writer, lanes.type("i1")
        inverse = w.op(f"arith.xori {condition.name}, {w.constant('dense<true>', masks)} : {masks}")
        loaded = []
        for side, start in ((condition.name, first), (inverse, second)):
            mask = side if lanes.mask is None else w.op(f"arith.andi {side}, {lanes.mask} : {masks}")
            loaded.append(load(replace(lanes, mask=mask), start))
        kind, names = lanes.type(loaded[0].element), ", ".join(v.name for v in loaded)
        name = w.op(f"arith.select {condition.name}, {names} : {masks}, {kind}")
        return LaneValue(name, loaded[0].element, True)

    def _branch(self, condition: str, then: Callable[[], LaneValue], otherwise: Callable[[], LaneValue]) -> LaneValue:
        """An `scf.if` that computes one of two values."""
        w = self.lanes.writer
        with w.buffered() as then_lines:
            first = then()
        with w.buffered() as other_lines:
            second = otherwise()
        kind = self.lanes.type(first.element)
        result = w.fresh()
        w.lines += [f"{result} = scf.if {condition} -> ({kind}) {{", *then_lines]
        w.lines += [f"scf.yield {first.name} : {kind}", "} else {", *other_lines]
        w.lines += [f"scf.yield {second.name} : {kind}", "}"]
        return LaneValue(result, first.element, True)


def constant_text(op: ir.Operation) -> str:
    """The literal of an `arith.constant`, without its type."""
    text = str(op.attributes["value"])
    return text.rpartition(" : ")[0] or text


def captured_scalar(lanes: Lanes, value: ir.Value) -> LaneValue:
    """A scalar that a body captures: a parameter, a constant, a size, or computed from those.

    Raises:
        Unsupported: any other value.
    """
    if value in lanes.captured:
        return lanes.captured[value]
    lanes.captured[value] = computed = _compute_captured(lanes, value)
    return computed


def _compute_captured(lanes: Lanes, value: ir.Value) -> LaneValue:
    """`captured_scalar` for a value that is not cached."""
    if value in lanes.kernel.scalars:
        return LaneValue(lanes.kernel.scalars[value], str(value.type))
    if isinstance(value, ir.BlockArgument):
        raise Unsupported("a value from another block")
    op = value.owner
    if op.name == "arith.constant":
        return lanes.constant(constant_text(op), str(value.type))
    if op.name == "tensor.dim":
        return LaneValue(lanes.writer.index(_size_of(lanes, op)), "index")
    operands = [captured_scalar(lanes, v) for v in op.operands]
    with lanes.writer.at_head():
        result = clone_operation(op, operands, Lanes(lanes.writer, lanes.kernel, None))
    return result


def _size_of(lanes: Lanes, op: ir.Operation) -> Index:
    """The size that a `tensor.dim` of a kernel argument returns.

    Raises:
        Unsupported: the tensor is no argument.
    """
    tensor = lanes.kernel.tensors.get(op.operands[0])
    constant = op.operands[1].owner
    if tensor is None or constant.name != "arith.constant":
        raise Unsupported("tensor.dim of a value of the kernel")
    axis = int(ir.IntegerAttr(constant.attributes["value"]).value)
    return tensor.shape[axis]
