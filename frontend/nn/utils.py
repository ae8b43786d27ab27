"""Clipping of gradients, parameters as one vector, computed weights, packed sequences: `flow.nn.utils`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.nn import rnn_packing as rnn
from oneflow.frontend.nn.reparametrization import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from oneflow.frontend.optim.clipping import clip_grad_norm_, clip_grad_value_

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "remove_spectral_norm", "remove_weight_norm",
    "rnn", "spectral_norm", "vector_to_parameters", "weight_norm",
]  # fmt: skip


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """The elements of all parameters in one dimension, through which gradients flow."""
    return F.cat([F.flatten(p) for p in parameters])


@no_grad()
def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Puts the elements of a vector into parameters, one after the other.

    Raises:
        ValueError: the vector has more or fewer elements than the parameters.
    """
    targets = list(parameters)
    total = sum(p.numel() for p in targets)
    if tuple(vec.shape) != (total,):
        raise ValueError(f"expected a vector of {total} elements for the parameters, got {vec.desc}")
    begin = 0
    for p in targets:
        p.copy_(F.reshape(vec[begin : begin + p.numel()], p.shape))
        begin += p.numel()
