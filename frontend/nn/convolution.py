"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.functional.images import per_dimension
from oneflow.frontend.nn.layers import new_parameter, reset
from oneflow.frontend.nn.module import Module, takes_device

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

Sizes = int | Sequence[int]


class _Windows(Module):
    """The base of convolutions: a weight, a bias, and the windows over `spatial` dimensions."""

    spatial: int
    function: Callable[..., Any]

    def __init__(
        self, channels: tuple[int, int], kernel_size: Sizes, groups: int, numbers: dict[str, Any], padding_mode: str
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = channels
        if groups < 1 or any(count % groups for count in channels):
            raise ValueError(f"expected channels that groups divides, got {channels[0]}, {channels[1]} and {groups}")
        kernel = (kernel_size,) * self.spatial if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(kernel) != self.spatial or min(kernel) < 1:
            raise ValueError(f"expected kernel_size of {self.spatial} numbers of at least 1, got {kernel_size}")
        self.kernel_size, self.groups, self.padding_mode = kernel, groups, padding_mode
        for name, value in numbers.items():
            setattr(self, name, value if isinstance(value, str) else per_dimension(value, self.spatial, name))

    def make(self, out: int, within: int, bias: bool, dtype: DType | None) -> None:
        """Makes the parameters: a weight of `out` filters with `within` channels, and a bias for each filter."""
        self.weight = new_parameter(out, within, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", new_parameter(self.out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters again."""
        reset(self)

    def extra_repr(self) -> str:
        """Sizes."""
        zeros, ones = (0,) * self.spatial, (1,) * self.spatial
        usual = {"padding": zeros, "output_padding": zeros, "dilation": ones, "groups": 1}
        names = ("kernel_size", "stride", "padding", "output_padding", "dilation", "groups")
        attributes = {n: getattr(self, n) for n in names if hasattr(self, n)}
        shown = {n: v for n, v in attributes.items() if v != usual.get(n)}
        options = ", ".join(f"{n}={v}" for n, v in shown.items())
        return f"{self.in_channels}, {self.out_channels}, {options}"


class Convolution(_Windows):
    """A convolution over `spatial` dimensions; see `flow.nn.functional.conv2d`.

    `padding_mode` is "zeros", or "reflect", "replicate" or "circular" as in `flow.nn.functional.pad`.
    """

    @takes_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        numbers = {"stride": stride, "padding": padding, "dilation": dilation}
        super().__init__((in_channels, out_channels), kernel_size, groups, numbers, padding_mode)
        self.make(out_channels, in_channels // groups, bias, dtype)

    def forward(self, x: Any) -> Any:
        """The convolution of images `(batch, channels, ..)`."""
        return self.convolve(x, self.weight)

    def convolve(self, x: Any, weight: Any) -> Any:
        """The convolution of images by a weight."""
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = F.pad(x, self._border(), self.padding_mode), 0
        return type(self).function(x, weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _border(self) -> list[int]:
        """The `padding` before and after each dimension, the last dimension first."""
        rows = list(zip(self.kernel_size, self.dilation, strict=True))
        if self.padding == "valid":
            pairs = [(0, 0) for _ in rows]
        elif self.padding == "same":
            pairs = [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for k, d in rows]
        else:
            pairs = [(p, p) for p in self.padding]
        return [amount for pair in reversed(pairs) for amount in pair]


class _ConvTranspose(_Windows):
    """A transposed convolution over `spatial` dimensions; see `flow.nn.functional.conv_transpose2d`."""

    @takes_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        numbers = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        super().__init__((in_channels, out_channels), kernel_size, groups, numbers, padding_mode)
        if padding_mode != "zeros":
            raise ValueError(f'expected padding_mode "zeros" for {type(self).__name__}, got {padding_mode!r}')
        self.make(in_channels, out_channels // groups, bias, dtype)

    def forward(self, x: Any, output_size: Sequence[int] | None = None) -> Any:
        """The transposed convolution of images; the results have the sizes `output_size`, if given."""
        more = self.output_padding if output_size is None else self._output_padding_for(x, output_size)
        numbers = (self.stride, self.padding, more, self.groups, self.dilation)
        return type(self).function(x, self.weight, self.bias, *numbers)

    def _output_padding_for(self, x: Any, output_size: Sequence[int]) -> list[int]:
        """The output padding for images of the sizes `output_size`.

        Raises:
            ValueError: none does.
        """
        rows = zip(
            x.sizes()[-self.spatial :], self.stride, self.padding, self.kernel_size, self.dilation, strict=True
        )
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, k, d in rows]
        more = [out - low for out, low in zip(output_size[-self.spatial :], least, strict=True)]
        if not all(0 <= m < s for m, s in zip(more, self.stride, strict=True)):
            raise ValueError(
                f"expected an output_size of {least} and less than {self.stride} more, got {output_size}"
            )
        return more


class Conv1d(Convolution):
    """A convolution over one dimension."""

    spatial, function = 1, staticmethod(F.conv1d)


class Conv2d(Convolution):
    """A convolution over two dimensions."""

    spatial, function = 2, staticmethod(F.conv2d)


class Conv3d(Convolution):
    """A convolution over three dimensions."""

    spatial, function = 3, staticmethod(F.conv3d)


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution over one dimension."""

    spatial, function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution over two dimensions."""

    spatial, function = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution over three dimensions."""

    spatial, function = 3, staticmethod(F.conv_transpose3d)
