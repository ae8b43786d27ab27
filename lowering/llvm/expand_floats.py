"""`oneflow-expand-floats`: floating-point operations that the target has no instructions for.

LLVM would call scalar functions of a compiler's runtime library, which a process need not have. Here an f64 becomes a
float of 8 or 16 bits with one rounding. Integer arithmetic converts floats of 8 bits (fp8), and f16 where the target
has no conversions. A fused multiply-add becomes several operations where the target has no FMA.

Input and output are functions on scalars and vectors, after `oneflow-emit-kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.narrow_floats import NARROW_FLOATS
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm import float_conversions
from oneflow.lowering.llvm.inlined_functions import call_inlined, float_shape
from oneflow.lowering.llvm.widen_floats import converted, element_of, widened
from oneflow.lowering.targets.cpu import CpuTarget
from oneflow.lowering.targets.selection import cpu_target
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: Functions for conversions that a target may have no instructions for, by element types.
CONVERSIONS: dict[tuple[str, str], Callable[..., str]] = {
    **{(n.name, "f32"): partial(float_conversions.f32_of, narrow=n) for n in NARROW_FLOATS},
    **{("f32", n.name): partial(float_conversions.narrow_of_f32, narrow=n) for n in NARROW_FLOATS},
}
#: Functions for fused multiply-add without FMA instructions.
FUSED = {"f32": float_conversions.fma_f32, "f64": float_conversions.fma_f64}


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
        for op in gather(module.operation, _converts):
            _expand_conversion(module, op, target, defined)
        for op in gather(module.operation, lambda op: op.name == "math.fma") if not target.has_fma else ():
            element = element_of(op.results[0].type)
            if element in FUSED:
                _call(module, op, FUSED[element], f"fma_{element}", defined)


def _converts(op: ir.Operation) -> bool:
    """Whether an operation converts floats, scalars or vectors of one dimension."""
    return op.name in ("arith.extf", "arith.truncf") and element_of(op.results[0].type) != ""


def _expand_conversion(module: ir.Module, op: ir.Operation, target: CpuTarget, defined: set[str]) -> None:
    """Expands a conversion of floats of 8 or 16 bits."""
    source, result = element_of(op.operands[0].type), element_of(op.results[0].type)
    steps = [op] if "f32" in (source, result) else _split(op)
    if source == "f64" and len(steps) > 1:
        _call(module, steps.pop(0), float_conversions.f32_odd_of_f64, "f32_odd_of_f64", defined)
    for step in steps:
        types = element_of(step.operands[0].type), element_of(step.results[0].type)
        if types in CONVERSIONS and not ("f16" in types and target.has_f16):
            _call(module, step, CONVERSIONS[types], f"{types[1]}_of_{types[0]}", defined)


def _split(op: ir.Operation) -> list[ir.Operation]:
    """Replaces a conversion by a conversion to f32 and a conversion from f32."""
    source, result = op.operands[0].type, op.results[0].type
    with ir.InsertionPoint(op), op.location:
        f32 = converted(
            "arith.truncf" if element_of(source) == "f64" else "arith.extf", op.operands[0], widened(source)
        )
        last = converted("arith.extf" if element_of(result) == "f64" else "arith.truncf", f32, result)
    op.results[0].replace_all_uses_with(last)
    op.erase()
    return [f32.owner, last.owner]


def _call(module: ir.Module, op: ir.Operation, function: Callable[..., str], name: str, defined: set[str]) -> None:
    """Replaces an operation by a call of the function called `name`, whose body `function` writes."""
    shape = float_shape(op.operands[0].type)
    if shape is not None:
        call_inlined(module, op, function, f"oneflow_{name}_{shape[1]}", defined)
