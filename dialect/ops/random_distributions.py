"""Further random draws: exponential numbers, coins, permutations, indices by weight, and leaky slopes.

Numbers are as in `random`: functions of a seed, an offset and a position.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.random import (
    LOGICAL,
    RANDOM,
    REAL,
    WHOLE,
    drawn,
    drawn_result,
    drawn_sizes,
    expect_offset,
    expect_region,
    numpy_shape,
    numpy_unit_uniform,
    numpy_words,
    seed_of,
    shard_region,
    split_anywhere,
    uniform_of,
    unit_uniform,
)
from oneflow.dialect.ops.source import NO_OPERAND
from oneflow.dialect.record import Call, no_grad, operator, zero_grad
from oneflow.dialect.sbp import B, S, SbpSignature
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.sorting import partition_point
from oneflow.dialect.tensor_desc import TensorDesc

INT8, INT64, FLOAT64 = dtypes.int8, dtypes.int64, dtypes.float64


@operator(
    "exponential(offset?, like?, seed: int64 = 0, lambd: float = 1.0, dtype: data_type, out_shape: shape) -> out"
)
class Exponential:
    """Numbers of at least 0 with the density lambd * exp(-lambd * x)."""

    shapes_of = ("like",)
    sbp = WHOLE
    grad = zero_grad
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        if not (op.lambd > 0 and math.isfinite(op.lambd)):
            raise op.error(f"expected a finite lambd above 0, got {op.lambd}")
        return drawn_result(op, REAL, "out_shape")

    def compute(op: Call) -> Stage:
        def draw(words: Any, *position: Any) -> Expr:
            element: Expr = s.log1p(-unit_uniform(words, op.dtype)) * (-1.0 / op.lambd)
            return element

        return drawn(op, drawn_sizes(op, "out_shape"), draw, op.dtype)

    def reference(offset: Any, like: Any, *, seed: Any, lambd: Any, dtype: Any, out_shape: Any) -> Any:
        share = numpy_unit_uniform(numpy_words(numpy_shape(out_shape, like), seed_of(seed, offset)), dtype)
        return (np.log1p(-share.astype(np.float64)) / -lambd).astype(dtype.numpy)


@operator(
    "coin_flip(offset?, probability: float = 0.5, batch_size: int64 = 0, seed: int64 = -1, has_seed: bool = False)"
    " -> out"
)
class CoinFlip:
    """1 with `probability`, else 0 (i8), `batch_size` times. The seed counts with `has_seed` and without."""

    sbp = WHOLE
    grad = NO_OPERAND
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        expect_offset(op)
        if not 0 <= op.probability <= 1 or op.batch_size < 0:
            raise op.error(
                "expected a probability of 0 to 1 and a batch_size of at least 0, got"
                f" {op.probability} and {op.batch_size}"
            )
        return TensorDesc((op.batch_size,), INT8)

    def compute(op: Call) -> Stage:
        def draw(words: Any, *position: Any) -> Expr:
            return s.cast(unit_uniform(words, dtypes.float32) < op.probability, INT8)

        return drawn(op, (op.batch_size,), draw, INT8)

    def reference(offset: Any, *, probability: Any, batch_size: Any, seed: Any) -> Any:
        share = numpy_unit_uniform(numpy_words((batch_size,), seed_of(seed, offset)), dtypes.float32)
        return (share < np.float32(probability)).astype(np.int8)


def _order(ops: Builder, size: int, seed: int, offset: Value | None) -> Value:
    """A random permutation of the integers below `size`."""
    keys = ops.call("uniform", offset, dtype=FLOAT64, shape=[size], seed=seed)[0]
    return ops.call("arg_sort", keys, direction="ASCENDING")[0]


def _numpy_order(size: int, seed: int, offset: Any) -> Any:
    keys = numpy_unit_uniform(numpy_words((size,), seed_of(seed, offset)), FLOAT64)
    return np.argsort(keys, kind="stable").astype(np.int32)


def _check_order(op: Call) -> None:
    expect_offset(op)
    if "n" in op.attrs and op.n < 0:
        raise op.error(f"expected n of at least 0, got {op.n}")
    if "x" in op.inputs:
        expect_rank(op, "x", op.x, 1, -1)
        if op.x.shape[0] is None:
            raise op.error(f"expected a static first axis of x, got {op.x}")


def _order_signatures(op: Call) -> list[SbpSignature]:
    """Of `x` the size of the first axis is read alone."""
    rest = [B] * (len(op.operands) - 1)
    return [SbpSignature((S(i), *rest), (B,)) for i, d in enumerate(op.x.shape) if i and d != 1]


composite(
    "randperm(offset?, n: int32 = 0, seed: int64 = 0) -> out", "The integers from 0 to n - 1 (i32) in random order.",
    write=lambda ops, op: _order(ops, op.n, op.seed, op.offset), check=_check_order, sbp=WHOLE, grad=NO_OPERAND,
    reference=lambda offset, *, n, seed: _numpy_order(n, seed, offset), traits=RANDOM,
)  # fmt: skip
composite(
    "generate_random_batch_permutation_indices(x, offset?, seed: int64 = 0) -> y",
    "The indices (i32) along the first axis of `x` in random order.",
    write=lambda ops, op: _order(ops, op.x.shape[0] or 0, op.seed, op.offset), check=_check_order,
    reference=lambda x, offset, *, seed: _numpy_order(len(x), seed, offset), shapes_of=("x",),
    sbp=_order_signatures, grad=no_grad("the result is indices"), traits=RANDOM,
)  # fmt: skip


@operator(
    "multinomial_with_replacement(x, prefix_sum?, offset?, seed: int64 = 0, num_samples: int32 = 1,"
    " replacement: bool = True) -> out"
)
class MultinomialWithReplacement:
    """`num_samples` indices (i64) for each row of weights, drawn in proportion to these.

    `prefix_sum` are the running sums of the rows, if known. Weights that are negative or not finite, and
    rows of zeros, are run-time errors.
    """

    sbp = WHOLE
    grad = no_grad("the result is indices")
    traits = RANDOM

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        expect_rank(op, "x", op.x, 1, 2)
        expect_offset(op)
        if not op.x.shape[-1]:
            raise op.error(f"expected a static last axis of x of at least one weight, got {op.x}")
        if not op.replacement or op.num_samples < 1:
            raise op.error(
                "expected replacement to be true and num_samples of at least 1, got"
                f" {str(op.replacement).lower()} and {op.num_samples}"
            )
        if op.prefix_sum is not None and not op.prefix_sum.compatible(op.x):
            raise op.error(f"expected prefix_sum of type {op.x}, got {op.prefix_sum}")
        return TensorDesc((*op.x.shape[:-1], op.num_samples), INT64)

    def compute(op: Call) -> Stage:
        x, size, last = op.x, op.x.shape[-1], op.x.rank - 1
        weights = x if op.prefix_sum is None else op.prefix_sum
        zero = s.const(0, FLOAT64)
        sums = c.scan(x, last, zero, lambda a, b: a + b, FLOAT64) if op.prefix_sum is None else weights
        least = c.reduce_(x.shape[:-1], x.shape[-1:], math.inf, s.minimum, lambda *at: x[at])

        def draw(words: Any, *at: Any) -> Expr:
            row = at[:last]
            total = s.cast(sums[(*row, size - 1)], FLOAT64)
            goal = unit_uniform(words, FLOAT64) * total
            position = partition_point(size, lambda k: s.cast(sums[(*row, k)], FLOAT64) <= goal)
            is_good = (least[row] >= 0) & (total > 0) & (total < math.inf)
            name = "oneflow.multinomial_with_replacement: a row of weights at least 0, finite and not all 0"
            chosen = s.where(is_good, s.minimum(position, size - 1), c.as_expr(size))
            return s.cast(s.checked(chosen, size, name), INT64)

        return drawn(op, (*x.shape[:-1], op.num_samples), draw, INT64)

    def reference(x: Any, prefix_sum: Any, offset: Any, *, seed: Any, num_samples: Any) -> Any:
        wide = x.astype(np.float64)
        if not (np.isfinite(wide).all() and (wide >= 0).all() and (wide.sum(-1) > 0).all()):
            raise IndexError(
                "oneflow.multinomial_with_replacement: expected weights at least 0, finite and not all 0, got"
                f" {np.array2string(wide, threshold=8)}"
            )
        sums = np.cumsum(wide, -1) if prefix_sum is None else prefix_sum.astype(np.float64)
        words = numpy_words((*x.shape[:-1], num_samples), seed_of(seed, offset))
        goals = numpy_unit_uniform(words, FLOAT64) * sums[..., -1:]
        positions = (sums[..., None, :] <= goals[..., None]).sum(-1)
        return np.minimum(positions, x.shape[-1] - 1).astype(np.int64)


@operator(
    "rrelu(in, offset?, seed: int64 = 0, lower: float = 0.125, upper: float = 0.33333334, training: bool = False,"
    f" {LOGICAL}) -> output, noise_data"
)
class RRelu:
    """x where x is at least 0, else x times a slope; and this factor, 1 or the slope, which is the derivative.

    In training the slope of each element is drawn uniformly from [lower, upper), otherwise it is their mean.
    """

    sbp = split_anywhere
    local = shard_region
    traits = RANDOM

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        expect_region(op, op.in_.rank)
        expect_offset(op)
        if not (op.lower <= op.upper and math.isfinite(op.upper - op.lower)):
            raise op.error(f"expected finite lower of at most upper, got {op.lower} and {op.upper}")
        return op.in_, op.in_

    def grad(ops: Builder, op: Call, dout: Value | None, dnoise: Value | None) -> dict[str, Any]:
        return {} if dout is None else {"in": lambda: dout * op.noise_data}

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, wide = op.in_, uniform_of(op.in_.dtype)

        def draw(words: Any, *at: Any) -> Expr:
            slope = unit_uniform(words, wide) * (op.upper - op.lower) + op.lower if op.training else _mean(op, wide)
            return s.where(x[at] >= 0, s.const(1.0, wide), slope)

        noise = drawn(op, x.shape, draw, wide)
        output = c.element_wise(x.shape, lambda *at: x[at] * noise[at], x.dtype)
        return output, c.convert(noise, x.dtype)

    def reference(
        x: Any, offset: Any, *, seed: Any, lower: Any, upper: Any, training: Any, logical_shape: Any,
        logical_begin: Any,
    ) -> Any:  # fmt: skip
        wide = uniform_of(dtypes.from_numpy(x.dtype))
        words = numpy_words(x.shape, seed_of(seed, offset), logical_shape, logical_begin)
        share = numpy_unit_uniform(words, wide) if training else np.full(x.shape, 0.5, wide.numpy)
        bounds = np.asarray([upper - lower, lower], wide.numpy)
        noise = np.where(x >= 0, 1.0, share * bounds[0] + bounds[1])
        return (x * noise).astype(x.dtype), noise.astype(x.dtype)


def _mean(op: Call, dtype: dtypes.DType) -> Expr:
    return s.const((op.lower + op.upper) / 2, dtype)
