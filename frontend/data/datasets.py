"""Data sets: map-style (`Dataset`, samples by index) and iterable (`IterableDataset`)."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.generator import Generator
from oneflow.frontend.functional.random import randperm

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip


class Dataset:
    """Samples by index: subclasses have `__getitem__`, and `__len__` for samplers that need the length."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to have a method __getitem__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples one after the other: subclasses have `__iter__`. A worker reads its index by
    `flow.utils.data.get_worker_info()`.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"expected {type(self).__name__} to have a method __iter__")

    def __add__(self, other: Dataset) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Sample i has slice i of each of several tensors.

    Raises:
        ValueError: their first dimensions differ.
    """

    def __init__(self, *tensors: Any) -> None:
        if len({x.shape[0] for x in tensors}) != 1:
            raise ValueError(f"expected tensors with one size of dimension 0, got {[list(x.shape) for x in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset):
    """Sample i has sample i of each of several data sets: as a tuple, or a dictionary by keyword.

    Raises:
        ValueError: the data sets have different numbers of samples, or there are no data sets.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                f"expected data sets either as positional arguments or by keyword, got {len(args)} and {len(kwargs)}"
            )
        self.datasets: Any = args or kwargs
        lengths = [len(d) for d in args or kwargs.values()]
        if len(set(lengths)) != 1:
            raise ValueError(f"expected data sets of one length, got the lengths {lengths}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return len(next(iter(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)))


class ConcatDataset(Dataset):
    """The samples of several data sets, one set after the other.

    Raises:
        ValueError: there are no data sets, or a data set has no samples by index.
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(d, IterableDataset) for d in self.datasets):
            kinds = ", ".join(type(d).__name__ for d in self.datasets) or "none"
            raise ValueError(f"expected at least one data set, each with samples by index, got {kinds}")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected a number in [{-len(self)}, {len(self)}), got {index}")
        at = index % len(self)
        which = bisect.bisect_right(self.cumulative_sizes, at)
        return self.datasets[which][at - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """The samples of several iterable data sets, one set after the other."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


class Subset(Dataset):
    """The samples of a data set at given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """A data set as disjoint subsets of given lengths, drawn at random; lengths may be fractions that add up to 1.

    Raises:
        OneFlowError: the sum of the lengths is not the length of the data set.
    """
    sizes = list(lengths)
    if any(isinstance(n, float) for n in sizes) and math.isclose(sum(sizes), 1):
        sizes = [math.floor(len(dataset) * share) for share in sizes]
        for i in range(len(dataset) - int(sum(sizes))):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != len(dataset):
        raise fail(f"expected lengths with the sum {len(dataset)}, the length of the data set, got {list(lengths)}")
    order: list[int] = randperm(len(dataset), generator=generator).tolist()
    ends = list(itertools.accumulate(map(int, sizes)))
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, sizes, strict=True)]
