"""Comparisons in which NaN is the greatest (or the least) element, as NaN-propagating minimum and maximum use.

    a > b or (a is NaN and b is a number)   ->   not (a <= b) and b is a number

The second form needs one comparison less. On vectors without mask registers, masks of three comparisons are also
converted to narrow elements and back. Input and output are bodies of `linalg.generic`.
"""

from __future__ import annotations

from oneflow.dialect._mlir import arith, ir
from oneflow.passes.walk import gather

CmpF = arith.CmpFPredicate
#: Predicates that are false for NaN, and the predicates of the same comparisons that are true for NaN.
_UNORDERED = {int(CmpF.OGT): int(CmpF.UGT), int(CmpF.OLT): int(CmpF.ULT)}
#: Comparing a value with itself by this predicate tests for NaN.
_UNEQUAL = int(CmpF.UNE)


def join_nan_comparisons(module: ir.Module) -> None:
    """Rewrites every such condition in a module."""
    for op in gather(module.operation, lambda op: op.name == "arith.ori"):
        for comparison, tests in (op.operands, reversed(list(op.operands))):
            joined = _joined(op, comparison, tests)
            if joined is not None:
                op.results[0].replace_all_uses_with(joined)
                _erase_unused(op)
                break


def _joined(disjunction: ir.Operation, comparison: ir.Value, tests: ir.Value) -> ir.Value | None:
    """The second form of a disjunction, before that operation; None if its operands have another form."""
    compare, test = _owner(comparison, "arith.cmpf"), _owner(tests, "arith.andi")
    if compare is None or test is None:
        return None
    predicate = ir.IntegerAttr(compare.attributes["predicate"]).value
    for is_nan, is_number in (test.operands, reversed(list(test.operands))):
        tested = {_tested_for_nan(is_nan), _tested_for_number(is_number)}
        if predicate in _UNORDERED and None not in tested and tested == {*compare.operands}:
            with ir.InsertionPoint(disjunction), disjunction.location:
                unordered = arith.CmpFOp(_UNORDERED[predicate], *compare.operands).result
                return arith.AndIOp(unordered, is_number).result
    return None


def _owner(value: ir.Value, name: str) -> ir.Operation | None:
    """The operation of a value if it has this name."""
    is_result = not isinstance(value, ir.BlockArgument)
    return value.owner if is_result and value.owner.name == name else None


def _tested_for_nan(value: ir.Value) -> ir.Value | None:
    """The float that a condition tests for NaN."""
    op = _owner(value, "arith.cmpf")
    if op is None or op.operands[0] != op.operands[1]:
        return None
    return op.operands[0] if ir.IntegerAttr(op.attributes["predicate"]).value == _UNEQUAL else None


def _tested_for_number(value: ir.Value) -> ir.Value | None:
    """The float whose test for NaN a condition negates."""
    op = _owner(value, "arith.xori")
    constant = _owner(op.operands[1], "arith.constant") if op else None
    is_negation = constant is not None and ir.IntegerAttr(constant.attributes["value"]).value != 0
    return _tested_for_nan(op.operands[0]) if op and is_negation else None


def _erase_unused(op: ir.Operation) -> None:
    """Erases an operation without uses, and the operands that have no uses then."""
    if any(True for result in op.results for _ in result.uses):
        return
    operands = [v.owner for v in op.operands if not isinstance(v, ir.BlockArgument)]
    op.erase()
    for operand in operands:
        if operand.name.startswith("arith."):
            _erase_unused(operand)
