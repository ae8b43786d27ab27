"""Random numbers by Philox4x32-10: functions of a seed and a position, the same on every backend.

Element i of a tensor in row-major order is made of the words of counter i under the key `seed`; so numbers do not
depend on threads or on splits: an operator on a shard of a tensor has the region of the shard in `logical_shape` and
`logical_begin`. `offset`, where given, is added to `seed`, so that a program draws other numbers
at every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.source import filled
from oneflow.dialect.philox import MASK, kept_scale, numpy_philox, philox
from oneflow.dialect.record import Call, no_grad, no_sbp, operator, zero_grad
from oneflow.dialect.sbp import Factors, Shard, repeated_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, letters
from oneflow.dialect.tensor_desc import TensorDesc

RANDOM = frozenset({"random"})
REAL = (dtypes.float32, dtypes.float64)

#: The attributes with the region of a shard in the whole tensor; empty where the tensor is not split.
LOGICAL = "logical_shape: shape = [], logical_begin: shape = []"
WHOLE = no_sbp("is drawn whole on every device, the same on each")


def _bits(words: Sequence[Expr], dtype: DType) -> Expr:
    """As many random bits as a number of `dtype` in [0, 1) has, as an integer of type `dtype`: 24 or 53."""
    if dtype is dtypes.float64:
        return s.cast((words[0] >> 5) * (1 << 26) + (words[1] >> 6), dtype)
    return s.cast(words[0] >> 8, dtype)


def _numpy_bits(words: Sequence[Any], dtype: DType) -> Any:
    if dtype is dtypes.float64:
        return ((words[0] >> np.uint64(5)) * np.uint64(1 << 26) + (words[1] >> np.uint64(6))).astype(np.float64)
    return (words[0] >> np.uint64(8)).astype(np.float32)


def _unit(dtype: DType) -> float:
    """The spacing of the numbers that `_bits` makes."""
    return 2.0**-53 if dtype is dtypes.float64 else 2.0**-24


def unit_uniform(words: Sequence[Expr], dtype: DType) -> Expr:
    """A uniform random number of `dtype` in [0, 1)."""
    return _bits(words, dtype) * _unit(dtype)


def numpy_unit_uniform(words: Sequence[Any], dtype: DType) -> Any:
    return _numpy_bits(words, dtype) * dtype.numpy.type(_unit(dtype))


def drawn(op: Call, shape: Sequence[Size], draw: Callable[..., Expr], dtype: DType) -> Stage:
    """The tensor whose elements are `draw(words, *position)`."""
    sizes = op.attrs.get("logical_shape") or shape
    begins = op.attrs.get("logical_begin") or [0] * len(shape)

    def body(*position: Any) -> Expr:
        flat = c.as_expr(0)
        for i, size, begin in zip(position, sizes, begins, strict=True):
            flat = flat * size + (i + begin)
        element, zero = s.cast(flat, dtypes.int64), s.const(0, dtypes.int64)
        offset = op.inputs.get("offset")
        seed = op.seed if offset is None else offset[(0,) * offset.rank] + op.seed
        return draw(philox([element & MASK, s.shift_right_unsigned(element, 32), zero, zero], seed), *position)

    return c.element_wise(shape, body, dtype)


def numpy_words(shape: Sequence[int], seed: int, logical_shape: Any = (), logical_begin: Any = ()) -> list[Any]:
    """The words of every element of a tensor, or of a part of a larger one."""
    full_shape = logical_shape or shape
    begins = logical_begin or [0] * len(shape)
    part = tuple(slice(b, b + n) for b, n in zip(begins, shape, strict=True))
    flat = np.arange(math.prod(full_shape), dtype=np.uint64).reshape(full_shape)[part]
    zero = np.zeros(flat.shape, np.uint64)
    return numpy_philox([flat & np.uint64(MASK), flat >> np.uint64(32), zero, zero], seed)


def seed_of(seed: int, offset: Any) -> int:
    """The seed of a call in NumPy."""
    return seed if offset is None else seed + int(offset.reshape(()))


def expect_offset(op: Call) -> None:
    """Checks the offset of the seed."""
    if op.offset is not None and (op.offset.dtype != dtypes.int64 or op.offset.element_count not in (1, None)):
        raise op.error(f"expected offset of one element of i64, got {op.offset}")


def drawn_result(op: Call, types: Sequence[DType], sizes: str = "shape") -> TensorDesc:
    """The result of an operator that draws a tensor of one of `types`: of the sizes of `like` if it is given, else of
    the attribute `sizes`.
    """
    expect_dtype(op, "dtype", TensorDesc((), op.dtype), types)
    expect_offset(op)
    if op.like is None:
        return filled(op, sizes)
    if op[sizes]:
        raise op.error(f"expected no sizes in {sizes}, since like has the sizes, got {list(op[sizes])}")
    return TensorDesc(op.like.shape, op.dtype)


def drawn_sizes(op: Call, sizes: str = "shape") -> Sequence[Size]:
    """The sizes of a tensor that is drawn: those of `like` if it is given, else of the attribute `sizes`."""
    shape: Sequence[Size] = op[sizes] if op.like is None else op.like.shape
    return shape


def numpy_shape(shape: Sequence[int], like: Any) -> Sequence[int]:
    """The sizes of a tensor that is drawn, in NumPy."""
    sizes: Sequence[int] = shape if like is None else like.shape
    return sizes


@operator(
    "uniform(offset?, like?, dtype: data_type, shape: shape, from: double = 0.0, to: double = 1.0, seed: int64 = 0)"
    " -> out"
)
class Uniform:
    """Uniform random numbers in [from, to): of 24 random bits in f32, of 53 in f64."""

    shapes_of = ("like",)
    sbp = WHOLE
    grad = zero_grad
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        low, high = op["from"], op["to"]
        if not (low < high and math.isfinite(high - low)):
            raise op.error(f"expected finite from < to, got {low} and {high}")
        return drawn_result(op, REAL)

    def compute(op: Call) -> Stage:
        low, high = op["from"], op["to"]

        def draw(words: Any, *position: Any) -> Expr:
            value = unit_uniform(words, op.dtype) * (high - low) + low
            return s.where(value < high, value, s.const(low, op.dtype))

        return drawn(op, drawn_sizes(op), draw, op.dtype)

    def reference(offset: Any, like: Any, *, dtype: Any, shape: Any, seed: Any, to: Any, **others: Any) -> Any:
        words = numpy_words(numpy_shape(shape, like), seed_of(seed, offset))
        real = dtype.numpy.type
        low, high = real(others["from"]), real(to)
        value = numpy_unit_uniform(words, dtype) * real(to - others["from"]) + low
        return np.where(value < high, value, low)


@operator(
    "normal(offset?, like?, dtype: data_type, shape: shape, mean: double = 0.0, std: double = 1.0, seed: int64 = 0)"
    " -> out"
)
class Normal:
    """Numbers drawn from the normal distribution, by the method of Box and Muller."""

    shapes_of = ("like",)
    sbp = WHOLE
    grad = zero_grad
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        if not (math.isfinite(op.mean) and math.isfinite(op.std) and op.std >= 0):
            raise op.error(f"expected a finite mean and std of at least 0, got {op.mean} and {op.std}")
        return drawn_result(op, REAL)

    def compute(op: Call) -> Stage:
        unit = _unit(op.dtype)

        def draw(words: Any, *position: Any) -> Expr:
            radius = s.sqrt(s.log((_bits(words[:2], op.dtype) + 1) * unit) * -2)
            angle = unit_uniform(words[2:], op.dtype) * (2 * math.pi)
            element: Expr = radius * s.cos(angle) * op.std + op.mean
            return element

        return drawn(op, drawn_sizes(op), draw, op.dtype)

    def reference(offset: Any, like: Any, *, dtype: Any, shape: Any, mean: Any, std: Any, seed: Any) -> Any:
        real = dtype.numpy.type
        words = numpy_words(numpy_shape(shape, like), seed_of(seed, offset))
        radius = np.sqrt(-2 * np.log((_numpy_bits(words[:2], dtype) + real(1)) * real(_unit(dtype))))
        return radius * np.cos(numpy_unit_uniform(words[2:], dtype) * real(2 * math.pi)) * real(std) + real(mean)


@operator(
    "uniform_int(offset?, like?, dtype: data_type, shape: shape, from: int64 = 0, to: int64 = 1, seed: int64 = 0)"
    " -> out"
)
class UniformInt:
    """Uniform random integers in [from, to), of 32 random bits."""

    shapes_of = ("like",)
    sbp = WHOLE
    grad = zero_grad
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        low, high = op["from"], op["to"]
        if not 0 < high - low <= 2**32:
            raise op.error(f"expected from < to, with a distance of at most 2**32, got {low} and {high}")
        result = drawn_result(op, dtypes.INTEGERS)
        limits = np.iinfo(op.dtype.numpy)
        if low < limits.min or high - 1 > limits.max:
            raise op.error(f"expected numbers of {op.dtype.mlir}, got from {low} to {high}")
        return result

    def compute(op: Call) -> Stage:
        low, high = op["from"], op["to"]

        def draw(words: Any, *position: Any) -> Expr:
            element: Expr = s.shift_right_unsigned(words[0] * (high - low), 32) + low
            return element

        return drawn(op, drawn_sizes(op), draw, op.dtype)

    def reference(offset: Any, like: Any, *, dtype: Any, shape: Any, seed: Any, to: Any, **others: Any) -> Any:
        span = np.uint64(to - others["from"])
        drawn = (numpy_words(numpy_shape(shape, like), seed_of(seed, offset))[0] * span) >> np.uint64(32)
        return (drawn.astype(np.int64) + others["from"]).astype(dtype.numpy)


def split_anywhere(op: Call) -> Factors:
    """Any axis of the operand can be split, where its shape is static, so that the regions of shards are known."""
    x = op.operands[0]
    text = " ".join(letters(x.shape)) if None not in x.shape else " ".join("_" * x.rank)
    offset = op.inputs.get("offset")
    sides = [" ".join("_" * o.rank) if offset is not None and o is offset else text for o in op.operands]
    return Factors(f"{', '.join(sides)} -> {', '.join([text] * len(op.results))}")


def shard_region(op: Call, shard: Shard) -> dict[str, Any]:
    """The region of one device's shard in the whole tensor, as attributes."""
    full_shape = next(iter(op.inputs.values())).shape
    begins = op.logical_begin or [0] * len(full_shape)
    local = shard.inputs[0].shape or ()
    moved = [b + shard.begins[0] * (n != d) for b, n, d in zip(begins, local, full_shape, strict=True)]
    return {"logical_shape": op.logical_shape or full_shape, "logical_begin": moved}


