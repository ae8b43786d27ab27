"""Cross entropies of probabilities by class, the classes last, and of logits, with OneFlow's operators for
gradients.

Operators that need all classes of a row have decompositions that may be split along the classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.elementwise import elementwise, in_double
from oneflow.dialect.ops.class_loss import NONE
from oneflow.dialect.ops.elementwise_grad import linear_in_each
from oneflow.dialect.ops.indexing import INDEX
from oneflow.dialect.ops.row_normalization import broadcast_rows, expect_type, letters, row_share, row_sum
from oneflow.dialect.ops.softmax import narrow, numpy_log_softmax, widen
from oneflow.dialect.record import Call, define, no_sbp, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

#: The least probability in logarithms, OneFlow's value.
MIN_PROBABILITY = 1e-20


def _row(x: Any) -> TensorDesc:
    """The type of a value for each row."""
    return TensorDesc(x.shape[:-1], x.dtype)


def _expect_classes(op: Call, name: str) -> Any:
    """Checks values by class, the classes last; returns their type."""
    expect_dtype(op, name, op[name], dtypes.FLOATS)
    expect_rank(op, name, op[name], 1, -1)
    return op[name]


def _soft_types(op: Call) -> tuple[TensorDesc, TensorDesc]:
    prediction = _expect_classes(op, "prediction")
    expect_type(op, "label", prediction)
    prediction = prediction.meet(op.label)
    return prediction, _row(prediction)


@operator("softmax_cross_entropy(prediction, label) -> prob, out")
class SoftmaxCrossEntropy:
    """softmax(prediction) along the last axis, and -sum(label * log(softmax)): labels are probabilities of classes.

    A class of label 0 adds nothing, also where its probability is 0.
    """

    types = _soft_types
    grad = decomposition_gradient
    unoffered = "partial sums of label, which give NaN where the probability is 0 and label is 0 as a whole only"

    def sbp(op: Call) -> Factors:
        rank = op.prediction.rank
        rows, row = letters(rank, rank - 1), letters(rank - 1, rank - 1)
        return Factors(f"{rows}, {rows} -> {rows}, {row}")

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        x = widen(ops, op.prediction)
        logs = ops.log_softmax(x)
        loss = -row_sum(ops, ops.broadcast_mul_no_nan(widen(ops, op.label), logs), x.rank - 1)
        return narrow(ops, ops.exp(logs), op.prediction.dtype), narrow(ops, loss, op.prediction.dtype)

    def reference(x: Any, label: Any) -> Any:
        logs = numpy_log_softmax(x)
        out = -np.where(label == 0, 0, label * logs).sum(axis=-1)
        return np.exp(logs).astype(x.dtype), out.astype(x.dtype)


@operator("softmax_cross_entropy_grad(dy, label, prob) -> prediction_diff")
class SoftmaxCrossEntropyGrad:
    """dy * (prob - label): the gradient of `softmax_cross_entropy` where the labels of a row add up to 1."""

    def types(op: Call) -> TensorDesc:
        prob = _expect_classes(op, "prob")
        expect_type(op, "label", prob)
        prob = prob.meet(op.label)
        expect_type(op, "dy", _row(prob))
        return TensorDesc((*(_row(prob).meet(op.dy).shape or ()), prob.shape[-1]), prob.dtype)

    def sbp(op: Call) -> Factors:
        rank = op.prob.rank
        rows, row = letters(rank, rank), letters(rank - 1, rank - 1)
        return Factors(f"{row}, {rows}, {rows} -> {rows}").linear_in(op, "dy").linear_in(op, "label", "prob")

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        def by_prob() -> Value:
            return ddx * broadcast_rows(ops, op.dy, op.prob)

        axis = op.prob.rank - 1
        return {
            "dy": lambda: row_sum(ops, ddx * (op.prob - op.label), axis),
            "label": lambda: -by_prob(),
            "prob": by_prob,
        }

    def compute(op: Call) -> Stage:
        def element(*i: Expr) -> Expr:
            element: Expr = op.dy[i[:-1]] * (op.prob[i] - op.label[i])
            return element

        return c.element_wise(op.prob.shape, element, op.prob.dtype)

    def reference(dy: Any, label: Any, prob: Any) -> Any:
        return (dy[..., None].astype(np.float64) * (prob.astype(np.float64) - label)).astype(prob.dtype)


def _sparse_types(op: Call) -> TensorDesc:
    """Checks probabilities by class and a class for each row; returns the type of the loss."""
    prediction = _expect_classes(op, "prediction")
    expect_dtype(op, "label", op.label, INDEX)
    expect_dim(op, "depth", op.depth or None, prediction.shape[-1])
    wanted = TensorDesc(prediction.shape[:-1], op.label.dtype)
    expect_type(op, "label", wanted)
    return TensorDesc(wanted.meet(op.label).shape, prediction.dtype)


def _sparse_grad_types(op: Call) -> TensorDesc:
    row = _sparse_types(op)
    expect_type(op, "dy", row)
    classes = op.depth or op.prediction.shape[-1]
    return TensorDesc((*(row.meet(op.dy).shape or ()), classes), row.dtype)


def _sparse_sbp(op: Call) -> Factors:
    rank = op.prediction.rank
    rows, row = letters(rank, rank - 1), letters(rank - 1, rank - 1)
    return Factors(f"{rows}, {row} -> {row}")


def _sparse_grad_sbp(op: Call) -> Factors:
    rank = op.prediction.rank
    rows, row = letters(rank, rank - 1), letters(rank - 1, rank - 1)
    return Factors(f"{rows}, {row}, {row} -> {rows}").linear_in(op, "dy")


def _at_label(ops: Builder, op: Call) -> Value:
    """The probability of each row's class, at least `MIN_PROBABILITY`, widened."""
    picked, _ = ops.nll(op.prediction, op.label, ignore_index=NONE)
    return ops.call("clip_by_scalar_min", widen(ops, -picked), floating_min=MIN_PROBABILITY)[0]


