"""The attention pattern: matches the parts of attention written out in operators.

The parts are matrix products, scores, masks (mask analysis), dropout, and the repetition of keys and values in
grouped-query attention. A `Matrix` is a value and whether its last two axes are exchanged, so that a transpose
matches like the transpose flag of a product.

A finite low number masks like -inf in a row that has another score. In a fully masked row the finite number results
in equal weights, and -inf in NaN.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.philox import kept_scale
from oneflow.dialect.record import Call, Registry
from oneflow.dialect.tensor_desc import Shape, TensorDesc
from oneflow.passes import constants
from oneflow.passes.canonicalize import LawBuilder
from oneflow.passes.walk import gather

PRODUCTS = frozenset({"matmul", "batch_matmul", "broadcast_matmul"})
#: The relative difference up to which factors are equal: the same number can be rounded at different steps.
ROUNDING = 1e-5
#: The most elements of a mask that is evaluated to find whether it is causal.
MAX_EVALUATED = 1 << 24
#: The highest number that masks a score in a row that has another: exponentials of numbers so far below it are 0.
MASK_THRESHOLD = -1e4
#: Returns the constant of a value, or None.
ConstantOf = Callable[[ir.Value], np.ndarray | None]
#: Operators that keep elements in their order.
RESHAPES = ("reshape", "expand_dims", "squeeze")


@dataclass(frozen=True)
class Matrix:
    """A value, or with `is_transposed` its transpose in the last two axes."""

    value: ir.Value
    is_transposed: bool

    def transpose_if(self, condition: bool) -> Matrix:
        """The transpose, if `condition`."""
        return Matrix(self.value, self.is_transposed != condition)


@dataclass(frozen=True)
class Product:
    """left @ right * factor."""

    left: Matrix
    right: Matrix
    factor: float


@dataclass(frozen=True)
class ScoreMask:
    """A mask that replaces scores by `fill_value` where `value` is true, or with `negated` where `value` is false.

    None is the mask of the positions after the diagonal. Masks that only differ in `fill_value` are equal.
    """

    value: ir.Value | None
    negated: bool = False
    fill_value: float = field(default=-math.inf, compare=False)


@dataclass
class Scores:
    """The operand of a softmax: query @ key^T * scale, plus additive masks, with masked scores replaced.

    Attributes:
        query, key: the factors.
        scale: the factor of their product.
        additive_masks: masks that are added, each with a factor.
        score_masks: masks that replace scores by a low number.
        noncausal_masks: the `score_masks` that `causal` does not cover.
        causal: whether the scores after the diagonal are masked.
        internal: the results of the operations in between.
        rank: of the scores.
    """

    query: Matrix
    key: Matrix
    scale: float
    additive_masks: list[tuple[ir.Value, float]]
    score_masks: list[ScoreMask]
    noncausal_masks: list[ScoreMask]
    causal: bool
    internal: set[ir.Value]
    rank: int

    def has_fitting_masks(self, graph: DefUseGraph) -> bool:
        """Whether the operator can take the additive masks: the masks have the type of the query, or of
        accumulators.
        """
        dtype = graph.desc(self.query.value).dtype
        return all(graph.desc(value).dtype in (dtype, dtype.accumulator) for value, _ in self.additive_masks)

    def build_mask(self, graph: DefUseGraph) -> Value | None:
        """The sum of all masks as one additive mask; None without masks."""
        ops, dtype = graph.ops, graph.desc(self.query.value).dtype
        if any(graph.desc(value).dtype != dtype for value, _ in self.additive_masks):
            dtype = dtype.accumulator
        masks = [(_converted(ops, ops.wrap(v), dtype), factor) for v, factor in self.additive_masks]
        parts = [mask if factor == 1.0 else mask * factor for mask, factor in masks]
        for score_mask in self.noncausal_masks:
            pair = [_scalar(ops, dtype, value) for value in (-math.inf, 0.0)]
            parts.append(ops.where(ops.wrap(score_mask.value), *(reversed(pair) if score_mask.negated else pair)))
        if not parts:
            return None
        mask: Value = functools.reduce(operator.add, parts)
        if mask.rank < 3 or self.rank == 4:
            return mask
        return ops.call("expand_dims", mask, axis=1)[0]


def _converted(ops: LawBuilder, value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else ops.call("cast", value, dtype=dtype)[0]


def _scalar(ops: LawBuilder, dtype: DType, value: float) -> Value:
    return ops.call("constant", dtype=dtype, shape=[], is_floating_value=True, floating_value=value)[0]


@dataclass(frozen=True)
class Dropout:
    """Dropout of the weights: the result, the mask of kept weights, the offset of the seed, and the attributes."""

    result: ir.Value
    mask: ir.Value
    offset: ir.Value | None
    attributes: dict[str, Any]

    def fits(self, scores: Scores) -> bool:
        """Whether the attention operator can draw the same mask: the operator describes parts of tensors by four
        axes.
        """
        return not self.attributes["logical_shape"] or scores.rank == 4


class DefUseGraph:
    """The operations of a module, with the producers and users of values."""

    def __init__(self, module: ir.Module, registry: Registry) -> None:
        self.registry, self.ops = registry, LawBuilder(registry)
        self._operations: list[ir.Operation] = []
        dialect.walk(module.operation, self._operations.append)
        self._positions: dict[ir.Value, int] = {}
        self._known: dict[ir.Value, np.ndarray | None] = {}
        for position, op in enumerate(self._operations):
            self.ops.owners.update((result, op) for result in op.results)
            self._positions.update((result, position) for result in op.results)
        self._record_constants(module)

    def _record_constants(self, module: ir.Module) -> None:
        producers = gather(module.operation, lambda op: op.name in ("arith.constant", dialect.CAST))
        self.ops.owners.update((op.results[0], op) for op in producers)

    def operations(self, name: str) -> list[ir.Operation]:
        """The calls of an operator in program order."""
        return [op for op in self._operations if op.name == dialect.PREFIX + name]

    def earliest(self, ops: list[ir.Operation]) -> ir.Operation:
        """The first of several operations in program order."""
        return min(ops, key=lambda op: self._positions[op.results[0]])

    def desc(self, value: ir.Value) -> TensorDesc:
        """The type of a value."""
        return dialect.desc_of(value)

    def shape(self, value: ir.Value) -> tuple[int | None, ...]:
        """The shape of a ranked value."""
        return tuple(self.desc(value).shape or ())

    def all_users(self, value: ir.Value) -> list[ir.Operation]:
        """The operations that use a value."""
        return [use.owner.operation for use in value.uses]

    def users(self, value: ir.Value) -> list[ir.Operation]:
        """The operators that use a value."""
        return [op for op in self.all_users(value) if dialect.is_oneflow(op)]

    def call(self, op: ir.Operation, *names: str) -> Call | None:
        """An operation as a call; None for other operators than `names`."""
        if not dialect.is_oneflow(op) or op.name[len(dialect.PREFIX) :] not in names:
            return None
        return self.ops.call_of(op)

    def producer(self, value: ir.Value, *names: str) -> Call | None:
        """The call that defines a value; None for other operators than `names`."""
        op = self.ops.owners.get(value)
        return None if op is None else self.call(op, *names)

    def is_conversion(self, op: ir.Operation) -> bool:
        """Whether an operation is a cast between float types."""
        call = self.call(op, "cast")
        return call is not None and bool(call.in_.dtype.is_float and call.out.dtype.is_float)

    def is_gradient_of(self, op: ir.Operation, weights: ir.Value) -> bool:
        """Whether an operation is the gradient of the softmax with the result `weights`."""
        return op.name == f"{dialect.PREFIX}softmax_grad" and bool(op.operands[0] == weights)

    def skip_conversions(self, value: ir.Value) -> tuple[list[ir.Value], ir.Operation | None]:
        """The results of the casts that lead to a value, and the operation before these."""
        skipped = []
        while (op := self.ops.owners.get(value)) is not None and self.is_conversion(op):
            skipped.append(value)
            value = op.operands[0]
        return skipped, op

    def matrix(self, value: ir.Value, is_transposed: bool) -> Matrix:
        """A value as a matrix, without the transposes of its last two axes."""
        while (call := self.producer(value, "transpose")) is not None:
            axes = list(range(len(call.perm)))
            if list(call.perm) != [*axes[:-2], axes[-1], axes[-2]]:
                break
            value, is_transposed = call.operands[0].handle, not is_transposed
        return Matrix(value, is_transposed)

    def product(self, op: ir.Operation) -> Product | None:
        """An operation as a matrix product whose batches are not broadcast; None for others."""
        call = self.call(op, *PRODUCTS)
        if call is None or call._add_to_output is not None or call.a.shape[:-2] != call.b.shape[:-2]:
            return None
        sides = (self.matrix(call.a.handle, call.transpose_a), self.matrix(call.b.handle, call.transpose_b))
        return Product(*sides, call.alpha)

    def match_dropout(self, op: ir.Operation, value: ir.Value) -> Dropout | None:
        """An operation as dropout of `value`; None for others."""
        call = self.call(op, "dropout")
        if call is not None and call.in_.handle == value and call._add_to_output is None:
            return Dropout(op.results[0], op.results[1], None, _dropout_attributes(call))
        call = self.call(op, "dropout_grad")
        random = (
            None if call is None or call.dy.handle != value else self.producer(call.mask.handle, "random_mask_like")
        )
        if call is None or random is None or not math.isclose(call.scale, kept_scale(random.rate), rel_tol=ROUNDING):
            return None
        offset = None if random.offset is None else random.offset.handle
        return Dropout(op.results[0], call.mask.handle, offset, _dropout_attributes(random))

    def applies_dropout(self, op: ir.Operation, dropout: Dropout) -> bool:
        """Whether an operation applies the mask of `dropout` to its first operand."""
        call = self.call(op, "dropout_grad")
        scale = kept_scale(dropout.attributes["rate"])
        if call is None or call.mask.handle != dropout.mask:
            return False
        return math.isclose(call.scale, scale, rel_tol=ROUNDING)

    def scores(self, value: ir.Value) -> Scores | None:
        """The scores that `value`, the operand of a softmax, consists of; None without a matrix product."""
        return _ScoreReader(self, dialect.desc_of(value).shape).read(value)

    def score_gradient_factor(self, op: ir.Operation, value: ir.Value, masks: list[ScoreMask]) -> float | None:
        """The factor that an operation applies to a score gradient, which is 0 wherever `masks` replace scores."""
        if self.is_conversion(op):
            return 1.0
        factor = self.factor(op, value)
        return 1.0 if factor is None and self._only_zeroes_masked(op, value, masks) else factor

    def _only_zeroes_masked(self, op: ir.Operation, value: ir.Value, masks: list[ScoreMask]) -> bool:
        """Whether an operation only writes 0 where one of `masks` replaces scores."""
        call = self.call(op, "where", "masked_fill", "tril")
        if call is None:
            return False
        match = match_mask(self.constant, call, 0.0)
        return match is not None and match[1].fill_value == 0 and match[0] == value and match[1] in masks

    def factor(self, op: ir.Operation, value: ir.Value) -> float | None:
        """The constant that an operation multiplies `value` by; None for other operations."""
        call = self.call(op, "scalar_mul", "scalar_div")
        if call is not None:
            factor = float(call.int_operand if call.has_int_operand else call.float_operand)
            return factor if op.name.endswith("mul") else 1.0 / factor if factor else None
        call = self.call(op, "broadcast_mul", "broadcast_div")
        if call is None or call.results[0].shape != dialect.desc_of(value).shape:
            return None
        lhs, rhs = (v.handle for v in call.operands)
        divides = op.name.endswith("div")
        if lhs != value and (divides or rhs != value):
            return None
        return self._splat_value(rhs if lhs == value else lhs, divides)

    def _splat_value(self, value: ir.Value, divides: bool) -> float | None:
        """The element of a constant tensor whose elements are equal, or its reciprocal if `divides`."""
        known = self.constant(value)
        if known is None or known.size == 0 or not constants.is_splat(known):
            return None
        element = float(known.reshape(-1)[0])
        return element if not divides else 1.0 / element if element else None

    def constant(self, value: ir.Value) -> np.ndarray | None:
        """The constant that a value is, or None; evaluates expressions of constants that are not too large."""
        if value not in self._known:
            self._known[value] = self._evaluate(value)
        return self._known[value]

    def _evaluate(self, value: ir.Value) -> np.ndarray | None:
        op = self.ops.owners.get(value)
        if op is None or op.name == dialect.CAST:
            return None
        if op.name == "arith.constant":
            return constants.read_dense(op)
        call = self.ops.call_of(op)
        if not constants.can_evaluate(call.record) or len(call.results) != 1:
            return None
        if (call.results[0].desc.element_count or MAX_EVALUATED + 1) > MAX_EVALUATED:
            return None
        if any(isinstance(v, tuple) for v in call.inputs.values()):
            return None
        arrays = {k: None if v is None else self.constant(v.handle) for k, v in call.inputs.items()}
        if any(arrays[k] is None and v is not None for k, v in call.inputs.items()):
            return None
        return np.asarray(run_reference(Call(call.record, arrays, call.attrs))[0])


def _dropout_attributes(call: Call) -> dict[str, Any]:
    """The attributes of dropout."""
    return {name: call.attrs[name] for name in ("rate", "seed", "logical_shape", "logical_begin")}


@dataclass
class _ScoreReader:
    """Walks back from the operand of a softmax to the product; `factor` is the scale of the current value."""

    graph: DefUseGraph
    shape: Shape | None
    factor: float = 1.0
    additive_masks: list[tuple[ir.Value, float]] = field(default_factory=list)
    score_masks: list[ScoreMask] = field(default_factory=list)
    internal: set[ir.Value] = field(default_factory=set)

    def read(self, value: ir.Value) -> Scores | None:
        """The scores `value`; None where the value is no matrix product."""
        while (op := self.graph.ops.owners.get(value)) is not None and dialect.is_oneflow(op):
            if dialect.desc_of(value).shape != self.shape:
                return None
            self.internal.add(value)
            product = self.graph.product(op)
            if product is not None:
                return self._scores(product)
            operand = self._scores_operand(op)
            if operand is None:
                return None
            value = operand
        return None

    def _scores(self, product: Product) -> Scores | None:
        scale = self.factor * product.factor
        if not math.isfinite(scale) or self.shape is None:
            return None
        added = [(v, f) for v, f in self.additive_masks if not self._is_causal(v, 0.0, MASK_THRESHOLD / min(f, 1.0))]
        masks = [m for m in self.score_masks if not self._is_after_diagonal(m)]
        if (masks or added) and not self._masks_all_with_infinity(added):
            return None
        causal = len(added) < len(self.additive_masks) or len(masks) < len(self.score_masks)
        matrices = product.left, product.right.transpose_if(True)
        return Scores(*matrices, scale, added, self.score_masks, masks, causal, self.internal, len(self.shape))

    def _masks_all_with_infinity(self, added: list[tuple[ir.Value, float]]) -> bool:
        """Whether all masks fill with -inf, so that fully masked rows agree; `added` are the noncausal masks."""
        others = [v for v, f in self.additive_masks if (v, f) not in added]
        finite = any(m.fill_value > -math.inf for m in self.score_masks)
        return not finite and all(self._is_causal(v, 0.0, -math.inf) for v in others)

    def _is_after_diagonal(self, mask: ScoreMask) -> bool:
        """Whether a mask replaces exactly the scores after the diagonal."""
        if mask.value is None:
            return True
        known = self._constant_mask(mask.value)
        return known is not None and bool(
            ((known.astype(np.bool_) != mask.negated) != causal_mask(known.shape)).all()
        )

    def _is_causal(self, mask: ir.Value, unmasked: float, threshold: float) -> bool:
        """Whether a mask is a constant for all heads: `unmasked` up to the diagonal, at most `threshold` after it."""
        known = self._constant_mask(mask)
        return known is not None and bool(
            np.where(causal_mask(known.shape), known == unmasked, known <= threshold).all()
        )

    def _constant_mask(self, mask: ir.Value) -> np.ndarray | None:
        """The constant of a mask that is the same for all heads."""
        known, sizes = self.graph.constant(mask), tuple(self.shape or ())[-2:]
        if known is None or known.shape[-2:] != sizes or known.size != math.prod(known.shape[-2:]):
            return None
        return known.reshape(known.shape[-2:])

    def _scores_operand(self, op: ir.Operation) -> ir.Value | None:
        """The operand of an operation that has the scores; records what the operation does to them."""
        if self.graph.is_conversion(op):
            return op.operands[0]
        call = self.graph.call(op, "where", "masked_fill", "tril")
        if call is not None:
            return self._read_score_mask(call)
        call = self.graph.call(op, "broadcast_add")
        if call is not None:
            return self._read_addition(call)
        for value in op.operands:
            factor = self.graph.factor(op, value)
            if factor is not None:
                self.factor *= factor
                return value
        return None

    def _read_score_mask(self, call: Call) -> ir.Value | None:
        match = (
            None
            if self.factor <= 0
            else match_mask(self.graph.constant, call, MASK_THRESHOLD / min(self.factor, 1.0))
        )
        if match is not None:
            fill_value = round_to(match[1].fill_value, call.results[0].dtype)
            self.score_masks.append(replace(match[1], fill_value=fill_value))
        return None if match is None else match[0]

    def _read_addition(self, call: Call) -> ir.Value | None:
        """The operand of an addition that is a product; the other operand is a mask."""
        lhs, rhs = (v.handle for v in call.operands)
        for scores, mask in ((lhs, rhs), (rhs, lhs)):
            if self.factor > 0 and _ScoreReader(self.graph, self.shape).read(scores) is not None:
                self.additive_masks.append((mask, self.factor))
                return scores
        return None


def match_mask(known: ConstantOf, call: Call, most: float) -> tuple[ir.Value, ScoreMask] | None:
    """The operand whose scores a call keeps, and the mask; None where no fill value is at most `most`."""
    if call.record.name == "tril":
        fill = call.floating_fill_value if call.is_floating_fill_value else float(call.integer_fill_value)
        return (call.in_.handle, ScoreMask(None, fill_value=fill)) if fill <= most and call.diagonal == 0 else None
    if call.record.name == "masked_fill":
        is_float = not (call.has_bool_operand or call.has_int_operand)
        fill = call.float_operand if is_float else float(call.int_operand)
        return (call.x.handle, ScoreMask(call.mask.handle, False, fill)) if fill <= most else None
    for kept, other, negated in ((call.y, call.x, False), (call.x, call.y, True)):
        filled = known(other.handle)
        if filled is not None and filled.size and constants.is_splat(filled) and (filled <= most).all():
            return kept.handle, ScoreMask(call.condition.handle, negated, float(filled.reshape(-1)[0]))
    return None


def causal_mask(sizes: tuple[int, ...]) -> np.ndarray:
    """The causal mask: true where the key is not after the query."""
    return np.tri(*sizes, dtype=np.bool_)


def round_to(number: float, dtype: DType) -> float:
    """A number rounded to a type: f16 has none below -65504 but -inf."""
    with np.errstate(over="ignore"):
        return float(np.array(number).astype(dtype.numpy).astype(np.float64))


def unrepeat_heads(graph: DefUseGraph, matrix: Matrix) -> ir.Value | None:
    """The tensor whose heads a matrix (batch, heads, rows, columns) repeats; None without a repetition.

    key[:, :, None].expand(batch, groups, share, ..).reshape(batch, groups * share, ..)   ->   key
    """
    reshape = None if matrix.is_transposed else graph.producer(matrix.value, *RESHAPES)
    expand = None if reshape is None else graph.producer(reshape.operands[0].handle, "expand")
    if expand is None:
        return None
    value, wide, shape = expand.operands[0].handle, expand.results[0].shape, graph.shape(matrix.value)
    narrow = graph.shape(value)
    axes = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a != b]
    if len(narrow) != len(wide) or len(shape) != 4 or len(axes) != 1:
        return None
    batch, heads, rows, columns = shape
    share = wide[axes[0]]
    if heads is None or batch is None or heads % share:
        return None
    groups = heads // share
    origin = _reshaped_origin(graph, value, (batch, groups, rows, columns))
    return origin if math.prod(wide[: axes[0]]) == batch * groups else None


def _reshaped_origin(graph: DefUseGraph, value: ir.Value, shape: tuple[int | None, ...]) -> ir.Value | None:
    """The tensor of shape `shape` that a value is a chain of reshapes of; None without such a tensor."""
    while graph.shape(value) != shape:
        call = graph.producer(value, *RESHAPES)
        if call is None:
            return None
        value = call.operands[0].handle
    return value


def sum_over_shared_heads(
    graph: DefUseGraph, op: ir.Operation, transposed: bool, heads: int, share: int
) -> ir.Operation | None:
    """The sum of a gradient over the `share` heads that share a key; None where the gradient has other users.

    `heads` are the query heads of all batches. `transposed` says that the gradient is transposed.
    """
    while (call := _only_user(graph, op)) is not None:
        op = graph.ops.owners[call.results[0].handle]
        if call.record.name == "transpose":
            axes = list(range(len(call.perm)))
            if not transposed or list(call.perm) != [*axes[:-2], axes[-1], axes[-2]]:
                return None
            transposed = False
        elif transposed or call.record.name not in RESHAPES:
            return op if not transposed and _sums_groups(call, heads // share, share) else None
    return None


def _only_user(graph: DefUseGraph, op: ir.Operation) -> Call | None:
    users = graph.all_users(op.results[0])
    names = ("transpose", *RESHAPES, "reduce_sum", "reduce_sum_like")
    return graph.call(users[0], *names) if len(users) == 1 else None


def _sums_groups(call: Call, groups: int, share: int) -> bool:
    """Whether a sum is over the heads that share a key."""
    shape = call.operands[0].shape
    axes = [a % len(shape) for a in call.axis]
    return len(axes) == 1 and shape[axes[0]] == share and math.prod(shape[: axes[0]]) == groups
