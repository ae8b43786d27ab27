"""Layers with parameters: linear maps, embeddings, normalization.

Parameters have PyTorch's names, shapes and initial distributions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.frontend import env
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.settings import get_default_dtype
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.functional.padding import as_batch
from oneflow.frontend.nn import init
from oneflow.frontend.nn.module import Module, Parameter, takes_device

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Embedding", "FusedBatchNorm1d", "FusedBatchNorm2d",
    "FusedBatchNorm3d", "FusedMLP", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
    "Linear", "PReLU", "RMSLayerNorm", "RMSNorm", "RReLU", "SyncBatchNorm",
]  # fmt: skip


#: How many elements new arrays of layers may have together, as the only item; None without a limit.
_REMAINING: ContextVar[list[int] | None] = ContextVar("remaining", default=None)


@contextmanager
def limited_elements(most: int) -> Iterator[None]:
    """A context in which the parameters and buffers of new layers have at most `most` elements together.

    Layers of other sizes raise ValueError.
    """
    token = _REMAINING.set([most])
    try:
        yield
    finally:
        _REMAINING.reset(token)


def new_array(shape: Sequence[int], value: float, dtype: np.dtype) -> np.ndarray:
    """The array of a new parameter or buffer, all of one number.

    Raises:
        ValueError: the tensor has more elements than `limited_elements` allows.
    """
    remaining = _REMAINING.get()
    if remaining is not None:
        remaining[0] -= max(1, math.prod(shape))
        if remaining[0] < 0:
            raise ValueError(f"expected sizes of its tensors, got {list(shape)}")
    return np.full(shape, value, dtype)


def new_parameter(*shape: int, dtype: DType | None = None, value: float = 0.0) -> Parameter:
    """A parameter of one number."""
    return Parameter(new_array(shape, value, (dtype or get_default_dtype()).numpy))


class Linear(Module):
    """x @ weight^T + bias: from `(.., in_features)` to `(.., out_features)`."""

    @takes_device
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", new_parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters again."""
        reset(self)

    def forward(self, x: Any) -> Any:
        """The map of `x`."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def reset(layer: Any) -> None:
    """Draws the weight and the bias of a layer."""
    draw(layer.weight, layer.bias)


def draw(weight: Any, bias: Any) -> None:
    """Draws weights and bias, uniform in [-1 / sqrt(inputs), 1 / sqrt(inputs))."""
    init.kaiming_uniform_(weight, math.sqrt(5))
    inputs = init.fans(weight)[0]
    if bias is not None and inputs:
        init.uniform_(bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))


class Embedding(Module):
    """A lookup table: the rows of `weight` at integer indices, from `(..)` to `(.., embedding_dim)`. Row
    `padding_idx` is always 0.

    With `max_norm` rows whose `norm_type`-norm is larger are scaled to `max_norm` at their use. The rows are
    `_weight`, or drawn from the normal distribution.

    Raises:
        ValueError: `_weight` has another shape, or an option has no meaning here.
    """

    @takes_device
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        if scale_grad_by_freq or sparse:
            raise ValueError(
                "expected scale_grad_by_freq and sparse to be False: gradients of embeddings are dense sums"
            )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"expected padding_idx below {num_embeddings}, got {padding_idx}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        if _weight is None:
            self.weight = new_parameter(num_embeddings, embedding_dim, dtype=dtype)
            self.reset_parameters()
        elif tuple(_weight.shape) == (num_embeddings, embedding_dim):
            self.weight = Parameter(_weight)
        else:
            raise ValueError(f"expected _weight of shape {(num_embeddings, embedding_dim)}, got {_weight.desc}")

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> Embedding:  # fmt: skip
        """A layer with the rows of a tensor, which share its memory and are trained unless `freeze`."""
        if embeddings.dim() != 2:
            raise ValueError(f"expected embeddings of 2 dimensions, got {embeddings.desc}")
        rows, width = embeddings.shape
        layer = cls(rows, width, padding_idx, max_norm, norm_type, dtype=embeddings.dtype)
        layer.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draws the rows again, from the normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.array[self.padding_idx] = 0

    def forward(self, x: Any) -> Any:
        """The rows at `x`."""
        return F.embedding(x, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


class PReLU(Module):
    """x where x is positive, else `weight` * x; one weight is learned for all channels, or `num_parameters`
    weights.
    """

    @takes_device
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, *, dtype: DType | None = None, device: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = new_parameter(num_parameters, dtype=dtype, value=init)

    def forward(self, x: Any) -> Any:
        """The function of `x`."""
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"num_parameters={self.num_parameters}"


class _Affine(Module):
    """A normalization whose result is scaled by `weight` and moved by `bias`, which may be missing."""

    def __init__(self, shape: Sequence[int], weight: bool, bias: bool, dtype: DType | None) -> None:
        super().__init__()
        self.register_parameter("weight", new_parameter(*shape, dtype=dtype, value=1.0) if weight else None)
        self.register_parameter("bias", new_parameter(*shape, dtype=dtype) if bias else None)

    def reset_parameters(self) -> None:
        """Resets the weight to ones and the bias to zeros."""
        for parameter, fill in ((self.weight, init.ones_), (self.bias, init.zeros_)):
            if parameter is not None:
                fill(parameter)


class _RowNorm(_Affine):
    """A normalization over the last dimensions, which are `normalized_shape`; `eps` is what its function takes."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: Any, weight: bool, bias: bool, dtype: DType | None
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super().__init__(shape, weight, bias, dtype)
        self.normalized_shape, self.eps = shape, eps

    def extra_repr(self) -> str:
        """Sizes and epsilon."""
        return f"{self.normalized_shape}, eps={self.eps}"


