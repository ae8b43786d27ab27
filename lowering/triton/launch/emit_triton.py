"""`oneflow-emit-triton`: kernels become Triton source, the entry becomes a plan of launches; both are attributes.

A kernel that no emitter supports is split into its operations. An operation that has no Triton form runs on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, TypeVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import OperatorError, Registry
from oneflow.lowering.kernels.legality import check_kernels_formed
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.linalg.control import BODY
from oneflow.lowering.linalg.control_declarations import bodies_in_order, read_controls
from oneflow.lowering.linalg.external import declarations, in_place_pairs, read_external
from oneflow.lowering.options import AUTOTUNE, DETERMINISTIC, PRECISIONS
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import SETUP, Kernel
from oneflow.lowering.triton.codegen.loop_nest import LoopNest
from oneflow.lowering.triton.codegen.matmul import Contraction, precision_at
from oneflow.lowering.triton.codegen.movement import emit_fill, emit_insert, emit_nothing
from oneflow.lowering.triton.codegen.scatter import ScatterNest
from oneflow.lowering.triton.early_compilation import announce
from oneflow.lowering.triton.launch.grouped_launches import group_calls, is_grouped
from oneflow.lowering.triton.launch.horizontal_fusion import fuse_horizontally
from oneflow.lowering.triton.launch.plan import BodyPlan, Plan
from oneflow.lowering.triton.launch.unsupported import (
    HostKernel,
    declare_host,
    host_kernel,
    is_one_operation,
    split_kernels,
)
from oneflow.lowering.triton.names import SOURCE, TUNING_CANDIDATES
from oneflow.lowering.triton.source import FAILURE, Source
from oneflow.lowering.triton.templates import hopper_matmul, hopper_rows
from oneflow.lowering.triton.templates.outline_templates import TEMPLATE, emit_template
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass

E = TypeVar("E")
#: The most candidates of a product that are timed.
MAX_CANDIDATES = 6


@register_pass
@dataclass(frozen=True)
class EmitTriton(Pass):
    """Writes each kernel as Triton source and the entry as a plan.

    A kernel that cannot be written in Triton is split into its operations. An operation that cannot be written in
    Triton becomes a program for the host (`oneflow.host`), which the plan runs on copies of the operands.

    `deterministic` keeps float additions in order, as does `oneflow.deterministic = "true"` on the module.

    With `autotune`, or `oneflow.autotune = "true"` on the module, matrix products and row kernels have
    `oneflow.tuning_candidates`: the sources of other candidate configurations. The device times the candidates.

    `precision` is the precision of f32 matrix products: `ieee`, `tf32` (10 bits of mantissa, on tensor cores) or
    `tf32x3` (three tf32 products, nearly f32). The default is the module's `oneflow.precision`, else `ieee`.

        func.func private @k(%x, %out) {oneflow.kernel = "pointwise"} {..}
          ->   func.func private @k(..) attributes {oneflow.triton = {body = [..], grid = 8, ..}}
    """

    name: ClassVar[str] = "oneflow-emit-triton"
    deterministic: bool = False
    precision: str = ""
    autotune: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Emits every kernel of the module and plans its entry.

        Raises:
            PassError: kernels are not formed yet, or the precision is unknown.
        """
        precision = self._precision(module)
        deterministic = self.deterministic or _text_attribute(module, DETERMINISTIC) == "true"
        write = functools.partial(emit_kernel, deterministic=deterministic, precision=precision)
        autotune = self.autotune or _text_attribute(module, AUTOTUNE) == "true"
        external = declarations(module)
        entries = [f for f in _functions(module) if "oneflow.kernel" not in f.attributes]
        for entry in entries:
            check_kernels_formed(entry.operation)
        sources, hosts = _sources_of(module, entries, write)
        kernels = _kernels(module)
        user_sources = _user_sources(external, registry)
        on_device = {name: f for name, f in kernels.items() if name not in hosts}
        bodies, planned = bodies_in_order(module), _planned(entries)
        _merge_launches(module, planned, on_device, sources, precision)
        for source in sources.values() if planned else ():
            announce(source)
        host = ["" if name in user_sources else name for name in external]
        shared = {name: in_place_pairs(of) for name, of in external.items()}
        called = {
            "functions": on_device, "sources": {**sources, **user_sources}, "external": host, "hosts": hosts,
            "in_place": shared, "controls": read_controls(module), "constants": [],
        }  # fmt: skip
        _write_plans(module, planned, bodies, called)
        module.operation.attributes["oneflow.externals"] = ir.ArrayAttr.get(list(external.values()))
        for name, function in {**kernels, **on_device}.items():
            if name in sources:
                source = sources[name]
                _declare(function, source, candidates_of(function, source, precision) if autotune else [])
            elif name in hosts:
                declare_host(function, hosts[name])
            else:
                function.erase()
        for op in module.body.operations:
            if isinstance(op, func.FuncOp) and op.sym_name.value in user_sources:
                op.attributes[SOURCE] = _attributes(user_sources[op.sym_name.value])

    def _precision(self, module: ir.Module) -> str:
        chosen = self.precision or precision_at(module.operation)
        if chosen not in PRECISIONS:
            raise PassError(f"expected precision to be one of {', '.join(PRECISIONS)}, got {chosen}")
        return chosen


