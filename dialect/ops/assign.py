"""Assignments to tensors as functions: the new value of the tensor is the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.row_normalization import expect_type, letters
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype


def _check(op: Call) -> None:
    expect_type(op, "value", op.ref)
    condition = op.inputs.get("condition")
    if condition is not None:
        expect_dtype(op, "condition", condition, (*dtypes.INTEGERS, dtypes.bool_))
        if condition.element_count not in (1, None):
            raise op.error(f"expected condition of one element, got {condition}")


def _factors(op: Call) -> Factors:
    names = letters(op.ref.rank, op.ref.rank)
    condition = op.inputs.get("condition")
    last = "" if condition is None else f", {' '.join('_' * condition.rank)}"
    changed = ("value",) if condition is None else ("ref", "value")
    return Factors(f"{names}, {names}{last} -> {names}").linear_in(op, *changed)


def _write(holds: bool) -> Rule:
    """The value where the condition holds, or where it does not."""

    def write(ops: Builder, op: Call) -> Value:
        condition = ops.cast(ops.reshape(op.condition, shape=[]), dtype=dtypes.bool_)
        chosen = (op.value, op.ref) if holds else (op.ref, op.value)
        value: Value = ops.where(condition, *chosen)
        return value

    return write


def _reference(holds: bool) -> Rule:
    def reference(ref: Any, value: Any, condition: Any) -> Any:
        return value if bool(np.asarray(condition).reshape(())) == holds else ref

    return reference


composite(
    "assign(ref, value) -> ref_out", "The new value of `ref`: `value`.",
    write=lambda ops, op: op.value, reference=lambda ref, value: value, check=_check, sbp=_factors,
    shapes_of=("ref",),
)  # fmt: skip
for _name, _holds in (("assign_if", True), ("assign_if_not", False)):
    composite(
        f"{_name}(ref, value, condition) -> ref_out",
        f"The new value of `ref`: `value` if the condition is {'not 0' if _holds else '0'}, else `ref`.",
        write=_write(_holds), reference=_reference(_holds), check=_check, sbp=_factors,
    )  # fmt: skip