def _sparse_sharded(ops: Builder, op: Call) -> Value:
    return narrow(ops, -ops.log(_at_label(ops, op)), op.prediction.dtype)


def _sparse_grad_sharded(ops: Builder, op: Call) -> Value:
    grad = widen(ops, op.dy) / _at_label(ops, op)
    value: Value = ops.nll_grad(narrow(ops, grad, op.dy.dtype), op.prediction, op.label, ignore_index=NONE)
    return value


def _sparse_compute(op: Call) -> Stage:
    x, shape = op.prediction, op.prediction.shape

    def element(*i: Expr) -> Expr:
        label = s.checked(s.cast(op.label[i], dtypes.index), shape[-1], f"oneflow.{op.record.name}: label")
        return -s.log(s.maximum(x[(*i, label)], MIN_PROBABILITY))

    return c.element_wise(shape[:-1], element, x.dtype)


def _sparse_grad_compute(op: Call) -> Stage:
    x = op.prediction

    def element(*i: Expr) -> Expr:
        hit = s.cast(op.label[i[:-1]], dtypes.index).eq(i[-1])
        return s.where(hit, -op.dy[i[:-1]] / s.maximum(x[i], MIN_PROBABILITY), 0)

    return c.element_wise(x.shape, element, x.dtype)


def _sparse_reference(x: Any, label: Any) -> Any:
    picked = np.take_along_axis(x.astype(np.float64), label[..., None].astype(np.int64), axis=-1)[..., 0]
    return -np.log(np.maximum(picked, MIN_PROBABILITY)).astype(x.dtype)


def _sparse_grad_reference(x: Any, label: Any, dy: Any) -> Any:
    hit = label[..., None] == np.arange(x.shape[-1])
    grad = -dy[..., None].astype(np.float64) / np.maximum(x.astype(np.float64), MIN_PROBABILITY)
    return np.where(hit, grad, 0).astype(x.dtype)


