"""Normalizations, whose results include the statistics, and their gradients."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch_all
from oneflow.frontend.importers.torch.aten.gradients import pulled_back, wanted
from oneflow.frontend.importers.torch.table import aten


@aten("layer_norm.default")
def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    return F.layer_norm(x, shape, weight, bias, eps)


@aten("group_norm.default")
def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    return F.group_norm(x, groups, weight, bias, eps)


@aten("instance_norm.default")
def instance_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float, eps: float, *_: Any
) -> Any:
    return F.instance_norm(x, mean, var, weight, bias, use_input_stats, momentum, eps)


@aten("rms_norm.default")
def rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    return F.rms_norm(x, shape, weight, eps)


@aten("_fused_rms_norm.default")
def fused_rms_norm(x: Any, shape: Any, weight: Any, eps: float | None, *, out: Any) -> Any:
    y, inverse = dispatch_all("rms_norm", x, weight, normalized_shape=shape, epsilon=_epsilon(x, eps))
    return [y, F.reshape(inverse, out[1].shape)]


def _epsilon(x: Any, eps: float | None) -> float:
    return (2.0**-52 if x.dtype.bits == 64 else 2.0**-23) if eps is None else eps


@aten("_fused_rms_norm_backward.default")
def fused_rms_norm_backward(grad: Any, x: Any, shape: Any, rstd: Any, weight: Any, mask: Any) -> Any:
    normal = F.mul(x, rstd)
    axes = range(x.rank - len(shape), x.rank)
    scaled = grad if weight is None else F.mul(grad, weight)
    dx = F.mul(F.sub(scaled, F.mul(normal, F.mean(F.mul(scaled, normal), axes, keepdim=True))), rstd)
    return wanted([dx, _summed(F.mul(grad, normal), range(x.rank - len(shape)))], mask)


def _summed(x: Any, axes: Any) -> Any:
    return F.sum(x, list(axes)) if len(axes) else x


@aten("native_layer_norm.default")
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float, *, out: Any) -> Any:
    begin = x.rank - len(shape)
    axes = {"begin_norm_axis": begin, "begin_params_axis": begin}
    affine = {"center": bias is not None, "scale": weight is not None}
    y, mean, inverse = dispatch_all("layer_norm", x, bias, weight, **axes, **affine, epsilon=eps)
    return [y, F.reshape(mean, out[1].shape), F.reshape(inverse, out[2].shape)]


@aten("native_layer_norm_backward.default")
def native_layer_norm_backward(
    grad: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> Any:
    begin = x.rank - len(shape)
    lead = x.sizes()[:begin]
    statistics = [F.reshape(s, lead) for s in (mean, rstd)]
    dx = dispatch_all("layer_norm_grad", grad, x, *statistics, weight, begin_norm_axis=begin)[0] if mask[0] else None
    if not any(mask[1:]):
        return [dx, None, None]
    dbias, dweight = dispatch_all("layer_norm_param_grad", grad, x, *statistics, begin_params_axis=begin)
    return wanted([dx, dweight, dbias], mask)


@aten("native_group_norm.default")
def native_group_norm(
    x: Any, weight: Any, bias: Any, n: Any, c: Any, inside: Any, groups: int, eps: float, *, out: Any
) -> Any:
    parts = F.reshape(x, (x.size(0), groups, -1))
    mean, rstd = F.mean(parts, -1), F.rsqrt(F.add(F.var(parts, -1, unbiased=False), eps))
    return [F.group_norm(x, groups, weight, bias, eps), mean, rstd]


@aten("native_group_norm_backward.default")
def native_group_norm_backward(
    grad: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: Any, c: Any, inside: Any, groups: int, mask: Any
) -> Any:
    parts = F.reshape(x, (x.size(0), groups, -1))
    normal = F.reshape(F.mul(F.sub(parts, F.unsqueeze(mean, 2)), F.unsqueeze(rstd, 2)), x.sizes())
    others = [axis for axis in range(x.rank) if axis != 1]
    scaled = grad if weight is None else F.mul(grad, F.reshape(weight, (1, -1, *[1] * (x.rank - 2))))
    flat, plain = F.reshape(scaled, parts.sizes()), F.reshape(normal, parts.sizes())
    centred = F.sub(flat, F.mean(flat, -1, keepdim=True))
    dx = F.mul(F.sub(centred, F.mul(plain, F.mean(F.mul(flat, plain), -1, keepdim=True))), F.unsqueeze(rstd, 2))
    grads = [F.reshape(dx, x.sizes()), F.sum(F.mul(grad, normal), others), F.sum(grad, others)]
    return wanted(grads, mask)


@aten("batch_norm.default")
def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, *_: Any
) -> Any:
    return F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float, *, out: Any
) -> Any:
    """The saved statistics are empty on CPUs, and the running ones on GPUs."""
    y = F.batch_norm(x, mean, var, weight, bias, False, momentum, eps)
    if out[1].shape[0] == 0:
        return [y, *[F.zeros((0,), dtype=result.dtype) for result in out[1:]]]
    wide = x.dtype.accumulator
    return [y, F.cast(mean, out[1].dtype), F.cast(F.rsqrt(F.add(F.cast(var, wide), eps)), out[2].dtype)]


def _by_batch(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """A batch normalized, with its means and inverse deviations."""
    dtype, channels = x.dtype.accumulator, x.shape[1]
    gamma = F.ones(channels, dtype=dtype) if weight is None else F.cast(weight, dtype)
    beta = F.zeros(channels, dtype=dtype) if bias is None else F.cast(bias, dtype)
    y, mean, inverse = dispatch_all("normalization", x, None, None, gamma, beta, axis=1, epsilon=eps, training=True)[
        :3
    ]
    return y, mean, inverse


def _moved(running: Any, new: Any, momentum: float) -> Any:
    return F.add(F.mul(running, 1 - momentum), F.mul(F.cast(new, running.dtype), momentum))


@aten("_native_batch_norm_legit_functional.default")
def batch_norm_functional(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        return [*batch_norm_inference(x, weight, bias, mean, var, momentum, eps), mean, var]
    y, own, inverse = _by_batch(x, weight, bias, eps)
    return [y, own, inverse, _moved(mean, own, momentum), _moved(var, _variance(x), momentum)]


def _variance(x: Any) -> Any:
    wide = F.cast(x, x.dtype.accumulator)
    return F.var(wide, [0, *range(2, x.rank)])


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    return list(_by_batch(x, weight, bias, eps))


@aten("native_batch_norm.default")
def native_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if training:
        return list(_by_batch(x, weight, bias, eps))
    return batch_norm_inference(x, weight, bias, mean, var, momentum, eps)


@aten("native_batch_norm_backward.default")
def native_batch_norm_backward(
    grad: Any, x: Any, weight: Any, mean: Any, var: Any, own: Any, inverse: Any, training: bool, eps: float, mask: Any
) -> Any:
    shape = (1, -1, *[1] * (x.rank - 2))
    others = [axis for axis in range(x.rank) if axis != 1]
    dtype = x.dtype.accumulator
    gamma = F.ones(x.shape[1], dtype=dtype) if weight is None else F.cast(weight, dtype)
    if training:
        dgamma, dbeta, dx = dispatch_all("normalization_grad", x, grad, own, inverse, gamma, axis=1, epsilon=eps)
        return wanted([dx, dgamma, dbeta], mask)
    mean, var = F.cast(mean, dtype), F.cast(var, dtype)
    inverse = F.rsqrt(F.add(var, eps))
    normal = F.mul(F.sub(x, F.reshape(mean, shape)), F.reshape(inverse, shape))
    dx = F.mul(grad, F.reshape(F.mul(gamma, inverse), shape))
    return wanted([dx, F.sum(F.mul(grad, normal), others), F.sum(grad, others)], mask)


@aten("_weight_norm.default")
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    others = [axis for axis in range(v.rank) if axis != dim]
    return F.mul(v, F.div(g, F.norm(v, 2, others, keepdim=True)))


@aten("_weight_norm_interface.default")
def weight_norm_interface(v: Any, g: Any, dim: int = 0) -> Any:
    norm = F.norm(v, 2, [axis for axis in range(v.rank) if axis != dim], keepdim=True)
    return [F.mul(v, F.div(g, norm)), norm]


@aten("_weight_norm_interface_backward.default")
def weight_norm_interface_backward(grad: Any, v: Any, g: Any, norms: Any, dim: int) -> Any:
    return pulled_back(lambda v, g: weight_norm(v, g, dim), grad, v, g)


@aten("renorm.default")
def renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """Slices along a dimension whose norm is larger than `maxnorm` are scaled to it."""
    norm = F.norm(x, p, [axis for axis in range(x.rank) if axis != dim % x.rank], keepdim=True)
    return F.mul(x, F.where(F.gt(norm, maxnorm), F.div(maxnorm, F.add(norm, 1e-7)), F.ones_like(norm)))
