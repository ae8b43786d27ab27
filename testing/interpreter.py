"""Interprets a function of a module with the NumPy references of operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.passes.inline import functions_of

Array = np.ndarray


def interpret(module: ir.Module, name: str, *arrays: Any, registry: Registry = REGISTRY) -> list[Array]:
    """The results of the function `name` on arrays.

    The operations are operators of the dialect, `arith.constant`, `tensor.cast`, `func.call` and `func.return`.
    """
    with module.context:
        return _run(functions_of(module), name, [np.asarray(a) for a in arrays], registry)


def _run(functions: dict[str, ir.Operation], name: str, arrays: list[Array], registry: Registry) -> list[Array]:
    block = functions[name].regions[0].blocks[0]
    values = dict(zip(block.arguments, arrays, strict=True))
    for view in block.operations:
        op = view.operation
        operands = [values[v] for v in op.operands]
        if op.name == "func.return":
            return operands
        if op.name == "func.call":
            results = _run(functions, op.attributes["callee"].value, operands, registry)
        else:
            results = _results(op, operands, values, registry)
        values.update((r, _typed(r, x)) for r, x in zip(op.results, results, strict=True))
    raise AssertionError(f"@{name} has no return")


def _results(
    op: ir.Operation, operands: list[Array], values: dict[ir.Value, Array], registry: Registry
) -> list[Array]:
    if op.name == dialect.CAST:
        return operands
    if op.name == "arith.constant":
        return [np.array(op.attributes["value"]).reshape(_static_shape(op.results[0]))]
    record = dialect.record_of(op, registry)
    return list(run_reference(dialect.operand_call(op, record, values.__getitem__)))


def _static_shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(size for size in dialect.desc_of(value).shape or () if size is not None)


def _typed(value: ir.Value, array: Array) -> Array:
    """`array` in the element type of `value`; the shapes have to match."""
    desc = dialect.stated_desc(value)
    typed = np.asarray(array, desc.dtype.numpy)
    fits = desc.shape is None or (
        len(desc.shape) == typed.ndim and all(d in (None, n) for d, n in zip(desc.shape, typed.shape, strict=True))
    )
    assert fits, f"a value of type {desc} has the shape {typed.shape}"
    return typed
