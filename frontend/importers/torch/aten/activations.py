"""Activation functions and their gradients."""

from __future__ import annotations

import math
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.importers.torch.aten.gradients import pulled_back
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.relu: "relu", F.silu: "silu", F.hardswish: "hardswish", F.hardsigmoid: "hardsigmoid", F.mish: "mish",
    F.hardtanh: "hardtanh", F.leaky_relu: "leaky_relu", F.softplus: "softplus", F.hardshrink: "hardshrink",
    F.softshrink: "softshrink", F.threshold: "threshold", F.relu6: "relu6", F.selu: "selu", F.celu: "celu",
    F.prelu: "prelu _prelu_kernel", F.glu: "glu", F.logsigmoid: "log_sigmoid", F.gelu: "gelu",
})  # fmt: skip


@aten("elu.default")
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    negative = F.mul(F.expm1(F.mul(F.minimum(x, 0.0), input_scale)), alpha)
    return F.mul(F.where(F.gt(x, 0), x, negative), scale)


@aten("elu_backward.default")
def elu_backward(grad: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any) -> Any:
    if not is_result:
        return pulled_back(lambda v: elu(v, alpha, scale, input_scale), grad, x)
    negative = F.mul(F.add(x, alpha * scale), input_scale)
    return F.mul(grad, F.where(F.gt(x, 0), float(scale), negative))


@aten("log_sigmoid_forward.default")
def log_sigmoid_forward(x: Any) -> Any:
    return [F.logsigmoid(x), F.zeros_like(x)]


@aten("log_sigmoid_backward.default")
def log_sigmoid_backward(grad: Any, x: Any, _: Any) -> Any:
    return pulled_back(F.logsigmoid, grad, x)


@aten("threshold_backward.default")
def threshold_backward(grad: Any, x: Any, threshold: Any) -> Any:
    return dispatch("threshold_grad", x, F.cast(grad, x.dtype), threshold_val=float(threshold))


@aten("sigmoid_backward.default")
def sigmoid_backward(grad: Any, y: Any) -> Any:
    return dispatch("sigmoid_grad", y, grad)


@aten("tanh_backward.default")
def tanh_backward(grad: Any, y: Any) -> Any:
    return dispatch("tanh_grad", y, grad)


def _gradient(function: Any, *names: str) -> None:
    """Makes the gradient of a function with the parameters `(x, ..)` the builder of `(grad, x, ..)`."""

    def build(grad: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return pulled_back(lambda v: function(v, *args, **kwargs), grad, x)

    aten(*names)(build)


_gradient(F.gelu, "gelu_backward.default")
_gradient(F.silu, "silu_backward.default")
_gradient(F.mish, "mish_backward.default")
_gradient(F.hardswish, "hardswish_backward.default")
_gradient(F.hardsigmoid, "hardsigmoid_backward.default")
_gradient(F.hardtanh, "hardtanh_backward.default")
_gradient(F.softplus, "softplus_backward.default")
_gradient(F.hardshrink, "hardshrink_backward.default")
_gradient(F.softshrink, "softshrink_backward.default")
_gradient(F.glu, "glu_backward.default")


@aten("leaky_relu_backward.default")
def leaky_relu_backward(grad: Any, x: Any, slope: Any, is_result: bool) -> Any:
    return dispatch("leaky_relu_grad", x, grad, alpha=float(slope))


@aten("_prelu_kernel_backward.default")
def prelu_backward(grad: Any, x: Any, weight: Any) -> Any:
    """By the weight too, element by element."""
    positive = F.gt(x, 0)
    return [F.where(positive, grad, F.mul(grad, weight)), F.where(positive, 0.0, F.mul(grad, x))]


@aten("softmax.int", "_softmax.default", "special_softmax.int")
def softmax(x: Any, dim: int, dtype: Any = None, *, out: Any) -> Any:
    return F.softmax(F.cast(x, out.dtype), dim)


@aten("log_softmax.int", "_log_softmax.default", "special_log_softmax.int")
def log_softmax(x: Any, dim: int, dtype: Any = None, *, out: Any) -> Any:
    return F.log_softmax(F.cast(x, out.dtype), dim)


@aten("_safe_softmax.default")
def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    hidden = F.all(F.eq(x, -math.inf), dim, keepdim=True)
    return F.where(hidden, 0.0, F.softmax(F.where(hidden, 0.0, x), dim))


@aten("_softmax_backward_data.default")
def softmax_backward(grad: Any, y: Any, dim: int, input_dtype: Any) -> Any:
    product = F.mul(grad, y)
    return F.sub(product, F.mul(y, F.sum(product, dim, keepdim=True)))


@aten("_log_softmax_backward_data.default")
def log_softmax_backward(grad: Any, y: Any, dim: int, input_dtype: Any) -> Any:
    return F.sub(grad, F.mul(F.exp(y), F.sum(grad, dim, keepdim=True)))
