"""Batches of a data set: `DataLoader`, in this process or by worker processes."""

from __future__ import annotations

import collections
import itertools
import multiprocessing
import pickle
import queue
import random
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.generator import Generator, default_generator, manual_seed
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.data.datasets import IterableDataset
from oneflow.frontend.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from oneflow.frontend.eager.constructors import tensor
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.functional.shape import stack

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that a process is: its index out of `num_workers`, its seed, its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """The description of a worker of a `DataLoader`; None in other processes."""
    return _worker[0] if _worker else None


def default_convert(data: Any) -> Any:
    """Arrays in a nested structure as tensors."""
    if isinstance(data, (np.ndarray, np.generic)):
        return tensor(data)
    return _mapped(default_convert, data)


def _mapped(function: Callable[[Any], Any], data: Any) -> Any:
    """A structure with `function` of its parts; anything else unchanged."""
    if isinstance(data, Mapping):
        return {k: function(v) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(function, data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [function(v) for v in data]
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as a batch: tensors and arrays stacked, numbers as a tensor, structures part by part, text as a list.

    Raises:
        TypeError: samples are of another kind.
        ValueError: sequences have different lengths.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        plain = all(isinstance(x, EagerTensor) and x.device == "cpu" and not x.requires_grad for x in batch)
        return wrapped(np.stack([x.array for x in batch])) if plain else stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)):
        return tensor(np.stack(batch))
    if isinstance(first, (bool, int)):
        return tensor(np.asarray(batch))
    if isinstance(first, float):
        return tensor(np.asarray(batch, np.float64))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if not isinstance(first, Sequence):
        raise TypeError(f"expected samples of tensors, arrays, numbers, text or structures of them, got {first!r}")
    if any(len(sample) != len(first) for sample in batch):
        raise ValueError(f"expected sequences of one length in a batch, got {sorted({len(s) for s in batch})}")
    parts = [default_collate(part) for part in zip(*batch, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts) if isinstance(first, tuple) else parts


class DataLoader:
    """The batches of a data set, computed again by each iteration.

    Args:
        dataset: a `Dataset`, an `IterableDataset`, or anything with `__getitem__` and `__len__`.
        batch_size: samples of a batch; with None, samples are returned one by one, without a batch dimension.
        shuffle: whether samples are in random order.
        sampler: the order of samples instead.
        batch_sampler: lists of indices, one for each batch, instead of all of these.
        num_workers: processes that make batches; with 0, this process makes batches.
        collate_fn: makes a batch of a list of samples, by default `default_collate`.
        drop_last: leaves out a last batch that is smaller.
        timeout: the seconds to wait for a batch of workers; 0 waits without end.
        worker_init_fn: called with its index in each worker.
        generator: of the order and of the seeds of workers.
        prefetch_factor: batches that each worker makes ahead, by default 2.
        pin_memory: taken for programs of PyTorch; memory is pinned by copies to a device.
        persistent_workers: accepted without effect; workers live as long as an iteration.
        multiprocessing_context: the start method of processes, by default "fork" where supported.

    Raises:
        OneFlowError: options are incompatible.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.pin_memory, self.persistent_workers = pin_memory, persistent_workers
        self.multiprocessing_context = multiprocessing_context
        if num_workers < 0 or timeout < 0:
            raise fail(f"expected num_workers and timeout of at least 0, got {num_workers} and {timeout}")
        if self.prefetch_factor < 1:
            raise fail(f"expected prefetch_factor of at least 1, got {prefetch_factor}")
        self.is_iterable = isinstance(dataset, IterableDataset)
        self._choose_sampler(batch_size, shuffle, sampler, batch_sampler, drop_last)
        batched = self.batch_sampler is not None or (self.is_iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def _choose_sampler(
        self, batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if self.is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise fail(
                "expected no shuffle, sampler and batch_sampler for an IterableDataset, which has its own order, got"
                f" shuffle={shuffle}, sampler={sampler!r} and batch_sampler={batch_sampler!r}"
            )
        if sampler is not None and shuffle:
            raise fail("expected either sampler or shuffle, got both; leave shuffle out")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            given = {
                "batch_size": batch_size != 1,
                "shuffle": shuffle,
                "sampler": sampler is not None,
                "drop_last": drop_last,
            }
            names = ", ".join(name for name, is_given in given.items() if is_given)
            raise fail(f"expected no batch_size, shuffle, sampler and drop_last with batch_sampler, got {names}")
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last, self.batch_sampler, self.sampler = drop_last, batch_sampler, sampler
        if self.is_iterable:
            return
        if sampler is None:
            self.sampler = RandomSampler(self.dataset, generator=self.generator) if shuffle else (
                SequentialSampler(self.dataset)
            )  # fmt: skip
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)

    def __len__(self) -> int:
        if not self.is_iterable:
            return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
        size = len(self.dataset)
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers:
            return _by_workers(self)
        return self.batches_of_stream() if self.is_iterable else map(self.batch_of, self.keys())

    def keys(self) -> Iterable[Any]:
        """The samples of each batch: a list of indices, or one index."""
        keys: Iterable[Any] = self.batch_sampler if self.batch_sampler is not None else self.sampler
        return keys

    def batch_of(self, key: Any) -> Any:
        """The batch, or the sample, of a key."""
        return self.collate_fn(
            [self.dataset[i] for i in key] if self.batch_sampler is not None else self.dataset[key]
        )

    def batches_of_stream(self) -> Iterator[Any]:
        """The batches of an iterable data set."""
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)


#: The messages of a worker in place of a batch: the end of its stream, or an error as text.
_END, _ERROR, _BATCH = "end", "error", "batch"


def _packed(data: Any) -> Any:
    """A batch with tensors as arrays, which processes can send."""
    return _Array(data.numpy()) if isinstance(data, Tensor) else _mapped_exactly(_packed, data)


def _unpacked(data: Any) -> Any:
    return wrapped(data.array) if isinstance(data, _Array) else _mapped_exactly(_unpacked, data)


def _mapped_exactly(function: Callable[[Any], Any], data: Any) -> Any:
    return tuple(map(function, data)) if type(data) is tuple else _mapped(function, data)


@dataclass(frozen=True)
class _Array:
    """The values of a tensor."""

    array: Any


def _work(loader: DataLoader, info: WorkerInfo, keys: Any, results: Any) -> None:
    """Runs a worker: makes the batches of keys, or of a stream, until it is terminated.

    Batches are pickled here, not by the thread of the queue, which would drop a batch that cannot be pickled.
    """
    _worker[:] = [info]
    _seed_all(info.seed)
    try:
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(info.id)
        stream = loader.batches_of_stream() if loader.is_iterable else None
        while True:
            number, key = pickle.loads(keys.get())
            try:
                batch = loader.batch_of(key) if stream is None else next(stream)
            except StopIteration:
                results.put((number, _END, None))
                continue
            results.put((number, _BATCH, pickle.dumps(_packed(batch))))
    except Exception:
        results.put((None, _ERROR, traceback.format_exc()))


def _seed_all(seed: int) -> None:
    """Seeds every generator of random numbers of a process; workers begin with copies of the same generators."""
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _by_workers(loader: DataLoader) -> Iterator[Any]:
    """The batches of a loader in order, made by processes, which end with the iteration."""
    methods = multiprocessing.get_all_start_methods()
    method = loader.multiprocessing_context or ("fork" if "fork" in methods else methods[0])
    context: Any = multiprocessing.get_context(method) if isinstance(method, str) else method
    results = context.Queue()
    tasks = [context.Queue() for _ in range(loader.num_workers)]
    for keys in tasks:
        keys.cancel_join_thread()  # a loop that is left early leaves keys that no worker reads
    seed = (loader.generator or default_generator).next()
    infos = [WorkerInfo(i, loader.num_workers, seed + i, loader.dataset) for i in range(loader.num_workers)]
    workers = [
        context.Process(target=_work, args=(loader, info, keys, results), daemon=True)
        for info, keys in zip(infos, tasks, strict=True)
    ]
    for worker in workers:
        worker.start()
    try:
        yield from _in_order(loader, tasks, results, workers)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
        for keys in tasks:
            keys.close()


def _in_order(loader: DataLoader, tasks: Sequence[Any], results: Any, workers: Sequence[Any]) -> Iterator[Any]:
    """Distributes keys in turn, and yields the batches in that order."""
    keys = iter(enumerate(itertools.repeat(None) if loader.is_iterable else loader.keys()))
    turns, ended = itertools.cycle(range(len(tasks))), set[int]()
    waiting: collections.deque[tuple[int, int]] = collections.deque()
    arrived: dict[int, tuple[str, Any]] = {}
    while True:
        while len(waiting) < loader.prefetch_factor * len(tasks) and len(ended) < len(tasks):
            turn = next(turns)
            if turn in ended:
                continue
            task = next(keys, None)
            if task is None:
                break
            tasks[turn].put(pickle.dumps(task))
            waiting.append((task[0], turn))
        if not waiting:
            return
        number, turn = waiting.popleft()
        while number not in arrived:
            at, kind, value = _received(loader, results, workers)
            arrived[at] = kind, value
        kind, value = arrived.pop(number)
        if kind == _BATCH:
            yield _unpacked(pickle.loads(value))
        else:
            ended.add(turn)


def _received(loader: DataLoader, results: Any, workers: Sequence[Any]) -> tuple[int, str, Any]:
    """The next result of any worker.

    Raises:
        RuntimeError: a worker failed, died, or took longer than the timeout.
    """
    waited = 0.0
    while True:
        try:
            number, kind, value = results.get(timeout=min(loader.timeout or 1.0, 1.0))
        except queue.Empty:
            waited += 1.0
            if loader.timeout and waited >= loader.timeout:
                raise RuntimeError(f"expected a batch of workers within {loader.timeout} s; raise timeout") from None
            if not all(w.is_alive() for w in workers):
                raise RuntimeError(
                    "expected a batch of each worker of a DataLoader, a worker has ended without a result; use"
                    " num_workers=0 to see its error"
                ) from None
            continue
        if kind == _ERROR:
            raise RuntimeError(f"a worker of a DataLoader failed:\n{value}")
        return number, kind, value
