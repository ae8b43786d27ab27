"""Losses per element and per row; means and sums of them are reductions.

Imports `elementwise`, `record`, `compute`, `shapes`, `sbp`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.elementwise import elementwise, scalar_gradient
from oneflow.dialect.ops.rows import expect_type, linear_in, linear_in_first, total
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, SbpSignature, broadcast_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

LABELS = (dtypes.int32, dtypes.int64)
#: The smallest logarithm that `binary_cross_entropy` computes with, so that its loss stays finite.
LEAST_LOG = -100.0


def _alike(op: Call) -> TensorDesc:
    """The type of all operands, which is the same."""
    first, *rest = op.inputs
    expect_dtype(op, first, op[first], dtypes.FLOATS)
    known = TensorDesc(op[first].shape, op[first].dtype)
    for name in rest:
        expect_type(op, name, known)
        known = known if op[name] is None else known.meet(op[name])
    return known


def _weighted(loss: Any, weight: Any) -> Any:
    return loss if weight is None else loss * weight


def _in_double(function: Any) -> Any:
    """A reference computed in f64, None kept, and converted to the type of the first operand."""

    @functools.wraps(function)
    def run(x: Any, *rest: Any, **attrs: Any) -> Any:
        wide = (None if a is None else a.astype(np.float64) for a in (x, *rest))
        return function(*wide, **attrs).astype(x.dtype)

    return run


def _binary(x: Expr, target: Expr, weight: Expr | None = None) -> Expr:
    hit, miss = (s.maximum(s.log(p), LEAST_LOG) for p in (x, 1.0 - x))
    return _weighted(-(target * hit + (1.0 - target) * miss), weight)


@_in_double
def _binary_reference(x: Any, target: Any, weight: Any) -> Any:
    hit, miss = np.maximum(np.log(x), LEAST_LOG), np.maximum(np.log1p(-x), LEAST_LOG)
    return _weighted(-(target * hit + (1 - target) * miss), weight)


def _weighted_sbp(op: Call) -> list[SbpSignature]:
    """Splits of every dimension, and partial sums of the weight."""
    shapes = [d.shape for d in op.operands]
    return [*broadcast_factors(shapes, op.out.rank).signatures(shapes), *linear_in(op, ("weight",))]


def _binary_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """By the input it stays finite at 0 and 1, where the slope of the logarithm does not."""
    by_input = {"input": lambda: ops.binary_cross_entropy_grad(op.input, op.target, op.weight, dy)}
    return {**scalar_gradient(ops, op, dy), **by_input}


elementwise(
    "binary_cross_entropy(input, target, weight?) -> out",
    "-(target * log(input) + (1 - target) * log(1 - input)) * weight, logarithms cut at -100.",
    scalar=_binary, reference=_binary_reference, types=_alike, grad=_binary_gradient, sbp=_weighted_sbp,
)  # fmt: skip


def _logits_types(op: Call) -> TensorDesc:
    if op.has_pos_weight != (op.pos_weight is not None):
        given = "none" if op.pos_weight is None else "one"
        raise op.error(f"expected pos_weight exactly with has_pos_weight = true, got {given}")
    return _alike(op)


def _logits(x: Expr, target: Expr, *weights: Expr, has_pos_weight: bool) -> Expr:
    """`weights` are weight and pos_weight, as far as they are given."""
    softplus = s.maximum(-x, 0) + s.log1p(s.exp(-abs(x)))
    slope = (weights[-1] - 1.0) * target + 1.0 if has_pos_weight else None
    weight = weights[0] if len(weights) > has_pos_weight else None
    return _weighted((1.0 - target) * x + _weighted(softplus, slope), weight)


@_in_double
def _logits_reference(x: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    slope = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    return _weighted((1 - target) * x + slope * np.logaddexp(0, -x), weight)


elementwise(
    "binary_cross_entropy_with_logits(input, target, weight?, pos_weight?, has_pos_weight: bool = False) -> out",
    "`binary_cross_entropy` of sigmoid(input), the loss of positive examples times pos_weight, without overflow.",
    scalar=_logits, reference=_logits_reference, types=_logits_types, sbp=_weighted_sbp,
)  # fmt: skip


def _smooth_l1(x: Expr, target: Expr, *, beta: float) -> Expr:
    apart = abs(x - target)
    if beta <= 0:
        return apart
    return s.where(apart < beta, apart * apart * (0.5 / beta), apart - 0.5 * beta)


@_in_double
def _smooth_l1_reference(x: Any, target: Any, *, beta: Any) -> Any:
    apart = np.abs(x - target)
    return np.where(apart < beta, 0.5 * apart**2 / (beta or 1), apart - 0.5 * beta)


elementwise(
    "smooth_l1_loss(input, target, beta: float = 0.0) -> out",
    "|input - target| - beta / 2, or its square / (2 * beta) where it is smaller than beta.",
    scalar=_smooth_l1, reference=_smooth_l1_reference, types=_alike,
)  # fmt: skip


def _kl_div(x: Expr, target: Expr, *, log_target: bool) -> Expr:
    if log_target:
        return s.exp(target) * (target - x)
    positive = target > 0
    return s.where(positive, target * (s.log(s.where(positive, target, 1.0)) - x), 0.0)


@_in_double
def _kl_div_reference(x: Any, target: Any, *, log_target: Any) -> Any:
    if log_target:
        return np.exp(target) * (target - x)
    return np.where(target > 0, special.xlogy(target, target) - target * x, 0)


elementwise(
    "kl_div_loss(input, target, log_target: bool = False) -> out",
    "target * (log(target) - input), 0 where target is not positive; with `log_target`, target is a logarithm.",
    scalar=_kl_div, reference=_kl_div_reference, types=_alike,
)  # fmt: skip


def _rows(op: Call, rows: str, values: str) -> TensorDesc:
    """Checks class scores with the classes last, and a class for each row; gives the type of one value per row."""
    x, labels = op[rows], op[values]
    expect_dtype(op, rows, x, dtypes.FLOATS)
    expect_rank(op, rows, x, 1, -1)
    expect_dtype(op, values, labels, LABELS)
    expect_type(op, values, TensorDesc(x.shape[:-1], labels.dtype))
    return TensorDesc(TensorDesc(x.shape[:-1], labels.dtype).meet(labels).shape, x.dtype)


def _row_factors(*ranks: int) -> list[str]:
    """Factors of tensors of rank r (rows) or r + 1 (classes last), for r as the smallest of `ranks`."""
    least = min(ranks)
    return [" ".join([f"d{i}" for i in range(least)] + ["_"] * (rank - least)) for rank in ranks]


def _over_classes(ops: Builder, value: Value, x: Value) -> Value:
    """A value per row, repeated over the classes."""
    return ops.call("broadcast_like", value, x, broadcast_axes=[x.rank - 1])[0]


def _sum_classes(ops: Builder, value: Value) -> Value:
    return ops.call("reduce_sum", value, axis=[value.rank - 1])[0]


@operator("sparse_softmax_cross_entropy(prediction, label, depth: int64 = 0) -> prob, out")
class SparseSoftmaxCrossEntropy:
    """-log of the probability of class `label`, and all probabilities, softmax(prediction), along the last axis.

    `depth` is the number of classes (0: not said). A label outside is an error of the run.
    """

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        out = _rows(op, "prediction", "label")
        classes = expect_dim(op, "depth", op.depth or None, op.prediction.shape[-1])
        return TensorDesc((*op.prediction.shape[:-1], classes), op.prediction.dtype), out

    def sbp(op: Call) -> Factors:
        rows, row = _row_factors(op.prediction.rank, op.label.rank)
        return Factors(f"{rows}, {row} -> {rows}, {row}")

    def grad(ops: Builder, op: Call, dprob: Value | None, dout: Value | None) -> dict[str, Any]:
        def prediction() -> Value | None:
            terms = [] if dprob is None else [ops.softmax_grad(op.prob, dprob)]
            if dout is not None:
                terms.append(ops.sparse_softmax_cross_entropy_grad(op.label, dout, op.prob, depth=op.depth))
            return total(ops, op.prediction, terms)

        return {"prediction": prediction}

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, shape = op.prediction, op.prediction.shape
        high = c.reduce_(shape[:-1], shape[-1:], -np.inf, s.maximum, lambda *i: x[i])
        sums = c.sum_(shape[:-1], shape[-1:], lambda *i: s.exp(x[i] - high[i[:-1]]))

        def loss(*i: Expr) -> Expr:
            label = s.checked(s.cast(op.label[i], dtypes.index), shape[-1], "sparse_softmax_cross_entropy: label")
            return s.log(sums[i]) - (x[(*i, label)] - high[i])

        prob = c.element_wise(shape, lambda *i: s.exp(x[i] - high[i[:-1]]) / sums[i[:-1]], x.dtype)
        return prob, c.element_wise(shape[:-1], loss, x.dtype)

    def reference(x: Any, label: Any) -> Any:
        logs = special.log_softmax(x.astype(np.float64), axis=-1) if x.size else x.astype(np.float64)
        out = -np.take_along_axis(logs, label[..., None].astype(np.int64), axis=-1)[..., 0]
        return np.exp(logs).astype(x.dtype), out.astype(x.dtype)


@operator("sparse_softmax_cross_entropy_grad(label, dy, prob, depth: int64 = 0) -> prediction_diff")
class SparseSoftmaxCrossEntropyGrad:
    """(prob - 1 at class `label`) * dy: the gradient of `sparse_softmax_cross_entropy`."""

    def types(op: Call) -> TensorDesc:
        expect_type(op, "dy", _rows(op, "prob", "label"))
        classes = expect_dim(op, "depth", op.depth or None, op.prob.shape[-1])
        return TensorDesc((*op.prob.shape[:-1], classes), op.prob.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        rows, row = _row_factors(op.prob.rank, op.label.rank)
        return [*Factors(f"{row}, {row}, {rows} -> {rows}").signatures(), *linear_in(op, ("dy",))]

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        def dy() -> Value:
            ones = ops.ones_like(op.dy)
            return _sum_classes(ops, ddx * ops.sparse_softmax_cross_entropy_grad(op.label, ones, op.prob))

        return {"dy": dy, "prob": lambda: ddx * _over_classes(ops, op.dy, op.prob)}

    def compute(op: Call) -> Stage:
        def element(*i: Expr) -> Expr:
            hit = s.cast(op.label[i[:-1]], dtypes.index).eq(i[-1])
            return s.where(hit, op.prob[i] - 1.0, op.prob[i]) * op.dy[i[:-1]]

        return c.element_wise(op.prob.shape, element, op.prob.dtype)

    def reference(label: Any, dy: Any, prob: Any) -> Any:
        hit = label[..., None] == np.arange(prob.shape[-1])
        return ((prob.astype(np.float64) - hit) * dy[..., None]).astype(prob.dtype)


def _class_of(op: Call, at: Sequence[Expr], classes: Any) -> tuple[Expr, Expr]:
    """The class of a row, 0 where it is ignored, and whether it counts."""
    label = s.cast(op.target[tuple(at)], dtypes.int64)
    counts = label.ne(op.ignore_index)
    safe = s.cast(s.where(counts, label, 0), dtypes.index)
    return s.checked(safe, classes, f"{op.record.name}: target"), counts


def _expect_weight(op: Call) -> None:
    expect_type(op, "weight", TensorDesc(op.input.shape[-1:], op.input.dtype))


@operator("nll(input, target, weight?, ignore_index: int64 = 0) -> output, out_weight")
class Nll:
    """-input at class `target` times the weight of the class, and that weight; 0 where target is `ignore_index`.

    Classes are the last axis. A target outside is an error of the run.
    """

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        row = _rows(op, "input", "target")
        _expect_weight(op)
        return row, row

    def sbp(op: Call) -> list[SbpSignature]:
        rows, row = _row_factors(op.input.rank, op.target.rank)
        found = Factors(f"{rows}, {row}{'' if op.weight is None else ', _'} -> {row}, {row}").signatures()
        return [*found, *linear_in(op, ("input",)), *linear_in(op, ("weight",), (0, 1))]

    def grad(ops: Builder, op: Call, dout: Value | None, dweight: Value | None) -> dict[str, Any]:
        options = {"ignore_index": op.ignore_index}

        def weight() -> Value | None:
            terms = [] if dout is None else [-(op.input * _over_classes(ops, dout, op.input))]
            terms += [] if dweight is None else [_over_classes(ops, dweight, op.input)]
            whole = total(ops, op.input, terms)
            if whole is None:
                return None
            hits = -ops.nll_grad(ops.ones_like(op.output), op.input, op.target, **options)
            rows = range(op.target.rank)
            return ops.reduce_sum(whole * hits, axis=rows) if rows else whole * hits

        if dout is None:
            return {"weight": weight}
        return {"input": lambda: ops.nll_grad(dout, op.input, op.target, op.weight, **options), "weight": weight}

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, rows = op.input, op.input.shape[:-1]

        def weight(*i: Expr) -> Expr:
            label, counts = _class_of(op, i, x.shape[-1])
            one = s.const(1, x.dtype.accumulator)
            return s.where(counts, one if op.weight is None else op.weight[label], 0)

        def output(*i: Expr) -> Expr:
            label, counts = _class_of(op, i, x.shape[-1])
            return s.where(counts, -_weighted(x[(*i, label)], op.weight and op.weight[label]), 0)

        return c.element_wise(rows, output, x.dtype), c.element_wise(rows, weight, x.dtype)

    def reference(x: Any, target: Any, weight: Any, *, ignore_index: Any) -> Any:
        counts = target != ignore_index
        label = np.where(counts, target, 0).astype(np.int64)
        weights = np.where(counts, 1.0 if weight is None else weight.astype(np.float64)[label], 0.0)
        picked = np.take_along_axis(x.astype(np.float64), label[..., None], axis=-1)[..., 0]
        return np.where(counts, -picked * weights, 0).astype(x.dtype), weights.astype(x.dtype)


@operator("nll_grad(out_grad, input, target, weight?, ignore_index: int64 = 0) -> in_grad")
class NllGrad:
    """-out_grad times the weight of the class at class `target`, else 0: the gradient of `nll`."""

    shapes_of = ("input",)
    withheld = "input may lie in any way along the rows, since only the number of classes is read"

    def types(op: Call) -> TensorDesc:
        expect_type(op, "out_grad", _rows(op, "input", "target"))
        _expect_weight(op)
        return TensorDesc(op.input.shape, op.input.dtype)

    def sbp(op: Call) -> list[SbpSignature]:
        rows, row = _row_factors(op.input.rank, op.target.rank)
        found = Factors(f"{row}, {rows}, {row}{'' if op.weight is None else ', _'} -> {rows}").signatures()
        return [*linear_in_first(found, len(op.operands), 1), *linear_in(op, ("weight",))]

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        def again(out_grad: Value, weight: Value | None) -> Value:
            return ddx * ops.nll_grad(out_grad, op.input, op.target, weight, ignore_index=op.ignore_index)

        def weight() -> Value:
            product, rows = again(op.out_grad, None), range(op.target.rank)
            return ops.call("reduce_sum", product, axis=rows)[0] if rows else product

        return {"out_grad": lambda: _sum_classes(ops, again(ops.ones_like(op.out_grad), op.weight)), "weight": weight}

    def compute(op: Call) -> Stage:
        def element(*i: Expr) -> Expr:
            label = s.cast(op.target[i[:-1]], dtypes.int64)
            hit = s.cast(label, dtypes.index).eq(i[-1]) & label.ne(op.ignore_index)
            return s.where(hit, -_weighted(op.out_grad[i[:-1]], op.weight and op.weight[i[-1]]), 0)

        return c.element_wise(op.input.shape, element, op.input.dtype)

    def reference(out_grad: Any, x: Any, target: Any, weight: Any, *, ignore_index: Any) -> Any:
        hit = (target[..., None] == np.arange(x.shape[-1])) & (target != ignore_index)[..., None]
        slope = -out_grad[..., None].astype(np.float64) * (1 if weight is None else weight.astype(np.float64))
        return np.where(hit, slope, 0).astype(x.dtype)
