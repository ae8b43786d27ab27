"""Runs programs at the `triton` stage without a device: the plan on NumPy memory, kernels in interpreters."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import BY_MLIR, DType
from oneflow.dialect.external import Launch
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Call, Registry, flatten
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.launch.program import Program, read_program
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Source
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.host import HostProgram
from oneflow.runtime.external import make_externals
from oneflow.runtime.failures import out_of_bounds_error, size_error
from oneflow.runtime.user_ops import kernel_interpreter
from oneflow.runtime.user_ops.kernel_interpreter import interpreting
from oneflow.testing.backend import calls_module
from oneflow.testing.checks import assert_close, make_call
from oneflow.testing.gluon_interpreter import interpret_gluon
from oneflow.testing.sample import Sample

#: Parameters of launches that group and fuse no calls.
ALONE: dict[str, Any] = {"max_fused_entry_calls": 0, "max_parameters": 0, "grouped": {}}


def check_triton(
    sample: Sample, dtype: DType, *, dynamic: bool = False, registry: Registry = REGISTRY,
    context: ir.Context | None = None,
) -> list[str]:  # fmt: skip
    """The operator's kernels, interpreted, give the reference's results; with `dynamic`, made for every size.

    Returns which kernels run on the host and why.

    Raises:
        AssertionError: a result differs by more than the sample's tolerance.
        OperatorError: the operator does not allow dynamic sizes (it says `static`).
    """
    return check_triton_cases([(sample, dtype)], dynamic=dynamic, registry=registry, context=context)


def check_triton_cases(
    cases: Sequence[tuple[Sample, DType]], *, dynamic: bool = False, registry: Registry = REGISTRY,
    context: ir.Context | None = None,
) -> list[str]:  # fmt: skip
    """As `check_triton`, for samples that are independent calls of one program, with kernels for each call."""
    calls = [make_call(sample, sample.arrays(dtype), sample.attributes(dtype), registry) for sample, dtype in cases]
    program = lower_calls(calls, dynamic, registry, context)
    results = interpret_program(program, *(x for op in calls for x in flatten(op.inputs.values())), registry=registry)
    references = [[np.asarray(r) for r in run_reference(op)] for op in calls]
    count = sum(map(len, references))
    assert len(results) == count, f"{cases[0][0]}: expected {count} results, got {len(results)}"
    got = iter(results)
    for (sample, dtype), wanted in zip(cases, references, strict=True):
        for index, want in enumerate(wanted):
            text = f"{sample} {dtype}{' dynamic' if dynamic else ''} result {index}"
            assert_close(_retyped(next(got), want.dtype), want, sample.tolerance(dtype), text)
    return [h.message for h in program.hosts]


def _retyped(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A result of a plan in its own type: plans have complex numbers as pairs of reals, and unsigned integers as
    signed integers.
    """
    if dtype.kind == "c":
        return array.view(dtype)[..., 0]
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array


def lower_call(
    op: Call, dynamic: bool = False, registry: Registry = REGISTRY, context: ir.Context | None = None
) -> Program:
    """A call on arrays as a program of one operator at the `triton` stage, in a new context or a given context."""
    return lower_calls([op], dynamic, registry, context)


def lower_calls(
    calls: Sequence[Call], dynamic: bool = False, registry: Registry = REGISTRY, context: ir.Context | None = None
) -> Program:
    """As `lower_call`, for independent calls; each kernel is of one call, and launched alone."""
    context = context or create_context(registry)
    target = gpu_target()
    fitted = {**target.fitted, "launches": {**target.fitted.get("launches", {}), **ALONE}}
    with context, ir.Location.unknown(), using_gpu(replace(target, fitted=fitted)):
        module = calls_module(calls, registry, dynamic)
        Pipeline.parse(pipeline_between(None, "triton"), context).run(module, registry)
        return read_program(module)


def interpret_program(program: Program, *arrays: Any, registry: Registry = REGISTRY) -> list[np.ndarray]:
    """The results of a program on arrays.

    Raises:
        OutOfBoundsError: a position in the data is out of range.
        SizeError: sizes known only now do not fit.
    """
    run = _Run(program, registry)
    donates = "run.donated(" in program.plan
    copies = [np.array(a, order="C") if donates else np.ascontiguousarray(a) for a in arrays]
    run.kept += copies
    run.arguments = copies
    arguments = [x for index, a in enumerate(copies) for x in (run.address(a), *_sizes(program, index, a))]
    with interpreting():
        program.function()(run, *arguments)
    run.check()
    return [run.results[i] for i in range(len(program.results))]


