"""Quantization to integers of a few bits.

`quantization_formula` is "google" or "cambricon", `quantization_scheme` "symmetric" or "affine".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.rules import describe

__all__ = ["fake_quantization", "min_max_observer", "moving_average_min_max_observer", "quantization"]


def min_max_observer(
    input: Any,
    quantization_formula: str = "google",
    quantization_bit: int = 8,
    quantization_scheme: str = "symmetric",
    per_layer_quantization: bool = True,
) -> tuple[Tensor, ...]:
    """The scale and the zero point for the range of a tensor, or without `per_layer_quantization` of each slice along
    dimension 0.
    """
    options = {"quantization_formula": quantization_formula, "quantization_scheme": quantization_scheme}
    numbers = {"quantization_bit": quantization_bit, "per_layer_quantization": per_layer_quantization}
    return dispatch_all("min_max_observer", as_tensor(input), **options, **numbers)


def moving_average_min_max_observer(
    input: Any,
    current_train_step: Any,
    moving_max: Any,
    moving_min: Any,
    training: bool,
    stop_update_after_iters: int,
    quantization_formula: str = "google",
    quantization_bit: int = 8,
    quantization_scheme: str = "symmetric",
    momentum: float = 0.95,
) -> tuple[Tensor, ...]:
    """The scale and the zero point for running averages of the range of a tensor.

    In training, up to the step `stop_update_after_iters`, the averages are updated in place; an average of 0 has not
    begun. The symmetric scheme and the formula "cambricon" average the largest magnitude.
    """
    name = "moving_average_min_max_observer"
    averages = as_tensor(moving_max), as_tensor(moving_min)
    scale, zero_point, *moved = dispatch_all(
        name, as_tensor(input), as_tensor(current_train_step), *averages, training=training,
        stop_update_after_iters=stop_update_after_iters, quantization_formula=quantization_formula,
        quantization_bit=quantization_bit, quantization_scheme=quantization_scheme, momentum=momentum,
    )  # fmt: skip
    if training:
        for old, new in zip(averages, moved, strict=True):
            current_builder().assign(old, new, name)
    return scale, zero_point


def _quantizer(name: str, doc: str) -> Callable[..., Tensor]:
    def function(
        input: Any,
        scale: Any,
        zero_point: Any,
        quantization_formula: str = "google",
        quantization_bit: int = 8,
        quantization_scheme: str = "symmetric",
    ) -> Tensor:
        options = {"quantization_formula": quantization_formula, "quantization_scheme": quantization_scheme}
        operands = map(as_tensor, (input, scale, zero_point))
        return dispatch(name, *operands, **options, quantization_bit=quantization_bit)

    return describe(function, name, doc)


quantization = _quantizer("quantization", "A tensor as integers of a few bits, in its own element type.")
fake_quantization = _quantizer(
    "fake_quantization",
    "A tensor after quantization and dequantization. The gradient is the gradient of the identity.",
)