def expect_region(op: Call, rank: int) -> None:
    """Checks that the logical shape, where given, has `rank` axes."""
    if {len(op.logical_shape), len(op.logical_begin)} not in ({0}, {rank}):
        raise op.error(
            f"expected logical_shape and logical_begin of {rank} sizes, or none,"
            f" got {list(op.logical_shape)} and {list(op.logical_begin)}"
        )


def uniform_of(x: DType) -> DType:
    """The type in which numbers are drawn to be compared with numbers of the type `x`."""
    return dtypes.float64 if x is dtypes.float64 else dtypes.float32


@operator(f"bernoulli(in, offset?, dtype: data_type, seed: int64 = -1, p: double = 0.0, {LOGICAL}) -> out")
class Bernoulli:
    """1 with the probability `p`, else 0; where `p` is -1, with the probability that the element of `in` is."""

    unoffered = "unless p is -1, in may be partial sums, since only its shape is read"
    sbp = split_anywhere
    local = shard_region
    grad = no_grad("jumps between 0 and 1")
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        expect_region(op, op.in_.rank)
        expect_offset(op)
        if op.p != -1 and not 0 <= op.p <= 1:
            raise op.error(f"expected p of 0 to 1, or -1 for the probabilities in in, got {op.p}")
        return TensorDesc(op.in_.shape, op.dtype)

    def compute(op: Call) -> Stage:
        wide = uniform_of(op.in_.dtype)

        def draw(words: Any, *position: Any) -> Expr:
            chance = op.in_[position] if op.p == -1 else s.const(op.p, wide)
            return s.cast(unit_uniform(words, wide) < chance, op.dtype.accumulator)

        return drawn(op, op.in_.shape, draw, op.dtype)

    def reference(
        x: Any, offset: Any, *, dtype: Any, seed: Any, p: Any, logical_shape: Any, logical_begin: Any
    ) -> Any:
        wide = uniform_of(dtypes.from_numpy(x.dtype))
        chance = x.astype(wide.numpy) if p == -1 else wide.numpy.type(p)
        words = numpy_words(x.shape, seed_of(seed, offset), logical_shape, logical_begin)
        return (numpy_unit_uniform(words, wide) < chance).astype(dtype.numpy)


