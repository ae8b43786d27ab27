"""A builder that computes: each operator's NumPy reference runs as soon as it is called.

With it, gradients and decompositions are checked without a compiler, and constants are folded. Handles are
NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Absent, Call, OperatorError, call_rule
from oneflow.dialect.tensor_desc import TensorDesc


def describe_array(array: np.ndarray) -> TensorDesc:
    """The shape and element type of a NumPy array."""
    return TensorDesc(tuple(array.shape), dtypes.from_numpy(array.dtype))


def run_reference(op: Call) -> tuple[np.ndarray, ...]:
    """The results of a call whose operands are NumPy arrays, by the operator's reference.

    Raises:
        OperatorError: the operator has no reference.
    """
    reference = op.record.reference
    if isinstance(reference, Absent):
        raise op.error(f"has no NumPy reference: {reference.reason}")
    with np.errstate(all="ignore"):
        result = call_rule(reference, list(op.inputs.values()), op.attrs)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class NumpyBuilder(Builder):
    """Computes every operator with its reference."""

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Runs the reference and checks what it gives against the inferred types."""
        arrays = run_reference(Call(op.record, {k: _array(v) for k, v in op.inputs.items()}, op.attrs))
        return [self._checked(op, a, d) for a, d in zip(arrays, results, strict=True)]

    def _checked(self, op: Call, array: Any, desc: TensorDesc) -> Value:
        value = np.asarray(array, dtype=desc.dtype.numpy)
        if not describe_array(value).refines(desc):
            raise OperatorError(f"oneflow.{op.record.name}: reference gave {describe_array(value)}, expected {desc}")
        return Value(self, value, describe_array(value))

    def wrap(self, value: Any) -> Value:
        """An array as a value."""
        array = np.asarray(value)
        return Value(self, array, describe_array(array))


def _array(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(v.handle for v in operand)
    return operand.handle if isinstance(operand, Value) else operand
