"""Reductions that keep the winner of a strict comparison and its position, such as argmax.

Each lane can keep its own winner. Of two winners the greater (or smaller) is kept; of equal winners the winner
with the smaller position stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.llvm.body import Lanes, LaneValue, NeedsScalars, clone_scalar, constant_text

_LOGIC = frozenset({"arith.andi", "arith.ori", "arith.xori", "arith.constant"})
#: Predicates that do not hold for equal numbers: greater, less and unordered of floats; greater and less of integers.
_STRICT = {"arith.cmpf": frozenset({2, 4, 7, 9, 11, 14}), "arith.cmpi": frozenset({2, 4, 6, 8})}
#: The predicate `une`; comparing a value with itself tests for NaN.
_UNEQUAL = 13
_EXTREMES = frozenset({"arith.maxsi", "arith.maxui", "arith.minsi", "arith.minui"})


@dataclass(frozen=True)
class Selection:
    """`candidate` replaces the accumulator `incumbent` where `condition` holds; likewise its position."""

    condition: ir.Value
    candidate: ir.Value
    incumbent: ir.Value


def selection_of(node: Node) -> Selection | None:
    """The selection of a reduction with two results, None for any other node."""
    block = node.body
    outs = list(block.arguments)[len(node.inputs) :]
    ends = list(block.operations[len(block.operations) - 1].operands)
    if len(outs) != 2 or not node.nonunit_reductions or any(isinstance(v, ir.BlockArgument) for v in ends):
        return None
    best, place = (v.owner for v in ends)
    if (
        place.name != "arith.select"
        or place.operands[2] != outs[1]
        or node.is_scan_result(0)
        or node.is_scan_result(1)
    ):
        return None
    condition = place.operands[0]
    candidate = _candidate(best, condition, outs[0])
    if candidate is None or not _is_strict(condition, {candidate, outs[0]}):
        return None
    return Selection(condition, candidate, outs[0])


def _candidate(best: ir.Operation, condition: ir.Value, incumbent: ir.Value) -> ir.Value | None:
    """The value that competes with the accumulator."""
    operands = list(best.operands)
    if best.name == "arith.select" and operands[0] == condition and operands[2] == incumbent:
        return operands[1]
    return (
        operands[1 - operands.index(incumbent)] if best.name in _EXTREMES and operands.count(incumbent) == 1 else None
    )


def _is_strict(value: ir.Value, leaves: set[ir.Value]) -> bool:
    """Whether a condition consists of comparisons of `leaves` that do not hold for equal values."""
    if value in leaves:
        return True
    if isinstance(value, ir.BlockArgument):
        return False
    op = value.owner
    if op.name not in _LOGIC and not _compares(op):
        return False
    return all(_is_strict(v, leaves) for v in op.operands)


def _compares(op: ir.Operation) -> bool:
    """Whether an operation is such a comparison, or a test for NaN."""
    if op.name not in _STRICT:
        return False
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    return predicate in _STRICT[op.name] or (predicate == _UNEQUAL and op.operands[0] == op.operands[1])


def evaluate_condition(lanes: Lanes, selection: Selection, candidate: LaneValue, incumbent: LaneValue) -> LaneValue:
    """The condition for two values."""
    env = {selection.candidate: candidate, selection.incumbent: incumbent}

    def value(of: ir.Value) -> LaneValue:
        if of in env:
            return env[of]
        op = of.owner
        if op.name == "arith.constant":
            return lanes.constant(constant_text(op), str(of.type))
        env[of] = clone_scalar(op, [value(v) for v in op.operands], lanes)
        return env[of]

    return value(selection.condition)


def select_winner(
    lanes: Lanes, selection: Selection, one: tuple[LaneValue, LaneValue], other: tuple[LaneValue, LaneValue]
) -> tuple[LaneValue, LaneValue]:
    """The winner of two elements with positions; the one with the smaller position if neither wins."""
    w = lanes.writer
    beats = lanes.broadcast(evaluate_condition(lanes, selection, other[0], one[0]))
    loses = lanes.broadcast(evaluate_condition(lanes, selection, one[0], other[0]))
    kind, masks = lanes.type(one[1].element), lanes.type("i1")
    before = w.op(f"arith.cmpi slt, {other[1].name}, {one[1].name} : {kind}")
    equal = w.op(
        f"arith.select {loses}, {lanes.broadcast(lanes.constant('false', 'i1'))}, {before} : {masks}, {masks}"
    )
    takes = w.op(f"arith.ori {beats}, {equal} : {masks}")
    best, place = (
        LaneValue(
            w.op(f"arith.select {takes}, {b.name}, {a.name} : {masks}, {lanes.type(a.element)}"), a.element, True
        )
        for a, b in zip(one, other, strict=True)
    )
    return best, place


def reduce_selection(
    lanes: Lanes, selection: Selection, ends: tuple[LaneValue, LaneValue]
) -> tuple[LaneValue, LaneValue]:
    """The winner among the lanes: halves compete until one lane is left."""
    if lanes.width is None:
        raise NeedsScalars("lanes to join")
    while lanes.width > 1:
        half = replace(lanes, width=lanes.width // 2)
        ends, lanes = select_winner(half, selection, _half(lanes, ends, 0), _half(lanes, ends, half.width or 0)), half
    first = (lanes.writer.op(f"vector.extract {e.name}[0] : {e.element} from {lanes.type(e.element)}") for e in ends)
    best, place = (LaneValue(name, e.element) for name, e in zip(first, ends, strict=True))
    return best, place


def _half(lanes: Lanes, values: tuple[LaneValue, LaneValue], begin: int) -> tuple[LaneValue, LaneValue]:
    """Half of the lanes of an element and its position."""
    count = (lanes.width or 0) // 2
    kinds = [(v, lanes.type(v.element), f"vector<{count}x{v.element}>") for v in values]
    one, other = (
        LaneValue(lanes.writer.op(f"vector.extract_strided_slice {v.name} {{offsets = [{begin}], sizes = [{count}], "
                          f"strides = [1]}} : {kind} to {part}"), v.element, True)
        for v, kind, part in kinds
    )  # fmt: skip
    return one, other
