"""What `recognise` reads of a program: products whatever the form of their operands, and scores of attention.

A `Matrix` is a value and whether its last two axes are exchanged, so that transposes need not be told from flags of
products.
"""

from __future__ import annotations

import functools
import math
import operator
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
from oneflow.lowering.triton.fusion.mask_analysis import LOWEST, Hidden, hides, rounded, seen
from oneflow.passes import constants
from oneflow.passes.canonicalize import LawBuilder
from oneflow.passes.walk import gather

PRODUCTS = frozenset({"matmul", "batch_matmul", "broadcast_matmul"})
#: By how much factors may differ that are the same number, rounded in different places.
ROUNDING = 1e-5
#: The most elements of a mask that is computed to see whether it is causal.
MOST_COMPUTED = 1 << 24


@dataclass(frozen=True)
class Matrix:
    """A value, or with `flipped` its transpose in the last two axes."""

    value: ir.Value
    flipped: bool

    def turned(self, turn: bool) -> Matrix:
        """The transpose, if `turn`."""
        return Matrix(self.value, self.flipped != turn)


@dataclass(frozen=True)
class Product:
    """left @ right * factor."""

    left: Matrix
    right: Matrix
    factor: float


@dataclass
class Scores:
    """What a softmax is taken of: query @ key^T * scale, added masks each times a factor, and what is hidden.

    `masks` are those of `hidden` that `causal` does not say. `inside` are the results of the operations in between.
    """

    query: Matrix
    key: Matrix
    scale: float
    added: list[tuple[ir.Value, float]]
    hidden: list[Hidden]
    masks: list[Hidden]
    causal: bool
    inside: set[ir.Value]
    rank: int

    def mask_fits(self, graph: Graph) -> bool:
        """Whether masks can be told to the operator: in the type of the query, or that of sums."""
        dtype = graph.desc(self.query.value).dtype
        return all(graph.desc(value).dtype in (dtype, dtype.accumulator) for value, _ in self.added)

    def build_mask(self, graph: Graph) -> Value | None:
        """All that is added to the scores as one tensor, or None."""
        ops, dtype = graph.ops, graph.desc(self.query.value).dtype
        if any(graph.desc(value).dtype != dtype for value, _ in self.added):
            dtype = dtype.accumulator
        masks = [(_converted(ops, ops.wrap(v), dtype), factor) for v, factor in self.added]
        parts = [mask if factor == 1.0 else mask * factor for mask, factor in masks]
        for hidden in self.masks:
            pair = [_filled(ops, dtype, value) for value in (-math.inf, 0.0)]
            parts.append(ops.where(ops.wrap(hidden.value), *(reversed(pair) if hidden.negated else pair)))
        if not parts:
            return None
        mask: Value = functools.reduce(operator.add, parts)
        if mask.rank < 3 or self.rank == 4:
            return mask
        return ops.call("reshape", mask, shape=[mask.shape[0], 1, *mask.shape[1:]])[0]