def _planned(entries: Sequence[func.FuncOp]) -> list[func.FuncOp]:
    """The bodies, and the single entry, which is planned after the bodies."""
    bodies = [e for e in entries if BODY in e.attributes]
    return [*bodies, *[e for e in entries if BODY not in e.attributes][:1]]


def _merge_launches(
    module: ir.Module, planned: Sequence[func.FuncOp], functions: dict[str, ir.Operation], sources: dict[str, Source],
    precision: str,
) -> None:  # fmt: skip
    """Merges launches of entries: adds merged kernels to `functions` and `sources`, and drops replaced sources."""
    uncalled = set(sources) - _called(module)
    for entry in planned:
        _erase_calls_without_effect(entry, sources)
        group_calls(module, entry.operation, functions, sources, lambda f: _product(f, precision))
        fuse_horizontally(module, entry.operation, functions, sources)
    for name in set(sources) - _called(module) - uncalled:
        del sources[name]


def _write_plans(
    module: ir.Module, planned: Sequence[func.FuncOp], bodies: Sequence[str], called: Mapping[str, Any]
) -> None:
    """Writes the plans of the entry and of the bodies; each plan follows the plans of the bodies that it runs.

    `called` has the fields of `Plan` about called functions, and the constants of all plans.
    """
    functions = {entry.sym_name.value: entry.operation for entry in planned}
    workspaces: dict[str, int] = {}
    texts: list[str] = []
    for name in bodies:
        body = BodyPlan(functions.pop(name), **called, workspaces=workspaces)
        texts.append(body.text())
        workspaces[name] = body.workspace
    for entry in functions.values():
        Plan(entry, **called, workspaces=workspaces).write(module, texts)


def _user_sources(external: Mapping[str, ir.Attribute], registry: Registry) -> dict[str, Source]:
    """The sources of users' kernels in Triton, by the names of the functions that the entry calls.

    Raises:
        PassError: an operator is unknown, or a call does not fit its operator.
    """
    try:
        calls = {name: read_external(str(text), registry) for name, text in external.items()}
    except OperatorError as error:
        raise PassError(str(error)) from None
    in_triton = {name: call for name, call in calls.items() if call.record.launch is not None}
    return {name: call.record.launch.source(call, name) for name, call in in_triton.items()}


def _text_attribute(module: ir.Module, name: str) -> str:
    """A text attribute of the module, empty where the module has none."""
    attributes = module.operation.attributes
    return ir.StringAttr(attributes[name]).value if name in attributes else ""


def _functions(module: ir.Module) -> list[func.FuncOp]:
    return [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]


def _kernels(module: ir.Module) -> dict[str, ir.Operation]:
    kernels = (f for f in _functions(module) if "oneflow.kernel" in f.attributes)
    return {f.sym_name.value: f.operation for f in kernels}


def _sources_of(
    module: ir.Module, entries: Sequence[func.FuncOp], write: Callable[[ir.Operation], Source]
) -> tuple[dict[str, Source], dict[str, HostKernel]]:
    """The sources of all kernels, and the kernels that run on the host. Unsupported kernels are split first."""
    sources, reasons = _write(_kernels(module), write)
    to_split = {name: f for name, f in _kernels(module).items() if name in reasons and not is_one_operation(f)}
    if to_split:
        for entry in entries:
            split_kernels(module, entry, to_split)
        single = {name: f for name, f in _kernels(module).items() if name not in sources and name not in reasons}
        more, why = _write(single, write)
        sources, reasons = {**sources, **more}, {**reasons, **why}
    kernels = {name: f for name, f in _kernels(module).items() if name in reasons and name not in to_split}
    return sources, {name: host_kernel(module, f, reasons[name]) for name, f in kernels.items()}


def _write(
    kernels: Mapping[str, ir.Operation], write: Callable[[ir.Operation], Source]
) -> tuple[dict[str, Source], dict[str, str]]:
    """The sources of kernels; for unsupported kernels the reasons."""
    sources, reasons = {}, {}
    for name, function in kernels.items():
        try:
            sources[name] = write(function)
            if sources[name].specializations:
                announce(sources[name])
        except Unsupported as reason:
            reasons[name] = str(reason)
    return sources, reasons


def _called(module: ir.Module) -> set[str]:
    """The names of the functions that any function of a module calls."""
    bodies = [b for f in _functions(module) for region in f.operation.regions for b in region.blocks]
    return {o.callee.value for body in bodies for o in body.operations if isinstance(o, func.CallOp)}


def _erase_calls_without_effect(entry: func.FuncOp, sources: Mapping[str, Source]) -> None:
    """Erases calls without results and run-time checks: users of such a kernel repeat its assertions."""
    calls = [o for o in entry.entry_block.operations if isinstance(o, func.CallOp) and not o.operation.results]
    without_effect = {name for name, s in sources.items() if all(p.name != FAILURE for p in s.parameters)}
    for call in calls:
        if call.callee.value in without_effect:
            call.erase()


