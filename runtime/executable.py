"""Compiled programs: `compile_module(module, entry)` gives an `CpuExecutable` to call with arrays."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oneflow import dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.linalg.checks import read_sites
from oneflow.lowering.linalg.external import call_locations
from oneflow.lowering.pipelines import PREVIOUS_STAGE, STAGES, pipeline_between
from oneflow.lowering.targets.choice import CpuTarget, check_runs_on_host, cpu_target, using_cpu
from oneflow.passes.base import PassError
from oneflow.passes.inline import keep_entry
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.runtime import cache, native, objects
from oneflow.runtime.arguments import ArgumentError, Parameter, address_of, as_array, bind
from oneflow.runtime.collectives.kernel import Collectives
from oneflow.runtime.external import make_externals
from oneflow.runtime.failures import (
    KernelError,
    PositionError,
    RunError,
    Sites,
    SizeError,
    position_error,
    size_error,
)
from oneflow.runtime.fast_path import fast_path
from oneflow.runtime.footprint import Donated, Footprint
from oneflow.runtime.results import Form, Memory, described, dynamic_axes

#: The stages that the rules of operators make.
_BY_RULES = ("oneflow", "linalg", "gpu-linalg")
#: What a run gives when a position is out of range, when memory ran out, and when a kernel made elsewhere failed.
_POSITION, _NO_MEMORY, _KERNEL_FAILED = 1, 3, 4


@dataclass(frozen=True)
class Options:
    """How a program is compiled: `cached` reads and writes the cache on disk, `level` is LLVM's effort (0 to 3)."""

    cached: bool = True
    level: int = 3


def compile_module(
    module: ir.Module,
    entry: str = "main",
    options: Options | None = None,
    registry: Registry = REGISTRY,
    collectives: Collectives | None = None,
) -> CpuExecutable:
    """Compiles function `entry` of a module of operators, or of linalg on tensors, for the chosen target.

    `collectives` makes the kernels in which the program of one rank meets the others.

    Raises:
        PassError: a pass could not do its work.
        OperatorError: no kernel of a user's operator matches its call.
        ValueError: the module has no such function, or this machine does not run code for the target.
    """
    options = options or Options()
    source = program_source(module, entry, registry)
    check_runs_on_host(source.target)
    signature = signature_of(module, entry)
    key = cache.key_of(source.text, entry, str(options.level), source.fingerprint(module), repr(source.target))
    found = _find(key, entry) if options.cached else None
    return CpuExecutable(source, *signature, *(found or _compile(source, signature, options, key)), collectives)


def _find(key: str, entry: str) -> tuple[Facts, objects.Code] | None:
    """What was compiled before, if the cache has it and it can be loaded."""
    found = cache.find(key)
    try:
        return found and (Facts(**found[1]["facts"]), objects.load_object(found[0], entry))
    except (OSError, AttributeError, TypeError, KeyError):
        return None


def _compile(source: ProgramSource, signature: Any, options: Options, key: str) -> tuple[Facts, objects.Code]:
    lowered = source.lower("llvm")
    facts = source.facts(lowered, signature[1])
    with lowered.context, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.so" if options.cached else None
        code = objects.compile_code(lowered, source.entry, options.level, path)
        if path is not None and path.exists():
            cache.store(key, path, {"facts": vars(facts)})
    return facts, code


def program_source(module: ir.Module, entry: str, registry: Registry) -> ProgramSource:
    """The program of an entry, to lower in its module's context."""
    return ProgramSource(str(module), entry, registry, module.context, module.operation.clone())


def signature_of(module: ir.Module, entry: str) -> tuple[list[Parameter], list[TensorDesc]]:
    """What function `entry` of a module takes and gives.

    Raises:
        ValueError: the module has no such function, or an argument is no ranked tensor.
    """
    for op in module.body.operations:
        if is_named(op.operation, entry):
            return _parameters(op.operation), _results(op.operation)
    raise ValueError(f"expected a function {entry!r} in the module")


