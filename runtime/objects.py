"""Machine code of a module of the LLVM dialect, by way of a shared object.

A shared object is cached on disk (`cache.py`) and loaded with ctypes. Without a linker the code is generated in the
process and not cached.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from _ctypes import dlclose, dlsym
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.define_launches import entry_symbol
from oneflow.runtime import native
from oneflow.runtime.engine import Engine
from oneflow.runtime.module_partition import Part, split

#: The number of parts for each thread; several parts balance the load.
PARTS_PER_THREAD = 2
#: An object file has at most this many bytes, and two more for each byte of bytecode.
OBJECT_OVERHEAD = 1 << 19


@dataclass(frozen=True)
class Code:
    """The address of the entry, and the owner of its memory."""

    address: int
    owner: Any


class SharedObject(ctypes.CDLL):
    """A shared object, unloaded with its last reference; `ctypes.CDLL` alone never unloads."""

    def __del__(self, close: Any = dlclose) -> None:
        if getattr(self, "_handle", None):
            close(self._handle)


@functools.cache
def linker() -> tuple[str, ...] | None:
    """The command that links a shared object; None if no linker is found."""
    paths = (shutil.which(name) for name in ("ld", "ld.lld", "cc", "gcc", "clang"))
    return next(((path, "-shared") for path in paths if path), None)


def compile_code(module: ir.Module, entry: str, level: int, path: Path | None = None) -> Code:
    """Compiles a module of the LLVM dialect; with a `path` and a linker, to a shared object at the path.

    Raises:
        RuntimeError: a symbol is missing.
    """
    native.library()
    command = linker() if path is not None else None
    if command is not None and path is not None and _link(command, module, entry, level, path):
        return load_object(path, entry)
    engine = Engine(module, level, pic=False)
    return Code(engine.address(entry_symbol(entry)), engine)


def _link(command: Sequence[str], module: ir.Module, entry: str, level: int, path: Path) -> bool:
    """Generates code on as many threads as parallel loops use, and links it; returns whether that succeeded."""
    threads = native.num_threads()
    parts = split(module, entry, PARTS_PER_THREAD * threads if threads > 1 else 1)
    with tempfile.TemporaryDirectory() as folder:
        if not _has_disk_space(Path(folder) / "space", sum(len(part.code) for part in parts)):
            return False
        files = [Path(folder) / f"part{index}.o" for index in range(len(parts))]
        if len(parts) == 1:
            _generate(module, parts[0], level, files[0])
        else:
            with ThreadPoolExecutor(min(threads, len(parts))) as pool:
                list(pool.map(lambda part, file: _generate_in_context(part, level, file), parts, files))
        done = subprocess.run([*command, "-o", str(path), *map(str, files)], capture_output=True, check=False)
    if done.returncode:
        path.unlink(missing_ok=True)
    return done.returncode == 0


def _has_disk_space(file: Path, characters: int) -> bool:
    """Whether the disk has space for the code of so many bytes of bytecode; without space, LLVM ends the process."""
    try:
        file.write_bytes(bytes(OBJECT_OVERHEAD + 2 * characters))
        file.unlink()
    except OSError:
        file.unlink(missing_ok=True)
        return False
    return True


def _generate_in_context(part: Part, level: int, file: Path) -> None:
    """Writes the code of a part as an object file, in a separate context, which each thread needs."""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        _generate(ir.Module.parse(part.code), part, level, file)


def _generate(module: ir.Module, part: Part, level: int, file: Path) -> None:
    """Writes the code of a part, which is `module`, as an object file. The copy in the engine never runs."""
    engine = Engine(module, level, pic=True)
    for name in part.imported:
        engine.declare(name)
    engine.address(part.exported[0])
    engine.write(file)


def load_object(path: Path, entry: str) -> Code:
    """The code of `entry` in a shared object.

    Raises:
        OSError: the object cannot be loaded, or has no such entry.
    """
    native.library()
    loaded = SharedObject(str(path))
    # A function of `ctypes` would keep the object loaded until the garbage collector runs.
    return Code(dlsym(loaded._handle, entry_symbol(entry)), loaded)
