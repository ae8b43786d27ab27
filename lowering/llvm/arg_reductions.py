"""Reductions to an extreme element and its index, such as argmax.

Each lane keeps an extreme element of its own. Of two such elements the greater (or smaller) element is kept, of equal
elements the element with the smaller index.

Input is the body of a node, output the text that combines the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.llvm.body_cloner import clone_operation, constant_text
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, NeedsScalars

_LOGIC = frozenset({"arith.andi", "arith.ori", "arith.xori", "arith.constant"})
#: Predicates that are false for equal operands: greater, less and unordered of floats; greater and less of integers.
_STRICT = {"arith.cmpf": frozenset({2, 4, 7, 9, 11, 14}), "arith.cmpi": frozenset({2, 4, 6, 8})}
#: The predicate `une`; comparing a value with itself tests for NaN.
_UNEQUAL = 13
_EXTREMES = frozenset({"arith.maxsi", "arith.maxui", "arith.minsi", "arith.minui"})


@dataclass(frozen=True)
class ArgReduction:
    """The element `candidate` replaces the accumulator where `condition` is true; likewise its index."""

    condition: ir.Value
    candidate: ir.Value
    accumulator: ir.Value


def arg_reduction_of(node: Node) -> ArgReduction | None:
    """The arg-reduction of a node with two results, None for any other node."""
    block = node.body
    outs = list(block.arguments)[len(node.inputs) :]
    ends = list(block.operations[len(block.operations) - 1].operands)
    if len(outs) != 2 or not node.nonunit_reductions or any(isinstance(v, ir.BlockArgument) for v in ends):
        return None
    extreme, index = (v.owner for v in ends)
    if (
        index.name != "arith.select"
        or index.operands[2] != outs[1]
        or node.is_scan_result(0)
        or node.is_scan_result(1)
    ):
        return None
    condition = index.operands[0]
    candidate = _candidate(extreme, condition, outs[0])
    if candidate is None or not _is_strict(condition, {candidate, outs[0]}):
        return None
    return ArgReduction(condition, candidate, outs[0])


def _candidate(combination: ir.Operation, condition: ir.Value, accumulator: ir.Value) -> ir.Value | None:
    """The element that an operation combines with the accumulator."""
    operands = list(combination.operands)
    if combination.name == "arith.select" and operands[0] == condition and operands[2] == accumulator:
        return operands[1]
    if combination.name in _EXTREMES and operands.count(accumulator) == 1:
        return operands[1 - operands.index(accumulator)]
    return None


def _is_strict(value: ir.Value, leaves: set[ir.Value]) -> bool:
    """Whether a condition consists of comparisons of `leaves` that are false for equal values."""
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


def _condition(lanes: Lanes, reduction: ArgReduction, candidate: LaneValue, accumulator: LaneValue) -> LaneValue:
    """The condition under which `candidate` replaces `accumulator`."""
    env = {reduction.candidate: candidate, reduction.accumulator: accumulator}

    def value(of: ir.Value) -> LaneValue:
        if of in env:
            return env[of]
        op = of.owner
        if op.name == "arith.constant":
            return lanes.constant(constant_text(op), str(of.type))
        env[of] = clone_operation(op, [value(v) for v in op.operands], lanes)
        return env[of]

    return value(reduction.condition)


def _combine(
    lanes: Lanes, reduction: ArgReduction, first: tuple[LaneValue, LaneValue], second: tuple[LaneValue, LaneValue]
) -> tuple[LaneValue, LaneValue]:
    """The extreme of two elements with their indices; of equal elements the element with the smaller index."""
    w = lanes.writer
    second_replaces = lanes.broadcast(_condition(lanes, reduction, second[0], first[0]))
    first_replaces = lanes.broadcast(_condition(lanes, reduction, first[0], second[0]))
    kind, masks = lanes.type(first[1].element), lanes.type("i1")
    is_before = w.op(f"arith.cmpi slt, {second[1].name}, {first[1].name} : {kind}")
    no_lane = lanes.broadcast(lanes.constant("false", "i1"))
    wins_tie = w.op(f"arith.select {first_replaces}, {no_lane}, {is_before} : {masks}, {masks}")
    takes_second = w.op(f"arith.ori {second_replaces}, {wins_tie} : {masks}")

    def selected(a: LaneValue, b: LaneValue) -> LaneValue:
        types = f"{masks}, {lanes.type(a.element)}"
        return LaneValue(w.op(f"arith.select {takes_second}, {b.name}, {a.name} : {types}"), a.element, True)

    return selected(first[0], second[0]), selected(first[1], second[1])


def reduce_arg_lanes(
    lanes: Lanes, reduction: ArgReduction, ends: tuple[LaneValue, LaneValue]
) -> tuple[LaneValue, LaneValue]:
    """The extreme element of all lanes and its index: halves are combined until one lane is left."""
    if lanes.width is None:
        raise NeedsScalars("lanes to combine")
    while lanes.width > 1:
        half = replace(lanes, width=lanes.width // 2)
        ends, lanes = _combine(half, reduction, _half(lanes, ends, 0), _half(lanes, ends, half.width or 0)), half
    first = (lanes.writer.op(f"vector.extract {e.name}[0] : {e.element} from {lanes.type(e.element)}") for e in ends)
    extreme, index = (LaneValue(name, e.element) for name, e in zip(first, ends, strict=True))
    return extreme, index


def _half(lanes: Lanes, values: tuple[LaneValue, LaneValue], begin: int) -> tuple[LaneValue, LaneValue]:
    """Half of the lanes of an element and its index."""
    count = (lanes.width or 0) // 2

    def half(value: LaneValue) -> LaneValue:
        part = f"{{offsets = [{begin}], sizes = [{count}], strides = [1]}}"
        types = f"{lanes.type(value.element)} to vector<{count}x{value.element}>"
        name = lanes.writer.op(f"vector.extract_strided_slice {value.name} {part} : {types}")
        return LaneValue(name, value.element, True)

    return half(values[0]), half(values[1])
