"""`oneflow-recognise-attention`: attention that is written out becomes the operator, forward and backward.

    softmax(query @ key^T * scale + mask) @ value   ->   attention(query, key, value, mask)

Only whole patterns are replaced, and only where no part of them is used by something else and kernels fit the call;
all else stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.record import Call, OperatorError, Registry, attribute_values, infer
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.triton.fusion.attention_pattern import ROUNDING, Drop, Graph, Matrix, Product, Scores
from oneflow.lowering.triton.fusion.grouped_query_attention import repeated, summed
from oneflow.lowering.triton.templates.outline_templates import TEMPLATES
from oneflow.passes.base import Pass
from oneflow.passes.canonicalize import Canonicalize
from oneflow.passes.registry import register_pass

#: The rank of the operator's operands.
RANK = 4


@register_pass
@dataclass(frozen=True)
class RecogniseAttention(Pass):
    """Makes attention that is written out one operator, which keeps no weights in memory.

        %s = "oneflow.batch_matmul"(%q, %k) {transpose_b = true}
        %h = "oneflow.masked_fill"(%s, %later) {float_operand = -inf}
        %w = "oneflow.softmax"(%h)
        %y = "oneflow.batch_matmul"(%w, %v)
    becomes
        %y, %l = "oneflow.attention"(%q, %k, %v) {causal = true}

    and the products with `softmax_grad(%w, ..)` become `attention_grad`. Scores may be scaled; what is hidden by -inf
    is `causal` where that is known, else a mask; what is hidden after the diagonal alone may be so by any number of
    at most -1e4. Weights may be dropped, by the same numbers; keys and values that are repeated for heads that share
    them are taken as they are before. Nothing else may use the weights, and the call must fit kernels.
    """

    name: ClassVar[str] = "oneflow-recognise-attention"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Replaces every pattern that is found, then removes what it leaves unused."""
        check_legal(module)
        graph = Graph(module, registry)
        replaced = [_replace(graph, op) for op in graph.operations("softmax")]
        if any(replaced):
            Canonicalize().run(module, registry)


@dataclass
class Pattern:
    """Attention as it was found: its operands, the last product, and what the backward part consists of.

    `inside` are results of the operations that go away. `gradients` are products by what they give: `dquery`,
    `dkey`, `dvalue`, each with whether that is transposed; `dy` is the gradient by the result. `shared` are keys and
    values before they were repeated for the heads that share them; their gradients are the sums over those then.
    """

    scores: Scores
    value: Matrix
    out: ir.Operation
    inside: set[ir.Value]
    drop: Drop | None
    gradients: list[tuple[str, ir.Operation, bool]] = field(default_factory=list)
    dy: Matrix | None = None
    shared: list[ir.Value] = field(default_factory=list)


def _replace(graph: Graph, softmax: ir.Operation) -> bool:
    """Replaces the pattern around a softmax; whether there was one."""
    pattern = _match(graph, softmax)
    if pattern is not None:
        _Replacement(graph, pattern).build()
    return pattern is not None


def _match(graph: Graph, softmax: ir.Operation) -> Pattern | None:
    """The pattern around a softmax; None where there is none that may be replaced."""
    scores = graph.scores(softmax.operands[0])
    if scores is None:
        return None
    inside = {*scores.inside, softmax.results[0]}
    weights, drop = _weights(graph, softmax.results[0], inside)
    ends = [(op, p) for value in weights for op in graph.users(value) if (p := graph.product(op)) is not None]
    outs = [(op, p) for op, p in ends if not p.left.flipped and p.left.value in weights]
    if len(outs) != 1 or outs[0][1].factor != 1.0:
        return None
    out, product = outs[0]
    pattern = Pattern(scores, product.right, out, inside | {out.results[0]}, drop)
    back = _Backward(graph, pattern, weights).match([e for e in ends if e[0] != out], softmax.results[0])
    whole = back and all(_leads_inside(graph, pattern, v) for v in pattern.inside - _ends(pattern))
    later = [op for _, op, _ in pattern.gradients]
    if not whole or graph.first([out, *later]) != out or not _fits(graph, pattern):
        return None
    _share(graph, pattern)
    return pattern


