"""Data sets, samplers and loaders."""

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.utils import data

X = np.arange(14, dtype=np.float32).reshape(7, 2)


class Numbers(data.IterableDataset):
    """The numbers below 7, shared among workers."""

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(7)) if info is None else iter(range(info.id, 7, info.num_workers))


def pairs():
    return data.TensorDataset(flow.tensor(X), flow.arange(7))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_in_order(workers):
    loader = data.DataLoader(pairs(), batch_size=3, num_workers=workers)
    batches = list(loader)
    assert len(loader) == len(batches) == 3 and all(type(b) is tuple for b in batches)
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x, _ in batches]), X)
    assert [y.tolist() for _, y in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(list(data.DataLoader(pairs(), 3, drop_last=True, num_workers=workers))) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_stream(workers):
    batches = [b.tolist() for b in data.DataLoader(Numbers(), batch_size=2, num_workers=workers)]
    wanted = [[0, 1], [2, 3], [4, 5], [6]] if not workers else [[0, 2], [1, 3], [4, 6], [5]]
    assert batches == wanted


class Fails(data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise KeyError(f"sample {index}")


def test_a_worker_that_fails():
    with pytest.raises(RuntimeError, match="sample 0"):
        list(data.DataLoader(Fails(), num_workers=1))


def test_unpicklable_data_sets_are_errors():
    with pytest.raises(RuntimeError, match="pickle"):
        next(iter(data.DataLoader(range(2), num_workers=1, timeout=20, collate_fn=lambda batch: lambda: batch)))
    with pytest.raises(Exception, match="pickle"):
        next(iter(data.DataLoader({}, num_workers=1, timeout=20, batch_sampler=[lambda: 0])))


def test_workers_and_epochs_draw_different_numbers():
    def drawn(batch):
        return [float(np.random.rand()), random.random(), float(flow.rand(1).item())]

    loader = data.DataLoader(range(2), num_workers=2, collate_fn=drawn)
    numbers = [number for _ in range(2) for batch in loader for number in batch]
    assert len(set(numbers)) == len(numbers) == 12


def test_worker_processes_end_after_a_loop_is_left():
    program = (
        "from oneflow.utils import data\n"
        "loader = data.DataLoader(range(10**6), batch_size=20000, num_workers=1, prefetch_factor=8)\n"
        "for _ in loader: break\n"
        "kept = iter(loader)\n"
        "next(kept)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_shuffled_batches_repeat_with_a_seed():
    def order():
        loader = data.DataLoader(range(7), 7, shuffle=True, generator=flow.Generator().manual_seed(1))
        return next(iter(loader)).tolist()

    assert order() == order() != list(range(7)) and sorted(order()) == list(range(7))


def test_samplers():
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, True)) == [[0, 1], [2, 3]]
    assert sorted(data.SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    assert len(list(data.RandomSampler(range(3), num_samples=7))) == 7
    assert set(data.RandomSampler(range(3), replacement=True, num_samples=20)) <= {0, 1, 2}
    assert set(data.WeightedRandomSampler([0, 1, 1], 20)) == {1, 2}
    shares = [list(data.DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    assert shares == [[0, 2, 4], [1, 3, 0]]
    shuffled = data.DistributedSampler(range(40), 2, 0)
    first = list(shuffled)
    shuffled.set_epoch(1)
    assert first == list(data.distributed.DistributedSampler(range(40), 2, 0)) != list(shuffled)


def test_data_sets():
    joined = pairs() + data.Subset(pairs(), [6, 0])
    assert (len(joined), joined[7][1].item(), joined[-1][1].item()) == (9, 6, 0)
    parts: list[Any] = data.random_split(range(10), [0.25, 0.75], generator=flow.Generator())
    assert [len(p) for p in parts] == [3, 7] and sorted([*parts[0], *parts[1]]) == list(range(10))
    assert list(data.ChainDataset([Numbers(), Numbers()])) == [*range(7)] * 2
    assert data.StackDataset(a=range(3), b="xyz")[1] == {"a": 1, "b": "y"}


def test_collation():
    batch = data.default_collate([{"a": 1.0, "b": ("x", np.ones(2))}, {"a": 2.0, "b": ("y", np.zeros(2))}])
    assert batch["a"].tolist() == [1, 2] and batch["a"].dtype == flow.float64
    assert batch["b"][0] == ["x", "y"] and batch["b"][1].shape == (2, 2)


#: Refused calls, and a part of the message.
BAD = {
    "sampler beside shuffle": (lambda: data.DataLoader(range(3), shuffle=True, sampler=[0]), "sampler or shuffle"),
    "prefetch": (
        lambda: data.DataLoader(range(3), num_workers=1, prefetch_factor=0),
        "prefetch_factor of at least 1",
    ),
    "batch size": (lambda: data.DataLoader(range(3), batch_size=0), "at least 1"),
    "stream": (lambda: data.DataLoader(Numbers(), shuffle=True), "IterableDataset"),
    "lengths": (lambda: data.random_split(range(3), [1, 1]), "with the sum 3"),
    "tensors": (lambda: data.TensorDataset(flow.ones(2), flow.ones(3)), "one size of dimension 0"),
    "kind": (lambda: data.default_collate([object()]), "expected samples of"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments_of_loaders(name):
    call, text = BAD[name]
    with pytest.raises((ValueError, TypeError), match=text):
        call()
