"""The cache of compiled objects on disk: safe to delete, never in the way.

One entry is a file (a shared object, machine code of a device) and a description with its digest, both written under
another name and renamed; the folder is its owner's alone, since what lies in it is run. Whatever goes wrong
with the folder (missing rights, a full disk, rubbish in it), the entry counts as absent. Imports nothing of the
project but versions.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import oneflow
from oneflow.dialect._mlir import VERSION
from oneflow.runtime import native


def folder() -> Path:
    """Where objects are kept: $ONEFLOW_CACHE_DIR, or `oneflow-mlir` in the user's cache folder."""
    given = os.environ.get("ONEFLOW_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(given).expanduser() if given else Path(base).expanduser() / "oneflow-mlir"


@functools.cache
def processor() -> str:
    """The processor's model and features, as far as the system tells them."""
    wanted = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        lines = []
    return "\n".join([platform.machine(), *(line for line in lines if line.startswith(wanted))])


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
        whole = hashlib.sha256(path.read_bytes()).hexdigest() == description["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (path, description) if whole else None


def store(key: str, compiled: Path | bytes, description: dict[str, Any], kind: str = "so") -> None:
    """Keeps a file and its description, if the folder lets us."""
    try:
        data = compiled if isinstance(compiled, bytes) else compiled.read_bytes()
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder() / f"{key}.{kind}", data)
        text = json.dumps({**description, "sha256": hashlib.sha256(data).hexdigest()})
        _write(folder() / f"{key}.json", text.encode())
    except OSError:
        return


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
