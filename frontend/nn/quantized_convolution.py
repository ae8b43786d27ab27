"""Convolutions for quantization-aware training: what they compute with is rounded as quantized numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.nn.convolution import Conv1d, Conv2d, Conv3d, Convolution
from oneflow.frontend.nn.layers import MovingAverageMinMaxObserver
from oneflow.frontend.nn.stateless import FakeQuantization, MinMaxObserver

__all__ = ["QatConv1d", "QatConv2d", "QatConv3d"]


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
