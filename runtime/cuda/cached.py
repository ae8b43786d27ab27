"""Compiled kernels and programs kept on disk, so that a program seen before needs neither Triton nor the passes.

A kernel is found by its source, how it is launched, the architecture and Triton's version; a program by its text and
everything that decides what it becomes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.tensor_desc import parse_desc
from oneflow.lowering.triton.early_compilation import listening
from oneflow.lowering.triton.launch.program import Program
from oneflow.lowering.triton.launch.unsupported import HostKernel
from oneflow.lowering.triton.source import Source
from oneflow.runtime import cache, native
from oneflow.runtime.cuda.compiler import FIRST, Binary, CompileError, compile_source
from oneflow.runtime.cuda.helpers import Helpers, turn
from oneflow.runtime.cuda.tensor_maps import TensorMap

#: Raised when what is stored, or how kernels are compiled, changes.
VERSION = "7"


@functools.cache
def get_ready(arch: str) -> None:
    """Loads what compiling any kernel needs, which takes as long as compiling many.

    Raises:
        CompileError: Triton is missing.
    """
    compile_source(FIRST, arch)


@contextlib.contextmanager
def getting_ready(helpers: Helpers, operations: int, cached: bool = True) -> Iterator[None]:
    """Has what compiling needs get ready beside what is done within it: helpers, which begin with kernels that are
    announced, or for a program with few operations Triton here. What fails there fails again when a kernel is
    compiled.
    """
    helpers.start(operations)
    if helpers:
        with listening(lambda source: _begin(source, helpers, cached)):
            yield
        return

    def run() -> None:
        with contextlib.suppress(CompileError):
            get_ready(helpers.arch)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _begin(source: Source, helpers: Helpers, cached: bool) -> None:
    """Has helpers compile what a program will need, if it is not on the disk."""
    source = source.on(helpers.arch)
    if source.grid != "0" and not (cached and _find(source, helpers.arch)):
        helpers.begin(source)


def compile_on(
    program: Program, arch: str, cached: bool = True, helpers: Helpers | None = None
) -> tuple[Program, dict[str, Binary]]:
    """A program as an architecture runs it, and its kernels: with the special forms of these, but for those that
    Triton, whose Gluon keeps no promise of stability, refuses.

    Raises:
        CompileError: Triton is missing or refuses a kernel in its plain form.
    """
    taken = program.on(arch)
    binaries, refused = _made(taken, arch, cached, helpers)
    plain = {name: program.sources[name] for name in refused}
    for name, error in refused.items():
        if plain[name] == taken.sources[name]:
            raise error
    if refused:
        binaries |= compile_all(replace(program, sources=plain), arch, cached, helpers)
        taken = replace(taken, sources={**taken.sources, **plain})
        why = str(next(iter(refused.values()))).strip().rpartition("\n")[2]
        names = f"{', '.join(refused)} in the form for {arch}"
        warnings.warn(f"Triton {_version()} does not compile {names}, the plain one runs: {why}", RuntimeWarning, 4)
    return taken, binaries


def compile_all(
    program: Program, arch: str, cached: bool = True, helpers: Helpers | None = None
) -> dict[str, Binary]:
    """Every kernel that is ever launched, from the disk or compiled side by side; those alike share a binary.

    Raises:
        CompileError: Triton is missing or refuses a kernel.
    """
    binaries, refused = _made(program, arch, cached, helpers)
    for error in refused.values():
        raise error
    return binaries


def _made(
    program: Program, arch: str, cached: bool, helpers: Helpers | None
) -> tuple[dict[str, Binary], dict[str, CompileError]]:
    """The kernels that compile, and why others do not, by name."""
    sources = [s for s in program.sources.values() if s.grid != "0"]
    alike: dict[str, Source] = {}
    shared = {s.name: alike.setdefault(s.meaning, s) for s in sources}
    found: dict[str, Binary | CompileError | None] = {
        s.name: _find(s, arch) if cached else None for s in alike.values()
    }
    missing = [s for s in alike.values() if found[s.name] is None]
    for source, made in zip(missing, _compile(missing, arch, helpers), strict=True):
        found[source.name] = made
        if cached and isinstance(made, Binary):
            _store(source, arch, made)
    every = {name: found[source.name] for name, source in shared.items()}
    binaries = {name: made for name, made in every.items() if isinstance(made, Binary)}
    return binaries, {name: made for name, made in every.items() if isinstance(made, CompileError)}


def _compile(sources: list[Source], arch: str, helpers: Helpers | None) -> list[Binary | CompileError]:
    """By helpers, or where there are none by threads here, of which Triton's passes, LLVM and ptxas need no turns."""
    order = sorted(sources, key=turn)
    if helpers:
        helpers.leave(sources)
        begun = {s.name: helpers.begin(s) for s in order}
        return [_attempt(begun[s.name].result) for s in sources]
    if sources:
        get_ready(arch)
    with ThreadPoolExecutor(native.num_threads()) as pool:
        made = pool.map(lambda s: _attempt(lambda: compile_source(s, arch)), order)
        done = dict(zip((s.name for s in order), made, strict=True))
    return [done[s.name] for s in sources]


