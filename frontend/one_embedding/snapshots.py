"""Rows of tables in folders: reads the files of `save_snapshot`, and writes the files for `load_snapshot`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.dialect.embedding_tables import Table

__all__ = [
    "PersistentTableReader",
    "PersistentTableWriter",
    "make_persistent_table_reader",
    "make_persistent_table_writer",
]


class _Snapshot:
    """The rows of a snapshot in several folders; the remainder of an id determines the folder."""

    def __init__(
        self, paths: Sequence[str], snapshot_name: str, key_type: DType, value_type: DType, storage_dim: int
    ) -> None:
        if isinstance(paths, str) or not paths:
            raise ValueError(f"expected a list of paths, got {paths!r}")
        if not key_type.is_integer or not value_type.is_float:
            raise ValueError(f"expected keys of integers and values of floats, got {key_type} and {value_type}")
        self.key_type, self.value_type, self.storage_dim = key_type, value_type, storage_dim
        self.folders = [Path(path) / "snapshots" / snapshot_name for path in paths]
        self.tables = [Table(str(f), storage_dim, np.dtype(value_type.numpy)) for f in self.folders]

    def close(self) -> None:
        """Ends the work with the files."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PersistentTableReader(_Snapshot):
    """Iterates over the ids and rows of a snapshot, folder by folder.

    Raises:
        OSError: the snapshot does not exist.
        ValueError: the rows of the snapshot have another size or type.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        for held, folder in zip(self.tables, self.folders, strict=True):
            held.load(folder)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for held in self.tables:
            ids, rows = held.items()
            if len(ids):
                yield ids.astype(self.key_type.numpy), rows


class PersistentTableWriter(_Snapshot):
    """Writes ids and rows to a snapshot, whose files are complete after `close`."""

    def write(self, keys: Any, values: Any) -> None:
        """Stores `values` as the rows of `keys`.

        Raises:
            ValueError: `keys` or `values` do not have the stated types and sizes.
        """
        ids, rows = np.asarray(keys), np.asarray(values)
        wanted = (ids.size, self.storage_dim)
        types = self.key_type.numpy, self.value_type.numpy
        if ids.ndim != 1 or rows.shape != wanted or (ids.dtype, rows.dtype) != types:
            raise ValueError(
                f"expected keys of {self.key_type.mlir} and values of {self.value_type.mlir} of shape {wanted}, got"
                f" {ids.dtype} of shape {ids.shape} and {rows.dtype} of shape {rows.shape}"
            )
        for number, held in enumerate(self.tables):
            own = ids.astype(np.int64) % len(self.tables) == number
            held.write(ids[own], rows[own])

    def close(self) -> None:
        """Writes the files."""
        for held, folder in zip(self.tables, self.folders, strict=True):
            held.save(folder)


def make_persistent_table_reader(
    paths: Sequence[str],
    snapshot_name: str,
    key_type: DType,
    value_type: DType,
    storage_dim: int,
    physical_block_size: int = 4096,
) -> PersistentTableReader:
    """A reader of the snapshots in `paths`; `storage_dim` are the numbers in a row.

    `physical_block_size` belongs to OneFlow's files, and has no meaning here.
    """
    return PersistentTableReader(paths, snapshot_name, key_type, value_type, storage_dim)


def make_persistent_table_writer(
    paths: Sequence[str],
    snapshot_name: str,
    key_type: DType,
    value_type: DType,
    storage_dim: int,
    physical_block_size: int = 4096,
) -> PersistentTableWriter:
    """A writer of snapshots; see `make_persistent_table_reader`."""
    return PersistentTableWriter(paths, snapshot_name, key_type, value_type, storage_dim)
