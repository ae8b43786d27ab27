"""A program at the `triton` stage, read from its module: the data for its execution on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir, passmanager
from oneflow.dialect.tensor_desc import TensorDesc, parse_desc
from oneflow.lowering.triton.launch.unsupported import HostKernel, read_host
from oneflow.lowering.triton.names import HOST, PLAN, SOURCE, TUNING_CANDIDATES, identifier
from oneflow.lowering.triton.source import Source


@dataclass(frozen=True)
class Program:
    """The plans of an entry and of bodies as Python source, and their referenced data.

    `sources` are the kernels by name, `candidates` the further configurations of kernels that are tuned. `workspace`
    is in bytes. `sites` are the texts of run-time checks, by site. `externals` are the external kernels, `hosts` the
    kernels that run on the host.
    """

    name: str
    plan: str
    sources: dict[str, Source]
    workspace: int
    sites: Sequence[str]
    results: tuple[TensorDesc, ...]
    constants: tuple[np.ndarray, ...]
    externals: tuple[str, ...] = ()
    hosts: tuple[HostKernel, ...] = ()
    candidates: dict[str, tuple[Source, ...]] = field(default_factory=dict)

    def on(self, arch: str) -> Program:
        """The program with the forms of its kernels for an architecture.

        Where a kernel that is tuned has a special form, its plain form becomes one of its candidates.
        """
        special = {name: source.on(arch) for name, source in self.sources.items() if arch in source.specializations}
        plain = {name: replace(self.sources[name], specializations={}) for name in special if name in self.candidates}
        candidates = {name: (form, *self.candidates[name]) for name, form in plain.items()}
        return replace(self, sources={**self.sources, **special}, candidates={**self.candidates, **candidates})

    def function(self) -> Callable[..., None]:
        """The plan as a function of a run, addresses and sizes."""
        namespace: dict[str, Any] = {"math": math}
        exec(compile(self.plan, f"<plan of {self.name}>", "exec"), namespace)
        function: Callable[..., None] = namespace[identifier(self.name)]
        return function

    @property
    def text(self) -> str:
        """The plan and every kernel as text."""
        hosts = (f"# {h.message}\n\n{h.text}" for h in self.hosts)
        return "\n\n".join([self.plan, *(s.text for s in self.sources.values()), *hosts])

    def with_origins(self, located: Program) -> Program:
        """The program with the comments on origins of `located`: the same program with source locations."""
        sources = dict(self.sources)
        for name in sources.keys() & located.sources.keys():
            sources[name] = replace(sources[name], origins=located.sources[name].origins)
        return replace(self, sources=sources)


def read_program(module: ir.Module) -> Program:
    """The program of a module at the `triton` stage.

    Raises:
        ValueError: the module has no plan.
    """
    functions = [o.operation for o in module.body.operations if o.operation.name == "func.func"]
    entries = [f for f in functions if PLAN in f.attributes]
    if not entries:
        raise ValueError("expected a module with a plan: run oneflow-to-triton first")
    attributes = module.operation.attributes
    sources = [_source(_name(f), f.attributes[SOURCE]) for f in functions if SOURCE in f.attributes]
    return Program(
        ir.StringAttr(entries[0].attributes["sym_name"]).value,
        ir.StringAttr(entries[0].attributes[PLAN]).value,
        {s.name: s for s in sources},
        ir.IntegerAttr(attributes["oneflow.workspace"]).value,
        tuple(ir.StringAttr(s).value for s in attributes["oneflow.sites"]) if "oneflow.sites" in attributes else (),
        tuple(d for s in attributes["oneflow.results"] if (d := parse_desc(ir.StringAttr(s).value)) is not None),
        tuple(_array(c) for c in attributes["oneflow.constants"]),
        tuple(str(a) for a in attributes["oneflow.externals"]) if "oneflow.externals" in attributes else (),
        tuple(read_host(f) for f in functions if HOST in f.attributes),
        {
            _name(f): tuple(_source(_name(f), c) for c in f.attributes[TUNING_CANDIDATES])
            for f in functions
            if TUNING_CANDIDATES in f.attributes
        },
    )


def _name(function: ir.Operation) -> str:
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def _source(name: str, described: ir.Attribute) -> Source:
    return Source.from_dict({"name": name, **_plain(described)})


def _plain(attribute: ir.Attribute) -> Any:
    """An attribute as plain data: the inverse of how `emit_triton` writes a source."""
    if isinstance(attribute, ir.DictAttr):
        return {named.name: _plain(named.attr) for named in attribute}
    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(element) for element in attribute]
    return attribute.value


def _array(constant: ir.Attribute) -> np.ndarray:
    """The elements of a dense constant; floats of 8 bits as their codes."""
    dtype = dtypes.BY_MLIR.get(str(constant.type.element_type))
    if dtype not in (dtypes.bfloat16, *dtypes.FLOAT8):
        return np.ascontiguousarray(np.array(constant))
    bits = np.ascontiguousarray(np.array(_bits(constant, dtype.bits)))
    return bits.view(dtype.numpy) if dtype is dtypes.bfloat16 else bits


def _bits(constant: ir.Attribute, width: int) -> ir.Attribute:
    """A constant as its bits, by a bitcast that MLIR folds: Python's buffer protocol lacks narrow floats."""
    kind = constant.type
    with kind.context, ir.Location.unknown():
        module = ir.Module.create()
        bits = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(width))
        text = (
            f"func.func @bits() -> {bits} {{ %0 = arith.constant {constant} "
            f"%1 = arith.bitcast %0 : {kind} to {bits} return %1 : {bits} }}"
        )
        function = ir.Operation.parse(text)
        module.body.append(function)
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        return function.regions[0].blocks[0].operations[0].operation.attributes["value"]
