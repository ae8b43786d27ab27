"""Layers without parameters: activations, dropout, pooling, shapes, and losses, from tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.functional.images import per_dimension
from oneflow.frontend.nn.module import Module, SignatureOf

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "CombinedMarginLoss",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FakeQuantization",
    "Flatten",
    "Fold",
    "GaussianNLLLoss",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LeakyReLU",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "MinMaxObserver",
    "Mish",
    "NLLLoss",
    "PairwiseDistance",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "Quantization",
    "QuickGELU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SquareReLU",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TripletMarginLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip


class _OptionsSignature(SignatureOf):
    """The signature of a class of functions: its options."""

    def of_class(self, owner: Any) -> inspect.Signature:
        options: inspect.Signature = owner.options
        return options


class Function(Module):
    """A module that calls a function with stored options."""

    __signature__ = _OptionsSignature("forward")
    function: Callable[..., Any]
    options = inspect.Signature()
    defaults: tuple[tuple[str, Any], ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = self.options.parameters
        if len(args) > len(names):
            raise TypeError(f"expected at most {len(names)} arguments for {type(self).__name__}, got {len(args)}")
        options = dict(zip(names, args, strict=False))
        unknown = (kwargs.keys() - set(names)) | (kwargs.keys() & options.keys())
        if unknown:
            known = ", ".join(names) or "none"
            raise TypeError(f"unexpected arguments {sorted(unknown)} for {type(self).__name__}; it has {known}")
        self.chosen = dict(self.defaults) | options | kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function of the arguments."""
        return type(self).function(*args, **(self.chosen | kwargs))

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{k}={v!r}" for k, v in self.chosen.items())


def _layer(name: str, function: Callable[..., Any], operands: int = 1, **defaults: Any) -> type[Function]:
    """The class of a function whose options are its parameters beyond the operands."""
    parameters = list(inspect.signature(function).parameters.values())[operands:]
    stated = [p.replace(default=defaults.get(p.name, p.default)) for p in parameters]
    members = {
        "function": staticmethod(function), "options": inspect.Signature(stated), "defaults": tuple(defaults.items()),
        "__doc__": f"The module of a function: {inspect.getdoc(function)}", "__module__": __name__,
    }  # fmt: skip
    return type(name, (Function,), members)


ReLU = _layer("ReLU", F.relu)
ReLU6 = _layer("ReLU6", F.relu6)
LeakyReLU = _layer("LeakyReLU", F.leaky_relu)
ELU = _layer("ELU", F.elu)
CELU = _layer("CELU", F.celu)
SELU = _layer("SELU", F.selu)
GELU = _layer("GELU", F.gelu)
SiLU = _layer("SiLU", F.silu)
Mish = _layer("Mish", F.mish)
Sigmoid = _layer("Sigmoid", F.sigmoid)
LogSigmoid = _layer("LogSigmoid", F.logsigmoid)
Tanh = _layer("Tanh", F.tanh)
Tanhshrink = _layer("Tanhshrink", F.tanhshrink)
Softplus = _layer("Softplus", F.softplus)
Softsign = _layer("Softsign", F.softsign)
QuickGELU = _layer("QuickGELU", F.quick_gelu)
SquareReLU = _layer("SquareReLU", F.square_relu)
Softmax = _layer("Softmax", F.softmax)
Softmin = _layer("Softmin", F.softmin)
GLU = _layer("GLU", F.glu)
LogSoftmax = _layer("LogSoftmax", F.log_softmax)
Hardtanh = _layer("Hardtanh", F.hardtanh)
Hardswish = _layer("Hardswish", F.hardswish)
Hardsigmoid = _layer("Hardsigmoid", F.hardsigmoid)
Hardshrink = _layer("Hardshrink", F.hardshrink)
Softshrink = _layer("Softshrink", F.softshrink)
Threshold = _layer("Threshold", F.threshold)


