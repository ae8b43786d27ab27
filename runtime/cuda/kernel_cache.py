"""The disk cache of compiled kernels and programs: a program in the cache needs neither Triton nor the passes.

The key of a kernel has its source, its launch parameters, the architecture and the version of Triton. The key of a
program has its text and everything that decides how the program is lowered.
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
from oneflow.runtime.cuda.compile_workers import CompileWorkers, compile_priority
from oneflow.runtime.cuda.compiler import FIRST, Binary, CompileError, compile_source
from oneflow.runtime.cuda.tensor_maps import TensorMap

#: The version of the stored format and of the compilation of kernels; a part of every key.
VERSION = "8"


@functools.cache
def warm_up(arch: str) -> None:
    """Loads Triton and compiles a first kernel; this takes as long as the compilation of many kernels.

    Raises:
        CompileError: Triton is missing.
    """
    compile_source(FIRST, arch)


@contextlib.contextmanager
def warming_up(workers: CompileWorkers, operations: int, cached: bool = True) -> Iterator[None]:
    """Prepares the compilation of kernels while the body of the context runs.

    Workers start and compile the kernels that are announced. For a program with few operations, Triton is loaded in a
    thread of this process instead. Errors are raised when a kernel is compiled.
    """
    workers.start(operations)
    if workers:
        with listening(lambda source: _compile_early(source, workers, cached)):
            yield
        return

    def run() -> None:
        with contextlib.suppress(CompileError):
            warm_up(workers.arch)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _compile_early(source: Source, workers: CompileWorkers, cached: bool) -> None:
    """Submits an announced kernel to the workers if it is not in the cache."""
    source = source.on(workers.arch)
    if source.grid.static != 0 and not (cached and _find(source, workers.arch)):
        workers.submit(source)


def compile_for_arch(
    program: Program, arch: str, cached: bool = True, workers: CompileWorkers | None = None
) -> tuple[Program, dict[str, Binary]]:
    """A program with the kernels specialized for an architecture, and the binaries of these by name.

    Gluon is not a stable interface. If Triton refuses a specialized kernel, the plain form is compiled, with a
    warning.

    Raises:
        CompileError: Triton is missing or refuses a kernel in its plain form.
    """
    specialized = program.on(arch)
    binaries, refused = _find_or_compile(specialized, arch, cached, workers)
    plain = {name: program.sources[name] for name in refused}
    for name, error in refused.items():
        if plain[name] == specialized.sources[name]:
            raise error
    if refused:
        binaries |= compile_all(replace(program, sources=plain), arch, cached, workers)
        specialized = replace(specialized, sources={**specialized.sources, **plain})
        why = str(next(iter(refused.values()))).strip().rpartition("\n")[2]
        names = f"{', '.join(refused)} in the form for {arch}"
        warnings.warn(f"Triton {_version()} does not compile {names}, the plain one runs: {why}", RuntimeWarning, 4)
    return specialized, binaries


def compile_all(
    program: Program, arch: str, cached: bool = True, workers: CompileWorkers | None = None
) -> dict[str, Binary]:
    """The binaries of all launched kernels by name, from the cache or compiled in parallel; equal kernels share one.

    Raises:
        CompileError: Triton is missing or refuses a kernel.
    """
    binaries, refused = _find_or_compile(program, arch, cached, workers)
    for error in refused.values():
        raise error
    return binaries


def _find_or_compile(
    program: Program, arch: str, cached: bool, workers: CompileWorkers | None
) -> tuple[dict[str, Binary], dict[str, CompileError]]:
    """The binaries of the kernels that compile and the errors of the others, by name."""
    sources = [s for s in program.sources.values() if s.grid.static != 0]
    representatives: dict[str, Source] = {}
    shared = {s.name: representatives.setdefault(s.binary_key, s) for s in sources}
    kernels: dict[str, Binary | CompileError | None] = {
        s.name: _find(s, arch) if cached else None for s in representatives.values()
    }
    missing = [s for s in representatives.values() if kernels[s.name] is None]
    for source, compiled in zip(missing, _compile(missing, arch, workers), strict=True):
        kernels[source.name] = compiled
        if cached and isinstance(compiled, Binary):
            _store(source, arch, compiled)
    by_name = {name: kernels[source.name] for name, source in shared.items()}
    binaries = {name: compiled for name, compiled in by_name.items() if isinstance(compiled, Binary)}
    return binaries, {name: compiled for name, compiled in by_name.items() if isinstance(compiled, CompileError)}


def _compile(sources: list[Source], arch: str, workers: CompileWorkers | None) -> list[Binary | CompileError]:
    """Compiles by workers if there are any, otherwise by threads: Triton's passes, LLVM and ptxas run without the
    GIL.
    """
    order = sorted(sources, key=compile_priority)
    if workers:
        workers.cancel_except(sources)
        futures = {s.name: workers.submit(s) for s in order}
        return [_attempt(futures[s.name].result) for s in sources]
    if sources:
        warm_up(arch)
    with ThreadPoolExecutor(native.num_threads()) as pool:
        compiled = pool.map(lambda s: _attempt(lambda: compile_source(s, arch)), order)
        done = dict(zip((s.name for s in order), compiled, strict=True))
    return [done[s.name] for s in sources]


def _attempt(make: Callable[[], Binary]) -> Binary | CompileError:
    try:
        return make()
    except CompileError as error:
        return error


@functools.cache
def _version() -> str:
    """The version of Triton, a part of the key of every kernel; cached, since reading package metadata is slow."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _key(source: Source, arch: str) -> str:
    return cache.digest_of(VERSION, arch, _version(), json.dumps(source.to_dict(), sort_keys=True))


