"""Embedding tables in host memory: rows of numbers by table name and by id.

A table outlives the programs that read and write the rows. An id without a stored row has the initial row, which is a
function of the id, the seed and the initializer of the id's table, so that the order of accesses has no effect.
Initial numbers are the numbers of cuRAND's Philox generator with the id as the sequence and the column as the offset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect.locks import Lock
from oneflow.dialect.philox import numpy_philox

#: The numbers that an initializer of each type has.
INITIALIZERS = {
    "uniform": ("low", "high"),
    "normal": ("mean", "std"),
    "constant": ("value",),
    "trunc_normal": ("mean", "std", "a", "b"),
}
#: The largest number of redraws of a number outside of the bounds of `trunc_normal`.
MAX_DRAWS = 1000


@dataclass
class Table:
    """The rows of one name: `line_size` numbers of `dtype` for each id that was written."""

    name: str
    line_size: int
    dtype: np.dtype[Any]
    _places: dict[int, int] = field(default_factory=dict)
    _rows: np.ndarray = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._rows = np.empty((0, self.line_size), self.dtype)

    def __len__(self) -> int:
        return len(self._places)

    def read(self, ids: np.ndarray, initial: np.ndarray) -> np.ndarray:
        """The rows of `ids`; for ids without a stored row the rows of `initial`."""
        with self._lock.held():
            rows_of_ids = np.fromiter((self._places.get(i, -1) for i in _keys(ids)), np.int64, len(ids))
            rows = initial.astype(self.dtype)
            rows[rows_of_ids >= 0] = self._rows[rows_of_ids[rows_of_ids >= 0]]
        return rows

    def write(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Stores `rows` as the rows of `ids`; for equal ids the last row is stored."""
        with self._lock.held():
            for i in _keys(ids):
                self._places.setdefault(i, len(self._places))
            if len(self._places) > len(self._rows):
                grown = np.empty((2 * len(self._places), self.line_size), self.dtype)
                grown[: len(self._rows)] = self._rows
                self._rows = grown
            for i, row in zip(_keys(ids), rows, strict=True):
                self._rows[self._places[i]] = row

    def items(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids and the stored row of each id."""
        with self._lock.held():
            ids = np.fromiter(self._places, np.int64, len(self._places))
            return ids, self._rows[: len(ids)].copy()

    def save(self, folder: Path, share: tuple[int, int] = (1, 0)) -> None:
        """Writes the ids and rows to files of a folder, which is made; of the ids that are in a share, a divisor and
        a remainder.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ids, rows = self.items()
        own = ids % share[0] == share[1]
        for name, array in (("ids", ids[own]), ("rows", rows[own])):
            np.save(folder / f"{name}.npy", array)

    def load(self, folder: Path) -> None:
        """Replaces all ids and rows by the ids and rows that a folder contains, or the folders of shares in it.

        Raises:
            OSError: the folder has no files of ids and rows.
            ValueError: its rows are of another size or type.
        """
        folders = sorted(f for f in folder.glob("*") if f.is_dir()) or [folder]
        parts = [[np.load(f / f"{name}.npy", allow_pickle=False) for name in ("ids", "rows")] for f in folders]
        ids, rows = map(np.concatenate, zip(*parts, strict=True))
        if rows.shape != (len(ids), self.line_size) or rows.dtype != self.dtype:
            raise ValueError(
                f"expected rows of {self.line_size} {self.dtype} in {folder}, got {rows.dtype} of shape {rows.shape}"
            )
        with self._lock.held():
            self._places, self._rows = {i: n for n, i in enumerate(_keys(ids))}, rows


def _keys(ids: np.ndarray) -> list[int]:
    """Ids of any integer type as the 64-bit numbers that snapshots have."""
    keys: list[int] = ids.astype(np.int64).tolist()
    return keys


_TABLES: dict[str, Table] = {}
_tables_lock = Lock()


def table(name: str, line_size: int, dtype: Any) -> Table:
    """The table called `name`; a missing table is made.

    Raises:
        ValueError: its rows are of another size or type.
    """
    with _tables_lock.held():
        found = _TABLES.setdefault(name, Table(name, line_size, np.dtype(dtype)))
    if (found.line_size, found.dtype) != (line_size, np.dtype(dtype)):
        raise ValueError(
            f"expected rows of {found.line_size} {found.dtype}, as in the table {name!r}, got {line_size}"
            f" {np.dtype(dtype)}"
        )
    return found


def drop(name: str) -> None:
    """Removes the table called `name`, if the table exists."""
    with _tables_lock.held():
        _TABLES.pop(name, None)


@dataclass(frozen=True)
class Columns:
    """Columns of rows from `begin` to `end`, which have one initializer."""

    begin: int
    end: int
    initializer: Mapping[str, Any]


def read_initializers(tables: str, states: str, embedding_size: int, line_size: int) -> list[list[Columns]]:
    """The initialized columns of each table, from the JSON attributes of OneFlow's operators.

    `tables` has the sizes and the initializers of the columns of an embedding, `states` the initializers of the
    optimizer states that follow, each as wide as an embedding. Other columns are 0.

    Raises:
        ValueError: the JSON is malformed, or does not fit `embedding_size` and `line_size`.
    """
    try:
        stated = json.loads(tables)
        sizes = [int(size) for size in stated["column_dims"]]
        initializers = [[column["initializer"] for column in one["columns"]] for one in stated["tables"]]
        state_initializers = [*json.loads(states or "[]")]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            'expected tables as {"column_dims": [..], "tables": [{"columns": [{"initializer": {..}}]}]} and states as'
            f" a list of initializers, got {tables!r} and {states!r} ({type(error).__name__}: {error})"
        ) from None
    if sum(sizes) != embedding_size or min(sizes) < 1 or any(len(one) != len(sizes) for one in initializers):
        raise ValueError(f"expected columns of {embedding_size} numbers together in every table, got {tables}")
    if embedding_size * (1 + len(state_initializers)) > line_size:
        raise ValueError(f"expected a line_size of {1 + len(state_initializers)} embeddings, got {line_size}")
    widths = [*sizes, *[embedding_size] * len(state_initializers)]
    ends = np.cumsum(widths).tolist()
    made = []
    for of_table in initializers:
        every = [_checked(i) for i in (*of_table, *state_initializers)]
        made.append([Columns(e - w, e, i) for e, w, i in zip(ends, widths, every, strict=True)])
    return made


