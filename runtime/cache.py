"""The cache of compiled objects on disk: safe to delete, never in the way.

One entry is a file (a shared object, machine code of a device) and a description, which has the digest of both and of
the entry's name; both are written under another name and renamed. The folder is its owner's alone, since what lies in
it is run. Whatever goes wrong with the folder (missing rights, a full disk, rubbish in it), the entry counts as
absent. Entries that were not used for longest go when all take more than `limit`: looking through a large folder
takes long, so that is done for a store now and then, on average once for each 32nd part of the limit that all
processes store.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oneflow
from oneflow.dialect._mlir import VERSION
from oneflow.lowering.targets.host import cpu_info, host_architecture
from oneflow.runtime import native

#: How many bytes entries take together, where neither `set_limit` nor $ONEFLOW_CACHE_SIZE says it.
DEFAULT_LIMIT = 2 * 2**30
#: How often the folder is looked through while as many bytes as the limit are stored.
LOOKS = 32
#: Apart from the numbers that a user's program seeds and draws.
_CHANCE = random.SystemRandom()
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ENTRY = re.compile(r"(?P<key>[0-9a-f]{40})\.")
_chosen: list[int] = []


def parse_size(size: int | str) -> int:
    """A number of bytes, or text such as `500M` or `2G`, as bytes.

    Raises:
        ValueError: it is neither.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(size).strip(), re.IGNORECASE)
    if isinstance(size, bool) or match is None:
        raise ValueError(f"expected a number of bytes such as 500000000, 500M or 2G, got {size!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def set_limit(size: int | str | None) -> None:
    """Sets how many bytes entries may take together from now on; 0 keeps nothing, None is the default again.

    Raises:
        ValueError: that is no size.
    """
    _chosen[:] = [] if size is None else [parse_size(size)]


def limit() -> int:
    """How many bytes entries may take: what was set, $ONEFLOW_CACHE_SIZE, or 2 GiB.

    Raises:
        ValueError: the variable is no size.
    """
    given = os.environ.get("ONEFLOW_CACHE_SIZE")
    if _chosen or not given:
        return _chosen[0] if _chosen else DEFAULT_LIMIT
    try:
        return parse_size(given)
    except ValueError as error:
        raise ValueError(f"ONEFLOW_CACHE_SIZE: {error}") from None


def folder() -> Path:
    """Where objects are kept: $ONEFLOW_CACHE_DIR, or `oneflow-mlir` in the user's cache folder."""
    given = os.environ.get("ONEFLOW_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(given).expanduser() if given else Path(base).expanduser() / "oneflow-mlir"


@functools.cache
def processor() -> str:
    """The processor's model and features, as far as the system tells them."""
    facts = cpu_info()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join([host_architecture(), *(facts.get(name, "") for name in wanted)])


@functools.cache
def compiler() -> str:
    """What of this package decides what a program becomes: the contents of its sources, by size and time."""
    root = Path(oneflow.__file__).resolve().parent
    parts = [VERSION, str(native.VERSION), processor()]
    for name in ("dialect", "passes", "lowering", "runtime"):
        for path in sorted((root / name).resolve().rglob("*.py")):
            status = path.stat()
            parts.append(f"{name}/{path.name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


def key_of(*texts: str) -> str:
    """The key of a program: its text, options, and everything of `compiler`."""
    return digest_of(compiler(), *texts)


def digest_of(*texts: str) -> str:
    """The key of what is made of nothing but `texts`."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{len(text)}:".encode())
        digest.update(text.encode())
    return digest.hexdigest()[:40]


def find(key: str, kind: str = "so") -> tuple[Path, dict[str, Any]] | None:
    """The file and description under a key, or None."""
    path = folder() / f"{key}.{kind}"
    try:
        description = json.loads((folder() / f"{key}.json").read_text(encoding="utf-8"))
        whole = description.pop("sha256") == _digest(path.name, path.read_bytes(), description)
        _touch(folder() / f"{key}.json")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (path, description) if whole else None


def _digest(name: str, data: bytes, description: dict[str, Any]) -> str:
    """The digest of a whole entry."""
    digest = hashlib.sha256(data)
    digest.update(f"\n{name}\n{json.dumps(description, sort_keys=True)}".encode())
    return digest.hexdigest()


def store(key: str, compiled: Path | bytes, description: dict[str, Any], kind: str = "so") -> None:
    """Keeps a file and its description, if the folder lets us, and lets go of what was not used for longest."""
    most = limit()
    if not most:
        return
    try:
        data = compiled if isinstance(compiled, bytes) else compiled.read_bytes()
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        name, kept = f"{key}.{kind}", json.loads(json.dumps(description))
        _write(folder() / name, data)
        text = json.dumps({**kept, "sha256": _digest(name, data, kept)})
        _write(folder() / f"{key}.json", text.encode())
        if _CHANCE.random() * most < LOOKS * len(data):
            _trim(most)
    except OSError:
        return


def _touch(path: Path) -> None:
    """Notes that an entry was used; times of access are not kept on every disk."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _trim(most: int) -> None:
    """Deletes the entries that were used longest ago, until the others take at most `most` bytes."""
    entries: dict[str, list[os.DirEntry[str]]] = {}
    for file in os.scandir(folder()):
        if match := _ENTRY.match(file.name):
            entries.setdefault(match["key"], []).append(file)
    facts = [(_used(files), _bytes(files), files) for files in entries.values()]
    total = sum(size for _, size, _ in facts)
    for _, size, files in sorted(facts, key=lambda fact: fact[0]):
        if total <= most:
            return
        total -= size
        for file in files:
            Path(file.path).unlink(missing_ok=True)


def _used(files: Sequence[os.DirEntry[str]]) -> int:
    return max(status.st_mtime_ns for status in _states(files))


def _bytes(files: Sequence[os.DirEntry[str]]) -> int:
    return sum(status.st_size for status in _states(files))


def _states(files: Sequence[os.DirEntry[str]]) -> list[os.stat_result]:
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
