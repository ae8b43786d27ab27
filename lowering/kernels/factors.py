"""The factors of the products that a contraction sums: operands, or integers that are converted, shifted and scaled.

    sum of  x * (float(w) - zero) * scale          factors: x; w with zero and scale

Such integers have fewer bytes than the factor, so a contraction that converts integers reads less memory than a
contraction that reads the factor.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.dialect._mlir import ir

#: Conversions of the factors or of the product of a contraction.
CONVERSIONS = frozenset({"arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"})
#: Operations that compute a factor from integers.
WIDENING = CONVERSIONS | {f"arith.{name}{letter}" for name in ("add", "sub", "mul") for letter in "fi"}
_PRODUCTS = (["arith.mulf", "arith.addf", "linalg.yield"], ["arith.muli", "arith.addi", "linalg.yield"])


@dataclass(frozen=True)
class Factor:
    """A factor: its value in the body, and the indices of the inputs that the value is computed from.

    `is_converted` factors are one input, or conversions of it.
    """

    value: ir.Value
    inputs: tuple[int, ...]
    is_converted: bool


def factors_of(body: ir.Block, inputs: int) -> tuple[Factor, Factor] | None:
    """The factors of a body that adds the product of two factors to an accumulator; None for other bodies.

    The body has `inputs` inputs, each of which belongs to one factor.
    """
    ops = [o.operation for o in body.operations]
    names = [op.name for op in ops]
    if names[-3:] not in _PRODUCTS and [n for n in names if n not in CONVERSIONS] not in _PRODUCTS:
        return None
    product = next(op for op in reversed(ops) if op.name in ("arith.mulf", "arith.muli"))
    left, right = (_factor(body, value) for value in product.operands)
    if left is None or right is None or sorted((*left.inputs, *right.inputs)) != list(range(inputs)):
        return None
    return left, right


def _factor(body: ir.Block, value: ir.Value) -> Factor | None:
    """The factor of a value; None where other operations compute it."""
    inputs, names = sources_of(body, value)
    if not names <= WIDENING or len(body.arguments) - 1 in inputs:
        return None
    return Factor(value, tuple(sorted(inputs)), names <= CONVERSIONS and len(inputs) == 1)


def sources_of(body: ir.Block, value: ir.Value) -> tuple[set[int], set[str]]:
    """The indices of a body's arguments, and the names of its operations, from which a value is computed."""
    arguments, found, names, worklist = list(body.arguments), set[int](), set[str](), [value]
    while worklist:
        current = worklist.pop()
        if current in arguments:
            found.add(arguments.index(current))
        elif not isinstance(current, ir.BlockArgument) and current.owner.operation.block == body:
            names.add(current.owner.name)
            worklist += current.owner.operands
    return found, names


def is_narrower(element: ir.Type, other: ir.Type) -> bool:
    """Whether an element type is an integer of fewer bits than another type."""
    return isinstance(element, ir.IntegerType) and 1 < element.width < other.width
