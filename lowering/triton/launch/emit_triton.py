"""`oneflow-emit-triton`: kernels to Triton source, the entry to a plan of launches, both as attributes.

Kernels that no emitter covers are taken apart; an operation that has no Triton form by itself runs on the host.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, TypeVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.legality import expect_formed
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.linalg.external import declarations, read_external, shared_memory
from oneflow.lowering.triton.codegen.kernel import FAILURE, SETUP, Kernel
from oneflow.lowering.triton.codegen.loop_nest import Nest
from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.codegen.movement import emit_fill, emit_insert, emit_nothing
from oneflow.lowering.triton.codegen.scatter import Loops
from oneflow.lowering.triton.early_compilation import announce
from oneflow.lowering.triton.launch.grouped_launches import group_calls, is_grouped
from oneflow.lowering.triton.launch.horizontal_fusion import fuse_horizontally
from oneflow.lowering.triton.launch.plan import Plan
from oneflow.lowering.triton.launch.unsupported import (
    HostKernel,
    computes_once,
    declare_host,
    host_kernel,
    take_apart,
)
from oneflow.lowering.triton.names import AUTOTUNE, CHOICES, DETERMINISTIC, PRECISION, PRECISIONS, SOURCE
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates import hopper_forms, hopper_rows
from oneflow.lowering.triton.templates.outline_templates import TEMPLATE, emit_template
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass

E = TypeVar("E")
#: Most ways of a product that are timed, and most warps of a program.
MOST_CHOICES, MOST_WARPS = 6, 16


@register_pass
@dataclass(frozen=True)
class EmitTriton(Pass):
    """Writes each kernel as Triton source and the entry as a plan.

    A kernel that cannot be written in Triton is taken apart into its operations. One of them that still cannot is a
    program for the host (`oneflow.host`), which the plan runs on copies.

    `deterministic` keeps float additions in order, as does `oneflow.deterministic = "true"` on the module.

    With `autotune`, or `oneflow.autotune = "true"` on the module, kernels of products and of rows have
    `oneflow.choices`: other ways to compute them, of which a device takes the fastest.

    `precision` is that of products of f32: `ieee`, `tf32` (10 bits of mantissa, on tensor cores) or `tf32x3` (three
    such products, nearly f32). Without it the module's `oneflow.precision` says it, or it is `ieee`.

    func.func private @k(%x, %out) {oneflow.kernel = "pointwise"} {..}
      ->   func.func private @k(..) attributes {oneflow.triton = {grid = "8", source = "..", ..}}
    """

    name: ClassVar[str] = "oneflow-emit-triton"
    deterministic: bool = False
    precision: str = ""
    autotune: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Emits every kernel of the module and plans its entry.

        Raises:
            PassError: kernels are not formed yet, or there is no such precision.
        """
        precision = self._precision(module)
        ordered = self.deterministic or _said(module, DETERMINISTIC) == "true"
        write = functools.partial(emit_kernel, deterministic=ordered, precision=precision)
        tuned = self.autotune or _said(module, AUTOTUNE) == "true"
        external = declarations(module)
        entries = [f for f in _functions(module) if "oneflow.kernel" not in f.attributes]
        for entry in entries:
            expect_formed(entry.operation)
        sources, hosts = _cover(module, entries, write)
        names = _kernels(module)
        given = _given_sources(external, registry)
        for entry in entries[:1]:
            written = {name: f for name, f in names.items() if name not in hosts}
            _drop_idle(entry, sources)
            group_calls(module, entry.operation, written, sources, lambda f: _product(f, precision))
            fuse_horizontally(module, entry.operation, written, sources)
            for source in sources.values():
                announce(source)
            host = ["" if name in given else name for name in external]
            shared = {name: shared_memory(of) for name, of in external.items()}
            Plan(entry.operation, written, {**sources, **given}, host, hosts, shared).write(module)
            names |= written
        module.operation.attributes["oneflow.externals"] = ir.ArrayAttr.get(list(external.values()))
        for name, function in names.items():
            if name in sources:
                _declare(function, sources[name], choices_of(function, sources[name], precision) if tuned else [])
            elif name in hosts:
                declare_host(function, hosts[name])
            else:
                function.erase()
        for op in module.body.operations:
            if isinstance(op, func.FuncOp) and op.sym_name.value in given:
                op.attributes[SOURCE] = _attributes(given[op.sym_name.value])

    def _precision(self, module: ir.Module) -> str:
        found = self.precision or _said(module, PRECISION) or "ieee"
        if found not in PRECISIONS:
            raise PassError(f"expected precision to be one of {', '.join(PRECISIONS)}, got {found}")
        return found