def expect_rate(op: Call, rank: int) -> None:
    """Checks the rate of a dropout of a tensor of `rank` axes, and the region of its shard."""
    if not 0 <= op.rate <= 1:
        raise op.error(f"expected a rate of 0 to 1, got {op.rate}")
    expect_region(op, rank)


def _mask(op: Call, like: Stage) -> Stage:
    """The mask of the kept elements: true with the probability 1 - rate."""
    return drawn(op, like.shape, lambda words, *at: unit_uniform(words, dtypes.float32) >= op.rate, dtypes.bool_)


def numpy_mask(shape: Any, rate: float, seed: int, logical_shape: Any, logical_begin: Any) -> Any:
    """The mask of the kept elements, in NumPy."""
    words = numpy_words(shape, seed, logical_shape, logical_begin)
    return numpy_unit_uniform(words, dtypes.float32) >= np.float32(rate)


@operator(f"random_mask_like(like, offset?, rate: float = 0.0, seed: int64 = 0, {LOGICAL}) -> out")
class RandomMaskLike:
    """A mask of the shape of `like` that is false with the probability `rate`."""

    shapes_of = ("like",)
    sbp = split_anywhere
    local = shard_region
    grad = zero_grad
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        expect_rate(op, op.like.rank)
        expect_offset(op)
        return TensorDesc(op.like.shape, dtypes.bool_)

    def compute(op: Call) -> Stage:
        return _mask(op, op.like)

    def reference(like: Any, offset: Any, *, rate: Any, seed: Any, logical_shape: Any, logical_begin: Any) -> Any:
        return numpy_mask(like.shape, rate, seed_of(seed, offset), logical_shape, logical_begin)


