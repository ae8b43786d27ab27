"""Softmax along any dimension, and the normalization layers. Imports `rules`, `shape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend.dispatch import as_tensor, dispatch
from oneflow.frontend.functional.rules import describe
from oneflow.frontend.functional.shape import axis, transpose
from oneflow.frontend.tensor import Tensor

__all__ = [
    "log_softmax", "softmax",
]  # fmt: skip


def _along(op: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: int = -1) -> Tensor:
        x = as_tensor(x)
        at = axis(x, dim)
        if at == x.rank - 1:
            return dispatch(op, x)
        return transpose(dispatch(op, transpose(x, at, -1)), at, -1)

    return describe(function, op, f"{doc} Floats.")


softmax = _along("softmax", "exp(x) / sum(exp(x)) along `dim`, computed from x - max(x).")
log_softmax = _along("log_softmax", "log(softmax(x)) along `dim`, computed from x - max(x).")
