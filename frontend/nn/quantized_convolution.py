"""Layers for quantization-aware training: an observer of running ranges, and convolutions of rounded operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.nn.convolution import Conv1d, Conv2d, Conv3d, Convolution
from oneflow.frontend.nn.module import Module
from oneflow.frontend.nn.stateless import FakeQuantization, MinMaxObserver

__all__ = ["MovingAverageMinMaxObserver", "QatConv1d", "QatConv2d", "QatConv3d"]


class MovingAverageMinMaxObserver(Module):
    """The scale and the zero point for running averages of the range of a tensor.

    In training the averages move up to the step `stop_update_after_iters`; see
    `flow.moving_average_min_max_observer`.
    """

    def __init__(
        self,
        stop_update_after_iters: int = 1,
        quantization_formula: str = "google",
        quantization_bit: int = 8,
        quantization_scheme: str = "symmetric",
        momentum: float = 0.95,
    ) -> None:
        super().__init__()
        self.stop_update_after_iters, self.momentum = stop_update_after_iters, momentum
        self.quantization_formula, self.quantization_bit = quantization_formula, quantization_bit
        self.quantization_scheme = quantization_scheme
        for name in ("moving_max", "moving_min"):
            self.register_buffer(name, wrapped(np.zeros(1, np.float32)))

    def reset_running_stats(self) -> None:
        """Begins the averages again."""
        self.moving_max.zero_()
        self.moving_min.zero_()

    def forward(self, input: Any, current_train_step: Any) -> Any:
        """The scale and the zero point of `input`."""
        return F.moving_average_min_max_observer(
            input, current_train_step, self.moving_max, self.moving_min, self.training, self.stop_update_after_iters,
            self.quantization_formula, self.quantization_bit, self.quantization_scheme, self.momentum,
        )  # fmt: skip


class _QatConvolution(Convolution):
    """A convolution whose images and weight pass through `fake_quantization`.

    Running averages of the range of the images, and the range of the weight (without `weight_quant_per_layer` of each
    filter) determine the scales. Other arguments are as in the convolution and in `flow.min_max_observer`.
    """

    def __init__(
        self,
        *sizes: Any,
        quantization_formula: str = "google",
        quantization_bit: int = 8,
        quantization_scheme: str = "symmetric",
        weight_quant_per_layer: bool = True,
        input_quant_momentum: float = 0.95,
        **named: Any,
    ) -> None:
        super().__init__(*sizes, **named)
        formula: Any = {
            "quantization_formula": quantization_formula, "quantization_bit": quantization_bit,
            "quantization_scheme": quantization_scheme,
        }  # fmt: skip
        self.input_min_max_observer = MovingAverageMinMaxObserver(momentum=input_quant_momentum, **formula)
        self.weight_min_max_observer = MinMaxObserver(per_layer_quantization=weight_quant_per_layer, **formula)
        self.fake_quantizer = FakeQuantization(**formula)
        self.register_buffer("current_train_step", wrapped(np.zeros(1, np.int64)))

    def forward(self, x: Any) -> Any:
        """The convolution of images `(batch, channels, ..)`."""
        images = self.fake_quantizer(x, *self.input_min_max_observer(x, self.current_train_step))
        weight = self.fake_quantizer(self.weight, *self.weight_min_max_observer(self.weight))
        return self.convolve(images, weight)


class QatConv1d(_QatConvolution, Conv1d):
    """A quantization-aware convolution over one dimension."""


class QatConv2d(_QatConvolution, Conv2d):
    """A quantization-aware convolution over two dimensions."""


class QatConv3d(_QatConvolution, Conv3d):
    """A quantization-aware convolution over three dimensions."""
