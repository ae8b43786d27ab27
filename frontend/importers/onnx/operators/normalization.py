"""Normalization, softmax and losses' parts; dropout."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.operators.reduction import _hardmax
from oneflow.frontend.importers.onnx.table import builder


def _softmax_along(function: Any) -> Any:
    def build(x: Tensor, *, axis: int = -1) -> Tensor:
        tensor: Tensor = function(x, axis)
        return tensor

    return build


def _softmax_flat(function: Any) -> Any:
    """Before version 13 the dimensions from `axis` on are one."""

    def build(x: Tensor, *, axis: int = 1) -> Tensor:
        sizes, at = x.sizes(), axis % max(x.rank, 1)
        flat = F.reshape(x, (math.prod(sizes[:at]), math.prod(sizes[at:])))
        return F.reshape_as(function(flat, -1), x)

    return build


for _name, _function in {"Softmax": F.softmax, "LogSoftmax": F.log_softmax}.items():
    builder(_name)(_softmax_flat(_function))
    builder(_name, since=13)(_softmax_along(_function))
builder("Hardmax")(_softmax_flat(lambda x, axis: _hardmax(x, axis=axis)))


@builder("BatchNormalization")
def _batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    is_test: int = 1,
    training_mode: int = 0,
) -> Any:
    if not spatial:
        raise OnnxError("expected spatial=1: statistics of single elements are not supported")
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, bias, eps=epsilon)
    axes = [i for i in range(x.rank) if i != 1]
    own_mean, own_var = F.mean(x, axes), F.var(x, axes, unbiased=False)
    y = F.batch_norm(x, own_mean, own_var, scale, bias, eps=epsilon)
    moved = [F.add(F.mul(old, momentum), F.mul(new, 1 - momentum)) for old, new in ((mean, own_mean), (var, own_var))]
    return y, *moved


@builder("InstanceNormalization")
def _instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@builder("GroupNormalization", since=21)
def _group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@builder("GroupNormalization")
def _group_norm_18(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """The first version: a scale for each group."""
    each = int(x.shape[1] or 0) // num_groups
    gamma, beta = (F.reshape(F.expand(F.unsqueeze(v, 1), -1, each), (-1,)) for v in (scale, bias))
    return F.group_norm(x, num_groups, gamma, beta, epsilon)


@builder("LayerNormalization")
def _layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Any,
) -> Any:
    at = axis % x.rank
    shape = x.shape[at:]
    plain = all(v is None or v.shape == shape for v in (scale, bias))
    if plain and not node.asks_for(1) and not node.asks_for(2):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    wide, dims = F.cast(x, dtypes.float32 if x.dtype.bits < 32 else x.dtype), list(range(at, x.rank))
    mean = F.mean(wide, dims, True)
    deviation = F.sub(wide, mean)
    inverse = F.rsqrt(F.add(F.mean(F.square(deviation), dims, True), epsilon))
    y = F.mul(F.cast(F.mul(deviation, inverse), x.dtype), scale)
    return (y if bias is None else F.add(y, bias)), mean, inverse


@builder("RMSNormalization")
def _rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    at = axis % x.rank
    if scale.shape == x.shape[at:] and scale.dtype == x.dtype:
        return F.rms_norm(x, x.shape[at:], scale, epsilon)
    wide = F.cast(x, dtypes.float32 if x.dtype.bits < 32 else x.dtype)
    square = F.mean(F.square(wide), list(range(at, x.rank)), True)
    return F.mul(F.cast(F.mul(wide, F.rsqrt(F.add(square, epsilon))), x.dtype), scale)


@builder("LRN")
def _lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    # The window of ONNX has its longer half after the element, the window of the functional API before it.
    if size % 2:
        return F.local_response_norm(x, size, alpha, beta, bias)
    return F.flip(F.local_response_norm(F.flip(x, [1]), size, alpha, beta, bias), [1])


@builder("LpNormalization")
def _lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = F.norm(x, float(p), axis, True)
    return F.div(x, F.where(F.eq(norm, 0.0), 1.0, norm))


@builder("MeanVarianceNormalization")
def _mean_variance_norm(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    dims = axes or [0, 2, 3]
    deviation = F.sub(x, F.mean(x, dims, True))
    return F.div(deviation, F.add(F.sqrt(F.mean(F.square(deviation), dims, True)), 1e-9))


@builder("Dropout")
def _dropout(
    x: Tensor,
    ratio: Tensor | None = None,
    training_mode: Any = None,
    *,
    seed: int | None = None,
    is_test: int = 1,
    node: Any,
) -> Any:
    if training_mode is not None and bool(node.known(2, training_mode).item()):
        rate = 0.5 if ratio is None else float(node.known(1, ratio).item())
        if rate:
            raise OnnxError("dropout in training is not supported: its random numbers are not defined")
    mask_type = dtypes.bool_ if node.version >= 10 else x.dtype
    return (x, F.ones_like(x, dtype=mask_type)) if node.asks_for(1) else x
