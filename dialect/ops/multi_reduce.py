"""Norms of many tensors together: sums of powers of absolute values, the largest and the smallest absolute value.

The `local_` forms are the first of two stages: each device computes the extreme of its part, a tensor of one element
on one device.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors, M, S, SbpSignature, common_axes
from oneflow.dialect.shapes import expect_dtype, same_dtype

DIFFERENT_AXES = "tensors split each along its own axis"


def _check(op: Call) -> None:
    for x in op.x:
        expect_dtype(op, "x", x, dtypes.FLOATS)
    same_dtype(op, op.x)


def _powers(ops: Builder, x: Value, p: float) -> Value:
    if p == 0:
        return ops.call("cast", ops.not_equal_zero(x), dtype=x.dtype)[0]
    size: Value = ops.abs(x)
    return size if p == 1 else ops.call("scalar_pow", size, has_float_operand=True, float_operand=p)[0]


def _write_sum(ops: Builder, op: Call) -> Value:
    sums = [ops.reduce_sum(_powers(ops, widen(ops, x), op.p), axis=[]) for x in op.x]
    total: Value = functools.reduce(lambda a, b: a + b, sums)
    return narrow(ops, total, op.x[0].dtype)


def _numpy_sum(x: Any, *, p: Any) -> Any:
    wide = [np.abs(a.astype(np.float64)) for a in x]
    terms = [(a != 0).astype(np.float64) if p == 0 else a**p for a in wide]
    return np.asarray(sum(t.sum() for t in terms), x[0].dtype)


def _write_extreme(kind: str, shape: list[int]) -> Rule:
    """The extreme of all tensors; without tensors 0 for a maximum, infinite for a minimum."""

    def write(ops: Builder, op: Call) -> Value:
        parts = [ops.call(f"reduce_{kind}", ops.abs(x), axis=[], allow_empty=True)[0] for x in op.x]
        extreme = functools.reduce(lambda a, b: ops.call(f"broadcast_{kind}imum", a, b)[0], parts)
        if kind == "max":
            extreme = ops.call("clip_by_scalar_min", extreme, floating_min=0.0)[0]
        return ops.call("reshape", extreme, shape=shape)[0]

    return write


def _numpy_extreme(kind: str, shape: list[int]) -> Rule:
    function, initial = (np.max, 0.0) if kind == "max" else (np.min, np.inf)

    def reference(x: Any) -> Any:
        values = np.concatenate([np.abs(a).ravel() for a in x])
        return np.asarray(function(values, initial=initial), x[0].dtype).reshape(shape)

    return reference


def _maximum_signatures(op: Call) -> list[SbpSignature]:
    """All tensors are split along one axis; the results are partial maxima."""
    names = min((factors.split() for factors in common_axes(op.x)), key=len)
    return [SbpSignature((S(i),) * len(op.x), (M,)) for i, name in enumerate(names) if name != "_"]


composite(
    "multi_reduce_sum_pow_abs(x+, p: float = 0.0) -> y",
    "The sum of |element|^p over all tensors; for p = 0 the number of elements that are not 0.",
    write=_write_sum, reference=_numpy_sum, check=_check, unoffered=DIFFERENT_AXES,
    sbp=lambda op: Factors(f"{', '.join(common_axes(op.x))} -> "),
)  # fmt: skip
for _kind, _word in (("max", "largest"), ("min", "smallest")):
    for _name, _shape in ((f"multi_reduce_{_kind}_abs", []), (f"local_multi_reduce_{_kind}_abs", [1])):
        composite(
            f"{_name}(x+) -> y", f"The {_word} absolute value of all tensors.",
            write=_write_extreme(_kind, _shape), reference=_numpy_extreme(_kind, _shape), check=_check,
            sbp=_maximum_signatures if _kind == "max" else lambda op: [],
        )  # fmt: skip
