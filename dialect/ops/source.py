"""Operators that make values: constants, ranges, and constants in the shape of another tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder, by_real_part, each_part
from oneflow.dialect.composite import composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.record import Call, no_grad, no_sbp, operator, zero_grad
from oneflow.dialect.sbp import B, Factors, P, S, SbpSignature, Shard
from oneflow.dialect.shapes import expect_fill, letters
from oneflow.dialect.size_text import evaluate_sizes
from oneflow.dialect.tensor_desc import TensorDesc

NO_OPERAND = no_grad("has no operand")


def filled(op: Call, sizes: str = "shape") -> TensorDesc:
    """The result of an operator with the attribute `dtype` and an attribute of sizes.

    Raises:
        OperatorError: a size is negative.
    """
    if any(d < 0 for d in op[sizes]):
        raise op.error(f"expected sizes of at least 0 in {sizes}, got {list(op[sizes])}")
    return TensorDesc(op[sizes], op.dtype)


def _split_anywhere(op: Call) -> list[SbpSignature]:
    """Every device makes its part: each axis of the result can be split."""
    return [SbpSignature((), (S(i),)) for i, d in enumerate(op.shape) if d != 1]


def _local_shape(op: Call, shard: Shard) -> dict[str, Any]:
    return {"shape": shard.outputs[0].shape}


def _value(op: Call) -> float | int:
    value: float | int = op.floating_value if op.is_floating_value else op.integer_value
    return value


def _full(op: Call, value: float | int) -> Stage:
    return c.element_wise(op.shape, lambda *i: s.const(value, op.dtype), op.dtype)


@operator(
    "constant(dtype: data_type, shape: shape, is_floating_value: bool = False, floating_value: double = 0.0,"
    " integer_value: int64 = 0, is_complex_value: bool = False, complex_value: list_double = []) -> out"
)
class Constant:
    """A tensor of one value: `floating_value` where `is_floating_value`, else `integer_value`.

    If `is_complex_value`, the two numbers of `complex_value` are the real and the imaginary part.
    """

    sbp = _split_anywhere
    local = _local_shape
    grad = NO_OPERAND

    def types(op: Call) -> TensorDesc:
        if op.is_complex_value and (not op.dtype.is_complex or len(op.complex_value) != 2 or op.is_floating_value):
            raise op.error(
                "expected a complex dtype, a complex_value of two numbers and is_floating_value to be false where"
                f" is_complex_value, got {op.dtype.mlir}, {list(op.complex_value)} and {op.is_floating_value}"
            )
        expect_fill(op, _value(op), op.dtype)
        return filled(op)

    def parts(ops: PartsBuilder, op: Call) -> Value:
        numbers = op.complex_value if op.is_complex_value else (_value(op), 0)
        attrs = {"dtype": op.dtype.part, "shape": op.shape, "is_floating_value": True}
        return ops.pair(*(ops.call("constant", **attrs, floating_value=float(x))[0] for x in numbers))

    def compute(op: Call) -> Stage:
        return _full(op, _value(op))

    def reference(*, dtype: Any, shape: Any, is_complex_value: Any, complex_value: Any, **values: Any) -> Any:
        real = values["floating_value" if values["is_floating_value"] else "integer_value"]
        value = np.asarray(complex(*complex_value) if is_complex_value else real)
        return np.broadcast_to(dtypes.convert(value, dtype), shape)


@operator("empty(dtype: data_type, shape: shape) -> out")
class Empty:
    """A tensor with arbitrary elements: zeros, so that runs are reproducible."""

    def parts(ops: PartsBuilder, op: Call) -> Value:
        return ops.pair(*(ops.call("empty", dtype=op.dtype.part, shape=op.shape)[0] for _ in range(2)))

    types = filled
    sbp = _split_anywhere
    local = _local_shape
    grad = NO_OPERAND

    def compute(op: Call) -> Stage:
        return _full(op, 0)

    def reference(*, dtype: Any, shape: Any) -> Any:
        return np.zeros(shape, dtype.numpy)


@operator("eye(dtype: data_type, rows: int64 = 0, cols: int64 = 0) -> out")
class Eye:
    """A matrix of ones on the diagonal and zeros elsewhere."""

    def types(op: Call) -> TensorDesc:
        if op.rows < 0 or op.cols < 0:
            raise op.error(f"expected rows and cols of at least 0, got {op.rows} and {op.cols}")
        return TensorDesc((op.rows, op.cols), op.dtype)

    sbp = no_sbp("a part of the matrix is not always of the operator's form")
    grad = NO_OPERAND

    def compute(op: Call) -> Stage:
        return c.element_wise((op.rows, op.cols), lambda i, j: s.cast(i.eq(j), op.dtype), op.dtype)

    def reference(*, dtype: Any, rows: Any, cols: Any) -> Any:
        return np.eye(rows, cols, dtype=dtype.numpy)


def _steps(op: Call) -> tuple[float, float, float]:
    """Start, step and limit of `arange`: the floating-point attributes for floating-point results."""
    kind = "float" if op.dtype.is_float else "integer"
    return op[f"{kind}_start"], op[f"{kind}_delta"], op[f"{kind}_limit"]


@operator(
    "arange(dtype: data_type, integer_start: int64 = 0, integer_delta: int64 = 0, integer_limit: int64 = 0,"
    " float_start: double = 0.0, float_delta: double = 0.0, float_limit: double = 0.0) -> out"
)
class Arange:
    """start, start + delta, .. up to but without limit; the `float_*` values for floats, else `integer_*`."""

    def types(op: Call) -> TensorDesc:
        start, delta, limit = _steps(op)
        if op.dtype is dtypes.bool_:
            raise op.error("expected dtype to be a number type, got i1")
        if not all(map(math.isfinite, (start, delta, limit))) or delta == 0 or (limit - start) * delta < 0:
            raise op.error(f"expected a delta that leads from {start} to {limit}, got {delta}")
        return TensorDesc((_step_count(start, delta, limit),), op.dtype)

    sbp = no_sbp("the start of a part depends on the number of devices")
    grad = NO_OPERAND

    def compute(op: Call) -> Stage:
        wide = op.dtype.accumulator
        start, delta, limit = _steps(op)

        def body(i: Any) -> Any:
            return s.cast(i, wide) * s.const(delta, wide) + s.const(start, wide)

        return c.element_wise((_step_count(start, delta, limit),), body, op.dtype)

    def reference(*, dtype: Any, **values: Any) -> Any:
        kind, wide = "float" if dtype.is_float else "integer", dtype.accumulator.numpy
        start, delta, limit = (values[f"{kind}_{n}"] for n in ("start", "delta", "limit"))
        steps = np.arange(_step_count(start, delta, limit)).astype(wide)
        return (steps * np.asarray(delta).astype(wide) + np.asarray(start).astype(wide)).astype(dtype.numpy)


def _step_count(start: float, delta: float, limit: float) -> int:
    """How many steps of `delta` lead from `start` to below `limit`, exactly for integers."""
    return int(-((start - limit) // delta)) if isinstance(start, int) else math.ceil((limit - start) / delta)


def _like_sbp(op: Call) -> list[SbpSignature]:
    names = " ".join(letters(op.like.shape))
    return [*Factors(f"{names} -> {names}").signatures(), SbpSignature((P,), (B,))]


def _full_like(like: Stage, value: int) -> Stage:
    return c.element_wise(like.shape, lambda *i: s.const(value, like.dtype), like.dtype)


def _same_type(op: Call) -> TensorDesc:
    desc: TensorDesc = op.like
    return desc


@operator("zero_like(like) -> out")
class ZeroLike:
    """Zeros in the shape and type of `like`."""

    parts = each_part
    types = _same_type
    sbp = _like_sbp
    grad = zero_grad

    def compute(op: Call) -> Stage:
        return _full_like(op.like, 0)

    reference = np.zeros_like


@operator("ones_like(like) -> out")
class OnesLike:
    """A tensor of ones in the shape and type of `like`."""

    def parts(ops: PartsBuilder, op: Call) -> Value:
        re, im = ops.parts(op.like)
        return ops.pair(ops.ones_like(re), ops.zero_like(im))

    types = _same_type
    sbp = _like_sbp
    grad = zero_grad

    def compute(op: Call) -> Stage:
        return _full_like(op.like, 1)

    reference = np.ones_like


def _size_sbp(op: Call) -> list[SbpSignature]:
    """Parts of other dimensions have the whole size, parts of this dimension have sizes that add up to the whole
    size.
    """
    at = op.dim % op.like.rank
    split = [SbpSignature((S(i),), (P if i == at else B,)) for i, d in enumerate(op.like.shape) if d != 1]
    return [*split, SbpSignature((P,), (B,))]


@operator("dim_size(like, dim: int64 = 0) -> out")
class DimSize:
    """The size of dimension `dim` of `like`, a number; a negative `dim` counts from the end."""

    parts = by_real_part
    sbp = _size_sbp
    grad = zero_grad

    def types(op: Call) -> TensorDesc:
        rank = op.like.rank
        if not -rank <= op.dim < rank:
            raise op.error(f"expected dim in [{-rank}, {rank}) of like, got {op.dim}")
        return TensorDesc((), dtypes.int64)

    def compute(op: Call) -> Stage:
        size = c.as_expr(op.like.shape[op.dim])
        return c.element_wise((), lambda: s.cast(size, dtypes.int64), dtypes.int64)

    def reference(like: Any, *, dim: int) -> Any:
        return np.asarray(like.shape[dim], np.int64)


def _dims(likes: Any) -> list[Any]:
    """The sizes of all tensors, concatenated."""
    return [d for like in likes for d in like.shape]


@operator("positions(like+, shape: string) -> out")
class Positions:
    """0, 1, 2, .. (int64) in row-major order, in a tensor whose `shape` is computed from the sizes of `like`.

    `shape` is text such as `"d0 * 2, max(d1 - 1, 0)"`, where d0, d1, .. are the sizes of all `like`, one after the
    other; `+ - * // %`, `min` and `max` are allowed, and `floor`, `ceil`, `trunc` and `round` of floating-point
    numbers such as `d0 * 0.7`, `d0 / 3` and `sqrt(d0)`.
    """

    shapes_of = ("like",)
    parts = by_real_part
    sbp = no_sbp("a part of the result begins at another number")
    grad = zero_grad

    def types(op: Call) -> TensorDesc:
        try:
            shape = evaluate_sizes(op.shape, _dims(op.like))
        except ValueError as error:
            raise op.error(f"attribute shape: {error}") from None
        if any(d is not None and d < 0 for d in shape):
            raise op.error(f"expected sizes of at least 0, got {', '.join(map(str, shape))} of {op.shape}")
        return TensorDesc(shape, dtypes.int64)

    def compute(op: Call) -> Stage:
        shape = evaluate_sizes(op.shape, _dims(op.like))

        def number(*position: Any) -> Any:
            count = s.const(0, dtypes.int64)
            for at, size in zip(position, shape, strict=True):
                count = count * s.cast(c.as_expr(size), dtypes.int64) + s.cast(at, dtypes.int64)
            return count

        return c.element_wise(shape, number, dtypes.int64)

    def reference(like: Any, *, shape: Any) -> Any:
        sizes = evaluate_sizes(shape, [d for x in like for d in x.shape])
        return np.arange(math.prod(sizes)).reshape(sizes)


def _check_number(op: Call) -> None:
    if op.in_.element_count not in (1, None):
        raise op.error(f"expected in of one element, got {op.in_}")
    filled(op)


def _write_number(ops: Builder, op: Call) -> Value:
    number = ops.call("reshape", op.in_, shape=[])[0]
    number = number if number.dtype == op.dtype else ops.call("cast", number, dtype=op.dtype)[0]
    broadcast: Value = ops.call("expand", number, expand_shape=op.shape)[0]
    return broadcast


def _number_factors(op: Call) -> Factors:
    """Every device makes its part; a partial sum passes where the element type stays."""
    text = f"{' '.join('_' * op.in_.rank)} -> {' '.join(letters(op.shape))}"
    return Factors(text, "joint" if op.in_.dtype == op.dtype else None)


composite(
    "tensor_constant(in, dtype: data_type, shape: shape) -> out",
    "A tensor of `shape` of one value, the element of `in`.",
    write=_write_number, check=_check_number, sbp=_number_factors, local=_local_shape,
    reference=lambda x, *, dtype, shape: np.broadcast_to(
        x.reshape(()) != 0 if dtype is dtypes.bool_ else x.reshape(()).astype(dtype.numpy), shape
    ),
)  # fmt: skip
