"""Losses of scores by class, the classes last, and of labels; with their gradients.

Classes may be split: a shard has its begin as an attribute, and its losses are partial sums. Operators that need all
classes of a row are then decomposed (`sharded_decomposition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.indexing import (
    AXIS_SHARD,
    INDEX,
    axis_shard,
    checked_index,
    expect_shard,
    in_shard,
    numpy_rows,
    numpy_with_zeros,
)
from oneflow.dialect.ops.row_normalization import expect_type, sum_of_terms
from oneflow.dialect.ops.softmax import narrow, numpy_log_softmax, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

#: A label that is no class.
NONE = -(1 << 62)


def _rows(op: Call, rows: str, values: str) -> TensorDesc:
    """Checks class scores with the classes last, and a class for each row; returns the type of one value per row."""
    x, labels = op[rows], op[values]
    expect_dtype(op, rows, x, dtypes.FLOATS)
    expect_rank(op, rows, x, 1, -1)
    expect_dtype(op, values, labels, INDEX)
    expect_type(op, values, TensorDesc(x.shape[:-1], labels.dtype))
    return TensorDesc(TensorDesc(x.shape[:-1], labels.dtype).meet(labels).shape, x.dtype)


def _row_factors(*ranks: int, classes: str = "_") -> list[str]:
    """Factors of tensors of rank r (rows) or r + 1 (classes last), for r as the smallest of `ranks`."""
    least = min(ranks)
    return [" ".join([f"d{i}" for i in range(least)] + [classes] * (rank - least)) for rank in ranks]


def _expect_depth(op: Call, size: Any) -> Any:
    """Checks `depth` and `AXIS_SHARD` for so many classes; returns the number of classes in the shard."""
    expect_shard(op, size)
    if op.logical_size:
        expect_dim(op, "depth", op.depth or None, op.logical_size)
        return size
    return expect_dim(op, "depth", op.depth or None, size)


def _over_classes(ops: Builder, value: Value, x: Value) -> Value:
    """A value per row, broadcast over the classes."""
    return ops.call("broadcast_like", value, x, broadcast_axes=[x.rank - 1])[0]


def _sum_classes(ops: Builder, value: Value) -> Value:
    return ops.call("reduce_sum", value, axis=[value.rank - 1])[0]


@operator("sparse_softmax_cross_entropy(prediction, label, depth: int64 = 0) -> prob, out")
class SparseSoftmaxCrossEntropy:
    """-log of the probability of class `label`, and all probabilities, softmax(prediction), along the last axis.

    `depth` is the number of classes (0: not said). A label outside is a run-time error.
    """

    def sharded_decomposition(ops: Builder, op: Call) -> Sequence[Value]:
        parts: Sequence[Value] = ops.sparse_softmax_cross_entropy_ms(op.prediction, op.label, depth=op.depth)
        return parts

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
            return sum_of_terms(ops, op.prediction, terms)

        return {"prediction": prediction}

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, shape = op.prediction, op.prediction.shape
        high = c.reduce_(shape[:-1], shape[-1:], -np.inf, s.maximum, lambda *i: x[i])
        sums = c.sum_(shape[:-1], shape[-1:], lambda *i: s.exp(x[i] - high[i[:-1]]))

        def loss(*i: Expr) -> Expr:
            label = s.checked(
                s.cast(op.label[i], dtypes.index), shape[-1], "oneflow.sparse_softmax_cross_entropy: label"
            )
            element: Expr = s.log(sums[i]) - (x[(*i, label)] - high[i])
            return element

        prob = c.element_wise(shape, lambda *i: s.exp(x[i] - high[i[:-1]]) / sums[i[:-1]], x.dtype)
        return prob, c.element_wise(shape[:-1], loss, x.dtype)

    def reference(x: Any, label: Any) -> Any:
        logs = numpy_log_softmax(x)
        out = -np.take_along_axis(logs, label[..., None].astype(np.int64), axis=-1)[..., 0]
        return np.exp(logs).astype(x.dtype), out.astype(x.dtype)


@operator("sparse_softmax_cross_entropy_ms(prediction, label, depth: int64 = 0) -> prob, out")
class SparseSoftmaxCrossEntropyMs:
    """`sparse_softmax_cross_entropy` by operators that may be split along the classes (OneFlow's model split)."""

    types = SparseSoftmaxCrossEntropy.types
    sbp = SparseSoftmaxCrossEntropy.sbp
    grad = SparseSoftmaxCrossEntropy.grad
    reference = SparseSoftmaxCrossEntropy.reference

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        logs = ops.log_softmax(widen(ops, op.prediction))
        loss, _ = ops.nll(logs, op.label, ignore_index=NONE)
        return narrow(ops, ops.exp(logs), op.prediction.dtype), narrow(ops, loss, op.prediction.dtype)


@operator(f"sparse_softmax_cross_entropy_grad(label, dy, prob, depth: int64 = 0, {AXIS_SHARD}) -> prediction_diff")
class SparseSoftmaxCrossEntropyGrad:
    """(prob - 1 at class `label`) * dy: the gradient of `sparse_softmax_cross_entropy`."""

    def types(op: Call) -> TensorDesc:
        expect_type(op, "dy", _rows(op, "prob", "label"))
        return TensorDesc((*op.prob.shape[:-1], _expect_depth(op, op.prob.shape[-1])), op.prob.dtype)

    def sbp(op: Call) -> Factors:
        rows, row = _row_factors(op.prob.rank, op.label.rank, classes="c")
        return Factors(f"{row}, {row}, {rows} -> {rows}").linear_in(op, "dy")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 2, -1)

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        def dy() -> Value:
            ones = ops.ones_like(op.dy)
            grad = ops.sparse_softmax_cross_entropy_grad(op.label, ones, op.prob, **op.attrs)
            return _sum_classes(ops, ddx * grad)

        return {"dy": dy, "prob": lambda: ddx * _over_classes(ops, op.dy, op.prob)}

    def compute(op: Call) -> Stage:
        def element(*i: Expr) -> Expr:
            hit = s.cast(op.label[i[:-1]], dtypes.index).eq(i[-1] + op.logical_begin)
            element: Expr = s.where(hit, op.prob[i] - 1.0, op.prob[i]) * op.dy[i[:-1]]
            return element

        return c.element_wise(op.prob.shape, element, op.prob.dtype)

    def reference(label: Any, dy: Any, prob: Any, *, logical_begin: Any) -> Any:
        hit = label[..., None] == np.arange(prob.shape[-1]) + logical_begin
        return ((prob.astype(np.float64) - hit) * dy[..., None]).astype(prob.dtype)


