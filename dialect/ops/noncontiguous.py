"""Arithmetic of tensors that OneFlow reads by their strides; values have no strides."""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.ops.row_normalization import expect_type, letters
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors, SbpSignature, all_broadcast, with_partial_shape_operands
from oneflow.dialect.shapes import expect_dtype

#: Each operation on values and in NumPy, and its rule for partial sums.
OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Any, str | None]] = {
    "add": (python.add, np.add, "joint"),
    "sub": (python.sub, np.subtract, "joint"),
    "mul": (python.mul, np.multiply, "each"),
    "div": (python.truediv, np.divide, None),
}
#: Operands in which gradients are linear, and which gradients. The gradients of sums and differences read no operand
#: but dy.
LINEAR: dict[str, tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]] = {
    "mul": ((("lhs",), (1,)), (("rhs",), (0,)), (("lhs", "rhs"), (0, 1))),
    "div": ((("lhs",), (1,)),),
}
ATTRS = "op: string = 'add', inplace: bool = False"


def _check(op: Call) -> None:
    expect_dtype(op, "lhs", op.lhs, dtypes.FLOATS)
    expect_type(op, "rhs", op.lhs)
    if "dy" in op.inputs:
        expect_type(op, "dy", op.lhs)
    if op["op"] not in OPERATIONS:
        raise op.error(f"expected op to be one of {', '.join(OPERATIONS)}, got {op['op']!r}")
    if op.inplace:
        raise op.error("expected inplace to be false: tensors are values; use the result instead of lhs")


def _write(ops: Builder, op: Call) -> Value:
    value: Value = OPERATIONS[op["op"]][0](op.lhs, op.rhs)
    return value


def _reference(lhs: Any, rhs: Any, **attrs: Any) -> Any:
    return OPERATIONS[attrs["op"]][1](lhs.astype(np.float64), rhs.astype(np.float64)).astype(lhs.dtype)


def _factors(op: Call) -> Factors:
    names = letters(op.lhs.rank, op.lhs.rank)
    factors = Factors(f"{names}, {names} -> {names}", OPERATIONS[op["op"]][2])
    return factors.linear_in(op, "lhs") if op["op"] == "div" else factors


def _gradient_signatures(op: Call) -> list[SbpSignature]:
    names = letters(op.lhs.rank, op.lhs.rank)
    factors = Factors(f"{names}, {names}, {names} -> {names}, {names}").linear_in(op, "dy", results=(0, 1))
    for operands, results in LINEAR.get(op["op"], ()):
        factors = factors.linear_in(op, *operands, results=results)
    signatures = [*factors.signatures([x.shape for x in op.operands]), all_broadcast(3, 2)]
    return signatures if op["op"] in LINEAR else [*signatures, *with_partial_shape_operands(signatures, [1, 2])]


composite(
    f"noncontiguous_binary_op(lhs, rhs, {ATTRS}) -> y", "The sum, difference, product or quotient that `op` names.",
    write=_write, reference=_reference, check=_check, sbp=_factors,
)  # fmt: skip
adjoint(
    f"noncontiguous_binary_op_grad(dy, lhs, rhs, {ATTRS}) -> dlhs, drhs",
    "The gradients of `noncontiguous_binary_op`.",
    of="noncontiguous_binary_op", seeds=("dy",), check=_check, sbp=_gradient_signatures,
)  # fmt: skip