def is_named(op: ir.Operation, name: str) -> bool:
    """Whether an operation defines the symbol `name`."""
    return "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == name


def _parameters(op: ir.Operation) -> list[Parameter]:
    named = list(op.attributes["arg_attrs"]) if "arg_attrs" in op.attributes else []
    found = []
    for number, argument in enumerate(op.regions[0].blocks[0].arguments):
        given = named[number]["oneflow.name"] if named and "oneflow.name" in named[number] else None
        desc = from_mlir(argument.type)
        if desc is None or desc.shape is None:
            raise ValueError(f"expected ranked tensors as arguments of the entry, got {argument.type}")
        found.append(Parameter(ir.StringAttr(given).value if given else f"arg{number}", desc))
    return found


def _results(op: ir.Operation) -> list[TensorDesc]:
    kinds = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results
    if any(from_mlir(k) is None for k in kinds):
        raise ValueError(f"expected tensors of OneFlow's types as results of the entry, got {list(map(str, kinds))}")
    return [d for k in kinds if (d := from_mlir(k)) is not None]


@functools.cache
def _passes(text: str) -> Pipeline:
    """The pipeline of a text; a context has to be current."""
    return Pipeline.parse(text, ir.Context.current)


@dataclass
class Facts:
    """What a run needs to know besides the code.

    That is workspace bytes, texts of checks, result types, kernels to call, and pairs of a result and the argument
    that it lies in.
    """

    workspace: int
    sites: list[str]
    results: list[str]
    externals: list[str]
    in_place: list[tuple[int, int]]


@dataclass
class ProgramSource:
    """The program as it was given, to lower again on demand.

    `original` has the places in its source, which `text` has not: programs that only lie elsewhere are one.
    """

    text: str
    entry: str
    registry: Registry
    context: ir.Context
    original: ir.Operation
    target: CpuTarget = field(default_factory=cpu_target)

    @functools.cached_property
    def reads(self) -> tuple[bool, ...]:
        """For each argument of the entry whether anything but its sizes is taken of it."""
        module = self.lower("linalg")
        with module.context:
            entry = next(o.operation for o in module.body.operations if is_named(o.operation, self.entry))
            users = [[use.owner.operation.name for use in a.uses] for a in entry.regions[0].blocks[0].arguments]
        return tuple(any(name != "tensor.dim" for name in names) for names in users)

    def fingerprint(self, module: ir.Module) -> str:
        """The text that the cache's key covers for operators defined outside the package: their linalg and Triton."""
        folder = Path(dialect.__file__).parent
        own = (f"{folder}/", f"{folder.resolve()}/")
        names: set[str] = set()

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name.startswith("oneflow."):
                names.add(op.name.removeprefix("oneflow."))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        foreign = [n for n in names if not self.registry[n].where.startswith(own)]
        if not foreign:
            return ""
        written = [repr(self.registry[n].launch) for n in sorted(foreign)]
        return "\n".join([str(self.lower("linalg")), *written])

    def call_locations(self) -> list[str]:
        """Where in the program as it was given each kernel made elsewhere is called."""
        return call_locations(self.located("linalg"))

    def sites(self, stage: str, texts: Sequence[str]) -> Sites:
        """What the checks of a program say, whose texts without places are those; they are made by `stage`."""
        return Sites(texts, lambda: read_sites(self.located(stage)))

    def located(self, stage: str) -> ir.Module:
        """The program at a stage with the places in its source."""
        return self._lower(stage, str(self.original.get_asm(enable_debug_info=True)))

    def lower(self, stage: str) -> ir.Module:
        """A copy of the program at a stage.

        Raises:
            PassError: a pass could not do its work; the place in the program's source is named.
        """
        try:
            return self._lower(stage, self.text)
        except PassError:
            self.located(stage)
            raise

    def _lower(self, stage: str, text: str) -> ir.Module:
        """A copy of the program in the form of `text` at a stage.

        Up to linalg, where rules of users take part, operators are verified after each pass.
        """
        with self.context, ir.Location.unknown(), using_cpu(self.target):
            module = ir.Module.parse(text)
            keep_entry(module, self.entry)
            first = stage
            while first not in _BY_RULES:
                first = PREVIOUS_STAGE[first]
            _passes(pipeline_between(None, first)).run(module, self.registry)
            if stage != first:
                _passes(pipeline_between(first, stage)).run(module, self.registry, Watch(lowered=True))
        return module

    def facts(self, lowered: ir.Module, types: Sequence[TensorDesc]) -> Facts:
        """The facts of a module at the `llvm` stage; `types` are the results' before unsigned types went."""
        attributes = lowered.operation.attributes
        shapes = [described(ir.StringAttr(s).value).shape for s in attributes["oneflow.results"]]
        results = [str(TensorDesc(s, t.dtype)) for s, t in zip(shapes, types, strict=True)]
        externals = [str(a) for a in attributes["oneflow.externals"]]
        in_place = [(int(a), int(b)) for a, b in attributes["oneflow.in_place"]]
        return Facts(
            ir.IntegerAttr(attributes["oneflow.workspace"]).value, read_sites(lowered), results, externals, in_place
        )


