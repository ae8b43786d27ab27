"""Losses and decoders of sequences of labels, and the choice of boxes. The operators run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional.data_dependent import nonzero, values_of
from oneflow.frontend.functional.ordering import argsort
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import squeeze

__all__ = ["ctc_greedy_decoder", "ctc_loss", "nms"]

REDUCTIONS = ("none", "mean", "sum")


def _lengths(lengths: Any) -> Tensor:
    """Lengths, which may be a list, as a tensor of int64."""
    return cast(as_tensor(lengths if isinstance(lengths, Tensor) else np.asarray(lengths)), dtypes.int64)


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The connectionist temporal classification loss of logarithms of probabilities (time, batch, labels).

    `targets` is (batch, length), or all targets one after the other. "mean" divides by the targets' lengths first.

    Raises:
        OneFlowError: the reduction is another word, or shapes do not fit.
        TraceError: a function is being traced and targets are concatenated.
    """
    if reduction not in REDUCTIONS:
        raise fail(f"expected reduction to be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    labels, lengths = cast(as_tensor(targets), dtypes.int64), _lengths(target_lengths)
    if labels.rank == 2 and labels.shape[1] is not None:
        longest = labels.shape[1]
    else:
        known_lengths = values_of(
            lengths, "ctc_loss(log_probs, targets, ..)", "pass targets of static shape (batch, length)"
        )
        longest = int(known_lengths[1].max(initial=0))
    attrs = {"max_target_length": longest, "blank": blank, "zero_infinity": zero_infinity}
    loss = dispatch("ctc_loss", log_probs, labels, _lengths(input_lengths), lengths, **attrs)
    if zero_infinity:
        loss = e.masked_fill(loss, e.isinf(loss), 0.0)
    if reduction == "mean":
        return r.mean(e.div(loss, cast(e.maximum(lengths, 1), loss.dtype)))
    return r.sum(loss) if reduction == "sum" else loss


def ctc_greedy_decoder(log_probs: Any, input_lengths: Any, merge_repeated: bool = True) -> tuple[Tensor, ...]:
    """The most probable labels (batch, time; int64) without blanks, the last label; minus the sums of logarithms."""
    return dispatch_all("ctc_greedy_decoder", log_probs, _lengths(input_lengths), merge_repeated=merge_repeated)


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Tensor:
    """The positions (int32) of the boxes that are kept: boxes that overlap no better box by more than the threshold.

    Boxes are left, top, right and bottom. The best boxes come first.

    Raises:
        TraceError: a function is being traced: the shape depends on values.
    """
    order = argsort(scores, 0, descending=True)
    kept = dispatch("nms", dispatch("gather", boxes, order, axis=0), iou_threshold=iou_threshold, keep_n=-1)
    return dispatch("gather", order, squeeze(nonzero(kept), 1), axis=0)
