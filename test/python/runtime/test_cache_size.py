"""The cache on disk stays below a size: the least recently used entries are removed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder; the limit is the default again afterwards."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ONEFLOW_CACHE_SIZE", raising=False)
    yield tmp_path / "cache"
    flow.config.cache_size(None)


def key(number: int) -> str:
    return cache.digest_of(str(number))


def fill(count: int, size: int = 1000) -> None:
    """Entries 0, 1, ..; each was used a second after the previous entry, long ago."""
    for number in range(count):
        cache.store(key(number), bytes(size), {"number": number})
        for file in cache.folder().glob(f"{key(number)}.*"):
            os.utime(file, (number, number))


def kept(count: int) -> list[int]:
    return [n for n in range(count) if cache.find(key(n)) is not None]


def test_the_least_recently_used_entries_are_deleted(folder: Path) -> None:
    """Whole entries, until the rest is below the limit."""
    fill(6)
    flow.config.cache_size(4 * 1200)
    cache.store(key(6), bytes(1000), {})
    assert kept(7) == [3, 4, 5, 6]
    assert sum(f.stat().st_size for f in folder.iterdir()) <= 4 * 1200


def test_recently_used_entries_are_kept(folder: Path) -> None:
    """Reading counts."""
    fill(4)
    assert cache.find(key(0)) is not None
    flow.config.cache_size("3.6K")
    cache.store(key(4), bytes(1000), {})
    assert kept(5) == [0, 3, 4]


def test_files_of_other_programs_are_kept(folder: Path) -> None:
    """Other files in the folder are kept."""
    folder.mkdir()
    (folder / "notes.txt").write_bytes(bytes(5000))
    flow.config.cache_size(1300)
    fill(3)
    assert (folder / "notes.txt").exists() and kept(3) == [2]


def test_a_limit_of_0_disables_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable; programs run all the same."""
    monkeypatch.setenv("ONEFLOW_CACHE_SIZE", "0")
    got = flow.compile(lambda x: x * 3.25)(np.ones(3, np.float32))
    np.testing.assert_array_equal(got, np.full(3, 3.25, np.float32))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), (7, 7), ("500M", 500 * 2**20), ("2g", 2**31), ("1.5 KiB", 1536), ("3TB", 3 * 2**40)]
)
def test_sizes_with_units_are_parsed(text: int | str, size: int) -> None:
    """Numbers of bytes, with a unit or without."""
    assert cache.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", -1, "2X", True, "1e9"])
def test_malformed_sizes(text: int | str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting and by the variable."""
    with pytest.raises(ValueError, match=r"expected a number of bytes such as 500000000, 500M or 2G, got"):
        flow.config.cache_size(text)
    monkeypatch.setenv("ONEFLOW_CACHE_SIZE", str(text) or " ")
    with pytest.raises(ValueError, match="ONEFLOW_CACHE_SIZE: expected"):
        cache.limit()


def test_the_folder_is_scanned_at_random(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of scans is in proportion to the stored bytes; the user's random state is unchanged."""
    scans: list[int] = []
    monkeypatch.setattr(cache, "_trim", scans.append)
    random.seed(1)
    state = random.getstate()
    flow.config.cache_size(1000 * 1000)
    chance = random.Random(0)
    for _ in range(500):
        cache.store(key(0), bytes(100), {}, chance=chance)
    assert cache.TRIMS_PER_LIMIT * 0.05 * 0.2 < len(scans) < cache.TRIMS_PER_LIMIT * 0.05 * 5
    cache.store(key(0), bytes(100), {})
    assert random.getstate() == state