def _by_probability(suffix: str, doc: str) -> None:
    """Registers `sparse_cross_entropy` with a suffix, and its gradient."""
    name = f"sparse_cross_entropy{suffix}"

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"prediction": lambda: ops.call(f"{name}_grad", op.prediction, op.label, dout, depth=op.depth)[0]}

    define(
        f"{name}(prediction, label, depth: int64 = 0) -> out",
        doc=f"-log of the probability of class `label` along the last axis, taken as 1e-20 at least{doc}.",
        types=_sparse_types, sbp=_sparse_sbp, grad=grad, sharded_decomposition=_sparse_sharded,
        compute=_sparse_compute, reference=_sparse_reference, depth=2,
    )  # fmt: skip
    define(
        f"{name}_grad(prediction, label, dy, depth: int64 = 0) -> prediction_diff",
        doc=f"-dy / prediction at class `label`, with a prediction of 1e-20 at least, and 0 elsewhere{doc}.",
        types=_sparse_grad_types, sbp=_sparse_grad_sbp, grad=decomposition_gradient,
        sharded_decomposition=_sparse_grad_sharded, compute=_sparse_grad_compute,
        reference=_sparse_grad_reference, depth=2,
    )  # fmt: skip


_by_probability("", "")
_by_probability("_ms", " (OneFlow's name for classes that are split)")


def _sigmoid_types(op: Call) -> TensorDesc:
    """The type of `prediction`; labels have the same type, or are integers."""
    prediction = op.prediction
    expect_dtype(op, "prediction", prediction, dtypes.FLOATS)
    expect_dtype(op, "label", op.label, (prediction.dtype, *dtypes.INTEGERS))
    expect_type(op, "label", TensorDesc(prediction.shape, op.label.dtype))
    desc: TensorDesc = prediction.meet(TensorDesc(op.label.shape, prediction.dtype))
    return desc


def _sigmoid_grad_types(op: Call) -> TensorDesc:
    prediction = _sigmoid_types(op)
    expect_type(op, "loss_diff", prediction)
    return prediction.meet(op.loss_diff)


def _sigmoid_loss(x: Expr, label: Expr) -> Expr:
    y = s.cast(label, x.dtype)
    return s.where(x < 0, -(y * x), (1.0 - y) * x) + s.log1p(s.decay(x))


elementwise(
    "sigmoid_cross_entropy(prediction, label) -> loss",
    "-(label * log(p) + (1 - label) * log(1 - p)) for p = sigmoid(prediction); labels may be integers.",
    scalar=_sigmoid_loss, types=_sigmoid_types,
    reference=in_double(
        lambda x, label: np.where(x < 0, -(label * x), (1 - label) * x) + np.log1p(np.exp(-np.abs(x)))
    ),
)  # fmt: skip
elementwise(
    "sigmoid_cross_entropy_grad(prediction, loss_diff, label) -> prediction_diff",
    "loss_diff * (sigmoid(prediction) - label): the gradient of `sigmoid_cross_entropy`.",
    scalar=lambda x, dy, label: dy * (s.sigmoid(x) - s.cast(label, x.dtype)), types=_sigmoid_grad_types,
    sbp=linear_in_each("loss_diff"), reference=in_double(lambda x, dy, label: dy * (scipy.special.expit(x) - label)),
)  # fmt: skip

#: Why the operator's signatures have no splits.
OF_ALL = "the mean over a shard is not the mean over the whole; the decomposition uses sums"


def _over_count(ops: Builder, value: Value, x: Value) -> Value:
    """`value` over the number of elements of `x`."""
    if None in x.shape:
        return value / row_sum(ops, ops.call("ones_like", x)[0], 0)
    count = math.prod(d or 0 for d in x.shape)
    return value * (1.0 / count if count else np.inf)