def _converted(ops: LawBuilder, value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else ops.call("cast", value, dtype=dtype)[0]


def _filled(ops: LawBuilder, dtype: DType, value: float) -> Value:
    return ops.call("constant", dtype=dtype, shape=[], is_floating_value=True, floating_value=value)[0]


@dataclass(frozen=True)
class Drop:
    """Weights are dropped: the result, the mask of those that are kept, what is added to the seed, attributes."""

    result: ir.Value
    mask: ir.Value
    offset: ir.Value | None
    flags: dict[str, Any]

    def fits(self, scores: Scores) -> bool:
        """Whether the operator draws the same: a part of a tensor is told by four axes."""
        return not self.flags["logical_shape"] or scores.rank == 4


class Graph:
    """The operations of a module by what they read and give."""

    def __init__(self, module: ir.Module, registry: Registry) -> None:
        self.registry, self.ops = registry, LawBuilder(registry)
        self._all: list[ir.Operation] = []
        dialect.walk(module.operation, self._all.append)
        self._places: dict[ir.Value, int] = {}
        self._known: dict[ir.Value, np.ndarray | None] = {}
        for number, op in enumerate(self._all):
            self.ops.owners.update((result, op) for result in op.results)
            self._places.update((result, number) for result in op.results)
        self._note_constants(module)

    def _note_constants(self, module: ir.Module) -> None:
        constants = gather(module.operation, lambda op: op.name in ("arith.constant", dialect.CAST))
        self.ops.owners.update((op.results[0], op) for op in constants)

    def operations(self, name: str) -> list[ir.Operation]:
        """The calls of an operator in program order."""
        return [op for op in self._all if op.name == dialect.PREFIX + name]

    def first(self, ops: list[ir.Operation]) -> ir.Operation:
        """The first of several operations."""
        return min(ops, key=lambda op: self._places[op.results[0]])

    def desc(self, value: ir.Value) -> TensorDesc:
        """The type of a value."""
        return dialect.desc_of(value)

    def all_users(self, value: ir.Value) -> list[ir.Operation]:
        """The operations that read a value."""
        return [use.owner.operation for use in value.uses]

    def users(self, value: ir.Value) -> list[ir.Operation]:
        """Those of them that are operators."""
        return [op for op in self.all_users(value) if dialect.is_oneflow(op)]

    def call(self, op: ir.Operation, *names: str) -> Call | None:
        """An operation as a call, where it is one of the operators named."""
        if not dialect.is_oneflow(op) or op.name[len(dialect.PREFIX) :] not in names:
            return None
        return self.ops.call_of(op)

    def made_by(self, value: ir.Value, *names: str) -> Call | None:
        """The call that gives a value, where it is one of the operators named."""
        op = self.ops.owners.get(value)
        return None if op is None else self.call(op, *names)

    def is_conversion(self, op: ir.Operation) -> bool:
        """Whether an operation only changes the type of floats."""
        call = self.call(op, "cast")
        return call is not None and call.in_.dtype.is_float and call.out.dtype.is_float

    def is_gradient_of(self, op: ir.Operation, weights: ir.Value) -> bool:
        """Whether an operation is the gradient of the softmax that gives `weights`."""
        return op.name == f"{dialect.PREFIX}softmax_grad" and op.operands[0] == weights

    def through_conversions(self, value: ir.Value) -> tuple[list[ir.Value], ir.Operation | None]:
        """The conversions that lead to a value, and the operation before them."""
        passed = []
        while (op := self.ops.owners.get(value)) is not None and self.is_conversion(op):
            passed.append(value)
            value = op.operands[0]
        return passed, op

    def matrix(self, value: ir.Value, flipped: bool) -> Matrix:
        """A value as a matrix, with transposes of its last two axes looked through."""
        while (call := self.made_by(value, "transpose")) is not None:
            axes = list(range(len(call.perm)))
            if list(call.perm) != [*axes[:-2], axes[-1], axes[-2]]:
                break
            value, flipped = call.operands[0].handle, not flipped
        return Matrix(value, flipped)

    def product(self, op: ir.Operation) -> Product | None:
        """A product of matrices, batches of which are not broadcast."""
        call = self.call(op, *PRODUCTS)
        if call is None or call._add_to_output is not None or call.a.shape[:-2] != call.b.shape[:-2]:
            return None
        sides = (self.matrix(call.a.handle, call.transpose_a), self.matrix(call.b.handle, call.transpose_b))
        return Product(*sides, call.alpha)

    def drop(self, op: ir.Operation, value: ir.Value) -> Drop | None:
        """An operation as one that drops elements of `value` at random."""
        call = self.call(op, "dropout")
        if call is not None and call.in_.handle == value and call._add_to_output is None:
            return Drop(op.results[0], op.results[1], None, _drawn(call))
        call = self.call(op, "dropout_grad")
        drawn = (
            None if call is None or call.dy.handle != value else self.made_by(call.mask.handle, "random_mask_like")
        )
        if call is None or drawn is None or not math.isclose(call.scale, kept_scale(drawn.rate), rel_tol=ROUNDING):
            return None
        offset = None if drawn.offset is None else drawn.offset.handle
        return Drop(op.results[0], call.mask.handle, offset, _drawn(drawn))

    def drops_by(self, op: ir.Operation, drop: Drop) -> bool:
        """Whether an operation drops what is given first as `drop` does."""
        call = self.call(op, "dropout_grad")
        wanted = kept_scale(drop.flags["rate"])
        return (
            call is not None and call.mask.handle == drop.mask and math.isclose(call.scale, wanted, rel_tol=ROUNDING)
        )

    def scores(self, value: ir.Value) -> Scores | None:
        """What a softmax of `value` is taken of; None where that is no product of matrices."""
        return _Reading(self, dialect.desc_of(value).shape).read(value)

    def slope_factor(self, op: ir.Operation, value: ir.Value, hidden: list[Hidden]) -> float | None:
        """By what an operation multiplies a gradient by scores that is 0 wherever these are `hidden`."""
        if self.is_conversion(op):
            return 1.0
        factor = self.factor(op, value)
        return 1.0 if factor is None and self._keeps_shown(op, value, hidden) else factor

    def _keeps_shown(self, op: ir.Operation, value: ir.Value, hidden: list[Hidden]) -> bool:
        """Whether all that an operation does is to write 0 where scores are hidden."""
        call = self.call(op, "where", "masked_fill", "tril")
        if call is None:
            return False
        found = hides(self.known, call, 0.0)
        return found is not None and found[1].number == 0 and found[0] == value and found[1] in hidden

    def factor(self, op: ir.Operation, value: ir.Value) -> float | None:
        """The number that an operation multiplies `value` by; None where it does something else."""
        call = self.call(op, "scalar_mul", "scalar_div")
        if call is not None:
            number = float(call.int_operand if call.has_int_operand else call.float_operand)
            return number if op.name.endswith("mul") else 1.0 / number if number else None
        call = self.call(op, "broadcast_mul", "broadcast_div")
        if call is None or call.results[0].shape != dialect.desc_of(value).shape:
            return None
        one, other = (v.handle for v in call.operands)
        divides = op.name.endswith("div")
        if one != value and (divides or other != value):
            return None
        return self._number(other if one == value else one, divides)

    def _number(self, value: ir.Value, divides: bool) -> float | None:
        """The one number that a tensor has, or one over it."""
        known = self.known(value)
        if known is None or known.size == 0 or not constants.is_splat(known):
            return None
        number = float(known.reshape(-1)[0])
        return number if not divides else 1.0 / number if number else None

    def known(self, value: ir.Value) -> np.ndarray | None:
        """The array that a value always is, or None; computed where it is of a usual size."""
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
        if (call.results[0].desc.element_count or MOST_COMPUTED + 1) > MOST_COMPUTED:
            return None
        if any(isinstance(v, tuple) for v in call.inputs.values()):
            return None
        arrays = {k: None if v is None else self.known(v.handle) for k, v in call.inputs.items()}
        if any(arrays[k] is None and v is not None for k, v in call.inputs.items()):
            return None
        return np.asarray(run_reference(Call(call.record, arrays, call.attrs))[0])


def _drawn(call: Call) -> dict[str, Any]:
    """The attributes by which a call draws."""
    return {name: call.attrs[name] for name in ("rate", "seed", "logical_shape", "logical_begin")}


@dataclass
class _Reading:
    """Goes back from a softmax's operand to the product, with the factor that is on what is read by then."""

    graph: Graph
    shape: Shape | None
    factor: float = 1.0
    added: list[tuple[ir.Value, float]] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)
    inside: set[ir.Value] = field(default_factory=set)

    def read(self, value: ir.Value) -> Scores | None:
        """The scores."""
        while (op := self.graph.ops.owners.get(value)) is not None and dialect.is_oneflow(op):
            if dialect.desc_of(value).shape != self.shape:
                return None
            self.inside.add(value)
            product = self.graph.product(op)
            if product is not None:
                return self._scores(product)
            before = self._before(op)
            if before is None:
                return None
            value = before
        return None

    def _scores(self, product: Product) -> Scores | None:
        scale = self.factor * product.factor
        if not math.isfinite(scale):
            return None
        added = [(v, f) for v, f in self.added if not self._is_causal(v, 0.0, LOWEST / min(f, 1.0))]
        masks = [h for h in self.hidden if not self._is_later(h)]
        if (masks or added) and not self._hides_all(added):
            return None
        causal = len(added) < len(self.added) or len(masks) < len(self.hidden)
        matrices = product.left, product.right.turned(True)
        return Scores(*matrices, scale, added, self.hidden, masks, causal, self.inside, len(self.shape))

    def _hides_all(self, added: list[tuple[ir.Value, float]]) -> bool:
        """Whether what is hidden is so in rows that show nothing too; `added` are masks that are not causal."""
        others = [v for v, f in self.added if (v, f) not in added]
        finite = any(h.number > -math.inf for h in self.hidden)
        return not finite and all(self._is_causal(v, 0.0, -math.inf) for v in others)

    def _is_later(self, hidden: Hidden) -> bool:
        if hidden.value is None:
            return True
        known = self._known(hidden.value)
        return known is not None and bool(((known.astype(np.bool_) != hidden.negated) != seen(known.shape)).all())

    def _is_causal(self, mask: ir.Value, shown: float, later: float) -> bool:
        """Whether a mask is known and one for every head: `shown` up to the diagonal, at most `later` after it."""
        known = self._known(mask)
        return known is not None and bool(np.where(seen(known.shape), known == shown, known <= later).all())

    def _known(self, mask: ir.Value) -> np.ndarray | None:
        """A mask as it always is, where it is the same for every head."""
        known, sizes = self.graph.known(mask), self.shape[-2:]
        is_one = known is not None and known.shape[-2:] == sizes and known.size == math.prod(sizes)
        return known.reshape(sizes) if is_one else None

    def _before(self, op: ir.Operation) -> ir.Value | None:
        """The operand of which an operation makes more scores, and notes what it does to it."""
        if self.graph.is_conversion(op):
            return op.operands[0]
        call = self.graph.call(op, "where", "masked_fill", "tril")
        if call is not None:
            return self._hide(call)
        call = self.graph.call(op, "broadcast_add")
        if call is not None:
            return self._add(call)
        for value in op.operands:
            factor = self.graph.factor(op, value)
            if factor is not None:
                self.factor *= factor
                return value
        return None

    def _hide(self, call: Call) -> ir.Value | None:
        found = None if self.factor <= 0 else hides(self.graph.known, call, LOWEST / min(self.factor, 1.0))
        if found is not None:
            self.hidden.append(replace(found[1], number=rounded(found[1].number, call.results[0].dtype)))
        return None if found is None else found[0]

    def _add(self, call: Call) -> ir.Value | None:
        """The operand that comes from a product; the other one is a mask."""
        one, other = (v.handle for v in call.operands)
        for scores, mask in ((one, other), (other, one)):
            if self.factor > 0 and _Reading(self.graph, self.shape).read(scores) is not None:
                self.added.append((mask, self.factor))
                return scores
        return None
