"""From the LLVM dialect to machine code in the process, by way of a shared object.

An object that can be linked is cached on disk (`cache.py`) and loaded with ctypes. Where there is no linker the
code is compiled in the process and not cached. Imports `native` and the MLIR seam.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneflow.dialect._mlir import execution_engine, ir
from oneflow.lowering.llvm.launch import entry_symbol
from oneflow.runtime import native


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
    """Compiles a module of the LLVM dialect; with a `path`, to a shared object there if there is a linker."""
    native.library()
    command = linker() if path is not None else None
    engine = execution_engine.ExecutionEngine(
        module, opt_level=level, shared_libs=[], enable_object_dump=True, enable_pic=command is not None
    )
    address = _jit_address(engine, entry)
    if command is not None and path is not None:
        with tempfile.TemporaryDirectory() as folder:
            relocatable = Path(folder) / "program.o"
            engine.dump_to_object_file(str(relocatable))
            done = subprocess.run([*command, "-o", str(path), str(relocatable)], capture_output=True, check=False)
        if done.returncode == 0:
            return load_object(path, entry)
    return Code(address, engine)


def _jit_address(engine: execution_engine.ExecutionEngine, entry: str) -> int:
    """The entry's address in the process; the lookup is also what makes the engine generate code.

    Raises:
        RuntimeError: a symbol is missing.
    """
    packed = engine.raw_lookup(f"{entry_symbol(entry)}_address")
    if not packed:
        raise RuntimeError("expected the compiled program to link; see the JIT's message on stderr")
    address = ctypes.c_void_p()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(packed)((ctypes.c_void_p * 1)(ctypes.addressof(address)))
    assert address.value is not None
    return address.value


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