@operator(f"sparse_softmax_cross_entropy_ms_grad(label, dy, prob, depth: int64 = 0, {AXIS_SHARD}) -> prediction_diff")
class SparseSoftmaxCrossEntropyMsGrad:
    """The gradient of `sparse_softmax_cross_entropy_ms`, as of `sparse_softmax_cross_entropy`."""

    types = SparseSoftmaxCrossEntropyGrad.types
    sbp = SparseSoftmaxCrossEntropyGrad.sbp
    local = SparseSoftmaxCrossEntropyGrad.local
    grad = SparseSoftmaxCrossEntropyGrad.grad
    compute = SparseSoftmaxCrossEntropyGrad.compute
    reference = SparseSoftmaxCrossEntropyGrad.reference


def _class_of(op: Call, at: Sequence[Expr]) -> tuple[Expr, Expr]:
    """The class of a row, 0 for an ignored row, and whether the row counts."""
    label = s.cast(op.target[tuple(at)], dtypes.int64)
    counts = label.ne(op.ignore_index)
    return s.where(counts, label, 0), counts


def _weight_of(op: Call, label: Expr) -> Expr | None:
    """The weight of a class; there are weights of all classes, also where the scores are a shard."""
    if op.weight is None:
        return None
    weight: Expr = op.weight[checked_index(op, "target", label, op.logical_size or op.input.shape[-1])]
    return weight


def _expect_all_classes(op: Call) -> None:
    if op.logical_size:
        raise op.error(
            f"expected all {op.logical_size} classes for the gradient with respect to weight, got a shard;"
            " gather the scores first"
        )


def _weighted(loss: Any, weight: Any) -> Any:
    return loss if weight is None else loss * weight


def _expect_weight(op: Call) -> None:
    expect_shard(op, op.input.shape[-1])
    classes = (op.logical_size,) if op.logical_size else op.input.shape[-1:]
    expect_type(op, "weight", TensorDesc(classes, op.input.dtype))