def _pool(name: str, function: Callable[..., Any], *shown: str) -> type[Function]:
    """The class of a pooling, whose text has the sizes of windows, as OneFlow's, and the options `shown`."""
    layer = _layer(name, function)

    def extra_repr(self: Function) -> str:
        options = {n: p.default for n, p in self.options.parameters.items()} | self.chosen
        options["stride"] = options["kernel_size"] if options["stride"] is None else options["stride"]
        for size in {"kernel_size", "stride", "padding", "dilation"} & set(options):
            options[size] = per_dimension(options[size], int(name[-2]), size)
        return ", ".join(f"{n}={options[n]}" for n in ("kernel_size", "stride", "padding", *shown))

    layer.extra_repr = extra_repr  # type: ignore[method-assign]
    return layer


MaxPool1d = _pool("MaxPool1d", F.max_pool1d)
MaxPool2d = _pool("MaxPool2d", F.max_pool2d, "dilation")
MaxPool3d = _pool("MaxPool3d", F.max_pool3d, "dilation")
AvgPool1d = _pool("AvgPool1d", F.avg_pool1d, "ceil_mode")
AvgPool2d = _pool("AvgPool2d", F.avg_pool2d, "ceil_mode")
AvgPool3d = _pool("AvgPool3d", F.avg_pool3d, "ceil_mode")
AdaptiveAvgPool1d = _layer("AdaptiveAvgPool1d", F.adaptive_avg_pool1d)
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", F.adaptive_avg_pool2d)
AdaptiveAvgPool3d = _layer("AdaptiveAvgPool3d", F.adaptive_avg_pool3d)
AdaptiveMaxPool1d = _layer("AdaptiveMaxPool1d", F.adaptive_max_pool1d)
AdaptiveMaxPool2d = _layer("AdaptiveMaxPool2d", F.adaptive_max_pool2d)
AdaptiveMaxPool3d = _layer("AdaptiveMaxPool3d", F.adaptive_max_pool3d)
MaxUnpool1d = _layer("MaxUnpool1d", F.max_unpool1d, 2)
MaxUnpool2d = _layer("MaxUnpool2d", F.max_unpool2d, 2)
MaxUnpool3d = _layer("MaxUnpool3d", F.max_unpool3d, 2)
Unfold = _layer("Unfold", F.unfold)
Fold = _layer("Fold", F.fold)
Upsample = _layer("Upsample", F.interpolate)
UpsamplingNearest2d = _layer("UpsamplingNearest2d", F.interpolate, mode="nearest")
UpsamplingBilinear2d = _layer("UpsamplingBilinear2d", F.interpolate, mode="bilinear", align_corners=True)
PixelShuffle = _layer("PixelShuffle", F.pixel_shuffle)
PixelUnshuffle = _layer("PixelUnshuffle", F.pixel_unshuffle)
ChannelShuffle = _layer("ChannelShuffle", F.channel_shuffle)
LocalResponseNorm = _layer("LocalResponseNorm", F.local_response_norm)
Softmax2d = _layer("Softmax2d", F.softmax, dim=-3)
Flatten = _layer("Flatten", F.flatten, start_dim=1)

