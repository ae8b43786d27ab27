"""From the LLVM dialect to machine code in the process, by way of a shared object.

An object that can be linked is cached on disk (`cache.py`) and loaded with ctypes. Where there is no linker the
code is compiled in the process and not cached.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.define_launches import entry_symbol
from oneflow.runtime import native
from oneflow.runtime.engine import Engine
from oneflow.runtime.parts import Part, split

#: Parts for each thread, so that all have work to the end.
PARTS = 2
#: Bytes that objects take at most beside two for each character of their text.
ROOM = 1 << 19


@dataclass(frozen=True)
class Code:
    """The entry's address, and what has to live as long as it is used."""

    address: int
    owner: Any


@functools.cache
def linker() -> tuple[str, ...] | None:
    """The command that links a shared object, or None where there is none."""
    found = (shutil.which(name) for name in ("ld", "ld.lld", "cc", "gcc", "clang"))
    return next(((path, "-shared") for path in found if path), None)


def compile_code(module: ir.Module, entry: str, level: int, path: Path | None = None) -> Code:
    """Compiles a module of the LLVM dialect; with a `path`, to a shared object there if there is a linker.

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
    """Generates code on as many threads as parallel loops have, and links it; whether that went well."""
    threads = native.num_threads()
    parts = split(module, entry, PARTS * threads if threads > 1 else 1)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(threads, len(parts))) as pool:
        if not _has_room(Path(folder) / "room", sum(len(part.code) for part in parts)):
            return False
        files = [Path(folder) / f"part{number}.o" for number in range(len(parts))]
        list(pool.map(lambda part, file: _generate(part, level, file), parts, files))
        done = subprocess.run([*command, "-o", str(path), *map(str, files)], capture_output=True, check=False)
    if done.returncode:
        path.unlink(missing_ok=True)
    return done.returncode == 0


def _has_room(file: Path, characters: int) -> bool:
    """Whether the code of so much text can be written beside a file: where it cannot, LLVM would end the process."""
    try:
        file.write_bytes(bytes(ROOM + 2 * characters))
        file.unlink()
    except OSError:
        file.unlink(missing_ok=True)
        return False
    return True


def _generate(part: Part, level: int, file: Path) -> None:
    """Writes the code of a part as an object file. It is never run where the engine puts it."""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        engine = Engine(ir.Module.parse(part.code), level, pic=True)
    for name in part.missing:
        engine.declare(name)
    engine.address(part.given[0])
    engine.write(file)


def load_object(path: Path, entry: str) -> Code:
    """The code of `entry` in a shared object.

    Raises:
        OSError: it cannot be loaded.
        AttributeError: it has no entry.
    """
    native.library()
    loaded = ctypes.CDLL(str(path))
    address = ctypes.cast(getattr(loaded, entry_symbol(entry)), ctypes.c_void_p).value
    assert address is not None
    return Code(address, loaded)
