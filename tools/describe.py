"""Descriptions of passes, operators and dialects for oneflow-opt.

Everything is read from the registries.
"""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from oneflow.dialect import dtypes, meaning
from oneflow.dialect._mlir import VERSION, ir
from oneflow.dialect.attributes import AttrValue
from oneflow.dialect.record import Absent, Call, Operator, OperatorError, Registry, attribute_values, infer
from oneflow.dialect.sbp import Factors
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.targets.cpu import CpuTarget
from oneflow.lowering.targets.dot_product import DotProduct
from oneflow.lowering.targets.gpu import GPU_TARGETS, GpuTarget
from oneflow.lowering.targets.instructions import TensorCoreShape
from oneflow.lowering.targets.selection import CPU_NAMES, cpu_target_named
from oneflow.passes.registry import PASSES, PIPELINES, pipeline_summary
from oneflow.passes.upstream import UPSTREAM


def version_text(version: str) -> str:
    """The versions of the project and of MLIR."""
    return f"oneflow-mlir {version} (MLIR of {VERSION})"


def list_passes() -> str:
    """The passes of this project with options, its pipelines, and the names of MLIR's passes."""
    lines = []
    for name, cls in sorted(PASSES.items()):
        lines.append(f"{name}: {cls.summary()}")
        lines += [f"    {o.name}: {o.default_text}" for o in cls.options().values()]
    lines += [f"{name}: {pipeline_summary(name)}" for name in sorted(PIPELINES)]
    return "\n".join([*lines, "", "MLIR's passes:", *textwrap.wrap(", ".join(sorted(UPSTREAM)), 116)])


def list_targets() -> str:
    """The facts of every CPU and GPU, and the parameters that follow from the facts."""
    cpus = (_show_target(name, t, vars(t.kernels)) for name, t in ((n, cpu_target_named(n)) for n in CPU_NAMES))
    gpus = (_show_target(name, t, {**vars(t.kernels), "model": t.model}) for name, t in GPU_TARGETS.items())
    return "\n\n".join([*cpus, *gpus])


def _show_target(title: str, target: CpuTarget | GpuTarget, parameters: Mapping[str, Any]) -> str:
    """The fields of a target and of the records of its parameters, without tables of tiles."""
    rows = {f.name: getattr(target, f.name) for f in fields(target) if f.name not in ("name", "fitted", "overrides")}
    rows |= {
        f"{record}.{name}": value
        for record, values in parameters.items()
        for name, value in vars(values).items()
        if isinstance(value, int | float | tuple)
    }
    lines = [
        textwrap.fill(f"{name}: {_show_value(value)}", 116, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, value in rows.items()
    ]
    return "\n".join([f"{title}:", *lines])


def _show_value(value: object) -> str:
    """A fact as text: names of instructions and features side by side, records by their fields."""
    if isinstance(value, TensorCoreShape):
        return value.instruction
    if isinstance(value, DotProduct):
        return value.intrinsic
    if is_dataclass(value):
        return ", ".join(f"{name} {number:g}" for name, number in vars(value).items())
    return ", ".join(map(_show_value, value)) if isinstance(value, tuple) else str(value)


def list_operators(registry: Registry) -> str:
    """Every operator's signature, by family."""
    families: dict[str, list[Operator]] = {}
    for record in registry:
        families.setdefault(record.family, []).append(record)
    blocks = [
        "\n".join([f"{family}:", *(f"  {r.signature}" for r in sorted(records, key=lambda r: r.name))])
        for family, records in sorted(families.items())
    ]
    return "\n\n".join(blocks)


def show_dialects(context: ir.Context) -> str:
    """The names of the dialects that a program may use without `--allow-unregistered-dialect`."""
    names = {"oneflow", "sbp"}
    names |= {str(name) for name in _known_dialects(context)}
    return "Available Dialects: " + ", ".join(sorted(names))


def _known_dialects(context: ir.Context) -> Iterator[str]:
    context.load_all_available_dialects()
    for name in CANDIDATES:
        if context.is_dialect_loaded(name):
            yield name


#: Candidate names of dialects: a context cannot list its dialects.
CANDIDATES = """acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bufferization builtin cf complex dlti emitc
    func gpu index irdl linalg llvm math memref ml_program mpi nvgpu nvvm omp pdl pdl_interp ptr quant rocdl scf
    shape shard smt sparse_tensor spirv tensor tosa transform ub vcix vector wasmssa x86vector xegpu xevm""".split()


def show_operator(record: Operator) -> str:
    """A record: signature, meaning, each slot and its source location, laws."""
    rows = {slot: _slot(record, slot) for slot in ("types", "sbp", "grad", "reference")}
    meaning_slot = record.meaning
    rows[meaning_slot] = (
        _formula(record) if meaning_slot == "scalar" else source_location(getattr(record, meaning_slot))
    )
    lines = [
        f"oneflow.{record.signature}",
        "",
        textwrap.indent(record.doc, "    "),
        "",
        f"defined at: {record.where}",
    ]
    lines += [f"family: {record.family}", f"pure: {str(record.pure).lower()}"]
    if record.traits:
        lines.append(f"traits: {', '.join(sorted(record.traits))}")
    lines += [f"{slot}: {text}" for slot, text in rows.items()]
    lines += [f"law {law.name}: {law.text} ({source_location(law.apply)})" for law in record.laws]
    return "\n".join(lines)


def _slot(record: Operator, slot: str) -> str:
    value = getattr(record, slot)
    if isinstance(value, Absent):
        return f"none: {value.reason}"
    return str(value) if isinstance(value, Factors) else source_location(value)


def source_location(rule: object) -> str:
    """The file and line of a rule, or the name of a NumPy function."""
    function = _function_of(rule)
    code = getattr(function, "__code__", None)
    if code is None:
        return str(getattr(function, "__name__", function))
    return f"{code.co_filename}:{code.co_firstlineno}"


def _function_of(rule: Any) -> Any:
    """The Python function that a rule calls, where the rule is an object: a partial application or a dataclass."""
    if isinstance(rule, functools.partial):
        return _function_of(rule.func)
    if not dataclasses.is_dataclass(rule):
        return rule
    parts = (getattr(rule, field.name) for field in dataclasses.fields(rule))
    return next(map(_function_of, filter(callable, parts)), type(rule))


def _formula(record: Operator) -> str:
    """The scalar body in f32 or in the first supported type; otherwise the source location of the rule."""
    for dtype in (dtypes.float32, dtypes.int32, dtypes.bool_):
        try:
            return meaning.scalar_formula(_plain_call(record, TensorDesc((), dtype)))
        except (OperatorError, AssertionError, TypeError, KeyError):
            continue
    return source_location(record.scalar)


def _plain_call(record: Operator, desc: TensorDesc) -> Call:
    """A call on scalars with attributes at their defaults."""
    inputs = {a.name: (desc,) * max(a.min_count, 1) if a.is_variadic else desc for a in record.signature.inputs}
    attributes = {a.name: _any_value(a.kind.name) for a in record.signature.attrs if a.is_mandatory}
    call = Call(record, inputs, attribute_values(record, attributes))
    infer(record, call)
    return call


def _any_value(kind: str) -> AttrValue:
    plain = {"bool": False, "string": "", "float": 1.0, "double": 1.0, "data_type": dtypes.float32}
    return () if kind == "shape" or kind.startswith("list_") else plain.get(kind, 1)