def _mean(ops: Builder, x: Value) -> Value:
    """The mean of all elements."""
    return _over_count(ops, row_sum(ops, x, 0), x)


def _expect_logits(op: Call) -> TensorDesc:
    """Checks logits and targets, of one type; returns the type."""
    expect_dtype(op, "input", op.input, dtypes.FLOATS)
    expect_type(op, "target", op.input)
    both: TensorDesc = op.input.meet(op.target)
    return both


@operator("binary_cross_entropy_with_logits_reduce_mean(input, target) -> out")
class BinaryCrossEntropyWithLogitsReduceMean:
    """The mean of `binary_cross_entropy_with_logits` over all elements; NaN of none."""

    sbp = no_sbp(OF_ALL)
    grad = decomposition_gradient

    def types(op: Call) -> TensorDesc:
        return TensorDesc((), _expect_logits(op).dtype)

    def decompose(ops: Builder, op: Call) -> Value:
        x, target = widen(ops, op.input), widen(ops, op.target)
        return narrow(ops, _mean(ops, ops.binary_cross_entropy_with_logits(x, target)), op.input.dtype)

    def reference(x: Any, target: Any) -> Any:
        wide = x.astype(np.float64)
        loss = np.logaddexp(0, -wide) + (1 - target) * wide
        return (loss.sum() / np.float64(x.size)).astype(x.dtype)


@operator("binary_cross_entropy_with_logits_reduce_mean_grad(input, target, dy) -> dx")
class BinaryCrossEntropyWithLogitsReduceMeanGrad:
    """dy / n * (sigmoid(input) - target) for n elements: the gradient of the mean."""

    grad = decomposition_gradient

    def types(op: Call) -> TensorDesc:
        both = _expect_logits(op)
        expect_type(op, "dy", TensorDesc((), both.dtype))
        return both

    def sbp(op: Call) -> Factors:
        unsplit = " ".join("_" * op.input.rank)
        return Factors(f"{unsplit}, {unsplit}, -> {unsplit}").linear_in(op, "dy")

    def decompose(ops: Builder, op: Call) -> Value:
        x = widen(ops, op.input)
        grad = ops.sigmoid(x) - widen(ops, op.target)
        return narrow(ops, grad * row_share(ops, widen(ops, op.dy), x), op.input.dtype)

    def reference(x: Any, target: Any, dy: Any) -> Any:
        grad = scipy.special.expit(x.astype(np.float64)) - target
        return (grad * dy.astype(np.float64) / np.float64(x.size)).astype(x.dtype)


@operator("fused_bce_reduce_mean_fw_bw(input, target, out_dtype: data_type, constant_value: double = 0.0) -> out, dx")
class FusedBceReduceMeanFwBw:
    """`binary_cross_entropy_with_logits_reduce_mean` in `out_dtype`, and its gradient for the cotangent
    `constant_value`.
    """

    sbp = no_sbp(OF_ALL)
    grad = decomposition_gradient

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_dtype(op, "out_dtype", TensorDesc((), op.out_dtype), dtypes.FLOATS)
        return TensorDesc((), op.out_dtype), _expect_logits(op)

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        x, target = widen(ops, op.input), widen(ops, op.target)
        out = _mean(ops, ops.binary_cross_entropy_with_logits(x, target))
        grad = _over_count(ops, (ops.sigmoid(x) - target) * op.constant_value, x)
        return narrow(ops, out, op.out_dtype), narrow(ops, grad, op.input.dtype)

    def reference(x: Any, target: Any, *, out_dtype: Any, constant_value: Any) -> Any:
        wide = x.astype(np.float64)
        out = (np.logaddexp(0, -wide) + (1 - target) * wide).sum() / np.float64(x.size)
        grad = (scipy.special.expit(wide) - target) * constant_value / np.float64(x.size)
        return np.asarray(out).astype(out_dtype.numpy), grad.astype(x.dtype)
