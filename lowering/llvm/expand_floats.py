"""`oneflow-expand-floats`: floating-point operations that the target has no instructions for.

LLVM would call scalar functions of a compiler's runtime library, which a process need not have. Here an f64 becomes a
16-bit float with one rounding, f16 is converted by integer arithmetic where the target has no conversions, and a
fused multiply-add becomes several operations where the target has no FMA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm import roundings
from oneflow.lowering.llvm.inlined import call_inlined, shape_of
from oneflow.lowering.llvm.widen_floats import NARROW, converted, element_of, widened
from oneflow.lowering.targets.choice import cpu_target
from oneflow.lowering.targets.cpu import CpuTarget
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: Functions for conversions that the target has no instructions for, by element types.
CONVERTED = {("f16", "f32"): roundings.f32_of_f16, ("f32", "f16"): roundings.f16_of_f32}
#: Functions for fused multiply-add without FMA instructions.
FUSED = {"f32": roundings.fma_f32, "f64": roundings.fma_f64}


@register_pass
@dataclass(frozen=True)
class ExpandFloats(Pass):
    """Replaces floating-point operations that the target has no instructions for.

    %y = arith.truncf %x : vector<8xf32> to vector<8xf16>   ->   %y = call @oneflow_truncf_f32_f16_8(%x) : ..
    """

    name: ClassVar[str] = "oneflow-expand-floats"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        target = cpu_target()
        defined: set[str] = set()
        for op in gather(module.operation, lambda op: op.name in ("arith.extf", "arith.truncf")):
            _expand_conversion(module, op, target, defined)
        for op in gather(module.operation, lambda op: op.name == "math.fma") if not target.has_fma else ():
            _call(module, op, FUSED.get(element_of(op.results[0].type)), defined)


def _expand_conversion(module: ir.Module, op: ir.Operation, target: CpuTarget, defined: set[str]) -> None:
    """Expands a conversion of 16-bit floats."""
    source, result = element_of(op.operands[0].type), element_of(op.results[0].type)
    if source == "f64" and result in NARROW:
        with ir.InsertionPoint(op), op.location:
            odd = converted("arith.truncf", op.operands[0], widened(op.results[0].type))
            op.operands[0] = odd
        _call(module, odd.owner, roundings.f32_odd_of_f64, defined)
        source = "f32"
    elif source == "f16" and result == "f64":
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = wide = converted("arith.extf", op.operands[0], widened(op.operands[0].type))
        op, result = wide.owner, "f32"
    if not target.has_f16:
        _call(module, op, CONVERTED.get((source, result)), defined)


def _call(module: ir.Module, op: ir.Operation, function: Callable[..., str] | None, defined: set[str]) -> None:
    """Replaces an operation by a call of `function`, if there is one for its types."""
    shape = shape_of(op.operands[0].type)
    if function is not None and shape is not None:
        call_inlined(module, op, function, f"oneflow_{function.__name__}_{shape[1]}", defined)
