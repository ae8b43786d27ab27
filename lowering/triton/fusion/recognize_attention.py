"""`oneflow-recognize-attention`: attention written out in operators becomes one operator, forward and backward.

    softmax(query @ key^T * scale + mask) @ value   ->   attention(query, key, value, mask)

Only whole patterns are replaced, only where nothing else uses an intermediate result, and the kernels fit the call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.record import Call, OperatorError, Registry, attribute_values, infer
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.triton.fusion.attention_pattern import (
    ROUNDING,
    DefUseGraph,
    Dropout,
    Matrix,
    Product,
    Scores,
    sum_over_shared_heads,
    unrepeat_heads,
)
from oneflow.lowering.triton.templates.outline_templates import templates
from oneflow.passes.base import Pass
from oneflow.passes.canonicalize import Canonicalize
from oneflow.passes.registry import register_pass

#: The rank of the operator's operands.
RANK = 4


@register_pass
@dataclass(frozen=True)
class RecognizeAttention(Pass):
    """Replaces attention that is written out by one operator, which keeps no weights in memory.

        %s = "oneflow.batch_matmul"(%q, %k) {transpose_b = true}
        %h = "oneflow.masked_fill"(%s, %later) {float_operand = -inf}
        %w = "oneflow.softmax"(%h)
        %y = "oneflow.batch_matmul"(%w, %v)
    becomes
        %y, %l = "oneflow.attention"(%q, %k, %v) {causal = true}

    and the products with `softmax_grad(%w, ..)` become `attention_grad`. Scores may be scaled. A mask that writes
    -inf becomes `causal` where the mask is known to be causal, else an additive mask; the fill value of a causal mask
    may be any number of at most -1e4. Weights may have dropout, which draws the same mask. Keys and values that are
    repeated for grouped-query attention are replaced by the tensors before the repetition. The weights must have no
    other users, and the kernels must support the call.
    """

    name: ClassVar[str] = "oneflow-recognize-attention"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Replaces every pattern, then removes unused operations."""
        check_legal(module)
        graph = DefUseGraph(module, registry)
        replaced = [_replace(graph, op) for op in graph.operations("softmax")]
        if any(replaced):
            Canonicalize().run(module, registry)


@dataclass
class Pattern:
    """A match of attention.

    Attributes:
        scores, value: the operands.
        out: the product of the result.
        internal: the results of the operations that the pattern replaces.
        dropout: of the weights.
        gradients: the products of the backward part: the gradient of each (`dquery`, `dkey`, `dvalue`), the
            operation, and whether the gradient is transposed.
        dy: the gradient of the result.
        shared: with grouped-query attention, keys and values before their repetition; their gradients are sums over
            the heads that share them then.
    """

    scores: Scores
    value: Matrix
    out: ir.Operation
    internal: set[ir.Value]
    dropout: Dropout | None
    gradients: list[tuple[str, ir.Operation, bool]] = field(default_factory=list)
    dy: Matrix | None = None
    shared: list[ir.Value] = field(default_factory=list)


def _replace(graph: DefUseGraph, softmax: ir.Operation) -> bool:
    """Replaces the pattern around a softmax; returns whether there was a pattern."""
    pattern = _match(graph, softmax)
    if pattern is not None:
        _Replacement(graph, pattern).build()
    return pattern is not None


def _match(graph: DefUseGraph, softmax: ir.Operation) -> Pattern | None:
    """The pattern around a softmax; None without a replaceable pattern."""
    scores = graph.scores(softmax.operands[0])
    if scores is None:
        return None
    internal = {*scores.internal, softmax.results[0]}
    weights, dropout = _dropped_weights(graph, softmax.results[0], internal)
    ends = [(op, p) for value in weights for op in graph.users(value) if (p := graph.product(op)) is not None]
    outs = [(op, p) for op, p in ends if not p.left.is_transposed and p.left.value in weights]
    if len(outs) != 1 or outs[0][1].factor != 1.0:
        return None
    out, product = outs[0]
    pattern = Pattern(scores, product.right, out, internal | {out.results[0]}, dropout)
    back = _BackwardMatcher(graph, pattern, weights).match([e for e in ends if e[0] != out], softmax.results[0])
    is_whole = back and all(_is_internal(graph, pattern, v) for v in pattern.internal - _outputs(pattern))
    backward = [op for _, op, _ in pattern.gradients]
    if not is_whole or graph.earliest([out, *backward]) != out or not _fits(graph, pattern):
        return None
    _use_grouped_query_attention(graph, pattern)
    return pattern