def _share(graph: Graph, pattern: Pattern) -> None:
    """Has a pattern take keys and values that are not repeated, where both are and all gradients are summed."""
    found = [repeated(graph, m) for m in (pattern.scores.key, pattern.value)]
    shapes = [graph.desc(v).shape for v in found if v is not None]
    if len(shapes) != 2 or shapes[0][:2] != shapes[1][:2]:
        return
    (batch, heads), groups = graph.desc(pattern.value.value).shape[:2], shapes[0][1]
    gradients = []
    for name, op, transposed in pattern.gradients:
        end = op if name == "dquery" else summed(graph, op, transposed, batch * heads, heads // groups)
        if end is None:
            return
        gradients.append((name, end, transposed and end == op))
    pattern.gradients, pattern.shared = gradients, [v for v in found if v is not None]


def _weights(graph: Graph, softmax: ir.Value, inside: set[ir.Value]) -> tuple[list[ir.Value], Drop | None]:
    """What products take as weights, and how they are dropped before; nothing where they are dropped twice."""
    whole = _spread(graph, softmax, inside)
    drops = [d for value in whole for op in graph.users(value) if (d := graph.drop(op, value)) is not None]
    if not drops:
        return whole, None
    inside.update([drops[0].result, drops[0].mask])
    return _spread(graph, drops[0].result, inside) if len(drops) == 1 else [], drops[0]


def _spread(graph: Graph, value: ir.Value, inside: set[ir.Value]) -> list[ir.Value]:
    """A value and what it becomes by conversions, which go away too."""
    found = [value]
    for each in found:
        casts = [op.results[0] for op in graph.users(each) if graph.is_conversion(op)]
        found += casts
        inside.update(casts)
    return found


def _ends(pattern: Pattern) -> set[ir.Value]:
    """The values that others may use."""
    return {pattern.out.results[0], *(op.results[0] for _, op, _ in pattern.gradients)}


def _leads_inside(graph: Graph, pattern: Pattern, value: ir.Value) -> bool:
    return all(any(r in pattern.inside for r in op.results) for op in graph.all_users(value))


class _Backward:
    """Finds the gradients of a pattern: every use of its weights that is not the last product."""

    def __init__(self, graph: Graph, pattern: Pattern, weights: list[ir.Value]) -> None:
        self.graph, self.pattern, self.weights = graph, pattern, weights

    def match(self, products: list[tuple[ir.Operation, Product]], softmax: ir.Value) -> bool:
        """Whether all products of the weights and every gradient of the softmax belong to the pattern."""
        slopes = [op for op in self.graph.all_users(softmax) if self.graph.is_gradient_of(op, softmax)]
        return all(self._by_value(*p) for p in products) and all(map(self._by_scores, slopes))

    def _by_value(self, op: ir.Operation, product: Product) -> bool:
        """weights^T @ dy, or dy^T @ weights."""
        for one, other, transposed in ((product.left, product.right, False), (product.right, product.left, True)):
            if one.value in self.weights and one.flipped != transposed and product.factor == 1.0:
                return self._same_dy(other.turned(transposed)) and self._note("dvalue", op, transposed)
        return False

    def _same_dy(self, dy: Matrix) -> bool:
        self.pattern.dy = self.pattern.dy or dy
        return self.pattern.dy == dy

    def _note(self, name: str, op: ir.Operation, transposed: bool) -> bool:
        self.pattern.gradients.append((name, op, transposed))
        self.pattern.inside.add(op.results[0])
        return True

    def _by_scores(self, slope: ir.Operation) -> bool:
        """softmax_grad(weights, dy @ value^T), and what its result comes to."""
        passed, source = self._before_drop(slope.operands[1])
        product = self.graph.product(source) if source is not None else None
        if source is None or product is None or product.factor != 1.0:
            return False
        if product.right != self.pattern.value.turned(True) or not self._same_dy(product.left):
            return False
        self.pattern.inside.update([*passed, source.results[0], slope.results[0]])
        return self._follow(slope.results[0], 1.0)

    def _before_drop(self, value: ir.Value) -> tuple[list[ir.Value], ir.Operation | None]:
        """The operation before conversions, and before the drop where weights are dropped; what is passed."""
        passed, source = self.graph.through_conversions(value)
        drop = self.pattern.drop
        if drop is None or source is None:
            return passed, source
        if not self.graph.drops_by(source, drop):
            return passed, None
        more, before = self.graph.through_conversions(source.operands[0])
        return [*passed, source.results[0], *more], before

    def _follow(self, value: ir.Value, factor: float) -> bool:
        """Whether every use of the gradient by the scores, times `factor`, ends in a gradient of query or key."""
        return all(self._step(op, value, factor) for op in self.graph.all_users(value))

    def _step(self, op: ir.Operation, value: ir.Value, factor: float) -> bool:
        product = self.graph.product(op)
        if product is not None:
            return self._by_operand(op, product, value, factor)
        times = self.graph.slope_factor(op, value, self.pattern.scores.hidden)
        if times is None:
            return False
        self.pattern.inside.add(op.results[0])
        return self._follow(op.results[0], factor * times)

    def _by_operand(self, op: ir.Operation, product: Product, value: ir.Value, factor: float) -> bool:
        """slope @ key, slope^T @ query, or the transposed of these."""
        scores = self.pattern.scores
        if not math.isclose(factor * product.factor, scores.scale, rel_tol=ROUNDING):
            return False
        for one, other, transposed in ((product.left, product.right, False), (product.right, product.left, True)):
            if one.value != value:
                continue
            name, wanted = ("dkey", scores.query) if one.flipped != transposed else ("dquery", scores.key)
            return other.turned(transposed) == wanted and self._note(name, op, transposed)
        return False


def _fits(graph: Graph, pattern: Pattern) -> bool:
    """Whether there are kernels for the operator, and for its gradient where that is wanted."""
    scores = pattern.scores
    matrices = (scores.query, scores.key, pattern.value)
    descs = [_heads(graph.desc(m.value), m.flipped) for m in matrices]
    drop = pattern.drop
    if any(d is None for d in descs) or not scores.mask_fits(graph) or (drop is not None and not drop.fits(scores)):
        return False
    record = graph.registry["attention"]
    operands = dict(zip(("query", "key", "value"), descs, strict=True), mask=None, offset=None)
    call = Call(record, operands, attribute_values(record, {"scale": scores.scale, "causal": scores.causal}))
    names = ("attention", "attention_grad") if pattern.gradients else ("attention",)
    try:
        infer(call.record, call)
    except OperatorError:
        return False
    return all(TEMPLATES[name].fits(call) for name in names)


def _heads(desc: Any, flipped: bool) -> Any:
    """A matrix, or several, as (batch, heads, rows, columns); None where there are more or fewer."""
    if desc.shape is None or not 2 <= len(desc.shape) <= RANK:
        return None
    shape = (*desc.shape[:-2], *reversed(desc.shape[-2:])) if flipped else desc.shape
    return type(desc)(_padded(shape), desc.dtype)


def _padded(shape: Any) -> tuple[int, ...]:
    """A shape with axes of size 1 before its last two, so that there are four."""
    return (*shape[:-2], *(1,) * (RANK - len(shape)), *shape[-2:])


class _Replacement:
    """Builds the operators of one pattern in place of its products."""

    def __init__(self, graph: Graph, pattern: Pattern) -> None:
        self.graph, self.pattern, self.ops = graph, pattern, graph.ops
        self.flags = {"scale": pattern.scores.scale, "causal": pattern.scores.causal}
        if pattern.drop is not None:
            self.flags |= pattern.drop.flags

    def build(self) -> None:
        """Replaces the last product and the gradients."""
        scores = self.pattern.scores
        self.ops.begin(self.pattern.out)
        self.operands = [self._matrix(m) for m in (scores.query, scores.key, self.pattern.value)]
        self.operands[1:] = [self.ops.wrap(v) for v in self.pattern.shared] or self.operands[1:]
        drop = self.pattern.drop
        self.operands.append(scores.build_mask(self.graph))
        self.operands.append(None if drop is None or drop.offset is None else self.ops.wrap(drop.offset))
        self.out, self.statistics = self.ops.attention(*self.operands, **self.flags)
        if self.pattern.gradients:
            self._build_gradients()
        self.ops.begin(self.pattern.out)
        self._replace(self.pattern.out, self.out)

    def _matrix(self, matrix: Matrix) -> Value:
        value = self.ops.wrap(matrix.value)
        value = self._turned(value) if matrix.flipped else value
        for _ in range(RANK - value.rank):
            value = self.ops.expand_dims(value, axis=value.rank - 2)
        return value

    def _turned(self, value: Value) -> Value:
        axes = list(range(value.rank))
        return self.ops.transpose(value, perm=[*axes[:-2], axes[-1], axes[-2]])

    def _build_gradients(self) -> None:
        assert self.pattern.dy is not None, "gradients have a cotangent"
        self.ops.begin(self.graph.first([op for _, op, _ in self.pattern.gradients]))
        dy = self._matrix(self.pattern.dy)
        wide = [self.ops.cast(x, dtype=x.dtype.accumulator) for x in (dy, self.out)]
        delta = self.ops.reduce_sum(wide[0] * wide[1], axis=[3], keepdims=False)
        given = (dy, *self.operands, self.statistics, delta)
        made = dict(zip(("dquery", "dkey", "dvalue"), self.ops.attention_grad(*given, **self.flags), strict=True))
        for name, op, transposed in self.pattern.gradients:
            self.ops.begin(op)
            self._replace(op, self._turned(made[name]) if transposed else made[name])

    def _replace(self, op: ir.Operation, value: Value) -> None:
        old = op.results[0]
        rank = len(dialect.desc_of(old).shape)
        shaped = self.ops.squeeze(value, axes=list(range(rank - 2, RANK - 2))) if rank < RANK else value
        old.replace_all_uses_with(shaped.handle)