@dataclass
class CpuExecutable:
    """A compiled program. Call it with arrays, by position or by name; results are a list of arrays.

    An argument that the program gives up for a result (`oneflow.donated`) is updated in place, and is the result:
    the array itself, where it is one of the right type that may be written to, else a copy.
    It may be called from several threads at once; the interpreter's lock is free while it runs.
    """

    array: ClassVar[type] = np.ndarray
    is_remote: ClassVar[bool] = False
    last_run: ClassVar[None] = None

    _source: ProgramSource
    inputs: list[Parameter]
    outputs: list[TensorDesc]
    _facts: Facts
    _code: objects.Code
    _collectives: Collectives | None = None

    def __post_init__(self) -> None:
        self._forms = [Form.of(described(text)) for text in self._facts.results]
        self._plain = [(p, p.desc.dtype.numpy, p.desc.shape, dynamic_axes(p.desc)) for p in self.inputs]
        self._first = sum(1 + len(dynamic) for *_, dynamic in self._plain)
        self._static = self._first == len(self._plain)
        source = self._source
        self._externals = make_externals(
            self._facts.externals, source.registry, source.context, source.call_locations, self._collectives
        )
        self._called = [x for e in self._externals for x in (e.kernel.function, e.kernel.context)]
        self._last = self._first + sum(1 + form.dynamic for form in self._forms)
        self._io = ctypes.c_int64 * max(self._last + len(self._called), 1)
        self._run = native.library().oneflow_rt_run
        self._donated = Donated((result, argument) for result, argument in self._facts.in_place)
        self._sites = source.sites("linalg", self._facts.sites)
        takes, entry = [x[1:3] for x in self._plain], (self._code.address, self._facts.workspace)
        updates = bool(self._donated.by_result)
        self.fast_path = None if updates else fast_path(takes, self._forms, entry, self._called, self._fail)

    @property
    def peak_bytes(self) -> int:
        """The bytes of the workspace that a run takes; results and dynamic buffers come on top."""
        return self._facts.workspace

    @property
    def memory(self) -> Footprint:
        """The bytes that a run takes, for arguments, results and the workspace; to be printed or compared."""
        inputs, results = [p.desc for p in self.inputs], [described(text) for text in self._facts.results]
        return Footprint.of(inputs, results, self._donated.by_result, self._facts.workspace)

    def ir(self, stage: str) -> str:
        """The program at a stage: `oneflow`, `linalg`, `kernels` or `llvm`.

        Raises:
            ValueError: there is no such stage.
        """
        if stage not in STAGES:
            raise ValueError(f"expected one of {', '.join(STAGES)}, got {stage!r}")
        return str(self._source.located(stage))

    def __call__(self, *arrays: Any, **named: Any) -> list[np.ndarray]:
        """Runs the program.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type, rank or size.
            PositionError: a position in the data is out of range.
            SizeError: sizes known only now do not fit.
            KernelError: a kernel of a user's operator failed.

        An error of a run says which arguments it had begun to update in place by then, if any.
        """
        results = None if named or self.fast_path is None else self.fast_path(arrays)
        if results is not None:
            return results
        given = bind(self.inputs, arrays, named) if named or len(arrays) != len(self.inputs) else arrays
        io = self._io()
        kept = self._load(io, given)
        failure = (ctypes.c_int64 * 3)()
        status = self._run(self._code.address, io, self._facts.workspace, failure)
        if status:
            self._fail(io, status, failure)
        return self._take(io, kept)

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Runs the program on arguments in order; see `__call__`."""
        return self(*arrays)

    def replay(self, arrays: Sequence[Any], seen: Any = None) -> None:
        """None: every run checks its arguments."""

    def reads(self, number: int) -> bool:
        """Whether the elements of argument `number` matter, and not its type alone."""
        return self._source.reads[number]

    def _load(self, io: Any, given: Sequence[Any]) -> list[np.ndarray]:
        """Writes addresses and dynamic sizes of the arguments into `io`; gives the arrays to keep."""
        kept = []
        for value, (parameter, dtype, shape, _) in zip(given, self._plain, strict=True):
            plain = type(value) is np.ndarray and value.dtype is dtype and value.shape == shape
            array = (
                value if plain and value.flags.c_contiguous and value.flags.aligned else as_array(parameter, value)
            )
            kept.append(array)
        addresses = [address_of(array) for array in kept]
        if self._donated.by_result:
            self._donated.own(kept, addresses)
        io[: self._first] = addresses if self._static else self._with_sizes(kept, addresses)
        if self._called:
            io[self._last :] = self._called
        return kept

    def _with_sizes(self, arrays: Sequence[np.ndarray], addresses: Sequence[int]) -> list[int]:
        """Each address with the dynamic sizes of its array."""
        given = zip(arrays, addresses, self._plain, strict=True)
        return [x for array, at, (*_, dynamic) in given for x in (at, *(array.shape[axis] for axis in dynamic))]

    def _take(self, io: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        slot, results = self._first, []
        for number, form in enumerate(self._forms):
            if number in self._donated.by_result:
                results.append(arrays[self._donated.by_result[number]])
                slot += 1
                continue
            shape: Any = form.shape
            if form.dynamic:
                sizes = iter(io[slot + 1 : slot + 1 + form.dynamic])
                shape = tuple(next(sizes) if size is None else size for size in shape)
            results.append(np.ndarray(shape, form.dtype, Memory.from_address(io[slot])))
            slot += 1 + form.dynamic
        return results

    def _fail(self, io: Any, status: int, failure: Any) -> None:
        """Frees what the run had made and raises what went wrong."""
        slot, spoiled = self._first, []
        for number, form in enumerate(self._forms):
            if number not in self._donated.by_result:
                native.library().oneflow_rt_free(io[slot])
            elif io[slot]:
                spoiled.append(repr(self.inputs[self._donated.by_result[number]].name))
            slot += 1 + form.dynamic
        raise self._error(status, failure, f"; updated in place before: {', '.join(spoiled)}" if spoiled else "")

    def _error(self, status: int, failure: Any, updated: str) -> Exception:
        """What went wrong; `updated` says what the run had changed by then."""
        if status == _NO_MEMORY:
            need = f"expected memory for the program's buffers ({failure[1]} bytes), the system has less"
            return MemoryError(need + updated)
        site, got, wanted = failure
        if status == _KERNEL_FAILED:
            failed = self._externals[site]
            text = f"{failed.call.error(failed.kernel.error())}{self._source.call_locations()[site]}"
            return KernelError(text + updated)
        make = position_error if status == _POSITION else size_error
        return make(self._sites[site], got, wanted, updated)


__all__ = [
    "ArgumentError",
    "CpuExecutable",
    "KernelError",
    "Options",
    "PositionError",
    "RunError",
    "SizeError",
    "compile_module",
]
