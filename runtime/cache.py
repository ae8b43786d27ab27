"""The disk cache (object cache) and its cache keys. Deleting the cache is always safe.

Callers choose the content of a cache key: `executable.py` for programs, `cuda/executable.py` for plans,
`cuda/kernel_cache.py` for kernels and `cuda/autotune.py` for tuned configurations.

An entry is a file (a shared object, or machine code for a device) and a description in JSON. The description has a
digest of the file, the description and the name of the entry. The two files are written under another name and
renamed. The folder is readable by its owner alone, since the cached code is executed. After any error (missing
rights, a full disk, corrupt files) an entry counts as absent.

When all entries exceed `limit` bytes, the least recently used ones are deleted. Scanning a large folder is slow, so a
store scans it at random: on average once for each 1/32 of the limit that all processes store.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import oneflow
from oneflow.dialect._mlir import VERSION
from oneflow.lowering.targets.host import cpu_info, host_architecture
from oneflow.runtime import native

#: The limit in bytes if neither `set_limit` nor $ONEFLOW_CACHE_SIZE sets one.
DEFAULT_LIMIT = 2 * 2**30
#: The expected number of scans of the folder while as many bytes as the limit are stored.
TRIMS_PER_LIMIT = 32
#: Decides when the folder is scanned; the random numbers of the user's program stay reproducible.
_SCAN_CHANCE = random.SystemRandom()
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ENTRY = re.compile(r"(?P<key>[0-9a-f]{40})\.")
_limit_override: list[int] = []


def parse_size(size: int | str) -> int:
    """A number of bytes, or text such as `500M` or `2G`, as bytes.

    Raises:
        ValueError: the size has another form.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(size).strip(), re.IGNORECASE)
    if isinstance(size, bool) or match is None:
        raise ValueError(f"expected a number of bytes such as 500000000, 500M or 2G, got {size!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def set_limit(size: int | str | None) -> None:
    """Sets the limit of the cache in bytes; 0 disables the cache, None restores the default.

    Raises:
        ValueError: the size has another form.
    """
    _limit_override[:] = [] if size is None else [parse_size(size)]


def limit() -> int:
    """The limit of the cache in bytes: the limit of `set_limit`, $ONEFLOW_CACHE_SIZE, or 2 GiB.

    Raises:
        ValueError: the variable is not a size.
    """
    text = os.environ.get("ONEFLOW_CACHE_SIZE")
    if _limit_override or not text:
        return _limit_override[0] if _limit_override else DEFAULT_LIMIT
    try:
        return parse_size(text)
    except ValueError as error:
        raise ValueError(f"ONEFLOW_CACHE_SIZE: {error}") from None


def folder() -> Path:
    """The folder of the cache: $ONEFLOW_CACHE_DIR, or `oneflow-mlir` in the cache folder of the user."""
    path = os.environ.get("ONEFLOW_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(path).expanduser() if path else Path(base).expanduser() / "oneflow-mlir"


@functools.cache
def processor() -> str:
    """The model and features of the processor, as far as the system reports them."""
    facts = cpu_info()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join([host_architecture(), *(facts.get(name, "") for name in wanted)])


@functools.cache
def compiler() -> str:
    """The version of the compiler: processor, library versions, and the sizes and times of the sources of this
    package.
    """
    root = Path(oneflow.__file__).resolve().parent
    parts = [VERSION, str(native.VERSION), processor()]
    for name in ("dialect", "passes", "lowering", "runtime"):
        parts += [f"{name}/{file}" for file in sorted(_sources((root / name).resolve()))]
    return "\n".join(parts)


def _sources(folder: Path) -> Iterator[str]:
    """The name, size and time of each Python file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _sources(Path(entry.path))
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{entry.name} {status.st_size} {status.st_mtime_ns}"


def key_of(*texts: str) -> str:
    """The key of a program: a digest of its texts and of `compiler()`."""
    return digest_of(compiler(), *texts)


def digest_of(*texts: str) -> str:
    """A digest of texts."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{len(text)}:".encode())
        digest.update(text.encode())
    return digest.hexdigest()[:40]


def find(key: str, kind: str = "so") -> tuple[Path, dict[str, Any]] | None:
    """The file and the description under a key; None if the cache has no intact entry."""
    path = folder() / f"{key}.{kind}"
    try:
        description = json.loads((folder() / f"{key}.json").read_text(encoding="utf-8"))
        is_intact = description.pop("sha256") == _digest(path.name, path.read_bytes(), description)
        _mark_used(folder() / f"{key}.json")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (path, description) if is_intact else None


def _digest(name: str, data: bytes, description: dict[str, Any]) -> str:
    """The digest of an entry: of its name, data and description."""
    digest = hashlib.sha256(data)
    digest.update(f"\n{name}\n{json.dumps(description, sort_keys=True)}".encode())
    return digest.hexdigest()


def store(
    key: str,
    compiled: Path | bytes,
    description: dict[str, Any],
    kind: str = "so",
    chance: random.Random = _SCAN_CHANCE,
) -> None:
    """Stores a file and its description; errors are ignored.

    Deletes the least recently used entries at some stores, which `chance` chooses.
    """
    max_bytes = limit()
    if not max_bytes:
        return
    try:
        data = compiled if isinstance(compiled, bytes) else compiled.read_bytes()
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        name, kept = f"{key}.{kind}", json.loads(json.dumps(description))
        _write(folder() / name, data)
        text = json.dumps({**kept, "sha256": _digest(name, data, kept)})
        _write(folder() / f"{key}.json", text.encode())
        if chance.random() * max_bytes < TRIMS_PER_LIMIT * len(data):
            _trim(max_bytes)
    except OSError:
        return


def _mark_used(path: Path) -> None:
    """Sets the modification time of an entry as its last use; not every file system keeps access times."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _trim(max_bytes: int) -> None:
    """Deletes the least recently used entries until the others take at most `max_bytes` bytes."""
    entries: dict[str, list[os.DirEntry[str]]] = {}
    for file in os.scandir(folder()):
        if match := _ENTRY.match(file.name):
            entries.setdefault(match["key"], []).append(file)
    facts = [(_last_use(files), _bytes(files), files) for files in entries.values()]
    total = sum(size for _, size, _ in facts)
    for _, size, files in sorted(facts, key=lambda fact: fact[0]):
        if total <= max_bytes:
            return
        total -= size
        for file in files:
            Path(file.path).unlink(missing_ok=True)


def _last_use(files: Sequence[os.DirEntry[str]]) -> int:
    return max(status.st_mtime_ns for status in _statuses(files))


def _bytes(files: Sequence[os.DirEntry[str]]) -> int:
    return sum(status.st_size for status in _statuses(files))


def _statuses(files: Sequence[os.DirEntry[str]]) -> list[os.stat_result]:
    return [file.stat() for file in files]


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