class LayerNorm(_RowNorm):
    """Normalization over the last dimensions, which are `normalized_shape`."""

    @takes_device
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, elementwise_affine and bias, dtype)

    def forward(self, x: Any) -> Any:
        """`x` normalized."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_RowNorm):
    """Division by the root of the mean square over the last dimensions, which are `normalized_shape`."""

    @takes_device
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, False, dtype)

    def forward(self, x: Any) -> Any:
        """`x` normalized."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(_Affine):
    """Normalization over each of `num_groups` groups of channels, dimension 1."""

    @takes_device
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"expected num_groups to divide {num_channels} channels, got {num_groups}")
        super().__init__((num_channels,), affine, affine, dtype)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps

    def forward(self, x: Any) -> Any:
        """`x` normalized."""
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _BatchNorm(_Affine):
    """Normalization of each channel, dimension 1, over the batch; in evaluation by running statistics.

    `momentum` is the weight of the newest batch in these statistics; None averages all batches equally.
    """

    #: The supported numbers of dimensions.
    ranks: tuple[int, ...] = ()

    @takes_device
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__((num_features,), affine, affine, dtype)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        kept = (dtype or get_default_dtype()).accumulator.numpy
        tracked = {n: new_array([num_features], v, kept) for n, v in (("running_mean", 0), ("running_var", 1))}
        tracked["num_batches_tracked"] = new_array([], 0, np.dtype(np.int64))
        for name, array in tracked.items():
            self.register_buffer(name, wrapped(array) if track_running_stats else None)

    def forward(self, x: Any) -> Any:
        """`x` normalized; in training mode the running statistics are updated.

        Raises:
            OneFlowError: the tensor has another number of dimensions.
        """
        if (rank := as_tensor(x).rank) not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise fail(f"{type(self).__name__}: expected a tensor of {ranks} dimensions, got {rank}")
        training = self.training or self.running_mean is None
        momentum: Any = self.momentum
        if training and self.running_mean is not None:
            self.num_batches_tracked.add_(1)
            momentum = F.div(1.0, self.num_batches_tracked) if momentum is None else momentum
        statistics = self.running_mean, self.running_var
        return F.batch_norm(x, *statistics, self.weight, self.bias, training, momentum, self.eps)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Batch norm of `(batch, channels)` or `(batch, channels, length)`."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of images, `(batch, channels, height, width)`."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of volumes."""

    ranks = (5,)


class _InstanceNorm(_BatchNorm):
    """Normalization of each channel, dimension 1, of each image; see `flow.nn.functional.instance_norm`.

    With `track_running_stats` evaluation uses running statistics.
    """

    spatial: int

    @takes_device
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype=dtype)

    def forward(self, x: Any) -> Any:
        """`x`, or one image without a batch, normalized; in training mode the running statistics are updated."""
        images, drop_batch = as_batch(x, self.spatial)
        statistics, own = (self.running_mean, self.running_var), self.training or self.running_mean is None
        affine, momentum = (self.weight, self.bias), self.momentum
        assert momentum is not None
        return drop_batch(F.instance_norm(images, *statistics, *affine, own, momentum, self.eps))


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of `(batch, channels, length)`."""

    spatial = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of images, `(batch, channels, height, width)`."""

    spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of volumes."""

    spatial = 3


class RMSLayerNorm(RMSNorm):
    """`RMSNorm` of the last dimension with the argument names of T5's layer."""

    @takes_device
    def __init__(
        self, hidden_size: int, eps: float = 1e-6, *, dtype: DType | None = None, device: Any = None
    ) -> None:
        super().__init__(hidden_size, eps, dtype=dtype)
        self.variance_epsilon = eps