@operator(f"nll(input, target, weight?, ignore_index: int64 = 0, {AXIS_SHARD}) -> output, out_weight")
class Nll:
    """-input at class `target` times the weight of the class, and that weight; 0 where target is `ignore_index`.

    Classes are the last axis. A target outside is a run-time error.
    """

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        row = _rows(op, "input", "target")
        _expect_weight(op)
        return row, row

    def sbp(op: Call) -> Factors:
        rows, row = _row_factors(op.input.rank, op.target.rank, classes="c")
        split = Factors(f"{rows}, {row}{'' if op.weight is None else ', _'} -> {row}, {row}").summing(0)
        return split.linear_in(op, "input").linear_in(op, "weight", results=(0, 1))

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 0, -1)

    def grad(ops: Builder, op: Call, dout: Value | None, dweight: Value | None) -> dict[str, Any]:
        options = op.attrs

        def weight() -> Value | None:
            terms = [] if dout is None else [-(op.input * _over_classes(ops, dout, op.input))]
            terms += [] if dweight is None else [_over_classes(ops, dweight, op.input)]
            loss_sum = sum_of_terms(ops, op.input, terms)
            if loss_sum is None:
                return None
            _expect_all_classes(op)
            hits = -ops.nll_grad(ops.ones_like(op.output), op.input, op.target, **options)
            rows = range(op.target.rank)
            value: Value | None = ops.reduce_sum(loss_sum * hits, axis=rows) if rows else loss_sum * hits
            return value

        if dout is None:
            return {"weight": weight}
        return {"input": lambda: ops.nll_grad(dout, op.input, op.target, op.weight, **options), "weight": weight}

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, rows = op.input, op.input.shape[:-1]

        def weight(*i: Expr) -> Expr:
            label, counts = _class_of(op, i)
            loss_weight = _weight_of(op, label)
            return s.where(counts, s.const(1, x.dtype.accumulator) if loss_weight is None else loss_weight, 0)

        def output(*i: Expr) -> Expr:
            label, counts = _class_of(op, i)

            def read(at: Expr) -> Expr:
                element: Expr = -_weighted(x[(*i, at)], _weight_of(op, label))
                return element

            return s.where(counts, in_shard(op, "target", label, x.shape[-1], read, x.dtype.accumulator), 0)

        return c.element_wise(rows, output, x.dtype), c.element_wise(rows, weight, x.dtype)

    def reference(x: Any, target: Any, weight: Any, *, ignore_index: Any, **shard: Any) -> Any:
        counts = target != ignore_index
        label = np.where(counts, target, 0).astype(np.int64)
        weights = np.where(counts, 1.0 if weight is None else weight.astype(np.float64)[label], 0.0)
        rows = numpy_rows("nll: target", label, x.shape[-1], **shard)[..., None]
        picked = np.take_along_axis(numpy_with_zeros(x.astype(np.float64), x.ndim - 1), rows, axis=-1)[..., 0]
        return np.where(counts, -picked * weights, 0).astype(x.dtype), weights.astype(x.dtype)


@operator(f"nll_grad(out_grad, input, target, weight?, ignore_index: int64 = 0, {AXIS_SHARD}) -> in_grad")
class NllGrad:
    """-out_grad times the weight of the class at class `target`, else 0: the gradient of `nll`."""

    shapes_of = ("input",)
    unoffered = "input may have any layout along the rows, since only the number of classes is read"

    def types(op: Call) -> TensorDesc:
        expect_type(op, "out_grad", _rows(op, "input", "target"))
        _expect_weight(op)
        return TensorDesc(op.input.shape, op.input.dtype)

    def sbp(op: Call) -> Factors:
        rows, row = _row_factors(op.input.rank, op.target.rank, classes="c")
        factors = Factors(f"{row}, {rows}, {row}{'' if op.weight is None else ', _'} -> {rows}")
        return factors.linear_in(op, "out_grad").linear_in(op, "weight")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return axis_shard(op, shard, 1, -1)

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        def again(out_grad: Value, weight: Value | None) -> Value:
            value: Value = ddx * ops.nll_grad(out_grad, op.input, op.target, weight, **op.attrs)
            return value

        def weight() -> Value:
            _expect_all_classes(op)
            product, rows = again(op.out_grad, None), range(op.target.rank)
            return ops.call("reduce_sum", product, axis=rows)[0] if rows else product

        return {"out_grad": lambda: _sum_classes(ops, again(ops.ones_like(op.out_grad), op.weight)), "weight": weight}

    def compute(op: Call) -> Stage:
        def element(*i: Expr) -> Expr:
            label = s.cast(op.target[i[:-1]], dtypes.int64)
            at = i[-1] + op.logical_begin
            hit = s.cast(label, dtypes.index).eq(at) & label.ne(op.ignore_index)
            return s.where(hit, -_weighted(op.out_grad[i[:-1]], op.weight and op.weight[at]), 0)

        return c.element_wise(op.input.shape, element, op.input.dtype)

    def reference(out_grad: Any, x: Any, target: Any, weight: Any, *, ignore_index: Any, logical_begin: Any) -> Any:
        classes = np.arange(x.shape[-1]) + logical_begin
        hit = (target[..., None] == classes) & (target != ignore_index)[..., None]
        weights = 1 if weight is None else weight.astype(np.float64)[classes]
        grad = -out_grad[..., None].astype(np.float64) * weights
        return np.where(hit, grad, 0).astype(x.dtype)