def _keep(x: Stage, mask: Stage, scale: float, added: Stage | None = None) -> Stage:
    """`x` times `scale` where `mask` holds, else 0; and `added`."""

    def body(*at: Any) -> Expr:
        kept = s.where(mask[at], x[at] * scale, 0.0)
        return kept if added is None else kept + added[at]

    return c.element_wise(x.shape, body, x.dtype)


def _numpy_keep(x: Any, mask: Any, scale: float, added: Any = None) -> Any:
    wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
    kept = np.where(mask, x.astype(wide) * np.asarray(scale, wide), np.asarray(0, wide))
    return (kept if added is None else kept + added.astype(wide)).astype(x.dtype)


@operator(f"dropout(in, _add_to_output?, rate: float = 0.0, seed: int64 = 0, {LOGICAL}) -> out, mask")
class Dropout:
    """Zeros in place of elements with the probability `rate`, the others over 1 - rate; and the mask of those."""

    def sbp(op: Call) -> Factors:
        return split_anywhere(op).linear_in(op, *op.inputs)

    local = shard_region
    traits = RANDOM

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        expect_rate(op, op.in_.rank)
        if op._add_to_output is not None and not op._add_to_output.compatible(op.in_):
            raise op.error(f"expected _add_to_output of type {op.in_}, got {op._add_to_output}")
        return op.in_, TensorDesc(op.in_.shape, dtypes.bool_)

    def grad(ops: Builder, op: Call, dout: Value, dmask: Value | None = None) -> dict[str, Any]:
        return {"in": lambda: ops.dropout_grad(dout, op.mask, scale=kept_scale(op.rate)), "_add_to_output": dout}

    def compute(op: Call) -> tuple[Stage, Stage]:
        mask = _mask(op, op.in_)
        return _keep(op.in_, mask, kept_scale(op.rate), op._add_to_output), mask

    def reference(x: Any, added: Any, *, rate: Any, seed: Any, logical_shape: Any, logical_begin: Any) -> Any:
        mask = numpy_mask(x.shape, rate, seed, logical_shape, logical_begin)
        return _numpy_keep(x, mask, kept_scale(rate), added), mask


@operator("dropout_grad(dy, mask, scale: float = 0.0) -> dx")
class DropoutGrad:
    """`dy` times `scale` where `mask` holds, else 0."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
        if not op.mask.compatible(TensorDesc(op.dy.shape, dtypes.bool_)):
            raise op.error(f"expected mask of type {TensorDesc(op.dy.shape, dtypes.bool_)}, got {op.mask}")
        return TensorDesc(op.dy.meet(TensorDesc(op.mask.shape, op.dy.dtype)).shape, op.dy.dtype)

    def sbp(op: Call) -> Factors:
        return repeated_factors(" ".join(letters(op.dy.shape)), 2).linear_in(op, "dy")

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": lambda: ops.dropout_grad(ddx, op.mask, scale=op.scale)}

    def compute(op: Call) -> Stage:
        return _keep(op.dy, op.mask, op.scale)

    def reference(dy: Any, mask: Any, *, scale: Any) -> Any:
        return _numpy_keep(dy, mask, scale)