def _given_sources(external: Mapping[str, ir.Attribute], registry: Registry) -> dict[str, Source]:
    """Kernels of users that are written in Triton, by the names of the functions they are called as."""
    calls = {name: read_external(str(text), registry) for name, text in external.items()}
    written = {name: call for name, call in calls.items() if call.record.launch is not None}
    return {name: call.record.launch.source(call, name) for name, call in written.items()}


def _said(module: ir.Module, name: str) -> str:
    """A text attribute of the module, empty where it has none."""
    attributes = module.operation.attributes
    return ir.StringAttr(attributes[name]).value if name in attributes else ""


def _functions(module: ir.Module) -> list[func.FuncOp]:
    return [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]


def _kernels(module: ir.Module) -> dict[str, ir.Operation]:
    found = (f for f in _functions(module) if "oneflow.kernel" in f.attributes)
    return {f.sym_name.value: f.operation for f in found}


def _cover(
    module: ir.Module, entries: Sequence[func.FuncOp], write: Callable[[ir.Operation], Source]
) -> tuple[dict[str, Source], dict[str, HostKernel]]:
    """The sources of all kernels, and those that run on the host; kernels that cannot be written are taken apart."""
    sources, reasons = _write(_kernels(module), write)
    apart = {name: f for name, f in _kernels(module).items() if name in reasons and not computes_once(f)}
    if apart:
        for entry in entries:
            take_apart(module, entry, apart)
        pieces = {name: f for name, f in _kernels(module).items() if name not in sources and name not in reasons}
        more, why = _write(pieces, write)
        sources, reasons = {**sources, **more}, {**reasons, **why}
    kernels = {name: f for name, f in _kernels(module).items() if name in reasons and name not in apart}
    return sources, {name: host_kernel(module, f, reasons[name]) for name, f in kernels.items()}


def _write(
    kernels: Mapping[str, ir.Operation], write: Callable[[ir.Operation], Source]
) -> tuple[dict[str, Source], dict[str, str]]:
    """The sources of kernels, and of those that have none the reasons."""
    sources, reasons = {}, {}
    for name, function in kernels.items():
        try:
            sources[name] = write(function)
            if sources[name].special:
                announce(sources[name])
        except Unsupported as reason:
            reasons[name] = str(reason)
    return sources, reasons


def _drop_idle(entry: func.FuncOp, sources: dict[str, Source]) -> None:
    """Erases calls that give nothing and check nothing: what they check is checked where it is read as well."""
    calls = [o for o in entry.entry_block.operations if isinstance(o, func.CallOp) and not o.operation.results]
    idle = {name for name, s in sources.items() if all(p != FAILURE for p, _ in s.parameters)}
    for call in calls:
        if call.callee.value in idle:
            sources.pop(call.callee.value, None)
            call.erase()


def emit_kernel(function: ir.Operation, deterministic: bool = False, precision: str = "ieee") -> Source:
    """The Triton form of a kernel function.

    Raises:
        Unsupported: it has an operation that no emitter covers.
    """
    reasons: dict[str, None] = {}
    for emitter in _emitters(function, deterministic, precision):
        try:
            return emitter()
        except Unsupported as reason:
            reasons[str(reason)] = None
    raise Unsupported("; ".join(reasons))