def _use_grouped_query_attention(graph: DefUseGraph, pattern: Pattern) -> None:
    """Replaces keys and values by those before their repetition, where both are repeated and all gradients are
    summed.
    """
    origins = [unrepeat_heads(graph, m) for m in (pattern.scores.key, pattern.value)]
    shapes = [graph.shape(v) for v in origins if v is not None]
    if len(shapes) != 2 or shapes[0][:2] != shapes[1][:2]:
        return
    (batch, heads), groups = graph.shape(pattern.value.value)[:2], shapes[0][1]
    if batch is None or heads is None or groups is None:
        return
    gradients = []
    for name, op, transposed in pattern.gradients:
        end = op if name == "dquery" else sum_over_shared_heads(graph, op, transposed, batch * heads, heads // groups)
        if end is None:
            return
        gradients.append((name, end, transposed and end == op))
    pattern.gradients, pattern.shared = gradients, [v for v in origins if v is not None]


def _dropped_weights(
    graph: DefUseGraph, softmax: ir.Value, internal: set[ir.Value]
) -> tuple[list[ir.Value], Dropout | None]:
    """The weights that products use, and their dropout; no weights where dropout is applied twice."""
    weights = _with_conversions(graph, softmax, internal)
    drops = [d for value in weights for op in graph.users(value) if (d := graph.match_dropout(op, value)) is not None]
    if not drops:
        return weights, None
    internal.update([drops[0].result, drops[0].mask])
    return _with_conversions(graph, drops[0].result, internal) if len(drops) == 1 else [], drops[0]


def _with_conversions(graph: DefUseGraph, value: ir.Value, internal: set[ir.Value]) -> list[ir.Value]:
    """A value and its casts, which become internal too."""
    values = [value]
    for each in values:
        casts = [op.results[0] for op in graph.users(each) if graph.is_conversion(op)]
        values += casts
        internal.update(casts)
    return values


def _outputs(pattern: Pattern) -> set[ir.Value]:
    """The results of the pattern."""
    return {pattern.out.results[0], *(op.results[0] for _, op, _ in pattern.gradients)}


def _is_internal(graph: DefUseGraph, pattern: Pattern, value: ir.Value) -> bool:
    """Whether only operations of the pattern use a value."""
    return all(any(r in pattern.internal for r in op.results) for op in graph.all_users(value))


class _BackwardMatcher:
    """Matches the gradients of a pattern: every use of its weights except the product of the result."""

    def __init__(self, graph: DefUseGraph, pattern: Pattern, weights: list[ir.Value]) -> None:
        self.graph, self.pattern, self.weights = graph, pattern, weights

    def match(self, products: list[tuple[ir.Operation, Product]], softmax: ir.Value) -> bool:
        """Whether all products of the weights and every gradient of the softmax belong to the pattern."""
        score_gradients = [op for op in self.graph.all_users(softmax) if self.graph.is_gradient_of(op, softmax)]
        return all(self._match_value_gradient(*p) for p in products) and all(
            map(self._match_score_gradient, score_gradients)
        )

    def _match_value_gradient(self, op: ir.Operation, product: Product) -> bool:
        """Matches weights^T @ dy, or dy^T @ weights."""
        for weights, dy, transposed in ((product.left, product.right, False), (product.right, product.left, True)):
            if weights.value in self.weights and weights.is_transposed != transposed and product.factor == 1.0:
                return self._same_dy(dy.transpose_if(transposed)) and self._record("dvalue", op, transposed)
        return False

    def _same_dy(self, dy: Matrix) -> bool:
        self.pattern.dy = self.pattern.dy or dy
        return self.pattern.dy == dy

    def _record(self, name: str, op: ir.Operation, transposed: bool) -> bool:
        self.pattern.gradients.append((name, op, transposed))
        self.pattern.internal.add(op.results[0])
        return True

    def _match_score_gradient(self, slope: ir.Operation) -> bool:
        """Matches softmax_grad(weights, dy @ value^T), and the gradients computed from its result."""
        skipped, source = self._before_dropout(slope.operands[1])
        product = self.graph.product(source) if source is not None else None
        if source is None or product is None or product.factor != 1.0:
            return False
        if product.right != self.pattern.value.transpose_if(True) or not self._same_dy(product.left):
            return False
        self.pattern.internal.update([*skipped, source.results[0], slope.results[0]])
        return self._follow(slope.results[0], 1.0)

    def _before_dropout(self, value: ir.Value) -> tuple[list[ir.Value], ir.Operation | None]:
        """The operation before casts and before dropout, and the results of the skipped operations."""
        skipped, source = self.graph.skip_conversions(value)
        dropout = self.pattern.dropout
        if dropout is None or source is None:
            return skipped, source
        if not self.graph.applies_dropout(source, dropout):
            return skipped, None
        more, before = self.graph.skip_conversions(source.operands[0])
        return [*skipped, source.results[0], *more], before

    def _follow(self, value: ir.Value, factor: float) -> bool:
        """Whether every use of the score gradient, scaled by `factor`, ends in a gradient of query or key."""
        return all(self._step(op, value, factor) for op in self.graph.all_users(value))

    def _step(self, op: ir.Operation, value: ir.Value, factor: float) -> bool:
        product = self.graph.product(op)
        if product is not None:
            return self._match_operand_gradient(op, product, value, factor)
        times = self.graph.score_gradient_factor(op, value, self.pattern.scores.score_masks)
        if times is None:
            return False
        self.pattern.internal.add(op.results[0])
        return self._follow(op.results[0], factor * times)

    def _match_operand_gradient(self, op: ir.Operation, product: Product, value: ir.Value, factor: float) -> bool:
        """Matches score_gradient @ key, score_gradient^T @ query, or their transposes."""
        scores = self.pattern.scores
        if not math.isclose(factor * product.factor, scores.scale, rel_tol=ROUNDING):
            return False
        for slope, factor_matrix, transposed in (
            (product.left, product.right, False),
            (product.right, product.left, True),
        ):
            if slope.value != value:
                continue
            name, expected = ("dkey", scores.query) if slope.is_transposed != transposed else ("dquery", scores.key)
            return factor_matrix.transpose_if(transposed) == expected and self._record(name, op, transposed)
        return False


def _fits(graph: DefUseGraph, pattern: Pattern) -> bool:
    """Whether there are kernels for the operator, and for its gradient where the pattern has one."""
    scores = pattern.scores
    matrices = (scores.query, scores.key, pattern.value)
    descs = [_with_heads(graph.desc(m.value), m.is_transposed) for m in matrices]
    if any(d is None for d in descs) or not scores.has_fitting_masks(graph):
        return False
    if pattern.dropout is not None and not pattern.dropout.fits(scores):
        return False
    record = graph.registry["attention"]
    operands = dict(zip(("query", "key", "value"), descs, strict=True), mask=None, offset=None)
    call = Call(record, operands, attribute_values(record, {"scale": scores.scale, "causal": scores.causal}))
    names = ("attention", "attention_grad") if pattern.gradients else ("attention",)
    try:
        infer(call.record, call)
    except OperatorError:
        return False
    return all(templates()[name].fits(call) for name in names)


def _with_heads(desc: Any, is_transposed: bool) -> Any:
    """The type of matrices as (batch, heads, rows, columns); None where the rank does not fit."""
    if desc.shape is None or not 2 <= len(desc.shape) <= RANK:
        return None
    shape = (*desc.shape[:-2], *reversed(desc.shape[-2:])) if is_transposed else desc.shape
    return type(desc)(_rank_four(shape), desc.dtype)


def _rank_four(shape: Any) -> tuple[int, ...]:
    """A shape with axes of size 1 before its last two, so that its rank is four."""
    return (*shape[:-2], *(1,) * (RANK - len(shape)), *shape[-2:])


class _Replacement:
    """Replaces one pattern by the operators."""

    def __init__(self, graph: DefUseGraph, pattern: Pattern) -> None:
        self.graph, self.pattern, self.ops = graph, pattern, graph.ops
        self.attributes = {"scale": pattern.scores.scale, "causal": pattern.scores.causal}
        if pattern.dropout is not None:
            self.attributes |= pattern.dropout.attributes

    def build(self) -> None:
        """Replaces the result and the gradients."""
        scores = self.pattern.scores
        self.ops.begin(self.pattern.out)
        self.operands: list[Value | None] = [self._matrix(m) for m in (scores.query, scores.key, self.pattern.value)]
        self.operands[1:] = [self.ops.wrap(v) for v in self.pattern.shared] or self.operands[1:]
        dropout = self.pattern.dropout
        self.operands.append(scores.build_mask(self.graph))
        self.operands.append(None if dropout is None or dropout.offset is None else self.ops.wrap(dropout.offset))
        self.out, self.statistics = self.ops.attention(*self.operands, **self.attributes)
        if self.pattern.gradients:
            self._build_gradients()
        self.ops.begin(self.pattern.out)
        self._replace(self.pattern.out, self.out)

    def _matrix(self, matrix: Matrix) -> Value:
        value = self.ops.wrap(matrix.value)
        value = self._transposed(value) if matrix.is_transposed else value
        for _ in range(RANK - value.rank):
            value = self.ops.expand_dims(value, axis=value.rank - 2)
        return value

    def _transposed(self, value: Value) -> Value:
        axes = list(range(value.rank))
        transposed: Value = self.ops.transpose(value, perm=[*axes[:-2], axes[-1], axes[-2]])
        return transposed

    def _build_gradients(self) -> None:
        assert self.pattern.dy is not None, "gradients have a cotangent"
        self.ops.begin(self.graph.earliest([op for _, op, _ in self.pattern.gradients]))
        dy = self._matrix(self.pattern.dy)
        wide = [self.ops.cast(x, dtype=x.dtype.accumulator) for x in (dy, self.out)]
        delta = self.ops.reduce_sum(wide[0] * wide[1], axis=[3], keepdims=False)
        operands = (dy, *self.operands, self.statistics, delta)
        gradients = dict(
            zip(("dquery", "dkey", "dvalue"), self.ops.attention_grad(*operands, **self.attributes), strict=True)
        )
        for name, op, transposed in self.pattern.gradients:
            self.ops.begin(op)
            self._replace(op, self._transposed(gradients[name]) if transposed else gradients[name])

    def _replace(self, op: ir.Operation, value: Value) -> None:
        old = op.results[0]
        rank = len(self.graph.shape(old))
        shaped = self.ops.squeeze(value, axes=list(range(rank - 2, RANK - 2))) if rank < RANK else value
        old.replace_all_uses_with(shaped.handle)
