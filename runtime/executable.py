"""Compiled programs: `compile_module(module, entry)` returns a `CpuExecutable`, which is called with arrays."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.dialect.oneflow import exclusive
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.pipelines import STAGES
from oneflow.lowering.targets.selection import check_runs_on_host
from oneflow.runtime import cache, native, objects
from oneflow.runtime.arguments import ArgumentError, Parameter, address_of, as_array, bind
from oneflow.runtime.collectives.kernel import Collectives
from oneflow.runtime.external import make_externals
from oneflow.runtime.failed_runs import FailedRuns
from oneflow.runtime.failures import KernelError, OutOfBoundsError, RunError, SizeError
from oneflow.runtime.fast_path import fast_path
from oneflow.runtime.footprint import Donated, Footprint
from oneflow.runtime.program_source import CompiledMetadata, ProgramSource, signature_of
from oneflow.runtime.results import Memory, ResultFormat, dynamic_axes, parse_result_type

#: A run on the CPU needs no module of the Triton backend.
triton_program = lazy("oneflow.lowering.triton.launch.program")


@dataclass(frozen=True)
class Options:
    """Compilation options: `cached` uses the disk cache, `level` is the optimization level of LLVM (0 to 3).

    Kernels reach LLVM vectorized and unrolled, so that level 3 makes compilation longer and no kernel faster.
    """

    cached: bool = True
    level: int = 2


def compile_module(
    module: ir.Module,
    entry: str = "main",
    options: Options | None = None,
    registry: Registry = REGISTRY,
    collectives: Collectives | None = None,
) -> CpuExecutable:
    """Compiles function `entry` of a module of operators, or of linalg on tensors, for the chosen target.

    `collectives` creates the kernels of collectives for the program of one rank.

    Raises:
        PassError: a pass failed.
        OperatorError: no kernel of a user's operator matches its call.
        ValueError: the module has no such function, or this machine does not run code for the target.
    """
    options = options or Options()
    source = ProgramSource.of(module, entry, registry)
    check_runs_on_host(source.target)
    signature = signature_of(module, entry)
    key = cache.key_of(source.text, entry, str(options.level), source.fingerprint(module), repr(source.target))
    cached = _find(key, entry) if options.cached else None
    return CpuExecutable(source, *signature, *(cached or _compile(source, signature, options, key)), collectives)


def _find(key: str, entry: str) -> tuple[CompiledMetadata, objects.Code] | None:
    """The compiled program in the cache; None if no cached program can be loaded."""
    stored = cache.find(key)
    try:
        return stored and (CompiledMetadata(**stored[1]["facts"]), objects.load_object(stored[0], entry))
    except (OSError, TypeError, KeyError):
        return None


def _compile(
    source: ProgramSource, signature: Any, options: Options, key: str
) -> tuple[CompiledMetadata, objects.Code]:
    with exclusive(source.context), source.context, tempfile.TemporaryDirectory() as folder:
        lowered = source.lower("llvm")
        metadata = source.metadata(lowered, signature[1])
        path = Path(folder) / "program.so" if options.cached else None
        code = objects.compile_code(lowered, source.entry, options.level, path)
        if path is not None and path.exists():
            cache.store(key, path, {"facts": vars(metadata)})
    return metadata, code


@dataclass
class CpuExecutable:
    """A compiled program, called with arrays by position or by name; the results are a list of arrays.

    A donated argument (`oneflow.donated`) is updated in place and is the result: the array itself if it is writable
    and has the expected type, otherwise a copy. Several threads may call an executable at once; a run releases the
    interpreter lock (GIL).
    """

    array: ClassVar[type] = np.ndarray
    is_remote: ClassVar[bool] = False
    is_size_specialized: ClassVar[bool] = False
    last_run: ClassVar[None] = None

    _source: ProgramSource
    inputs: list[Parameter]
    outputs: list[TensorDesc]
    _metadata: CompiledMetadata
    _code: objects.Code
    _collectives: Collectives | None = None

    def __post_init__(self) -> None:
        self._formats = [ResultFormat.of(parse_result_type(text)) for text in self._metadata.results]
        self._expected = [(p, p.desc.dtype.numpy, p.desc.shape, dynamic_axes(p.desc)) for p in self.inputs]
        self._num_input_slots = sum(1 + len(dynamic) for *_, dynamic in self._expected)
        self._is_static = self._num_input_slots == len(self._expected)
        source = self._source
        self._externals = make_externals(
            self._metadata.externals, source.registry, source.context, source.call_locations, self._collectives
        )
        self._external_words = [x for e in self._externals for x in (e.kernel.function, e.kernel.context)]
        self._num_slots = self._num_input_slots + sum(1 + form.dynamic for form in self._formats)
        self._slots_type = ctypes.c_int64 * max(self._num_slots + len(self._external_words), 1)
        self._run = native.library().oneflow_rt_run
        self._donated = Donated((result, argument) for result, argument in self._metadata.in_place)
        sites, by_result = source.sites("linalg", self._metadata.sites), self._donated.by_result
        names = [p.name for p in self.inputs]
        self._failed_runs = FailedRuns(
            self._code, source, self._externals, sites, names, self.outputs, self._formats, by_result,
            self._num_input_slots,
        )  # fmt: skip
        takes = [(dtype, shape or ()) for _, dtype, shape, _ in self._expected]
        entry = self._code.address, self._metadata.workspace
        fail = self._failed_runs.fail
        self.fast_path = fast_path(takes, self._formats, entry, self._external_words, by_result, fail)

    @property
    def peak_bytes(self) -> int:
        """The bytes of the workspace of a run, without results and dynamic buffers."""
        return self._metadata.workspace

    @property
    def memory(self) -> Footprint:
        """The memory footprint of a run in bytes: arguments, results and workspace."""
        inputs, results = [p.desc for p in self.inputs], [parse_result_type(text) for text in self._metadata.results]
        return Footprint.of(inputs, results, self._donated.by_result, self._metadata.workspace)

    def ir(self, stage: str) -> str:
        """The program at a stage of `lowering.pipelines.STAGES`; `triton` is the plan and the source of each kernel.

        Raises:
            ValueError: there is no such stage.
        """
        if stage not in STAGES:
            raise ValueError(f"expected one of {', '.join(STAGES)}, got {stage!r}")
        located = self._source.located(stage)
        if stage != "triton":
            return str(located)
        with located.context, ir.Location.unknown():
            return str(triton_program.read_program(located).text)

    def __call__(self, *arrays: Any, **named: Any) -> list[np.ndarray]:
        """Runs the program.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type, rank or size.
            OutOfBoundsError: an index in the data is out of bounds.
            SizeError: sizes known at run time only do not match.
            KernelError: a kernel of a user's operator failed.

        The message of a failed run names the arguments that it had begun to update in place.
        """
        plain = self.fast_path is not None and not named and not self._donated.by_result
        results = self.fast_path(arrays) if plain and self.fast_path is not None else None
        if results is not None:
            return results
        arguments = bind(self.inputs, arrays, named) if named or len(arrays) != len(self.inputs) else arrays
        io = self._slots_type()
        kept = self._write_arguments(io, arguments)
        failure = (ctypes.c_int64 * 3)()
        status = self._run(self._code.address, io, self._metadata.workspace, failure)
        if status:
            self._failed_runs.fail(io, status, failure)
        return self._read_results(io, kept)

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Runs the program on arguments in order; see `__call__`."""
        return self(*arrays)

    def replay(self, arrays: Sequence[Any], compared: Any = None) -> None:
        """None: every run checks its arguments."""

    def reads(self, index: int) -> bool:
        """Whether the program reads the elements of argument `index`, not its type alone."""
        return self._source.reads[index]

    def _write_arguments(self, io: Any, arguments: Sequence[Any]) -> list[np.ndarray]:
        """Writes the addresses and dynamic sizes of the arguments to `io`; returns the arrays that have to stay
        alive.
        """
        kept = []
        for value, (parameter, dtype, shape, _) in zip(arguments, self._expected, strict=True):
            plain = type(value) is np.ndarray and value.dtype is dtype and value.shape == shape
            array = (
                value if plain and value.flags.c_contiguous and value.flags.aligned else as_array(parameter, value)
            )
            kept.append(array)
        addresses = [address_of(array) for array in kept]
        if self._donated.by_result:
            self._donated.make_writable(kept, addresses)
        io[: self._num_input_slots] = addresses if self._is_static else self._with_sizes(kept, addresses)
        if self._external_words:
            io[self._num_slots :] = self._external_words
        return kept

    def _with_sizes(self, arrays: Sequence[np.ndarray], addresses: Sequence[int]) -> list[int]:
        """Each address, followed by the dynamic sizes of its array."""
        rows = zip(arrays, addresses, self._expected, strict=True)
        return [x for array, at, (*_, dynamic) in rows for x in (at, *(array.shape[axis] for axis in dynamic))]

    def _read_results(self, io: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        slot, results = self._num_input_slots, []
        for index, form in enumerate(self._formats):
            if index in self._donated.by_result:
                results.append(arrays[self._donated.by_result[index]])
                slot += 1
                continue
            shape: Any = form.shape
            if form.dynamic:
                sizes = iter(io[slot + 1 : slot + 1 + form.dynamic])
                shape = tuple(next(sizes) if size is None else size for size in shape)
            results.append(np.ndarray(shape, form.dtype, Memory.from_address(io[slot])))
            slot += 1 + form.dynamic
        return results


__all__ = [
    "ArgumentError",
    "CpuExecutable",
    "KernelError",
    "Options",
    "OutOfBoundsError",
    "RunError",
    "SizeError",
    "compile_module",
]