def _attempt(make: Callable[[], Binary]) -> Binary | CompileError:
    try:
        return make()
    except CompileError as error:
        return error


@functools.cache
def _version() -> str:
    """Triton's version, which is part of every kernel's key: to read it takes a fifth of a millisecond."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _key(source: Source, arch: str) -> str:
    return cache.digest_of(VERSION, arch, _version(), json.dumps(source.to_dict(), sort_keys=True))


def _find(source: Source, arch: str) -> Binary | None:
    found = cache.find(_key(source, arch), "cubin")
    if found is None:
        return None
    try:
        kernel = found[1]["kernel"]
        maps = tuple(map(TensorMap.of, kernel["maps"]))
        return Binary(cubin=found[0].read_bytes(), ptx="", **{**kernel, "maps": maps})
    except (OSError, TypeError, KeyError):
        return None


def _store(source: Source, arch: str, binary: Binary) -> None:
    kernel = {k: v for k, v in asdict(binary).items() if k not in ("cubin", "ptx")}
    cache.store(_key(source, arch), binary.cubin, {"kernel": kernel}, "cubin")


def find_program(key: str, make: Callable[[], Program]) -> Program:
    """The program under a key, made and kept where there is none."""
    found = cache.find(key, "npz")
    if found is not None:
        try:
            return _read(found[1]["program"], found[0].read_bytes())
        except (OSError, TypeError, KeyError, ValueError):
            pass
    program = make()
    constants = io.BytesIO()
    np.savez(constants, *(_bits(c) for c in program.constants))
    cache.store(key, constants.getvalue(), {"program": _description(program)}, "npz")
    return program


def _bits(array: np.ndarray) -> np.ndarray:
    """An array as a type that NumPy's files know."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _from_bits(array: np.ndarray) -> np.ndarray:
    """The array whose `_bits` these are: bf16 is the one type of ours that NumPy's files do not know."""
    return array.view(dtypes.bfloat16.numpy) if array.dtype == np.uint16 else array


def _description(program: Program) -> dict[str, Any]:
    return {
        "name": program.name, "plan": program.plan, "workspace": program.workspace, "sites": list(program.sites),
        "externals": list(program.externals), "hosts": [asdict(h) for h in program.hosts],
        "choices": [s.to_dict() for others in program.choices.values() for s in others],
        "sources": [s.to_dict() for s in program.sources.values()], "results": [str(r) for r in program.results],
    }  # fmt: skip


def _read(fields: dict[str, Any], constants: bytes) -> Program:
    sources = [Source.from_dict(s) for s in fields["sources"]]
    with np.load(io.BytesIO(constants), allow_pickle=False) as arrays:
        held = tuple(_from_bits(arrays[f"arr_{i}"]) for i in range(len(arrays.files)))
    results = tuple(d for d in map(parse_desc, fields["results"]) if d is not None)
    by_name = {s.name: s for s in sources}
    return Program(
        fields["name"],
        fields["plan"],
        by_name,
        fields["workspace"],
        tuple(fields["sites"]),
        results,
        held,
        tuple(fields["externals"]),
        tuple(HostKernel(**h) for h in fields["hosts"]),
        _grouped([Source.from_dict(s) for s in fields["choices"]]),
    )


def _grouped(sources: list[Source]) -> dict[str, tuple[Source, ...]]:
    """Sources by their names."""
    return {name: tuple(s for s in sources if s.name == name) for name in dict.fromkeys(s.name for s in sources)}


def compile_kernel(source: Source, arch: str, cached: bool, helpers: Helpers | None = None) -> Binary:
    """One kernel, from the disk or compiled, by helpers where there are some.

    Raises:
        CompileError: Triton is missing or refuses it.
    """
    binary = _find(source, arch) if cached else None
    if binary is None:
        binary = helpers.compile(source) if helpers else compile_source(source, arch)
        if cached:
            _store(source, arch, binary)
    return binary
