"""The body of a reduction: the combining operation, the value that it combines, and its neutral element.

A result is a `Fold` (an associative operation on the accumulator and a value that does not read it), or two results
are an `ArgReduction` (the extreme element by a strict comparison, and its index: argmax). Other reductions run
sequentially.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import BY_MLIR
from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.triton.codegen.body import needed_ops, number_text
from oneflow.lowering.triton.codegen.writer import Value

#: Combining operations: the function of the prelude and the neutral element. The neutral element of a maximum or
#: minimum is infinite; the start for integers is the least or the largest of their type.
COMBINE: dict[str, tuple[str, float]] = {
    "arith.addf": ("add", 0.0), "arith.addi": ("add", 0),
    "arith.mulf": ("multiply", 1.0), "arith.muli": ("multiply", 1),
    "arith.maximumf": ("nan_maximum", -math.inf), "arith.minimumf": ("nan_minimum", math.inf),
    "arith.maxsi": ("maximum", -math.inf), "arith.minsi": ("minimum", math.inf),
    "arith.andi": ("bitwise_and", -1), "arith.ori": ("bitwise_or", 0), "arith.xori": ("bitwise_xor", 0),
}  # fmt: skip
#: Combining operations on unsigned integers, and on bools.
UNSIGNED = {"arith.maxui": ("maximum", 0), "arith.minui": ("minimum", -1)}
BOOLS = {
    "arith.maxui": ("bitwise_or", False), "arith.minui": ("bitwise_and", True),
    "arith.ori": ("bitwise_or", False), "arith.andi": ("bitwise_and", True), "arith.xori": ("bitwise_xor", False),
}  # fmt: skip
#: Predicates of comparisons that are false for equal operands.
STRICT = {"arith.cmpf": {2, 4}, "arith.cmpi": {2, 4, 6, 8}}
UNORDERED_NOT_EQUAL = 13
LOGIC = frozenset({"arith.andi", "arith.ori", "arith.xori", "arith.constant"})


def combination(name: str, element: str) -> tuple[str, float] | None:
    """The function and the neutral element of a combining operation on an element type; None for other operations."""
    if element == "i1" or name not in UNSIGNED:
        return (BOOLS if element == "i1" else COMBINE).get(name)
    function, neutral = UNSIGNED[name]
    return f"{function}_u{element.removeprefix('i')}", neutral


@dataclass(frozen=True)
class Fold:
    """Result `index` is the fold of `value` by the associative operation `op`."""

    index: int
    op: ir.Operation
    value: ir.Value

    @property
    def function(self) -> str:
        """The name of the combining function."""
        entry = combination(self.op.name, str(self.op.results[0].type))
        assert entry is not None
        return entry[0]


@dataclass(frozen=True)
class ArgReduction:
    """Two results are `value` and `index` of the last element for which `condition` is true, such as argmax."""

    condition: ir.Value
    value: ir.Value
    index: ir.Value


@dataclass
class Accumulator:
    """An accumulator of the open pass.

    Attributes:
        value: the result of the node after the loop.
        name, element: the variable and its element type.
        start: the initial value of the fold, None where the value is neutral.
        fold: the fold whose lanes are combined after the loop; None where the variable is the result.
        maximum: the maximum of the row, where each lane is a sum relative to its own maximum.
    """

    value: ir.Value
    name: str
    element: str
    start: Value | None
    fold: Fold | None
    maximum: ir.Value | None = None


@dataclass
class ArgAccumulator:
    """The accumulators `names` of an arg-reduction, with initial values `starts`; `function` combines two pairs."""

    node: Node
    names: tuple[str, str]
    starts: tuple[Value, Value]
    function: str


def neutral_number(name: str, element: str) -> float:
    """The neutral element of a combining operation: a float, an integer or a bool."""
    entry = combination(name, element)
    assert entry is not None
    number, dtype = entry[1], BY_MLIR[element]
    if math.isfinite(number) or dtype.is_float:
        return number
    half = 1 << (dtype.bits - 1)
    return -half if number < 0 else half - 1


def neutral_element(name: str, element: str) -> str:
    """The neutral element of a combining operation as text."""
    return number_text(neutral_number(name, element))


def read_folds(node: Node) -> list[Fold] | None:
    """The fold of each result that is no stream of a scan; None where a result is no fold.

    A scan yields its accumulator twice: its stream has the same value and is not listed.
    """
    block = node.body
    outs = list(block.arguments)[len(node.inputs) :]
    yielded = list(block.operations[len(block.operations) - 1].operands)
    folds = []
    for index, (out, value) in enumerate(zip(outs, yielded, strict=True)):
        if node.is_scan_result(index):
            if not any(value == y and not node.is_scan_result(i) for i, y in enumerate(yielded)):
                return None
            continue
        fold = _read_fold(index, out, value)
        if fold is None or _depends_on(fold.value, outs):
            return None
        folds.append(fold)
    return folds


def _read_fold(index: int, out: ir.Value, value: ir.Value) -> Fold | None:
    if isinstance(value, ir.BlockArgument) or combination(value.owner.name, str(value.type)) is None:
        return None
    operands = list(value.owner.operands)
    if operands.count(out) != 1:
        return None
    return Fold(index, value.owner, operands[1 - operands.index(out)])


def _depends_on(value: ir.Value, outs: Sequence[ir.Value]) -> bool:
    """Whether a value of a body depends on one of `outs`."""
    if isinstance(value, ir.BlockArgument):
        return value in outs
    ops = [o.operation for o in value.owner.operation.block.operations]
    return any(v in outs for op in needed_ops(ops, [value]) for v in op.operands)


def read_arg_reduction(node: Node) -> ArgReduction | None:
    """The arg-reduction of a node with two results, None for other nodes.

    Of equal elements, the result is the element with the smallest index, which makes the combination commutative.
    """
    block = node.body
    outs = list(block.arguments)[len(node.inputs) :]
    if len(outs) != 2 or node.is_scan_result(0) or node.is_scan_result(1):
        return None
    element, choice = block.operations[len(block.operations) - 1].operands
    if any(isinstance(v, ir.BlockArgument) for v in (element, choice)) or choice.owner.name != "arith.select":
        return None
    condition, index, kept = choice.owner.operands
    value = _candidate(element.owner, condition, outs[0])
    if kept != outs[1] or value is None or _depends_on(value, outs) or _depends_on(index, outs):
        return None
    return ArgReduction(condition, value, index) if _is_strict_condition(block, condition, value, outs) else None


def _candidate(op: ir.Operation, condition: ir.Value, out: ir.Value) -> ir.Value | None:
    """The element that replaces the accumulator `out` where the condition is true."""
    operands = list(op.operands)
    if op.name == "arith.select" and operands[0] == condition and operands[2] == out:
        return operands[1]
    extreme = combination(op.name, str(out.type)) if op.name.startswith(("arith.max", "arith.min")) else None
    return operands[1 - operands.index(out)] if extreme and operands.count(out) == 1 else None


def _is_strict_condition(block: ir.Block, condition: ir.Value, value: ir.Value, outs: Sequence[ir.Value]) -> bool:
    """Whether a condition consists of strict comparisons and tests for NaN."""
    ops = [o.operation for o in block.operations]
    return all(_is_strict(op) for op in needed_ops(ops, [condition], [value, *outs]))


def _is_strict(op: ir.Operation) -> bool:
    if op.name not in STRICT:
        return op.name in LOGIC
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    return predicate in STRICT[op.name] or (predicate == UNORDERED_NOT_EQUAL and op.operands[0] == op.operands[1])
