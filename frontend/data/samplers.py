"""Samplers: in which order the samples of a data set are taken, and which make a batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oneflow.frontend import env
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.generator import Generator
from oneflow.frontend.eager.constructors import tensor
from oneflow.frontend.functional.random import multinomial, randint, randperm

__all__ = [
    "BatchSampler", "DistributedSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip


class Sampler:
    """The indices of samples, in sampling order: subclasses have `__iter__`."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"expected {type(self).__name__} to have a method __iter__")


class SequentialSampler(Sampler):
    """All samples in order."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Samples in random order: all, or `num_samples` of them, with `replacement` each drawn from all.

    Raises:
        OneFlowError: `num_samples` is below 1.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(data_source)
        if num_samples is not None and num_samples < 1:
            raise fail(f"expected num_samples of at least 1, got {num_samples}")
        self.replacement, self.generator, self._num_samples = replacement, generator, num_samples

    @property
    def num_samples(self) -> int:
        """How many samples are taken."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        if self.replacement:
            return iter(randint(0, size, (self.num_samples,), generator=self.generator).tolist())
        rounds = range(-(-self.num_samples // size) if size else 0)
        orders = (randperm(size, generator=self.generator).tolist() for _ in rounds)
        return itertools.islice(itertools.chain.from_iterable(orders), self.num_samples)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given samples in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__()
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order: list[int] = randperm(len(self.indices), generator=self.generator).tolist()
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` samples, drawn with probabilities in proportion to weights."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        super().__init__()
        self.weights, self.num_samples = [float(w) for w in weights], num_samples
        self.replacement, self.generator = replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(tensor(self.weights), self.num_samples, self.replacement,
                            generator=self.generator)  # fmt: skip
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of a sampler; the last list may be shorter, unless `drop_last`.

    Raises:
        OneFlowError: `batch_size` is below 1.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        super().__init__()
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise fail(f"expected batch_size as an integer of at least 1, got {batch_size!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


class DistributedSampler(Sampler):
    """The share of one rank of all samples: every `num_replicas`-th, from `rank` on.

    Samples at the front are taken again so that ranks have equally many, or with `drop_last` the rest is left out.
    With `shuffle` the order is random, and another one after `set_epoch`.

    Raises:
        OneFlowError: the rank does not exist.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset)
        self.num_replicas = env.get_world_size() if num_replicas is None else num_replicas
        self.rank = env.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise fail(f"expected a rank in [0, {self.num_replicas}), got {self.rank}")
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        share = len(dataset) / self.num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which decides the order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order: list[int] = list(range(size))
        if self.shuffle:
            order = randperm(size, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        repeated = list(itertools.islice(itertools.cycle(order), self.total_size))
        return iter(repeated[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