def _checked(initializer: Any) -> Mapping[str, Any]:
    names = INITIALIZERS.get(str(initializer.get("type"))) if isinstance(initializer, dict) else None
    if names is None or not all(isinstance(initializer.get(n), (int, float)) for n in names):
        known = "; ".join(f"{kind} with {', '.join(numbers)}" for kind, numbers in INITIALIZERS.items())
        raise ValueError(f"expected an initializer of one of {known}, got {initializer}")
    checked: Mapping[str, Any] = initializer
    return checked


def initial_rows(
    ids: np.ndarray, table_ids: np.ndarray, initializers: Sequence[Sequence[Columns]], line_size: int, seed: int
) -> np.ndarray:
    """The initial rows of ids as f32, each by the table that `table_ids` names.

    Raises:
        ValueError: `table_ids` names a missing table.
    """
    if table_ids.size and not 0 <= table_ids.min() <= table_ids.max() < len(initializers):
        raise ValueError(f"expected table ids below {len(initializers)}, the number of tables, got {table_ids.max()}")
    rows = np.zeros((len(ids), line_size), np.float32)
    for index, of_table in enumerate(initializers):
        chosen = np.flatnonzero(table_ids == index)
        for columns in of_table:
            drawn = _draw(columns, ids[chosen], line_size, seed)
            rows[chosen, columns.begin : columns.end] = drawn
    return rows


def _draw(columns: Columns, ids: np.ndarray, line_size: int, seed: int) -> np.ndarray:
    """The numbers of an initializer for ids along the first axis, columns along the second."""
    of = columns.initializer
    at = np.arange(columns.begin, columns.end, dtype=np.uint64)[None, :]
    if of["type"] == "constant":
        return np.full((len(ids), at.size), of["value"], np.float32)
    if of["type"] == "uniform":
        low, high = np.float32(of["low"]), np.float32(of["high"])
        return _uniform(_words(ids, at, seed)) * (high - low) + low
    if of["type"] == "normal":
        return _normal(ids, at, seed)[0] * np.float32(of["std"]) + np.float32(of["mean"])
    return _truncated(of, ids, at, line_size, seed)


def _words(ids: np.ndarray, offsets: np.ndarray, seed: int) -> np.ndarray:
    """Word `offsets` of the generator's sequence of each id."""
    low, bits = np.uint64(0xFFFFFFFF), np.uint64(32)
    sequences = ids.astype(np.int64).astype(np.uint64)[:, None]
    blocks, sequences = np.broadcast_arrays(offsets >> np.uint64(2), sequences)
    words = np.stack(numpy_philox([blocks & low, blocks >> bits, sequences & low, sequences >> bits], seed))
    word_indices = np.broadcast_to(offsets & np.uint64(3), blocks.shape).astype(np.int64)
    drawn: np.ndarray = np.take_along_axis(words, word_indices[None], 0)[0]
    return drawn


def _uniform(words: np.ndarray) -> np.ndarray:
    """Numbers above 0, up to 1."""
    return words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def _normal(ids: np.ndarray, offsets: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of normal numbers of two words each, by Box and Muller."""
    first, second = (_uniform(_words(ids, offsets + np.uint64(i), seed)) for i in range(2))
    radius, angle = np.sqrt(np.float32(-2.0) * np.log(first)), second * np.float32(2 * np.pi)
    return np.sin(angle) * radius, np.cos(angle) * radius


def _truncated(of: Mapping[str, Any], ids: np.ndarray, at: np.ndarray, line_size: int, seed: int) -> np.ndarray:
    """Normal numbers within bounds: both of a pair are tried, then another pair, a row further on for each trial."""
    step, drawn = np.uint64(2 + 2 * line_size), np.full((len(ids), at.size), np.nan, np.float32)
    for index in range(MAX_DRAWS):
        for normal in _normal(ids, at + np.uint64(index) * step, seed):
            value = normal * np.float32(of["std"]) + np.float32(of["mean"])
            drawn = np.where(np.isnan(drawn) & (value >= of["a"]) & (value <= of["b"]), value, drawn)
        if not np.isnan(drawn).any():
            return drawn
    raise ValueError(f"expected bounds that a normal number falls between, got {dict(of)}")
