"""Options of embedding tables as dicts: initializers, columns, tables and stores.

A store is in host memory; options about caches have no effect. The path of a store is the folder of snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "make_cached_host_mem_store_options", "make_cached_ssd_store_options", "make_column_options",
    "make_constant_initializer", "make_device_mem_store_options", "make_normal_initializer", "make_table",
    "make_table_options", "make_trunc_normal_initializer", "make_uniform_initializer",
]  # fmt: skip

Options = dict[str, Any]


def make_uniform_initializer(low: float = 0.0, high: float = 1.0) -> Options:
    """Numbers from `low` to `high`, each as likely as another."""
    return {"type": "uniform", "low": low, "high": high}


def make_normal_initializer(mean: float = 0.0, std: float = 1.0) -> Options:
    """Normal numbers."""
    return {"type": "normal", "mean": mean, "std": std}


def make_constant_initializer(value: float) -> Options:
    """Rows of one number."""
    return {"type": "constant", "value": value}


def make_trunc_normal_initializer(mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Options:
    """Normal numbers; numbers outside of `a` to `b` are drawn again."""
    return {"type": "trunc_normal", "mean": mean, "std": std, "a": a, "b": b}


def make_column_options(initializer: Options) -> Options:
    """A column of a table with several columns."""
    return {"initializer": initializer}


def make_table_options(param: Options | Sequence[Options]) -> Options:
    """A table of an initializer, or of a list of columns.

    Raises:
        ValueError: `param` is neither.
    """
    if isinstance(param, dict):
        return {"initializer": param}
    if isinstance(param, (list, tuple)):
        return {"columns": list(param)}
    raise ValueError(f"expected an initializer or a list of columns, got {param!r}")


make_table = make_table_options


def _store(
    path: str | Sequence[str], capacity: int, caches: list[Options], size_factor: int, storage_dim: int, block: int
) -> Options:
    if not isinstance(path, (str, list, tuple)):
        raise ValueError(f"expected persistent_path to be a path or a list of paths, got {path!r}")
    if capacity < 0:
        raise ValueError(f"expected capacity of at least 0, got {capacity}")
    table = {"path": path, "physical_block_size": block, "capacity_hint": int(capacity)}
    return {
        "kv_store": {"caches": caches, "persistent_table": table},
        "size_factor": size_factor,
        "storage_dim": storage_dim,
    }


def _cache(policy: str, memory: str, **limit: int) -> Options:
    wrong = next((f"{name} above 0, got {value}" for name, value in limit.items() if value <= 0), None)
    if wrong is not None:
        raise ValueError(f"expected {wrong}")
    return {"policy": policy, "value_memory_kind": memory, **limit}


def make_device_mem_store_options(
    persistent_path: str | Sequence[str],
    capacity: int,
    size_factor: int = 1,
    storage_dim: int = -1,
    physical_block_size: int = 4096,
) -> Options:
    """A store that OneFlow keeps in the memory of a device.

    Args:
        persistent_path: the folder of snapshots, or one for each rank.
        capacity: the number of ids.
        size_factor: embeddings in a row: 1 for SGD, 2 with momentum or for Adagrad, 3 for Adam and Ftrl.
        storage_dim: numbers in a row, in place of `size_factor`.
        physical_block_size: the sector size of OneFlow's files.

    Raises:
        ValueError: a number is out of range.
    """
    caches = [_cache("full", "device", capacity=int(capacity))]
    return _store(persistent_path, capacity, caches, size_factor, storage_dim, physical_block_size)


def make_cached_ssd_store_options(
    cache_budget_mb: int,
    persistent_path: str | Sequence[str],
    capacity: int | None = None,
    size_factor: int = 1,
    storage_dim: int = -1,
    physical_block_size: int = 4096,
    host_cache_budget_mb: int = 0,
) -> Options:
    """A store that OneFlow keeps in files; see `make_device_mem_store_options`.

    Raises:
        ValueError: a number is out of range, or both caches have no memory.
    """
    if cache_budget_mb <= 0 and host_cache_budget_mb <= 0:
        raise ValueError(
            "expected cache_budget_mb or host_cache_budget_mb above 0, got"
            f" {cache_budget_mb} and {host_cache_budget_mb}"
        )
    budgets = (("device", cache_budget_mb), ("host", host_cache_budget_mb))
    caches = [_cache("lru", memory, cache_memory_budget_mb=budget) for memory, budget in budgets if budget > 0]
    return _store(persistent_path, capacity or 0, caches, size_factor, storage_dim, physical_block_size)


def make_cached_host_mem_store_options(
    cache_budget_mb: int,
    persistent_path: str | Sequence[str],
    capacity: int,
    size_factor: int = 1,
    storage_dim: int = -1,
    physical_block_size: int = 4096,
) -> Options:
    """A store that OneFlow keeps in the memory of the host; see `make_device_mem_store_options`.

    Raises:
        ValueError: a number is out of range.
    """
    device = _cache("lru", "device", cache_memory_budget_mb=cache_budget_mb)
    caches = [device, _cache("full", "host", capacity=int(capacity))]
    return _store(persistent_path, capacity, caches, size_factor, storage_dim, physical_block_size)
