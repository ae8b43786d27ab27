"""Operators on gradients before an update: norms, checks for infinite and NaN elements, regularization, loss
scales.
"""

from __future__ import annotations

import functools
import math
import operator as python
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.elementwise import elementwise
from oneflow.dialect.ops.update import first, regularized, weighed
from oneflow.dialect.record import Call, Rule, define, flatten, no_grad, no_sbp, operator
from oneflow.dialect.sbp import Factors, common_axes
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc

MAX_SCALE = float(np.finfo(np.float32).max)


def _tensors(op: Call) -> list[Any]:
    """The single tensor of a call, or all tensors."""
    return flatten([op.x])


def _split(op: Call) -> Factors:
    """Every tensor is split along the same axis; the result is a partial sum."""
    return Factors(f"{', '.join(common_axes(_tensors(op)))} -> ")


def total(
    name: str, doc: str, element: Callable[[Expr], Expr], reference: Rule, result: DType | None, grad: Any
) -> None:
    """Registers the sum of `element` over all elements of a tensor, and with the prefix `multi_` of many tensors.

    The result, in OneFlow's manner, has one dimension of size 1; `result` is its type, None for the type of the
    tensors.
    """

    def types(op: Call) -> TensorDesc:
        tensors = _tensors(op)
        for x in tensors:
            expect_dtype(op, "x", x, dtypes.FLOATS)
        same_dtype(op, tensors)
        return TensorDesc((1,), result or tensors[0].dtype)

    def compute(op: Call) -> Stage:
        tensors = _tensors(op)
        wide = result or tensors[0].dtype.accumulator
        sums = [c.sum_((), x.shape, lambda *at, x=x: s.cast(element(x[at]), wide)) for x in tensors]
        return c.element_wise(
            (1,), lambda _: functools.reduce(python.add, (part[()] for part in sums)), result or tensors[0].dtype
        )

    def run(x: Any) -> Any:
        tensors = x if isinstance(x, tuple) else (x,)
        dtype = result.numpy if result else tensors[0].dtype
        return np.asarray([sum(reference(a.astype(np.float64)) for a in tensors)]).astype(dtype)

    slots: dict[str, Any] = {"types": types, "sbp": _split, "grad": grad, "compute": compute, "reference": run}
    define(f"{name}(x) -> y", doc=doc, depth=2, **slots)
    why = "tensors split each along its own axis"
    define(f"multi_{name}(x+) -> y", doc=f"{doc[:-1]}, of all tensors together.", depth=2, unoffered=why, **slots)


def _square_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    def by(x: Value) -> Callable[[], Value]:
        return lambda: x * (ops.reshape(dy, shape=[]) * 2.0)

    return {"x": tuple(map(by, op.x)) if isinstance(op.x, tuple) else by(op.x)}


total(
    "square_sum", "The sum of the squares of all elements; f16 and bf16 are summed in f32.",
    lambda x: x * x, lambda x: np.sum(x * x), None, _square_gradient,
)  # fmt: skip
total(
    "count_not_finite", "How many elements (i64) are infinite or NaN.",
    lambda x: ~(abs(x) < math.inf), lambda x: np.sum(~np.isfinite(x)), dtypes.int64, no_grad("integer output"),
)  # fmt: skip


def _expect_ones(op: Call, wanted: Sequence[tuple[str, DType]]) -> None:
    """Checks operands of one element."""
    for name, dtype in wanted:
        got = op[name]
        if got.dtype != dtype or got.element_count not in (1, None):
            raise op.error(f"expected {name} of one element of {dtype.mlir}, got {got}")


@operator(
    "dynamic_loss_scale_schedule(count_not_finite, loss_scale, good_step_counter, increment_period: int64 = 2000,"
    " multiplier: float = 2.0) -> loss_scale_out, good_step_counter_out"
)
class DynamicLossScaleSchedule:
    """The scale of the loss for the next step, and the number of good steps since the last change.

    The scale is multiplied after `increment_period` steps without infinite or NaN gradients, and divided, down to 1,
    at a step that has some. OneFlow writes both into the operands; here the new values are results.
    """

    def types(op: Call) -> list[TensorDesc]:
        integers = (("count_not_finite", dtypes.int64), ("good_step_counter", dtypes.int64))
        _expect_ones(op, [*integers, ("loss_scale", dtypes.float32)])
        return [op.loss_scale, op.good_step_counter]

    sbp = no_sbp("has no axis to split")
    grad = no_grad("the state of a training loop is not differentiated")

    def compute(op: Call) -> list[Stage]:
        good, count = first(op.count_not_finite).eq(0), first(op.good_step_counter) + 1
        full = ~(count < op.increment_period)
        scale = s.cast(first(op.loss_scale), dtypes.float64)
        grown = s.where(full, s.minimum(scale * op.multiplier, MAX_SCALE), scale)
        new = s.where(good, grown, s.maximum(scale / op.multiplier, 1.0))
        counted = s.where(good & ~full, count, 0)
        return [
            c.element_wise(op.loss_scale.shape, lambda *_: s.cast(new, dtypes.float32), dtypes.float32),
            c.element_wise(op.good_step_counter.shape, lambda *_: counted, dtypes.int64),
        ]

    def reference(count: Any, scale: Any, steps: Any, *, increment_period: Any, multiplier: Any) -> Any:
        bad, after, current = count.item() != 0, steps.item() + 1, float(scale.item())
        full = after >= increment_period
        grown = min(current * multiplier, MAX_SCALE) if full else current
        new = max(current / multiplier, 1.0) if bad else grown
        return np.full_like(scale, new), np.full_like(steps, 0 if bad or full else after)


def _one_shape(op: Call) -> TensorDesc:
    for name in ("model", "model_diff"):
        expect_dtype(op, name, op[name], dtypes.FLOATS)
    if not op.model.compatible(op.model_diff):
        raise op.error(f"expected model_diff of type {op.model}, got {op.model_diff}")
    desc: TensorDesc = op.model.meet(op.model_diff)
    return desc


elementwise(
    "l1_l2_regularize_gradient(model, model_diff, l1: float = 0.0, l2: float = 0.0) -> out",
    "model_diff + l1 * sign(model) + l2 * model: model_diff + the gradients of l1 * |model| and l2 / 2 * model^2.",
    scalar=lambda p, g, *, l1, l2: regularized(g, p, l1, l2), types=_one_shape,
    linear=lambda op: None if op.l1 else "joint",
    reference=lambda p, g, *, l1, l2: (
        g + weighed(l1, np.sign(p.astype(np.float64))) + weighed(l2, p.astype(np.float64))
    ).astype(p.dtype),
)  # fmt: skip
