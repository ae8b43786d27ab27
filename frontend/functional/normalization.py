"""Softmax along any dimension, and the normalization layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction
from oneflow.frontend.functional.padding import pad
from oneflow.frontend.functional.rules import accumulated, cast, check_parameters, describe
from oneflow.frontend.functional.shape import axis, narrow, on_vector, transpose
from oneflow.frontend.functional.source import full, zeros_like

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "log_softmax", "rms_norm",
    "softmax",
]  # fmt: skip


def _along(op: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: int = -1, *, dtype: DType | None = None) -> Tensor:
        x = as_tensor(x) if dtype is None else cast(x, dtype)
        at = axis(x, dim, scalar=True)
        if at >= x.rank - 1:
            return on_vector(lambda y: dispatch(op, y), x)
        return transpose(dispatch(op, transpose(x, at, -1)), at, -1)

    return describe(function, op, f"{doc} Floats; `dtype` converts the elements before.")


softmax = _along("softmax", "exp(x) / sum(exp(x)) along `dim`, computed from x - max(x).")
log_softmax = _along("log_softmax", "log(softmax(x)) along `dim`, computed from x - max(x).")


def _begin(x: Tensor, normalized_shape: int | Sequence[int], name: str) -> int:
    """The first normalized dimension.

    Raises:
        OneFlowError: `normalized_shape` is not the shape of the last dimensions.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    begin = x.rank - len(shape)
    fits = shape and begin >= 0 and all(d in (None, n) for d, n in zip(x.shape[begin:], shape, strict=True))
    if not fits:
        raise fail(f"expected {name} over the last dimensions of {x.desc}, got normalized_shape {list(shape)}")
    return begin


def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions, which are `normalized_shape`.

    Floats; weight and bias have that shape, or are None. Statistics of f16 and bf16 are computed in f32.
    """
    x = as_tensor(x)
    begin = _begin(x, normalized_shape, "layer_norm")
    if weight is not None and bias is not None:
        check_parameters("layer_norm", x, x, weight, bias)
    axes = {"begin_norm_axis": begin, "begin_params_axis": begin}
    affine = {"center": bias is not None, "scale": weight is not None}
    return dispatch_all("layer_norm", x, bias, weight, **axes, **affine, epsilon=eps)[0]


def rms_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean(x * x) + eps) * weight, over the last dimensions, which are `normalized_shape`.

    `x` has floats or complex numbers.
    The default of `eps` is the distance from 1 to the next number of the type of the computation: f32 for f16 and
    bf16.
    """
    x = as_tensor(x)
    if eps is None:
        eps = float(np.finfo(x.dtype.accumulator.numpy).eps) if x.dtype.is_inexact else 0.0
    _begin(x, normalized_shape, "rms_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.dtype.is_complex:
        squares = reduction.mean(e.square(x), list(range(-len(shape), 0)), True)
        result = e.mul(x, e.rsqrt(e.add(squares, eps)))
        return result if weight is None else e.mul(result, weight)
    return dispatch_all("rms_norm", x, weight, normalized_shape=shape, epsilon=eps)[0]


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over each of `num_groups` groups of channels.

    Channels are dimension 1; weight and bias have one element per channel, or are None. Floats.
    """
    x = as_tensor(x)
    if weight is None and bias is None:
        return dispatch_all("group_norm", x, num_groups=num_groups, epsilon=eps)[0]
    channels = _channels(x, "group_norm")
    gamma = full((channels,), 1, dtype=x.dtype) if weight is None else weight
    beta = full((channels,), 0, dtype=x.dtype) if bias is None else bias
    return dispatch_all("group_norm", x, beta, gamma, affine=True, num_groups=num_groups, epsilon=eps)[0]


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over each channel, dimension 1, of each image of a batch.

    The statistics are the statistics of `x`, and the running statistics move by the fraction `momentum` towards the
    means over the batch, in place (None without running statistics); without `use_input_stats` the statistics are the
    running statistics. Floats.
    """
    x = as_tensor(x)
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(s for s in x.shape[2:] if s is not None) == 1 and None not in x.shape[2:]:
        raise fail(f"expected more than one element per channel of an image for instance_norm, got {x.desc}")
    if running_mean is not None:
        wide, dims = cast(x, x.dtype.accumulator), [*range(2, x.rank)]
        for running, new in ((running_mean, reduction.mean(wide, dims)), (running_var, reduction.var(wide, dims))):
            _move(running, reduction.mean(new, 0), momentum)
    return group_norm(x, max(_channels(x, "instance_norm"), 1), weight, bias, eps)


@accumulated
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * the mean of x * x over `size` channels around)^beta; channels are dimension 1, floats."""
    x = as_tensor(input)
    count = x.size(1)
    squares = pad(e.square(x), [*[0, 0] * (x.rank - 2), size // 2, (size - 1) // 2])
    shifted = [narrow(squares, 1, begin, count) for begin in range(size)]
    total = shifted[0] if size == 1 else dispatch("add_n", shifted)
    return e.div(x, e.pow(e.add(e.mul(total, alpha / size), k), beta))


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, per channel, dimension 1.

    The statistics are the running statistics, in training the statistics of the batch. In training the running
    statistics (None: there are none) are updated in place: (1 - momentum) * running + momentum * batch. With f16 and
    bf16 statistics and parameters may have that type or f32; computations are in f32.
    """
    x = as_tensor(x)
    channels, dtype = _channels(x, "batch_norm"), x.dtype.accumulator
    gamma = full((channels,), 1, dtype=dtype) if weight is None else cast(weight, dtype)
    beta = full((channels,), 0, dtype=dtype) if bias is None else cast(bias, dtype)
    if training:
        return _by_batch(x, (running_mean, running_var), gamma, beta, momentum, eps)
    mean, var = (cast(v, dtype) for v in (running_mean, running_var))
    return dispatch("normalization", x, mean, var, gamma, beta, axis=1, epsilon=eps)


def _by_batch(x: Tensor, running: Sequence[Any], gamma: Tensor, beta: Tensor, momentum: Any, eps: float) -> Tensor:
    """By the statistics of a batch, towards which the running ones move; those take the variance without bias."""
    attrs = {"axis": 1, "epsilon": eps, "training": True}
    if 0 not in x.shape and x.numel() == _channels(x, "batch_norm"):
        raise fail(f"expected more than one element per channel to train batch_norm, got {x.desc}")
    if running[0] is None or 0 in x.shape:  # an empty batch does not change the running statistics
        return dispatch_all("normalization", x, None, None, gamma, beta, **attrs)[0]
    # Momentum may be a tensor, so that the running statistics are updated here and not by the operator.
    nothing = zeros_like(gamma)
    y, _, _, *new = dispatch_all("normalization", x, nothing, nothing, gamma, beta, **attrs)
    for old, moved in zip(running, new, strict=True):
        _move(old, moved, momentum)
    return y


@no_grad()
def _move(running: Any, new: Tensor, momentum: Any) -> None:
    moved = e.add(running, e.mul(e.sub(new, running), momentum))
    current_builder().assign(running, cast(moved, running.dtype), "batch_norm")


def _channels(x: Tensor, name: str) -> int:
    size: int | None = x.shape[1] if x.rank > 1 else None
    if size is None:
        raise fail(f"expected a static number of channels in dimension 1 for {name}, got {x.desc}")
    return size
