"""The source of a compiled program: its parameters, its results, and the program at each stage."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from oneflow import dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import exclusive
from oneflow.dialect.record import Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.linalg.checks import read_sites
from oneflow.lowering.linalg.external import call_locations
from oneflow.lowering.pipelines import PREVIOUS_STAGE, pipeline_between
from oneflow.lowering.targets.cpu import CpuTarget
from oneflow.lowering.targets.selection import cpu_target, using_cpu
from oneflow.passes.base import PassError
from oneflow.passes.inline import keep_entry
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.runtime.arguments import Parameter
from oneflow.runtime.failures import Sites
from oneflow.runtime.results import parse_result_type

#: The stages that consist of operators and linalg; the rules of user operators take part in reaching them.
_RULE_STAGES = ("oneflow", "linalg", "gpu-linalg")


def signature_of(module: ir.Module, entry: str) -> tuple[list[Parameter], list[TensorDesc]]:
    """The parameters and result types of function `entry` of a module.

    Raises:
        ValueError: the module has no such function, or an argument is not a ranked tensor.
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
    parameters = []
    for index, argument in enumerate(op.regions[0].blocks[0].arguments):
        name = named[index]["oneflow.name"] if named and "oneflow.name" in named[index] else None
        desc = from_mlir(argument.type)
        if desc is None or desc.shape is None:
            raise ValueError(f"expected ranked tensors as arguments of the entry, got {argument.type}")
        parameters.append(Parameter(ir.StringAttr(name).value if name else f"arg{index}", desc))
    return parameters


def _results(op: ir.Operation) -> list[TensorDesc]:
    kinds = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results
    if any(from_mlir(k) is None for k in kinds):
        raise ValueError(f"expected tensors of OneFlow's types as results of the entry, got {list(map(str, kinds))}")
    return [d for k in kinds if (d := from_mlir(k)) is not None]


@functools.cache
def _passes(text: str) -> Pipeline:
    """The parsed pipeline of a text; needs a current MLIR context."""
    return Pipeline.parse(text, ir.Context.current)


@dataclass
class CompiledMetadata:
    """The metadata of a run, besides the code.

    Attributes:
        workspace: the bytes of the workspace.
        sites: the texts of the checks.
        results: the types of the results.
        externals: the calls of external kernels.
        in_place: pairs of a result and the donated argument whose memory it takes.
    """

    workspace: int
    sites: list[str]
    results: list[str]
    externals: list[str]
    in_place: list[tuple[int, int]]


@dataclass
class ProgramSource:
    """The source of a program, lowered on demand.

    `original` has source locations. `text` has none, so that programs that differ in locations alone share a cache
    entry.
    """

    text: str
    entry: str
    registry: Registry
    context: ir.Context
    original: ir.Operation
    target: CpuTarget = field(default_factory=cpu_target)

    @classmethod
    def of(cls, module: ir.Module, entry: str, registry: Registry, **more: Any) -> Self:
        """The source of function `entry` of a module, to be lowered in the context of the module.

        `more` are the values of further fields.
        """
        return cls(str(module), entry, registry, module.context, module.operation.clone(), **more)

    @functools.cached_property
    def reads(self) -> tuple[bool, ...]:
        """For each argument of the entry whether the program uses more than its sizes."""
        module = self.lower("linalg")
        with module.context:
            entry = next(o.operation for o in module.body.operations if is_named(o.operation, self.entry))
            users = [[use.owner.operation.name for use in a.uses] for a in entry.regions[0].blocks[0].arguments]
        return tuple(any(name != "tensor.dim" for name in names) for names in users)

    def fingerprint(self, module: ir.Module) -> str:
        """The part of the cache key for operators defined outside the package: their linalg and Triton text."""
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
        """The source location of each call of an external kernel."""
        return call_locations(self.located("linalg"))

    def sites(self, stage: str, texts: Sequence[str]) -> Sites:
        """The texts of the checks of a program, with source locations; `stage` is the stage that creates the
        checks.
        """
        return Sites(texts, lambda: read_sites(self.located(stage)))

    def located(self, stage: str) -> ir.Module:
        """The program at a stage with source locations."""
        return self._lower(stage, str(self.original.get_asm(enable_debug_info=True)))

    def lower(self, stage: str) -> ir.Module:
        """A copy of the program at a stage.

        Raises:
            PassError: a pass failed; the message names the source location.
        """
        try:
            return self._lower(stage, self.text)
        except PassError:
            self.located(stage)
            raise

    def _lower(self, stage: str, text: str) -> ir.Module:
        """A copy of the program `text` at a stage.

        Up to linalg, where rules of user operators take part, the module is verified after each pass.
        """
        with exclusive(self.context), self.context, ir.Location.unknown(), using_cpu(self.target):
            module = ir.Module.parse(text)
            keep_entry(module, self.entry)
            first = stage
            while first not in _RULE_STAGES:
                first = PREVIOUS_STAGE[first]
            _passes(pipeline_between(None, first)).run(module, self.registry)
            if stage != first:
                _passes(pipeline_between(first, stage)).run(module, self.registry, Watch(lowered=True))
        return module

    def metadata(self, lowered: ir.Module, types: Sequence[TensorDesc]) -> CompiledMetadata:
        """The metadata of a module at the `llvm` stage; `types` are the result types with their signedness."""
        attributes = lowered.operation.attributes
        shapes = [parse_result_type(ir.StringAttr(s).value).shape for s in attributes["oneflow.results"]]
        # A complex number has become a pair of reals along a last axis.
        ends = (-1 if t.dtype.is_complex else None for t in types)
        results = [str(TensorDesc(s and s[:e], t.dtype)) for s, e, t in zip(shapes, ends, types, strict=True)]
        externals = [str(a) for a in attributes["oneflow.externals"]]
        in_place = [(int(a), int(b)) for a, b in attributes["oneflow.in_place"]]
        return CompiledMetadata(
            ir.IntegerAttr(attributes["oneflow.workspace"]).value, read_sites(lowered), results, externals, in_place
        )