def _emitters(function: ir.Operation, deterministic: bool, precision: str) -> list[Callable[[], Source]]:
    """What may emit a kernel, the best first."""
    if _gives_nothing(function):
        return [lambda: emit_nothing(Kernel.read(function))]
    if TEMPLATE in function.attributes:
        return [lambda: emit_template(function)]
    names = {o.operation.name for o in function.regions[0].blocks[0].operations} - SETUP - {"func.return"}
    if names == {"scf.for"}:
        return [lambda: Loops(Kernel.read(function), deterministic).emit()]
    if names == {"tensor.insert_slice"}:
        return [lambda: emit_insert(Kernel.read(function))]
    if not names:
        return [lambda: emit_fill(Kernel.read(function))]
    kind = ir.StringAttr(function.attributes["oneflow.kernel"]).value
    product = functools.partial(Contraction, precision=precision)
    found = [lambda: _in_both_forms(_structured(function, product))] if kind == "contraction" else []
    return [*found, lambda: _with_long_rows(_structured(function, Nest))]


def _in_both_forms(product: Contraction) -> Source:
    """The source of a product, with that for Hopper where there is one."""
    return replace(product.emit(), special=hopper_forms.special(product))


def _gives_nothing(function: ir.Operation) -> bool:
    """Whether a kernel only gives tensors without elements."""
    kinds = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    return bool(kinds) and all(k.has_static_shape and 0 in k.shape for k in kinds)


def _with_long_rows(nest: Nest) -> Source:
    """The source of a nest, with that for Hopper where its rows are long."""
    return replace(nest.emit(), special=hopper_rows.special(nest))


def _structured(function: ir.Operation, emitter: Callable[[Kernel, Structure], E]) -> E:
    kernel = Kernel.read(function)
    return emitter(kernel, kernel.structure())


def choices_of(function: ir.Operation, source: Source, precision: str = "ieee") -> list[Source]:
    """Other ways to compute a kernel than its source: blocks of a product, warps of rows; none for other kernels.

    A kernel whose positions come from data has none: it may only run on data that it was given.
    """
    plain = replace(source, special={})
    kind = ir.StringAttr(function.attributes["oneflow.kernel"]).value
    together = kind == "contraction" and is_grouped(function)
    if kind not in ("contraction", "row") or together or any(name == FAILURE for name, _ in source.parameters):
        return []
    found = _products(function, precision) if kind == "contraction" else []
    if plain not in found:
        found = [replace(plain, warps=w) for w in (plain.warps // 2, plain.warps * 2) if 1 <= w <= MOST_WARPS]
    return [other for other in found if other != plain]


def _products(function: ir.Operation, precision: str) -> list[Source]:
    """The sources of a product, those expected to be fastest first; none where it is computed otherwise."""
    product = _product(function, precision)
    configs = islice(product.choices(product.shape), MOST_CHOICES) if product else ()
    return [product.emit_as(config) for config in configs] if product else []


def _product(function: ir.Operation, precision: str) -> Contraction | None:
    """A kernel as a product, None where it is computed otherwise."""
    try:
        product = _structured(function, functools.partial(Contraction, precision=precision))
        product.emit()
        return product
    except Unsupported:
        return None


def _declare(function: ir.Operation, source: Source, choices: Sequence[Source]) -> None:
    """Leaves a declaration with the source, and other ones, as attributes."""
    kind = function.attributes["function_type"]
    name = function.attributes["sym_name"]
    with ir.InsertionPoint(function), function.location:
        made = func.FuncOp(ir.StringAttr(name).value, ir.TypeAttr(kind).value, visibility="private")
    made.attributes["oneflow.kernel"] = function.attributes["oneflow.kernel"]
    made.attributes[SOURCE] = _attributes(source)
    if choices:
        made.attributes[CHOICES] = ir.ArrayAttr.get([_attributes(other) for other in choices])
    function.erase()


def _attributes(source: Source) -> ir.Attribute:
    return ir.DictAttr.get({k: _attribute(v) for k, v in source.to_dict().items() if k != "name"})


def _attribute(value: object) -> ir.Attribute:
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.StringAttr.get(value if isinstance(value, str) else json.dumps(value))
