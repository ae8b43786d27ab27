"""Runs a traced module with the operators' NumPy references, without a compiler."""

from typing import Any

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect.numpy_builder import run_reference


def interpret(module, *arrays):
    """The results of the module's one function on `arrays`."""
    with module.context:
        block = module.body.operations[0].regions[0].blocks[0]
        values = dict(zip(block.arguments, map(np.asarray, arrays), strict=True))
        for op in block.operations:
            if op.operation.name == "func.return":
                return [values[v] for v in op.operands]
            results = _run(op.operation, values)
            for result, array in zip(op.results, results, strict=True):
                expected: Any = dialect.desc_of(result)
                values[result] = np.asarray(array, expected.dtype.numpy)
                fits = all(d in (None, n) for d, n in zip(expected.shape, values[result].shape, strict=True))
                assert fits, f"{op}: reference gave shape {values[result].shape}"
    raise AssertionError("the function has no return")


def _run(op, values):
    if op.name == "arith.constant":
        return [np.array(op.attributes["value"]).reshape(dialect.desc_of(op.results[0]).shape)]
    if op.name == "tensor.cast":
        return [values[op.operands[0]]]
    return run_reference(dialect.operand_call(op, dialect.record_of(op), values.__getitem__))
