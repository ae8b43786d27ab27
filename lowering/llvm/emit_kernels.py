"""`oneflow-emit-kernels`: emits kernels on tensors as vector loops on memory, and each entry as a plan.

Input is the stage `kernels`: functions on tensors. Output is functions on memrefs, vectors and `scf`, and plans on
addresses, which MLIR's passes lower to the LLVM dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.legality import check_kernels_formed
from oneflow.lowering.kernels.nodes import Structure, Unsupported, analyse, read_node
from oneflow.lowering.linalg.control import BODY
from oneflow.lowering.linalg.control_declarations import bodies_in_order, read_controls
from oneflow.lowering.linalg.external import declarations, in_place_pairs
from oneflow.lowering.llvm.bufferize import bufferize
from oneflow.lowering.llvm.contraction import emit_contraction
from oneflow.lowering.llvm.donation import CalledFunctions, checking_kernels
from oneflow.lowering.llvm.dot_products import emit_dot_products
from oneflow.lowering.llvm.insert_slices import emit_insert_slices
from oneflow.lowering.llvm.integer_products import emit_integer_products
from oneflow.lowering.llvm.interleaved_nest import emit_interleaved
from oneflow.lowering.llvm.kernel import Kernel, compute_operations, read_kernel
from oneflow.lowering.llvm.nan_comparisons import join_nan_comparisons
from oneflow.lowering.llvm.plan import Plan, plan_of_body, plan_of_entry
from oneflow.lowering.llvm.plan_symbols import KERNEL_RUNTIME, PLAN_RUNTIME, RUNTIME_PREFIX, plan_declaration
from oneflow.lowering.llvm.skinny_contraction import emit_skinny_contraction
from oneflow.lowering.llvm.transpose_nest import emit_transposes
from oneflow.lowering.llvm.vectorized_nest import (
    emit_inner_vectorized,
    emit_outer_vectorized,
    emit_scalars,
    emit_short_rows,
)
from oneflow.lowering.llvm.writer import reference
from oneflow.passes.base import Pass, PassError
from oneflow.passes.inline import functions_of
from oneflow.passes.registry import register_pass

_NEST_EMITTERS = (
    emit_short_rows, emit_inner_vectorized, emit_interleaved, emit_outer_vectorized, emit_transposes, emit_scalars,
)  # fmt: skip
#: Emitters by kind of kernel, tried in order.
EMITTERS: dict[str, tuple[Callable[[Kernel, Structure], str], ...]] = {
    "pointwise": _NEST_EMITTERS,
    "row": _NEST_EMITTERS,
    "movement": _NEST_EMITTERS,
    "contraction": (
        emit_integer_products,
        emit_dot_products,
        emit_skinny_contraction,
        emit_contraction,
        *_NEST_EMITTERS,
    ),
    "loops": (),
}


@register_pass
@dataclass(frozen=True)
class EmitKernels(Pass):
    """Writes kernels as loops over vectors and memory, and each entry as a plan of buffers and launches.

    func.func private @k(%x: tensor<8xf32>, ..)   ->   func.func private @k(%p0: memref<1xi8>, .., %lo, %hi)
    """

    name: ClassVar[str] = "oneflow-emit-kernels"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Replaces every function of the module."""
        join_nan_comparisons(module)
        functions = [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]
        kernels = [read_kernel(f.operation) for f in functions if "oneflow.kernel" in f.attributes]
        entries = [f.operation for f in functions if "oneflow.kernel" not in f.attributes]
        for entry in entries:
            check_kernels_formed(entry)
        texts = [emit_kernel(k) for k in kernels]
        unsupported = [k for k, text in zip(kernels, texts, strict=True) if text is None]
        external = declarations(module)
        called = CalledFunctions({k.name: k for k in kernels}, list(external), frozenset(k.name for k in unsupported),
                      checking_kernels(module, kernels),
                      {name: pairs for name, of in external.items() if (pairs := in_place_pairs(of))},
                      read_controls(module))  # fmt: skip
        plans, bodies = _plans(module, entries, called)
        attributes = plans[0].module_attributes() if plans else {}
        bufferized = bufferize(unsupported, KERNEL_RUNTIME) if unsupported else None
        declared = [f"func.func private {reference(k.name + '_launch')}({k.types()})" for k in unsupported]
        emitted = [text for text in texts if text is not None]
        declared += [plan_declaration(f"{k.name}_launch", k.types()) for k in kernels]
        emitted_module = ir.Module.parse(
            "\n".join([KERNEL_RUNTIME, *PLAN_RUNTIME, *emitted, *declared, *(p.emit() for p in (*bodies, *plans))])
        )
        _replace(module, emitted_module, bufferized)
        module.operation.attributes["oneflow.externals"] = ir.ArrayAttr.get(list(external.values()))
        for name, value in attributes.items():
            module.operation.attributes[name] = value


def _plans(
    module: ir.Module, entries: Sequence[ir.Operation], called: CalledFunctions
) -> tuple[list[Plan], list[Plan]]:
    """The plans of the entries, and the plans of the bodies that they run."""
    bodies: list[Plan] = []
    functions = functions_of(module)
    for name in bodies_in_order(module):
        bodies.append(plan_of_body(functions[name], called))
        called = replace(called, workspaces={**called.workspaces, name: bodies[-1].workspace})
    return [plan_of_entry(entry, called) for entry in entries if BODY not in entry.attributes], bodies


def emit_kernel(kernel: Kernel) -> str | None:
    """The functions of a kernel as MLIR text, or None where no emitter covers the kernel.

    Raises:
        PassError: the kind of the kernel is unknown.
    """
    kind = ir.StringAttr(kernel.func.attributes["oneflow.kernel"]).value
    try:
        ops = compute_operations(kernel)
        if ops and all(op.name == "tensor.insert_slice" for op in ops):
            return emit_insert_slices(kernel)
        structure = analyse([read_node(op) for op in ops]) if ops else None
    except Unsupported:
        return None
    if structure is None:
        return None
    if kind not in EMITTERS:
        known = ", ".join(EMITTERS)
        raise PassError(f"expected oneflow.kernel to be one of {known}, got {kind!r}", kernel.func.location)
    for emitter in EMITTERS[kind]:
        try:
            return emitter(kernel, structure)
        except Unsupported:
            continue
    return None


def _is_runtime(op: ir.Operation) -> bool:
    """Whether a function is one of the runtime."""
    name = op.attributes.get("sym_name")
    return name is not None and ir.StringAttr(name).value.startswith(RUNTIME_PREFIX)


def _replace(module: ir.Module, emitted_module: ir.Module, bufferized: ir.Module | None) -> None:
    """Replaces the functions of the module by the emitted and the bufferized functions."""
    launches = [o.operation for o in bufferized.body.operations] if bufferized is not None else []
    launches = [op for op in launches if not _is_runtime(op)]
    for op in [o.operation for o in module.body.operations]:
        op.erase()
    names = {ir.StringAttr(op.attributes["sym_name"]).value for op in launches}
    for op in [o.operation for o in emitted_module.body.operations]:
        if ir.StringAttr(op.attributes["sym_name"]).value not in names:
            module.body.append(op)
    for op in launches:
        module.body.append(op)
