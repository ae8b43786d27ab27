"""Operators that move elements and change none."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.record import Call, Law, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.tensor_desc import TensorDesc


def _compose_transposes(ops: Builder, op: Call) -> Value | None:
    """transpose(transpose(x, p), q) = transpose(x, p[q]); x itself where that is the identity."""
    inner = ops.producer(op.input, "transpose")
    if inner is None:
        return None
    perm = [inner.perm[p] for p in op.perm]
    return inner.input if perm == sorted(perm) else ops.transpose(inner.input, perm=perm)


@operator("transpose(input, perm: list_int32) -> output")
class Transpose:
    """Axis i of the result is axis perm[i] of the input."""

    def types(op: Call) -> TensorDesc:
        perm = op.normalize_axes(op.perm, op.input.rank, "perm")
        if len(perm) != op.input.rank:
            raise op.error(f"expected perm of {op.input.rank} axes, got {list(op.perm)}")
        return TensorDesc(tuple(op.input.shape[p] for p in perm), op.input.dtype)

    def sbp(op: Call) -> Factors:
        names = [f"d{i}" for i in range(op.input.rank)]
        return Factors(f"{' '.join(names)} -> {' '.join(names[p] for p in op.perm)}", "joint")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        perm = op.normalize_axes(op.perm, dy.rank, "perm")
        return {"input": ops.transpose(dy, perm=[perm.index(i) for i in range(dy.rank)])}

    def compute(op: Call) -> Stage:
        perm = op.normalize_axes(op.perm, op.input.rank, "perm")
        shape = [op.input.shape[p] for p in perm]
        return c.element_wise(
            shape, lambda *i: op.input[tuple(i[perm.index(a)] for a in range(len(perm)))], op.input.dtype
        )

    def reference(x, *, perm):  # type: ignore[no-untyped-def]
        return np.transpose(x, perm)

    laws = (Law("compose-transposes", "transpose(transpose(x, p), q) = transpose(x, p[q])", _compose_transposes),)
