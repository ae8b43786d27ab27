"""Losses of few of many classes: the classes of the labels and others drawn at random, and how well scores separate.

A layer with very many classes multiplies with the rows of the sampled classes alone (An et al., "Partial FC", 2021).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.indexing import expect_index, numpy_checked_indices
from oneflow.dialect.ops.random import RANDOM, expect_offset, numpy_words, seed_of
from oneflow.dialect.ops.softmax import narrow
from oneflow.dialect.record import Call, no_grad, no_sbp
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank

INT64 = dtypes.int64


def _check_sample(op: Call) -> None:
    expect_rank(op, "weight", op.weight, 1, -1)
    expect_rank(op, "label", op.label, 1)
    expect_index(op, "label")
    expect_offset(op)
    classes = op.weight.shape[0]
    if classes is None or op.label.shape[0] is None:
        raise op.error(f"expected a static first axis of weight and label, got {op.weight} and {op.label}")
    if not 0 < op.num_sample <= classes:
        raise op.error(f"expected num_sample from 1 to the {classes} classes, got {op.num_sample}")


def _write_sample(ops: Builder, op: Call) -> tuple[Value, ...]:
    classes, count, kind = op.weight.shape[0] or 0, op.label.shape[0], op.label.dtype
    label = narrow(ops, op.label, INT64)
    keys = ops.call("uniform_int", op.offset, dtype=INT64, shape=[classes], to=classes, seed=op.seed)[0]
    # The classes of labels have negative keys, in their own order: they are first.
    at = ops.reshape(label, shape=[count, 1])
    keys = ops.tensor_scatter_nd_update(keys, label - classes, at, any_order=True)
    order = ops.arg_sort(keys, direction="ASCENDING")
    sampled = ops.slice(order, start=[0], stop=[op.num_sample], step=[1])
    _, numbers, _ = ops.unique(label, out_idx=INT64)
    # The read fails where there are more classes of labels than are sampled.
    below = ops.arange(dtype=INT64, integer_delta=1, integer_limit=op.num_sample)
    mapped = ops.gather(below, numbers, axis=0)
    return narrow(ops, mapped, kind), narrow(ops, sampled, kind), ops.gather(op.weight, sampled, axis=0)


def _numpy_sample(weight: Any, label: Any, offset: Any, *, num_sample: Any, seed: Any) -> tuple[Any, ...]:
    classes = len(weight)
    numpy_checked_indices("distributed_partial_fc_sample: label", label, classes)
    distinct, mapped = np.unique(label, return_inverse=True)
    if distinct.size > num_sample:
        raise IndexError(
            f"oneflow.distributed_partial_fc_sample: expected at most {num_sample} classes of labels, got"
            f" {distinct.size}"
        )
    words = numpy_words((classes,), seed_of(seed, offset))[0]
    keys = (words * np.uint64(classes)) >> np.uint64(32)
    others = [k for k in np.argsort(keys, kind="stable") if k not in set(distinct)]
    sampled = np.asarray([*distinct, *others][:num_sample], label.dtype)
    return mapped.reshape(-1).astype(label.dtype), sampled, weight[sampled]


def _sample_factors(op: Call) -> Factors:
    row = " ".join(f"d{i}" for i in range(1, op.weight.rank))
    offset = "" if op.offset is None else ", " + " ".join("_" * op.offset.rank)
    return Factors(f"_ {row}, _{offset} -> _, _, _ {row}").linear_in(op, "weight", results=(2,))


composite(
    "distributed_partial_fc_sample(weight, label, offset?, num_sample: int64 = 0, seed: int64 = -1)"
    " -> mapped_label, sampled_label, sampled_weight",
    "`num_sample` classes: the classes of the labels in ascending order, then others drawn at random.\n\n"
    "The labels as positions among the sampled classes, the sampled classes, and their rows of `weight`.\n"
    "More classes of labels than `num_sample` are a run-time error.",
    write=_write_sample, reference=_numpy_sample, check=_check_sample, sbp=_sample_factors, traits=RANDOM,
)  # fmt: skip
composite(
    "distributed_partial_fc_sample_disable_boxing(sampled_weight_diff, sampled_label)"
    " -> boxing_disabled_sampled_weight_diff, boxing_disabled_sampled_label",
    "Both operands. OneFlow's layouts keep the rows of each device separate; here a device has all rows.",
    write=lambda ops, op: (op.sampled_weight_diff, op.sampled_label), reference=lambda diff, label: (diff, label),
    sbp=no_sbp("the rows belong to classes of one device"),
    unoffered="every pair of layouts, since rows would be paired with labels of other devices",
)  # fmt: skip


def _check_score(op: Call) -> None:
    expect_dtype(op, "label", op.label, (*dtypes.NUMERIC, dtypes.bool_))
    expect_dtype(op, "pred", op.pred, dtypes.FLOATS)
    counts = op.label.element_count, op.pred.element_count
    if None in counts:
        raise op.error(f"expected static shapes of label and pred, got {op.label} and {op.pred}")
    if counts[0] != counts[1]:
        raise op.error(f"expected as many elements in label as in pred, got {op.label} and {op.pred}")


def _write_score(ops: Builder, op: Call) -> Value:
    count = op.pred.desc.element_count or 0
    scores = ops.reshape(op.pred, shape=[count])
    is_positive = narrow(ops, op.label, dtypes.bool_)
    positive = ops.reshape(ops.cast(is_positive, dtype=dtypes.float64), shape=[count])
    ordered = ops.sort(scores, direction="ASCENDING")
    below, upto = (ops.cast(ops.searchsorted(ordered, scores, right=r), dtype=dtypes.float64) for r in (False, True))
    ranks = ops.reduce_sum((below + upto + 1.0) * positive, axis=[0], keepdims=True) * 0.5
    positives = ops.reduce_sum(positive, axis=[0], keepdims=True)
    pairs = positives * (-positives + float(count))
    return narrow(ops, (ranks - positives * (positives + 1.0) * 0.5) / pairs, dtypes.float32)


def _numpy_score(label: Any, pred: Any) -> Any:
    """The share of pairs of both classes that the scores order; pairs with equal scores count half."""
    positive = label.reshape(-1) != 0
    ones, zeros = pred.reshape(-1)[positive], pred.reshape(-1)[~positive]
    above, equal = (f(ones[:, None], zeros[None]).sum() for f in (np.greater, np.equal))
    return np.asarray([(above + equal / 2) / np.float64(ones.size * zeros.size)], np.float32)


composite(
    "roc_auc_score(label, pred) -> out",
    "The area under the curve of the true positives over the false positives (f32), of shape (1,).\n\n"
    "Labels other than 0 are positive; equal scores count half. NaN where all labels are of one class.",
    write=_write_score, reference=_numpy_score, check=_check_score,
    sbp=no_sbp("every score is compared with every other"), grad=no_grad("the result depends on the order alone"),
)  # fmt: skip