def emit_kernel(function: ir.Operation, deterministic: bool = False, precision: str = "ieee") -> Source:
    """The Triton form of a kernel function.

    Raises:
        Unsupported: an operation of the kernel has no Triton form.
    """
    reasons: dict[str, None] = {}
    for emitter in _emitters(function, deterministic, precision):
        try:
            return emitter()
        except Unsupported as reason:
            reasons[str(reason)] = None
    raise Unsupported("; ".join(reasons))


def _emitters(function: ir.Operation, deterministic: bool, precision: str) -> list[Callable[[], Source]]:
    """The emitters that may support a kernel, in order of preference."""
    if _has_empty_result(function):
        return [lambda: emit_nothing(Kernel.read(function))]
    if TEMPLATE in function.attributes:
        return [lambda: emit_template(function)]
    names = {o.operation.name for o in function.regions[0].blocks[0].operations} - SETUP - {"func.return"}
    if names == {"scf.for"}:
        return [lambda: ScatterNest(Kernel.read(function), deterministic).emit()]
    if names == {"tensor.insert_slice"}:
        return [lambda: emit_insert(Kernel.read(function))]
    if not names:
        return [lambda: emit_fill(Kernel.read(function))]
    kind = ir.StringAttr(function.attributes["oneflow.kernel"]).value
    product = functools.partial(Contraction, precision=precision)
    emitters = [lambda: _emit_product(_structured(function, product))] if kind == "contraction" else []
    return [*emitters, lambda: _emit_nest(_structured(function, LoopNest))]


def _emit_product(product: Contraction) -> Source:
    """The source of a product, with the form for Hopper where such a form exists."""
    return replace(product.emit(), specializations=hopper_matmul.hopper_form(product))


def _has_empty_result(function: ir.Operation) -> bool:
    """Whether all results of a kernel are tensors without elements."""
    kinds = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    return bool(kinds) and all(k.has_static_shape and 0 in k.shape for k in kinds)


def _emit_nest(nest: LoopNest) -> Source:
    """The source of a loop nest, with the form for Hopper where its rows are long."""
    return replace(nest.emit(), specializations=hopper_rows.hopper_form(nest))


def _structured(function: ir.Operation, emitter: Callable[[Kernel, Structure], E]) -> E:
    kernel = Kernel.read(function)
    return emitter(kernel, kernel.structure())


def candidates_of(function: ir.Operation, source: Source, precision: str = "ieee") -> list[Source]:
    """Sources for other candidate configurations of a kernel: tiles of a product, warps of a row kernel.

    Other kernels have no candidates. Nor has a kernel that checks positions, whose timing needs the data of a run.
    """
    plain = replace(source, specializations={})
    kind = ir.StringAttr(function.attributes["oneflow.kernel"]).value
    grouped = kind == "contraction" and is_grouped(function)
    if kind not in ("contraction", "row") or grouped or any(p.name == FAILURE for p in source.parameters):
        return []
    candidates = _product_candidates(function, precision) if kind == "contraction" else []
    if plain not in candidates:
        most = gpu_target().kernels.blocks.max_warps
        candidates = [replace(plain, warps=w) for w in (plain.warps // 2, plain.warps * 2) if 1 <= w <= most]
    return [candidate for candidate in candidates if candidate != plain]


def _product_candidates(function: ir.Operation, precision: str) -> list[Source]:
    """The sources of a product by predicted time, fastest first; none where the kernel is no product."""
    product = _product(function, precision)
    configs = islice(product.candidates(product.problem), MAX_CANDIDATES) if product else ()
    return [product.emit_as(config) for config in configs] if product else []


def _product(function: ir.Operation, precision: str) -> Contraction | None:
    """A kernel as a matrix product, None for other kernels."""
    try:
        product = _structured(function, functools.partial(Contraction, precision=precision))
        product.emit()
        return product
    except Unsupported:
        return None


def _declare(function: ir.Operation, source: Source, candidates: Sequence[Source]) -> None:
    """Replaces a function by a declaration with its source and the sources of candidates as attributes."""
    kind = function.attributes["function_type"]
    name = function.attributes["sym_name"]
    with ir.InsertionPoint(function), function.location:
        declaration = func.FuncOp(ir.StringAttr(name).value, ir.TypeAttr(kind).value, visibility="private")
    declaration.attributes["oneflow.kernel"] = function.attributes["oneflow.kernel"]
    declaration.attributes[SOURCE] = _attributes(source)
    if candidates:
        declaration.attributes[TUNING_CANDIDATES] = ir.ArrayAttr.get([_attributes(c) for c in candidates])
    function.erase()


def _attributes(source: Source) -> ir.Attribute:
    return ir.DictAttr.get({k: _attribute(v) for k, v in source.to_dict().items() if k != "name"})


def _attribute(value: Any) -> ir.Attribute:
    """Plain data as an attribute."""
    if isinstance(value, dict):
        return ir.DictAttr.get({str(k): _attribute(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return ir.ArrayAttr.get([_attribute(v) for v in value])
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.StringAttr.get(value)