def _find(source: Source, arch: str) -> Binary | None:
    entry = cache.find(_key(source, arch), "cubin")
    if entry is None:
        return None
    try:
        kernel = entry[1]["kernel"]
        maps = tuple(map(TensorMap.of, kernel["maps"]))
        return Binary(cubin=entry[0].read_bytes(), ptx="", **{**kernel, "maps": maps})
    except (OSError, TypeError, KeyError):
        return None


def _store(source: Source, arch: str, binary: Binary) -> None:
    kernel = {k: v for k, v in asdict(binary).items() if k not in ("cubin", "ptx")}
    cache.store(_key(source, arch), binary.cubin, {"kernel": kernel}, "cubin")


def find_program(key: str, make: Callable[[], Program]) -> Program:
    """The program under a key; if the cache has none, the result of `make`, which is stored."""
    entry = cache.find(key, "npz")
    if entry is not None:
        try:
            return _read(entry[1]["program"], entry[0].read_bytes())
        except (OSError, TypeError, KeyError, ValueError):
            pass
    program = make()
    constants = io.BytesIO()
    np.savez(constants, *(_as_unsigned(c) for c in program.constants))
    cache.store(key, constants.getvalue(), {"program": _description(program)}, "npz")
    return program


def _as_unsigned(array: np.ndarray) -> np.ndarray:
    """An array with a dtype that the files of NumPy support."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _from_unsigned(array: np.ndarray) -> np.ndarray:
    """The inverse of `_as_unsigned`: bf16 is the only dtype of constants that the files of NumPy do not have."""
    return array.view(dtypes.bfloat16.numpy) if array.dtype == np.uint16 else array


def _description(program: Program) -> dict[str, Any]:
    return {
        "name": program.name, "plan": program.plan, "workspace": program.workspace, "sites": list(program.sites),
        "externals": list(program.externals), "hosts": [asdict(h) for h in program.hosts],
        "candidates": [s.to_dict() for others in program.candidates.values() for s in others],
        "sources": [s.to_dict() for s in program.sources.values()], "results": [str(r) for r in program.results],
    }  # fmt: skip


def _read(fields: dict[str, Any], constants: bytes) -> Program:
    sources = [Source.from_dict(s) for s in fields["sources"]]
    with np.load(io.BytesIO(constants), allow_pickle=False) as arrays:
        held = tuple(_from_unsigned(arrays[f"arr_{i}"]) for i in range(len(arrays.files)))
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
        _by_name([Source.from_dict(s) for s in fields["candidates"]]),
    )


def _by_name(sources: list[Source]) -> dict[str, tuple[Source, ...]]:
    """Sources grouped by name."""
    return {name: tuple(s for s in sources if s.name == name) for name in dict.fromkeys(s.name for s in sources)}


def compile_kernel(source: Source, arch: str, cached: bool, workers: CompileWorkers | None = None) -> Binary:
    """The binary of one kernel, from the cache or compiled, by workers if there are any.

    Raises:
        CompileError: Triton is missing or refuses the kernel.
    """
    binary = _find(source, arch) if cached else None
    if binary is None:
        binary = workers.compile(source) if workers else compile_source(source, arch)
        if cached:
            _store(source, arch, binary)
    return binary
