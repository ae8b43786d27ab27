"""`flow.distributions`: probability distributions of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.shape import Shape
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.core.type_info import finfo
from oneflow.frontend.eager.tape import no_grad

__all__ = ["Bernoulli", "Categorical", "Distribution", "Normal", "Uniform"]


class Distribution:
    """The base of distributions: `sample`, `log_prob`, `entropy`, `mean`, `variance`."""

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Shape(batch_shape), Shape(event_shape)

    @property
    def batch_shape(self) -> Shape:
        """The shape of the parameters: one distribution for each element."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return F.sqrt(self.variance)

    @property
    def mean(self) -> Tensor:
        """The mean of the samples."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a mean")

    @property
    def variance(self) -> Tensor:
        """The variance of the samples."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a variance")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples of a shape for each distribution; no gradient flows to the parameters."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples through which gradients flow to the parameters."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method rsample")

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability, or of its density, of a value."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method log_prob")

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method entropy")

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Shape:
        return Shape((*sample_shape, *self._batch_shape, *self._event_shape))


def _parameters(**parameters: Any) -> tuple[Any, Any]:
    """The one of two parameters that is given, as (probs, logits).

    Raises:
        ValueError: both or neither are.
    """
    probs, logits = parameters["probs"], parameters["logits"]
    if (probs is None) == (logits is None):
        raise ValueError(f"expected either probs or logits, got {'neither' if probs is None else 'both'}")
    return (None if x is None else as_tensor(x) for x in (probs, logits))  # type: ignore[return-value]


class Categorical(Distribution):
    """The integers below K, with probabilities in proportion to `probs`, or to exp(`logits`), along the last
    dimension.

    Raises:
        ValueError: both or neither are given, or without dimensions.
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        probs, logits = _parameters(probs=probs, logits=logits)
        weights = logits if probs is None else probs
        if not weights.rank:
            raise ValueError(f"expected parameters of at least one dimension, got {weights.desc}")
        self.logits = F.log_softmax(logits, -1) if probs is None else F.log(F.div(probs, F.sum(probs, -1, True)))
        self.probs = F.exp(self.logits) if probs is None else F.div(probs, F.sum(probs, -1, True))
        self._num_events = weights.size(-1)
        super().__init__(weights.sizes()[:-1])

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Integers (int64) of a shape for each distribution."""
        rows = F.reshape(self.probs, (-1, self._num_events))
        drawn = F.multinomial(rows.detach(), math.prod(sample_shape), True)
        return F.reshape(F.t(drawn), self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability of integers."""
        value = F.unsqueeze(as_tensor(value), -1)
        shape = F.broadcast_shapes(value.sizes()[:-1], self._batch_shape)
        logits = F.expand(self.logits, *shape, self._num_events)
        return F.squeeze(F.gather(logits, -1, F.expand(value, *shape, 1)), -1)

    def entropy(self) -> Tensor:
        """The entropy in nats; a probability of 0 adds nothing."""
        return F.neg(F.sum(F.where(F.gt(self.probs, 0), F.mul(self.probs, self.logits), 0.0), -1))


class Bernoulli(Distribution):
    """1 with the probability `probs`, or sigmoid(`logits`), else 0.

    Raises:
        ValueError: both or neither are given.
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        probs, logits = _parameters(probs=probs, logits=logits)
        self.probs: Any = F.sigmoid(logits) if probs is None else probs
        self.logits = logits if probs is None else _logits(probs)
        super().__init__(self.probs.sizes())

    @property
    def mean(self) -> Tensor:
        """The probability."""
        mean: Tensor = self.probs
        return mean

    @property
    def variance(self) -> Tensor:
        """p * (1 - p)."""
        return F.mul(self.probs, F.sub(1, self.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Zeros and ones of a shape for each distribution."""
        return F.bernoulli(F.expand(self.probs.detach(), *self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability of zeros and ones."""
        logits, value = F.broadcast_tensors(self.logits, F.cast(value, self.logits.dtype))
        return F.neg(F.binary_cross_entropy_with_logits(logits, value, reduction="none"))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


def _logits(probs: Tensor) -> Tensor:
    """The logits of probabilities; 0 and 1 count as the nearest probabilities whose logits are finite."""
    eps = finfo(probs.dtype).eps
    inner = F.clamp(probs, eps, 1 - eps)
    return F.sub(F.log(inner), F.log1p(F.neg(inner)))


class Normal(Distribution):
    """The normal distribution of the mean `loc` and the standard deviation `scale`."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = F.broadcast_tensors(as_tensor(loc), as_tensor(scale))
        super().__init__(self.loc.sizes())

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """`scale` squared."""
        return F.square(self.scale)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """loc + scale * normal numbers."""
        drawn = F.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return F.add(self.loc, F.mul(drawn, self.scale))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        distance = F.div(F.sub(value, self.loc), self.scale)
        return F.sub(F.mul(F.square(distance), -0.5), F.add(F.log(self.scale), 0.5 * math.log(2 * math.pi)))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return F.add(F.log(self.scale), 0.5 + 0.5 * math.log(2 * math.pi))


class Uniform(Distribution):
    """The uniform distribution over [low, high)."""

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = F.broadcast_tensors(as_tensor(low), as_tensor(high))
        super().__init__(self.low.sizes())

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return F.div(F.add(self.low, self.high), 2)

    @property
    def variance(self) -> Tensor:
        """The square of the width over 12."""
        return F.div(F.square(F.sub(self.high, self.low)), 12)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """low + (high - low) * u, u uniform in [0, 1)."""
        drawn = F.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return F.add(self.low, F.mul(drawn, F.sub(self.high, self.low)))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, minus infinity outside."""
        within = F.logical_and(F.ge(value, self.low), F.lt(value, self.high))
        density: Tensor = F.where(within, F.neg(F.log(F.sub(self.high, self.low))), -math.inf)
        return density

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return F.log(F.sub(self.high, self.low))