class _FusedBatchNorm:
    """A batch normalization, to whose result `addend` is added, and which ends with a relu."""

    def forward(self, x: Any, addend: Any = None) -> Any:
        """relu(normalized x + addend)."""
        normalized = super().forward(x)  # type: ignore[misc]
        return F.relu(normalized if addend is None else F.add(normalized, addend))


class FusedBatchNorm1d(_FusedBatchNorm, BatchNorm1d):
    """`BatchNorm1d`, then a sum with `addend`, then relu."""


class FusedBatchNorm2d(_FusedBatchNorm, BatchNorm2d):
    """`BatchNorm2d`, then a sum with `addend`, then relu."""


class FusedBatchNorm3d(_FusedBatchNorm, BatchNorm3d):
    """`BatchNorm3d`, then a sum with `addend`, then relu."""


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all ranks, of tensors of any number of dimensions.

    Statistics of a global tensor are statistics of all its ranks, as with every batch norm. A tensor of each of
    several processes is refused in training mode.
    """

    ranks = (2, 3, 4, 5)

    def forward(self, x: Any) -> Any:
        """`x` normalized; in training mode the running statistics are updated.

        Raises:
            OneFlowError: in training mode every process of a job has its own tensor.
        """
        local = current_builder().eager and not as_tensor(x).is_global
        if self.training and local and env.get_world_size() > 1:
            raise fail("SyncBatchNorm: expected a global tensor, whose statistics are statistics of all ranks; pass "
                       "x.to_global(placement, flow.sbp.split(0))")  # fmt: skip
        return super().forward(x)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """A module whose batch norms are of this class; its parameters and buffers are kept."""
        if isinstance(module, _BatchNorm) and not isinstance(module, (cls, _InstanceNorm)):
            affine, tracked = module.weight is not None, module.running_mean is not None
            made = cls(module.num_features, module.eps, module.momentum, affine, tracked)
            for name, value in (*module._parameters.items(), *module._buffers.items()):
                setattr(made, name, value)
            return made.train(module.training)
        for name, child in list(module.named_children()):
            module.add_module(name, cls.convert_sync_batchnorm(child))
        return module


class FusedMLP(Module):
    """Linear maps with relu between them: `weight_0`, `bias_0`, and so on. A compiled function fuses the layers.

    `hidden_dropout_rate` has a probability for each hidden layer, `out_dropout_rate` is the probability for the
    result. Without `skip_final_activation` the last map ends with a relu too.
    """

    @takes_device
    def __init__(
        self,
        in_features: int,
        hidden_features: Sequence[int],
        out_features: int,
        hidden_dropout_rate: Sequence[float] | None = None,
        out_dropout_rate: float = 0.0,
        skip_final_activation: bool = False,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        sizes = [in_features, *hidden_features, out_features]
        self.skip_final_activation = skip_final_activation
        rates = [0.0] * len(hidden_features) if hidden_dropout_rate is None else list(hidden_dropout_rate)
        if len(rates) != len(hidden_features):
            raise ValueError(f"expected a hidden_dropout_rate for each of {len(hidden_features)} layers, got {rates}")
        self.dropout_rates = [*rates, out_dropout_rate]
        for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
            self.register_parameter(f"weight_{number}", new_parameter(outputs, inputs, dtype=dtype))
            self.register_parameter(f"bias_{number}", new_parameter(outputs, dtype=dtype))
        self.reset_parameters()

    def _maps(self) -> list[tuple[Any, Any]]:
        return [(getattr(self, f"weight_{i}"), getattr(self, f"bias_{i}")) for i in range(len(self.dropout_rates))]

    def reset_parameters(self) -> None:
        """Draws the parameters again."""
        for weight, bias in self._maps():
            draw(weight, bias)

    def forward(self, x: Any) -> Any:
        """The maps of `x`."""
        for number, ((weight, bias), rate) in enumerate(zip(self._maps(), self.dropout_rates, strict=True), 1):
            x = F.linear(x, weight, bias)
            if number < len(self.dropout_rates) or not self.skip_final_activation:
                x = F.relu(x)
            x = F.dropout(x, rate, self.training)
        return x


class RReLU(Module):
    """x where x is positive, else x times a slope: in training mode uniform in [lower, upper) for each element,
    otherwise their mean.

    Raises:
        ValueError: the slopes are in the wrong order.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        if lower > upper:
            raise ValueError(f"expected lower of at most upper, got {lower} and {upper}")
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, x: Any) -> Any:
        """The function of `x`."""
        return F.rrelu(x, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The slopes."""
        return f"lower={self.lower}, upper={self.upper}"
