"""Softmax along any dimension, and the normalization layers. Imports `rules`, `shape`, `reduction`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.errors import fail
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction
from oneflow.frontend.functional.rules import cast, describe
from oneflow.frontend.functional.shape import axis, on_vector, reshape, transpose
from oneflow.frontend.functional.source import full
from oneflow.frontend.tape import no_grad
from oneflow.frontend.tensor import Tensor

__all__ = [
    "batch_norm", "group_norm", "layer_norm", "log_softmax", "rms_norm", "softmax",
]  # fmt: skip


def _along(op: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: int = -1) -> Tensor:
        x = as_tensor(x)
        at = axis(x, dim, scalar=True)
        if at >= x.rank - 1:
            return on_vector(lambda y: dispatch(op, y), x)
        return transpose(dispatch(op, transpose(x, at, -1)), at, -1)

    return describe(function, op, f"{doc} Floats.")


softmax = _along("softmax", "exp(x) / sum(exp(x)) along `dim`, computed from x - max(x).")
log_softmax = _along("log_softmax", "log(softmax(x)) along `dim`, computed from x - max(x).")


def _begin(x: Tensor, normalized_shape: int | Sequence[int], name: str) -> int:
    """The first normalized dimension.

    Raises:
        OneFlowError: `normalized_shape` is not that of the last dimensions.
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
    axes = {"begin_norm_axis": begin, "begin_params_axis": begin}
    affine = {"center": bias is not None, "scale": weight is not None}
    return dispatch_all("layer_norm", x, bias, weight, **axes, **affine, epsilon=eps)[0]


#: The bits of the fractions of floats.
_FRACTION = {dtypes.float64: 52, dtypes.float32: 23, dtypes.float16: 10, dtypes.bfloat16: 7}


def rms_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean(x * x) + eps) * weight, over the last dimensions, which are `normalized_shape`; floats.

    Without `eps` it is the distance from 1 to the next number of the element type.
    """
    x = as_tensor(x)
    if eps is None:
        eps = 2.0 ** -_FRACTION.get(x.dtype, 23)
    _begin(x, normalized_shape, "rms_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
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

    The statistics are the running ones, or in training those of the batch, and the running ones move by the share
    `momentum` towards them, in place (None where there are none). With f16 and bf16 they and the parameters may be
    of that type or f32; what is computed with them is f32.
    """
    x = as_tensor(x)
    channels, dtype = _channels(x, "batch_norm"), x.dtype.accumulator
    statistics = _of_batch(x, running_mean, running_var, momentum) if training else (running_mean, running_var)
    mean, var = (cast(v, dtype) for v in statistics)
    gamma = full((channels,), 1, dtype=dtype) if weight is None else cast(weight, dtype)
    beta = full((channels,), 0, dtype=dtype) if bias is None else cast(bias, dtype)
    if training:
        return _normalized(x, mean, var, gamma, beta, eps)
    return dispatch("normalization", x, mean, var, gamma, beta, axis=1, epsilon=eps)


def _of_batch(x: Tensor, running_mean: Any, running_var: Any, momentum: Any) -> tuple[Tensor, Tensor]:
    """The statistics of a batch, towards which the running ones move; those take the variance without bias."""
    wide, dims = cast(x, x.dtype.accumulator), [0, *range(2, x.rank)]
    mean, var = reduction.mean(wide, dims), reduction.var(wide, dims, unbiased=False)
    count = x.numel() // _channels(x, "batch_norm")
    if running_mean is not None:
        if count < 2:
            raise fail(f"expected more than one element per channel to train batch_norm, got {x.desc}")
        for running, new in ((running_mean, mean), (running_var, e.mul(var, count / (count - 1)))):
            _move(running, new, momentum)
    return mean, var


@no_grad()
def _move(running: Any, new: Tensor, momentum: Any) -> None:
    moved = e.add(running, e.mul(e.sub(new, running), momentum))
    current_builder().assign(running, cast(moved, running.dtype), "batch_norm")


def _normalized(x: Tensor, mean: Tensor, var: Tensor, gamma: Any, beta: Any, eps: float) -> Tensor:
    shape = (1, x.shape[1], *[1] * (x.rank - 2))
    scale = e.mul(gamma, e.rsqrt(e.add(var, eps)))
    mean, scale, beta = (reshape(v, shape) for v in (mean, scale, beta))
    return cast(e.add(e.mul(e.sub(x, mean), scale), beta), x.dtype)


def _channels(x: Tensor, name: str) -> int:
    size: int | None = x.shape[1] if x.rank > 1 else None
    if size is None:
        raise fail(f"expected a static number of channels in dimension 1 for {name}, got {x.desc}")
    return size