def _sizes(program: Program, number: int, array: np.ndarray) -> list[int]:
    """The dynamic sizes of argument `number` that the plan asks for."""
    names = program.plan.partition("(")[2].partition(")")[0].split(", ")
    return [size for axis, size in enumerate(array.shape) if f"in{number}_{axis}" in names]


class _Run:
    """The plan's side of a run on NumPy memory."""

    def __init__(self, program: Program, registry: Registry) -> None:
        self.program, self.registry = program, registry
        self.kept: list[np.ndarray] = []
        self.arguments: list[np.ndarray] = []
        self.results: dict[int, np.ndarray] = {}
        self.sites = np.zeros(3 * max(len(program.sites), 1), np.int64)
        self.failure = self.address(self.sites)
        self.workspace = self.temporary(program.workspace)

    def address(self, array: np.ndarray) -> int:
        return int(array.ctypes.data)

    def temporary(self, size: int) -> int:
        """Memory filled with a pattern that reveals reads of unwritten elements."""
        memory = np.full(size + 64, 0xAB, np.uint8)
        self.kept.append(memory)
        return self.address(memory) + -self.address(memory) % 64

    def release(self, address: int) -> None:
        """Nothing: memory lives as long as the run."""

    def result(self, number: int, size: int, shape: tuple[int, ...]) -> int:
        desc = self.program.results[number]
        memory = np.full(max(size, 1), 0xAB, np.uint8)
        self.results[number] = memory[:size].view(desc.dtype.numpy).reshape(shape)
        return self.address(memory)

    def donated(self, number: int, argument: int, size: int, shape: tuple[int, ...]) -> int:
        self.results[number] = self.arguments[argument].reshape(shape)
        return self.address(self.arguments[argument])

    def at(self, offset: int, size: int) -> int:
        return self.workspace + offset

    def part(self, address: int, offset: int) -> int:
        return address + offset

    def shape(self, number: int, shape: tuple[int, ...]) -> None:
        self.results[number] = self.results[number].reshape(shape)

    def constant(self, number: int) -> int:
        return self.address(self.program.constants[number])

    def copy(self, target: int, source: int, size: int) -> None:
        if size:
            _memory(target, size)[:] = _memory(source, size)

    def fill(self, address: int, count: int, value: float, element: str) -> None:
        kind = _kind(element)
        _memory(address, count * kind.itemsize).view(kind)[:] = value

    def read(self, address: int, offset: int, element: str) -> Any:
        kind = _kind(element)
        return _memory(address + offset * kind.itemsize, kind.itemsize).view(kind)[0].item()

    def host(self, number: int, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]) -> None:
        texts = self.program.externals
        context = create_context(self.registry)
        external = make_externals(texts, self.registry, context, lambda: [""] * len(texts))[number]
        addresses = [a for a, _ in (*inputs, *results)]
        memory = (ctypes.c_void_p * len(addresses))(*addresses)
        assert Launch(external.kernel.function)(external.kernel.context, memory, None) == 0, external.kernel.error()

    def on_host(self, name: str, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        kernel = next(h for h in self.program.hosts if h.name == name)
        HostProgram(kernel, self.program.sites).run(inputs, results)

    def check_size(self, got: int, wanted: int, site: int) -> None:
        if got != wanted:
            raise size_error(self.program.sites[site], got, wanted)

    def check_index(self, got: int, wanted: int, site: int) -> int:
        if not 0 <= got < wanted:
            raise out_of_bounds_error(self.program.sites[site], got, wanted)
        return got

    def check(self) -> None:
        """Raises the first failure that kernels recorded."""
        for site, (failed, got, wanted) in enumerate(self.sites.reshape(-1, 3).tolist()):
            if failed:
                self.check_index(got, wanted, site)

    def launch(self, name: str, *arguments: int, writes: int = 0) -> None:
        interpret_kernel(self.program.sources[name], arguments)


def interpret_kernel(source: Source, arguments: Sequence[int]) -> None:
    """Runs a kernel in Triton or Gluon on addresses and sizes, every program in order; within `interpreting`."""
    if source.language != GLUON:
        return kernel_interpreter.interpret_kernel(source, arguments)
    kinds = [kind for _, kind in source.parameters]
    programs = kernel_interpreter.program_count(source, arguments)
    return interpret_gluon(source.text, identifier(source.name), kinds, arguments, programs)


def _kind(element: str) -> np.dtype:
    """The NumPy type of an MLIR element type."""
    return np.dtype(np.int8) if element == "i8" else BY_MLIR[element].numpy


def _memory(address: int, size: int) -> np.ndarray:
    view = types.SimpleNamespace(
        __array_interface__={"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}
    )
    return np.asarray(view)


__all__ = [
    "check_triton", "check_triton_cases", "interpret_kernel", "interpret_program", "lower_call", "lower_calls",
]  # fmt: skip
