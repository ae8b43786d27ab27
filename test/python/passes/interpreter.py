"""Runs straight-line functions of operators with their NumPy references, for comparing programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.tensor_desc import from_mlir


def functions(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions of a module by name."""
    return {str(op.attributes["sym_name"].value): op.operation for op in module.body.operations}


def random_arguments(function: ir.Operation, rng: np.random.Generator) -> list[np.ndarray]:
    """Arrays for the arguments of a function; floats include zeros of both signs, infinities and NaN."""
    arrays = []
    for argument in function.regions[0].blocks[0].arguments:
        desc = from_mlir(argument.type)
        assert desc is not None and desc.is_static, argument.type
        shape = desc.static_shape
        values: Any = rng.normal(0, 3, shape) if desc.dtype.is_float else rng.integers(-5, 6, shape)
        if desc.dtype.is_float:
            special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -2.5], shape)
            values = np.where(rng.random(shape) < 0.5, special, values)
        arrays.append(values.astype(desc.dtype.numpy))
    return arrays


def run(function: ir.Operation, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a function on arrays."""
    block = function.regions[0].blocks[0]
    values: dict[ir.Value, Any] = dict(zip(block.arguments, arrays, strict=True))
    for view in block.operations:
        op = view.operation
        if op.name == "func.return":
            return [values[v] for v in op.operands]
        for result, array in zip(op.results, _evaluate(op, values), strict=True):
            values[result] = np.asarray(array)
    raise AssertionError("the function does not return")


def _evaluate(op: ir.Operation, values: dict[ir.Value, Any]) -> tuple[np.ndarray, ...]:
    if op.name == dialect.CAST:
        return (values[op.operands[0]],)
    if op.name == "arith.constant":
        return (np.array(op.attributes["value"]),)
    return run_reference(dialect.operand_call(op, dialect.record_of(op), lambda value: values[value]))