MSELoss = _layer("MSELoss", F.mse_loss, 2)
HuberLoss = _layer("HuberLoss", F.huber_loss, 2)
L1Loss = _layer("L1Loss", F.l1_loss, 2)
SmoothL1Loss = _layer("SmoothL1Loss", F.smooth_l1_loss, 2)
KLDivLoss = _layer("KLDivLoss", F.kl_div, 2)
NLLLoss = _layer("NLLLoss", F.nll_loss, 2)
CrossEntropyLoss = _layer("CrossEntropyLoss", F.cross_entropy, 2)
BCELoss = _layer("BCELoss", F.binary_cross_entropy, 2)
BCEWithLogitsLoss = _layer("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, 2)
CosineSimilarity = _layer("CosineSimilarity", F.cosine_similarity, 2)
PairwiseDistance = _layer("PairwiseDistance", F.pairwise_distance, 2)
CosineEmbeddingLoss = _layer("CosineEmbeddingLoss", F.cosine_embedding_loss, 3)
TripletMarginLoss = _layer("TripletMarginLoss", F.triplet_margin_loss, 3)
MarginRankingLoss = _layer("MarginRankingLoss", F.margin_ranking_loss, 3)
HingeEmbeddingLoss = _layer("HingeEmbeddingLoss", F.hinge_embedding_loss, 2)
SoftMarginLoss = _layer("SoftMarginLoss", F.soft_margin_loss, 2)
PoissonNLLLoss = _layer("PoissonNLLLoss", F.poisson_nll_loss, 2)
GaussianNLLLoss = _layer("GaussianNLLLoss", F.gaussian_nll_loss, 3)
MinMaxObserver = _layer("MinMaxObserver", F.min_max_observer)
Quantization = _layer("Quantization", F.quantization, 3)
FakeQuantization = _layer("FakeQuantization", F.fake_quantization, 3)
CTCLoss = _layer("CTCLoss", F.ctc_loss, 4)
CombinedMarginLoss = _layer("CombinedMarginLoss", F.combined_margin_loss, 2)


class Identity(Module):
    """The argument itself; arguments of the constructor are taken and ignored."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        """`x`."""
        return x


class Unflatten(Module):
    """A dimension as several, of the sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Any) -> Any:
        """`x` in the new shape."""
        shape = list(x.shape)
        at = range(len(shape))[self.dim]
        return F.reshape(x, (*shape[:at], *self.unflattened_size, *shape[at + 1 :]))

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class _Padding(Module):
    """Images with a border, whose `padding` is one number or `(before, after)` of each dimension, the last one first.

    See `flow.nn.functional.pad`.
    """

    spatial: int
    mode = "constant"
    takes_value = True

    def __init__(self, padding: int | Sequence[int], value: float = 0.0) -> None:
        super().__init__()
        amounts = [padding] * (2 * self.spatial) if isinstance(padding, int) else list(padding)
        if len(amounts) != 2 * self.spatial:
            raise ValueError(f"expected padding as a number or {2 * self.spatial} numbers, got {padding}")
        self.padding, self.value = tuple(amounts), value

    def forward(self, x: Any) -> Any:
        """`x` with its border."""
        return F.pad(x, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The numbers, and the value of a constant border."""
        return f"padding={self.padding}, value={self.value}" if self.takes_value else f"{self.padding}"


def _padding(name: str, spatial: int, mode: str) -> type[_Padding]:
    """The class of one kind of border, which has a value only for constant padding."""
    members: dict[str, Any] = {"spatial": spatial, "mode": mode, "__doc__": _Padding.__doc__, "__module__": __name__}
    if not name.startswith("Constant"):
        members["__init__"] = lambda self, padding: _Padding.__init__(self, padding)
        members["takes_value"] = False
    return type(name, (_Padding,), members)


ConstantPad1d, ConstantPad2d, ConstantPad3d = (_padding(f"ConstantPad{n}d", n, "constant") for n in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_padding(f"ZeroPad{n}d", n, "constant") for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (_padding(f"ReflectionPad{n}d", n, "reflect") for n in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _padding(f"ReplicationPad{n}d", n, "replicate") for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (_padding(f"CircularPad{n}d", n, "circular") for n in (1, 2, 3))


class Dropout(Module):
    """Zeros in place of elements with the probability p, the others over 1 - p, in training mode.

    With `inplace` the argument becomes the result. `generator` has the seeds.
    """

    function = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False, generator: Any = None) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"expected a probability of 0 to 1, got {p}")
        self.p, self.inplace, self.generator = p, inplace, generator

    def forward(self, x: Any, addend: Any = None) -> Any:
        """`x` with elements dropped, or unchanged in evaluation; `addend` is added to the result."""
        result = type(self).function(x, self.p, self.training, self.inplace, generator=self.generator)
        return result if addend is None else F.add(result, addend)

    def extra_repr(self) -> str:
        """The probability, and whether the argument is updated."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """Zeros in place of whole channels of `(batch, channels, length)`, like `Dropout` of elements."""

    function = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """Zeros in place of whole channels of images, like `Dropout` of elements."""

    function = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """Zeros in place of whole channels of volumes, like `Dropout` of elements."""

    function = staticmethod(F.dropout3d)
