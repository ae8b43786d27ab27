"""Sequences of labels: the connectionist temporal classification (Graves et al., 2006) and its greedy decoder.

The operators run on the host: each step in time depends on the step before. `log_probs` is (time, batch, labels);
`targets` is (batch, length), or all targets one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.numpy_kernel import numpy_kernel
from oneflow.dialect.ops.indexing import expect_index
from oneflow.dialect.ops.linalg import WIDE
from oneflow.dialect.record import Call, no_grad, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

ATTRS = "max_target_length: int64 = 0, blank: int32 = 0, zero_infinity: bool = False"


def _check(op: Call) -> None:
    expect_dtype(op, "log_probs", op.log_probs, WIDE)
    expect_rank(op, "log_probs", op.log_probs, 3)
    expect_index(op, "targets")
    expect_rank(op, "targets", op.targets, 1, 2)
    batch, labels = op.log_probs.shape[1:]
    for name in ("input_lengths", "target_lengths"):
        expect_index(op, name)
        expect_rank(op, name, op[name], 1)
        expect_dim(op, f"the size of {name}", op[name].shape[0], batch)
    if op.targets.rank == 2:
        expect_dim(op, "the rows of targets", op.targets.shape[0], batch)
        columns = op.targets.shape[1]
        if columns is not None and columns < op.max_target_length:
            raise op.error(f"expected targets of at least max_target_length {op.max_target_length}, got {op.targets}")
    if op.max_target_length < 0 or not 0 <= op.blank < (labels or op.blank + 1):
        raise op.error(
            f"expected max_target_length of at least 0 and blank in [0, {labels}), got {op.max_target_length} and"
            f" {op.blank}"
        )


def _log_sum(*terms: Any) -> Any:
    """log(sum(exp(term))), -inf of nothing but -inf."""
    top = np.maximum.reduce(terms)
    safe = np.where(np.isfinite(top), top, 0.0)
    return np.log(sum(np.exp(t - safe) for t in terms)) + safe


def _labels(targets: Any, lengths: Any, sequence: int, blank: int) -> Any:
    """The labels of one target with blanks around each label."""
    begin = 0 if targets.ndim == 2 else int(lengths[:sequence].sum())
    row = targets[sequence] if targets.ndim == 2 else targets[begin:]
    spaced = np.full(2 * int(lengths[sequence]) + 1, blank)
    spaced[1::2] = row[: int(lengths[sequence])]
    return spaced


def _shifted(row: Any, by: int) -> Any:
    return np.concatenate([np.full(min(by, len(row)), -np.inf), row[: max(len(row) - by, 0)]])


def _paths(log_probs: Any, labels: Any) -> Any:
    """Row t has the logarithms of the probabilities of all paths that are at each of `labels` at time t."""
    skips = np.zeros(len(labels), bool)
    skips[2:] = labels[2:] != labels[:-2]
    skips[::2] = False
    rows = np.full((len(log_probs), len(labels)), -np.inf)
    if len(rows):
        rows[0, :2] = log_probs[0, labels[:2]]
    for t in range(1, len(rows)):
        last = rows[t - 1]
        rows[t] = log_probs[t, labels] + _log_sum(
            last, _shifted(last, 1), np.where(skips, _shifted(last, 2), -np.inf)
        )
    return rows


def _check_lengths(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, most: int) -> None:
    """Checks the values of lengths and targets.

    Raises:
        IndexError: one is out of range.
    """
    steps, _, labels = log_probs.shape
    for name, values, bound in (
        ("input_lengths", input_lengths, steps + 1), ("target_lengths", target_lengths, most + 1),
        ("targets", targets, labels),
    ):  # fmt: skip
        if values.size and not 0 <= values.min() <= values.max() < bound:
            raise IndexError(f"oneflow.ctc_loss: {name}: expected numbers in [0, {bound}), got {values}")
    if targets.ndim == 1 and target_lengths.sum() > targets.size:
        raise IndexError(f"oneflow.ctc_loss: target_lengths: expected {targets.size} labels, got {target_lengths}")


def _loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, max_target_length: Any,
          blank: Any) -> Any:  # fmt: skip
    _check_lengths(log_probs, targets, input_lengths, target_lengths, max_target_length)
    steps, batch, _ = log_probs.shape
    alpha = np.full((batch, steps, 2 * max_target_length + 1), -np.inf)
    loss = np.zeros(batch)
    for b in range(batch):
        labels = _labels(targets, target_lengths, b, blank)
        rows = _paths(log_probs[: int(input_lengths[b]), b].astype(np.float64), labels)
        alpha[b, : len(rows), : len(labels)] = rows
        nothing = 0.0 if len(labels) == 1 else -np.inf
        loss[b] = -(_log_sum(*rows[-1, -2:]) if len(rows) else nothing)
    return loss.astype(log_probs.dtype), alpha.astype(log_probs.dtype)


@operator(f"ctc_loss(log_probs, targets, input_lengths, target_lengths, {ATTRS}) -> loss, alpha")
class CtcLoss:
    """Negative logarithms of the probabilities of each target, and of the paths up to each time and label.

    The gradient is the one for logarithms of probabilities, which softmax keeps adding up to 1, as in PyTorch.
    """

    def types(op: Call) -> tuple[TensorDesc, ...]:
        _check(op)
        steps, batch, _ = op.log_probs.shape
        shape = (batch, steps, 2 * op.max_target_length + 1)
        return TensorDesc((batch,), op.log_probs.dtype), TensorDesc(shape, op.log_probs.dtype)

    def sbp(op: Call) -> Any:
        return [] if op.targets.rank == 1 else Factors("_ n _, n _, n, n -> n, n _ _")

    def grad(ops: Builder, op: Call, dloss: Value | None, dalpha: Value | None) -> dict[str, Any]:
        if dloss is None:
            return {}
        operands = (op.log_probs, op.targets, op.input_lengths, op.target_lengths, op.loss, op.alpha)
        return {"log_probs": lambda: ops.ctc_loss_grad(dloss, *operands, **op.attrs)}

    reference = _loss
    kernel = numpy_kernel(_loss)


def _gradient(
    grad_out: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, loss: Any, alpha: Any,
    *, blank: Any, max_target_length: Any, zero_infinity: Any,
) -> Any:  # fmt: skip
    _check_lengths(log_probs, targets, input_lengths, target_lengths, max_target_length)
    grad = np.zeros(log_probs.shape)
    for b in range(log_probs.shape[1]):
        if zero_infinity and np.isinf(loss[b]):
            continue
        labels = _labels(targets, target_lengths, b, blank)
        rows = log_probs[: int(input_lengths[b]), b].astype(np.float64)
        beta = _paths(rows[::-1], labels[::-1])[::-1, ::-1]
        both = alpha[b, : len(rows), : len(labels)].astype(np.float64) + beta
        totals = np.full(rows.shape, -np.inf)
        for k, label in enumerate(labels):
            totals[:, label] = _log_sum(totals[:, label], both[:, k])
        by_class = np.exp(rows) - np.exp(totals + float(loss[b]) - rows)
        grad[: len(rows), b] = by_class * float(grad_out[b])
    return grad.astype(log_probs.dtype)


@operator(f"ctc_loss_grad(grad_out, log_probs, targets, input_lengths, target_lengths, loss, alpha, {ATTRS}) -> grad")
class CtcLossGrad:
    """The gradient of `ctc_loss` with respect to `log_probs`; 0 where the loss is infinite, with `zero_infinity`."""

    def types(op: Call) -> TensorDesc:
        _check(op)
        steps, batch, _ = op.log_probs.shape
        for name, shape in (
            ("grad_out", (batch,)), ("loss", (batch,)), ("alpha", (batch, steps, 2 * op.max_target_length + 1)),
        ):  # fmt: skip
            wanted = TensorDesc(shape, op.log_probs.dtype)
            if not op[name].compatible(wanted):
                raise op.error(f"expected {name} of type {wanted}, got {op[name]}")
        desc: TensorDesc = op.log_probs
        return desc

    def sbp(op: Call) -> Any:
        return (
            []
            if op.targets.rank == 1
            else Factors("n, _ n _, n _, n, n, n, n _ _ -> _ n _").linear_in(op, "grad_out")
        )

    grad = no_grad("OneFlow has none")
    reference = _gradient
    kernel = numpy_kernel(_gradient)


def _decode(log_probs: Any, input_lengths: Any, *, merge_repeated: Any) -> Any:
    steps, batch, labels = log_probs.shape
    _check_lengths(log_probs, np.zeros(0, np.int64), input_lengths, np.zeros(0, np.int64), 0)
    decoded, total = np.zeros((batch, steps), np.int64), np.zeros((batch, 1), log_probs.dtype)
    for b in range(batch):
        rows = log_probs[: int(input_lengths[b]), b]
        best = rows.argmax(-1)
        total[b] = -rows.max(-1).sum() if len(rows) else 0
        new = np.ones(len(best), bool)
        new[1:] = best[1:] != best[:-1]
        kept = best[(best != labels - 1) & (new | (not merge_repeated))]
        decoded[b, : len(kept)] = kept
    return decoded, total


@operator("ctc_greedy_decoder(log_probs, input_lengths, merge_repeated: bool = False) -> decoded, neg_sum_logits")
class CtcGreedyDecoder:
    """The most probable label of each time (i64) without blanks, which are the last label, then zeros; the sums."""

    def types(op: Call) -> tuple[TensorDesc, ...]:
        expect_dtype(op, "log_probs", op.log_probs, WIDE)
        expect_rank(op, "log_probs", op.log_probs, 3)
        expect_index(op, "input_lengths")
        expect_rank(op, "input_lengths", op.input_lengths, 1)
        steps, batch, labels = op.log_probs.shape
        if labels == 0:
            raise op.error(f"expected at least one label in log_probs, got {op.log_probs}")
        batch = expect_dim(op, "the size of input_lengths", op.input_lengths.shape[0], batch)
        return TensorDesc((batch, steps), dtypes.int64), TensorDesc((batch, 1), op.log_probs.dtype)

    sbp = Factors("_ n _, n -> n _, n _")
    grad = no_grad("the labels are positions")
    reference = _decode
    kernel = numpy_kernel(_decode)
