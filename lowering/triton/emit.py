"""`oneflow-emit-triton`: kernels to Triton source, the entry to a plan of launches, both as attributes.

Imports the emitters and `plan`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.expect import expect_formed
from oneflow.lowering.kernels.nodes import Uncovered, analyse
from oneflow.lowering.linalg.external import declarations
from oneflow.lowering.triton.access import read_any_node
from oneflow.lowering.triton.contract import Contraction
from oneflow.lowering.triton.group import group_calls
from oneflow.lowering.triton.kernel import Kernel
from oneflow.lowering.triton.loops import Loops
from oneflow.lowering.triton.movement import emit_fill, emit_insert
from oneflow.lowering.triton.names import SOURCE
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
    """Writes each kernel as Triton source and the entry as a plan; `deterministic` keeps float additions in order.

    func.func private @k(%x, %out) {oneflow.kernel = "pointwise"} {..}
      ->   func.func private @k(..) attributes {oneflow.triton = {grid = "8", source = "..", ..}}
    """

    name: ClassVar[str] = "oneflow-emit-triton"
    deterministic: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Emits every kernel of the module and plans its entry.

        Raises:
            PassError: a kernel has an operation that no emitter covers, or kernels are not formed yet.
        """
        external = declarations(module)
        functions = [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]
        kernels = [f.operation for f in functions if "oneflow.kernel" in f.attributes]
        entries = [f.operation for f in functions if "oneflow.kernel" not in f.attributes]
        for entry in entries:
            expect_formed(entry)
        sources = {}
        for function in kernels:
            source = emit_kernel(function, self.deterministic)
            sources[source.name] = source
        names = {ir.StringAttr(k.attributes["sym_name"]).value: k for k in kernels}
        for entry in entries[:1]:
            group_calls(module, entry, names, sources)
            Plan(entry, names, sources, list(external)).write(module)
        module.operation.attributes["oneflow.externals"] = ir.ArrayAttr.get(list(external.values()))
        for name, function in names.items():
            if name in sources:
                _declare(function, sources[name])
            else:
                function.erase()


def emit_kernel(function: ir.Operation, deterministic: bool = False) -> Source:
    """The Triton form of a kernel function.

    Raises:
        PassError: it has an operation that no emitter covers.
    """
    reasons = []
    for emitter in _emitters(function, deterministic):
        try:
            return emitter()
        except Uncovered as reason:
            reasons.append(str(reason))
    name = ir.StringAttr(function.attributes["sym_name"]).value
    raise PassError(f"expected a kernel that can be written in Triton, @{name} has {'; '.join(reasons)}")


def _emitters(function: ir.Operation, deterministic: bool) -> list[Callable[[], Source]]:
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
    found = [lambda: _nest(function, Contraction)] if kind == "contraction" else []
    return [*found, lambda: _nest(function, Nest)]


def _nest(function: ir.Operation, emitter: type[Nest] | type[Contraction]) -> Source:
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
    made.attributes[SOURCE] = ir.DictAttr.get({k: _attribute(v) for k, v in source.to_dict().items() if k != "name"})
    function.erase()


def _attribute(value: object) -> ir.Attribute:
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.StringAttr.get(value if isinstance(value, str) else json.dumps(value))
