"""`oneflow-emit-triton`: kernels to Triton source, the entry to a plan of launches, both as attributes.

Imports the emitters and `plan`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.expect import expect_formed
from oneflow.lowering.kernels.nodes import Structure, Uncovered, analyse
from oneflow.lowering.linalg.external import declarations, read_external
from oneflow.lowering.triton.access import read_any_node
from oneflow.lowering.triton.contract import Contraction
from oneflow.lowering.triton.group import group_calls
from oneflow.lowering.triton.kernel import Kernel
from oneflow.lowering.triton.loops import Loops
from oneflow.lowering.triton.movement import emit_fill, emit_insert
from oneflow.lowering.triton.names import DETERMINISTIC, PRECISION, PRECISIONS, SOURCE
from oneflow.lowering.triton.nest import Nest
from oneflow.lowering.triton.plan import Plan
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates import TEMPLATE, emit_template
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass

#: Operations that only prepare what others use.
SETUP = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.dim"})


@register_pass
@dataclass(frozen=True)
class EmitTriton(Pass):
    """Writes each kernel as Triton source and the entry as a plan.

    `deterministic` keeps float additions in order, as does `oneflow.deterministic = "true"` on the module.

    `precision` is that of products of f32: `ieee`, `tf32` (10 bits of mantissa, on tensor cores) or `tf32x3` (three
    such products, nearly f32). Without it the module's `oneflow.precision` says it, or it is `ieee`.

    func.func private @k(%x, %out) {oneflow.kernel = "pointwise"} {..}
      ->   func.func private @k(..) attributes {oneflow.triton = {grid = "8", source = "..", ..}}
    """

    name: ClassVar[str] = "oneflow-emit-triton"
    deterministic: bool = False
    precision: str = ""

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Emits every kernel of the module and plans its entry.

        Raises:
            PassError: a kernel has an operation that no emitter covers, kernels are not formed yet, or there is no
                such precision.
        """
        precision, ordered = self._precision(module), self.deterministic or _said(module, DETERMINISTIC) == "true"
        external = declarations(module)
        functions = [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]
        kernels = [f.operation for f in functions if "oneflow.kernel" in f.attributes]
        entries = [f.operation for f in functions if "oneflow.kernel" not in f.attributes]
        for entry in entries:
            expect_formed(entry)
        sources = {}
        for function in kernels:
            source = emit_kernel(function, ordered, precision)
            sources[source.name] = source
        names = {ir.StringAttr(k.attributes["sym_name"]).value: k for k in kernels}
        given = _given_sources(external, registry)
        for entry in entries[:1]:
            group_calls(module, entry, names, sources)
            host = ["" if name in given else name for name in external]
            Plan(entry, names, {**sources, **given}, host).write(module)
        module.operation.attributes["oneflow.externals"] = ir.ArrayAttr.get(list(external.values()))
        for name, function in names.items():
            if name in sources:
                _declare(function, sources[name])
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
    written = {name: call for name, call in calls.items() if call.record.triton is not None}
    return {name: call.record.triton.source(call, name) for name, call in written.items()}


def _said(module: ir.Module, name: str) -> str:
    """A text attribute of the module, empty where it has none."""
    attributes = module.operation.attributes
    return ir.StringAttr(attributes[name]).value if name in attributes else ""


def emit_kernel(function: ir.Operation, deterministic: bool = False, precision: str = "ieee") -> Source:
    """The Triton form of a kernel function.

    Raises:
        PassError: it has an operation that no emitter covers.
    """
    reasons = []
    for emitter in _emitters(function, deterministic, precision):
        try:
            return emitter()
        except Uncovered as reason:
            reasons.append(str(reason))
    name = ir.StringAttr(function.attributes["sym_name"]).value
    raise PassError(f"expected a kernel that can be written in Triton, @{name} has {'; '.join(reasons)}")


def _emitters(function: ir.Operation, deterministic: bool, precision: str) -> list[Callable[[], Source]]:
    """What may emit a kernel, the best first."""
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
    found = [lambda: _nest(function, product)] if kind == "contraction" else []
    return [*found, lambda: _nest(function, Nest)]


def _nest(function: ir.Operation, emitter: Callable[[Kernel, Structure], Nest | Contraction]) -> Source:
    kernel = Kernel.read(function)
    nodes = [read_any_node(op) for op in kernel.ops if op.name not in SETUP]
    structure = analyse(nodes) or analyse(nodes, siblings=True)
    if structure is None:
        raise Uncovered("operations that share no loops")
    return emitter(kernel, structure).emit()


def _declare(function: ir.Operation, source: Source) -> None:
    """Leaves a declaration with the source as an attribute."""
    kind = function.attributes["function_type"]
    name = function.attributes["sym_name"]
    with ir.InsertionPoint(function), function.location:
        made = func.FuncOp(ir.StringAttr(name).value, ir.TypeAttr(kind).value, visibility="private")
    made.attributes["oneflow.kernel"] = function.attributes["oneflow.kernel"]
    made.attributes[SOURCE] = _attributes(source)
    function.erase()


def _attributes(source: Source) -> ir.Attribute:
    return ir.DictAttr.get({k: _attribute(v) for k, v in source.to_dict().items() if k != "name"})


def _attribute(value: object) -> ir.Attribute:
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.StringAttr.get(value if isinstance(value, str) else json.dumps(value))
