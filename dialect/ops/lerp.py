"""Linear interpolation between two tensors, by a tensor or a number, with OneFlow's operators for the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.elementwise import elementwise, in_double
from oneflow.dialect.ops.elementwise_grad import same_shapes
from oneflow.dialect.ops.row_normalization import expect_type, letters, sum_of_terms
from oneflow.dialect.ops.scalar_ops import QUADRUPLE, expect_number, number_of
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, broadcast_factors, repeated_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc


def _ends(op: Call) -> TensorDesc:
    """The type of `start` and `end`, which is the same; all operands have its element type."""
    expect_dtype(op, "start", op.start, dtypes.NUMERIC)
    same_dtype(op, op.operands)
    expect_type(op, "end", op.start)
    both: TensorDesc = op.start.meet(op.end)
    return both


def _between(start: Any, end: Any, weight: Any) -> Any:
    return start + weight * (end - start)


def _types(op: Call) -> TensorDesc:
    both = _ends(op)
    if op.weight.element_count == 1 and op.weight.rank <= both.rank:
        return both
    if not op.weight.compatible(both):
        raise op.error(f"expected weight of type {both}, or of one element, static, got {op.weight}")
    return both.meet(op.weight)


def _sbp(op: Call) -> Factors:
    """Splits of every dimension, and partial sums of both ends."""
    return broadcast_factors([d.shape for d in op.operands], op.out.rank).linear_in(op, "start", "end")


elementwise(
    "lerp(start, end, weight) -> out",
    "start + weight * (end - start); weight has the shape of the others, or one element.",
    scalar=_between, reference=in_double(_between), types=_types, sbp=_sbp, allowed=dtypes.NUMERIC,
)  # fmt: skip


def _number_types(op: Call) -> TensorDesc:
    both = _ends(op)
    expect_number(op, both.dtype, wraps=False)
    return both


def _by_number(start: Expr, end: Expr, **attrs: Any) -> Expr:
    element: Expr = _between(start, end, s.const(number_of(attrs, start.dtype), start.dtype))
    return element


@in_double
def _by_number_reference(start: Any, end: Any, **attrs: Any) -> Any:
    return _between(start, end, start.dtype.type(number_of(attrs, dtypes.from_numpy(start.dtype))))


elementwise(
    f"scalar_lerp(start, end, {QUADRUPLE}) -> out", "start + number * (end - start).",
    scalar=_by_number, reference=_by_number_reference, types=_number_types, linear="joint", allowed=dtypes.NUMERIC,
)  # fmt: skip


@operator("lerp_grad(start, end, weight, out_diff) -> start_diff, end_diff, weight_diff")
class LerpGrad:
    """The gradients of `lerp` with respect to its operands of one shape: out_diff * (1 - weight), and so on."""

    grad = decomposition_gradient

    def types(op: Call) -> list[TensorDesc]:
        return [same_shapes(op)] * 3

    def sbp(op: Call) -> Factors:
        names = letters(op.start.rank, op.start.rank)
        split = repeated_factors(names, 4, 3).linear_in(op, "out_diff", results=(0, 1, 2))
        return split.linear_in(op, "start", "end", results=(2,))

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value, Value]:
        share = op.out_diff * op.weight
        return op.out_diff - share, share, op.out_diff * (op.end - op.start)

    def reference(start: Any, end: Any, weight: Any, out_diff: Any) -> Any:
        dy, difference = out_diff.astype(np.float64), end.astype(np.float64) - start
        return tuple(a.astype(start.dtype) for a in (dy * (1.0 - weight), dy * weight, dy * difference))


def _shares(op: Call) -> tuple[float, float]:
    """The derivatives of the result of `scalar_lerp` with respect to `start` and `end`."""
    end = float(number_of(op.attrs, dtypes.float64))
    return 1.0 - end, end


@operator(f"scalar_lerp_grad(start, end, out_diff, {QUADRUPLE}) -> start_diff, end_diff")
class ScalarLerpGrad:
    """The gradients of `scalar_lerp` with respect to its operands: out_diff * (1 - number) and out_diff * number."""

    shapes_of = ("start", "end")

    def types(op: Call) -> list[TensorDesc]:
        return [same_shapes(op)] * 2

    def sbp(op: Call) -> Factors:
        names = letters(op.start.rank, op.start.rank)
        return repeated_factors(names, 3, 2).linear_in(op, "out_diff", results=(0, 1))

    def grad(ops: Builder, op: Call, dstart: Value | None, dend: Value | None) -> dict[str, Any]:
        pairs = zip((dstart, dend), _shares(op), strict=True)
        return {
            "out_diff": lambda: sum_of_terms(ops, op.out_diff, [d * share for d, share in pairs if d is not None])
        }

    def compute(op: Call) -> list[Stage]:
        shape, dtype = op.start.shape, op.start.dtype

        def stage(share: float) -> Stage:
            return c.element_wise(shape, lambda *i: op.out_diff[i] * share, dtype)

        return [stage(share) for share in _shares(op)]

    def reference(start: Any, end: Any, out_diff: Any, **attrs: Any) -> Any:
        share = number_of(attrs, dtypes.float64)
        dy = out_diff.astype(np.float64)
        return (dy * (1.0 - share)).astype(start.dtype), (dy * share).astype(start.dtype)
